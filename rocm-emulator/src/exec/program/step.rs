//! What a step of a program does.

use crate::exec::memory::{BufferOp, LdsOp, MemoryOp, ScalarMemoryOp};
use crate::exec::scalar::{Destination, ScalarOp, Source};
use crate::exec::valu::VectorOp;
use crate::exec::wave::Wave;
use crate::fault::FaultKind;
use crate::isa::Role;

/// When a branch is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    Always,
    Scc(bool),
    Vccz(bool),
    Execz(bool),
    Never,
}

impl Condition {
    /// Of a branch.
    pub fn of(role: Role) -> Option<Condition> {
        Some(match role {
            Role::Branch => Condition::Always,
            Role::BranchScc0 => Condition::Scc(false),
            Role::BranchScc1 => Condition::Scc(true),
            Role::BranchVccz => Condition::Vccz(true),
            Role::BranchVccnz => Condition::Vccz(false),
            Role::BranchExecz => Condition::Execz(true),
            Role::BranchExecnz => Condition::Execz(false),
            Role::BranchNever => Condition::Never,
            _ => return None,
        })
    }

    #[inline(always)]
    pub fn holds(self, wave: &Wave) -> bool {
        match self {
            Condition::Always => true,
            Condition::Scc(value) => wave.scc == value,
            Condition::Vccz(value) => (wave.vcc & wave.lane_mask() == 0) == value,
            Condition::Execz(value) => (wave.exec() == 0) == value,
            Condition::Never => false,
        }
    }
}

/// What a step does.
pub(crate) enum Op {
    Vector(VectorOp),
    Matrix(VectorOp),
    Scalar(ScalarOp),
    ScalarMemory(ScalarMemoryOp),
    Memory(MemoryOp),
    Buffer(BufferOp),
    Lds(LdsOp),
    /// Continue at a step.
    Branch(Condition, u32),
    /// Store the address of the next instruction, and continue at a step.
    Call(Destination, u32),
    GetPc(Destination),
    /// Continue at an address.
    SetPc(Source),
    SwapPc(Destination, Source),
    GetReg(Destination, u32),
    SetReg(u32, Source),
    ModeBits(u32, u32),
    RealTime(Destination),
    /// Arrive at the workgroup's barrier, and wait.
    Barrier,
    /// GFX12: arrive, without waiting.
    BarrierSignal,
    /// The same; SCC tells whether the wavefront is the first.
    BarrierSignalIsFirst,
    /// GFX12: wait for the barrier that the wavefront has arrived at.
    BarrierWait,
    /// Global wave sync: arrive at a barrier of the whole grid, and wait. The resource's number is the offset plus M0's
    /// high half; a vector register holds the number of wavefronts that meet, less one.
    GridBarrier {
        offset: u32,
        value: u16,
    },
    /// Let others run.
    Sleep,
    Trap(u16),
    End,
    Nothing,
    /// Words that cannot run; a fault only when they are reached.
    Broken(FaultKind),
}

/// One instruction.
pub(crate) struct Step {
    pub op: Op,
    /// Device address.
    pub pc: u64,
    /// Bytes.
    pub size: u8,
    /// The step of the instruction after it.
    pub next: u32,
}

/// No step: the address is outside the code.
pub(crate) const NOWHERE: u32 = u32::MAX;
