//! A kernel that is wrong by one element is caught, not survived.

use anyhow::{ensure, Context as _, Result};
use candle_core::cuda_backend::cudarc::driver::{LaunchConfig, PushKernelArg};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_runtime::Image;
use candle_rocm_testing::hip::{compile, Compile};
use candle_rocm_tests::device;

/// `limit` is the caller's mistake: one more than the buffer holds.
const SOURCE: &str = r#"
extern "C" __attribute__((global)) void fill_up_to(float* out, unsigned limit) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
    if (i < limit) out[i] = 1.0f;
}
"#;

#[test]
fn one_element_past_the_end_is_an_error() -> Result<()> {
    const ELEMENTS: u32 = 1000;
    let device = device()?;
    let gpu = device.as_rocm_device()?;
    let image = Image::from_binary(compile(SOURCE, &Compile::device(&gpu.info().arch)));
    let stream = gpu.cuda_stream();
    let module = stream.context().load_module(image)?;
    let kernel = module.load_function("fill_up_to")?;
    let buffer = stream.alloc_zeros::<f32>(ELEMENTS as usize)?;
    let launch = |limit: u32| -> Result<()> {
        let config = LaunchConfig {
            grid_dim: (ELEMENTS.div_ceil(64), 1, 1),
            block_dim: (64, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut builder = stream.launch_builder(&kernel);
        builder.arg(&buffer).arg(&limit);
        // SAFETY: the kernel writes `limit` floats; one too many is what the emulator must stop.
        unsafe { builder.launch(config) }?;
        stream.synchronize()?;
        Ok(())
    };
    launch(ELEMENTS).context("within the buffer")?;
    ensure!(
        stream.clone_dtoh(&buffer)?.iter().all(|&x| x == 1.0),
        "the kernel did not run"
    );

    let error = launch(ELEMENTS + 1)
        .err()
        .context("one element too many was survived")?;
    let text = format!("{error:#}");
    // The 1001st element: workgroup 15, item 40.
    for part in [
        "fill_up_to",
        "out-of-bounds store of 4 bytes",
        "workgroup (15, 0, 0)",
    ] {
        ensure!(
            text.contains(part),
            "the error does not say {part:?}: {text}"
        );
    }
    Ok(())
}
