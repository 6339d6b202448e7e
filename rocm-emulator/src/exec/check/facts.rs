//! What the checks know of an instruction: the registers that it reads and writes, which counters it raises or waits
//! for, and what the rules of manual wait states ask.

use super::matrix::{self, Matrix};
use super::registers::{Span, EXEC, VCC};
use crate::isa::{
    Columns, Encoding, Family, Inst, LaneControl, OpInfo, Operand, Role, SdwaSelect, Target, Traits,
};

/// What executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Vector,
    Scalar,
    ScalarMemory,
    /// FLAT, GLOBAL, SCRATCH and buffer instructions.
    Memory,
    Lds,
}

/// A counter of outstanding operations, by what it counts on GFX12; earlier GPUs have one for several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Load,
    Store,
    Lds,
    Scalar,
}

impl Counter {
    pub const ALL: [Counter; 4] = [Counter::Load, Counter::Store, Counter::Lds, Counter::Scalar];

    /// Its name in assembly.
    pub fn name(self, target: Target) -> &'static str {
        let names = match target.family() {
            Family::Cdna => ["vmcnt", "vmcnt", "lgkmcnt", "lgkmcnt"],
            Family::Rdna2 | Family::Rdna3 => ["vmcnt", "vscnt", "lgkmcnt", "lgkmcnt"],
            Family::Rdna4 => ["loadcnt", "storecnt", "dscnt", "kmcnt"],
        };
        names[self as usize]
    }

    /// The counter that stands for it on a GPU.
    pub fn on(self, target: Target) -> Counter {
        match (target.family(), self) {
            (Family::Cdna, Counter::Store) => Counter::Load,
            (Family::Rdna4, other) => other,
            (_, Counter::Scalar) => Counter::Lds,
            (_, other) => other,
        }
    }

    /// Most operations that it counts: an instruction beyond waits by itself. ISA manuals, "Data dependency resolution";
    /// LLVM, `getIsaVersion` and the `get*cntBitMask` functions of AMDGPUBaseInfo.
    pub fn most(self, target: Target) -> usize {
        match (target.family(), self) {
            (Family::Cdna, Counter::Lds | Counter::Scalar) => 15,
            (Family::Rdna4, Counter::Scalar) => 31,
            _ => 63,
        }
    }
}

/// What a wait asks of each counter: at most so many outstanding; `None` leaves it.
pub(crate) type Wait = [Option<u32>; 4];

/// How VALU instructions that reach single lanes do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneAccess {
    Read,
    ReadFirst,
    Write,
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Facts {
    pub op: &'static OpInfo,
    pub unit: Unit,
    pub reads: Vec<Span>,
    pub writes: Vec<Span>,
    /// Counters that it raises; an access to flat addresses raises that of the LDS, too.
    pub counts: Vec<Counter>,
    /// A load of scalar memory: such complete in any order.
    pub unordered: bool,
    /// It may go to memory or to the LDS.
    pub flat: bool,
    pub wait: Option<Wait>,
    /// Wait states that it takes: `s_nop` more than one.
    pub states: u64,
    /// `s_waitcnt_depctr` that waits for results of VALU instructions.
    pub waits_for_vector: bool,
    pub transcendental: bool,
    pub dot: bool,
    pub dpp: bool,
    /// Writes part of a register.
    pub part: bool,
    pub lane: Option<LaneAccess>,
    /// Scalar registers that it reads a bit of for each lane: a choice's mask, a sum's carry.
    pub mask: Option<Span>,
    /// The scalar register that says which lane it reaches.
    pub lane_number: Option<Span>,
    pub matrix: Option<Matrix>,
    /// The data of a store of more than eight bytes that leaves them unprotected for a while.
    pub wide_store: Option<Span>,
    /// `s_setreg` and `s_getreg`: the register's number.
    pub set_mode: Option<u16>,
    pub get_mode: Option<u16>,
    /// A load into the LDS, or `addtid`: reads M0.
    pub reads_m0: bool,
}

