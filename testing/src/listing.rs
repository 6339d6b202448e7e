//! Whole code objects against `llvm-objdump`: each instruction that occurs in them, once.
//!
//! The emulator's decoder says where instructions begin. LLVM reads those that differ, one behind the other, and must find
//! the same sizes; so a wrong size, which would shift all that follows, cannot hide.

use std::collections::BTreeSet;
use std::path::Path;

use object::{Object as _, ObjectSection as _, SectionKind};
use rocm_emulator::isa::{self, Target};

use crate::llvm::{bare, Tools};

/// Code objects of one GPU, and what a comparison of them found.
pub struct Comparison {
    target: Target,
    /// Instructions in them.
    pub instructions: usize,
    /// Their words.
    pub words: usize,
    /// The words of those that differ, in order.
    distinct: BTreeSet<Vec<u32>>,
}

/// What the instructions of a comparison are, none of which differed.
pub struct Compared {
    /// Names of their operations.
    pub names: BTreeSet<&'static str>,
    /// Their mnemonics, as LLVM writes them; of a dual instruction both.
    pub mnemonics: BTreeSet<String>,
}

/// Differences that an error shows.
const EXAMPLES: usize = 20;

impl Comparison {
    /// Of code objects of this GPU, none so far.
    pub fn of(target: Target) -> Self {
        Self {
            target,
            instructions: 0,
            words: 0,
            distinct: BTreeSet::new(),
        }
    }

    /// Takes every instruction in the executable sections of a code object.
    ///
    /// # Panics
    /// It is no ELF file, or has no code.
    pub fn add(&mut self, object: &[u8]) {
        let file = object::File::parse(object).expect("an ELF file");
        let code = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text);
        let before = self.words;
        for section in code {
            let bytes = section.data().expect("a section's bytes");
            let word = |four: &[u8]| u32::from_le_bytes(four.try_into().expect("four bytes"));
            let words: Vec<u32> = bytes.chunks_exact(4).map(word).collect();
            assert_eq!(bytes.len() % 4, 0, "{}: code is words", self.target);
            self.add_words(&words);
        }
        assert!(self.words > before, "{}: no code", self.target);
    }

    fn add_words(&mut self, words: &[u32]) {
        let mut rest = words;
        while !rest.is_empty() {
            // The decoder sees what follows, as it does in a launch.
            let bytes = match isa::decode(self.target, rest) {
                Ok(inst) => Some(inst.size),
                Err(error) => error.size,
            };
            let size = bytes.map_or(1, |bytes| usize::from(bytes) / 4);
            let (instruction, behind) = rest.split_at(size.clamp(1, rest.len()));
            if !self.distinct.contains(instruction) {
                self.distinct.insert(instruction.to_vec());
            }
            self.instructions += 1;
            self.words += instruction.len();
            rest = behind;
        }
    }

    /// Compares sizes and texts with LLVM's.
    ///
    /// # Panics
    /// An instruction differed; the message shows the first of them.
    pub fn check(&self, tools: &Tools) -> Compared {
        let target = self.target;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let listing = self.listing(tools, folder.path());
        let mut lines = listing.lines().filter_map(instruction);
        let mut compared = Compared {
            names: BTreeSet::new(),
            mnemonics: BTreeSet::new(),
        };
        let mut different = Vec::new();
        for words in &self.distinct {
            let (found, text) = lines.next().expect("a line for each instruction");
            assert_eq!(
                &found, words,
                "{target}: LLVM's size, and ours, of `{text}`"
            );
            let ours = match isa::decode(target, words) {
                Ok(inst) => {
                    compared.names.insert(inst.op.name);
                    isa::disassemble(target, &inst, 0)
                }
                Err(error) => error.to_string(),
            };
            let halves = text.split("::");
            let names = halves.filter_map(|half| half.split_whitespace().next());
            compared.mnemonics.extend(names.map(str::to_owned));
            if bare(&ours) != bare(text) {
                different.push(format!("{words:08x?}\n  llvm {text}\n  ours {ours}"));
            }
        }
        assert!(lines.next().is_none(), "{target}: LLVM found more");
        println!(
            "{target}: {} instructions in {} words, {} of them distinct, {} operations, {} differ",
            self.instructions,
            self.words,
            self.distinct.len(),
            compared.names.len(),
            different.len()
        );
        assert!(
            different.is_empty(),
            "{target}: {} of {} distinct instructions differ, such as\n{}",
            different.len(),
            self.distinct.len(),
            different[..different.len().min(EXAMPLES)].join("\n")
        );
        compared
    }

    /// LLVM's listing of a code object that has each distinct instruction once.
    fn listing(&self, tools: &Tools, folder: &Path) -> String {
        let words = self.distinct.iter().flatten();
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        let code = folder.join("code");
        std::fs::write(&code, bytes).expect("the folder can be written");
        let object = folder.join("code.o");
        let text = format!(".text\n.incbin \"{}\"\n", code.display());
        tools.object(self.target.name(), &text, &object);
        tools.disassemble(self.target.name(), &object)
    }
}

/// Words and text of a line: the text, `//`, the address, a colon and the words in hexadecimal.
fn instruction(line: &str) -> Option<(Vec<u32>, &str)> {
    let (text, comment) = line.split_once("//")?;
    let (_, words) = comment.split_once(':')?;
    let words = words
        .split_whitespace()
        .map_while(|word| u32::from_str_radix(word, 16).ok())
        .collect();
    Some((words, text))
}
