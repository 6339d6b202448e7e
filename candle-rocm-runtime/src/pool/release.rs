//! What a pool gives back to the driver, and when.
//!
//! At a synchronisation, as CUDA's pool does, what is held beyond the release threshold goes back, as far as whole
//! segments are idle. A loop that synchronises at each step would get the memory of a step's temporary tensors from the
//! driver again at each step, which takes some 50 us a GiB on an H200; once it did, as much stays as a step uses, until
//! some steps in a row have not used it: a loop may have steps of several kinds, such as prompts and tokens, and wait
//! more than once in each.
//!
//! Between synchronisations a pool asks for no more than an eighth beyond what was in use at most, as long as idle
//! segments can go back instead.

/// The variable that sets the release threshold: bytes, with `KiB`, `MiB` or `GiB` behind the number, or `max`.
pub const THRESHOLD_VARIABLE: &str = candle_rocm_variables::POOL_THRESHOLD.name;

/// Held beyond what was in use at most, whatever that was.
const SLACK: usize = 32 << 20;
/// Synchronisations in a row that use less than was kept, after which the rest goes back.
const PATIENCE: u32 = 8;

/// The state of these decisions. All figures are bytes.
#[derive(Debug, Default)]
pub(super) struct Release {
    threshold: usize,
    /// The most in use since the last synchronisation, and between the two before.
    peaks: [usize; 2],
    /// In use at the last synchronisation.
    in_use: usize,
    /// Segments that the temporary tensors of a step use, where the driver was asked again for what a synchronisation
    /// gave back.
    working: usize,
    /// How many synchronisations ago so much was used.
    unused: u32,
    /// A synchronisation gave memory back, and the driver was not asked since.
    gave_back: bool,
    /// The driver was asked for memory since the last synchronisation,
    grew: bool,
    /// and some of it had been given back.
    asked_again: bool,
}

/// What a synchronisation asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Bytes of idle segments that stay, beyond what the threshold lets stay.
    pub keep: usize,
    /// Most of what was in use is not any more: small blocks kept for requests of their size go, too.
    pub settle: bool,
}

impl Release {
    pub fn new(threshold: usize) -> Self {
        Self {
            threshold,
            ..Self::default()
        }
    }

    /// What may be held after a synchronisation.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    pub fn set_threshold(&mut self, bytes: usize) {
        self.threshold = bytes;
    }

    /// So much is in use now.
    #[inline]
    pub fn note_in_use(&mut self, bytes: usize) {
        self.peaks[0] = self.peaks[0].max(bytes);
    }

    /// The driver is asked for memory.
    pub fn note_driver_allocation(&mut self) {
        self.grew = true;
        self.asked_again |= std::mem::take(&mut self.gave_back);
    }

    /// A synchronisation gave memory back to the driver.
    pub fn note_given_back(&mut self) {
        self.gave_back = true;
    }

    /// How much may be held, idle segments included, if so much is in use.
    pub fn most_held(&self, in_use: usize) -> usize {
        let peak = in_use.max(self.peaks[0]).max(self.peaks[1]);
        let most = peak.saturating_add(peak / 8).saturating_add(SLACK);
        most.max(self.threshold)
    }

    /// The host waited for the work of a stream or of the GPU, with so much in use; `temporary` bytes of segments that
    /// were used since it last waited are idle.
    pub fn at_synchronisation(&mut self, in_use: usize, temporary: usize) -> Decision {
        let dropped = in_use < self.in_use / 2 || in_use == 0;
        let asked_again = std::mem::take(&mut self.asked_again);
        self.unused = match asked_again || temporary >= self.working {
            true => 0,
            false => self.unused + 1,
        };
        self.working = match asked_again {
            _ if dropped => 0,
            true => self.working.max(temporary),
            false if self.unused <= PATIENCE => self.working,
            false => self.working.min(temporary),
        };
        // A loop gets here once: its later steps either do not grow, or ask again for what went back.
        let peaked = std::mem::take(&mut self.grew) && self.working == 0;
        let settle = dropped || peaked && in_use < self.peaks[0] / 2;
        self.peaks = [in_use, self.peaks[0]];
        self.in_use = in_use;
        Decision {
            keep: self.working,
            settle,
        }
    }
}

/// The threshold that the environment sets; CUDA's, 0, without one.
pub(super) fn threshold_of_environment() -> usize {
    let Ok(text) = std::env::var(THRESHOLD_VARIABLE) else {
        return 0;
    };
    parse_threshold(&text).unwrap_or_else(|| {
        tracing::warn!(
            "{THRESHOLD_VARIABLE}={text:?} is no number of bytes, such as 512MiB or max: taken for 0"
        );
        0
    })
}

