//! Tables of what ran.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// What ran on the GPUs, the longest in all first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// A row for each kernel, kind of copy, library or graph.
    pub rows: Vec<Row>,
    /// What was captured into graphs meanwhile, and has no time of its own.
    pub captured: u64,
    /// What has no time because an event failed.
    pub lost: u64,
}

/// What ran under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The kernel's name; `copy from the host`, `copy to the host`, `copy`, `copy from another GPU`, `fill`; `product by` a
    /// library; `graph`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// On the GPU, together.
    pub total: Duration,
    /// The shortest.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
    /// Bytes that copies and fills moved; 0 of everything else.
    pub bytes: u64,
}

impl Row {
    /// On the GPU, in the mean.
    pub fn mean(&self) -> Duration {
        self.total.div_f64(self.count.max(1) as f64)
    }
}

/// What is added up.
#[derive(Default)]
pub(super) struct Section {
    sums: BTreeMap<String, Row>,
    pub captured: u64,
    pub lost: u64,
}

impl Section {
    pub fn add(&mut self, name: &str, microseconds: f64, bytes: usize) {
        let took = Duration::from_secs_f64(microseconds.max(0.0) / 1e6);
        if !self.sums.contains_key(name) {
            let row = Row {
                name: name.to_owned(),
                count: 0,
                total: Duration::ZERO,
                shortest: Duration::MAX,
                longest: Duration::ZERO,
                bytes: 0,
            };
            self.sums.insert(name.to_owned(), row);
        }
        if let Some(row) = self.sums.get_mut(name) {
            row.count += 1;
            row.total += took;
            row.shortest = row.shortest.min(took);
            row.longest = row.longest.max(took);
            row.bytes += bytes as u64;
        }
    }

    pub fn report(self) -> Report {
        let mut rows: Vec<Row> = self.sums.into_values().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.total));
        Report {
            rows,
            captured: self.captured,
            lost: self.lost,
        }
    }
}

/// Columns of numbers, and the name last: kernels' names are long.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Duration = self.rows.iter().map(|row| row.total).sum();
        let all = all.as_secs_f64().max(f64::MIN_POSITIVE);
        writeln!(
            f,
            "{:>9} {:>6} {:>9} {:>10} {:>10} {:>10}  on the GPU",
            "total ms", "share", "count", "mean us", "least us", "most us"
        )?;
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        for row in &self.rows {
            let total = row.total.as_secs_f64();
            write!(
                f,
                "{:>9.3} {:>5.1}% {:>9} {:>10.2} {:>10.2} {:>10.2}  {}",
                total * 1e3,
                100.0 * total / all,
                row.count,
                microseconds(row.mean()),
                microseconds(row.shortest),
                microseconds(row.longest),
                row.name
            )?;
            match row.bytes {
                0 => writeln!(f)?,
                bytes => writeln!(f, ", {bytes} bytes")?,
            }
        }
        if self.captured > 0 {
            writeln!(
                f,
                "{} more were captured into graphs, whose launches are timed as a whole.",
                self.captured
            )?;
        }
        if self.lost > 0 {
            writeln!(f, "{} more have no time: their events failed.", self.lost)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_up_and_the_longest_comes_first() {
        let mut section = Section::default();
        for (name, microseconds, bytes) in
            [("short", 1.5, 0), ("long", 10.0, 8), ("long", 30.0, 24)]
        {
            section.add(name, microseconds, bytes);
        }
        section.captured = 7;
        let report = section.report();
        let long = &report.rows[0];
        assert_eq!(
            (long.name.as_str(), long.count, long.bytes),
            ("long", 2, 32)
        );
        let times = [long.total, long.mean(), long.shortest, long.longest];
        assert_eq!(times, [40, 20, 10, 30].map(Duration::from_micros));
        let text = report.to_string();
        assert!(text.contains("96.4%"), "{text}");
        assert!(text.contains("long, 32 bytes\n"), "{text}");
        assert!(text.contains("7 more were captured"), "{text}");
        assert!(!text.contains("no time"), "{text}");
    }
}
