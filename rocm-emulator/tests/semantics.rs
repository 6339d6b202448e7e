//! What each instruction computes, case by case: `semantics/*.txt` against the emulator, end to end. Every case
//! becomes a kernel that loads its registers and LDS from memory, executes the instruction, and stores them again.

#[path = "semantics_support/mnemonics.rs"]
mod mnemonics;
mod semantics_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use candle_rocm_testing::gpu::TARGETS;
use candle_rocm_testing::llvm::Tools;
use mnemonics::{base, of_kernels};
use rocm_emulator::codeobject::CodeObject;
use rocm_emulator::exec::{dispatch, Launch, Options};
use rocm_emulator::isa::{Accumulation, Family, Target};
use rocm_emulator::memory::{AllocationKind, Memory};
use semantics_support::{Assignment, Case, Names, Place, Problem, Surroundings, Value, Width};

macro_rules! tables {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("semantics/", $name)))),*] };
}

const TABLES: &[(&str, &str)] = tables! {
    "scalar.txt" "vector32.txt" "vector64.txt" "vector16.txt" "float.txt" "convert.txt" "compare.txt"
    "lanes.txt" "operands.txt" "lds.txt" "global.txt" "atomics.txt" "accumulation.txt"
};

fn names() -> Names {
    Names::parse(include_str!("semantics/names.txt"))
}

fn cases() -> Vec<Case> {
    TABLES
        .iter()
        .flat_map(|(file, text)| {
            semantics_support::parse(file, text).unwrap_or_else(|problem| panic!("{problem}"))
        })
        .collect()
}

/// Registers of either kind that a case may use and that are compared.
const REGISTERS: usize = 32;
/// Where `a0` lies in the kernels of `accumulation.txt`: these registers of a case have two names.
const ACCUM_OFFSET: usize = 16;
/// Bytes of LDS and of memory that a case may use.
const BYTES: usize = 256;

/// Everything that a case can read or write.
#[derive(Clone, PartialEq)]
struct State {
    sgpr: [u32; REGISTERS],
    exec: u64,
    vcc: u64,
    m0: u32,
    scc: u32,
    vgpr: Vec<[u32; REGISTERS]>,
    lds: [u32; BYTES / 4],
    memory: [u32; BYTES / 4],
}

/// Where the parts of a state lie in the kernels' buffers.
const LDS_AT: usize = 0x100;
const VGPRS_AT: usize = 0x400;
const STATE_BYTES: usize = VGPRS_AT + 64 * 4 * REGISTERS;

