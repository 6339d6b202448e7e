//! A story begins with PyTorch's tokens on every GPU of the table, each emulated with its own number of compute units,
//! registers and LDS: most of them run the code of a generic target. Those that builds have code for on request alone run
//! where they have it; the others must, unless the tests are told that they may be missing.

#![cfg(feature = "rocm")]

mod common;

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_examples::checkpoint::Progress;
use candle_rocm_examples::generate::{generate, Options};
use candle_rocm_examples::{llama, shipped_model};
use candle_rocm_testing::needs;
use rocm_gpus::Gpu;

const TOKENS: usize = 8;

#[test]
fn every_gpu_writes_pytorchs_tokens() -> Result<()> {
    let served: Vec<Gpu> = Gpu::all()
        .filter(|gpu| needs::serves(gpu.name(), candle_rocm_kernels::serves))
        .collect();
    ensure!(!served.is_empty(), "the build embeds no kernels");
    let names: Vec<_> = served.iter().map(|gpu| gpu.name()).collect();
    // This is the process's only test, so that no other reads the environment meanwhile.
    std::env::set_var("ROCM_EMU_ARCH", names.join(","));
    std::env::set_var("CANDLE_ROCM_RUNTIME", "emulator");
    let folder = shipped_model("llama-stories");
    let (case, _) = common::truth(&folder)?
        .into_iter()
        .next()
        .context("no recorded case")?;
    for (ordinal, gpu) in served.into_iter().enumerate() {
        let device = Device::new_rocm(ordinal)?;
        let info = device.as_rocm_device()?.info();
        ensure!(
            (info.arch.as_str(), info.compute_units) == (gpu.name(), gpu.multiprocessors()),
            "{gpu}: {info:?}"
        );
        let mut model = llama::load(&folder, DType::F32, &device, &Progress::hidden())?;
        let options = Options {
            max_tokens: TOKENS,
            ignore_end_of_text: true,
            ..Options::default()
        };
        let written = generate(&mut model, &case.prompt_tokens, &options, &mut |_| Ok(()))?;
        ensure!(
            written.tokens == case.tokens[..TOKENS],
            "{gpu}: wrote {:?}, expected {:?}",
            written.tokens,
            &case.tokens[..TOKENS]
        );
    }
    Ok(())
}
