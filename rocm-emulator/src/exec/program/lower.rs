//! Instructions to operations.

use super::code::text_at;
use super::step::{Condition, Op, NOWHERE};
use crate::codeobject::LoadedKernel;
use crate::exec::memory::{BufferOp, LdsOp, Lowering, MemoryOp, ScalarMemoryOp};
use crate::exec::scalar::{self, Destination, Source};
use crate::exec::valu;
use crate::fault::FaultKind;
use crate::isa::{Encoding, Inst, Operand, Role, Traits};

/// The operation of the instruction at `pc`; [`Op::Broken`] for one that cannot run.
pub(crate) fn lower(kernel: &LoadedKernel, lowering: &Lowering, inst: &Inst, pc: u64) -> Op {
    let target = kernel.kernel.target;
    let unimplemented = |why: &str| {
        let text = text_at(kernel, pc);
        let text = if why.is_empty() {
            text
        } else {
            format!("{text} ({why})")
        };
        Op::Broken(FaultKind::Unimplemented { text })
    };
    match inst.encoding {
        Encoding::SOP1 | Encoding::SOP2 | Encoding::SOPC | Encoding::SOPK | Encoding::SOPP => {
            control(inst)
                .or_else(|| scalar::lower(inst).map(Op::Scalar))
                .unwrap_or_else(|| unimplemented(""))
        }
        // Caches: the emulated memory is coherent.
        _ if inst.op.columns.has(Traits::NO_EFFECT) => Op::Nothing,
        Encoding::SMEM => ScalarMemoryOp::lower(inst, lowering)
            .map_or_else(|| unimplemented(""), Op::ScalarMemory),
        Encoding::DS => grid_barrier(inst)
            .or_else(|| LdsOp::lower(inst, lowering).map(Op::Lds))
            .unwrap_or_else(|| unimplemented("")),
        Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH => {
            MemoryOp::lower(inst, lowering).map_or_else(|| unimplemented(""), Op::Memory)
        }
        Encoding::MUBUF | Encoding::MTBUF => {
            BufferOp::lower(inst, lowering).map_or_else(|| unimplemented(""), Op::Buffer)
        }
        _ => {
            let lanes = kernel.kernel.wavefront_size;
            let op = valu::lower(target, lanes, inst).and_then(|op| {
                op.validate(lowering.vgprs, lowering.agprs)?;
                Ok(op)
            });
            match op {
                Ok(op) if inst.op.columns.matrix.is_some() => Op::Matrix(op),
                Ok(op) => Op::Vector(op),
                Err(error) => unimplemented(&error.reason),
            }
        }
    }
}

/// Global wave sync. HIP's runtime sets a resource up with `ds_gws_init`, which has nothing to do here: `ds_gws_barrier`
/// names the number of members again.
fn grid_barrier(inst: &Inst) -> Option<Op> {
    match (inst.op.columns.role, inst.src[0]) {
        (Role::GridBarrierInit, _) => Some(Op::Nothing),
        (Role::GridBarrier, Operand::Vgpr { first, .. }) => Some(Op::GridBarrier {
            offset: inst.mem.offset as u32,
            value: first,
        }),
        _ => None,
    }
}

/// `s_sendmsg_rtn` messages that ask for the clock.
const MSG_RTN_GET_REALTIME: i32 = 0x83;

fn control(inst: &Inst) -> Option<Op> {
    let role = inst.op.columns.role;
    if let Some(condition) = Condition::of(role) {
        return Some(Op::Branch(condition, NOWHERE));
    }
    let immediate = |operand: Operand| match operand {
        Operand::Immediate(value) | Operand::Integer(value) => Some(value),
        Operand::Literal(value) => Some(value as i32),
        _ => None,
    };
    if inst.op.columns.has(Traits::NO_EFFECT) {
        return Some(Op::Nothing);
    }
    Some(match role {
        Role::End => Op::End,
        Role::Barrier => Op::Barrier,
        Role::BarrierSignal => Op::BarrierSignal,
        Role::BarrierSignalIsFirst => Op::BarrierSignalIsFirst,
        Role::BarrierWait => Op::BarrierWait,
        Role::Sleep => Op::Sleep,
        Role::Trap => Op::Trap(immediate(inst.src[0])? as u16),
        Role::GetPc => Op::GetPc(Destination::lower(inst.dst[0], 2)?),
        Role::SetPc => Op::SetPc(Source::lower(inst.src[0])?),
        Role::SwapPc => Op::SwapPc(
            Destination::lower(inst.dst[0], 2)?,
            Source::lower(inst.src[0])?,
        ),
        Role::Call => Op::Call(Destination::lower(inst.dst[0], 2)?, NOWHERE),
        Role::GetRegister => Op::GetReg(
            Destination::lower(inst.dst[0], 1)?,
            immediate(inst.src[0])? as u32,
        ),
        Role::SetRegister => {
            Op::SetReg(immediate(inst.src[0])? as u32, Source::lower(inst.src[1])?)
        }
        // MODE: rounding at bit 0, denormals at bit 4.
        Role::RoundMode => Op::ModeBits(0, immediate(inst.src[0])? as u32),
        Role::DenormMode => Op::ModeBits(4, immediate(inst.src[0])? as u32),
        Role::MessageReturning if immediate(inst.src[0]) == Some(MSG_RTN_GET_REALTIME) => {
            Op::RealTime(Destination::lower(inst.dst[0], 2)?)
        }
        _ => return None,
    })
}
