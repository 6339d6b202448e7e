//! Which checks a launch runs under.

use std::str::FromStr;

/// Checks that no hardware has, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks(u8);

impl Checks {
    /// Two wavefronts touch the same bytes, one writing, with nothing between them that orders them.
    pub const RACES: Checks = Checks(1);
    /// What nothing wrote decides an address, a branch or a result.
    pub const UNINITIALISED: Checks = Checks(2);
    /// A register or the LDS is used before the wait or the wait states that make it valid.
    pub const WAITS: Checks = Checks(4);
    /// Wavefronts and streams run in a drawn order.
    pub const ORDER: Checks = Checks(8);
    /// Wavefronts see memory through caches that only the program's own instructions keep alike.
    pub const CACHES: Checks = Checks(16);

    /// Each check with its word.
    pub const NAMES: [(&'static str, Checks); 5] = [
        ("races", Checks::RACES),
        ("uninitialised", Checks::UNINITIALISED),
        ("waits", Checks::WAITS),
        ("order", Checks::ORDER),
        ("caches", Checks::CACHES),
    ];

    /// Whether all of `others` are among these.
    pub fn has(self, others: Checks) -> bool {
        self.0 & others.0 == others.0
    }

    /// Both sets.
    pub const fn with(self, others: Checks) -> Checks {
        Checks(self.0 | others.0)
    }

    /// Those that look at every instruction.
    pub(crate) fn watch(self) -> bool {
        self.0 & !Checks::ORDER.0 != 0
    }
}

impl FromStr for Checks {
    type Err = String;

    /// Words separated by commas.
    fn from_str(text: &str) -> Result<Checks, String> {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        words
            .into_iter()
            .try_fold(Checks::default(), |found, word| {
                let row = Checks::NAMES.iter().find(|row| row.0 == word);
                let known = || Checks::NAMES.map(|row| row.0).join(", ");
                row.map(|row| found.with(row.1))
                    .ok_or_else(|| format!("no check is named {word:?}; there are {}", known()))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::Checks;

    #[test]
    fn words_make_a_set() {
        assert_eq!("".parse(), Ok(Checks::default()));
        assert_eq!(
            " races,waits".parse(),
            Ok(Checks::RACES.with(Checks::WAITS))
        );
        let error = "race".parse::<Checks>().unwrap_err();
        assert!(
            error.contains("\"race\"") && error.contains("uninitialised"),
            "{error}"
        );
    }
}
