//! Instructions to operations.

use super::step::{Condition, Op, NOWHERE};
use crate::codeobject::LoadedKernel;
use crate::exec::memory::{BufferOp, LdsOp, Lowering, MemoryOp, ScalarMemoryOp};
use crate::exec::scalar::{self, Destination, Source};
use crate::exec::valu;
use crate::fault::FaultKind;
use crate::isa::{self, Encoding, Inst, Operand};

/// The operation of the instruction at `pc`; [`Op::Broken`] for one that cannot run.
pub(crate) fn lower(kernel: &LoadedKernel, lowering: &Lowering, inst: &Inst, pc: u64) -> Op {
    let target = kernel.kernel.target;
    let unimplemented = |why: &str| {
        let text = isa::disassemble(target, inst, pc);
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
        _ if is_cache_control(inst.op.name) => Op::Nothing,
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
                Ok(op) if is_matrix(inst) => Op::Matrix(op),
                Ok(op) => Op::Vector(op),
                Err(error) => unimplemented(&error.reason),
            }
        }
    }
}

/// Global wave sync. HIP's runtime sets a resource up with `ds_gws_init`, which has nothing to do here: `ds_gws_barrier`
/// names the number of members again.
fn grid_barrier(inst: &Inst) -> Option<Op> {
    match (inst.op.name, inst.src[0]) {
        ("ds_gws_init", _) => Some(Op::Nothing),
        ("ds_gws_barrier", Operand::Vgpr { first, .. }) => Some(Op::GridBarrier {
            offset: inst.mem.offset as u32,
            value: first,
        }),
        _ => None,
    }
}

fn is_matrix(inst: &Inst) -> bool {
    ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"]
        .iter()
        .any(|prefix| inst.op.name.starts_with(prefix))
}

/// Instructions that only order or invalidate caches: the emulated memory is coherent.
fn is_cache_control(name: &str) -> bool {
    const NAMES: [&str; 17] = [
        "s_dcache_inv",
        "s_dcache_wb",
        "s_dcache_inv_vol",
        "s_dcache_wb_vol",
        "s_gl1_inv",
        "buffer_inv",
        "buffer_wbl2",
        "buffer_invl2",
        "buffer_wbinvl1",
        "buffer_wbinvl1_vol",
        "buffer_gl0_inv",
        "buffer_gl1_inv",
        "s_icache_inv",
        "s_dcache_discard",
        "s_dcache_discard_x2",
        "s_atc_probe",
        "s_atc_probe_buffer",
    ];
    let prefetch = name.starts_with("s_prefetch_") || name == "s_buffer_prefetch_data";
    prefetch || NAMES.contains(&name) || matches!(name, "global_inv" | "global_wb" | "global_wbinv")
}

/// Scalar instructions that do not change anything that a kernel can see.
const WITHOUT_EFFECT: [&str; 25] = [
    "s_nop",
    "s_waitcnt",
    "s_waitcnt_vscnt",
    "s_waitcnt_vmcnt",
    "s_waitcnt_expcnt",
    "s_waitcnt_lgkmcnt",
    "s_waitcnt_depctr",
    "s_delay_alu",
    "s_clause",
    "s_setprio",
    "s_inst_prefetch",
    "s_set_inst_prefetch_distance",
    "s_icache_inv",
    "s_sendmsg",
    "s_wakeup",
    "s_wait_idle",
    "s_wait_event",
    "s_incperflevel",
    "s_decperflevel",
    "s_ttracedata",
    "s_ttracedata_imm",
    "s_version",
    "s_code_end",
    "s_sethalt",
    "s_singleuse_vdst",
];

/// `s_sendmsg_rtn` messages that ask for the clock.
const MSG_RTN_GET_REALTIME: i32 = 0x83;

fn control(inst: &Inst) -> Option<Op> {
    let name = inst.op.name;
    if let Some(condition) = Condition::named(name) {
        return Some(Op::Branch(condition, NOWHERE));
    }
    let immediate = |operand: Operand| match operand {
        Operand::Immediate(value) | Operand::Integer(value) => Some(value),
        Operand::Literal(value) => Some(value as i32),
        _ => None,
    };
    if name.starts_with("s_wait_") || WITHOUT_EFFECT.contains(&name) {
        return Some(Op::Nothing);
    }
    Some(match name {
        "s_endpgm" | "s_endpgm_saved" => Op::End,
        "s_barrier" => Op::Barrier,
        "s_barrier_signal" => Op::BarrierSignal,
        "s_barrier_signal_isfirst" => Op::BarrierSignalIsFirst,
        "s_barrier_wait" => Op::BarrierWait,
        "s_sleep" | "s_sleep_var" => Op::Sleep,
        "s_trap" => Op::Trap(immediate(inst.src[0])? as u16),
        "s_getpc_b64" => Op::GetPc(Destination::lower(inst.dst[0], 2)?),
        "s_setpc_b64" => Op::SetPc(Source::lower(inst.src[0])?),
        "s_swappc_b64" => Op::SwapPc(
            Destination::lower(inst.dst[0], 2)?,
            Source::lower(inst.src[0])?,
        ),
        "s_call_b64" => Op::Call(Destination::lower(inst.dst[0], 2)?, NOWHERE),
        "s_getreg_b32" => Op::GetReg(
            Destination::lower(inst.dst[0], 1)?,
            immediate(inst.src[0])? as u32,
        ),
        "s_setreg_b32" | "s_setreg_imm32_b32" => {
            Op::SetReg(immediate(inst.src[0])? as u32, Source::lower(inst.src[1])?)
        }
        // MODE: rounding at bit 0, denormals at bit 4.
        "s_round_mode" => Op::ModeBits(0, immediate(inst.src[0])? as u32),
        "s_denorm_mode" => Op::ModeBits(4, immediate(inst.src[0])? as u32),
        "s_sendmsg_rtn_b32" | "s_sendmsg_rtn_b64"
            if immediate(inst.src[0]) == Some(MSG_RTN_GET_REALTIME) =>
        {
            Op::RealTime(Destination::lower(inst.dst[0], 2)?)
        }
        _ => return None,
    })
}
