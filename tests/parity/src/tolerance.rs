//! How near two results must be, by operator and dtype, and the few cases in which stock Candle's CUDA backend is not
//! the reference.

use candle_core::DType;

use crate::numbers::{rounding, smallest};

/// The allowed difference of floats. Integers are always equal, and so are NaN and infinities.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Roundings of the dtype, of the element itself.
    pub element: f64,
    /// Roundings of the dtype, of the result's largest element: of terms that cancel.
    pub largest: f64,
    /// Roundings of f32 (of f64 in f64), of the largest element: what is computed in a wider type inside.
    pub inside: f64,
}

impl Tolerance {
    const fn new(element: f64, largest: f64, inside: f64) -> Tolerance {
        Tolerance {
            element,
            largest,
            inside,
        }
    }

    /// The allowed difference from an element in a result whose largest magnitude is `largest`.
    pub fn limit(&self, dtype: DType, element: f64, largest: f64) -> f64 {
        let inside = match dtype {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let once = rounding(dtype);
        let relative = self.element * once * element.abs();
        let absolute = (self.largest * once + self.inside * rounding(inside)) * largest;
        // Below the normal numbers a rounding is half of the smallest one.
        let denormal = (self.element + self.largest) * 0.5 * smallest(dtype);
        relative + absolute + denormal
    }
}

/// Operators and dtypes with one tolerance.
pub struct Row {
    /// As the cases name them.
    pub operators: &'static [&'static str],
    /// Of the result.
    pub dtypes: &'static [DType],
    /// Allowed difference.
    pub tolerance: Tolerance,
    /// Why there is one.
    pub reason: &'static str,
}

use DType::{BF16, F16, F32, F64, F8E4M3};

const ALL: &[DType] = &[F64, F32, F16, BF16, F8E4M3];
const SINGLE: &[DType] = &[F64, F32];
const SHORT: &[DType] = &[F16, BF16, F8E4M3];

const fn row(
    operators: &'static [&'static str],
    dtypes: &'static [DType],
    tolerance: Tolerance,
    reason: &'static str,
) -> Row {
    Row {
        operators,
        dtypes,
        tolerance,
        reason,
    }
}

/// The first row with operator and dtype holds.
pub const ROWS: &[Row] = &[
    row(
        &[
            "neg", "abs", "ceil", "floor", "round", "relu", "sign", "copy", "clamp", "minimum",
            "maximum", "add", "sub", "mul", "sqr", "eq", "ne", "lt", "le", "gt", "ge", "where_cond", "zeros", "ones",
            "one_set", "arange", "to_dtype", "to_device", "min", "max", "argmin", "argmax", "sort",
            "arg_sort", "gather", "scatter", "index_select", "embedding", "cat",
            "cat along the last", "stack", "repeat", "pad_with_zeros", "pad_with_same", "flip",
            "roll", "slice_set", "max_pool2d", "upsample_nearest2d", "pixel_shuffle",
            "pixel_unshuffle", "replication_pad2d",
        ],
        ALL,
        Tolerance::new(0., 0., 0.),
        "elements are moved, picked, or computed exactly and rounded once",
    ),
    row(
        &["div", "sqrt", "recip", "slice_assign"],
        ALL,
        Tolerance::new(2., 0., 0.),
        "one rounding; quotients and roots of halves may be the second nearest",
    ),
    row(
        &["affine", "hard_sigmoid", "leaky_relu", "round_to"],
        ALL,
        Tolerance::new(2., 2., 0.),
        "a product and a sum, rounded together or one after the other",
    ),
    row(
        &[
            "exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_erf",
            "elu", "powf", "mish", "selu", "swiglu",
        ],
        SINGLE,
        Tolerance::new(8., 2., 0.),
        "functions within a few units in the last place, of which some are composed",
    ),
    row(
        &["exp", "log", "sin", "cos", "tanh", "erf", "powf"],
        SHORT,
        Tolerance::new(2., 0., 0.),
        "a function in f32 on both sides, rounded once",
    ),
    row(
        &["sigmoid", "silu", "gelu", "gelu_erf", "elu", "mish", "selu", "swiglu"],
        SHORT,
        Tolerance::new(3., 1., 0.),
        "CUDA computes in the dtype and rounds each step, ours in f32 and rounds once",
    ),
    row(
        &["scatter_add", "scatter_add_set", "index_add"],
        ALL,
        Tolerance::new(2., 2., 0.),
        "rounded after each sum, in the order of the indices",
    ),
    row(
        &["sum", "mean", "mean_all", "var", "log_sum_exp", "norm", "dot"],
        SINGLE,
        Tolerance::new(2., 8., 0.),
        "sums in another order",
    ),
    row(
        &["sum", "mean", "mean_all", "var", "log_sum_exp", "norm", "dot"],
        SHORT,
        Tolerance::new(2., 4., 0.),
        "CUDA adds f16 in f16, along a tree; ours in f32",
    ),
    row(
        &["cumsum", "matmul", "conv1d", "conv2d", "attention"],
        ALL,
        Tolerance::new(2., 1., 16.),
        "sums in f32 (f64 of f64) in another order, rounded once",
    ),
    row(
        &["conv_transpose1d", "conv_transpose2d", "avg_pool2d", "upsample_bilinear2d"],
        ALL,
        Tolerance::new(2., 2., 16.),
        "sums in another order; transposed convolutions add products that are stored in the dtype",
    ),
    row(
        &["softmax_last_dim", "softmax", "log_softmax", "rms_norm", "layer_norm"],
        ALL,
        Tolerance::new(2., 2., 16.),
        "exponentials, sums of rows in another order; CUDA rounds halves after each step",
    ),
    row(
        &["rope", "rope_i", "rope_thd"],
        ALL,
        Tolerance::new(2., 2., 4.),
        "two products and a sum, which CUDA rounds one by one in the dtype",
    ),
    row(
        &[
            "cross_entropy", "mse", "huber", "binary_cross_entropy", "group_norm", "batch_norm",
        ],
        ALL,
        Tolerance::new(4., 4., 16.),
        "made of many operators, each rounded to the dtype",
    ),
    row(
        &["dequantize", "dequantize_f16", "qembedding"],
        ALL,
        Tolerance::new(2., 0., 0.),
        "a product and a sum of an integer with scales of f16",
    ),
    row(
        &["qmatmul"],
        ALL,
        Tolerance::new(2., 0., 262_144.),
        "activations are rounded to 8 bits, where formats have an offset CUDA takes their sum from before: 2^-6 of the \
         largest result, 0.05 of the typical one (ours are held to 0.035 from the truth in \
         candle-rocm-backend/tests/quantized_products.rs)",
    ),
    row(
        &["indexed_moe", "moe_gemm_gguf"],
        ALL,
        Tolerance::new(2., 0., 131_072.),
        "activations are rounded to 8 bits: 2^-7 of the largest result",
    ),
    row(
        &["qmatmul_by_floats"],
        ALL,
        Tolerance::new(2., 0., 64.),
        "sums of products of f32 in another order",
    ),
    row(
        &["qmatmul_via_f16"],
        ALL,
        Tolerance::new(2., 0., 16_384.),
        "weights, activations and the result are rounded to f16",
    ),
    row(
        &["moe_gemm"],
        ALL,
        Tolerance::new(2., 0., 16.),
        "sums in f32 in another order, rounded once",
    ),
    row(
        &["gradient", "optimiser"],
        ALL,
        Tolerance::new(4., 0., 16.),
        "chains of operators of f32",
    ),
    row(
        &["model_gradient", "model_training"],
        ALL,
        Tolerance::new(8., 0., 64.),
        "a few dozen operators of f32, one after the other",
    ),
];

