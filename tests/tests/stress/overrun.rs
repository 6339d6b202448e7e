//! One element too far, on purpose: what NVIDIA's memory checker must see, or its silence means nothing.

use anyhow::Result;
use candle_rocm_runtime::{LaunchConfig, PushKernelArg as _};

use super::amount::context;

/// Run by `run.sh sanitize` under the checker, and with `CANDLE_ROCM_POOL=0`: within the pool's blocks there is room.
#[test]
#[ignore = "writes beyond an allocation, for a memory checker"]
fn one_element_too_far() -> Result<()> {
    let context = context()?;
    let stream = context.new_stream()?;
    let mut words = stream.alloc_zeros::<u32>(1000)?;
    let fill = context.kernel(&candle_rocm_kernels::FILL, "const_set_u32")?;
    let (count, none, value) = (words.len() + 1, 0usize, 7u32);
    let mut launch = stream.launch_builder(&fill);
    launch.arg(&count).arg(&none).arg(&none).arg(&value);
    launch.arg(&mut words);
    // SAFETY: none: the kernel writes one word beyond the buffer. The process does nothing else.
    unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }?;
    stream.synchronize()?;
    Ok(())
}
