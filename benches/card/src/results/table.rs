//! The table of digests, which is recorded from emulated GPUs and built into the program.
//!
//! A row has a name, the architectures that it is of, and the digests one after the other, four hexadecimal digits each:
//! of an operator of Candle's those of its cases in order, of a ladder those of its rungs from the top. Lines that begin
//! with `#` tell the compute units of the GPUs that were recorded.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{ensure, Context as _, Result};
use parity::recording::{hash_of, Array};

/// The table as it was committed.
const COMMITTED: &str = include_str!("../../digests.tsv");

/// Sixteen bits of a result: another result has the same by chance once in 65,536 times.
pub type Digest = u16;

/// The digest of a result's dtype, shape and bytes.
pub fn digest(array: &Array) -> Digest {
    let hash = hash_of([array]);
    (hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48)) as Digest
}

/// Digests by name and architecture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Compute units of each architecture's GPU.
    pub units: BTreeMap<String, u32>,
    rows: BTreeMap<(String, String), Vec<Digest>>,
}

impl Table {
    /// That of the program.
    ///
    /// # Errors
    /// It is no table, which a test holds.
    pub fn committed() -> Result<Table> {
        Table::parse(COMMITTED)
    }

    /// Reads a table.
    ///
    /// # Errors
    /// A line is not of its form.
    pub fn parse(text: &str) -> Result<Table> {
        let mut table = Table::default();
        for line in text.lines() {
            let context = || format!("a table's line: {line}");
            let fields: Vec<&str> = line.split('\t').collect();
            match fields[..] {
                ["#", arch, units] => {
                    let units = units.parse().with_context(context)?;
                    table.units.insert(arch.to_owned(), units);
                }
                [name, archs, digests] => {
                    let digests = digits(digests).with_context(context)?;
                    for arch in archs.split(',') {
                        table.set(name, arch, digests.clone());
                    }
                }
                _ => anyhow::bail!(context()),
            }
        }
        Ok(table)
    }

    /// The digests of a row.
    pub fn of(&self, name: &str, arch: &str) -> Option<&[Digest]> {
        let key = (name.to_owned(), arch.to_owned());
        self.rows.get(&key).map(Vec::as_slice)
    }

    /// Sets a row.
    pub fn set(&mut self, name: &str, arch: &str, digests: Vec<Digest>) {
        self.rows
            .insert((name.to_owned(), arch.to_owned()), digests);
    }

    /// Forgets an architecture.
    pub fn forget(&mut self, arch: &str) {
        self.units.remove(arch);
        self.rows.retain(|(_, of), _| of != arch);
    }

    /// The architecture whose digests are for this one, and whether the GPU is the very one that was recorded: of another one
    /// of a generation the order of sums may be another, as it is split for so many compute units.
    pub fn recorded(&self, arch: &str, units: u32) -> Option<(&str, bool)> {
        if let Some((name, recorded)) = self.units.get_key_value(arch) {
            return Some((name, *recorded == units));
        }
        // The generation: all but the last two digits.
        let generation = arch.get(..arch.len().checked_sub(2)?)?;
        let alike = self
            .units
            .keys()
            .find(|name| name.get(..name.len() - 2) == Some(generation));
        alike.map(|name| (name.as_str(), false))
    }
}

fn digits(text: &str) -> Result<Vec<Digest>> {
    ensure!(
        text.is_ascii() && text.len().is_multiple_of(4),
        "no digests of four digits each"
    );
    let of = |at: usize| u16::from_str_radix(&text[at..at + 4], 16);
    let all = (0..text.len()).step_by(4).map(of);
    Ok(all.collect::<Result<_, _>>()?)
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (arch, units) in &self.units {
            writeln!(f, "#\t{arch}\t{units}")?;
        }
        // Architectures whose digests are equal stand in a row together.
        let mut rows: BTreeMap<(&str, &[Digest]), Vec<&str>> = BTreeMap::new();
        for ((name, arch), digests) in &self.rows {
            rows.entry((name, digests)).or_default().push(arch);
        }
        for ((name, digests), archs) in rows {
            let mut all = String::new();
            for digest in digests {
                write!(all, "{digest:04x}")?;
            }
            writeln!(f, "{name}\t{}\t{all}", archs.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut table = Table::default();
        for (arch, last) in [("gfx1100", 2), ("gfx942", 2), ("gfx90a", 3)] {
            table.units.insert(arch.to_owned(), 96);
            table.set("exp", arch, vec![1, last]);
        }
        let text = table.to_string();
        assert!(
            text.ends_with("exp\tgfx1100,gfx942\t00010002\nexp\tgfx90a\t00010003\n"),
            "{text}"
        );
        assert_eq!(Table::parse(&text).unwrap(), table);
        assert!(Table::parse("exp\tgfx90a\t123").is_err());
        table.forget("gfx90a");
        assert_eq!(table.of("exp", "gfx90a"), None);
    }

    #[test]
    fn a_generation_s_digests_are_for_all_of_it() {
        let mut table = Table::default();
        table.units.insert("gfx1100".to_owned(), 48);
        assert_eq!(table.recorded("gfx1100", 48), Some(("gfx1100", true)));
        assert_eq!(table.recorded("gfx1100", 42), Some(("gfx1100", false)));
        assert_eq!(table.recorded("gfx1102", 48), Some(("gfx1100", false)));
        assert_eq!(table.recorded("gfx942", 304), None);
        assert_eq!(table.recorded("sm_90", 132), None);
    }

    #[test]
    fn the_committed_table_is_one() {
        let table = Table::committed().unwrap();
        assert_eq!(table.to_string(), COMMITTED);
        assert!(table.units.len() >= 2, "{:?}", table.units);
    }
}
