//! Figures, and the file that holds them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use candle_rocm_bench_protocol::Case;
use serde::{Deserialize, Serialize};

use crate::cases::Group;
use crate::statistics;

/// The worker that is measured, and the one it is compared with.
pub const OURS: &str = "ours";
/// Candle's own CUDA backend.
pub const STOCK: &str = "stock";
/// PyTorch.
pub const TORCH: &str = "torch";

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Microseconds of an operator on the GPU.
    DeviceUs,
    /// Microseconds of the CPU until an operator was enqueued.
    EnqueueUs,
    /// The same, with waiting for the GPU at the end of the chain.
    FinishedUs,
    /// Tokens a second of a prompt.
    Prefill,
    /// Tokens a second after it.
    Decode,
    /// Milliseconds of a network's forward pass, from end to end.
    ForwardMs,
    /// MiB of the GPU's memory that a network needs at most.
    MemoryMib,
}

impl Metric {
    /// Whether a larger figure is better.
    pub fn is_speed(self) -> bool {
        matches!(self, Self::Prefill | Self::Decode)
    }

    /// What it is, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::DeviceUs => "us on the GPU",
            Self::EnqueueUs => "us to enqueue",
            Self::FinishedUs => "us, waiting included",
            Self::Prefill => "prefill, tokens/s",
            Self::Decode => "decode, tokens/s",
            Self::ForwardMs => "ms, end to end",
            Self::MemoryMib => "MiB in use at most",
        }
    }
}

/// A worker's figure for a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Of all samples.
    pub median: f64,
    /// Half of the distance between the quartiles, relative to the median.
    pub noise: f64,
    /// How many samples there were.
    pub samples: usize,
    /// The GPU ran out of enqueued work, so that some of the CPU's time is in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starved: bool,
}

impl Figure {
    /// Of samples.
    pub fn new(samples: &[f64], starved: bool) -> Self {
        // Four digits are more than the noise leaves.
        let round = |x: f64| format!("{x:.4e}").parse().unwrap_or(x);
        Self {
            median: round(statistics::median(samples)),
            noise: round(statistics::noise(samples)),
            samples: samples.len(),
            starved,
        }
    }
}

/// How two workers' results compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The largest difference, relative to the larger of the value and the results' root mean square; of models the
    /// share of tokens that differ.
    pub worst: f64,
    /// Whether that is within the dtype's tolerance; of models whether all tokens are equal.
    pub within: bool,
}

/// A case's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Where it stands.
    pub group: Group,
    /// What the figures are.
    pub metric: Metric,
    /// What was measured.
    pub case: Case,
    /// Bytes that the operator must read and write.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Multiplications and additions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flops: u64,
    /// Microseconds of a device copy that moves as many bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_us: Option<f64>,
    /// By worker.
    pub figures: BTreeMap<String, Figure>,
    /// By worker that could not run it, why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, String>,
    /// By worker whose result for a small case is not the CPU's, how it differs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub wrong: BTreeMap<String, String>,
    /// Between ours and stock's results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Row {
    /// The median of a worker.
    pub fn median(&self, worker: &str) -> Option<f64> {
        self.figures.get(worker).map(|figure| figure.median)
    }

    /// How many times as fast as `worker` ours is.
    pub fn speedup(&self, worker: &str) -> Option<f64> {
        let (ours, theirs) = (self.median(OURS)?, self.median(worker)?);
        Some(if self.metric.is_speed() {
            ours / theirs
        } else {
            theirs / ours
        })
    }

    /// The noise of a ratio of ours to a worker's.
    pub fn noise(&self, worker: &str) -> Option<f64> {
        let (ours, theirs) = (self.figures.get(OURS)?, self.figures.get(worker)?);
        Some(ours.noise.hypot(theirs.noise))
    }

    /// Bytes a second in units of 10^9.
    pub fn bandwidth(&self, worker: &str) -> Option<f64> {
        let us = self.median(worker)?;
        (self.bytes > 0).then(|| self.bytes as f64 / us / 1e3)
    }

    /// The time of a device copy of as many bytes over a worker's.
    pub fn share_of_copy(&self, worker: &str) -> Option<f64> {
        Some(self.copy_us? / self.median(worker)?)
    }
}

/// All figures of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Its name.
    pub gpu: String,
    /// When they were measured, as `2025-01-31`.
    pub date: String,
    /// What else is worth knowing, such as the driver's version.
    #[serde(default)]
    pub notes: Vec<String>,
    /// In the order of measurement.
    pub rows: Vec<Row>,
}

