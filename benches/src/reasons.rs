//! Why some rows fall short.

use anyhow::{Context, Result};
use regex::Regex;
use serde::Deserialize;

use crate::results::Row;

/// Reasons, of which the first that fits a row is its own.
#[derive(Clone, Debug, Default)]
pub struct Reasons(Vec<(Regex, String)>);

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    reason: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    rows: String,
    text: String,
}

impl Reasons {
    /// Reads a TOML file of `[[reason]]` tables: `rows`, a regular expression for a row's operator, dtype and shape as
    /// they are printed, and `text`.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(toml: &str) -> Result<Self> {
        let file: File = toml::from_str(toml).context("reading the reasons")?;
        let reasons = file.reason.into_iter().map(|entry| {
            let rows = Regex::new(&entry.rows)
                .with_context(|| format!("the reason for `{}`", entry.rows))?;
            Ok((rows, entry.text))
        });
        reasons.collect::<Result<_>>().map(Self)
    }

    /// The reason for a row.
    pub fn of(&self, row: &Row) -> Option<&str> {
        let name = row.case.to_string();
        let found = self.0.iter().find(|(rows, _)| rows.is_match(&name));
        found.map(|(_, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Group;
    use crate::results::{tests::row, Metric};

    #[test]
    fn the_first_reason_that_fits_is_a_rows_own() {
        let reasons = Reasons::parse(
            r#"
            [[reason]]
            rows = "^exp f16"
            text = "halves"
            [[reason]]
            rows = "^exp "
            text = "all"
            "#,
        )
        .unwrap();
        let exp = row("exp", Group::Elementwise, Metric::DeviceUs, &[]);
        assert_eq!(reasons.of(&exp), Some("halves"));
        let mut single = exp.clone();
        single.case.dtype = "f32".into();
        assert_eq!(reasons.of(&single), Some("all"));
        assert_eq!(
            reasons.of(&row("add", Group::Elementwise, Metric::DeviceUs, &[])),
            None
        );
    }

    #[test]
    fn the_committed_reasons_are_readable() {
        Reasons::parse(include_str!("../reasons.toml")).unwrap();
    }
}
