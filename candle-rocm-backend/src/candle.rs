//! What Candle's versions call differently: the one file that knows which of them this is built on.

use candle_core::quantized::QTensor;
use candle_core::{CudaDevice, Result};
use candle_rocm_runtime::{Stream, SyncOnDrop};

#[cfg(not(candle_0_10))]
pub(crate) use candle_core::StorageRef;

/// A tensor's storage, locked for reading.
#[cfg(candle_0_10)]
pub(crate) type StorageRef<'a> = std::sync::RwLockReadGuard<'a, candle_core::Storage>;

/// The address of a quantised matrix on the GPU, for reads that are given to `stream` while the guard lives.
///
/// # Errors
/// The matrix is not on a GPU.
#[cfg(not(candle_0_10))]
pub(crate) fn address_of<'a>(
    matrix: &'a QTensor,
    stream: &'a Stream,
) -> Result<(u64, SyncOnDrop<'a>)> {
    let (address, guard) = matrix.device_ptr_with_guard(stream)?;
    Ok((address as u64, guard))
}

/// The address of a quantised matrix on the GPU. Candle 0.10 lends no guard: the matrix's own stream, which wrote it, is
/// the device's, on which the operators of this crate read it.
///
/// # Errors
/// The matrix is not on a GPU.
#[cfg(candle_0_10)]
pub(crate) fn address_of<'a>(
    matrix: &'a QTensor,
    _stream: &'a Stream,
) -> Result<(u64, SyncOnDrop<'a>)> {
    Ok((matrix.device_ptr()? as u64, SyncOnDrop::nothing()))
}

/// While the result lives, what operators upload for a kernel (sizes, strides) stays on the device, and a capture finds it.
#[cfg(not(candle_0_10))]
pub(crate) fn keep_parameters(device: &CudaDevice) -> impl Sized + '_ {
    device.enable_cuda_graph_htod_cache()
}

/// Candle 0.10 keeps nothing: an operator that uploads sizes or strides ends a capture with an error that says so.
#[cfg(candle_0_10)]
pub(crate) fn keep_parameters(_device: &CudaDevice) -> impl Sized + '_ {}