impl State {
    /// Registers hold numbers that tell them apart, LDS and memory count their dwords.
    fn new(lanes: usize) -> State {
        let lane_mask = u64::MAX >> (64 - lanes);
        let vgprs = |lane: usize| std::array::from_fn(|i| (0xbad0_0000 + i * 256 + lane) as u32);
        State {
            sgpr: std::array::from_fn(|i| 0x5bad_0000 + i as u32),
            exec: lane_mask,
            vcc: 0x0bad_cafe_0bad_f00d,
            m0: 0x00ba_d000,
            scc: 1,
            vgpr: (0..lanes).map(vgprs).collect(),
            lds: std::array::from_fn(|i| 0x1d50_0000 + i as u32),
            memory: std::array::from_fn(|i| 0x3e30_0000 + i as u32),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut dwords = self.sgpr.to_vec();
        for wide in [self.exec, self.vcc] {
            dwords.extend([wide as u32, (wide >> 32) as u32]);
        }
        dwords.extend([self.m0, self.scc, 0, 0]);
        dwords.resize(LDS_AT / 4, 0);
        dwords.extend(self.lds);
        dwords.resize(VGPRS_AT / 4, 0);
        dwords.extend(self.vgpr.iter().flatten());
        dwords.resize(STATE_BYTES / 4, 0);
        dwords
            .iter()
            .flat_map(|dword| dword.to_le_bytes())
            .collect()
    }

    fn from_bytes(bytes: &[u8], memory: &[u8], lanes: usize) -> State {
        let dword = |at: usize| u32_at(bytes, at);
        let wide = |at: usize| u64::from(dword(at)) | u64::from(dword(at + 4)) << 32;
        State {
            sgpr: std::array::from_fn(|i| dword(4 * i)),
            exec: wide(0x80),
            vcc: wide(0x88),
            m0: dword(0x90),
            scc: dword(0x94),
            vgpr: (0..lanes)
                .map(|lane| std::array::from_fn(|i| dword(VGPRS_AT + 4 * (lane * REGISTERS + i))))
                .collect(),
            lds: std::array::from_fn(|i| dword(LDS_AT + 4 * i)),
            memory: std::array::from_fn(|i| u32_at(memory, 4 * i)),
        }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A value for some dwords: what to put there or to find there.
struct Part {
    slot: Slot,
    bits: u32,
    value: Value,
}

/// One dword, or two that belong together.
#[derive(Clone, Copy, PartialEq)]
enum Slot {
    Sgpr(usize),
    Vgpr(usize, usize),
    Vcc,
    Exec,
    M0,
    Scc,
    Lds(usize),
    Memory(usize),
}

impl Slot {
    fn next(self) -> Slot {
        match self {
            Slot::Sgpr(i) => Slot::Sgpr(i + 1),
            Slot::Vgpr(lane, i) => Slot::Vgpr(lane, i + 1),
            Slot::Lds(i) => Slot::Lds(i + 1),
            Slot::Memory(i) => Slot::Memory(i + 1),
            other => other,
        }
    }

    fn name(self) -> String {
        match self {
            Slot::Sgpr(i) => format!("s{i}"),
            Slot::Vgpr(lane, i) => format!("v{i}@{lane}"),
            Slot::Vcc => "vcc".into(),
            Slot::Exec => "exec".into(),
            Slot::M0 => "m0".into(),
            Slot::Scc => "scc".into(),
            Slot::Lds(i) => format!("lds[{:x}]", 4 * i),
            Slot::Memory(i) => format!("mem[{:x}]", 4 * i),
        }
    }

    fn get32(self, state: &State) -> u32 {
        match self {
            Slot::Sgpr(i) => state.sgpr[i],
            Slot::Vgpr(lane, i) => state.vgpr[lane][i],
            Slot::Vcc => state.vcc as u32,
            Slot::Exec => state.exec as u32,
            Slot::M0 => state.m0,
            Slot::Scc => state.scc,
            Slot::Lds(i) => state.lds[i],
            Slot::Memory(i) => state.memory[i],
        }
    }

    fn set32(self, state: &mut State, value: u32) {
        let low = |old: u64| old >> 32 << 32 | u64::from(value);
        match self {
            Slot::Sgpr(i) => state.sgpr[i] = value,
            Slot::Vgpr(lane, i) => state.vgpr[lane][i] = value,
            Slot::Vcc => state.vcc = low(state.vcc),
            Slot::Exec => state.exec = low(state.exec),
            Slot::M0 => state.m0 = value,
            Slot::Scc => state.scc = value,
            Slot::Lds(i) => state.lds[i] = value,
            Slot::Memory(i) => state.memory[i] = value,
        }
    }

    fn get(self, state: &State, bits: u32) -> u64 {
        let low = u64::from(self.get32(state));
        match (self, bits) {
            (Slot::Vcc, 64) => state.vcc,
            (Slot::Exec, 64) => state.exec,
            (_, 64) => low | u64::from(self.next().get32(state)) << 32,
            (_, 16) => low & 0xffff,
            _ => low,
        }
    }

    fn set(self, state: &mut State, bits: u32, value: u64) {
        match (self, bits) {
            (Slot::Vcc, 64) => state.vcc = value,
            (Slot::Exec, 64) => state.exec = value,
            (_, 64) => {
                self.set32(state, value as u32);
                self.next().set32(state, (value >> 32) as u32);
            }
            (_, 16) => {
                let old = self.get32(state);
                self.set32(state, old & 0xffff_0000 | value as u32 & 0xffff);
            }
            _ => self.set32(state, value as u32),
        }
    }
}

/// Resolve an assignment; vector registers without a lane mean every lane of `active`.
fn parts(
    assignment: &Assignment,
    lanes: usize,
    active: u64,
    memory: u64,
) -> Result<Vec<Part>, Problem> {
    let mask_bits = lanes as u32;
    let texts: Vec<&str> = assignment.value.split(',').collect();
    let list = |first: Slot, dwords: usize, lane: usize| -> Result<Vec<Part>, Problem> {
        let around = Surroundings {
            lane,
            lane_mask: u64::MAX >> (64 - lanes),
            memory,
        };
        let mut parts = Vec::new();
        if let ([text], 2) = (&texts[..], dwords) {
            let value = Value::parse(text, around)?;
            return Ok(vec![Part {
                slot: first,
                bits: 64,
                value,
            }]);
        }
        let mut slot = first;
        for text in &texts {
            let value = Value::parse(text, around)?;
            // A list of f64 fills pairs.
            let wide = text.ends_with('d') && text.contains('.');
            let bits = if wide { 64 } else { 32 };
            parts.push(Part { slot, bits, value });
            slot = if wide {
                slot.next().next()
            } else {
                slot.next()
            };
        }
        let given: usize = parts.iter().map(|part| part.bits as usize / 32).sum();
        if given != dwords && dwords != 0 {
            return Err(format!("{given} dwords for {dwords} registers"));
        }
        Ok(parts)
    };
    let whole = |slot: Slot, bits: u32| -> Result<Vec<Part>, Problem> {
        let mut parts = list(slot, 1, 0)?;
        parts[0].bits = bits;
        Ok(parts)
    };
    match assignment.place {
        Place::Sgpr(first, count) => list(Slot::Sgpr(first), count, 0),
        Place::Mask(first) => whole(Slot::Sgpr(first), mask_bits),
        Place::Vcc => whole(Slot::Vcc, mask_bits),
        Place::Exec => whole(Slot::Exec, mask_bits),
        Place::M0 => list(Slot::M0, 1, 0),
        Place::Scc => list(Slot::Scc, 1, 0),
        // As many dwords as there are values.
        Place::Lds(bytes) => list(Slot::Lds(bytes / 4), 0, 0),
        Place::Memory(bytes) => list(Slot::Memory(bytes / 4), 0, 0),
        Place::Vgpr {
            first,
            count,
            lane,
            low,
        } => {
            let mut all = Vec::new();
            for number in 0..lanes {
                let named = lane.map_or(active >> number & 1 != 0, |lane| lane == number);
                if named {
                    let mut parts = list(Slot::Vgpr(number, first), count, number)?;
                    if low {
                        parts[0].bits = 16;
                    }
                    all.extend(parts);
                }
            }
            Ok(all)
        }
    }
}

/// The state before a case, and what its outputs must be.
struct Prepared {
    before: State,
    outputs: Vec<Part>,
}

fn prepare(case: &Case, lanes: usize, memory: u64) -> Result<Prepared, Problem> {
    let mut before = State::new(lanes);
    for input in &case.inputs {
        for part in parts(input, lanes, u64::MAX, memory)? {
            part.slot.set(&mut before, part.bits, part.value.bits());
        }
    }
    before.exec &= u64::MAX >> (64 - lanes);
    let mut outputs = Vec::new();
    for output in &case.outputs {
        outputs.extend(parts(output, lanes, before.exec, memory)?);
    }
    // An SCC that is no input starts as the opposite of what comes out, so that it must be written.
    let given = case.inputs.iter().any(|input| input.place == Place::Scc);
    if let Some(scc) = outputs.iter().find(|part| part.slot == Slot::Scc) {
        if !given {
            before.scc = 1 - (scc.value.bits() as u32 & 1);
        }
    }
    Ok(Prepared { before, outputs })
}

/// What differs from what the case says.
fn differences(prepared: &Prepared, after: &State) -> Vec<String> {
    let mut found = Vec::new();
    // What is not named must be as before. Later outputs override earlier ones of the same slot.
    let mut expected = prepared.before.clone();
    for (index, part) in prepared.outputs.iter().enumerate() {
        let got = part.slot.get(after, part.bits);
        let overridden = prepared.outputs[index + 1..]
            .iter()
            .any(|other| other.slot == part.slot);
        if overridden {
            continue;
        }
        if !part.value.admits(got, part.bits) {
            let want = match part.value {
                Value::Exactly(_) => {
                    format!("{:x}", part.value.bits() & u64::MAX >> (64 - part.bits))
                }
                Value::About(..) => format!("about {:x}", part.value.bits()),
                Value::Nan(_) => "a NaN".into(),
                Value::Any => continue,
            };
            found.push(format!("{} = {got:x}, expected {want}", part.slot.name()));
        }
        // Of a 16-bit result, the other half is the business of cases of its own.
        let bits = if part.bits == 16 { 32 } else { part.bits };
        part.slot
            .set(&mut expected, bits, part.slot.get(after, bits));
    }
    let slots = (0..REGISTERS)
        .map(Slot::Sgpr)
        .chain([Slot::M0, Slot::Scc])
        .chain((0..BYTES / 4).map(Slot::Lds))
        .chain((0..BYTES / 4).map(Slot::Memory))
        .chain(
            (0..after.vgpr.len())
                .flat_map(|lane| (0..REGISTERS).map(move |register| Slot::Vgpr(lane, register))),
        )
        .map(|slot| (slot, 32))
        .chain([(Slot::Vcc, 64), (Slot::Exec, 64)]);
    for (slot, bits) in slots {
        let (got, want) = (slot.get(after, bits), slot.get(&expected, bits));
        if got != want {
            found.push(format!(
                "{} = {got:x}, though it was {want:x} and is not an output",
                slot.name()
            ));
        }
    }
    if found.len() > 4 {
        let more = found.len() - 4;
        found.truncate(4);
        found.push(format!("and {more} more"));
    }
    found
}

/// A case for one target, assembled.
struct Assembled<'a> {
    case: &'a Case,
    text: Vec<String>,
    /// Without suffixes for the encoding.
    mnemonics: Vec<String>,
}

/// Assemble all lines at once, for the mnemonics and for lines that the target does not have.
fn assemble<'a>(target: Target, cases: &'a [Case]) -> (Vec<Assembled<'a>>, Vec<String>) {
    let names = names();
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut assembled: Vec<Assembled> = cases
        .iter()
        .filter(|case| case.applies(target))
        .map(|case| Assembled {
            case,
            text: case.text(target, &names),
            mnemonics: Vec::new(),
        })
        .collect();
    for (index, case) in assembled.iter().enumerate() {
        lines.extend(case.text.iter().map(|line| (index, line.clone())));
    }
    let text: String = lines.iter().map(|(_, line)| format!("{line}\n")).collect();
    let output = Tools::find().mc(target.name(), &["-show-encoding"], &text);
    let mut wrong: BTreeMap<usize, String> = BTreeMap::new();
    for message in String::from_utf8_lossy(&output.stderr).lines() {
        let Some((_, rest)) = message.split_once("<stdin>:") else {
            continue;
        };
        let mut fields = rest.splitn(3, ':');
        let line: usize = fields
            .next()
            .and_then(|line| line.parse().ok())
            .unwrap_or(1);
        if rest.contains("error:") {
            wrong
                .entry(line - 1)
                .or_insert_with(|| fields.nth(1).unwrap_or("").trim().to_string());
        }
    }
    let failures = wrong
        .iter()
        .map(|(&line, message)| {
            let (index, text) = &lines[line];
            let place = assembled[*index].case.place();
            format!("{target}: {place}: {text}: llvm-mc: {message}")
        })
        .collect();
    let good = lines
        .iter()
        .enumerate()
        .filter(|(line, _)| !wrong.contains_key(line))
        .map(|(_, (index, _))| *index);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("encoding: ["))
        .collect();
    let good: Vec<usize> = good.collect();
    assert_eq!(good.len(), printed.len(), "one encoding a line on {target}");
    for (index, line) in good.iter().zip(printed) {
        let mnemonic = line.split_whitespace().next().unwrap_or("");
        assembled[*index].mnemonics.push(base(mnemonic).into());
    }
    let bad: BTreeSet<usize> = wrong.keys().map(|&line| lines[line].0).collect();
    let mut index = 0;
    assembled.retain(|_| {
        index += 1;
        !bad.contains(&(index - 1))
    });
    (assembled, failures)
}

