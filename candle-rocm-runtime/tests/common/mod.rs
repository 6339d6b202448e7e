//! What the runtime's tests share: a context on the emulated GPU, the probe kernels, and running a test in a
//! process of its own.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};

use candle_rocm_runtime::{runtime, Context, Image, Module, RuntimeKind};

#[path = "../../../candle-rocm-kernels/build/toolchain.rs"]
#[allow(missing_docs, clippy::all)]
pub mod toolchain;

/// A context on the emulated GPU 0.
pub fn context() -> Arc<Context> {
    runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    Context::new(0).expect("the emulator has a GPU")
}

/// A C file of `tests/libraries`, compiled into a shared library in this folder.
pub fn shared_library(folder: &Path, source: &str, flag: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/libraries")
        .join(source);
    let name = source.file_stem().unwrap().to_str().unwrap();
    let path = folder.join(format!("lib{name}{flag}.so"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-Wall", flag, "-o"])
        .args([&path, &source])
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "compiling {}", source.display());
    path
}

/// How often each of HIP's functions was called, by the library that `libraries/no_gpu.c` makes.
pub struct HipCalls(&'static libloading::Library);

#[repr(C)]
struct Count {
    name: *const std::ffi::c_char,
    calls: u64,
}

impl HipCalls {
    /// Of the library at this path, which the process has loaded or will.
    pub fn of(path: &str) -> Self {
        // SAFETY: the library has no initialisers.
        let library = unsafe { libloading::Library::new(path) }.unwrap();
        Self(Box::leak(Box::new(library)))
    }

    /// The functions called so far, and how often.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        // SAFETY: the library's variable of this name, of this layout; names are C's literals.
        unsafe {
            let counts: *const [Count; 64] = *self.0.get(b"no_gpu_calls").unwrap();
            (*counts)
                .iter()
                .filter(|count| !count.name.is_null())
                .map(|count| {
                    let name = std::ffi::CStr::from_ptr(count.name);
                    (name.to_str().unwrap().to_owned(), count.calls)
                })
                .collect()
        }
    }

    /// The calls that a body makes.
    pub fn during(&self, body: impl FnOnce()) -> BTreeMap<String, u64> {
        let before = self.counts();
        body();
        self.counts()
            .into_iter()
            .map(|(name, calls)| {
                let earlier = before.get(&name).copied().unwrap_or(0);
                (name, calls - earlier)
            })
            .filter(|(_, calls)| *calls != 0)
            .collect()
    }
}

/// The kernels of `tests/kernels/probe.hip`, compiled for this architecture.
pub fn probe_code(arch: &str) -> &'static [u8] {
    static CODE: OnceLock<Vec<u8>> = OnceLock::new();
    CODE.get_or_init(|| {
        let clang = toolchain::find()
            .unwrap_or_else(|missing| panic!("{missing}"))
            .clang;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/probe.hip");
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("probe.hsaco");
        let output = Command::new(&clang)
            .args([
                "-x",
                "hip",
                "--cuda-device-only",
                "--no-gpu-bundle-output",
                "-O2",
            ])
            .args(["-nogpuinc", "-nogpulib", "-c"])
            .arg(format!("--offload-arch={arch}"))
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::read(&object).unwrap()
    })
}

/// The probe kernels, loaded.
pub fn probe(context: &Arc<Context>) -> Arc<Module> {
    let code = probe_code(&context.info().arch);
    context
        .load_module(Image::from(code))
        .expect("the probe kernels load")
}

const CHILD: &str = "CANDLE_ROCM_TEST_CHILD";

/// Runs `body` in a process of its own with these variables set (or, if empty, removed): for tests of what is
/// decided once for a process. Called in a test of this name; in that process the body itself runs.
pub fn in_process(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var(CHILD).as_deref() == Ok(test) {
        return body();
    }
    let output = spawn(test, variables);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    // A misspelt name would run nothing and succeed.
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("1 passed"), "{out}");
}

fn spawn(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test);
    for (name, value) in variables {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    command.output().unwrap()
}
