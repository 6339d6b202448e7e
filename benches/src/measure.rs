//! Asks the workers in turns.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Result;
use candle_rocm_bench_protocol::{Answer, Case, Kind, Request, Settings};
use indicatif::ProgressBar;

use crate::cases::{Asked, Entry};
use crate::results::{Agreement, Figure, Metric, Row, OURS, STOCK};
use crate::statistics;
use crate::worker::Worker;

/// How often to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// How to measure.
    pub settings: Settings,
    /// Turns of each worker.
    pub rounds: usize,
    /// No new round of a case begins after this time, once there were two.
    pub patience: Duration,
}

/// Collected answers of one worker.
#[derive(Default)]
struct Samples {
    by_metric: BTreeMap<Metric, Vec<f64>>,
    starved: bool,
    bytes: u64,
    flops: u64,
    probe: Vec<f64>,
    tokens: Vec<u32>,
    wrong: Option<String>,
    error: Option<String>,
    absent: bool,
}

impl Samples {
    fn add(&mut self, answer: Answer) {
        let mut put = |metric, samples: Vec<f64>| {
            self.by_metric.entry(metric).or_default().extend(samples);
        };
        match answer {
            Answer::Device(times) => {
                put(Metric::DeviceUs, times.samples_us);
                self.starved |= times.starved;
                (self.bytes, self.flops, self.probe) = (times.bytes, times.flops, times.probe);
                self.wrong = times.wrong;
            }
            Answer::Host(times) => {
                put(Metric::EnqueueUs, times.enqueue_us);
                put(Metric::FinishedUs, times.finished_us);
            }
            Answer::Model(speeds) => {
                put(Metric::Prefill, speeds.prefill);
                put(Metric::Decode, speeds.decode);
                self.tokens = speeds.tokens;
            }
            Answer::Network(runs) => {
                put(Metric::ForwardMs, runs.ms);
                // It is measured once, when the network is made.
                let memory = self.by_metric.entry(Metric::MemoryMib).or_default();
                *memory = vec![runs.memory as f64 / f64::from(1 << 20)];
                (self.probe, self.wrong) = (runs.probe, runs.wrong);
            }
            Answer::Absent => self.absent = true,
            Answer::Error(error) => self.error = Some(error),
            Answer::Hello { .. } => self.error = Some("the worker began anew".into()),
        }
    }
}

/// The workers, and what a device copy took them.
pub struct Measurer {
    workers: Vec<Worker>,
    plan: Plan,
    copies: HashMap<u64, Option<f64>>,
}

impl Measurer {
    /// With workers, of which the first is ours.
    pub fn new(workers: Vec<Worker>, plan: Plan) -> Self {
        Self {
            workers,
            plan,
            copies: HashMap::new(),
        }
    }

