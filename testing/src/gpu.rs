//! Kernels on the emulator's engine alone, without HIP's functions: load, launch, compare.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rocm_emulator::codeobject::{CodeObject, LoadedCodeObject};
use rocm_emulator::exec::{dispatch, Checks, Counters, Launch, Options};
use rocm_emulator::fault::Fault;
use rocm_emulator::hip::Settings;
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationKind, Memory};

use crate::hip::{compile, device_library, Compile};

/// One of each architecture whose instructions LLVM 19 knows.
pub const TARGETS: [Target; 8] = [
    Target::Gfx906,
    Target::Gfx908,
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1030,
    Target::Gfx1100,
    Target::Gfx1151,
    Target::Gfx1201,
];

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// `unsigned char`
    U8(u8),
    /// `short`
    I16(i16),
    /// `int`
    I32(i32),
    /// `unsigned`
    U32(u32),
    /// `float`
    F32(f32),
    /// An integer of 64 bits or a pointer.
    U64(u64),
    /// `double`
    F64(f64),
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Arg::U8(value) => value.to_le_bytes().to_vec(),
            Arg::I16(value) => value.to_le_bytes().to_vec(),
            Arg::I32(value) => value.to_le_bytes().to_vec(),
            Arg::U32(value) => value.to_le_bytes().to_vec(),
            Arg::F32(value) => value.to_le_bytes().to_vec(),
            Arg::U64(value) => value.to_le_bytes().to_vec(),
            Arg::F64(value) => value.to_le_bytes().to_vec(),
        }
    }
}

/// Numbers that buffers hold.
pub trait Number: Copy {
    /// The size of one.
    const BYTES: usize;
    /// Its bytes.
    fn to(self) -> Vec<u8>;
    /// The number that these bytes are.
    ///
    /// # Panics
    /// They are not as many as one has.
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

/// What the environment says of the emulator (`ROCM_EMU_CHECK`), whose engine alone does not read it.
static SETTINGS: LazyLock<Settings> =
    LazyLock::new(|| Settings::from_environment().unwrap_or_else(|why| panic!("{why}")));

/// The program that a [`Gpu::new`] starts with.
const PROGRAM: &str = "program";

/// Device memory and the programs in it.
pub struct Gpu {
    /// The GPU that is emulated.
    pub target: Target,
    /// Its memory.
    pub memory: Memory,
    programs: Mutex<HashMap<String, Arc<LoadedCodeObject>>>,
}

impl Gpu {
    /// With so many bytes of memory and no program.
    pub fn empty(target: Target, bytes: u64) -> Gpu {
        let memory = Memory::new(bytes);
        if SETTINGS.checks.has(Checks::UNINITIALISED) {
            memory.remember_writes();
        }
        Gpu {
            target,
            memory,
            programs: Mutex::default(),
        }
    }

    /// With HIP source compiled and loaded.
    ///
    /// # Panics
    /// It does not compile.
    pub fn new(target: Target, source: &str) -> Gpu {
        Gpu::with(target, source, Vec::new())
    }

    /// The same, linked with ROCm's device library (package rocm-device-libs).
    ///
    /// # Panics
    /// It does not compile.
    pub fn with_device_library(target: Target, source: &str) -> Gpu {
        Gpu::with(target, source, device_library(target.name()))
    }

    fn with(target: Target, source: &str, more: Vec<String>) -> Gpu {
        let mut options = Compile::device(target.name());
        options.args.extend(more);
        // Hardware float atomics: device memory is all there is.
        options.args.push("-munsafe-fp-atomics".into());
        let gpu = Gpu::empty(target, 1 << 26);
        gpu.program(PROGRAM, || compile(source, &options));
        gpu
    }

    /// A program by its name; one that is not there yet is loaded from the code object that `code` makes.
    ///
    /// # Panics
    /// That is none for this GPU, or the device has no room.
    pub fn program(&self, name: &str, code: impl FnOnce() -> Vec<u8>) -> Arc<LoadedCodeObject> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || {
            let object = CodeObject::parse(&code()).expect("a code object");
            Arc::new(Arc::new(object).load(&self.memory).expect("room for code"))
        };
        Arc::clone(programs.entry(name.to_owned()).or_insert_with(load))
    }

    /// Zeroed device memory.
    ///
    /// # Panics
    /// The device has no room.
    pub fn buffer(&self, bytes: u64) -> u64 {
        self.memory
            .allocate(bytes, AllocationKind::Device)
            .expect("the device has room")
    }

