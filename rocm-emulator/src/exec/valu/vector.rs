//! A vector instruction, whatever its kind.

use super::dual::{self, Dual};
use super::lane_op::LaneOp;
use super::lowering::{Run, Unimplemented};
use super::{cross_lane, lanes, matrix};
use crate::exec::wave::Wave;
use crate::isa::{Encoding, Inst, Operand, Target};

/// How an instruction executes.
enum Action {
    /// The same operation in every lane.
    Lanes(Box<LaneOp>),
    /// Dual issue.
    Dual(Box<Dual>),
    /// Anything else.
    Other(Run),
}

/// A vector instruction, ready to run.
pub struct VectorOp {
    action: Action,
    vgprs: usize,
    agprs: usize,
}

impl VectorOp {
    /// Vector registers that the wave must have.
    pub fn vgprs(&self) -> usize {
        self.vgprs
    }

    /// Accumulation registers that the wave must have.
    pub fn agprs(&self) -> usize {
        self.agprs
    }

    /// Check the instruction's registers against a kernel's allocation.
    ///
    /// # Errors
    /// Names the register file when an operand lies past the allocation.
    pub fn validate(&self, vgprs: usize, agprs: usize) -> Result<(), Unimplemented> {
        for (name, needed, has) in [("v", self.vgprs, vgprs), ("a", self.agprs, agprs)] {
            if needed > has {
                return Err(Unimplemented::new(format!(
                    "{name}{} is used, but the kernel allocates {has} such registers",
                    needed - 1
                )));
            }
        }
        Ok(())
    }

    /// Execute for one wavefront.
    ///
    /// # Panics
    /// When the wave has fewer registers than [`VectorOp::validate`] asks for.
    #[inline]
    pub fn run(&self, wave: &mut Wave) {
        assert!(
            self.vgprs <= wave.vgpr.len() && self.agprs <= wave.agpr.len(),
            "vector instruction not validated against the wave's registers"
        );
        match &self.action {
            // SAFETY: the registers exist, as asserted.
            Action::Lanes(op) => unsafe { lanes::run(op, wave) },
            // SAFETY: as above.
            Action::Dual(op) => unsafe { op.run(wave) },
            Action::Other(run) => run(wave),
        }
    }
}

/// Prepare a vector ALU instruction for waves of `lanes` lanes.
///
/// # Errors
/// When the instruction, or an operand or modifier on it, has no semantics here.
pub fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<VectorOp, Unimplemented> {
    let action = match inst.encoding {
        Encoding::VOPD => Action::Dual(Box::new(dual::lower(target, inst)?)),
        Encoding::VOP1
        | Encoding::VOP2
        | Encoding::VOPC
        | Encoding::VOP3
        | Encoding::VOP3SD
        | Encoding::VOP3P
        | Encoding::MAI => {
            if let Some(run) = cross_lane::lower(inst, lanes)? {
                Action::Other(run)
            } else if let Some(run) = matrix::lower(target, lanes, inst)? {
                Action::Other(run)
            } else {
                Action::Lanes(Box::new(lanes::lower(target, inst)?))
            }
        }
        other => {
            return Err(Unimplemented::new(format!(
                "{}: {other:?} is no vector ALU format",
                inst.op.name
            )))
        }
    };
    let (vgprs, agprs) = match &action {
        Action::Lanes(op) => (op.vgprs, op.agprs),
        Action::Dual(op) => op.registers(),
        Action::Other(_) => (0, 0),
    };
    let mut op = VectorOp {
        action,
        vgprs,
        agprs,
    };
    let halves = std::iter::once(inst).chain(inst.second.as_deref());
    for operand in halves.flat_map(|half| half.dst.iter().chain(&half.src)) {
        match *operand {
            Operand::Vgpr { first, dwords } => {
                op.vgprs = op.vgprs.max(first as usize + dwords.max(1) as usize);
            }
            Operand::Agpr { first, dwords } => {
                op.agprs = op.agprs.max(first as usize + dwords.max(1) as usize);
            }
            _ => {}
        }
    }
    Ok(op)
}
