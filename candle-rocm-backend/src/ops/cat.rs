//! Concatenation in one launch.

use candle_core::shape::Dim;
use candle_core::{bail, CudaDevice, CudaStorage, Device, Result, Shape, Tensor};
use candle_rocm_kernels::CAT;
use candle_rocm_runtime::DeviceRepr;

use super::launch::{allocate, grid, launch_with, with_addresses, write, THREADS};
use super::node::{plain, result_of};
use super::operands::{empty, on_gpu};

const NAME: &str = "cat";
/// Inputs that a launch is told of (`CatInputs` of kernels/indexing/cat.cuh).
const INPUTS: usize = 192;
/// Chunks of a workgroup (`CAT_THREADS` and `CAT_CHUNKS` there).
const OF_WORKGROUP: usize = 4 * THREADS as usize;
/// Operands of a node of Candle's graph.
const OF_NODE: usize = 3;

candle_rocm_kernels::kernel_argument! { CAT_INPUTS,
    /// `CatInputs` of kernels/indexing/cat.cuh.
    #[derive(Clone, Copy, Debug)]
    struct Inputs {
        result: u64,
        rows: u64,
        stride: u32,
        count: u32,
        addresses: [u64; INPUTS],
        ends: [u32; INPUTS],
        first_blocks: [u32; INPUTS],
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Inputs {}

/// Tensors one after another along a dimension: Candle's `Tensor::cat`, in one launch for up to 192 tensors.
///
/// All have one dtype, which may be any, one device, and shapes that differ in that dimension alone. Those that are not
/// contiguous are copied first. Candle launches a copy for each tensor.
///
/// # Errors
/// No tensor, other dtypes, shapes or devices, or a failed launch; each names the operator and what was found.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// let device = Device::new_cuda(0)?;
/// let a = Tensor::new(&[[1u32, 2], [3, 4]], &device)?;
/// let b = Tensor::new(&[[5u32], [6]], &device)?;
/// let joined = candle_rocm_backend::ops::cat(&[&a, &b, &a], 1)?;
/// assert_eq!(joined.to_vec2::<u32>()?, [[1, 2, 5, 1, 2], [3, 4, 6, 3, 4]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cat<T: AsRef<Tensor>, Axis: Dim>(tensors: &[T], dim: Axis) -> Result<Tensor> {
    let tensors: Vec<&Tensor> = tensors.iter().map(AsRef::as_ref).collect();
    let Some(&first) = tensors.first() else {
        bail!("{NAME}: there is no tensor: give one at least");
    };
    let dim = dim.to_index(first.shape(), NAME)?;
    let shape = joined_shape(&tensors, dim)?;
    if tensors.len() == 1 {
        return Ok(first.clone());
    }
    if shape.elem_count() == 0 {
        return empty(first, &shape);
    }
    let row_bytes = shape.dims()[dim..].iter().product::<usize>() * first.dtype().size_in_bytes();
    if !on_gpu(first) || u32::try_from(row_bytes).is_err() {
        return Tensor::cat(&tensors, dim);
    }
    let contiguous = tensors.iter().map(|tensor| tensor.contiguous());
    let tensors: Vec<Tensor> = contiguous.collect::<Result<_>>()?;
    let result = joined(&tensors, dim, &shape)?;
    if tensors.iter().any(Tensor::track_op) {
        return in_graph(tensors, dim, result, shape);
    }
    Ok(plain(result, &shape))
}

/// The result's shape, of tensors that go together.
fn joined_shape(tensors: &[&Tensor], dim: usize) -> Result<Shape> {
    let first = tensors[0];
    let mut dims = first.dims().to_vec();
    dims[dim] = 0;
    for (number, tensor) in tensors.iter().enumerate() {
        if tensor.dtype() != first.dtype() {
            bail!(
                "{NAME}: tensor {number} is {:?}, and the first {:?}: convert one with to_dtype",
                tensor.dtype(),
                first.dtype()
            );
        }
        if !tensor.device().same_device(first.device()) {
            bail!(
                "{NAME}: tensor {number} is on {:?}, and the first on {:?}: move one with to_device",
                tensor.device().location(),
                first.device().location()
            );
        }
        let others = |dims: &[usize]| {
            let at = dims.iter().enumerate().filter(|(d, _)| *d != dim);
            at.map(|(_, &size)| size).collect::<Vec<_>>()
        };
        if tensor.rank() != first.rank() || others(tensor.dims()) != others(first.dims()) {
            bail!(
                "{NAME}: tensor {number} has shape {:?}, and the first {:?}: they may differ in dimension {dim} alone",
                tensor.shape(),
                first.shape()
            );
        }
        dims[dim] += tensor.dims()[dim];
    }
    Ok(dims.into())
}

/// The concatenation of contiguous tensors.
fn joined(tensors: &[Tensor], dim: usize, shape: &Shape) -> Result<CudaStorage> {
    let Device::Cuda(device) = tensors[0].device() else {
        bail!("{NAME}: the tensors are not on a GPU");
    };
    let size = tensors[0].dtype().size_in_bytes();
    let rows: usize = shape.dims()[..dim].iter().product();
    let inputs: Vec<(&Tensor, usize)> = tensors
        .iter()
        .map(|tensor| (tensor, tensor.elem_count() * size / rows))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let stride: usize = inputs.iter().map(|(_, bytes)| bytes).sum();
    let begins = inputs
        .iter()
        .map(|(tensor, _)| tensor.layout().start_offset() * size);
    let all = begins.chain(inputs.iter().map(|(_, bytes)| *bytes));
    // The largest power of two of bytes that all begin at and have whole numbers of.
    let unit = all.fold(16, |unit, bytes| {
        unit.min(1 << bytes.trailing_zeros().min(4))
    });
    let mut result = allocate(device, tensors[0].dtype(), shape.elem_count())?;
    let mut begin = 0;
    for some in inputs.chunks(INPUTS) {
        let row = Row {
            rows,
            stride,
            begin,
            unit,
        };
        begin += row.copy(device, some, &mut result)?;
    }
    Ok(result)
}

/// Where the inputs of a launch go: rows of so many bytes, from a byte on, by units.
struct Row {
    rows: usize,
    stride: usize,
    begin: usize,
    unit: usize,
}

impl Row {
    /// Copies inputs, of which a row has so many bytes; gives the bytes of a row that they fill.
    fn copy(
        &self,
        device: &CudaDevice,
        inputs: &[(&Tensor, usize)],
        result: &mut CudaStorage,
    ) -> Result<usize> {
        let mut told = Inputs {
            result: 0,
            rows: self.rows as u64,
            stride: (self.stride / self.unit) as u32,
            count: inputs.len() as u32,
            addresses: [0; INPUTS],
            ends: [0; INPUTS],
            first_blocks: [0; INPUTS],
        };
        let (mut end, mut blocks) = (0, 0);
        for (at, (_, bytes)) in inputs.iter().enumerate() {
            let width = bytes / self.unit;
            end += width;
            told.ends[at] = end as u32;
            told.first_blocks[at] = blocks as u32;
            blocks += (width * self.rows).div_ceil(OF_WORKGROUP);
        }
        // The kernel's numbers of workgroups have 32 bits, and the grid is refused where they do not.
        let config = grid(blocks, 1, THREADS)?;
        let stream = device.cuda_stream();
        let mut tensors = [None; INPUTS];
        for (to, (tensor, _)) in tensors.iter_mut().zip(inputs) {
            *to = Some(*tensor);
        }
        let (to, _use) = write(result, &stream)?;
        told.result = to + self.begin as u64;
        let kernel = format!("cat_{}", 8 * self.unit);
        with_addresses(NAME, &stream, tensors, |addresses| {
            told.addresses = addresses;
            // SAFETY: the kernel's argument; the inputs' rows are within the result's, which was made of their sum.
            unsafe { launch_with(device, &CAT, &kernel, config, &told) }
        })?;
        Ok(end * self.unit)
    }
}

/// The result in Candle's graph, whose nodes have three operands at most: where there are more tensors, nodes between have
/// the shape that some of them have together, and no memory of that size, since gradients alone are made of it.
fn in_graph(tensors: Vec<Tensor>, dim: usize, result: CudaStorage, shape: Shape) -> Result<Tensor> {
    let mut level = tensors;
    while level.len() > OF_NODE {
        let node = |some: &[Tensor]| match some {
            [only] => Ok(only.clone()),
            _ => {
                let Device::Cuda(device) = some[0].device() else {
                    bail!("{NAME}: the tensors are not on a GPU");
                };
                let mut dims = some[0].dims().to_vec();
                dims[dim] = some.iter().map(|tensor| tensor.dims()[dim]).sum();
                let nothing = allocate(device, some[0].dtype(), 1)?;
                joined_node(some, dim, nothing, &dims.into())
            }
        };
        level = level.chunks(OF_NODE).map(node).collect::<Result<_>>()?;
    }
    joined_node(&level, dim, result, &shape)
}

/// A node whose gradient is cut along a dimension, a piece for each operand.
fn joined_node(
    operands: &[Tensor],
    dim: usize,
    result: CudaStorage,
    shape: &Shape,
) -> Result<Tensor> {
    let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
        let mut begin = 0;
        let piece = |operand: &&Tensor| {
            let size = operand.dims()[dim];
            let piece = gradient.narrow(dim, begin, size)?;
            begin += size;
            Ok(operand.track_op().then_some(piece))
        };
        operands.iter().map(piece).collect()
    };
    let operands: Vec<&Tensor> = operands.iter().collect();
    result_of(NAME, &operands, result, shape, Box::new(backward))
}