    /// Device memory that holds these.
    ///
    /// # Panics
    /// The device has no room.
    pub fn upload<T: Number>(&self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to()).collect();
        self.upload_bytes(&bytes)
    }

    /// The same, of bytes.
    ///
    /// # Panics
    /// The device has no room.
    pub fn upload_bytes(&self, bytes: &[u8]) -> u64 {
        let address = self.buffer(bytes.len() as u64);
        self.memory.write(address, bytes).expect("just allocated");
        address
    }

    /// What lies in device memory.
    ///
    /// # Panics
    /// Not all of it was allocated.
    pub fn download<T: Number>(&self, address: u64, count: usize) -> Vec<T> {
        let bytes = self.download_bytes(address, count * T::BYTES);
        bytes.chunks(T::BYTES).map(T::from).collect()
    }

    /// The same, of bytes.
    ///
    /// # Panics
    /// Not all of it was allocated.
    pub fn download_bytes(&self, address: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.memory.read(address, &mut bytes).expect("a buffer");
        bytes
    }

    /// Runs a kernel of the program that the GPU started with.
    ///
    /// # Errors
    /// What ended the launch.
    ///
    /// # Panics
    /// There is no such kernel, or it takes other arguments.
    pub fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_lds: u32,
        args: &[Arg],
        options: &Options,
    ) -> Result<Counters, Box<Fault>> {
        let program = self.program(PROGRAM, || unreachable!("it started with one"));
        let args: Vec<Vec<u8>> = args.iter().map(Arg::bytes).collect();
        self.launch_of(&program, name, (grid, block), dynamic_lds, &args, options)
    }

    /// A launch that must succeed, without dynamic LDS.
    ///
    /// # Panics
    /// It does not, or as [`Gpu::launch`].
    pub fn run(&self, name: &str, grid: [u32; 3], block: [u32; 3], args: &[Arg]) -> Counters {
        self.launch(name, grid, block, 0, args, &Options::default())
            .unwrap_or_else(|fault| panic!("{}: {fault}", self.target))
    }

    /// Runs a kernel of some program, with the bytes of each argument, under the checks of `ROCM_EMU_CHECK` if `options`
    /// has none.
    ///
    /// # Errors
    /// What ended the launch.
    ///
    /// # Panics
    /// There is no such kernel, or it takes other arguments.
    pub fn launch_of(
        &self,
        program: &LoadedCodeObject,
        name: &str,
        (grid, block): ([u32; 3], [u32; 3]),
        dynamic_lds: u32,
        args: &[Vec<u8>],
        options: &Options,
    ) -> Result<Counters, Box<Fault>> {
        let kernel = program
            .kernel(name)
            .unwrap_or_else(|| panic!("no kernel {name}"));
        let mut kernarg = vec![0; kernel.kernel.explicit_kernarg_size() as usize];
        let parameters: Vec<_> = kernel.kernel.explicit_args().collect();
        assert_eq!(parameters.len(), args.len(), "arguments of {name}");
        for (at, (parameter, bytes)) in parameters.iter().zip(args).enumerate() {
            assert_eq!(
                parameter.size as usize,
                bytes.len(),
                "bytes of argument {at} of {name}"
            );
            kernarg[parameter.offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let launch = Launch {
            kernel,
            grid,
            block,
            dynamic_lds,
            kernarg: &kernarg,
        };
        let mut options = *options;
        if options.checks == Checks::default() {
            options.checks = SETTINGS.checks;
            options.seed = SETTINGS.seed;
        }
        dispatch(&self.memory, &launch, &options)
    }
}

/// Tests of one function on each of [`TARGETS`](crate::gpu::TARGETS), named by it: `each_target!(check)` calls
/// `check(Target::Gfx90a)` in a test `gfx90a`, and so on. Others: `each_target! { check: gfx90a Gfx90a, gfx942 Gfx942 }`.
#[macro_export]
macro_rules! each_target {
    ($check:ident) => {
        $crate::each_target! {
            $check: gfx906 Gfx906, gfx908 Gfx908, gfx90a Gfx90a, gfx942 Gfx942, gfx1030 Gfx1030, gfx1100 Gfx1100,
            gfx1151 Gfx1151, gfx1201 Gfx1201
        }
    };
    ($check:ident: $($name:ident $target:ident),*) => { $(
        #[test]
        fn $name() {
            $check(rocm_emulator::isa::Target::$target);
        }
    )* };
}
