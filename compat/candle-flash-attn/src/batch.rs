//! Sequences of one length, and Candle's custom operator for them.

use candle_core::backend::{BackendDevice as _, BackendStorage as _};
use candle_core::op::BackpropOp;
use candle_core::{
    bail, CpuStorage, CudaStorage, CustomOp3, Layout, Result, Shape, Storage, Tensor,
};
use candle_rocm_backend::ops::attention;

use crate::checks;
use crate::FlashAttn;

const NAME: &str = "flash-attn";

impl FlashAttn {
    /// Of (batch, rows, heads, elements).
    pub(crate) fn of_batch(&self, [q, k, v]: [&Tensor; 3]) -> Result<Tensor> {
        checks::operands(NAME, [q, k, v], [4, 4])?;
        checks::heads(NAME, q, k, v)?;
        let (batch, of_keys) = (q.dim(0)?, k.dim(0)?);
        if batch != of_keys {
            bail!("{NAME}: q is of {batch} sequences, and k of {of_keys}");
        }
        checks::slopes(NAME, self.alibi_slopes.as_ref(), q, batch)?;
        attention(q, k, v, &self.options(k.dim(1)?))
    }
}

impl CustomOp3 for FlashAttn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        bail!("{NAME}: {}", checks::NOT_ON_CPU)
    }

    fn cuda_fwd(
        &self,
        q: &CudaStorage,
        of_q: &Layout,
        k: &CudaStorage,
        of_k: &Layout,
        v: &CudaStorage,
        of_v: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let result = self.of_batch([&copied(q, of_q)?, &copied(k, of_k)?, &copied(v, of_v)?])?;
        let (storage, layout) = result.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            bail!("{NAME}: a result that is not on the GPU");
        };
        Ok((storage.try_clone(layout)?, layout.shape().clone()))
    }
}

/// A tensor of what a custom operator is lent.
fn copied(from: &CudaStorage, layout: &Layout) -> Result<Tensor> {
    checks::together(NAME, "an operand", layout)?;
    let shape = layout.shape();
    // SAFETY: all of it is written next.
    let mut to = unsafe { from.device().alloc_uninit(shape, from.dtype())? };
    from.copy_strided_src(&mut to, 0, layout)?;
    Ok(Tensor::from_storage(
        Storage::Cuda(to),
        shape.clone(),
        BackpropOp::none(),
        false,
    ))
}
