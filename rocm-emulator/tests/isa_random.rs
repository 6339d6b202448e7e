//! Random instruction words of every opcode in the tables, against `llvm-mc`.

use candle_rocm_testing::llvm::{bare, Tools};
use candle_rocm_testing::random::Random;
use rocm_emulator::isa::{self, Target};
use std::collections::BTreeMap;

/// Words for one opcode: `isa::sample_words` fills the fields, and LLVM says which of them are instructions.
fn check(target: Target) {
    let tools = Tools::find();
    let mut random = Random::new(1);
    let samples = isa::sample_words(target, 64, &mut || random.bits() as u32);
    let texts = tools.disassemble_each(
        target.name(),
        samples.iter().map(|sample| &sample.words[..]),
    );
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

candle_rocm_testing::each_target!(check);
