//! A vector instruction, whatever its kind.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::dual::{self, Dual};
use super::lane_op::LaneOp;
use super::lowering::{Run, Unimplemented};
use super::{cross_lane, interpolate, lanes, matrix};
use crate::exec::wave::Wave;
use crate::isa::{Encoding, Family, Inst, Operand, Target, Traits};

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
    /// GFX9: the instruction, for register numbers that M0 offsets.
    indexable: Option<Box<Indexable>>,
}

/// A form of an instruction for what M0 holds, and None for one that does nothing.
type Form = Option<Arc<VectorOp>>;

/// An instruction that GFX9's VGPR indexing applies to.
struct Indexable {
    lanes: u32,
    inst: Inst,
    /// By [`INDEXING`]'s bits of M0 and the wave's number of registers.
    forms: RwLock<HashMap<(u32, usize), Form>>,
}

/// M0's fields: the offset in bits 0 to 7, and in bits 12 to 15 whether sources 0 to 2 and the destination have it
/// (Vega and CDNA ISA manuals, "VGPR Indexing").
const INDEXING: u32 = 0xf0ff;

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
        if wave.vgpr_indexing {
            self.run_indexed(wave);
        } else {
            self.run_as_it_is(wave);
        }
    }

    /// With M0's offset on the operands that M0 names.
    #[cold]
    fn run_indexed(&self, wave: &mut Wave) {
        let Some(indexable) = &self.indexable else {
            return self.run_as_it_is(wave);
        };
        let key = (wave.m0 & INDEXING, wave.vgpr.len());
        let known = indexable.forms.read().get(&key).cloned();
        let form = known.unwrap_or_else(|| {
            let form = indexable.form(wave.target, key.0, key.1);
            indexable.forms.write().insert(key, form.clone());
            form
        });
        if let Some(op) = form {
            op.run_as_it_is(wave);
        }
    }

    #[inline]
    fn run_as_it_is(&self, wave: &mut Wave) {
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

impl Indexable {
    /// What the instruction is for these bits of M0. A source past the wave's registers is v0, and an instruction
    /// whose destination is past them does nothing.
    fn form(&self, target: Target, m0: u32, vgprs: usize) -> Form {
        let offset = |operand: &mut Operand, place: u32| {
            let Operand::Vgpr { first, dwords } = operand else {
                return true;
            };
            if m0 >> (12 + place) & 1 != 0 {
                *first += (m0 & 0xff) as u16;
            }
            usize::from(*first) + usize::from(*dwords) <= vgprs
        };
        let mut inst = self.inst.clone();
        // The constant of these stands between the sources.
        let constant = inst.op.columns.has(Traits::CONSTANT_SECOND);
        let sources = inst.src.iter_mut().enumerate();
        let sources = sources.filter(|(index, _)| !(constant && *index == 1));
        for (place, (_, operand)) in sources.enumerate() {
            if !offset(operand, place as u32) {
                if let Operand::Vgpr { first, .. } = operand {
                    *first = 0;
                }
            }
        }
        if !offset(&mut inst.dst[0], 3) {
            return None;
        }
        // Other registers do not make an instruction without semantics.
        lower(target, self.lanes, &inst).ok().map(Arc::new)
    }
}

/// Prepare a vector ALU instruction for waves of `lanes` lanes.
///
/// # Errors
/// When the instruction, or an operand or modifier on it, has no semantics here.
pub fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<VectorOp, Unimplemented> {
    let action = match inst.encoding {
        Encoding::VOPD => Action::Dual(Box::new(dual::lower(target, inst)?)),
        Encoding::VINTERP => Action::Other(interpolate::lower(inst)?),
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
    // Accumulation registers are not indexed.
    let has_indexing = target.family() == Family::Cdna
        && inst.encoding != Encoding::MAI
        && !inst.op.columns.has(Traits::ACCUMULATION);
    let indexable = has_indexing.then(|| {
        let (inst, forms) = (inst.clone(), RwLock::default());
        Box::new(Indexable { lanes, inst, forms })
    });
    let mut op = VectorOp {
        action,
        vgprs,
        agprs,
        indexable,
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
