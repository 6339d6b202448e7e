//! Instructions of the table, with their operands.

use super::op::ScalarOp;
use super::operand::{Destination, Source};
use super::table;
use crate::isa::{Inst, Operand, Traits};

/// `None` for what the table does not have.
pub(crate) fn lower(inst: &Inst) -> Option<ScalarOp> {
    let row = table::find(&inst.op.columns.row)?;
    let mut src = [Source::ZERO; 3];
    let given = inst.src.iter().filter(|operand| **operand != Operand::None);
    for (slot, operand) in src.iter_mut().zip(given) {
        *slot = Source::lower(*operand)?;
    }
    let mut dst = Destination::lower(inst.dst[0], row.dwords)?;
    if inst.op.columns.has(Traits::COMPARES_DESTINATION) {
        // The format keeps the register that is compared in the destination's field.
        if !matches!(dst, Destination::None) {
            src = [dst.source(), src[0], Source::ZERO];
            dst = Destination::None;
        } else if let Operand::Immediate(_) = inst.src[0] {
            src.swap(0, 1);
        }
    }
    Some(ScalarOp {
        effect: row.run,
        dst,
        src,
    })
}
