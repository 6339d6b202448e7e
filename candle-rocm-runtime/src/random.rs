//! Random numbers, made on the device by a counter-based generator.
//!
//! Number `i` of a sequence depends on the seed, the kind of numbers (uniform or normal, f32 or f64) and
//! `i` alone: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) under
//! the seed as key. The same seed gives the same bits on every GPU, whatever its wavefront, and however
//! the numbers are split into fills. cuRAND's sequences are different ones.

use crate::base::dtype::DeviceRepr;
use crate::base::error::Result;
use crate::kernels::launch::PushKernelArg;
use crate::kernels::submit::LaunchConfig;
use crate::memory::access::DevicePtrMut;
use crate::stream::queue::Stream;

/// Work-items of a workgroup (`RANDOM_THREADS` in kernels/random/random.cu).
const THREADS: u32 = 256;
/// Enough workgroups for any device; each work-item then makes several numbers.
const MAX_WORKGROUPS: u64 = 1 << 16;

/// A type that random numbers can have: f32 or f64, as in cuRAND.
pub trait RandomFloat: Copy + DeviceRepr {
    /// The kernel for uniform numbers.
    const UNIFORM: &'static str;
    /// The kernel for normal numbers.
    const NORMAL: &'static str;
    /// Numbers that a block of the generator gives.
    const PER_BLOCK: u64;
}
impl RandomFloat for f32 {
    const UNIFORM: &'static str = "uniform_f32";
    const NORMAL: &'static str = "normal_f32";
    const PER_BLOCK: u64 = 4;
}
impl RandomFloat for f64 {
    const UNIFORM: &'static str = "uniform_f64";
    const NORMAL: &'static str = "normal_f64";
    const PER_BLOCK: u64 = 2;
}

/// Fills `dst` with numbers of (0, 1], those from `offset` on of the sequence that `seed` names.
///
/// They are multiples of 2^-24 (f32) or 2^-53 (f64), each equally likely: 0 is left out and 1 is not, as in
/// cuRAND.
///
/// # Errors
/// The module is not embedded for this device, or HIP refuses the launch.
pub fn fill_uniform<T: RandomFloat, Dst: DevicePtrMut<T>>(
    stream: &Stream,
    dst: &mut Dst,
    seed: u64,
    offset: u64,
) -> Result<()> {
    fill(stream, dst, T::UNIFORM, seed, offset, &[])
}

/// Fills `dst` with normally distributed numbers, those from `offset` on of the sequence that `seed` names.
///
/// Box and Muller's transform: any length will do, odd ones too.
///
/// # Errors
/// As [`fill_uniform`].
pub fn fill_normal<T: RandomFloat, Dst: DevicePtrMut<T>>(
    stream: &Stream,
    dst: &mut Dst,
    mean: T,
    std: T,
    seed: u64,
    offset: u64,
) -> Result<()> {
    fill(stream, dst, T::NORMAL, seed, offset, &[mean, std])
}

fn fill<T: RandomFloat, Dst: DevicePtrMut<T>>(
    stream: &Stream,
    dst: &mut Dst,
    kernel: &str,
    seed: u64,
    offset: u64,
    parameters: &[T],
) -> Result<()> {
    let count = dst.len() as u64;
    if count == 0 {
        return Ok(());
    }
    let function = stream
        .context()
        .kernel(&candle_rocm_kernels::RANDOM, kernel)?;
    // One block more where the first is only partly wanted.
    let blocks = count.div_ceil(T::PER_BLOCK) + 1;
    let workgroups = blocks.div_ceil(THREADS.into()).min(MAX_WORKGROUPS);
    let (address, _sync) = dst.device_ptr_mut(stream);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&address).arg(&count).arg(&seed).arg(&offset);
    for parameter in parameters {
        launch.arg(parameter);
    }
    let config = LaunchConfig {
        grid_dim: (workgroups as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel's parameters in order; it writes `count` elements, which is what `dst` has.
    unsafe { launch.launch(config) }?;
    Ok(())
}
