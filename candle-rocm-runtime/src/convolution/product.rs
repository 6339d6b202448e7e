//! Convolutions that are products as they lie in memory: of one tap, with stride 1 and no padding.

use super::description::{Activation, Convolution, Epilogue, Operands, Operation};
use crate::gemm::{self, GemmDtype, GemmProblem, Residual, Transpose};
use candle_rocm_kernels::matmul::Dtype;

/// The product, and what follows it; `None` if it is none. Weights are read as they lie.
pub(super) fn of(
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
) -> Option<(GemmProblem, gemm::Epilogue)> {
    let is_plain = |axis: &super::Axis| {
        axis.kernel == 1 && axis.stride == 1 && axis.padding == 0 && axis.input == axis.output
    };
    if epilogue.addend.is_some() && epilogue.beta != 0.0 {
        return None;
    }
    if of.groups != 1 || !of.axes.iter().all(is_plain) {
        return None;
    }
    let w = &of.weights;
    if of.in_channels == 0 || w.batch < of.in_channels || w.channel != 1 && of.in_channels > 1 {
        return None;
    }
    channels_last(of, operands, epilogue).or_else(|| channels_first(of, operands, epilogue))
}

/// A packed product, with the epilogue's factors.
fn product(
    of: &Convolution,
    epilogue: &Epilogue,
    ops: [Transpose; 2],
    sizes: [usize; 3],
    operands: [u64; 3],
) -> Option<GemmProblem> {
    Some(GemmProblem {
        alpha: epilogue.alpha,
        beta: epilogue.beta,
        ..GemmProblem::packed(dtype_of(of.dtype)?, ops, sizes, operands)
    })
}

/// Of tensors whose channels are neighbours: rows are channels, as are a bias and what follows it.
fn channels_last(
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
) -> Option<(GemmProblem, gemm::Epilogue)> {
    let places = of.axes.map(|axis| axis.input);
    let plane: usize = places.iter().product();
    let is_last = |strides: &super::Strides, channels: usize| {
        has_places(strides, places, channels)
            && (strides.channel == 1 || channels == 1)
            && (of.batch == 1 || strides.batch == plane * channels)
    };
    let (ci, co) = (of.in_channels, of.out_channels);
    if !is_last(&of.inputs, ci) || !is_last(&of.outputs, co) {
        return None;
    }
    let (no, yes, all) = (Transpose::No, Transpose::Yes, of.batch * plane);
    let (x, w, y) = (operands.inputs, operands.weights, operands.outputs);
    let (ops, sizes, operands) = match of.operation {
        Operation::Forward => ([yes, no], [co, all, ci], [w, x, y]),
        Operation::Data => ([no, no], [ci, all, co], [w, y, x]),
        Operation::Weights => ([no, yes], [ci, co, all], [x, y, w]),
    };
    let mut product = product(of, epilogue, ops, sizes, operands)?;
    match of.operation {
        Operation::Weights => product.ldc = of.weights.batch,
        Operation::Forward | Operation::Data => product.lda = of.weights.batch,
    }
    let follows = gemm::Epilogue {
        bias: epilogue.bias,
        activation: activation_of(epilogue.activation)?,
        residual: epilogue.residual.map(|address| Residual {
            address,
            ld: product.ldc,
            stride: 0,
        }),
    };
    Some((product, follows))
}

/// Of tensors whose places are neighbours: a product for each image. A gradient of weights would be a sum of these.
fn channels_first(
    of: &Convolution,
    operands: &Operands,
    epilogue: &Epilogue,
) -> Option<(GemmProblem, gemm::Epilogue)> {
    let places = of.axes.map(|axis| axis.input);
    let plane: usize = places.iter().product();
    let (x, y) = (&of.inputs, &of.outputs);
    let is_first =
        |strides: &super::Strides| has_places(strides, places, 1) && strides.channel == plane;
    let is_bare = epilogue.bias.is_none()
        && epilogue.activation == Activation::None
        && epilogue.residual.is_none();
    if !is_bare || !is_first(x) || !is_first(y) {
        return None;
    }
    let (no, (ci, co)) = (Transpose::No, (of.in_channels, of.out_channels));
    let (transpose, k, n, [image, result], [from, to]) = match of.operation {
        Operation::Forward => (no, ci, co, [x, y], [operands.inputs, operands.outputs]),
        Operation::Data => (
            Transpose::Yes,
            co,
            ci,
            [y, x],
            [operands.outputs, operands.inputs],
        ),
        Operation::Weights => return None,
    };
    let addresses = [from, operands.weights, to];
    let mut product = product(of, epilogue, [no, transpose], [plane, n, k], addresses)?;
    product.ldb = of.weights.batch;
    product.batch = of.batch;
    product.stride_a = i64::try_from(image.batch).ok()?;
    product.stride_b = 0;
    product.stride_c = i64::try_from(result.batch).ok()?;
    Some((product, gemm::Epilogue::default()))
}

/// The products' name for a dtype, if they have it.
fn dtype_of(dtype: Dtype) -> Option<GemmDtype> {
    match dtype {
        Dtype::F16 => Some(GemmDtype::F16),
        Dtype::BF16 => Some(GemmDtype::BF16),
        Dtype::F32 => Some(GemmDtype::F32),
        Dtype::F64 => Some(GemmDtype::F64),
        Dtype::I8 => None,
    }
}

/// Whether places follow one another, so many elements apart.
fn has_places(strides: &super::Strides, places: [usize; 3], apart: usize) -> bool {
    let mut next = apart;
    (0..3).rev().all(|i| {
        let follows = places[i] == 1 || strides.axes[i] == next;
        next *= places[i];
        follows
    })
}

fn activation_of(activation: Activation) -> Option<gemm::Activation> {
    match activation {
        Activation::None => Some(gemm::Activation::None),
        Activation::Silu => Some(gemm::Activation::Silu),
        Activation::GeluTanh => Some(gemm::Activation::GeluTanh),
        Activation::GeluErf => Some(gemm::Activation::GeluErf),
        Activation::Relu | Activation::ReluOfNan => None,
    }
}
