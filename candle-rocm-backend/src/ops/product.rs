//! Products with what follows them, in one launch where the runtime has such a kernel.

use candle_core::{bail, CudaStorage, DType, Device, Error, Result, Shape, Storage, Tensor};
use candle_rocm_runtime::gemm::{
    self, gemm_with_epilogue, GemmDtype, GemmProblem, Residual, Transpose,
};
use candle_rocm_runtime::{Stream, SyncOnDrop};

use super::activation::Activation;
use super::launch::{allocate, read, write};
use super::node::plain;

/// What follows a product: activation(product + bias) + residual.
pub(super) struct Epilogue<'a> {
    pub(super) bias: Option<&'a Tensor>,
    pub(super) activation: Activation,
    pub(super) residual: Option<&'a Tensor>,
}

/// x (rows, k) times weight (n, k) transposed, and what follows, of shape (rows, n). None where operators one by one must
/// make it: on the CPU, where a gradient is wanted, and for what products' kernels do not have.
pub(super) fn product_with(
    x: &Tensor,
    weight: &Tensor,
    [rows, k, n]: [usize; 3],
    epilogue: &Epilogue,
) -> Result<Option<Tensor>> {
    let Device::Cuda(device) = x.device() else {
        return Ok(None);
    };
    let (Some(activation), Some(dtype)) = (activation_of(epilogue.activation), dtype_of(x.dtype()))
    else {
        return Ok(None);
    };
    let operands = [Some(x), Some(weight), epilogue.bias, epilogue.residual];
    if rows * k * n == 0 || operands.iter().flatten().any(|operand| operand.track_op()) {
        return Ok(None);
    }
    let operands = operands
        .map(|operand| operand.map(Tensor::contiguous).transpose())
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let mut result = allocate(device, x.dtype(), rows * n)?;

    let stream = device.cuda_stream();
    let guards: Vec<_> = operands
        .iter()
        .map(|operand| operand.as_ref().map(Tensor::storage_and_layout))
        .collect();
    let mut uses = Vec::new();
    let mut addresses = [None; 4];
    for (address, guard) in addresses.iter_mut().zip(&guards) {
        let Some((storage, layout)) = guard else {
            continue;
        };
        let Storage::Cuda(storage) = &**storage else {
            bail!("linear: an operand is not on the GPU, as x is");
        };
        let first = layout.start_offset() * x.dtype().size_in_bytes();
        *address = Some(address_of(storage, &stream, &mut uses)? + first as u64);
    }
    let [Some(of_x), Some(of_weight), bias, residual] = addresses else {
        bail!("linear: x and weight have no memory");
    };
    let (c, written) = write(&mut result, &stream)?;
    uses.push(written);
    let problem = problem(dtype, [rows, k, n], [of_weight, of_x, c]);
    let fused = gemm::Epilogue {
        bias,
        activation,
        residual: residual.map(|address| Residual {
            address,
            ld: n,
            stride: 0,
        }),
    };
    // SAFETY: contiguous matrices of the shapes that the caller checked, and a result of its own; the guards keep their
    // memory until the work is given to the stream.
    unsafe { gemm_with_epilogue(&stream, &problem, &fused) }.map_err(Error::wrap)?;
    drop(uses);
    Ok(Some(plain(result, &Shape::from((rows, n)))))
}

/// The product of contiguous row-major matrices at these addresses: of the weight, of x and of the result. To products'
/// kernels they are column-major ones of the transpose: (n, rows) = weight (n, k) times x^T (k, rows).
fn problem(dtype: GemmDtype, [rows, k, n]: [usize; 3], addresses: [u64; 3]) -> GemmProblem {
    let ops = [Transpose::Yes, Transpose::No];
    GemmProblem::packed(dtype, ops, [n, rows, k], addresses)
}

/// The activation as products' kernels have it.
fn activation_of(activation: Activation) -> Option<gemm::Activation> {
    match activation {
        Activation::None => Some(gemm::Activation::None),
        Activation::Gelu => Some(gemm::Activation::GeluTanh),
        Activation::GeluErf => Some(gemm::Activation::GeluErf),
        Activation::Silu => Some(gemm::Activation::Silu),
        Activation::Relu => None,
    }
}

/// The type as products' kernels have it.
pub(super) fn dtype_of(dtype: DType) -> Option<GemmDtype> {
    match dtype {
        DType::F16 => Some(GemmDtype::F16),
        DType::BF16 => Some(GemmDtype::BF16),
        DType::F32 => Some(GemmDtype::F32),
        DType::F64 => Some(GemmDtype::F64),
        _ => None,
    }
}

fn address_of<'a>(
    storage: &'a CudaStorage,
    stream: &'a Stream,
    uses: &mut Vec<SyncOnDrop<'a>>,
) -> Result<u64> {
    let (address, guard) = read(storage, stream)?;
    uses.push(guard);
    Ok(address)
}