impl Results {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read or holds something else.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} holds no results", path.display()))
    }

    /// Writes a file, a line for each row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let head = serde_json::to_string(&self.clone_head())?;
        let rows = self.rows.iter().map(serde_json::to_string);
        let rows = rows.collect::<Result<Vec<_>, _>>()?.join(",\n");
        let head = head.strip_suffix("]}").context("rows come last")?;
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, format!("{head}\n{rows}\n]}}\n"))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The same without rows.
    pub fn clone_head(&self) -> Self {
        Self {
            gpu: self.gpu.clone(),
            date: self.date.clone(),
            notes: self.notes.clone(),
            rows: Vec::new(),
        }
    }

    /// Takes over another file's rows, in place of its own for the same case.
    ///
    /// # Errors
    /// They are another GPU's.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        anyhow::ensure!(
            self.gpu == other.gpu,
            "results of {} and of {} are not to be mixed",
            self.gpu,
            other.gpu
        );
        self.date = self.date.clone().max(other.date);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        for row in other.rows {
            let same = |mine: &&mut Row| mine.metric == row.metric && mine.case == row.case;
            match self.rows.iter_mut().find(same) {
                Some(mine) => *mine = row,
                None => self.rows.push(row),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(op: &str, group: Group, metric: Metric, figures: &[(&str, f64)]) -> Row {
        let figure = |&(worker, median): &(&str, f64)| {
            let figure = Figure {
                median,
                noise: 0.01,
                samples: 15,
                starved: false,
            };
            (worker.to_owned(), figure)
        };
        Row {
            group,
            metric,
            case: Case::device(op, "f16", &[8192, 8192]),
            bytes: 4 << 26,
            flops: 0,
            copy_us: Some(50.),
            figures: figures.iter().map(figure).collect(),
            errors: BTreeMap::new(),
            wrong: BTreeMap::new(),
            agreement: None,
        }
    }

    pub(crate) fn results(rows: Vec<Row>) -> Results {
        Results {
            gpu: "Some GPU".into(),
            date: "2025-01-31".into(),
            notes: vec![],
            rows,
        }
    }

    #[test]
    fn a_ratio_above_one_is_good_whatever_the_unit() {
        let time = row(
            "exp",
            Group::Elementwise,
            Metric::DeviceUs,
            &[(OURS, 10.), (STOCK, 15.)],
        );
        assert_eq!(time.speedup(STOCK), Some(1.5));
        let speed = row(
            "llama-1b",
            Group::Models,
            Metric::Decode,
            &[(OURS, 30.), (STOCK, 15.)],
        );
        assert_eq!(speed.speedup(STOCK), Some(2.));
        assert_eq!(time.speedup(TORCH), None);
    }

    #[test]
    fn bandwidth_counts_the_bytes_that_must_move() {
        let row = row("exp", Group::Elementwise, Metric::DeviceUs, &[(OURS, 100.)]);
        // 268,435,456 bytes in 100 us.
        assert!((row.bandwidth(OURS).unwrap() - 2_684.354_56).abs() < 1e-9);
        assert_eq!(row.share_of_copy(OURS), Some(0.5));
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut failing = row("exp", Group::Elementwise, Metric::DeviceUs, &[(OURS, 10.)]);
        failing.errors.insert(STOCK.into(), "no \"kernel\"".into());
        let some = row(
            "add",
            Group::Elementwise,
            Metric::DeviceUs,
            &[(OURS, 10.), (STOCK, 15.)],
        );
        for rows in [vec![], vec![failing, some]] {
            let results = results(rows);
            results.save(file.path()).unwrap();
            assert_eq!(Results::load(file.path()).unwrap(), results);
        }
    }

    #[test]
    fn merging_replaces_rows_of_the_same_case_and_keeps_the_rest() {
        let time = |op: &str, us| row(op, Group::Elementwise, Metric::DeviceUs, &[(OURS, us)]);
        let mut first = results(vec![time("exp", 10.), time("add", 11.)]);
        let mut later = results(vec![time("add", 12.), time("mul", 13.)]);
        later.date = "2025-02-01".into();
        first.merge(later).unwrap();
        let medians: Vec<_> = first
            .rows
            .iter()
            .map(|row| row.median(OURS).unwrap())
            .collect();
        assert_eq!(medians, [10., 12., 13.]);
        assert_eq!(first.date, "2025-02-01");

        let mut other = results(vec![]);
        other.gpu = "Another".into();
        assert!(first.merge(other).is_err());
    }
}
