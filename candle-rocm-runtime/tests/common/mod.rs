//! What the runtime's tests share: a context on the emulated GPU, the probe kernels, and running a test in a
//! process of its own.
#![allow(dead_code)]

use std::path::Path;
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
