//! Capturing a step, and running it.

use std::sync::Arc;

use candle_core::{bail, Device, Error, Result};
use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode, CUstreamCaptureStatus as Status,
};
use candle_rocm_runtime::enqueued::{recorded, Enqueued};
use candle_rocm_runtime::{Graph, Stream};

use super::choice::{are_on, why_off};
use crate::candle::keep_parameters;

/// What a function enqueued, captured; `T` is what it returned: tensors whose memory each run writes anew.
///
/// It stays on the thread that captured it: strides that its kernels read are kept for that thread.
#[derive(Debug)]
pub struct Step<T> {
    // Before the graph, whose memory it reads.
    result: T,
    graph: Graph,
    enqueued: Enqueued,
}

impl<T> Step<T> {
    /// Runs `step` once, captures what it enqueues when it is called once more, and gives what the first call returned.
    ///
    /// The second call runs nothing: what `step` does to the GPU's memory happened once, and happens again with each
    /// [`Step::run`]. So a token that is read at the position that a tensor holds, and a position that `step` itself moves
    /// on, are right in the first call and in every run.
    ///
    /// `step` enqueues the same both times. It gives nothing to the host and takes nothing from there but what the first
    /// call took, too; it works on the device's own stream. What it reads and changes stays in place as long as the result
    /// is used: tensors that it captures by reference, an [`Input`](super::Input), a model's weights.
    ///
    /// # Errors
    /// The device is no GPU, its graphs are wrong ([`are_on`](super::are_on) tells before), or its stream is captured
    /// already; `step` fails; or what it enqueues cannot be captured, such
    /// as a copy to the host: the text names that, and the kernel before it.
    pub fn capture(device: &Device, mut step: impl FnMut() -> Result<T>) -> Result<(T, Self)> {
        let Device::Cuda(gpu) = device else {
            bail!(
                "a step is captured on a GPU, and the device is {:?}: call the function itself there",
                device.location()
            );
        };
        let stream = gpu.cuda_stream();
        if let Some(why) = refusal(device)? {
            bail!("a step is not captured where graphs are wrong: call the function itself; {why}");
        }
        if stream.capture_status().map_err(Error::wrap)? != Status::CU_STREAM_CAPTURE_STATUS_NONE {
            bail!("a step cannot be captured while another is: the device's stream is captured already");
        }
        // Strides travel from the host: the first call uploads them, the second finds them there.
        let _parameters = keep_parameters(gpu);
        let first = step()?;
        let (captured, enqueued) = recorded(|| captured(&stream, step));
        let (result, graph) = captured.map_err(|error| explain(error, &enqueued))?;
        let Some(graph) = graph.filter(|_| enqueued.count() > 0) else {
            bail!("the step enqueues nothing on the device's stream: there is nothing to capture");
        };
        Ok((
            first,
            Self {
                result,
                graph,
                enqueued,
            },
        ))
    }

    /// Runs the step again, after what the device was given before. Nothing is waited for, and the next run writes over the
    /// result.
    ///
    /// # Errors
    /// HIP refuses the launch, or a kernel given to the GPU earlier failed.
    pub fn run(&self) -> Result<&T> {
        self.graph.launch().map_err(Error::wrap)?;
        Ok(&self.result)
    }

    /// What one run enqueues in the GPU: its kernels, in order, copies, and so on.
    pub fn enqueued(&self) -> &Enqueued {
        &self.enqueued
    }
}

/// Why nothing is captured on a device whose graphs were found wrong. With `CANDLE_ROCM_GRAPHS=0` a step is captured all the
/// same: who calls for one wants it.
fn refusal(device: &Device) -> Result<Option<String>> {
    match are_on(device)? {
        true => Ok(None),
        false => Ok(why_off(device)),
    }
}

/// What `step` returned, and what it enqueued.
fn captured<T>(
    stream: &Arc<Stream>,
    step: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Graph>)> {
    stream
        .begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)
        .map_err(Error::wrap)?;
    let mut capture = Capture { stream, open: true };
    let result = step()?;
    Ok((result, capture.end()?))
}

/// A capture that ends however its step does.
struct Capture<'a> {
    stream: &'a Arc<Stream>,
    open: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> Result<Option<Graph>> {
        self.open = false;
        self.stream.end_capture(Flags::NONE).map_err(Error::wrap)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.open {
            // The step's own error says what was wrong; HIP's here is that there is nothing to launch.
            drop(self.end());
        }
    }
}

/// The error of what could not be captured, and where that was.
fn explain(error: Error, before: &Enqueued) -> Error {
    let error = match error {
        // Where the step is called from says the new error's own.
        Error::WithBacktrace { inner, .. } => *inner,
        other => other,
    };
    let place = match before.kernels.last() {
        None => "before its first kernel".to_owned(),
        Some(last) => format!(
            "after {} kernels, the last of them `{last}`",
            before.kernels.len()
        ),
    };
    Error::Msg(format!("the step cannot be captured, {place}: {error}")).bt()
}