/// Assembly text of the kernels, `case_0` and so on.
fn program(target: Target, cases: &[Assembled]) -> String {
    let wide = target.wavefront_size() == 64;
    let unified = target.unit().accumulation == Accumulation::Unified;
    let wait = if target.family() == Family::Rdna4 {
        "s_wait_loadcnt 0\n s_wait_storecnt 0\n s_wait_dscnt 0\n s_wait_kmcnt 0"
    } else {
        "s_waitcnt vmcnt(0) lgkmcnt(0)"
    };
    // The low dword of a pair, where the mask is one.
    let exec_from = |wide_source: &str, source: &str| {
        if wide {
            format!("s_mov_b64 exec, {wide_source}")
        } else {
            format!("s_mov_b32 exec_lo, {source}")
        }
    };
    let save_exec = if wide {
        "s_mov_b64 s[80:81], exec"
    } else {
        "s_mov_b32 s80, exec_lo\n s_mov_b32 s81, 0"
    };
    let mut text = format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{target}\"\n.amdhsa_code_object_version 5\n.text\n"
    );
    // s[88:91] and v248 belong to the frame.
    let mut load = String::from(
        "s_load_dwordx4 s[88:91], s[0:1], 0x0
 v_lshlrev_b32 v248, 3, v0
 v_lshlrev_b32 v247, 7, v0
 WAIT
 global_load_dwordx2 v[250:251], v248, s[88:89] offset:256
 WAIT
 ds_write_b64 v248, v[250:251]
 v_mov_b32 v248, v247
",
    );
    for first in (0..REGISTERS).step_by(4) {
        let (last, offset) = (first + 3, VGPRS_AT + 4 * first);
        let _ = writeln!(
            load,
            " global_load_dwordx4 v[{first}:{last}], v248, s[88:89] offset:{offset}"
        );
    }
    let _ = writeln!(
        load,
        " s_load_dwordx8 s[80:87], s[88:89], 0x80
 s_load_dwordx16 s[0:15], s[88:89], 0x0
 s_load_dwordx16 s[16:31], s[88:89], 0x40
 WAIT
 s_mov_b64 vcc, s[82:83]
 s_mov_b32 m0, s84
 {}
 s_cmp_lg_u32 s85, 0",
        exec_from("s[80:81]", "s80")
    );
    let mut store = format!(
        " WAIT
 s_cselect_b32 s85, 1, 0
 {save_exec}
 {}
 s_mov_b64 s[82:83], vcc
 s_mov_b32 s84, m0
",
        exec_from("-1", "-1")
    );
    for first in (0..REGISTERS).step_by(4) {
        let (last, offset) = (first + 3, VGPRS_AT + 4 * first);
        let _ = writeln!(
            store,
            " global_store_dwordx4 v248, v[{first}:{last}], s[90:91] offset:{offset}"
        );
    }
    let _ = writeln!(
        store,
        " v_lshrrev_b32 v249, 4, v248
 ds_read_b64 v[250:251], v249
 WAIT
 global_store_dwordx2 v249, v[250:251], s[90:91] offset:256
 {}
 v_mov_b32 v249, 0",
        exec_from("1", "1")
    );
    for first in (0..REGISTERS).step_by(4).chain([80, 84]) {
        for i in 0..4 {
            let _ = writeln!(store, " v_mov_b32 v{}, s{}", 250 + i, first + i);
        }
        let offset = if first < REGISTERS {
            4 * first
        } else {
            0x80 + 4 * (first - 80)
        };
        let _ = writeln!(
            store,
            " global_store_dwordx4 v249, v[250:253], s[90:91] offset:{offset}"
        );
    }
    for (name, body) in [("enter", load), ("leave", store)] {
        let body = body.replace("WAIT", wait);
        let _ = writeln!(text, ".macro {name}\n {body}\n s_nop 4\n.endm");
    }
    for (index, case) in cases.iter().enumerate() {
        let _ = writeln!(
            text,
            ".p2align 8\n.globl case_{index}\n.type case_{index},@function\ncase_{index}:\n enter"
        );
        for line in &case.text {
            let _ = writeln!(text, " {line}");
        }
        let _ = writeln!(text, " leave\n s_endpgm");
    }
    text += ".rodata\n";
    let offset = |case: &Assembled| match case.case.file {
        "accumulation.txt" => ACCUM_OFFSET,
        _ => 256,
    };
    let vgprs = |case: &Assembled| if unified { offset(case) + 256 } else { 256 };
    for (index, case) in cases.iter().enumerate() {
        let sized = match (unified, wide) {
            (true, _) => format!(".amdhsa_accum_offset {}", offset(case)),
            (false, true) => String::new(),
            (false, false) => ".amdhsa_wavefront_size32 1".into(),
        };
        let vgprs = vgprs(case);
        let _ = writeln!(
            text,
            ".p2align 6\n.amdhsa_kernel case_{index}
 .amdhsa_group_segment_fixed_size 1024
 .amdhsa_private_segment_fixed_size 64
 .amdhsa_kernarg_size 16
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_next_free_vgpr {vgprs}
 .amdhsa_next_free_sgpr 96
 {sized}
 .amdhsa_float_denorm_mode_32 3
 .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel"
        );
    }
    text += ".amdgpu_metadata\namdhsa.version: [1, 2]\namdhsa.kernels:\n";
    for (index, case) in cases.iter().enumerate() {
        let vgprs = vgprs(case);
        let _ = writeln!(
            text,
            "  - .name: case_{index}
    .symbol: case_{index}.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 64
    .wavefront_size: {}
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 64
    .args:
      - {{ .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }}
      - {{ .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }}",
            target.wavefront_size()
        );
    }
    text += ".end_amdgpu_metadata\n";
    text
}

