//! Time on the GPU, by events around many repetitions.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use candle_rocm_runtime::cuda_names::{
    CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode,
};
use candle_rocm_runtime::Stream;

/// Samples, of which the median is taken.
const SAMPLES: usize = 7;
/// Milliseconds that a sample should take, so that launches are few beside it and the events' resolution is.
const SAMPLE_MS: f64 = 10.0;
/// Repetitions of a sample at most.
const MOST: usize = 2000;

/// Microseconds of one `run(i)`, which enqueues work; i counts up, for those that take turns with their inputs.
pub fn microseconds(stream: &Arc<Stream>, mut run: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let mut turn = 0;
    let mut sample = |repeats: usize| -> Result<f64> {
        let context = stream.context();
        let start = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        let end = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        start.record(stream)?;
        for _ in 0..repeats {
            run(turn)?;
            turn += 1;
        }
        end.record(stream)?;
        end.synchronize()?;
        Ok(f64::from(start.elapsed_ms(&end)?) * 1e3 / repeats as f64)
    };
    // The first loads the kernel, the second tells how long it takes.
    sample(1)?;
    let once = sample(3)?;
    let repeats = ((SAMPLE_MS * 1e3 / once.max(1.0)) as usize).clamp(3, MOST);
    let mut samples = (0..SAMPLES)
        .map(|_| sample(repeats))
        .collect::<Result<Vec<_>>>()?;
    samples.sort_by(f64::total_cmp);
    Ok(samples[SAMPLES / 2])
}

/// Samples of a graph, of which the median is taken.
const GRAPH_SAMPLES: usize = 5;

/// Microseconds of one `run(i)`, i counting up to `runs`, which are captured into a graph. The stream is no default stream.
pub fn graph_microseconds(
    stream: &Arc<Stream>,
    runs: usize,
    mut run: impl FnMut(usize) -> candle_rocm_runtime::Result<()>,
) -> Result<f64> {
    // Loads the kernel, which a capture does not allow.
    run(0)?;
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    let captured = (0..runs).try_for_each(&mut run);
    let graph = stream.end_capture(CUgraphInstantiate_flags::default());
    captured?;
    let graph = graph?.context("nothing was captured")?;
    graph.launch()?;
    let context = stream.context();
    let mut samples = Vec::new();
    for _ in 0..GRAPH_SAMPLES {
        let start = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        let end = context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        start.record(stream)?;
        graph.launch()?;
        end.record(stream)?;
        end.synchronize()?;
        samples.push(f64::from(start.elapsed_ms(&end)?) * 1e3 / runs as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[GRAPH_SAMPLES / 2])
}
