//! VOPD: two operations in one instruction, which both read their sources before either writes.

use super::lane_op::LaneOp;
use super::lanes;
use super::lowering::Unimplemented;
use crate::exec::wave::{Row, Wave};
use crate::isa::{Encoding, Inst, Operand, Target};

/// A dual-issue instruction.
pub(super) struct Dual {
    first: LaneOp,
    second: LaneOp,
    /// The register that `first` writes, if `second` reads it.
    held_back: Option<u16>,
}

fn register(operand: &Operand) -> Option<u16> {
    match *operand {
        Operand::Vgpr { first, .. } => Some(first),
        _ => None,
    }
}

/// Whether `inst` reads a vector register; accumulating forms read their destination.
fn reads(inst: &Inst, number: u16) -> bool {
    inst.src
        .iter()
        .chain(&inst.dst[..1])
        .any(|operand| register(operand) == Some(number))
}

pub(super) fn lower(target: Target, inst: &Inst) -> Result<Dual, Unimplemented> {
    let y = inst.second.as_deref().ok_or_else(|| {
        Unimplemented::new(format!(
            "{}: dual issue without a second half",
            inst.op.name
        ))
    })?;
    let half = |half: &Inst| {
        let mut half = half.clone();
        half.second = None;
        if half.encoding == Encoding::VOPD {
            half.encoding = Encoding::VOP3;
        }
        lanes::lower(target, &half)
    };
    let held_back = register(&inst.dst[0]).filter(|&number| reads(y, number));
    Ok(Dual {
        first: half(inst)?,
        second: half(y)?,
        held_back,
    })
}

impl Dual {
    /// Vector and accumulation registers that the wave must have.
    pub fn registers(&self) -> (usize, usize) {
        let (x, y) = (&self.first, &self.second);
        (x.vgprs.max(y.vgprs), x.agprs.max(y.agprs))
    }

    /// Execute.
    ///
    /// # Safety
    /// The wave has at least as many registers as [`Dual::registers`] says.
    pub unsafe fn run(&self, wave: &mut Wave) {
        // SAFETY: the caller's promise, for each half.
        let half = |op: &LaneOp, wave: &mut Wave| unsafe { lanes::run(op, wave) };
        let Some(number) = self.held_back else {
            half(&self.first, wave);
            half(&self.second, wave);
            return;
        };
        let number = number as usize;
        let before: Row = wave.vgpr[number];
        half(&self.first, wave);
        let after = std::mem::replace(&mut wave.vgpr[number], before);
        half(&self.second, wave);
        wave.vgpr[number] = after;
    }
}
