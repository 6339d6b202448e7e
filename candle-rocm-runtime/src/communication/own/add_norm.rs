//! An all-reduce of few tokens' rows, the residual added and, where it is wanted, the norm of the sum taken, in one launch.

use std::sync::Arc;

use candle_rocm_kernels::numbers::communication::{
    EXCHANGE_REDUCES, EXCHANGE_SENDS, NORMED_PIECES, UNIT_BYTES,
};

use super::boxes::ROW;
use super::rank::OwnRank;
use super::steps::{Channel, Exchange, Kernel, Step};
use crate::base::error::Result;
use crate::communication::call::bytes_of;
use crate::communication::error::CommunicationError;
use crate::communication::sys::ncclDataType_t;
use crate::kernels::ready::addresses_of;
use crate::stream::queue::Stream;

/// Rows of a rank, at addresses of its GPU's memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::communication) struct AddNorm {
    /// This rank's part of the sum.
    pub part: u64,
    /// What is added to the sum.
    pub residual: u64,
    /// What the norm is multiplied by; 0 without a norm.
    pub weight: u64,
    /// Where sums go.
    pub sums: u64,
    /// Where norms go; 0 without.
    pub normed: u64,
    /// Rows, and elements of one.
    pub rows: usize,
    pub columns: usize,
    /// The elements' type.
    pub dtype: ncclDataType_t,
    /// What is added to the mean of squares.
    pub epsilon: f32,
}

impl OwnRank {
    /// Whether one launch makes such rows: few, of whole units, and of 16-bit floats or f32. All ranks find the same.
    ///
    /// # Errors
    /// The ranks have not come.
    pub fn adds_rows(&self, rows: usize, columns: usize, dtype: ncclDataType_t) -> Result<bool> {
        let Ok(element) = bytes_of(dtype) else {
            return Ok(false);
        };
        let row = (columns as u64).saturating_mul(element);
        let bytes = row.saturating_mul(rows as u64);
        Ok(self.kernels.add_norm_of(dtype).is_some()
            && bytes > 0
            && bytes <= self.memory()?.boxes.packets_bytes
            && row.is_multiple_of(u64::from(UNIT_BYTES))
            && row <= u64::from(NORMED_PIECES * ROW))
    }

    /// Gives such rows to a stream. The other ranks are of other threads.
    ///
    /// # Safety
    /// The memory is there, of this rank's GPU, and used in the stream's order.
    ///
    /// # Errors
    /// There is no launch for these rows; or a rank is gone, or HIP refuses, and then this rank is of no use any more.
    pub unsafe fn add_norm(
        &self,
        stream: &Arc<Stream>,
        rows: &AddNorm,
    ) -> Result<(), CommunicationError> {
        if !self.adds_rows(rows.rows, rows.columns, rows.dtype)? {
            return Err(CommunicationError::invalid(format!(
                "{} rows of {} elements of {:?} are too many, too long, or no whole units of {UNIT_BYTES} bytes for one launch",
                rows.rows, rows.columns, rows.dtype
            )));
        }
        self.check()?;
        // SAFETY: the caller's promise.
        let given = unsafe { self.give_add_norm(stream, rows) };
        if let Err(error) = &given {
            self.watched.fail(self.rank(), error.clone());
        }
        self.check()?;
        Ok(given?)
    }

    /// # Safety
    /// As [`OwnRank::add_norm`].
    unsafe fn give_add_norm(&self, stream: &Arc<Stream>, rows: &AddNorm) -> Result<()> {
        let Some(kernel) = self.kernels.add_norm_of(rows.dtype) else {
            return Ok(());
        };
        self.follow(stream)?;
        let row = rows.columns as u64 * bytes_of(rows.dtype).unwrap_or(1);
        let exchange = Exchange {
            dtype: rows.dtype,
            is_packets: true,
            piece: ROW,
            does: EXCHANGE_SENDS | EXCHANGE_REDUCES,
        };
        let step = Step {
            from: rows.part,
            to: rows.sums,
            ..Step::of(
                Kernel::AllReduce(exchange),
                Channel::All,
                row * rows.rows as u64,
            )
        };
        let arguments = self.all_reduce_arguments(&step, exchange)?;
        let workgroups = (rows.rows as u64).min(self.memory()?.boxes.workgroups.into());
        let columns = rows.columns as u32;
        let mut addresses = addresses_of![
            arguments,
            rows.residual,
            rows.normed,
            rows.weight,
            columns,
            rows.epsilon
        ];
        // SAFETY: the kernel's arguments, and the caller's promise.
        unsafe { kernel.launch_smaller(stream, workgroups, &mut addresses) }
    }
}
