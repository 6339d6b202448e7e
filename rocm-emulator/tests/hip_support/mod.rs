//! Compiling HIP sources for the tests with the system's clang.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_emulator::isa::Target;

/// How to compile.
pub struct Compile {
    /// Processors, with feature qualifiers if wanted.
    pub archs: Vec<String>,
    /// Extra arguments of clang.
    pub args: Vec<String>,
}

impl Compile {
    /// A code object for one processor.
    pub fn device(target: Target) -> Compile {
        Compile {
            archs: vec![target.name().into()],
            args: ["--cuda-device-only", "--no-gpu-bundle-output", "-c"]
                .map(String::from)
                .into(),
        }
    }

    /// An offload bundle for several processors.
    pub fn bundle(targets: &[Target]) -> Compile {
        Compile {
            archs: targets.iter().map(|target| target.name().into()).collect(),
            args: ["--cuda-device-only", "--gpu-bundle-output", "-c"]
                .map(String::from)
                .into(),
        }
    }

    /// The code object version, 5 or 6.
    pub fn version(mut self, version: u32) -> Compile {
        self.args.push(format!("-mcode-object-version={version}"));
        self
    }

    /// Compress the bundle, or not.
    pub fn compressed(mut self, compressed: bool) -> Compile {
        self.args.push(
            if compressed {
                "--offload-compress"
            } else {
                "--no-offload-compress"
            }
            .into(),
        );
        self
    }
}

/// The folder of this module: `hip_min.h` is there.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hip_support")
}

/// Compile HIP source; gives the bytes of the output.
pub fn compile(source: &str, options: &Compile) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    compile_to(source, options, &output);
    std::fs::read(output).unwrap()
}

/// Compile HIP source to a file.
pub fn compile_to(source: &str, options: &Compile, output: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.hip");
    std::fs::write(&input, source).unwrap();
    let clang = std::env::var("ROCM_EMU_TEST_CLANG").unwrap_or_else(|_| "clang-19".into());
    let mut command = Command::new(&clang);
    command
        .args(["-x", "hip", "-nogpuinc", "-nogpulib", "-O2", "-w", "-I"])
        .arg(self::folder())
        .args(
            options
                .archs
                .iter()
                .map(|arch| format!("--offload-arch={arch}")),
        )
        .arg(&input)
        .args(["-x", "none"])
        .args(&options.args)
        .arg("-o")
        .arg(output);
    let result = command.output().unwrap_or_else(|error| {
        panic!("{clang}: {error}; install clang-19, clang-tools-19 and lld-19, or name another clang in ROCM_EMU_TEST_CLANG")
    });
    assert!(
        result.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
}