/// Run every case of a target; a line for each failure.
fn run(target: Target, cases: &[Case]) -> Vec<String> {
    let (assembled, mut failures) = assemble(target, cases);
    let lanes = target.wavefront_size() as usize;
    let bytes = Tools::find().code_object(target.name(), &program(target, &assembled));
    let device = Memory::new(1 << 26);
    let object = Arc::new(CodeObject::parse(&bytes).expect("the linker's output parses"));
    let code = object.load(&device).expect("the device has room");
    let allocate = |bytes: usize| {
        device
            .allocate(bytes as u64, AllocationKind::Device)
            .expect("the device has room")
    };
    let (input, output, memory) = (
        allocate(STATE_BYTES),
        allocate(STATE_BYTES),
        allocate(BYTES),
    );
    let options = Options {
        threads: 1,
        max_instructions: 10_000,
        ..Options::default()
    };
    for (index, Assembled { case, text, .. }) in assembled.iter().enumerate() {
        let mut fail = |what: String| {
            let (place, text) = (case.place(), text.join("; "));
            failures.push(format!("{target}: {place}: {text}: {what}"));
        };
        let prepared = match prepare(case, lanes, memory) {
            Ok(prepared) => prepared,
            Err(problem) => {
                fail(problem);
                continue;
            }
        };
        device
            .write(input, &prepared.before.to_bytes())
            .expect("a buffer");
        let words: Vec<u8> = prepared
            .before
            .memory
            .iter()
            .flat_map(|dword| dword.to_le_bytes())
            .collect();
        device.write(memory, &words).expect("a buffer");
        let kernarg: Vec<u8> = [input, output]
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .collect();
        let name = format!("case_{index}");
        let launch = Launch {
            kernel: code.kernel(&name).expect("the program has the kernel"),
            grid: [1; 3],
            block: [lanes as u32, 1, 1],
            dynamic_lds: 0,
            kernarg: &kernarg,
        };
        if let Err(fault) = dispatch(&device, &launch, &options) {
            fail(fault.to_string());
            continue;
        }
        let (mut state, mut words) = (vec![0; STATE_BYTES], vec![0; BYTES]);
        device.read(output, &mut state).expect("a buffer");
        device.read(memory, &mut words).expect("a buffer");
        let after = State::from_bytes(&state, &words, lanes);
        let found = differences(&prepared, &after);
        if !found.is_empty() {
            fail(found.join("; "));
        }
    }
    failures
}