impl Facts {
    pub fn of(target: Target, inst: &Inst) -> Facts {
        let Columns { role, traits, .. } = inst.op.columns;
        let unit = unit(inst.encoding);
        let (reads, writes) = registers(inst);
        let (counts, unordered) = counts(target, inst, &writes);
        let immediate = immediate(inst.src[0]);
        let hwreg = |named: bool| named.then_some(immediate & 63);
        let sdwa = match inst.lane {
            LaneControl::Sdwa(sdwa) => sdwa.dst != SdwaSelect::Dword,
            _ => false,
        };
        Facts {
            op: inst.op,
            unit,
            counts,
            unordered,
            flat: inst.encoding == Encoding::FLAT,
            wait: wait(target, inst),
            states: match role {
                Role::Nop => u64::from(immediate & 15) + 1,
                _ => 1,
            },
            waits_for_vector: role == Role::WaitDependency && immediate >> 12 == 0,
            transcendental: traits.contains(Traits::TRANSCENDENTAL),
            mask: match traits.contains(Traits::MASKED) {
                true => Span::of(inst.src[2]).filter(|it| !it.is_vector()),
                false => None,
            },
            dot: traits.contains(Traits::DOT),
            dpp: matches!(inst.lane, LaneControl::Dpp(_) | LaneControl::Dpp8 { .. }),
            part: unit == Unit::Vector && (sdwa || is_half_of_vop3(inst)),
            lane: match role {
                Role::ReadLane => Some(LaneAccess::Read),
                Role::ReadFirstLane => Some(LaneAccess::ReadFirst),
                Role::WriteLane => Some(LaneAccess::Write),
                _ => None,
            },
            lane_number: match role {
                Role::ReadLane | Role::WriteLane => Span::of(inst.src[1]),
                _ => None,
            },
            matrix: matrix::of(target, inst, Span::of),
            wide_store: wide_store(inst),
            set_mode: hwreg(role == Role::SetRegister),
            get_mode: hwreg(role == Role::GetRegister),
            reads_m0: traits.contains(Traits::BY_LANE) || inst.mem.lds,
            reads,
            writes,
        }
    }
}

fn unit(encoding: Encoding) -> Unit {
    match encoding {
        Encoding::SOP1 | Encoding::SOP2 | Encoding::SOPC | Encoding::SOPK | Encoding::SOPP => {
            Unit::Scalar
        }
        Encoding::SMEM => Unit::ScalarMemory,
        Encoding::DS => Unit::Lds,
        Encoding::FLAT
        | Encoding::GLOBAL
        | Encoding::SCRATCH
        | Encoding::MUBUF
        | Encoding::MTBUF
        | Encoding::MIMG => Unit::Memory,
        _ => Unit::Vector,
    }
}

fn immediate(operand: Operand) -> u16 {
    match operand {
        Operand::Immediate(value) | Operand::Integer(value) => value as u16,
        Operand::Literal(value) => value as u16,
        _ => 0,
    }
}

/// What an instruction reads and writes. What it writes and also reads need not stand among the reads: both are checked
/// alike.
fn registers(inst: &Inst) -> (Vec<Span>, Vec<Span>) {
    let columns = &inst.op.columns;
    let mut reads: Vec<Span> = inst.src.iter().filter_map(|it| Span::of(*it)).collect();
    let mut writes: Vec<Span> = inst.dst.iter().filter_map(|it| Span::of(*it)).collect();
    if inst.encoding == Encoding::SMEM && columns.role == Role::Store {
        reads.append(&mut writes);
    }
    if columns.has(Traits::READS_VCC) {
        reads.push(Span::new(VCC, 2));
    }
    if columns.has(Traits::WRITES_EXEC) {
        writes.push(Span::new(EXEC, 2));
    }
    if columns.has(Traits::SWAPS) {
        let swapped: Vec<Span> = reads.clone();
        writes.extend(swapped);
    }
    if let Some(second) = &inst.second {
        let (more_reads, more_writes) = registers(second);
        reads.extend(more_reads);
        writes.extend(more_writes);
    }
    (reads, writes)
}

