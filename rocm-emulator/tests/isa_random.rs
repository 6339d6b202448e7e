//! Random instruction words of every opcode in the tables, against `llvm-mc`: as it disassembles them by default, and
//! for GFX11 and GFX12 with the feature `real-true16` too, where 16-bit operands have names of their own.

use candle_rocm_testing::llvm::{bare, Tools};
use candle_rocm_testing::random::Random;
use rocm_emulator::isa::{self, Encoding, Family, Inst, Sample, Target};
use std::collections::BTreeMap;

/// LLVM's feature for operands that are half a register.
const HALVES: &str = "+real-true16";
/// Opcodes that there are with that feature alone.
const HALVES_ALONE: [&str; 2] = ["v_mov_b16", "v_swap_b16"];

/// Operations of whose source LLVM 19 takes the half for a part of the register's number.
const HALF_UNKNOWN: [&str; 2] = ["v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8"];

/// Whether LLVM's text names halves of registers.
fn names_halves(text: &str) -> bool {
    text.contains(".l") || text.contains(".h")
}

/// Our text in the form that LLVM's has: LLVM 19 knows the halves of some operations only.
fn ours(target: Target, inst: &Inst, llvm: &str) -> String {
    if names_halves(llvm) {
        isa::disassemble_halves(target, inst)
    } else {
        isa::disassemble(target, inst, 0)
    }
}

/// LLVM 19 shows most operands of the long formats as low halves and forgets some. Their `op_sel` is right.
fn comparable(encoding: Encoding, text: &str) -> String {
    let text = bare(text);
    if matches!(encoding, Encoding::VOP3 | Encoding::VINTERP) {
        text.replace(".h", "").replace(".l", "")
    } else {
        text
    }
}

/// Words for one opcode: `isa::sample_words` fills the fields, and LLVM says which of them are instructions.
fn compare(target: Target, features: &str) -> BTreeMap<(Encoding, u16), (usize, usize)> {
    let tools = Tools::find();
    let mut random = Random::new(1);
    let samples = isa::sample_words(target, 64, &mut || random.bits() as u32);
    let words = samples.iter().map(|sample| &sample.words[..]);
    let texts = tools.disassemble_each(target.name(), features, words);
    let mut accepted: BTreeMap<(Encoding, u16), (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (sample, text) in samples.iter().zip(&texts) {
        let counts = accepted
            .entry((sample.encoding, sample.opcode))
            .or_default();
        counts.0 += 1;
        // Words that LLVM refuses, or has a complaint about, are no instructions.
        let Some((text, size)) = text else { continue };
        counts.1 += 1;
        let decoded = isa::decode(target, &sample.words);
        let unknown = |inst: &Inst| {
            let named = names_halves(&isa::disassemble(target, inst, 0));
            named && !names_halves(text) && HALF_UNKNOWN.contains(&inst.op.name)
        };
        if decoded.as_ref().is_ok_and(unknown) {
            continue;
        }
        let ours = match decoded {
            Ok(inst) if usize::from(inst.size) != *size => {
                format!("{} bytes: {}", inst.size, ours(target, &inst, text))
            }
            Ok(inst) => ours(target, &inst, text),
            Err(error) => error.to_string(),
        };
        if comparable(sample.encoding, &ours) != comparable(sample.encoding, text) {
            wrong.push(format!(
                "{:?} {:#x} {:08x?}\n  llvm {text}\n  ours {ours}",
                sample.encoding, sample.opcode, sample.words
            ));
        }
    }
    let total: usize = accepted.values().map(|counts| counts.1).sum();
    println!(
        "{target} {features}: {} opcodes, {total} of {} words are instructions, {} differ",
        accepted.len(),
        samples.len(),
        wrong.len()
    );
    let shown = std::env::var("ISA_SHOW").ok();
    let shown = shown.and_then(|count| count.parse().ok()).unwrap_or(20);
    for line in wrong.iter().take(shown) {
        println!("{line}");
    }
    assert!(
        wrong.is_empty(),
        "{target} {features}: {} of {total} words differ",
        wrong.len()
    );
    accepted
}

/// The mnemonics of which no word was an instruction.
fn never(
    target: Target,
    accepted: &BTreeMap<(Encoding, u16), (usize, usize)>,
) -> Vec<(Encoding, u16)> {
    let mut random = Random::new(1);
    let samples = isa::sample_words(target, 16, &mut || random.bits() as u32);
    let alone = |sample: &&Sample| {
        isa::decode(target, &sample.words).is_ok_and(|inst| HALVES_ALONE.contains(&inst.op.name))
    };
    let excused: Vec<_> = samples
        .iter()
        .filter(alone)
        .map(|sample| (sample.encoding, sample.opcode))
        .collect();
    let without = accepted.iter().filter(|row| row.1 .1 == 0);
    let keys = without.map(|row| *row.0);
    keys.filter(|key| !excused.contains(key)).collect()
}

fn check(target: Target) {
    let accepted = compare(target, "");
    let missing = never(target, &accepted);
    assert!(
        missing.is_empty(),
        "{target}: no random word was an instruction for {missing:?}"
    );
    if !matches!(target.family(), Family::Rdna3 | Family::Rdna4) {
        return;
    }
    let accepted = compare(target, HALVES);
    // v_mov_b16's opcode in VOP1.
    assert!(accepted[&(Encoding::VOP1, 0x1c)].1 > 0, "{target}");
}

candle_rocm_testing::each_target!(check);
