//! Kernels in the place of a graph's memory nodes.

use candle_rocm_kernels::FILL;

use crate::base::error::Result;
use crate::kernels::launch::PushKernelArg as _;
use crate::kernels::submit::LaunchConfig;
use crate::memory::in_capture::{provide, ByKernels};
use crate::runtime::RuntimeKind;
use crate::stream::queue::Stream;

/// Those that fill and copy, by words and by bytes.
const KERNELS: [&str; 4] = ["const_set_u32", "const_set_u8", "copy2d_u32", "copy2d_u8"];

/// Elements that one launch copies at most; the kernel counts them in 32 bits.
const MOST: usize = 1 << 30;

/// Sees to it that a capture on this stream has the kernels, which are not loaded while it goes on.
///
/// # Errors
/// A kernel that the build has for this GPU does not load.
pub(super) fn prepare(stream: &Stream) -> Result<()> {
    if are_there(stream) {
        for kernel in KERNELS {
            stream.context().kernel(&FILL, kernel)?;
        }
        provide(ByKernels { zeros, copy });
    }
    Ok(())
}

/// Whether the build has the kernels for the stream's GPU. NVIDIA's graphs have memory nodes that are right.
fn are_there(stream: &Stream) -> bool {
    let device = stream.context().device();
    device.runtime().kind() != RuntimeKind::Nvidia
        && candle_rocm_kernels::serves(&device.info().arch)
}

/// Whether addresses and a size are those of whole words.
fn are_words(numbers: &[u64]) -> bool {
    numbers.iter().all(|number| number.is_multiple_of(4))
}

fn zeros(stream: &Stream, address: u64, bytes: usize) -> Result<bool> {
    if !are_there(stream) {
        return Ok(false);
    }
    let words = are_words(&[address, bytes as u64]);
    let (kernel, count) = match words {
        true => (KERNELS[0], bytes / 4),
        false => (KERNELS[1], bytes),
    };
    let function = stream.context().kernel(&FILL, kernel)?;
    let mut launch = stream.launch_builder(&function);
    // Elements, dimensions, and no layout: the memory is contiguous.
    launch.arg(&count).arg(&1usize).arg(&0usize);
    match words {
        true => launch.arg(&0u32),
        false => launch.arg(&0u8),
    };
    launch.arg(&address);
    // SAFETY: the arguments are those of the kernel, and there is memory for so many elements.
    unsafe { launch.launch(LaunchConfig::for_num_elems(count as u32)) }?;
    Ok(true)
}

fn copy(stream: &Stream, to: u64, from: u64, bytes: usize) -> Result<bool> {
    if !are_there(stream) {
        return Ok(false);
    }
    let (kernel, size) = match are_words(&[to, from, bytes as u64]) {
        true => (KERNELS[2], 4),
        false => (KERNELS[3], 1),
    };
    let function = stream.context().kernel(&FILL, kernel)?;
    let all = bytes / size;
    for first in (0..all).step_by(MOST) {
        let count = MOST.min(all - first) as u32;
        let at = (first * size) as u64;
        let (from, to) = (from + at, to + at);
        let mut launch = stream.launch_builder(&function);
        // One row, whose pitches nothing reads.
        launch.arg(&from).arg(&to).arg(&1u32).arg(&count);
        launch.arg(&count).arg(&count);
        // SAFETY: the arguments are those of the kernel, and both ends have memory for so many elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(count)) }?;
    }
    Ok(true)
}
