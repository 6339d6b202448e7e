//! Whose bits a real GPU may lawfully have otherwise than the emulated one.

/// Why other bits are no fault.
pub const TRANSCENDENTAL: &str =
    "v_exp, v_log, v_rcp, v_rsq, v_sin and v_cos give AMD's bits on a GPU, and nearly correct ones on the emulator";
/// Why other bits are no fault.
pub const MATRIX_UNIT: &str =
    "in which order a matrix unit adds, and what it rounds between, is not documented of each GPU";

/// Candle's operators whose kernels use hardware's transcendental instructions, also where gradients and optimisers divide
/// and take roots.
const TRANSCENDENTALS: &[&str] = &[
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_erf",
    "elu",
    "powf",
    "mish",
    "selu",
    "swiglu",
    "log_sum_exp",
    "softmax_last_dim",
    "softmax",
    "log_softmax",
    "rms_norm",
    "layer_norm",
    "group_norm",
    "batch_norm",
    "cross_entropy",
    "binary_cross_entropy",
    "norm",
    "div",
    "recip",
    "sqrt",
    "qmatmul",
    "indexed_moe",
    "moe_gemm_gguf",
    "gradient",
    "optimiser",
    "model_gradient",
    "model_training",
];

/// Those whose sums of products a matrix unit may add. Products of the ladders are of small integers, whose sums are exact
/// in whatever order, so that their bits are held.
const ON_MATRIX_UNITS: &[&str] = &[
    "matmul",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "attention",
    "qmatmul_by_floats",
    "qmatmul_via_f16",
    "moe_gemm",
];

/// Why an operator of Candle's may have other bits; none where it may not.
pub fn reason(operator: &str) -> Option<&'static str> {
    if TRANSCENDENTALS.contains(&operator) {
        Some(TRANSCENDENTAL)
    } else if ON_MATRIX_UNITS.contains(&operator) {
        Some(MATRIX_UNIT)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_named_is_one_of_the_cases() {
        let cases = parity::cases::all().unwrap();
        for operator in TRANSCENDENTALS.iter().chain(ON_MATRIX_UNITS) {
            // These stand in composed cases alone.
            let named = cases.iter().any(|case| case.operator == *operator);
            assert!(named, "{operator}");
        }
    }
}
