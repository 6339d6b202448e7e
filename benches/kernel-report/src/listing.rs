//! A kernel's instructions, by the unit that they are issued to.

use anyhow::{anyhow, Result};
use rocm_emulator::codeobject::{CodeObject, Kernel};
use rocm_emulator::isa::{self, Encoding, Family, Inst, Operand, Target};

/// What an instruction is issued to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// MFMA, WMMA.
    Matrix,
    /// Vector arithmetic, moves of accumulation registers included.
    Vector,
    /// LDS.
    Lds,
    /// Global memory and scratch.
    Memory,
    /// Scalar arithmetic and scalar loads.
    Scalar,
    /// Branches.
    Branch,
    /// Waits, barriers, no-ops, hints: nothing is computed.
    Wait,
}

impl Unit {
    /// Number of units.
    pub const COUNT: usize = 7;
}

/// A counter of operations on their way, by which a wavefront waits for what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Of global memory: loads; on CDNA stores, too.
    Memory,
    /// Of LDS; before GFX12 also of scalar loads.
    Lds,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = 2;
}

/// What an instruction has to do with the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The counter that it raises.
    pub raises: Option<Counter>,
    /// What it asks for comes to vector registers.
    pub fetches: bool,
    /// By [`Counter`]: it waits until at most so many operations are on their way.
    pub leaves: [Option<usize>; Counter::COUNT],
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Line {
    /// Distance in bytes from the kernel's first instruction.
    pub offset: i64,
    /// What it is issued to.
    pub unit: Unit,
    /// Issue slots that it takes: as many as its number for `s_nop`, else 1.
    pub slots: u64,
    /// Cycles of the matrix unit.
    pub matrix_cycles: u64,
    /// Multiply-adds and dot products of the vector unit.
    pub multiply_add: bool,
    /// Its counters.
    pub counted: Counted,
    /// Where a branch goes.
    pub branch: Option<i64>,
    /// The mnemonic.
    pub name: &'static str,
}

/// A kernel's code.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The architecture.
    pub target: Target,
    /// In order.
    pub lines: Vec<Line>,
}

const MULTIPLY_ADDS: [&str; 8] = [
    "v_fma_",
    "v_fmac_",
    "v_mac_",
    "v_mad_",
    "v_pk_fma_",
    "v_pk_mad_",
    "v_dot",
    "v_dual_fmac_",
];

impl Listing {
    /// Decode a kernel.
    ///
    /// # Errors
    /// Names the word that is no instruction.
    pub fn of(object: &CodeObject, kernel: &Kernel) -> Result<Listing> {
        let target = object.target;
        let words: Vec<u32> = object
            .code(kernel)
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let mut lines = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let inst = isa::decode(target, &words[at..])
                .map_err(|error| anyhow!("{} at {:#x}: {error}", kernel.name, 4 * at))?;
            let size = usize::from(inst.size / 4).max(1);
            lines.push(line(target, &inst, 4 * at as i64));
            at += size;
        }
        Ok(Listing { target, lines })
    }
}

fn line(target: Target, inst: &Inst, offset: i64) -> Line {
    let name = inst.op.name;
    let matrix_cycles = target.architecture().matrix_cycles(name);
    let immediate = match inst.src[0] {
        Operand::Immediate(value) => Some(i64::from(value)),
        _ => None,
    };
    let is_branch = name == "s_branch" || name.starts_with("s_cbranch_");
    let second = inst.second.as_ref().map(|inst| inst.op.name);
    Line {
        offset,
        unit: if matrix_cycles.is_some() {
            Unit::Matrix
        } else {
            unit(inst)
        },
        slots: match (name, immediate) {
            ("s_nop", Some(count)) => count as u64 + 1,
            _ => 1,
        },
        matrix_cycles: matrix_cycles.unwrap_or(0),
        multiply_add: [Some(name), second].iter().flatten().any(|name| {
            let is = |prefix: &&str| name.starts_with(*prefix);
            matrix_cycles.is_none() && MULTIPLY_ADDS.iter().any(is)
        }),
        counted: counted(target, inst),
        // The distance counts dwords from the next instruction.
        branch: immediate
            .filter(|_| is_branch)
            .map(|distance| offset + i64::from(inst.size) + 4 * distance),
        name,
    }
}

fn counted(target: Target, inst: &Inst) -> Counted {
    let family = target.family();
    let fetches = inst.dst[0] != Operand::None;
    let raises = match inst.encoding {
        Encoding::DS => Some(Counter::Lds),
        Encoding::SMEM if fetches && family != Family::Rdna4 => Some(Counter::Lds),
        Encoding::SMEM => None,
        _ if unit(inst) != Unit::Memory => None,
        _ if fetches || inst.mem.lds || family == Family::Cdna => Some(Counter::Memory),
        _ => None,
    };
    Counted {
        raises,
        fetches: fetches && raises.is_some() && inst.encoding != Encoding::SMEM,
        leaves: leaves(family, inst),
    }
}

/// ISA manuals, "S_WAITCNT", and "S_WAIT_*" of GFX12.
fn leaves(family: Family, inst: &Inst) -> [Option<usize>; Counter::COUNT] {
    let bits = match inst.src[0] {
        Operand::Immediate(bits) | Operand::Integer(bits) => bits as u16 as usize,
        _ => return [None; Counter::COUNT],
    };
    let field = |first: usize, count: usize| bits >> first & ((1 << count) - 1);
    match (inst.op.name, family) {
        ("s_waitcnt", Family::Cdna) => [Some(field(0, 4) | field(14, 2) << 4), Some(field(8, 4))],
        ("s_waitcnt", Family::Rdna2) => [Some(field(0, 4) | field(14, 2) << 4), Some(field(8, 6))],
        ("s_waitcnt", _) => [Some(field(10, 6)), Some(field(4, 6))],
        ("s_wait_loadcnt", _) => [Some(bits), None],
        ("s_wait_dscnt", _) => [None, Some(bits)],
        ("s_wait_loadcnt_dscnt", _) => [Some(field(8, 6)), Some(field(0, 6))],
        ("s_wait_storecnt_dscnt", _) => [None, Some(field(0, 6))],
        _ => [None; Counter::COUNT],
    }
}

/// Scalar instructions that compute nothing.
fn waits(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "s_nop",
        "s_barrier",
        "s_barrier_signal",
        "s_barrier_wait",
        "s_clause",
        "s_delay_alu",
        "s_sleep",
        "s_setprio",
        "s_set_inst_prefetch_distance",
        "s_inst_prefetch",
        "s_icache_inv",
        "s_sethalt",
    ];
    name.starts_with("s_waitcnt") || name.starts_with("s_wait_") || NAMES.contains(&name)
}

fn unit(inst: &Inst) -> Unit {
    let name = inst.op.name;
    match inst.encoding {
        _ if waits(name) => Unit::Wait,
        Encoding::SOPP if name.contains("branch") || name.starts_with("s_endpgm") => Unit::Branch,
        Encoding::SOP1
        | Encoding::SOP2
        | Encoding::SOPC
        | Encoding::SOPK
        | Encoding::SOPP
        | Encoding::SMEM => Unit::Scalar,
        Encoding::DS | Encoding::LDSDIR => Unit::Lds,
        Encoding::FLAT
        | Encoding::GLOBAL
        | Encoding::SCRATCH
        | Encoding::MUBUF
        | Encoding::MTBUF
        | Encoding::MIMG => Unit::Memory,
        _ => Unit::Vector,
    }
}
