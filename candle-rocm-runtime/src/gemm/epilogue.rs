//! What is done to the elements of a product before they are written.

use super::problem::{GemmDtype, GemmProblem};
use crate::base::error::{Error, Result};

/// A function applied to each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// None.
    #[default]
    None,
    /// GELU by the error function, Candle's `gelu_erf`.
    GeluErf,
    /// GELU by the hyperbolic tangent, Candle's `gelu`.
    GeluTanh,
    /// x / (1 + exp(-x)), Candle's `silu`.
    Silu,
}

impl Activation {
    /// Every activation, in the order of the kernels' numbers.
    pub const ALL: [Self; 4] = [Self::None, Self::GeluErf, Self::GeluTanh, Self::Silu];
}

/// A matrix of C's shape and type that is added last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residual {
    /// Device address.
    pub address: u64,
    /// Leading dimension.
    pub ld: usize,
    /// Elements from one matrix of the batch to the next; 0 adds the same one to all.
    pub stride: i64,
}

/// What is done to each element of C, in this order: `activation(alpha * sum + beta * C + bias) + residual`.
///
/// Where one of our kernels does it all, it computes in the type of the sums and rounds once. After the vendor's
/// library, and after the kernels for tiles of C that have no matrix units, a pass over C does it, so that C is
/// rounded before as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epilogue {
    /// Device address of m elements of C's type, which are added to each column.
    pub bias: Option<u64>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Added after the activation.
    pub residual: Option<Residual>,
}

impl Epilogue {
    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that it goes with this problem.
    ///
    /// # Errors
    /// A residual that is no m x n matrix, or C itself (which `beta` adds); a function of real numbers on i32; anything
    /// after a product of 16 bits into f32.
    pub fn check(&self, problem: &GemmProblem) -> Result<()> {
        if problem.dtype == GemmDtype::I8 && self.activation != Activation::None {
            return Err(problem.refused(format!(
                "{:?} of 32-bit integers: convert C first",
                self.activation
            )));
        }
        if problem.dtype.upcasts() && !self.is_none() {
            return Err(problem.refused(
                "nothing may follow a product of 16 bits into f32: do it to C afterwards",
            ));
        }
        let Some(residual) = self.residual else {
            return Ok(());
        };
        let shape = (problem.m, problem.n);
        problem.check_matrix("the residual", shape, residual.ld, residual.stride)?;
        let empty = problem.m == 0 || problem.n == 0 || problem.batch == 0;
        if residual.address == problem.c && !empty {
            return Err(Error::invalid(format!(
                "{problem}: the residual is C itself, which may be written before it is read; add C by beta = 1"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::tests::valid;
    use super::*;

    #[test]
    fn senseless_epilogues_are_named() {
        let residual = |address, ld, stride| Epilogue {
            residual: Some(Residual {
                address,
                ld,
                stride,
            }),
            ..Epilogue::default()
        };
        let whole = GemmProblem {
            dtype: GemmDtype::I8,
            ..valid()
        };
        let silu = Epilogue {
            activation: Activation::Silu,
            ..Epilogue::default()
        };
        let cases = [
            (
                residual(8, 4, 0),
                valid(),
                "leading dimension of the residual is 4",
            ),
            (
                residual(8, 5, i64::MIN),
                valid(),
                "the residual, with leading",
            ),
            (residual(0, 5, 15), valid(), "the residual is C itself"),
            (silu, whole, "Silu of 32-bit integers"),
            (
                silu,
                GemmProblem {
                    dtype: GemmDtype::BF16ToF32,
                    ..valid()
                },
                "nothing may follow",
            ),
        ];
        for (epilogue, problem, expected) in cases {
            let message = epilogue.check(&problem).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        residual(8, 5, 15).check(&valid()).unwrap();
        silu.check(&valid()).unwrap();
        Epilogue::default().check(&whole).unwrap();
    }
}
