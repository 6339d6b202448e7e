//! Times Candle's operators and models on one GPU, on request: a line of JSON in, a line out.

fn main() -> anyhow::Result<()> {
    bench_worker::serve(|| candle_core::Device::new_cuda(0))
}
