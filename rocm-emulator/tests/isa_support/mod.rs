//! LLVM's tools as the independent truth of the decoder's tests.

#![allow(dead_code)]

pub mod listing;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rocm_emulator::isa::Target;

/// Paths of the tools.
pub struct Tools {
    pub clang: PathBuf,
    pub llvm_mc: PathBuf,
    pub llvm_objdump: PathBuf,
}

/// The newest versioned name first: older LLVM does not know gfx1201.
fn find(name: &str, package: &str) -> PathBuf {
    let versioned = (19..=22).map(|version| format!("{name}-{version}"));
    let names: Vec<String> = versioned.chain([name.to_string()]).collect();
    let folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!("{name} not found: install the package {package} (LLVM 19 or later)")
        })
}

impl Tools {
    /// Searches PATH; fails with the package to install.
    pub fn find() -> Tools {
        Tools {
            clang: find("clang", "clang-19"),
            llvm_mc: find("llvm-mc", "llvm-19"),
            llvm_objdump: find("llvm-objdump", "llvm-19"),
        }
    }

    /// Each instruction's text and size by `llvm-mc`, or None for words that it refuses or complains about.
    pub fn disassemble_each<'a>(
        &self,
        target: Target,
        samples: impl Iterator<Item = &'a [u32]>,
    ) -> Vec<Option<(String, usize)>> {
        // Behind each sample stand as many of the first as an instruction could swallow, and one of the second.
        const PAD: (u32, &str) = (0xbf80_7777, "s_nop 0x7777");
        const END: (u32, &str) = (0xbf80_7778, "s_nop 0x7778");
        const PADS: usize = 4;
        let mut input = String::new();
        let mut sizes = Vec::new();
        for words in samples {
            sizes.push(words.len());
            for word in words.iter().chain(&[PAD.0; PADS]).chain(&[END.0]) {
                for byte in word.to_le_bytes() {
                    input += &format!("0x{byte:02x} ");
                }
            }
            input += "\n";
        }
        let mut child = Command::new(&self.llvm_mc)
            .args(["-disassemble", "--triple=amdgcn-amd-amdhsa", "--mcpu"])
            .arg(target.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("llvm-mc starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("llvm-mc runs");
        writer
            .join()
            .expect("the writer ends")
            .expect("llvm-mc reads everything");
        // `<stdin>:line:column: warning: ..`: column 1 is the sample itself.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let refused: HashSet<usize> = stderr
            .lines()
            .filter_map(|line| {
                let mut parts = line.strip_prefix("<stdin>:")?.split(':');
                let row: usize = parts.next()?.parse().ok()?;
                (parts.next()? == "1").then_some(row - 1)
            })
            .collect();
        assert!(
            output.status.success(),
            "llvm-mc ended with {}: {}",
            output.status,
            stderr
                .lines()
                .filter(|line| !line.starts_with("<stdin>")
                    && !line.starts_with("0x")
                    && line.trim() != "^")
                .collect::<Vec<_>>()
                .join("\n")
        );
        let stdout = String::from_utf8(output.stdout).expect("llvm-mc prints UTF-8");
        let mut lines = stdout.lines().map(str::trim).filter(|line| {
            !line.is_empty() && !line.starts_with(".text") && !line.starts_with(".amdgcn_target")
        });
        let results: Vec<Option<(String, usize)>> = sizes
            .iter()
            .enumerate()
            .map(|(index, words)| {
                let sample: Vec<&str> = lines.by_ref().take_while(|line| *line != END.1).collect();
                let pads = sample.iter().filter(|line| **line == PAD.1).count();
                let text = sample.first()?;
                let complains = text.contains("/*") || text.contains("Warning");
                if refused.contains(&index) || complains || *text == PAD.1 {
                    return None;
                }
                // What LLVM leaves of the sample shows as further lines, which count as no size of ours.
                let used = if sample.len() == pads + 1 {
                    words + PADS - pads
                } else {
                    0
                };
                Some((text.to_string(), 4 * used))
            })
            .collect();
        assert!(
            lines.next().is_none(),
            "llvm-mc printed more than the samples"
        );
        results
    }
}

/// Text without its comment and with single spaces.
pub fn bare(text: &str) -> String {
    let text = text.split("//").next().unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
