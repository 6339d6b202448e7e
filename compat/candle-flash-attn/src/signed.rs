//! i32 on a GPU, where Candle 0.11.1 converts it to nothing else.

use candle_core::op::BackpropOp;
use candle_core::{bail, CudaStorage, DType, Result, Storage, Tensor};

/// The same bits as u32, in a copy.
pub(crate) fn bits(x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    let count = x.elem_count();
    let (storage, layout) = x.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        bail!("i32 is read as u32 on GPUs alone");
    };
    let first = layout.start_offset();
    let numbers = storage.as_cuda_slice::<i32>()?.slice(first..first + count);
    // SAFETY: numbers of 32 bits either way, of which any pattern is one.
    let Some(numbers) = (unsafe { numbers.transmute::<u32>(count) }) else {
        bail!("{count} numbers of 32 bits are not as many of them");
    };
    let device = &storage.device;
    // SAFETY: all of it is written next.
    let mut copy = unsafe { device.alloc::<u32>(count)? };
    device.memcpy_dtod(&numbers, &mut copy)?;
    let copy = CudaStorage::wrap_cuda_slice(copy, device.clone());
    Ok(Tensor::from_storage(
        Storage::Cuda(copy),
        layout.shape().clone(),
        BackpropOp::none(),
        false,
    ))
}

/// The same numbers as f32: exact below 2^24, and rounded beyond.
pub(crate) fn to_f32(x: &Tensor) -> Result<Tensor> {
    let unsigned = bits(x)?.to_dtype(DType::I64)?;
    let negative = unsigned.ge(1i64 << 31)?.to_dtype(DType::I64)?;
    let beyond = (negative * 2f64.powi(32))?;
    (unsigned - beyond)?.to_dtype(DType::F32)
}
