//! Memory and streams passed to the crate rocm-rs, and back, without copies: AMD's libraries on Candle's tensors.
//!
//! It works on AMD's own HIP alone: to it, another runtime's memory is unknown. The example is `rocfft`.

use std::mem::{size_of, ManuallyDrop, MaybeUninit};

use ::rocm_rs::hip::{ffi, DeviceMemory, Stream};
use candle_core::backend::BackendStorage as _;
use candle_core::cuda_backend::cudarc::driver::DevicePtr as _;
use candle_core::cuda_backend::CudaDType;
use candle_core::op::BackpropOp;
use candle_core::{bail, CudaDevice, CudaStorage, Error, Result, Shape, Storage, Tensor};
use candle_rocm_runtime::RuntimeKind;

/// Refuses where rocm-rs would not know the device's memory.
fn check(device: &CudaDevice) -> Result<()> {
    let stream = device.cuda_stream();
    let kind = stream.context().device().runtime().kind();
    if kind != RuntimeKind::Amd {
        bail!("rocm-rs calls AMD's HIP, but the device is of the runtime {kind:?}: CANDLE_ROCM_RUNTIME=amd");
    }
    let hip = stream.context().device().hip();
    if hip.hipFree as usize != ffi::hipFree as *const () as usize {
        bail!("rocm-rs is linked to another libamdhip64 than Candle's, which CANDLE_ROCM_HIP_LIBRARY names");
    }
    Ok(())
}

/// Lends a tensor's elements to `use_it` as memory of rocm-rs, which does not free it.
///
/// What `use_it` enqueues on the device's stream ([`with_stream`]) comes after what wrote the tensor, and before what
/// reuses its memory.
///
/// # Safety
/// `use_it` only reads, though rocm-rs lets a shared reference write, and enqueues on the device's stream alone.
///
/// # Errors
/// The tensor is not on a GPU of AMD's HIP, not contiguous, or of another dtype; or `use_it` fails.
pub unsafe fn with_memory<T: CudaDType, R>(
    tensor: &Tensor,
    use_it: impl FnOnce(&DeviceMemory<T>) -> Result<R>,
) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        bail!(
            "a tensor on {:?} has no memory to lend to rocm-rs",
            tensor.device()
        );
    };
    check(storage.device())?;
    let Some((start, end)) = layout.contiguous_offsets() else {
        return Err(Error::RequiresContiguous { op: "rocm-rs" }.bt());
    };
    let stream = storage.device().cuda_stream();
    let elements = storage.as_cuda_slice::<T>()?.slice(start..end);
    let (ptr, _reading) = elements.device_ptr(&stream);
    let lent = lend::<T>(ptr as usize, (end - start) * size_of::<T>())?;
    use_it(&lent)
}

/// The type has no constructor for memory that is there; it is an address and a size in bytes, in either order.
fn lend<T>(ptr: usize, bytes: usize) -> Result<ManuallyDrop<DeviceMemory<T>>> {
    const { assert!(size_of::<DeviceMemory<T>>() == size_of::<[usize; 2]>()) };
    for words in [[ptr, bytes], [bytes, ptr]] {
        let mut memory = MaybeUninit::<DeviceMemory<T>>::uninit();
        // SAFETY: two words, as its two fields in the pinned version; any value is one of each.
        let memory = unsafe {
            memory.as_mut_ptr().cast::<[usize; 2]>().write(words);
            ManuallyDrop::new(memory.assume_init())
        };
        if memory.as_ptr() as usize == ptr && memory.size() == bytes {
            return Ok(memory);
        }
    }
    bail!("rocm-rs' memory is not laid out as in its version 0.5.2")
}

/// Lends the device's stream to `use_it`, as one of rocm-rs.
///
/// # Safety
/// `use_it` drops no clone of it: that would destroy the stream. Between what it enqueues, nothing else waits.
///
/// # Errors
/// The device is not one of AMD's HIP, or `use_it` fails.
pub unsafe fn with_stream<R>(
    device: &CudaDevice,
    use_it: impl FnOnce(&Stream) -> Result<R>,
) -> Result<R> {
    check(device)?;
    let stream = device.cuda_stream();
    stream.context().bind_to_thread().map_err(Error::wrap)?;
    use_it(&ManuallyDrop::new(Stream::from_raw(
        stream.cu_stream().cast(),
    )))
}

/// Memory of rocm-rs as a tensor of this shape, which frees it.
///
/// # Safety
/// The memory is of this device's GPU, and what writes it is done or on the device's stream.
///
/// # Errors
/// The device is not one of AMD's HIP, or the memory has another number of elements.
pub unsafe fn from_memory<T: CudaDType>(
    memory: DeviceMemory<T>,
    shape: impl Into<Shape>,
    device: &CudaDevice,
) -> Result<Tensor> {
    check(device)?;
    let shape = shape.into();
    if shape.elem_count() != memory.count() {
        bail!(
            "memory of {} elements for a tensor of {shape:?}",
            memory.count()
        );
    }
    let memory = ManuallyDrop::new(memory);
    let stream = device.cuda_stream();
    // SAFETY: of hipMalloc with so many elements, and nobody else's any more.
    let buffer = unsafe { stream.upgrade_device_ptr::<T>(memory.as_ptr() as u64, memory.count()) };
    let storage = CudaStorage::wrap_cuda_slice(buffer, device.clone());
    Ok(Tensor::from_storage(
        Storage::Cuda(storage),
        shape,
        BackpropOp::none(),
        false,
    ))
}