/// The row of an operator with results of a dtype of floats.
pub fn of(operator: &str, dtype: DType) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| row.operators.contains(&operator) && row.dtypes.contains(&dtype))
}

/// Cases in which the CPU backend is the reference instead of stock CUDA.
pub struct Exception {
    /// The case's operator is one of these.
    pub operators: &'static [&'static str],
    /// And its name contains each of these.
    pub named: &'static [&'static str],
    /// What stock CUDA does, and why ours does not.
    pub reason: &'static str,
}

/// Each must be needed: a comparison fails if stock agrees in all cases of one.
pub const EXCEPTIONS: &[Exception] = &[
    exception_of(
        &["minimum", "maximum", "clamp", "hard_sigmoid"],
        &["f32, special"],
        FEWER_NANS,
    ),
    exception_of(
        &["minimum", "maximum", "clamp", "hard_sigmoid"],
        &["f64, special"],
        FEWER_NANS,
    ),
    // "bf16" contains "f16".
    exception_of(&["minimum", "maximum", "relu"], &["f16, special"], MORE_NANS),
    exception_of(&["min", "max"], &["f32", "NaN"], FEWER_NANS),
    exception_of(&["min", "max"], &["f64", "NaN"], FEWER_NANS),
    exception_of(&["min", "max"], &["f16", "NaN"], MORE_NANS),
    exception_of(
        &["to_dtype"],
        &["out of range"],
        "numbers beyond an integer dtype wrap, saturate or become the lowest, by the instruction that the compiler \
         chose; ours saturate and NaN is 0, as on the CPU",
    ),
    exception_of(
        &["argmin", "argmax"],
        &["ties"],
        "any of the places of equal numbers; ours give the first, as the CPU",
    ),
    exception_of(
        &["arg_sort"],
        &["ties"],
        "a bitonic sort is not stable; ours is, as the CPU's",
    ),
    exception_of(
        &["index_select"],
        &["with gaps"],
        "CUDA's kernel applies the strides of the indices to the table; ours to the indices",
    ),
    exception_of(
        &["avg_pool2d"],
        &["f64"],
        "the factor 1 / area is an f32; ours is an f64",
    ),
    exception_of(
        &["rms_norm", "layer_norm"],
        &["f64"],
        "f64 is computed in f32; ours in f64",
    ),
    exception_of(
        &["indexed_moe"],
        &["Q8_0"],
        "the kernel steps from expert to expert by blocks of 256, which those of q8_0 are not, and reads others' weights",
    ),
    exception_of(
        &["moe_gemm"],
        &["f16"],
        "the kernel converts a result's bits of f16 to f16 once more, as if they were an integer",
    ),
];

const FEWER_NANS: &str =
    "fmin and fmax take the number beside a NaN; ours compare as the CPU, where the left operand \
                          stays if a comparison is false";
const MORE_NANS: &str =
    "the halves' minimum and maximum are NaN if one side is; ours compare as the CPU";

const fn exception_of(
    operators: &'static [&'static str],
    named: &'static [&'static str],
    reason: &'static str,
) -> Exception {
    Exception {
        operators,
        named,
        reason,
    }
}

/// The place in [`EXCEPTIONS`] of the one that a case falls under.
pub fn exception(operator: &str, name: &str) -> Option<usize> {
    EXCEPTIONS.iter().position(|exception| {
        exception.operators.contains(&operator)
            && exception.named.iter().all(|part| name.contains(part))
    })
}