    /// Measures the entries and gives each one's rows to `finished`, until that breaks off.
    ///
    /// # Errors
    /// A worker has ended, or `finished` fails.
    pub fn run(
        &mut self,
        entries: &[Entry],
        progress: &ProgressBar,
        mut finished: impl FnMut(Vec<Row>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        for entry in entries {
            progress.set_message(entry.case.to_string());
            let flow = finished(self.rows(entry)?)?;
            progress.inc(1);
            if flow.is_break() {
                break;
            }
        }
        progress.finish_with_message("done");
        Ok(())
    }

    /// The samples of a case of all workers that are `asked`, taken in turns.
    fn samples(&mut self, case: &Case, asked: impl Fn(Asked) -> bool) -> Result<Vec<Samples>> {
        let Plan {
            mut settings,
            rounds,
            mut patience,
        } = self.plan;
        if case.kind == Kind::Model {
            // One sample takes as long as many operators, and loading the model longer.
            settings.samples = 1;
        }
        if matches!(case.kind, Kind::Model | Kind::Network) {
            patience *= 10;
        }
        let request = Request {
            case: case.clone(),
            settings,
        };
        let mut samples: Vec<_> = self.workers.iter().map(|_| Samples::default()).collect();
        let mut began = Instant::now();
        for round in 0..rounds {
            if round == 1 {
                // The first round has the preparations in it.
                began = Instant::now();
            }
            if round >= 2 && began.elapsed() > patience {
                break;
            }
            for (worker, samples) in self.workers.iter_mut().zip(&mut samples) {
                if asked(worker.asked) && samples.error.is_none() && !samples.absent {
                    samples.add(worker.ask(&request)?);
                }
            }
        }
        Ok(samples)
    }

    /// Microseconds of a device copy that reads and writes `bytes` in all: the fastest worker's median.
    fn copy_us(&mut self, bytes: u64) -> Result<Option<f64>> {
        if let Some(known) = self.copies.get(&bytes) {
            return Ok(*known);
        }
        // Half is read and half is written, four bytes an element.
        let case = Case::device("copy", "f32", &[(bytes as usize / 8).max(1)]);
        let medians = self
            .samples(&case, |asked| asked == Asked::Everything)?
            .into_iter()
            .filter_map(|samples| {
                let times = samples.by_metric.get(&Metric::DeviceUs)?;
                Some(statistics::median(times))
            });
        let fastest = medians.reduce(f64::min);
        self.copies.insert(bytes, fastest);
        Ok(fastest)
    }

    fn rows(&mut self, entry: &Entry) -> Result<Vec<Row>> {
        let samples = self.samples(&entry.case, |asked| entry.is_for(asked))?;
        let names: Vec<_> = self
            .workers
            .iter()
            .map(|worker| worker.name.clone())
            .collect();
        let by_name = || names.iter().cloned().zip(&samples);
        let of = |name: &str| names.iter().position(|n| n == name).map(|i| &samples[i]);
        let ours = of(OURS);
        let (bytes, flops) = ours.map_or((0, 0), |ours| (ours.bytes, ours.flops));
        let copy_us = if entry.group.is_memory_bound() && bytes > 0 {
            self.copy_us(bytes)?
        } else {
            None
        };
        let agreement = match (ours, of(STOCK)) {
            (Some(ours), Some(stock)) => agreement(&entry.case, ours, stock),
            _ => None,
        };
        let errors: BTreeMap<_, _> = by_name()
            .filter_map(|(name, samples)| Some((name, samples.error.clone()?)))
            .collect();
        let wrong: BTreeMap<_, _> = by_name()
            .filter_map(|(name, samples)| Some((name, samples.wrong.clone()?)))
            .collect();
        let mut metrics: Vec<_> = samples
            .iter()
            .flat_map(|s| s.by_metric.keys().copied())
            .collect();
        metrics.sort();
        metrics.dedup();
        if metrics.is_empty() {
            // A row all the same, to show the errors.
            metrics.push(match entry.case.kind {
                Kind::Device => Metric::DeviceUs,
                Kind::Host => Metric::EnqueueUs,
                Kind::Model => Metric::Decode,
                Kind::Network => Metric::ForwardMs,
            });
        }
        let rows = metrics.into_iter().map(|metric| Row {
            group: entry.group,
            metric,
            case: entry.case.clone(),
            bytes,
            flops,
            copy_us,
            figures: by_name()
                .filter_map(|(name, samples)| {
                    let values = samples.by_metric.get(&metric).filter(|v| !v.is_empty())?;
                    Some((name, Figure::new(values, samples.starved)))
                })
                .collect(),
            errors: errors.clone(),
            wrong: wrong.clone(),
            agreement,
        });
        Ok(rows.collect())
    }
}

/// How far results may differ: rounding of the dtype, and what the order of a sum makes of it; ten times as far where tens of
/// layers follow one another.
fn tolerance(case: &Case) -> f64 {
    let layers = match case.kind {
        Kind::Network => 10.,
        _ => 1.,
    };
    layers * of_dtype(&case.dtype)
}

fn of_dtype(dtype: &str) -> f64 {
    match dtype {
        "f64" => 1e-9,
        "f32" => 1e-3,
        "f16" => 1e-2,
        "bf16" => 6e-2,
        // Both quantise the other factor to 8 bits, each in its own way.
        _ => 3e-2,
    }
}

fn agreement(case: &Case, ours: &Samples, stock: &Samples) -> Option<Agreement> {
    if case.kind == Kind::Model {
        if ours.tokens.is_empty() || stock.tokens.is_empty() {
            return None;
        }
        let pairs = ours.tokens.iter().zip(&stock.tokens);
        let different = pairs.filter(|(a, b)| a != b).count();
        return Some(Agreement {
            worst: different as f64 / ours.tokens.len() as f64,
            within: different == 0,
        });
    }
    // Which of several equal halves is the largest is open.
    let open = case.op.starts_with("arg") && matches!(case.dtype.as_str(), "f16" | "bf16");
    if open || ours.probe.is_empty() || stock.probe.is_empty() {
        return None;
    }
    let worst = difference(&ours.probe, &stock.probe);
    Some(Agreement {
        worst,
        within: worst <= tolerance(case),
    })
}

/// The largest difference, relative to the larger of the value and the root mean square; `f64::MAX` if the lengths or
/// the places of NaNs differ.
fn difference(ours: &[f64], stock: &[f64]) -> f64 {
    if ours.len() != stock.len() {
        return f64::MAX;
    }
    let squares: f64 = stock.iter().map(|x| x * x).sum();
    let scale = (squares / stock.len() as f64).sqrt().max(1e-30);
    let pairs = ours.iter().zip(stock);
    let differences = pairs.map(|(a, b)| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.,
        (false, false) => (a - b).abs() / scale.max(b.abs()),
        _ => f64::MAX,
    });
    differences.fold(0., f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_relative_to_the_size_of_results() {
        assert_eq!(difference(&[1., 2.], &[1., 2.]), 0.);
        // The root mean square of 3 and 4 is 3.54: a difference of 0.4 in 4 counts by 4.
        assert!((difference(&[3., 4.4], &[3., 4.]) - 0.1).abs() < 1e-12);
        assert_eq!(difference(&[1.], &[1., 2.]), f64::MAX);
        assert_eq!(difference(&[f64::NAN], &[1.]), f64::MAX);
    }

    #[test]
    fn tokens_that_differ_are_counted() {
        let case = Case {
            kind: Kind::Model,
            ..Case::device("llama", "f16", &[])
        };
        let decoded = |tokens: &[u32]| Samples {
            tokens: tokens.into(),
            ..Samples::default()
        };
        let agreement = agreement(&case, &decoded(&[1, 2, 3, 4]), &decoded(&[1, 2, 9, 4]));
        assert_eq!(
            agreement,
            Some(Agreement {
                worst: 0.25,
                within: false
            })
        );
    }
}
