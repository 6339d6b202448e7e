//! What activations are by definition, in f64.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The logistic function.
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x times the logistic function of x.
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// What GELU by the hyperbolic tangent takes that of.
pub fn gelu_argument(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)
}

/// GELU by the hyperbolic tangent, 0.5 x (1 + tanh(u)): as x times the logistic function of 2u, in which no terms cancel.
pub fn gelu(x: f64) -> f64 {
    x * sigmoid(2.0 * gelu_argument(x))
}

/// GELU by the error function.
pub fn gelu_erf(x: f64) -> f64 {
    0.5 * x * (1.0 + libm::erf(x * FRAC_1_SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_gelu_by_tanh_are_one() {
        for step in -400..=400 {
            let x = f64::from(step) / 50.0;
            let by_tanh = 0.5 * x * (1.0 + gelu_argument(x).tanh());
            assert!((gelu(x) - by_tanh).abs() < 1e-14, "{x}");
            assert!((gelu(x) - gelu_erf(x)).abs() < 1e-3, "{x}");
        }
    }

    #[test]
    fn silu_is_x_times_sigmoid() {
        for x in [-30.0, -1.5, 0.0, 0.25, 7.0] {
            assert!((silu(x) - x * sigmoid(x)).abs() < 1e-15, "{x}");
        }
        assert_eq!((sigmoid(0.0), gelu(0.0), gelu_erf(0.0)), (0.5, 0.0, 0.0));
    }
}