fn parse_threshold(text: &str) -> Option<usize> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0);
    }
    if text == "max" {
        return Some(usize::MAX);
    }
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let (number, shift) = units
        .into_iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
        .unwrap_or((text, 0));
    number.trim().parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn what_is_dropped_goes_back_at_once() {
        let mut release = Release::default();
        release.note_in_use(1024 * MIB);
        release.note_driver_allocation();
        assert_eq!(
            release.at_synchronisation(0, 1024 * MIB),
            Decision {
                keep: 0,
                settle: true
            }
        );
    }

    #[test]
    fn a_loop_that_synchronises_asks_the_driver_again_once() {
        let mut release = Release::default();
        release.note_in_use(1000 * MIB);
        release.note_driver_allocation();
        let step = |release: &mut Release, asks: bool| {
            release.note_in_use(1050 * MIB);
            if asks {
                release.note_driver_allocation();
            }
            release.at_synchronisation(1000 * MIB, 50 * MIB).keep
        };
        assert_eq!(step(&mut release, true), 0);
        release.note_given_back();
        assert_eq!(step(&mut release, true), 50 * MIB);
        for _ in 0..10 {
            assert_eq!(step(&mut release, false), 50 * MIB);
        }
        // Steps without temporary tensors between them change nothing. After some of them in a row it goes back, and so it
        // does at the end.
        for _ in 0..10 {
            assert_eq!(release.at_synchronisation(1000 * MIB, 0).keep, 50 * MIB);
            assert_eq!(step(&mut release, false), 50 * MIB);
        }
        for _ in 0..PATIENCE {
            assert_eq!(release.at_synchronisation(1000 * MIB, 0).keep, 50 * MIB);
        }
        assert_eq!(release.at_synchronisation(1000 * MIB, 0).keep, 0);
        assert_eq!(step(&mut release, false), 0);
        assert!(release.at_synchronisation(10 * MIB, 1000 * MIB).settle);
    }

    #[test]
    fn small_blocks_are_settled_once_in_a_loop_of_temporary_tensors() {
        let mut release = Release::default();
        let mut step = |grows: bool, gives_back: bool| {
            release.note_in_use(3 * MIB);
            if grows {
                release.note_driver_allocation();
            }
            let settle = release.at_synchronisation(MIB, 2 * MIB).settle;
            if gives_back {
                release.note_given_back();
            }
            settle
        };
        assert!(step(true, true));
        assert!(!step(true, false));
        assert!(!step(false, false));
    }

    #[test]
    fn temporary_tensors_keep_what_each_step_uses() {
        let mut release = Release::default();
        release.note_given_back();
        release.note_driver_allocation();
        release.note_in_use(1900 * MIB);
        let mut keep = |temporary| release.at_synchronisation(100 * MIB, temporary).keep;
        assert_eq!(keep(1800 * MIB), 1800 * MIB);
        for _ in 0..PATIENCE {
            assert_eq!(keep(300 * MIB), 1800 * MIB);
        }
        assert_eq!(keep(300 * MIB), 300 * MIB);
        assert_eq!(keep(1800 * MIB), 300 * MIB);
    }

    #[test]
    fn an_eighth_more_than_the_peaks_of_two_intervals_is_held() {
        let mut release = Release::default();
        release.note_in_use(800 * MIB);
        assert_eq!(release.most_held(100 * MIB), 932 * MIB);
        assert_eq!(release.most_held(1600 * MIB), 1832 * MIB);
        release.at_synchronisation(80 * MIB, 0);
        assert_eq!(release.most_held(0), 932 * MIB);
        release.at_synchronisation(80 * MIB, 0);
        assert_eq!(release.most_held(0), 122 * MIB);
        release.set_threshold(usize::MAX);
        assert_eq!(release.most_held(0), usize::MAX);
    }

    #[test]
    fn thresholds_are_numbers_of_bytes() {
        let cases = [
            ("", Some(0)),
            ("0", Some(0)),
            (" 4096 ", Some(4096)),
            ("64MiB", Some(64 * MIB)),
            ("3 GiB", Some(3 << 30)),
            ("max", Some(usize::MAX)),
            ("-1", None),
            ("much", None),
            ("99999999999GiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_threshold(text), bytes, "{text:?}");
        }
    }
}
