//! What time depends on of an instruction.

use rocm_gpus::Timing;

use crate::codeobject::LoadedKernel;
use crate::exec::check::{Counter, Facts, Span, Unit};
use crate::exec::program::placed_at;
use crate::isa::{Columns, Encoding, Operand, Role, Traits};

/// What a SIMD issues once in its turn: of each class one instruction, each of another wavefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Vector arithmetic, matrix instructions included.
    Vector,
    Scalar,
    ScalarMemory,
    Memory,
    Lds,
    Branch,
    /// Done where instructions wait to be issued: waits, barriers, no-ops, priorities.
    Internal,
}

impl Class {
    pub const COUNT: usize = 7;
}

/// What else an instruction means for the wavefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Barrier,
    Priority(u8),
    /// It sleeps for so many cycles.
    Sleep(u64),
    End,
}

/// A matrix instruction's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    /// For which it occupies the matrix unit.
    pub cycles: u64,
    pub addend: Option<Span>,
}

/// See the module's text.
pub(super) struct Instruction {
    pub class: Class,
    pub size: u64,
    pub reads: Vec<Span>,
    pub writes: Vec<Span>,
    /// For which it occupies its SIMD's vector unit.
    pub occupies: u64,
    pub matrix: Option<Matrix>,
    pub wait: [Option<u32>; 4],
    pub counts: Vec<Counter>,
    /// Issue slots.
    pub slots: u64,
    pub effect: Effect,
}

impl Instruction {
    /// The instruction at an address; `None` outside the code.
    pub fn at(kernel: &LoadedKernel, timing: &Timing, pc: u64) -> Option<Instruction> {
        let target = kernel.kernel.target;
        let inst = placed_at(kernel, pc)?;
        let facts = Facts::of(target, &inst);
        let Columns { role, traits, .. } = inst.op.columns;
        let immediate = match inst.src[0] {
            Operand::Immediate(value) | Operand::Integer(value) => value as u16,
            _ => 0,
        };
        let effect = match role {
            Role::Barrier => Effect::Barrier,
            Role::Priority => Effect::Priority((immediate & 3) as u8),
            Role::Sleep => Effect::Sleep(64 * u64::from(immediate & 127)),
            Role::End => Effect::End,
            _ => Effect::None,
        };
        let internal =
            effect != Effect::None || facts.wait.is_some() || traits.contains(Traits::INTERNAL);
        let class = match facts.unit {
            _ if internal => Class::Internal,
            Unit::Vector => Class::Vector,
            Unit::Scalar if traits.contains(Traits::BRANCHES) => Class::Branch,
            Unit::Scalar => Class::Scalar,
            Unit::ScalarMemory => Class::ScalarMemory,
            Unit::Memory => Class::Memory,
            Unit::Lds => Class::Lds,
        };
        let slow = facts.transcendental || traits.contains(Traits::SLOW_CONVERSION);
        let is_vector = inst.encoding != Encoding::SOPP && class == Class::Vector;
        Some(Instruction {
            class,
            size: inst.size.into(),
            occupies: match slow && is_vector {
                true => timing.quarter_rate.into(),
                false => timing.vector.into(),
            },
            matrix: facts.matrix.map(|matrix| Matrix {
                cycles: 4 * u64::from(matrix.passes),
                addend: matrix.addend,
            }),
            wait: facts.wait.unwrap_or_default(),
            slots: facts.states,
            reads: facts.reads,
            writes: facts.writes,
            counts: facts.counts,
            effect,
        })
    }
}