fn check(target: Target) {
    let failures = run(target, &cases());
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}

candle_rocm_testing::each_target!(check);

#[test]
fn a_wrong_expectation_is_found() {
    let wrong = [
        "s_add_u32 s0, s2, s3 | s2=1 s3=1 | s0=3 scc=0",
        // SCC is written, and must be named.
        "s_add_u32 s0, s2, s3 | s2=1 s3=1 | s0=2",
        "v_add_f32 v0, v2, v3 | v2=1.0f v3=1.0f | v0=2.0f v0@7=3.0f",
        "v_mov_b32 v0, v2 | v2=1 exec=1 | v0@1=1",
        "s_nonsense s0, s1 | | s0=0",
        "global_store_dword v[2:3], v4, off | v[2:3]=&0 v4=5 exec=1 | mem[4]=5",
    ];
    for line in wrong {
        let cases = semantics_support::parse("here", line).expect("it parses");
        let failures = run(Target::Gfx1100, &cases);
        assert_eq!(failures.len(), 1, "{line}: {failures:?}");
    }
}

#[test]
fn values_are_what_they_look_like() {
    let around = Surroundings {
        lane: 3,
        lane_mask: 0xffff_ffff,
        memory: 0x1000,
    };
    let bits = |text: &str| Value::parse(text, around).expect("a value").bits();
    for (text, value) in [
        ("10", 0x10),
        ("-1", u64::MAX),
        ("1.5f", 0x3fc0_0000),
        ("-0.0f", 0x8000_0000),
        ("-inf.h", 0xfc00),
        ("1.0d", 0x3ff0 << 48),
        ("lane*4", 12),
        ("lane+10", 0x13),
        ("all", 0xffff_ffff),
        ("&20", 0x1020),
    ] {
        assert_eq!(bits(text), value, "{text}");
    }
    assert!(Value::Nan(Width::F32).admits(0xffc0_1234, 32));
    assert!(!Value::Nan(Width::F32).admits(0x7f80_0000, 32));
    assert!(Value::parse("~1.0f", around)
        .expect("a value")
        .admits(0x3f80_0001, 32));
    assert!(Value::parse("0x10", around).is_err());
}