/// The counters that an instruction raises, and whether its operation may complete before earlier ones of its kind.
fn counts(target: Target, inst: &Inst, writes: &[Span]) -> (Vec<Counter>, bool) {
    let addressed = inst.src.iter().any(|it| *it != Operand::None) || !writes.is_empty();
    let memory = match writes.is_empty() && !inst.mem.lds {
        true => Counter::Store,
        false => Counter::Load,
    };
    let (counters, unordered): (&[Counter], bool) = match unit(inst.encoding) {
        Unit::Scalar if inst.op.columns.role == Role::MessageReturning => {
            (&[Counter::Scalar], true)
        }
        Unit::ScalarMemory if !writes.is_empty() => (&[Counter::Scalar], true),
        Unit::Lds => (&[Counter::Lds], false),
        Unit::Memory if !addressed => (&[], false),
        Unit::Memory if inst.encoding == Encoding::FLAT => (&[memory, Counter::Lds], false),
        Unit::Memory => (&[memory], false),
        _ => (&[], false),
    };
    let counters = counters.iter().map(|counter| counter.on(target));
    (counters.collect(), unordered)
}

/// The fields of waits. ISA manuals, "S_WAITCNT" and the `S_WAIT_*` of GFX12; LLVM's AMDGPUBaseInfo has the positions.
fn wait(target: Target, inst: &Inst) -> Option<Wait> {
    let family = target.family();
    let value = u32::from(immediate(inst.src[0]));
    let field = |first: u32, bits: u32| value >> first & ((1 << bits) - 1);
    let one = |counter: Counter, value: u32| {
        let mut wait = [None; 4];
        wait[counter.on(target) as usize] = Some(value);
        Some(wait)
    };
    let two = |counter: Counter| {
        let mut wait = [None; 4];
        wait[counter as usize] = Some(field(8, 6));
        wait[Counter::Lds as usize] = Some(field(0, 6));
        Some(wait)
    };
    match inst.op.columns.role {
        Role::Wait => {
            let (memory, lds) = match family {
                Family::Cdna => (field(0, 4) | field(14, 2) << 4, field(8, 4)),
                Family::Rdna2 => (field(0, 4) | field(14, 2) << 4, field(8, 6)),
                Family::Rdna3 | Family::Rdna4 => (field(10, 6), field(4, 6)),
            };
            Some([Some(memory), None, Some(lds), None])
        }
        Role::WaitLoad => one(Counter::Load, value),
        Role::WaitLds => one(Counter::Lds, value),
        Role::WaitStore => one(Counter::Store, value),
        Role::WaitScalar => one(Counter::Scalar, value),
        Role::WaitLoadLds => two(Counter::Load),
        Role::WaitStoreLds => two(Counter::Store),
        Role::WaitIdle => Some([Some(0); 4]),
        _ => None,
    }
}

/// A VOP3 instruction that writes the high half of a register.
fn is_half_of_vop3(inst: &Inst) -> bool {
    inst.encoding == Encoding::VOP3 && inst.mods.op_sel & 8 != 0
}

/// LLVM, `createsVALUHazard`: buffer stores only without a register as scalar offset.
fn wide_store(inst: &Inst) -> Option<Span> {
    let (data, exposed) = match inst.encoding {
        Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH => (inst.src[1], true),
        Encoding::MUBUF | Encoding::MTBUF => (inst.src[3], Span::of(inst.src[2]).is_none()),
        _ => return None,
    };
    let stores = inst.op.columns.has(Traits::STORES) && exposed;
    Span::of(data).filter(|data| stores && data.count > 2)
}
