//! A kernel's code, decoded and lowered once: a vector of steps with resolved operands and branch targets.
//!
//! Only code that is reachable from the kernel's entry is translated, by following branches; a jump through a
//! register to code not seen yet extends the program.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use crate::codeobject::LoadedKernel;
use crate::exec::memory::{BufferOp, LdsOp, MemoryOp, ScalarMemoryOp};
use crate::exec::scalar::{Destination, ScalarOp, Source};
use crate::exec::valu::{self, VectorOp};
use crate::exec::{Row, Wave};
use crate::fault::FaultKind;
use crate::isa::{self, Encoding, Inst, Operand, Target};

/// Consecutive vector registers, checked against the kernel's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub first: u16,
    pub count: u8,
    pub accumulation: bool,
}

impl Registers {
    #[inline(always)]
    pub fn rows(self, wave: &mut Wave) -> &mut [Row] {
        let file = if self.accumulation {
            &mut wave.agpr
        } else {
            &mut wave.vgpr
        };
        let first = usize::from(self.first);
        &mut file[first..first + usize::from(self.count)]
    }
}

/// What lowering needs to know of the kernel, and hands out.
pub(crate) struct Lowering {
    vgprs: usize,
    agprs: usize,
    next_site: Cell<u32>,
}

impl Lowering {
    /// `rows` registers from the operand's first on, if the kernel has them.
    pub fn registers(&self, operand: Operand, rows: u8) -> Option<Registers> {
        let (first, accumulation, has) = match operand {
            Operand::Vgpr { first, .. } => (first, false, self.vgprs),
            Operand::Agpr { first, .. } => (first, true, self.agprs),
            _ => return None,
        };
        (usize::from(first) + usize::from(rows) <= has).then_some(Registers {
            first,
            count: rows,
            accumulation,
        })
    }

