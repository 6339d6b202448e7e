//! Cross-entropy of logits that are in memory, by kernels.

use candle_core::{bail, Device, Result, Shape, Tensor};

use super::super::launch::{allocate, int, Arg};
use super::super::node::{plain, result_of};
use super::kernel::{Logits, OfRows, Rows, Slope};
use super::options::{CrossEntropyOptions, Reduction};

const NAME: &str = "cross_entropy";

/// Logits whose rows are as far from each other, and contiguous targets.
#[derive(Clone)]
pub(super) struct LogitRows {
    logits: Tensor,
    stride: usize,
    targets: Tensor,
    options: CrossEntropyOptions,
    every_lse: bool,
}

impl LogitRows {
    pub(super) fn of(
        logits: &Tensor,
        targets: &Tensor,
        options: &CrossEntropyOptions,
        every_lse: bool,
    ) -> Result<Self> {
        let (logits, stride) = match row_stride(logits) {
            Some(stride) => (logits.clone(), stride),
            None => (logits.contiguous()?, logits.dims()[logits.rank() - 1]),
        };
        Ok(Self {
            logits,
            stride,
            targets: targets.detach().contiguous()?,
            options: *options,
            every_lse,
        })
    }

    /// The loss and the log-sum-exps, in the graph.
    pub(super) fn results(self) -> Result<(Tensor, Tensor)> {
        let rows = self.rows()?;
        let mut of_rows = OfRows::new(&rows)?;
        rows.forward(&self.some(&self.logits, self.stride), &mut of_rows)?;
        let shape = self.targets.shape();
        let (total, scale, total_shape) = match self.options.reduction {
            Reduction::None => (of_rows.losses, None, shape.clone()),
            Reduction::Mean | Reduction::Sum => {
                let [total, scale] = rows.total(&of_rows.losses)?;
                let scale = plain(scale, &Shape::from(1));
                (total, Some(scale), Shape::from(()))
            }
        };
        let lse = if self.every_lse {
            let call = self.clone();
            let backward = move |operands: &[&Tensor], lse: &Tensor, slope: &Tensor| {
                let slope = Slope {
                    of: Some(slope),
                    scale: None,
                    of_lse: true,
                };
                call.gradient(operands, lse, &slope)
            };
            result_of(
                NAME,
                &[&self.logits],
                of_rows.lse,
                shape,
                Box::new(backward),
            )?
        } else {
            plain(of_rows.lse, shape)
        };
        let (call, kept) = (self.clone(), lse.detach());
        let backward = move |operands: &[&Tensor], _: &Tensor, slope: &Tensor| {
            let slope = Slope {
                of: Some(slope),
                scale: scale.as_ref(),
                of_lse: false,
            };
            call.gradient(operands, &kept, &slope)
        };
        let total = result_of(
            NAME,
            &[&self.logits],
            total,
            &total_shape,
            Box::new(backward),
        )?;
        Ok((total, lse))
    }

    fn rows(&self) -> Result<Rows<'_>> {
        let Device::Cuda(device) = self.logits.device() else {
            bail!("{NAME}: the logits are not on a GPU");
        };
        let columns = self.logits.dims()[self.logits.rank() - 1];
        Ok(Rows {
            device,
            dtype: self.logits.dtype(),
            columns: int(NAME, "columns", columns)?,
            targets: &self.targets,
            options: &self.options,
            every_lse: self.every_lse,
        })
    }

    fn some<'a>(&self, logits: &'a Tensor, stride: usize) -> Logits<'a> {
        Logits {
            of: logits,
            stride,
            rows: self.targets.elem_count(),
            first_row: 0,
        }
    }

    fn gradient(
        &self,
        operands: &[&Tensor],
        lse: &Tensor,
        slope: &Slope,
    ) -> Result<Vec<Option<Tensor>>> {
        let Some(&logits) = operands.first() else {
            bail!("{NAME}: the graph has lost its operand");
        };
        let rows = self.rows()?;
        let mut to = allocate(rows.device, rows.dtype, logits.elem_count())?;
        // Vectors are of both: their rows must begin alike within 16 bytes.
        let bytes = rows.dtype.size_in_bytes();
        let columns = rows.columns as usize;
        let alike = (logits.layout().start_offset() * bytes).is_multiple_of(16)
            && (self.stride.abs_diff(columns) * bytes).is_multiple_of(16);
        let (logits, stride) = if alike {
            (logits.clone(), self.stride)
        } else {
            (logits.force_contiguous()?, columns)
        };
        let some = self.some(&logits, stride);
        rows.backward(&some, Arg::Read(Some(lse)), slope, Some(&mut to))?;
        Ok(vec![Some(plain(to, logits.shape()))])
    }
}

/// The elements from each row to the next, where that is one number and rows are in one piece.
fn row_stride(x: &Tensor) -> Option<usize> {
    let (&columns, leading) = x.dims().split_last()?;
    let (&along, strides) = x.stride().split_last()?;
    if along != 1 && columns > 1 {
        return None;
    }
    // The stride of the rows, and that which the next dimension before must have.
    let mut found: Option<(usize, usize)> = None;
    for (&size, &stride) in leading.iter().zip(strides).rev() {
        if size == 1 {
            continue;
        }
        found = match found {
            None => Some((stride, stride * size)),
            Some((rows, expected)) if stride == expected => Some((rows, stride * size)),
            Some(_) => return None,
        };
    }
    Some(found.map_or(columns, |(stride, _)| stride))
}
