//! Convolutions that are products as they lie in memory: of one tap, with stride 1 and no padding.

use super::description::{Activation, Convolution, Epilogue, Operands, Operation};
use crate::gemm::{self, GemmDtype, GemmProblem, Residual, Transpose};
use candle_rocm_kernels::matmul::Dtype;

/// The product, and what follows it; `None` if it is none.
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
    if of.operation != Operation::Forward || of.groups != 1 || !of.axes.iter().all(is_plain) {
        return None;
    }
    let places = of.axes.map(|axis| axis.input);
    let plane: usize = places.iter().product();
    let (x, w, y) = (&of.inputs, &of.weights, &of.outputs);
    if of.in_channels == 0 || w.batch < of.in_channels || w.channel != 1 && of.in_channels > 1 {
        return None;
    }
    let dtype = dtype_of(of.dtype)?;
    let no = Transpose::No;
    let problem = |ops, [m, n, k]: [usize; 3], operands: [u64; 3]| GemmProblem {
        alpha: epilogue.alpha,
        beta: epilogue.beta,
        ..GemmProblem::packed(dtype, ops, [m, n, k], operands)
    };
    // Channels last: rows are channels, as are a bias and what follows it.
    let (ci, co) = (of.in_channels, of.out_channels);
    let is_last = |strides: &super::Strides, channels: usize| {
        has_places(strides, places, channels) && strides.channel == 1
    };
    if is_last(x, ci)
        && is_last(y, co)
        && is_dense(of.batch, x.batch, plane * ci)
        && is_dense(of.batch, y.batch, plane * co)
    {
        let activation = activation_of(epilogue.activation)?;
        let mut product = problem(
            [Transpose::Yes, no],
            [co, of.batch * plane, ci],
            [operands.weights, operands.inputs, operands.outputs],
        );
        product.lda = w.batch;
        let follows = gemm::Epilogue {
            bias: epilogue.bias,
            activation,
            residual: epilogue.residual.map(|address| Residual {
                address,
                ld: co,
                stride: 0,
            }),
        };
        return Some((product, follows));
    }
    // Channels first: a product for each image.
    let is_first =
        |strides: &super::Strides| has_places(strides, places, 1) && strides.channel == plane;
    let is_bare = epilogue.bias.is_none()
        && epilogue.activation == Activation::None
        && epilogue.residual.is_none();
    if !is_bare || !is_first(x) || !is_first(y) {
        return None;
    }
    let mut product = problem(
        [no, no],
        [plane, co, ci],
        [operands.inputs, operands.weights, operands.outputs],
    );
    product.ldb = w.batch;
    product.batch = of.batch;
    product.stride_a = i64::try_from(x.batch).ok()?;
    product.stride_b = 0;
    product.stride_c = i64::try_from(y.batch).ok()?;
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

fn is_dense(batch: usize, stride: usize, image: usize) -> bool {
    batch == 1 || stride == image
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
