//! What time depends on of an instruction.

use rocm_gpus::{Pace, Timing};

use crate::codeobject::LoadedKernel;
use crate::exec::check::{Counter, Facts, Span, Unit};
use crate::exec::program::placed_at;
use crate::isa::{
    Columns, Encoding, FloatFormat, Inst, LaneControl, Operand, Role, Rounded, Traits,
};

/// Banks of the vector registers, by their numbers' lowest bits.
pub(super) const BANKS: usize = 4;

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
    /// It arrives at a barrier, and waits for the others.
    Barrier,
    /// It arrives at a barrier, and goes on.
    Arrive,
    /// It waits for the others where it arrived last.
    Await,
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
    /// Cycles until the SIMD issues another of the class.
    pub issue: u64,
    /// For which it occupies its SIMD's vector unit.
    pub occupies: u64,
    /// For which it occupies the unit of transcendental instructions; 0 where it does not.
    pub transcendental: u64,
    /// Until its results can be used.
    pub latency: u64,
    /// Vector registers that it reads from each bank, where more than one take longer.
    pub banks: [u8; BANKS],
    pub matrix: Option<Matrix>,
    pub wait: [Option<u32>; 4],
    pub counts: Vec<Counter>,
    /// Cycles until the wavefront can issue another.
    pub slots: u64,
    pub effect: Effect,
}

impl Instruction {
    /// The instruction at an address; `None` outside the code.
    pub fn at(kernel: &LoadedKernel, timing: &Timing, pc: u64) -> Option<Instruction> {
        let target = kernel.kernel.target;
        let unit = target.unit();
        let inst = placed_at(kernel, pc)?;
        let facts = Facts::of(target, &inst);
        let effect = effect(&inst);
        let class = class(&facts, &inst, effect);
        let issue = u64::from(unit.issue_cycles);
        let lanes = kernel.kernel.wavefront_size / unit.wavefront;
        let passes = match class {
            Class::Vector => u64::from(passes(&inst, lanes, timing)),
            _ => 1,
        };
        let pace = pace(&inst, class, unit.issue_cycles, timing);
        let (occupies, latency) = (u64::from(pace.occupies), u64::from(pace.latency));
        let apart = facts.transcendental && timing.transcendental_unit;
        let mut reads = facts.reads;
        accumulators(&inst, &mut reads);
        Some(Instruction {
            class,
            size: inst.size.into(),
            issue,
            occupies: passes * if apart { issue } else { occupies },
            transcendental: if apart { passes * occupies } else { 0 },
            latency: latency + (passes - 1) * occupies,
            banks: match timing.bank_reads {
                Some(most) if class == Class::Vector => banks(&reads, most, passes),
                _ => [0; BANKS],
            },
            matrix: facts.matrix.and_then(|matrix| {
                Some(Matrix {
                    cycles: target.architecture().matrix_cycles(inst.op.name)?,
                    addend: matrix.addend,
                })
            }),
            wait: facts.wait.unwrap_or_default(),
            slots: (issue * facts.states).max(passes * issue),
            reads,
            writes: facts.writes,
            counts: facts.counts,
            effect,
        })
    }
}

fn effect(inst: &Inst) -> Effect {
    let immediate = match inst.src[0] {
        Operand::Immediate(value) | Operand::Integer(value) => value as u16,
        _ => 0,
    };
    match inst.op.columns.role {
        Role::Barrier => Effect::Barrier,
        Role::BarrierSignal | Role::BarrierSignalIsFirst => Effect::Arrive,
        Role::BarrierWait => Effect::Await,
        Role::Priority => Effect::Priority((immediate & 3) as u8),
        Role::Sleep => Effect::Sleep(64 * u64::from(immediate & 127)),
        Role::End => Effect::End,
        _ => Effect::None,
    }
}

fn class(facts: &Facts, inst: &Inst, effect: Effect) -> Class {
    let Columns { traits, .. } = inst.op.columns;
    // Hints such as `s_delay_alu` are taken out of the instruction buffer, as waits are.
    let hint = inst.encoding == Encoding::SOPP && traits.contains(Traits::NO_EFFECT);
    if effect != Effect::None || facts.wait.is_some() || hint || traits.contains(Traits::INTERNAL) {
        return Class::Internal;
    }
    match facts.unit {
        Unit::Vector => Class::Vector,
        Unit::Scalar if traits.contains(Traits::BRANCHES) => Class::Branch,
        Unit::Scalar => Class::Scalar,
        Unit::ScalarMemory => Class::ScalarMemory,
        Unit::Memory => Class::Memory,
        Unit::Lds => Class::Lds,
    }
}

/// How often the vector unit works for an instruction of a wavefront that is so many times as wide as the SIMD.
fn passes(inst: &Inst, lanes: u32, timing: &Timing) -> u32 {
    let Columns { traits, matrix, .. } = &inst.op.columns;
    let whole = timing.wave64_at_once && traits.contains(Traits::WHOLE_WAVE64);
    match inst.lane {
        _ if matrix.is_some() => 1,
        LaneControl::None if whole => 1,
        _ => lanes.max(1),
    }
}

/// Of 32 lanes, or of 64 where those are a SIMD's wavefront.
fn pace(inst: &Inst, class: Class, issue: u32, timing: &Timing) -> Pace {
    let Columns { traits, rounds, .. } = &inst.op.columns;
    let is = |of| traits.contains(of);
    match class {
        Class::Vector if is(Traits::TRANSCENDENTAL) => timing.transcendental,
        Class::Vector if is(Traits::SLOW_CONVERSION) => timing.conversion,
        Class::Vector if is(Traits::QUARTER_MULTIPLY) => timing.multiply,
        Class::Vector if matches!(rounds, Some((_, FloatFormat::F64))) => timing.double,
        Class::Scalar => Pace {
            occupies: issue,
            latency: timing.scalar,
        },
        _ => Pace {
            occupies: issue,
            latency: timing.vector,
        },
    }
}

/// Add the destinations to which an instruction adds: they are no sources of it.
fn accumulators(inst: &Inst, reads: &mut Vec<Span>) {
    let columns = &inst.op.columns;
    let sums = matches!(columns.rounds, Some((Rounded::Fma | Rounded::Mad, _)))
        || columns.traits.contains(Traits::DOT);
    if sums && inst.src[2] == Operand::None {
        reads.extend(Span::of(inst.dst[0]));
    }
    if let Some(second) = &inst.second {
        accumulators(second, reads);
    }
}

/// Cycles in which each bank gives an instruction's vector registers.
fn banks(reads: &[Span], most: u32, passes: u64) -> [u8; BANKS] {
    let mut registers: Vec<u16> = reads
        .iter()
        .filter(|span| span.is_vector())
        .map(|span| span.first)
        .collect();
    registers.sort_unstable();
    registers.dedup();
    let mut banks = [0; BANKS];
    for register in registers {
        banks[usize::from(register) % BANKS] += 1;
    }
    banks.map(|count: u32| (count.div_ceil(most) * passes as u32) as u8)
}
