//! Times Candle's operators and models on one GPU, on request: a line of JSON in, a line out.
//!
//! This source is built twice: on candle-rocm's patched crates, and by `stock/bench-worker` on Candle's own CUDA
//! backend. It therefore uses Candle's public API only. `candle-rocm-benches`' program `compare` asks both in turns, and
//! `candle-rocm-card` asks a [`Worker`] in its own process.

#[cfg(feature = "session")]
mod attention;
mod chain;
mod convolutions;
mod data;
mod gpu;
#[cfg(feature = "session")]
mod memory;
mod models;
mod networks;
mod operator;
mod operators;
#[cfg(feature = "session")]
mod order;
mod prepared;
mod products;
#[cfg(feature = "session")]
mod scaled;
#[cfg(feature = "session")]
mod training;

use std::io::{BufRead, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

use anyhow::{anyhow, Result};
use candle_core::Device;
use candle_rocm_bench_protocol::{Answer, Case, Kind, Request};

use crate::gpu::Gpu;

/// What was prepared for a case, kept for its next turn.
enum Prepared {
    Device(prepared::Prepared),
    Host(chain::Chain),
    Model(Box<models::Model>),
    Network(Box<networks::Network>),
}

/// Whether Candle has nothing of the kind.
fn is_ours_alone(case: &Case) -> bool {
    operators::OURS_ALONE.contains(&case.op.as_str())
        || chain::OURS_ALONE.contains(&case.op.as_str())
        || (case.kind == Kind::Model && case.dtype == models::FP8)
}

/// The GPU and the last case on it.
pub struct Worker {
    gpu: Gpu,
    last: Option<(Case, Prepared)>,
}

impl Worker {
    /// On this GPU.
    ///
    /// # Errors
    /// It has no memory left, or is none.
    pub fn on(device: Device) -> Result<Worker> {
        Ok(Worker {
            gpu: Gpu::on(device)?,
            last: None,
        })
    }

    /// What the last case held is freed.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Measures what is asked for.
    ///
    /// # Errors
    /// There is no such operator, dtype or model; Candle's.
    pub fn answer(&mut self, request: &Request) -> Result<Answer> {
        let Request { case, settings } = request;
        if cfg!(not(feature = "session")) && is_ours_alone(case) {
            return Ok(Answer::Absent);
        }
        let mut prepared = match self.last.take() {
            Some((last, prepared)) if last == *case => prepared,
            // What the last case held is free before the next one asks for memory.
            last => {
                drop(last);
                self.prepare(request)?
            }
        };
        let answer = match &mut prepared {
            Prepared::Device(prepared) => {
                Answer::Device(prepared.measure(&mut self.gpu, settings)?)
            }
            Prepared::Host(chain) => Answer::Host(chain.measure(&self.gpu, settings)?),
            Prepared::Model(model) => Answer::Model(model.measure(&self.gpu, settings)?),
            Prepared::Network(network) => Answer::Network(network.measure(&self.gpu, settings)?),
        };
        self.last = Some((case.clone(), prepared));
        Ok(answer)
    }

    fn prepare(&mut self, request: &Request) -> Result<Prepared> {
        let Request { case, settings } = request;
        Ok(match case.kind {
            Kind::Device => Prepared::Device(prepared::prepare(&mut self.gpu, case, settings)?),
            Kind::Host => Prepared::Host(chain::prepare(&self.gpu, case)?),
            Kind::Model => Prepared::Model(Box::new(models::prepare(&self.gpu, case)?)),
            Kind::Network => Prepared::Network(Box::new(networks::prepare(&mut self.gpu, case)?)),
        })
    }
}

fn send(answer: &Answer) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Answers what the standard input asks for, until it ends, on the GPU that `open` gives.
///
/// # Errors
/// The input is none of the protocol's, or nobody reads the output.
pub fn serve(open: impl FnOnce() -> candle_core::Result<Device>) -> Result<()> {
    let opened = open().map_err(Into::into).and_then(Worker::on);
    let mut worker = match opened {
        Ok(worker) => worker,
        Err(error) => return send(&Answer::Error(format!("{error:#}"))),
    };
    let gpu = worker.gpu.name()?;
    send(&Answer::Hello { gpu })?;
    for line in std::io::stdin().lock().lines() {
        let request = serde_json::from_str::<Request>(&line?)?;
        // Candle panics where it should not, and one case must not end the run.
        let answer = catch_unwind(AssertUnwindSafe(|| worker.answer(&request)))
            .unwrap_or_else(|panic| Err(anyhow!("panic: {}", text_of(&*panic))))
            .unwrap_or_else(|error| Answer::Error(format!("{error:#}")));
        send(&answer)?;
    }
    Ok(())
}

fn text_of(panic: &dyn std::any::Any) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a text")
}
