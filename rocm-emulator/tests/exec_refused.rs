//! Every opcode of the tables runs, but those that `exec_support/refused.txt` names with a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use candle_rocm_testing::llvm::Tools;
use candle_rocm_testing::random::Random;
use rocm_emulator::codeobject::CodeObject;
use rocm_emulator::exec;
use rocm_emulator::isa::{self, Accumulation, Target};
use rocm_emulator::memory::Memory;

const REFUSED: &str = include_str!("exec_support/refused.txt");

/// Samples of each opcode: random operands, of which some are refused for good reasons.
const SAMPLES: usize = 24;

/// The mnemonics that the list names.
fn listed() -> BTreeSet<&'static str> {
    let lines = REFUSED.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| line.split_once(": "));
    names
        .flat_map(|(names, _)| names.split_whitespace())
        .collect()
}

/// The processor that LLVM assembles for: that of CDNA 3 for gfx950, which LLVM 19 does not know.
fn assembled_as(target: Target) -> Target {
    match target {
        Target::Gfx950 => Target::Gfx942,
        other => other,
    }
}

/// A kernel that branches over each sample, so that all are reached; and at which offset each is.
fn program(target: Target, samples: &[(String, Vec<u32>)]) -> (String, BTreeMap<u64, String>) {
    // s_cbranch_scc0's opcode, in SOPP, changed with GFX11.
    let assembled = assembled_as(target);
    let branch: u32 = Tools::find().assemble(assembled.name(), &["s_cbranch_scc0 0"])[0][0];
    let mut text = format!(
        ".amdgcn_target \"amdgcn-amd-amdhsa--{assembled}\"\n.amdhsa_code_object_version 5\n.text\n
         .globl all\n.p2align 8\n.type all,@function\nall:\n"
    );
    let mut offsets = BTreeMap::new();
    let mut offset = 0;
    for (name, words) in samples {
        let _ = writeln!(text, " .long {}", branch | words.len() as u32);
        offsets.insert(offset + 4, name.clone());
        for word in words {
            let _ = writeln!(text, " .long {word}");
        }
        offset += 4 + 4 * words.len() as u64;
    }
    let unified = target.unit().accumulation == Accumulation::Unified;
    let vgprs = if unified { 512 } else { 256 };
    let sized = match (unified, target.wavefront_size()) {
        (true, _) => ".amdhsa_accum_offset 256",
        (false, 64) => "",
        (false, _) => ".amdhsa_wavefront_size32 1",
    };
    let _ = writeln!(
        text,
        " s_endpgm
 .rodata\n.p2align 6\n.amdhsa_kernel all\n.amdhsa_next_free_vgpr {vgprs}\n.amdhsa_next_free_sgpr 96\n{sized}
 .end_amdhsa_kernel
 .amdgpu_metadata\namdhsa.version: [1, 2]\namdhsa.kernels:
  - .name: all
    .symbol: all.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: {}
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 64
 .end_amdgpu_metadata",
        target.wavefront_size()
    );
    (text, offsets)
}

/// Mnemonics of which no sample can run.
fn refused(target: Target) -> BTreeMap<String, String> {
    let mut random = Random::new(7);
    let samples: Vec<_> = isa::sample_words(target, SAMPLES, &mut || random.bits() as u32)
        .into_iter()
        .filter_map(|sample| {
            let inst = isa::decode(target, &sample.words).ok()?;
            let words = sample.words[..usize::from(inst.size) / 4].to_vec();
            Some((inst.op.name.to_string(), words))
        })
        .collect();
    // A branch reaches 32767 dwords.
    let (text, offsets) = program(target, &samples);
    let mut bytes = Tools::find().code_object(assembled_as(target).name(), &text);
    // The processor's number in an ELF file's flags.
    bytes[48] = target.facts().elf_machine as u8;
    let device = Memory::new(1 << 26);
    let object = Arc::new(CodeObject::parse(&bytes).expect("the linker's output parses"));
    let code = object.load(&device).expect("the device has room");
    let kernel = code.kernel("all").expect("the program has the kernel");
    let broken: BTreeMap<u64, String> = exec::unsupported(kernel)
        .into_iter()
        .map(|(offset, kind)| (offset, kind.to_string()))
        .collect();
    let mut reasons = BTreeMap::new();
    let mut run = BTreeSet::new();
    for (offset, name) in offsets {
        match broken.get(&offset) {
            Some(reason) => {
                reasons.entry(name).or_insert_with(|| reason.clone());
            }
            None => {
                run.insert(name);
            }
        }
    }
    reasons.retain(|name, _| !run.contains(name));
    reasons
}

fn check(target: Target) {
    let listed = listed();
    let refused = refused(target);
    let lines: Vec<_> = refused
        .iter()
        .filter(|(name, _)| !listed.contains(name.as_str()))
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect();
    assert!(
        lines.is_empty(),
        "{target} refuses {} mnemonics that tests/exec_support/refused.txt does not have\n{}",
        lines.len(),
        lines.join("\n")
    );
}

candle_rocm_testing::each_target! {
    check: gfx906 Gfx906, gfx908 Gfx908, gfx90a Gfx90a, gfx942 Gfx942, gfx950 Gfx950, gfx1030 Gfx1030, gfx1100 Gfx1100,
    gfx1151 Gfx1151, gfx1201 Gfx1201
}

#[test]
fn what_is_listed_is_refused() {
    let refused: BTreeSet<String> = candle_rocm_testing::gpu::TARGETS
        .into_iter()
        .chain([Target::Gfx950])
        .flat_map(refused)
        .map(|row| row.0)
        .collect();
    let listed = listed();
    let surplus: Vec<_> = listed
        .iter()
        .filter(|name| !refused.contains(**name))
        .collect();
    assert!(surplus.is_empty(), "these run: {surplus:?}");
}
