//! LLVM's tools, as the independent truth of the emulator's tests.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// The releases that know all our GPUs, the one that the project is developed with first.
const VERSIONS: std::ops::RangeInclusive<u32> = 19..=22;

/// Paths of the tools.
#[derive(Debug)]
pub struct Tools {
    /// The assembler and disassembler.
    pub llvm_mc: PathBuf,
    /// The disassembler of whole files.
    pub llvm_objdump: PathBuf,
    /// The linker.
    pub lld: PathBuf,
}

/// A name with a version goes before the bare one: an older LLVM may have that.
fn find(name: &str, package: &str) -> PathBuf {
    let versioned = VERSIONS.map(|version| format!("{name}-{version}"));
    versioned
        .chain([name.to_owned()])
        .find_map(|name| which::which(name).ok())
        .unwrap_or_else(|| {
            panic!("{name} not found: install the package {package} (LLVM 19 or later)")
        })
}

/// Runs a tool on this input.
fn feed(tool: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    std::thread::scope(|scope| {
        // Not from this thread: both ends block when the pipes are full.
        let writer = scope.spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("a child can be waited for");
        writer
            .join()
            .expect("it only writes")
            .expect("the tool reads everything");
        output
    })
}

fn succeeded(what: &str, output: Output) -> String {
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("LLVM's tools print UTF-8")
}

impl Tools {
    /// Those on the PATH.
    ///
    /// # Panics
    /// One is missing; the message names the package to install.
    pub fn find() -> &'static Tools {
        static TOOLS: OnceLock<Tools> = OnceLock::new();
        TOOLS.get_or_init(|| Tools {
            llvm_mc: find("llvm-mc", "llvm-19"),
            llvm_objdump: find("llvm-objdump", "llvm-19"),
            lld: find("ld.lld", "lld-19"),
        })
    }

    /// `llvm-mc` for an architecture, on this text.
    pub fn mc(&self, arch: &str, arguments: &[&str], text: &str) -> Output {
        let target = ["-triple=amdgcn-amd-amdhsa", "-mcpu", arch];
        feed(&self.llvm_mc, &[&target, arguments].concat(), text)
    }

    /// The words of each line of assembly text.
    ///
    /// # Panics
    /// The architecture has no such instruction.
    pub fn assemble(&self, arch: &str, lines: &[&str]) -> Vec<Vec<u32>> {
        let output = self.mc(arch, &["-show-encoding"], &(lines.join("\n") + "\n"));
        let listing = succeeded(&format!("llvm-mc for {arch}"), output);
        let byte = |text: &str| {
            u8::from_str_radix(text.trim_start_matches("0x"), 16).expect("a byte in hexadecimal")
        };
        let words: Vec<Vec<u32>> = listing
            .lines()
            .filter_map(|line| {
                let (_, rest) = line.split_once("encoding: [")?;
                let bytes: Vec<u8> = rest.trim_end_matches(']').split(',').map(byte).collect();
                let dword = |four: &[u8]| u32::from_le_bytes(four.try_into().expect("four bytes"));
                Some(bytes.chunks(4).map(dword).collect())
            })
            .collect();
        assert_eq!(
            words.len(),
            lines.len(),
            "one encoding a line on {arch}: {lines:?}"
        );
        words
    }

    /// Writes assembly text as an object file.
    ///
    /// # Panics
    /// The architecture has no such instruction.
    pub fn object(&self, arch: &str, text: &str, file: &Path) {
        let file = file.display().to_string();
        let output = self.mc(arch, &["-filetype=obj", "-o", &file], text);
        succeeded(&format!("llvm-mc for {arch}"), output);
    }

    /// A program in assembly text, as the code object that HIP loads.
    ///
    /// # Panics
    /// It is none.
    pub fn code_object(&self, arch: &str, text: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [object, linked] =
            ["o", "so"].map(|name| folder.path().join(name).display().to_string());
        self.object(arch, text, Path::new(&object));
        let output = feed(&self.lld, &["-shared", &object, "-o", &linked], "");
        succeeded("ld.lld", output);
        std::fs::read(linked).expect("the linker's output")
    }

    /// `llvm-objdump`'s disassembly of a code object.
    ///
    /// # Panics
    /// It is none.
    pub fn disassemble(&self, arch: &str, object: &Path) -> String {
        let (arch, object) = (format!("--mcpu={arch}"), object.display().to_string());
        let arguments = ["-d", "--disassemble-zeroes", &arch, &object];
        succeeded("llvm-objdump", feed(&self.llvm_objdump, &arguments, ""))
    }

    /// Each instruction's text and size by `llvm-mc`, or None for words that it refuses or complains about. `features` are
    /// LLVM's, such as `+real-true16`, or nothing.
    pub fn disassemble_each<'a>(
        &self,
        arch: &str,
        features: &str,
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
        let features = format!("--mattr={features}");
        let triple = "--triple=amdgcn-amd-amdhsa";
        let arguments = ["-disassemble", triple, "--mcpu", arch, &features];
        let output = feed(&self.llvm_mc, &arguments, &input);
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
