//! Launching the kernels of module `fused` on tensors.

use candle_core::cuda_backend::CudaStorageSlice;
use candle_core::{bail, CudaDevice, CudaStorage, DType, Error, Result, Storage, Tensor};
use candle_rocm_kernels::launch_heuristics::MAX_GRID_YZ;
use candle_rocm_kernels::Module;
use candle_rocm_runtime::{
    DevicePtr as _, DevicePtrMut as _, DeviceRepr, Function, LaunchConfig, PushKernelArg as _,
    Stream, SyncOnDrop,
};

use crate::candle::StorageRef;

/// Work-items of a workgroup, for kernels of elements and of columns.
pub(crate) const THREADS: u32 = 256;
/// Workgroups for a compute unit beyond which more are of no use.
pub(crate) const WORKGROUPS_PER_UNIT: usize = 16;

/// An argument of a kernel.
pub(crate) enum Arg<'a> {
    /// A contiguous tensor's memory, or a null pointer.
    Read(Option<&'a Tensor>),
    /// The same without its first elements.
    ReadFrom(&'a Tensor, usize),
    /// A tensor's memory, of which the kernel is told the strides.
    Within(&'a Tensor),
    /// What an earlier kernel left.
    Left(&'a CudaStorage),
    Write(&'a mut CudaStorage),
    /// The address that an earlier argument is, so many bytes further.
    Beyond(usize, usize),
    Null,
    Int(u32),
    Long(usize),
    Float(f32),
    Double(f64),
}

/// An argument's value as the kernel takes it.
#[derive(Clone, Copy, Debug)]
enum Value {
    Int(u32),
    Long(u64),
    Float(f32),
    Double(f64),
}

/// Calls a macro with each element type's variant of a storage.
macro_rules! each_dtype {
    ($slice:expr, $name:ident => $body:expr) => {
        match $slice {
            CudaStorageSlice::U8($name) => Ok($body),
            CudaStorageSlice::U32($name) => Ok($body),
            CudaStorageSlice::I16($name) => Ok($body),
            CudaStorageSlice::I32($name) => Ok($body),
            CudaStorageSlice::I64($name) => Ok($body),
            CudaStorageSlice::F8E4M3($name) => Ok($body),
            CudaStorageSlice::F16($name) => Ok($body),
            CudaStorageSlice::BF16($name) => Ok($body),
            CudaStorageSlice::F32($name) => Ok($body),
            CudaStorageSlice::F64($name) => Ok($body),
            _ => Err(Error::Msg(
                "no kernel of the fused operators takes this dtype".to_owned(),
            )),
        }
    };
}

pub(crate) fn read<'a>(
    storage: &'a CudaStorage,
    stream: &'a Stream,
) -> Result<(u64, SyncOnDrop<'a>)> {
    each_dtype!(&storage.slice, slice => slice.device_ptr(stream))
}

pub(crate) fn write<'a>(
    storage: &'a mut CudaStorage,
    stream: &'a Stream,
) -> Result<(u64, SyncOnDrop<'a>)> {
    each_dtype!(&mut storage.slice, slice => slice.device_ptr_mut(stream))
}

/// The storage of one of the dtypes that kernels write: the element's type is $type in what makes its memory.
macro_rules! storage_of_dtype {
    ($device:expr, $dtype:expr, $type:ident => $memory:expr) => {{
        macro_rules! of {
            ($variant:ident, $element:ty) => {{
                type $type = $element;
                CudaStorageSlice::$variant($memory?)
            }};
        }
        let slice = match $dtype {
            DType::U8 => of!(U8, u8),
            DType::F16 => of!(F16, half::f16),
            DType::BF16 => of!(BF16, half::bf16),
            DType::F32 => of!(F32, f32),
            DType::F64 => of!(F64, f64),
            DType::F8E4M3 => of!(F8E4M3, float8::F8E4M3),
            DType::U32 => of!(U32, u32),
            DType::I16 => of!(I16, i16),
            DType::I32 => of!(I32, i32),
            DType::I64 => of!(I64, i64),
            other => bail!("no fused operator has results of {other:?}"),
        };
        Ok(CudaStorage {
            slice,
            device: $device.clone(),
        })
    }};
}

/// Memory for `count` elements, which the caller's kernel writes.
pub(crate) fn allocate(device: &CudaDevice, dtype: DType, count: usize) -> Result<CudaStorage> {
    // SAFETY: kernels write all of it before anything reads it.
    storage_of_dtype!(device, dtype, Element => unsafe { device.alloc::<Element>(count) })
}

/// The same with zeros in it.
pub(crate) fn allocate_zeros(
    device: &CudaDevice,
    dtype: DType,
    count: usize,
) -> Result<CudaStorage> {
    storage_of_dtype!(device, dtype, Element => device.alloc_zeros::<Element>(count))
}

/// The type of what kernels for `dtype` leave for each other.
pub(crate) fn sums_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}

/// A grid of `x` by `y` workgroups of so many threads.
pub(crate) fn grid(x: usize, y: usize, threads: u32) -> Result<LaunchConfig> {
    match (u32::try_from(x), u32::try_from(y)) {
        (Ok(x), Ok(y)) => Ok(LaunchConfig {
            grid_dim: (x, y, 1),
            block_dim: (threads, 1, 1),
            shared_mem_bytes: 0,
        }),
        _ => bail!("{x} by {y} workgroups are more than a launch can have"),
    }
}

/// A grid for a kernel of rows: what is asked for of each row, of which the kernel's geometry makes its own. Where rows are
/// few and long, the runtime launches two kernels instead, whose workgroups share each row.
pub(crate) fn row_grid(rows: usize) -> Result<LaunchConfig> {
    grid(rows, 1, 32)
}

/// A grid for elements of which each thread takes 16 bytes at a time.
pub(crate) fn element_grid(
    device: &CudaDevice,
    count: usize,
    dtype: DType,
) -> Result<LaunchConfig> {
    work_grid(device, (count * dtype.size_in_bytes()).div_ceil(16))
}

/// A grid for so many pieces of work, of which a thread takes one at a time.
pub(crate) fn work_grid(device: &CudaDevice, pieces: usize) -> Result<LaunchConfig> {
    work_grid_of(device, pieces, WORKGROUPS_PER_UNIT)
}

/// As [`work_grid`], of at most so many workgroups a compute unit.
pub(crate) fn work_grid_of(
    device: &CudaDevice,
    pieces: usize,
    of_unit: usize,
) -> Result<LaunchConfig> {
    let most = compute_units(device) * of_unit;
    grid(pieces.div_ceil(THREADS as usize).clamp(1, most), 1, THREADS)
}

pub(crate) fn compute_units(device: &CudaDevice) -> usize {
    let stream = device.cuda_stream();
    stream.context().info().compute_units.max(1) as usize
}

/// A row's length or a count as kernels take it.
pub(crate) fn int(operator: &str, what: &str, value: usize) -> Result<u32> {
    // The norms of Candle's own names take an i32.
    match i32::try_from(value) {
        Ok(value) => Ok(value.unsigned_abs()),
        Err(_) => bail!("{operator}: {value} {what} are more than 2^31 - 1"),
    }
}

/// A grid's third dimension: matrices or sequences that kernels take by themselves.
pub(crate) fn batched(
    operator: &str,
    mut config: LaunchConfig,
    batch: usize,
) -> Result<LaunchConfig> {
    if batch > MAX_GRID_YZ as usize {
        bail!("{operator}: a batch of {batch} is more than {MAX_GRID_YZ}");
    }
    config.grid_dim.2 = batch as u32;
    Ok(config)
}

/// Launches a kernel whose one argument is a struct on the device's stream.
///
/// # Safety
/// The argument is the kernel's, and what it says is within the memory that it names.
pub(crate) unsafe fn launch_with(
    device: &CudaDevice,
    module: &Module,
    kernel: &str,
    config: LaunchConfig,
    argument: &impl DeviceRepr,
) -> Result<()> {
    let stream = device.cuda_stream();
    let function = stream
        .context()
        .kernel(module, kernel)
        .map_err(Error::wrap)?;
    // SAFETY: the caller's promise.
    unsafe { launch_function(device, &function, config, argument) }
}

/// The same of a kernel that is at hand.
///
/// # Safety
/// As [`launch_with`].
pub(crate) unsafe fn launch_function(
    device: &CudaDevice,
    function: &Function,
    config: LaunchConfig,
    argument: &impl DeviceRepr,
) -> Result<()> {
    let stream = device.cuda_stream();
    let mut builder = stream.launch_builder(function);
    builder.arg(argument);
    // SAFETY: the caller's promise.
    unsafe { builder.launch(config) }.map_err(Error::wrap)?;
    Ok(())
}

/// As [`launch_with`], of an argument that is made of the addresses of so many pieces of memory: what of [`Arg`] is such,
/// or null.
///
/// # Safety
/// As [`launch_with`].
pub(crate) unsafe fn launch_of<const N: usize, A: DeviceRepr>(
    device: &CudaDevice,
    module: &Module,
    kernel: &str,
    config: LaunchConfig,
    memory: [Arg; N],
    argument: impl FnOnce([u64; N]) -> A,
) -> Result<()> {
    with_values(&device.cuda_stream(), kernel, memory.into(), |values| {
        let mut addresses = [0; N];
        for (to, value) in addresses.iter_mut().zip(values) {
            let Value::Long(address) = value else {
                bail!("`{kernel}`: {value:?} is no address");
            };
            *to = *address;
        }
        let argument = argument(addresses);
        // SAFETY: the caller's promise.
        unsafe { launch_with(device, module, kernel, config, &argument) }
    })
}

/// Launches a kernel on the device's stream.
///
/// # Safety
/// The arguments are the kernel's, in number, order and type, and what they say is within the memory given.
pub(crate) unsafe fn launch(
    device: &CudaDevice,
    module: &Module,
    kernel: &str,
    config: LaunchConfig,
    args: Vec<Arg>,
) -> Result<()> {
    let stream = device.cuda_stream();
    let function = stream
        .context()
        .kernel(module, kernel)
        .map_err(Error::wrap)?;
    with_values(&stream, kernel, args, |values| {
        let mut builder = stream.launch_builder(&function);
        for value in values {
            match value {
                Value::Int(value) => builder.arg(value),
                Value::Long(value) => builder.arg(value),
                Value::Float(value) => builder.arg(value),
                Value::Double(value) => builder.arg(value),
            };
        }
        // SAFETY: the caller's promise.
        unsafe { builder.launch(config) }.map_err(Error::wrap)?;
        Ok(())
    })
}

/// Calls `launch` with the arguments' values; what it gives to the stream may use their memory.
fn with_values(
    stream: &Stream,
    kernel: &str,
    mut args: Vec<Arg>,
    launch: impl FnOnce(&[Value]) -> Result<()>,
) -> Result<()> {
    let guards: Vec<Option<(StorageRef, usize)>> = args
        .iter()
        .map(|arg| storage_of(arg, kernel))
        .collect::<Result<_>>()?;
    let mut values: Vec<Value> = Vec::with_capacity(args.len());
    let mut uses = Vec::new();
    for (arg, guard) in args.iter_mut().zip(&guards) {
        let (memory, bytes) = match (arg, guard) {
            (_, Some((storage, bytes))) => match &**storage {
                Storage::Cuda(storage) => (read(storage, stream)?, *bytes),
                _ => bail!("`{kernel}`: an operand is not on the GPU"),
            },
            (Arg::Left(storage), _) => (read(storage, stream)?, 0),
            (Arg::Write(storage), _) => (write(storage, stream)?, 0),
            (other, None) => {
                values.push(value_of(other, &values, kernel)?);
                continue;
            }
        };
        let (address, guard) = memory;
        uses.push(guard);
        values.push(Value::Long(address + bytes as u64));
    }
    launch(&values)
}

/// Calls `launch` with the addresses of tensors on the GPU, 0 where there is none. What it gives to the stream may read
/// them.
pub(crate) fn with_addresses<const N: usize>(
    name: &str,
    stream: &Stream,
    tensors: [Option<&Tensor>; N],
    launch: impl FnOnce([u64; N]) -> Result<()>,
) -> Result<()> {
    let guards = tensors.map(|tensor| tensor.map(|tensor| (tensor, tensor.storage_and_layout().0)));
    let (mut addresses, mut uses) = ([0; N], Vec::new());
    for (to, guard) in addresses.iter_mut().zip(&guards) {
        let Some((tensor, storage)) = guard else {
            continue;
        };
        let Storage::Cuda(storage) = &**storage else {
            bail!("{name}: an operand is not on the GPU, as others are");
        };
        let (address, used) = read(storage, stream)?;
        let first = tensor.layout().start_offset() * tensor.dtype().size_in_bytes();
        *to = address + first as u64;
        uses.push(used);
    }
    launch(addresses)
}

/// Refuses an operand whose elements do not follow one another.
pub(crate) fn check_contiguous(kernel: impl std::fmt::Display, operand: &Tensor) -> Result<()> {
    let layout = operand.layout();
    if !layout.is_contiguous() {
        bail!("`{kernel}`: an operand of {layout:?} is not contiguous");
    }
    Ok(())
}

/// The memory of an operand that is a tensor, and the bytes in it before the first element.
fn storage_of<'a>(arg: &Arg<'a>, kernel: &str) -> Result<Option<(StorageRef<'a>, usize)>> {
    let (tensor, first, strided) = match arg {
        Arg::Read(Some(tensor)) => (*tensor, 0, false),
        Arg::ReadFrom(tensor, first) => (*tensor, *first, false),
        Arg::Within(tensor) => (*tensor, 0, true),
        _ => return Ok(None),
    };
    if !strided {
        check_contiguous(kernel, tensor)?;
    }
    let (storage, layout) = tensor.storage_and_layout();
    let bytes = (layout.start_offset() + first) * tensor.dtype().size_in_bytes();
    Ok(Some((storage, bytes)))
}

/// An argument that needs no memory of its own, after those before it.
fn value_of(arg: &Arg, before: &[Value], kernel: &str) -> Result<Value> {
    Ok(match arg {
        Arg::Int(value) => Value::Int(*value),
        Arg::Float(value) => Value::Float(*value),
        Arg::Double(value) => Value::Double(*value),
        Arg::Long(value) => Value::Long(*value as u64),
        Arg::Beyond(earlier, bytes) => match before.get(*earlier) {
            Some(Value::Long(address)) => Value::Long(address + *bytes as u64),
            _ => bail!("`{kernel}`: argument {earlier} is no address"),
        },
        Arg::Null | Arg::Read(_) | Arg::ReadFrom(..) | Arg::Within(_) => Value::Long(0),
        Arg::Left(_) | Arg::Write(_) => bail!("`{kernel}`: an operand's memory was not looked up"),
    })
}