    /// A number for a memory instruction, to remember its last allocation by.
    pub fn site(&self) -> u32 {
        let site = self.next_site.get();
        self.next_site.set(site + 1);
        site
    }
}

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
    fn named(name: &str) -> Option<Condition> {
        Some(match name {
            "s_branch" => Condition::Always,
            "s_cbranch_scc0" => Condition::Scc(false),
            "s_cbranch_scc1" => Condition::Scc(true),
            "s_cbranch_vccz" => Condition::Vccz(true),
            "s_cbranch_vccnz" => Condition::Vccz(false),
            "s_cbranch_execz" => Condition::Execz(true),
            "s_cbranch_execnz" => Condition::Execz(false),
            // Debugger branches: no debugger is attached.
            name if name.starts_with("s_cbranch_cdbg") => Condition::Never,
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
    Barrier,
    /// GFX12: arrive, without waiting.
    BarrierSignal,
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

/// Translated code.
pub(crate) struct Program {
    pub steps: Vec<Step>,
    by_address: HashMap<u64, u32>,
    /// Memory instructions; see [`Lowering::site`].
    pub sites: u32,
    roots: Vec<u64>,
}

impl Program {
    /// The step at a device address.
    pub fn at(&self, pc: u64) -> Option<u32> {
        self.by_address.get(&pc).copied()
    }
}

type Cache = RwLock<HashMap<(u64, u64), Arc<Program>>>;
static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// Forget the programs of a code object that is unloaded.
pub fn unload(code_object: u64) {
    CACHE.write().retain(|key, _| key.0 != code_object);
}

/// Reachable instructions of a kernel that the emulator cannot run: byte offset from the entry, and why. Empty for
/// a kernel that runs in full.
pub fn unsupported(kernel: &LoadedKernel) -> Vec<(u64, FaultKind)> {
    let program = of(kernel);
    let broken = program.steps.iter().filter_map(|step| match &step.op {
        Op::Broken(kind) => Some((step.pc - kernel.entry, kind.clone())),
        _ => None,
    });
    broken.collect()
}

/// The kernel's program.
pub(crate) fn of(kernel: &LoadedKernel) -> Arc<Program> {
    let key = (kernel.code_object, kernel.entry);
    if let Some(program) = CACHE.read().get(&key) {
        return program.clone();
    }
    let program = Arc::new(translate(kernel, vec![kernel.entry]));
    CACHE.write().entry(key).or_insert(program).clone()
}

/// The kernel's program with the code at `pc` in it, or `None` where there is no code.
pub(crate) fn extended(kernel: &LoadedKernel, pc: u64) -> Option<Arc<Program>> {
    if !kernel.code.contains(&pc) || pc % 4 != 0 {
        return None;
    }
    let mut cache = CACHE.write();
    let key = (kernel.code_object, kernel.entry);
    let mut roots = match cache.get(&key) {
        Some(program) if program.at(pc).is_some() => return Some(program.clone()),
        Some(program) => program.roots.clone(),
        None => vec![kernel.entry],
    };
    roots.push(pc);
    let program = Arc::new(translate(kernel, roots));
    cache.insert(key, program.clone());
    Some(program)
}

/// The instruction at an address, for messages and traces.
pub(crate) fn decode_at(kernel: &LoadedKernel, pc: u64) -> Option<Inst> {
    isa::decode(kernel.kernel.target, &words_at(kernel, pc)).ok()
}

/// At most four dwords of code from `pc` on, as many as the longest instruction has; none outside the code.
fn words_at(kernel: &LoadedKernel, pc: u64) -> Vec<u32> {
    if !kernel.code.contains(&pc) {
        return Vec::new();
    }
    let count = ((kernel.code.end - pc) / 4).min(4);
    (0..count)
        // SAFETY: the loaded code object's segment is live while its kernel is, and `pc` lies in it.
        .map(|i| unsafe { ((pc + 4 * i) as *const u32).read_unaligned() })
        .collect()
}

fn translate(kernel: &LoadedKernel, roots: Vec<u64>) -> Program {
    let descriptor = &kernel.kernel.descriptor;
    let (vgprs, agprs) = crate::exec::run::register_counts(descriptor);
    let lowering = Lowering {
        vgprs,
        agprs,
        next_site: Cell::new(0),
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut by_address = HashMap::new();
    let mut open = roots.clone();
    while let Some(mut pc) = open.pop() {
        // A straight run, until it ends or meets code that is there.
        while kernel.code.contains(&pc) && !by_address.contains_key(&pc) {
            let step = translate_one(kernel, &lowering, pc);
            by_address.insert(pc, steps.len() as u32);
            let after = pc + u64::from(step.size);
            let falls_through = match &step.op {
                Op::Branch(condition, _) => {
                    open.push(branch_target(kernel, pc));
                    !matches!(condition, Condition::Always)
                }
                Op::Call(..) => {
                    open.push(branch_target(kernel, pc));
                    true
                }
                Op::End | Op::SetPc(_) | Op::Broken(_) | Op::Trap(_) => false,
                _ => true,
            };
            steps.push(step);
            if !falls_through {
                break;
            }
            pc = after;
        }
    }
    let index = |pc: u64| by_address.get(&pc).copied().unwrap_or(NOWHERE);
    for step in &mut steps {
        step.next = index(step.pc + u64::from(step.size));
        if let Op::Branch(_, to) | Op::Call(_, to) = &mut step.op {
            *to = index(branch_target(kernel, step.pc));
        }
    }
    Program {
        steps,
        by_address,
        sites: lowering.next_site.get(),
        roots,
    }
}

/// Where the branch at `pc` goes: its 16-bit immediate counts dwords from the next instruction.
fn branch_target(kernel: &LoadedKernel, pc: u64) -> u64 {
    let low = words_at(kernel, pc).first().copied().unwrap_or(0) as u16;
    (pc + 4).wrapping_add_signed(i64::from(low as i16) * 4)
}

fn translate_one(kernel: &LoadedKernel, lowering: &Lowering, pc: u64) -> Step {
    let words = words_at(kernel, pc);
    let target = kernel.kernel.target;
    let (op, size) = match isa::decode(target, &words) {
        Ok(inst) => (lower(kernel, lowering, &inst, pc), inst.size),
        Err(_) => {
            let words = words.iter().take(2).map(|word| format!("{word:08x}"));
            let words = words.collect::<Vec<_>>().join(" ");
            (Op::Broken(FaultKind::UnknownInstruction { words }), 4)
        }
    };
    Step {
        op,
        pc,
        size,
        next: NOWHERE,
    }
}

fn lower(kernel: &LoadedKernel, lowering: &Lowering, inst: &Inst, pc: u64) -> Op {
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
                .or_else(|| ScalarOp::lower(inst).map(Op::Scalar))
                .unwrap_or_else(|| unimplemented(""))
        }
        _ if is_cache_control(inst.op.name) => Op::Nothing,
        Encoding::SMEM => ScalarMemoryOp::lower(inst, lowering)
            .map_or_else(|| unimplemented(""), Op::ScalarMemory),
        Encoding::DS => LdsOp::lower(inst, lowering).map_or_else(|| unimplemented(""), Op::Lds),
        Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH => {
            MemoryOp::lower(inst, lowering).map_or_else(|| unimplemented(""), Op::Memory)
        }
        Encoding::MUBUF => {
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

fn is_matrix(inst: &Inst) -> bool {
    ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"]
        .iter()
        .any(|prefix| inst.op.name.starts_with(prefix))
}

/// Instructions that only order or invalidate caches: the emulated memory is coherent.
fn is_cache_control(name: &str) -> bool {
    const NAMES: [&str; 13] = [
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
    ];
    let prefetch = name.starts_with("s_prefetch_") || name == "s_buffer_prefetch_data";
    prefetch || NAMES.contains(&name) || matches!(name, "global_inv" | "global_wb" | "global_wbinv")
}

/// Scalar instructions that do not change anything that a kernel can see.
const WITHOUT_EFFECT: [&str; 26] = [
    "s_nop",
    "s_waitcnt",
    "s_waitcnt_vscnt",
    "s_waitcnt_vmcnt",
    "s_waitcnt_expcnt",
    "s_waitcnt_lgkmcnt",
    "s_waitcnt_depctr",
    "s_delay_alu",
    "s_clause",
    "s_sleep",
    "s_sleep_var",
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
        "s_barrier" | "s_barrier_wait" => Op::Barrier,
        "s_barrier_signal" => Op::BarrierSignal,
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

/// The wavefront's target is the kernel's; kept here so that messages agree.
pub(crate) fn text_at(kernel: &LoadedKernel, pc: u64) -> String {
    let target: Target = kernel.kernel.target;
    decode_at(kernel, pc).map_or_else(
        || "(no instruction)".to_string(),
        |inst| isa::disassemble(target, &inst, pc),
    )
}
