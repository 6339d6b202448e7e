//! Kernels on the execution engine alone: compile, load, launch, compare.

#![allow(dead_code)]

#[path = "../hip_support/mod.rs"]
pub mod hip_support;

use std::path::Path;
use std::sync::Arc;

use hip_support::{compile, Compile};
use rocm_emulator::codeobject::{CodeObject, LoadedCodeObject};
use rocm_emulator::exec::{dispatch, Counters, Launch, Options};
use rocm_emulator::fault::Fault;
use rocm_emulator::isa::{Family, Target};
use rocm_emulator::memory::{AllocationKind, Memory};

/// One of each architecture whose code LLVM 19 makes, but for those that differ from another in scalar floats alone.
pub const TARGETS: [Target; 7] = [
    Target::Gfx906,
    Target::Gfx908,
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1030,
    Target::Gfx1100,
    Target::Gfx1201,
];

/// Device memory with one loaded program.
pub struct Gpu {
    pub target: Target,
    pub memory: Memory,
    code: LoadedCodeObject,
}

/// A kernel argument, placed at its natural alignment.
#[derive(Clone, Copy)]
pub enum Arg {
    U8(u8),
    I16(i16),
    I32(i32),
    U32(u32),
    F32(f32),
    /// An integer or a pointer.
    U64(u64),
    F64(f64),
}

fn pack(args: &[Arg]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for arg in args {
        let value = match *arg {
            Arg::U8(value) => value.to_le_bytes().to_vec(),
            Arg::I16(value) => value.to_le_bytes().to_vec(),
            Arg::I32(value) => value.to_le_bytes().to_vec(),
            Arg::U32(value) => value.to_le_bytes().to_vec(),
            Arg::F32(value) => value.to_le_bytes().to_vec(),
            Arg::U64(value) => value.to_le_bytes().to_vec(),
            Arg::F64(value) => value.to_le_bytes().to_vec(),
        };
        bytes.resize(bytes.len().next_multiple_of(value.len()), 0);
        bytes.extend(value);
    }
    bytes
}

/// Numbers that buffers hold.
pub trait Number: Copy {
    const BYTES: usize;
    fn to(self) -> Vec<u8>;
    fn from(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => { $(
        impl Number for $type {
            const BYTES: usize = size_of::<$type>();
            fn to(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )* };
}

numbers! { u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 }

/// The device library's bitcode for a target, as arguments of clang.
fn device_library(target: Target) -> Vec<String> {
    let folder = Path::new("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode");
    let version = match target.family() {
        Family::Cdna if target == Target::Gfx906 => "906",
        Family::Cdna => "90a",
        _ => "1030",
    };
    let wave64 = if target.wavefront_size() == 64 {
        "on"
    } else {
        "off"
    };
    let files = [
        "ocml".into(),
        "ockl".into(),
        "oclc_daz_opt_off".into(),
        "oclc_unsafe_math_off".into(),
        "oclc_finite_only_off".into(),
        "oclc_correctly_rounded_sqrt_on".into(),
        format!("oclc_wavefrontsize64_{wave64}"),
        format!("oclc_isa_version_{version}"),
        "oclc_abi_version_500".into(),
    ];
    let argument = |file: String| {
        let path = folder.join(file + ".bc");
        ["-Xclang", "-mlink-builtin-bitcode", "-Xclang"]
            .map(String::from)
            .into_iter()
            .chain([path.display().to_string()])
    };
    files.into_iter().flat_map(argument).collect()
}

impl Gpu {
    /// Compile HIP source and load it.
    pub fn new(target: Target, source: &str) -> Gpu {
        Gpu::with(target, source, Compile::device(target))
    }

    /// The same, linked with ROCm's device library (package rocm-device-libs).
    pub fn with_device_library(target: Target, source: &str) -> Gpu {
        let mut options = Compile::device(target);
        options.args.extend(device_library(target));
        Gpu::with(target, source, options)
    }

    fn with(target: Target, source: &str, options: Compile) -> Gpu {
        // Hardware float atomics: device memory is all there is.
        let mut options = options;
        options.args.push("-munsafe-fp-atomics".into());
        let bytes = compile(source, &options);
        let memory = Memory::new(1 << 26);
        let object = Arc::new(CodeObject::parse(&bytes).expect("clang's output parses"));
        Gpu {
            target,
            code: object.load(&memory).expect("the device has room"),
            memory,
        }
    }

    /// Zeroed device memory.
    pub fn buffer(&self, bytes: u64) -> u64 {
        self.memory
            .allocate(bytes, AllocationKind::Device)
            .expect("the device has room")
    }

    pub fn upload<T: Number>(&self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to()).collect();
        let address = self.buffer(bytes.len() as u64);
        self.memory.write(address, &bytes).expect("just allocated");
        address
    }

    pub fn download<T: Number>(&self, address: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::BYTES];
        self.memory.read(address, &mut bytes).expect("a buffer");
        bytes.chunks(T::BYTES).map(T::from).collect()
    }

    pub fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: u32,
        args: &[Arg],
        options: &Options,
    ) -> Result<Counters, Box<Fault>> {
        let launch = Launch {
            kernel: self.code.kernel(name).expect("the program has the kernel"),
            grid,
            block,
            dynamic_lds,
            kernarg: &pack(args),
        };
        dispatch(&self.memory, &launch, options)
    }

    /// A launch that must succeed, without dynamic LDS.
    pub fn run(&self, name: &str, grid: [u32; 3], block: [u32; 3], args: &[Arg]) -> Counters {
        self.launch(name, grid, block, 0, args, &Options::default())
            .unwrap_or_else(|fault| panic!("{}: {fault}", self.target))
    }
}
