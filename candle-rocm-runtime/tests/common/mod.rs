//! What the runtime's tests share: a context on a GPU, emulated as a rule, the probe kernels, and running a test in a
//! process of its own.
#![allow(dead_code)]

pub mod number;

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use candle_rocm_runtime::{runtime, Context, Image, Module, RuntimeKind};
pub use candle_rocm_testing::process::alone as in_process;
use candle_rocm_testing::{hip, needs};

/// Whether the tests run on AMD's own HIP, over the emulated GPU (`cargo xtask rocm`).
pub fn on_amds_hip() -> bool {
    std::env::var(runtime::RUNTIME_VARIABLE).as_deref() == Ok("amd")
}

/// Choose the emulated GPU, unless AMD's own HIP or an NVIDIA GPU is asked for.
pub fn select() {
    let asked = std::env::var(runtime::RUNTIME_VARIABLE);
    if !matches!(asked.as_deref(), Ok("amd" | "nvidia")) {
        runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    }
}

/// A context on GPU 0, which is emulated unless another is asked for.
pub fn context() -> Arc<Context> {
    select();
    Context::new(0).expect("there is a GPU")
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
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&path, &source])
        // After the source, which is where a library's flag counts.
        .arg(flag)
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "compiling {}", source.display());
    path
}

/// A library of [`shared_library`] that counts what it is asked for, in `stand_in_calls`.
pub struct StandIn<C>(libloading::Library, PhantomData<C>);

impl<C: Copy> StandIn<C> {
    /// The library of this file, whose counts are a `C`.
    pub fn load(path: impl AsRef<OsStr>) -> Self {
        // SAFETY: the stand-in has no initialisers.
        Self(
            unsafe { libloading::Library::new(path) }.unwrap(),
            PhantomData,
        )
    }

    pub fn counts(&self) -> C {
        // SAFETY: the library's variable of this name, of this layout.
        unsafe { **self.0.get::<*const C>(b"stand_in_calls").unwrap() }
    }
}

/// What so many bytes take of a context's pool, which shares memory out in blocks where it keeps any.
pub fn pooled(context: &Arc<Context>, bytes: usize) -> usize {
    match context.device().pool().is_caching() {
        true => bytes.next_multiple_of(512),
        false => bytes,
    }
}

/// The kernels of `tests/kernels/probe.hip`, compiled for this architecture.
pub fn probe_code(arch: &str) -> Vec<u8> {
    hip::compile(
        include_str!("../kernels/probe.hip"),
        &hip::Compile::device(arch),
    )
}

/// A whole image without code, for a library that looks at none: a bundle of no entries.
pub fn no_code() -> Image {
    Image::from_binary([&b"__CLANG_OFFLOAD_BUNDLE__"[..], &[0; 8]].concat())
}

/// The probe kernels, loaded.
pub fn probe(context: &Arc<Context>) -> Arc<Module> {
    let code = probe_code(&context.info().arch);
    context
        .load_module(Image::from_binary(code))
        .expect("the probe kernels load")
}

/// Runs the body on each emulated GPU, or on those that `ROCM_EMU_ARCH` names, in a process of its own; with
/// `CANDLE_ROCM_RUNTIME=nvidia` on each NVIDIA GPU instead. Called in a test of this name.
pub fn on_each_device(test: &str, body: impl Fn(&Arc<Context>)) {
    if std::env::var(runtime::RUNTIME_VARIABLE).as_deref() == Ok("nvidia") {
        return in_process(test, &[], || {
            for ordinal in 0..runtime::current().unwrap().device_count() {
                body(&Context::new(ordinal).unwrap());
            }
        });
    }
    let asked = std::env::var("ROCM_EMU_ARCH").unwrap_or_default();
    let chosen: Vec<&str> = match asked.as_str() {
        "" => needs::architectures(candle_rocm_kernels::serves),
        some => some.split(',').map(str::trim).collect(),
    };
    in_process(test, &[("ROCM_EMU_ARCH", &chosen.join(","))], || {
        select();
        for (ordinal, arch) in chosen.iter().enumerate() {
            let context = Context::new(ordinal).unwrap();
            assert_eq!(context.device().info().arch, *arch);
            body(&context);
        }
    });
}