/// What is no instruction with a result, or is tested as what it is elsewhere.
fn needs_no_case(mnemonic: &str) -> bool {
    const PREFIXES: [(&str, &str); 9] = [
        ("s_wait", "ordering, which the emulator's memory has anyway"),
        ("s_cbranch_", "control flow: exec_programs.rs"),
        ("s_branch", "control flow: exec_programs.rs"),
        ("s_barrier", "barriers: exec_programs.rs, exec_faults.rs"),
        ("v_mfma_", "matrices: valu_matrix.rs"),
        ("v_wmma_", "matrices: valu_matrix.rs"),
        ("v_smfmac_", "matrices: valu_matrix.rs"),
        ("buffer_gl", "cache control"),
        ("s_delay_alu", "scheduling"),
    ];
    const NAMES: [(&str, &str); 25] = [
        ("s_endpgm", "every case ends with it"),
        ("s_nop", "nothing"),
        ("s_clause", "scheduling"),
        ("s_sendmsg", "frees registers early"),
        ("s_sendmsg_rtn_b32", "asks for the doorbell before a trap"),
        ("s_setprio", "scheduling"),
        ("s_sleep", "scheduling"),
        ("s_code_end", "padding"),
        ("s_inst_prefetch", "instruction cache"),
        ("s_set_inst_prefetch_distance", "instruction cache"),
        ("s_trap", "faults: exec_faults.rs"),
        ("s_setpc_b64", "control flow: exec_programs.rs"),
        ("s_swappc_b64", "control flow: exec_programs.rs"),
        ("s_getpc_b64", "an address of the program"),
        ("s_sethalt", "debugger"),
        ("buffer_wbl2", "cache control"),
        ("buffer_inv", "cache control"),
        ("buffer_invl2", "cache control"),
        ("buffer_wbinvl1", "cache control"),
        ("buffer_wbinvl1_vol", "cache control"),
        ("global_inv", "cache control"),
        ("global_wb", "cache control"),
        ("global_wbinv", "cache control"),
        ("v_nop", "nothing"),
        ("v_dual_nop", "nothing"),
    ];
    PREFIXES
        .iter()
        .any(|(prefix, _)| mnemonic.starts_with(prefix))
        || NAMES.iter().any(|(name, _)| *name == mnemonic)
}

