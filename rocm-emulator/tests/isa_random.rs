//! Random instruction words of every opcode in the tables, against `llvm-mc`.

mod isa_support;

use isa_support::{bare, Tools};
use rocm_emulator::isa::{self, Target};
use std::collections::BTreeMap;

/// A small generator of its own, so that a failure repeats: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// Words for one opcode: `isa::sample_words` fills the fields, and LLVM says which of them are instructions.
fn check(target: Target) {
    let tools = Tools::find();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let samples = isa::sample_words(target, 64, &mut || random.next());
    let texts = tools.disassemble_each(target, samples.iter().map(|sample| &sample.words[..]));
    let mut accepted: BTreeMap<(String, u16), (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (sample, text) in samples.iter().zip(&texts) {
        let counts = accepted
            .entry((format!("{:?}", sample.encoding), sample.opcode))
            .or_default();
        counts.0 += 1;
        // Words that LLVM refuses, or has a complaint about, are no instructions.
        let Some((text, size)) = text else { continue };
        counts.1 += 1;
        let ours = match isa::decode(target, &sample.words) {
            Ok(inst) if usize::from(inst.size) != *size => {
                format!(
                    "{} bytes: {}",
                    inst.size,
                    isa::disassemble(target, &inst, 0)
                )
            }
            Ok(inst) => isa::disassemble(target, &inst, 0),
            Err(error) => error.to_string(),
        };
        if bare(&ours) != bare(text) {
            wrong.push(format!(
                "{:?} {:#x} {:08x?}\n  llvm {text}\n  ours {ours}",
                sample.encoding, sample.opcode, sample.words
            ));
        }
    }
    let total: usize = accepted.values().map(|counts| counts.1).sum();
    let never: Vec<_> = accepted
        .iter()
        .filter(|row| row.1 .1 == 0)
        .map(|row| row.0)
        .collect();
    println!(
        "{target}: {} opcodes, {total} of {} words are instructions, {} differ; opcodes without any: {never:?}",
        accepted.len(),
        samples.len(),
        wrong.len()
    );
    for line in wrong.iter().take(
        std::env::var("ISA_SHOW")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(20),
    ) {
        println!("{line}");
    }
    assert!(
        wrong.is_empty(),
        "{target}: {} of {total} words differ",
        wrong.len()
    );
    assert!(
        never.is_empty(),
        "{target}: no random word was an instruction for {never:?}"
    );
}

#[test]
fn gfx906() {
    check(Target::Gfx906);
}

#[test]
fn gfx908() {
    check(Target::Gfx908);
}

#[test]
fn gfx90a() {
    check(Target::Gfx90a);
}

#[test]
fn gfx942() {
    check(Target::Gfx942);
}

#[test]
fn gfx1030() {
    check(Target::Gfx1030);
}

#[test]
fn gfx1100() {
    check(Target::Gfx1100);
}

#[test]
fn gfx1151() {
    check(Target::Gfx1151);
}

#[test]
fn gfx1201() {
    check(Target::Gfx1201);
}
