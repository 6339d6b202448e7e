//! Figures of cases, by the benchmarks' worker in this process, beside what the clock predicts.

use std::cell::RefCell;

use anyhow::{bail, Result};
use bench_worker::Worker;
use candle_core::Device;
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_bench_protocol::{
    Answer, Case, DeviceTimes, HostTimes, Kind, ModelSpeeds, Request, Settings,
};
use candle_rocm_benches::statistics::median;
use candle_rocm_card_record::page::rounded;
use candle_rocm_card_record::{Item, State};

use crate::asked::Asked;
use crate::gpu;

/// Times by the clock of the emulator, in us: name, architecture, time. `examples/predictions.rs` writes it.
const PREDICTED: &str = include_str!("../predicted.tsv");

/// A worker, and how it measures.
pub struct Bench {
    /// Of the GPU.
    pub arch: String,
    /// Whether the GPU is emulated.
    pub is_emulated: bool,
    /// How it measures.
    pub settings: Settings,
    worker: RefCell<Worker>,
}

/// The time that the clock predicts of what is named so, in us.
pub fn predicted(name: &str, arch: &str) -> Option<f64> {
    let mut rows = PREDICTED
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>());
    let row = rows.find(|row| row.len() == 3 && row[0] == name && row[1] == arch)?;
    row[2].parse().ok()
}

impl Bench {
    /// On a GPU.
    ///
    /// # Errors
    /// It has no memory left.
    pub fn new(device: &Device, asked: &Asked) -> Result<Bench> {
        let is_emulated = gpu::is_emulated(device);
        let mut settings = if is_emulated {
            Settings::emulator()
        } else {
            Settings::gpu()
        };
        if asked.short {
            settings.samples = 1;
        }
        Ok(Bench {
            arch: device.as_rocm_device()?.info().arch,
            is_emulated,
            settings,
            worker: RefCell::new(Worker::on(device.clone())?),
        })
    }

    /// What the worker answers.
    ///
    /// # Errors
    /// There is no such case; Candle's.
    pub fn ask(&self, case: &Case) -> Result<Answer> {
        let request = Request {
            case: case.clone(),
            settings: self.settings,
        };
        self.worker.borrow_mut().answer(&request)
    }

    /// An item of a case.
    ///
    /// # Errors
    /// As [`Bench::ask`].
    pub fn item(&self, case: &Case, copy_gb_s: Option<f64>) -> Result<Item> {
        let answer = self.ask(case)?;
        if case.kind == Kind::Model {
            // Its memory is for the next one.
            self.worker.borrow_mut().forget();
        }
        let name = case.to_string();
        told(&name, &answer, copy_gb_s, predicted(&name, &self.arch))
    }
}

/// An answer as an item: its figure, and the prediction.
///
/// # Errors
/// The answer is that there is none.
pub fn told(
    name: &str,
    answer: &Answer,
    copy_gb_s: Option<f64>,
    predicted: Option<f64>,
) -> Result<Item> {
    let item = match answer {
        Answer::Device(times) => of_device(name, times, copy_gb_s),
        Answer::Host(times) => of_host(name, times),
        Answer::Model(speeds) => of_model(name, speeds),
        Answer::Error(error) => bail!("{error}"),
        Answer::Absent => bail!("the worker has no such case"),
        Answer::Hello { .. } | Answer::Network(_) => bail!("the worker answered something else"),
    };
    Ok(match (predicted, item.text("unit")) {
        (Some(us), Some(TOKENS)) => beside(item, 1e6 / us),
        (Some(us), _) => beside(item, us),
        (None, _) => item,
    })
}

/// A figure beside a prediction in its unit.
pub fn beside(mut item: Item, predicted: f64) -> Item {
    let unit = item.text("unit").unwrap_or_default();
    let told = format!("; predicted {} {unit}", rounded(predicted));
    item.line += &told;
    item.with("predicted", predicted)
}

/// The unit of models' speeds.
const TOKENS: &str = "tokens/s";

fn of_device(name: &str, times: &DeviceTimes, copy_gb_s: Option<f64>) -> Item {
    let us = median(&times.samples_us);
    let mut item = Item::new(name, State::Ok, format!("{} us", rounded(us)))
        .with("value", us)
        .with("unit", "us");
    let gb_s = times.bytes as f64 / us / 1e3;
    item = item.with("gb_s", gb_s);
    if times.flops > 0 {
        let tflop_s = times.flops as f64 / us / 1e6;
        item.line += &format!(", {} TFLOP/s", rounded(tflop_s));
        item = item.with("tflop_s", tflop_s);
    } else {
        item.line += &format!(", {} GB/s", rounded(gb_s));
        if let Some(copy) = copy_gb_s {
            item.line += &format!(", {:.0} % of a copy", 100. * gb_s / copy);
            item = item.with("share", gb_s / copy);
        }
    }
    if times.starved {
        item.line += ", with some of the host's time";
    }
    if let Some(wrong) = &times.wrong {
        item.state = State::Wrong;
        item.line = wrong.clone();
    }
    item
}

fn of_host(name: &str, times: &HostTimes) -> Item {
    let [enqueued, finished] = [&times.enqueue_us, &times.finished_us].map(|us| median(us));
    let [shown, with_end] = [enqueued, finished].map(rounded);
    Item::new(
        name,
        State::Ok,
        format!("{shown} us to enqueue, {with_end} with the GPU's end"),
    )
    .with("value", enqueued)
    .with("unit", "us")
    .with("finished_us", finished)
}

fn of_model(name: &str, speeds: &ModelSpeeds) -> Item {
    let [prefill, decode] = [&speeds.prefill, &speeds.decode].map(|all| median(all));
    let line = format!(
        "{} tokens/s of a prompt, {} decoded",
        rounded(prefill),
        rounded(decode)
    );
    let item = match speeds.repeatable {
        true => Item::new(name, State::Ok, line),
        false => Item::new(
            name,
            State::Wrong,
            format!("other tokens in another run; {line}"),
        ),
    };
    item.with("value", decode)
        .with("unit", TOKENS)
        .with("prompt", prefill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_predictions() {
        let times = DeviceTimes {
            samples_us: vec![100.],
            bytes: 200_000_000,
            ..DeviceTimes::default()
        };
        let item = told("exp", &Answer::Device(times), Some(4000.), Some(80.)).unwrap();
        assert_eq!(
            item.line,
            "100 us, 2000 GB/s, 50 % of a copy; predicted 80.0 us"
        );
        let speeds = ModelSpeeds {
            prefill: vec![9000.],
            decode: vec![200.],
            repeatable: true,
            ..ModelSpeeds::default()
        };
        let item = told("llama", &Answer::Model(speeds), None, Some(4000.)).unwrap();
        assert_eq!(item.number("predicted"), Some(250.));
    }

    #[test]
    fn predictions_are_rows_of_three_fields() {
        assert_eq!(predicted("no such thing", "gfx942"), None);
        for line in PREDICTED.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.len(), 3, "{line}");
            assert!(fields[2].parse::<f64>().unwrap() > 0., "{line}");
        }
    }
}
