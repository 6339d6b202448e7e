//! Whole code objects against `llvm-objdump`, line by line.

use std::collections::BTreeSet;
use std::path::Path;

use rocm_emulator::isa::{self, Target};

use crate::llvm::{bare, Tools};

/// What a comparison found.
#[derive(Default)]
pub struct Comparison {
    /// Instructions that were compared.
    pub instructions: usize,
    /// Their words.
    pub words: usize,
    /// Names of their operations.
    pub names: BTreeSet<&'static str>,
    /// Their mnemonics, as LLVM writes them; of a dual instruction both.
    pub mnemonics: BTreeSet<String>,
    /// How many differ.
    pub wrong: usize,
    /// The first of them: words and both texts.
    pub examples: Vec<String>,
}

/// Differences that are kept as examples.
const EXAMPLES: usize = 20;

impl Comparison {
    /// Compares every instruction in the executable sections of a code object.
    ///
    /// # Panics
    /// It has no code.
    pub fn add(&mut self, tools: &Tools, target: Target, object: &Path) {
        let output = tools.disassemble(target.name(), object);
        let lines: Vec<_> = output.lines().filter_map(instruction).collect();
        assert!(!lines.is_empty(), "{target}: no code");
        // The decoder sees what follows, as it does in a launch.
        let code: Vec<u32> = lines.iter().flat_map(|line| line.1.clone()).collect();
        let mut at = 0;
        for (address, words, text) in &lines {
            let ours = match isa::decode(target, &code[at..]) {
                Ok(inst) if usize::from(inst.size) == 4 * words.len() => {
                    self.names.insert(inst.op.name);
                    isa::disassemble(target, &inst, *address)
                }
                Ok(inst) => format!("{} bytes: {inst:?}", inst.size),
                Err(error) => error.to_string(),
            };
            at += words.len();
            let names = text
                .split("::")
                .filter_map(|half| half.split_whitespace().next());
            self.mnemonics.extend(names.map(str::to_owned));
            if bare(&ours) != bare(text) {
                self.wrong += 1;
                if self.examples.len() < EXAMPLES {
                    self.examples
                        .push(format!("{words:08x?}\n  llvm {text}\n  ours {ours}"));
                }
            }
        }
        self.instructions += lines.len();
        self.words += code.len();
    }

    /// # Panics
    /// An instruction differed.
    pub fn check(&self, target: Target) {
        println!(
            "{target}: {} instructions in {} words, {} operations, {} differ",
            self.instructions,
            self.words,
            self.names.len(),
            self.wrong
        );
        assert!(
            self.wrong == 0,
            "{target}: {} of {} instructions differ, such as\n{}",
            self.wrong,
            self.instructions,
            self.examples.join("\n")
        );
    }
}

/// Address, words and text of a line: the text, `//`, the address, a colon and the words in hexadecimal.
fn instruction(line: &str) -> Option<(u64, Vec<u32>, &str)> {
    let (text, comment) = line.split_once("//")?;
    let (address, words) = comment.split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let words = words
        .split_whitespace()
        .map_while(|word| u32::from_str_radix(word, 16).ok())
        .collect();
    Some((address, words, text))
}
