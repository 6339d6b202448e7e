//! What ranks that have a part of each layer go on from: the sum of their parts and the residual, and the norm of that.

use candle_core::cuda_backend::CudaDType;
use candle_core::{bail, CudaStorage, DType, Error, Result, Tensor};
use candle_rocm_runtime::communication::{NcclType, ReduceOp, RowsToAdd};
use candle_rocm_runtime::{DeviceBuffer, DeviceRepr};

use super::rank::{view_of, Rank};
use crate::ops;
use crate::ops::node::plain;

impl Rank {
    /// The ranks' sum of `part`, and `residual`: both (rows, columns), of one dtype, the residual the same at all ranks. So all
    /// ranks go on from a layer of which each computed a part. There is no gradient.
    ///
    /// Of few rows in f16, bf16 or f32 our own collectives make it in one launch, in f32 and rounded once; else it is
    /// [`Rank::all_reduce`] and an addition.
    ///
    /// # Errors
    /// As [`Rank::all_reduce`]; shapes or dtypes differ.
    pub fn sum_add(&self, part: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let call = Call {
            name: "sum_add",
            rank: self,
            part,
            residual,
            norm: None,
        };
        match call.in_one_launch()? {
            Some((sum, _)) => Ok(sum),
            None => self.all_reduce(part, ReduceOp::Sum)? + residual,
        }
    }

    /// [`Rank::sum_add`], and the [`rms_norm`](crate::ops::rms_norm) of that, with a weight (columns): in the same launch, or
    /// by [`add_rms_norm`](crate::ops::add_rms_norm).
    ///
    /// # Errors
    /// As [`Rank::sum_add`].
    pub fn sum_add_rms_norm(
        &self,
        part: &Tensor,
        residual: &Tensor,
        weight: &Tensor,
        epsilon: f64,
    ) -> Result<(Tensor, Tensor)> {
        let call = Call {
            name: "sum_add_rms_norm",
            rank: self,
            part,
            residual,
            norm: Some((weight, epsilon as f32)),
        };
        if let Some((sum, Some(normed))) = call.in_one_launch()? {
            return Ok((sum, normed));
        }
        let sum = self.all_reduce(part, ReduceOp::Sum)?;
        ops::add_rms_norm(&sum, residual, weight, epsilon)
    }
}

struct Call<'a> {
    name: &'static str,
    rank: &'a Rank,
    part: &'a Tensor,
    residual: &'a Tensor,
    norm: Option<(&'a Tensor, f32)>,
}

impl Call<'_> {
    fn check(&self) -> Result<()> {
        let Self { name, part, .. } = self;
        let weight = self.norm.map(|(weight, _)| weight);
        let others = [Some(self.residual), weight];
        for tensor in [Some(*part)].into_iter().chain(others).flatten() {
            self.rank.check_device(name, tensor)?;
        }
        let mut same_dtype = others.into_iter().flatten();
        let fits = part.rank() == 2
            && self.residual.shape() == part.shape()
            && weight.is_none_or(|weight| weight.dims() == &part.dims()[1..])
            && same_dtype.all(|it| it.dtype() == part.dtype());
        if !fits {
            let of = |it: &Tensor| format!("{:?}, {:?}", it.shape(), it.dtype());
            let weight = weight.map_or(String::new(), |it| {
                format!(", a norm's weight of {}", of(it))
            });
            bail!(
                "{name}: a part of {}, a residual of {}{weight}: they are (rows, columns), the same, and (columns), of one \
                 dtype",
                of(part),
                of(self.residual)
            );
        }
        Ok(())
    }

    /// The sum and its norm, if there is one launch for them: at all ranks alike.
    fn in_one_launch(&self) -> Result<Option<(Tensor, Option<Tensor>)>> {
        self.check()?;
        match self.part.dtype() {
            DType::F16 => self.launched::<half::f16>(),
            DType::BF16 => self.launched::<half::bf16>(),
            DType::F32 => self.launched::<f32>(),
            _ => Ok(None),
        }
    }

    fn launched<T>(&self) -> Result<Option<(Tensor, Option<Tensor>)>>
    where
        T: CudaDType + DeviceRepr + NcclType,
    {
        let ((rows, columns), comm) = (self.part.dims2()?, &self.rank.comm);
        if !comm.adds_rows::<T>(rows, columns).map_err(Error::wrap)? {
            return Ok(None);
        }
        let (part, residual) = (self.part.contiguous()?, self.residual.contiguous()?);
        let weight = self
            .norm
            .map(|(weight, _)| weight.contiguous())
            .transpose()?;
        let (part, residual) = (part.storage_and_layout(), residual.storage_and_layout());
        let weight = weight.as_ref().map(Tensor::storage_and_layout);
        let rows = RowsToAdd {
            part: &view_of::<T>(&part.0, part.1)?,
            residual: &view_of(&residual.0, residual.1)?,
            columns,
        };
        let room = || {
            // SAFETY: the call writes all of it, or fails.
            unsafe { comm.stream().alloc::<T>(rows.part.len()) }.map_err(Error::wrap)
        };
        let mut sums = room()?;
        let (given, normed) = match (&weight, self.norm) {
            (Some((storage, layout)), Some((_, epsilon))) => {
                let (weight, mut normed) = (view_of(storage, layout)?, room()?);
                let norm = (&weight, epsilon);
                let given = comm.all_reduce_add_rms_norm(rows, norm, &mut sums, &mut normed);
                (given, Some(normed))
            }
            _ => (comm.all_reduce_add(rows, &mut sums), None),
        };
        given.map_err(|error| Error::wrap(error).context(self.name))?;
        let tensor = |made: DeviceBuffer<T>| {
            let storage = CudaStorage::wrap_cuda_slice(made, self.rank.device.clone());
            plain(storage, self.part.shape())
        };
        Ok(Some((tensor(sums), normed.map(tensor))))
    }
}
