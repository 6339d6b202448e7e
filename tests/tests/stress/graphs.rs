//! Graphs: captured once, replayed a thousand times with changed inputs, held to the same work done eagerly.

use anyhow::{ensure, Context as _, Result};
use candle_core::{Device, Tensor, D};
use candle_nn::ops;
use candle_rocm_backend::DeviceExt as _;
use candle_rocm_runtime::cuda_names::{
    CUgraphInstantiate_flags as Flags, CUstreamCaptureMode as Mode,
};
use candle_rocm_runtime::Graph;

use super::amount::{amount, context, is_emulated, shared};
use super::inputs::{floats, many_numbers};
use super::patterns::Patterns;

/// Kernels of the captured chain.
const CHAIN: [[u32; 2]; 12] = [
    [3, 1],
    [5, 2],
    [7, 3],
    [11, 4],
    [13, 5],
    [17, 6],
    [19, 7],
    [23, 8],
    [29, 9],
    [31, 10],
    [37, 11],
    [41, 12],
];

/// Nobody waits between replays: inputs are changed and results collected on the stream.
#[test]
fn a_chain_of_kernels_is_replayed_with_changed_inputs() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    // SAFETY: one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let patterns = Patterns::new(&context)?;
    let words = if is_emulated()? { 1 << 9 } else { 1 << 16 };
    let replays = amount(1000, 200)?;
    let mut input = stream.alloc_zeros::<u32>(words)?;
    let mut results = stream.alloc_zeros::<u32>(2 * replays)?;
    stream.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    // Each step's buffer is allocated and freed within the capture, so that the graph owns what they reuse.
    let mut last = stream.clone_dtod(&input)?;
    for step in CHAIN {
        // SAFETY: written by the next line.
        let mut next = unsafe { stream.alloc::<u32>(words) }?;
        patterns.step(&stream, &last.as_view(), &mut next, step)?;
        last = next;
    }
    let graph = stream
        .end_capture(Flags::NONE)?
        .context("the capture is empty")?;
    for replay in 0..replays {
        patterns.fill(&stream, &mut input, replay as u32)?;
        graph.launch()?;
        for (i, at) in [0, words - 1].into_iter().enumerate() {
            let to = 2 * replay + i;
            stream.memcpy_dtod(&last.slice(at..at + 1), &mut results.slice_mut(to..to + 1))?;
        }
        // Memory that comes and goes between replays is not the graph's.
        let mut other = stream.alloc_zeros::<u32>(words)?;
        patterns.fill(&stream, &mut other, !0)?;
    }
    let results = stream.clone_dtoh(&results)?;
    for (replay, found) in results.chunks(2).enumerate() {
        let expected = CHAIN.iter().fold(replay as u32, |x, [mul, add]| {
            x.wrapping_mul(*mul).wrapping_add(*add)
        });
        ensure!(
            found == [expected; 2],
            "replay {replay}: {found:x?}, not {expected:x}"
        );
    }
    Ok(())
}

const WIDTH: usize = 64;

/// A block of a model on contiguous tensors: what a program would capture.
struct Block {
    scale: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Block {
    fn new(device: &Device) -> Result<Self> {
        let matrix = |seed, rows, columns| -> Result<Tensor> {
            let numbers = many_numbers(candle_core::DType::F32, seed, rows * columns)?;
            Ok((numbers.reshape((rows, columns))? * 0.1)?.to_device(device)?)
        };
        Ok(Self {
            scale: matrix(1, 1, WIDTH)?.flatten_all()?,
            up: matrix(2, WIDTH, 4 * WIDTH)?,
            down: matrix(3, 4 * WIDTH, WIDTH)?,
        })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let normed = ops::rms_norm(x, &self.scale, 1e-5)?;
        let hidden = normed.matmul(&self.up)?.silu()?.matmul(&self.down)?;
        let x = (x + hidden)?;
        let weights = ops::softmax_last_dim(&(&x * 0.5)?)?;
        (weights + x.sqr()?)?.sum_keepdim(D::Minus1)?.log()? + 1.0
    }
}

/// Captures `forward` of what `input` holds at each launch.
fn capture(device: &Device, block: &Block, input: &Tensor) -> Result<(Graph, Tensor)> {
    let gpu = device.as_rocm_device()?;
    // Strides travel from the host: the first run uploads them, the capture finds them there.
    let _cache = gpu.enable_cuda_graph_htod_cache();
    block.forward(input)?;
    let stream = gpu.cuda_stream();
    stream.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let output = block.forward(input);
    let graph = stream.end_capture(Flags::NONE);
    let output = output.context("while capturing")?;
    Ok((graph?.context("the capture is empty")?, output))
}

/// Captures, replays and compares with eager execution, bit by bit, on a device of its own.
fn replay_a_block(number: usize, replays: usize, rows: usize) -> Result<()> {
    let device = Device::new_rocm_with_stream(0)?;
    // SAFETY: everything of this device runs on its one stream.
    unsafe { device.as_rocm_device()?.disable_event_tracking() };
    let block = Block::new(&device)?;
    let inputs = (0..8)
        .map(|i| -> Result<Tensor> {
            let seed = (number * 8 + i) as u64;
            let numbers = many_numbers(candle_core::DType::F32, seed, rows * WIDTH)?;
            Ok(numbers.reshape((rows, WIDTH))?.to_device(&device)?)
        })
        .collect::<Result<Vec<_>>>()?;
    let eager = inputs
        .iter()
        .map(|input| floats(&block.forward(input)?))
        .collect::<Result<Vec<_>>>()?;
    let input = inputs[0].force_contiguous()?;
    let (graph, output) = capture(&device, &block, &input)?;
    let mut pending = Vec::new();
    for replay in 0..replays {
        let which = (replay * 5 + number) % inputs.len();
        input.slice_set(&inputs[which], 0, 0)?;
        graph.launch()?;
        pending.push((replay, which, output.force_contiguous()?));
        if pending.len() == 50 || replay + 1 == replays {
            for (replay, which, found) in pending.drain(..) {
                ensure!(
                    floats(&found)? == eager[which],
                    "device {number}, replay {replay}: not what eager execution gives for input {which}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_captured_block_equals_eager_execution() -> Result<()> {
    let _gpu = shared();
    replay_a_block(0, amount(1000, 50)?, if is_emulated()? { 3 } else { 64 })
}

/// Four threads capture and replay at once, each on a stream of its own.
#[test]
fn threads_capture_and_replay_at_once() -> Result<()> {
    let _gpu = shared();
    let (replays, rows) = (amount(300, 15)?, if is_emulated()? { 2 } else { 32 });
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..5)
            .map(|number| scope.spawn(move || replay_a_block(number, replays, rows)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread returns its error"))
    })
}
