//! HIP sources, compiled for the tests by the clang that compiles the kernels.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::toolchain::Toolchain;

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compile {
    /// Processors, with feature qualifiers if wanted.
    pub archs: Vec<String>,
    /// Extra arguments of clang.
    pub args: Vec<String>,
}

impl Compile {
    /// A code object for one processor.
    pub fn device(arch: &str) -> Compile {
        Compile {
            archs: vec![arch.into()],
            args: ["--cuda-device-only", "--no-gpu-bundle-output", "-c"]
                .map(String::from)
                .into(),
        }
    }

    /// An offload bundle for several processors.
    pub fn bundle(archs: &[&str]) -> Compile {
        Compile {
            archs: archs.iter().map(|&arch| arch.into()).collect(),
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

/// The clang that compiles the kernels.
///
/// # Panics
/// There is none.
pub fn toolchain() -> &'static Toolchain {
    static TOOLCHAIN: OnceLock<Toolchain> = OnceLock::new();
    TOOLCHAIN.get_or_init(|| Toolchain::find().unwrap_or_else(|missing| panic!("{missing}")))
}

/// The folder of `hip_min.h`, which every source may include.
fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Compiles HIP source; gives the bytes of the output. The same source is compiled once in a process.
///
/// # Panics
/// As [`compile_to`].
pub fn compile(source: &str, options: &Compile) -> Vec<u8> {
    type Outputs = Mutex<HashMap<(String, Compile), Arc<OnceLock<Vec<u8>>>>>;
    static OUTPUTS: OnceLock<Outputs> = OnceLock::new();
    let entry = {
        let outputs = OUTPUTS.get_or_init(Outputs::default);
        let mut outputs = outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (source.to_owned(), options.clone());
        Arc::clone(outputs.entry(key).or_default())
    };
    // Others compile other sources meanwhile.
    let output = entry.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().join("out");
        compile_to(source, options, &output);
        std::fs::read(output).expect("the compiler's output")
    });
    output.clone()
}

/// Compiles HIP source to a file.
///
/// # Panics
/// There is no compiler, or it refuses the source.
pub fn compile_to(source: &str, options: &Compile, output: &Path) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = folder.path().join("in.hip");
    std::fs::write(&input, source).expect("the folder can be written");
    let archs = options.archs.iter();
    let mut command = Command::new(&toolchain().clang);
    command
        .args(["-x", "hip", "-nogpuinc", "-nogpulib", "-O2", "-w", "-I"])
        .arg(headers())
        .args(archs.map(|arch| format!("--offload-arch={arch}")))
        .arg(&input)
        .args(["-x", "none"])
        .args(&options.args)
        .arg("-o")
        .arg(output);
    let result = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        result.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
}

/// ROCm's device library for an architecture, as arguments of clang: `ocml` with the constants that it reads.
///
/// # Panics
/// A file of it is missing (package rocm-device-libs).
pub fn device_library(arch: &str) -> Vec<String> {
    let files = toolchain()
        .bitcode(arch)
        .unwrap_or_else(|why| panic!("{why}"));
    let argument = |file: PathBuf| {
        let path = file.display().to_string();
        ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &path].map(String::from)
    };
    files.into_iter().flat_map(argument).collect()
}
