//! Products in FP8 and of groups, by candle_rocm_backend's operators: Candle has none. What multiplies is made before the chain, so
//! that a link is the product alone; its result goes nowhere.

use candle_core::{DType, Result, Tensor};
use candle_rocm_backend::fp8::{self, ScaleFormat};
use candle_rocm_backend::grouped::{self, RowGroups};

/// A link of a chain, made: what it does to a matrix.
pub type Made = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

type Make = fn(&Tensor) -> Result<Made>;

/// By their names: of square matrices of the chain's size.
pub const LINKS: [(&str, Make); 2] = [("fp8_product", in_fp8), ("grouped_product", of_groups)];

fn in_fp8(first: &Tensor) -> Result<Made> {
    let x = first.to_dtype(DType::BF16)?;
    let [a, b] = [fp8::cast_per_token, fp8::cast_per_block].map(|cast| cast(&x, ScaleFormat::F32));
    let (a, b) = (a?, b?);
    Ok(Box::new(move |_| fp8::gemm_nt(&a, &b, None, DType::BF16)))
}

/// Two groups, each of half the chain's rows.
fn of_groups(first: &Tensor) -> Result<Made> {
    let x = first.to_dtype(DType::BF16)?;
    let groups = RowGroups::from_sizes(&[x.dim(0)? / 2; 2], x.device())?;
    let rows = x.repeat((groups.rows().div_ceil(x.dim(0)?), 1))?;
    let rows = rows.narrow(0, 0, groups.rows())?.contiguous()?;
    let weights = Tensor::stack(&[&x, &x], 0)?;
    Ok(Box::new(move |_| {
        grouped::m_grouped_gemm_nt_contiguous(&rows, &weights, &groups)
    }))
}