#[test]
fn every_instruction_of_our_kernels_has_a_case() {
    let closures = [
        include_str!("valu_arithmetic.rs"),
        include_str!("valu_lanes.rs"),
        include_str!("valu_matrix.rs"),
    ];
    let elsewhere: BTreeSet<&str> = closures
        .iter()
        .flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .map(base)
        .collect();
    let cases = cases();
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for target in TARGETS {
        let (assembled, _) = assemble(target, &cases);
        let named: BTreeSet<&str> = assembled
            .iter()
            .flat_map(|case| &case.mnemonics)
            .map(String::as_str)
            .collect();
        for mnemonic in of_kernels(target.name()).filter(|name| !needs_no_case(name)) {
            // The halves of a dual instruction compute what the instructions alone do.
            let single = mnemonic.replace("v_dual_", "v_");
            if [mnemonic, &single]
                .iter()
                .all(|name| !named.contains(name) && !elsewhere.contains(name))
            {
                missing.entry(mnemonic).or_default().push(target.name());
            }
        }
    }
    let lines: Vec<String> = missing
        .iter()
        .map(|(mnemonic, targets)| format!("{mnemonic} {}", targets.join(" ")))
        .collect();
    assert!(lines.is_empty(), "no case for\n{}", lines.join("\n"));
}
