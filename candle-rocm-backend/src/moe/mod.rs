//! Mixtures of experts: gates, tokens' rows at their experts and back, and the experts' layers by grouped products, in bf16
//! with gradients and in FP8. Nothing of where rows go comes to the host.

mod gate;
mod routing;

use candle_core::{DType, Result, Tensor};

pub use gate::{Choice, Gate, GroupScore, Groups, Score};
pub use routing::Routing;

use crate::fp8::{self, Fp8Matrix, ScaleFormat};
use crate::grouped;
use crate::ops::swiglu_packed;

/// The experts' layers for x (tokens, hidden) of bf16: down(silu(gate) * up) of each token's experts, weighted and added up,
/// and `addend` (tokens, hidden), such as what shared experts made. `gate_up` is (experts, 2 inner, hidden), gates first,
/// `down` (experts, hidden, inner). With gradients of x, of both matrices, of the choice's weights and of the addend.
///
/// # Errors
/// Shapes that do not fit, another dtype, or different devices.
pub fn forward(
    x: &Tensor,
    choice: &Choice,
    gate_up: &Tensor,
    down: &Tensor,
    addend: Option<&Tensor>,
) -> Result<Tensor> {
    let routing = Routing::new(&choice.experts, gate_up.dims3()?.0)?;
    let rows = routing.gather(x)?;
    let inner = grouped::m_grouped_gemm_nt_contiguous(&rows, gate_up, routing.groups())?;
    let made =
        grouped::m_grouped_gemm_nt_contiguous(&swiglu_packed(&inner)?, down, routing.groups())?;
    routing.combine(&made, Some(&choice.weights), addend)
}

/// The same in FP8, without gradients: x and what the gates make are cast by 128 of a row, each in the kernel that makes them
/// ([`Routing::gather_cast`], [`fp8::swiglu_cast_per_token`]), and multiplied with matrices that are FP8 already. x is f32,
/// f16 or bf16, and so is the result; products' results are bf16 in between.
///
/// # Errors
/// As [`forward`].
pub fn forward_fp8(
    x: &Tensor,
    choice: &Choice,
    gate_up: &Fp8Matrix,
    down: &Fp8Matrix,
    format: ScaleFormat,
    addend: Option<&Tensor>,
) -> Result<Tensor> {
    let routing = Routing::new(&choice.experts, gate_up.data().dims3()?.0)?;
    let rows = routing.gather_cast(x, format)?;
    let inner = fp8::m_grouped_gemm_nt_contiguous(&rows, gate_up, routing.groups(), DType::BF16)?;
    let inner = fp8::swiglu_cast_per_token(&inner, format)?;
    let made = fp8::m_grouped_gemm_nt_contiguous(&inner, down, routing.groups(), x.dtype())?;
    routing.combine(&made, Some(&choice.weights), addend)
}
