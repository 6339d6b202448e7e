//! What the benchmark driver asks a worker, and what the worker answers: a line of JSON each.
//!
//! A worker starts with [`Answer::Hello`] on its standard output, then answers each [`Request`] on its standard input
//! until that ends. `benches/worker/torch_worker.py` speaks the same protocol without this crate.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The GPU's time for an operator.
    Device,
    /// The CPU's time to enqueue an operator.
    Host,
    /// Tokens a second of a language model.
    Model,
    /// A network's forward pass from end to end, and its memory.
    Network,
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// What is measured.
    pub kind: Kind,
    /// The operator or the model, in the worker's table of names.
    pub op: String,
    /// `f32` and so on, or a format of quantised weights such as `q4_K`.
    pub dtype: String,
    /// Of the first input; of products `[batch, m, n, k]`; of models none; of networks those of the input.
    pub dims: Vec<usize>,
}

impl Case {
    /// A case that measures the GPU's time.
    pub fn device(op: &str, dtype: &str, dims: &[usize]) -> Self {
        Self {
            kind: Kind::Device,
            op: op.into(),
            dtype: dtype.into(),
            dims: dims.into(),
        }
    }

    /// Its dimensions, as `4096x1024`.
    pub fn shape(&self) -> String {
        let dims: Vec<_> = self.dims.iter().map(ToString::to_string).collect();
        dims.join("x")
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.op, self.dtype)?;
        if !self.dims.is_empty() {
            write!(f, " {}", self.shape())?;
        }
        Ok(())
    }
}

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// How many figures to answer with.
    pub samples: usize,
    /// Microseconds that one figure should span at least, by repeating the operator.
    pub span_us: f64,
    /// The most repetitions of an operator for one figure.
    pub max_repeats: usize,
    /// Operators in a chain whose cost to the CPU is measured.
    pub chain: usize,
    /// Inputs are copied until they fill this many bytes, and take turns, so that the GPU's cache does not hold them.
    pub rotate_bytes: usize,
    /// Size of the copy that keeps the GPU busy while operators are enqueued; 0 on GPUs that run launches at once.
    pub filler_bytes: usize,
    /// Tokens of a model's prompt.
    pub prompt: usize,
    /// Tokens to decode after it.
    pub decode: usize,
}

impl Settings {
    /// For a real GPU.
    pub fn gpu() -> Self {
        Self {
            samples: 3,
            span_us: 200.,
            max_repeats: 128,
            chain: 1000,
            rotate_bytes: 128 << 20,
            filler_bytes: 256 << 20,
            prompt: 512,
            decode: 64,
        }
    }

    /// For the emulated one: everything once, and little of it.
    pub fn emulator() -> Self {
        Self {
            samples: 1,
            span_us: 0.,
            max_repeats: 1,
            chain: 2,
            rotate_bytes: 0,
            filler_bytes: 0,
            prompt: 3,
            decode: 2,
        }
    }
}

/// What the driver sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What to measure. The worker keeps what it prepared for the last case.
    pub case: Case,
    /// How.
    pub settings: Settings,
}

/// What the worker sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// At its start.
    Hello {
        /// The GPU's name.
        gpu: String,
    },
    /// To [`Kind::Device`].
    Device(DeviceTimes),
    /// To [`Kind::Host`].
    Host(HostTimes),
    /// To [`Kind::Model`].
    Model(ModelSpeeds),
    /// To [`Kind::Network`].
    Network(NetworkRuns),
    /// The worker has no such operator, dtype or kind of measurement, as PyTorch's has not all of Candle's.
    Absent,
    /// The case cannot be run, and why.
    Error(String),
}

/// The GPU's time for an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceTimes {
    /// Microseconds of one operator.
    pub samples_us: Vec<f64>,
    /// Bytes that the operator must read and write.
    pub bytes: u64,
    /// Multiplications and additions of a product, else 0.
    pub flops: u64,
    /// The GPU ran out of enqueued work, so that the figures hold some of the CPU's time.
    pub starved: bool,
    /// Some values of the result, spread over it, to compare workers by.
    pub probe: Vec<f64>,
    /// Where the result of a small case differs from the CPU's, and how.
    #[serde(default)]
    pub wrong: Option<String>,
}

/// The CPU's time to enqueue an operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTimes {
    /// Microseconds of one operator until it was enqueued.
    pub enqueue_us: Vec<f64>,
    /// Microseconds of one operator, the GPU's work waited for at the end of the chain.
    pub finished_us: Vec<f64>,
}

/// Tokens a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelSpeeds {
    /// Of the prompt.
    pub prefill: Vec<f64>,
    /// After it, one by one.
    pub decode: Vec<f64>,
    /// The most likely tokens after the prompt.
    pub tokens: Vec<u32>,
    /// Whether every run gave the same tokens.
    pub repeatable: bool,
}

/// A network's forward pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkRuns {
    /// Milliseconds of one, the GPU waited for before and after.
    pub ms: Vec<f64>,
    /// Bytes of the GPU's memory that network and forward pass need at most, kernels and libraries among them.
    pub memory: u64,
    /// Some values of the result, spread over it, to compare workers by.
    pub probe: Vec<f64>,
    /// Where the result of a small network differs from the CPU's, and how.
    #[serde(default)]
    pub wrong: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_one_line_of_plain_json() {
        let request = Request {
            case: Case::device("exp", "f16", &[4, 1024]),
            settings: Settings::emulator(),
        };
        let line = serde_json::to_string(&request).unwrap();
        assert!(line.starts_with(
            r#"{"case":{"kind":"device","op":"exp","dtype":"f16","dims":[4,1024]},"settings":{"#
        ));
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn answers_carry_their_kind() {
        let line =
            r#"{"device":{"samples_us":[1.5],"bytes":8,"flops":0,"starved":false,"probe":[]}}"#;
        let Answer::Device(times) = serde_json::from_str(line).unwrap() else {
            panic!("{line} is not read as device times");
        };
        assert_eq!(times.samples_us, [1.5]);
        assert_eq!(
            serde_json::to_string(&Answer::Error("no".into())).unwrap(),
            r#"{"error":"no"}"#
        );
        assert_eq!(
            serde_json::from_str::<Answer>(r#""absent""#).unwrap(),
            Answer::Absent
        );
    }
}
