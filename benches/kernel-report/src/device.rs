//! An emulated GPU on which kernels run with their instructions counted.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use candle_rocm_kernels::symbols::symbol;
use candle_rocm_kernels::Module;
use parking_lot::Mutex;
use rocm_emulator::codeobject::{CodeObject, LoadedCodeObject, LoadedKernel};
use rocm_emulator::exec::{
    dispatch, Counters, Cycles, Launch, LaunchTime, Options, Profile, Sampling,
};
use rocm_emulator::isa::Target;
use rocm_emulator::memory::{AllocationKind, Memory};

use crate::listing::{Line, Listing};

/// A kernel argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// usize, or a pointer from [`Device::buffer`].
    U64(u64),
    /// int or unsigned.
    U32(u32),
    /// float.
    F32(f32),
    /// A struct by value.
    Struct(Vec<u8>),
}

impl Arg {
    /// As it lies in memory.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Arg::U64(value) => value.to_le_bytes().to_vec(),
            Arg::U32(value) => value.to_le_bytes().to_vec(),
            Arg::F32(value) => value.to_le_bytes().to_vec(),
            Arg::Struct(bytes) => bytes.clone(),
        }
    }
}

/// What earlier launches left in caches, before a launch that is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Operands, in the Infinity Cache.
    pub operands: bool,
    /// The kernel's code, in the instruction caches.
    pub code: bool,
}

/// What a launch executed.
pub struct Executed {
    /// In all.
    pub counters: Counters,
    /// By instruction.
    pub profile: Profile,
    /// Barriers, one for each wavefront that waits.
    pub barriers: u64,
}

/// An emulated GPU.
pub struct Device {
    /// Its architecture.
    pub target: Target,
    memory: Memory,
    modules: HashMap<String, Arc<LoadedCodeObject>>,
}

impl Device {
    /// With nothing on it.
    pub fn new(target: Target) -> Device {
        Device {
            target,
            memory: Memory::new(8 << 30),
            modules: HashMap::new(),
        }
    }

    /// Device memory that holds these bytes.
    ///
    /// # Errors
    /// There is no room.
    pub fn buffer(&self, bytes: &[u8]) -> Result<u64> {
        let address = self
            .memory
            .allocate(bytes.len().max(1) as u64, AllocationKind::Device)?;
        self.memory.write(address, bytes)?;
        Ok(address)
    }

    /// What lies in device memory.
    ///
    /// # Errors
    /// Not all of it was allocated.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut out = vec![0; bytes];
        self.memory.read(address, &mut out)?;
        Ok(out)
    }

    /// Free a buffer.
    ///
    /// # Errors
    /// It is none.
    pub fn free(&self, address: u64) -> Result<()> {
        Ok(self.memory.free(address)?)
    }

    /// Make an embedded module's kernels known.
    ///
    /// # Errors
    /// The module is not embedded for this architecture.
    pub fn load(&mut self, module: &Module) -> Result<()> {
        if !self.modules.contains_key(module.name()) {
            let code = module.code_object(self.target.name())?;
            self.load_code(module.name(), &code)?;
        }
        Ok(())
    }

    /// Make the kernels of a code object known, under a module's name.
    ///
    /// # Errors
    /// It is no code object, or for another architecture.
    pub fn load_code(&mut self, module: &str, code: &[u8]) -> Result<()> {
        let object = Arc::new(CodeObject::parse_for(code, self.target)?);
        let loaded = Arc::new(object.load(&self.memory)?);
        self.modules.insert(module.to_owned(), loaded);
        Ok(())
    }

    /// The kernels of a module that was loaded.
    ///
    /// # Errors
    /// It was not.
    pub fn kernels(&self, module: &str) -> Result<impl Iterator<Item = &str>> {
        let kernels = self.object(module)?.object.kernels.iter();
        Ok(kernels.map(|kernel| kernel.name.as_str()))
    }

    /// Device memory that holds zeros, which the host gives as they are touched.
    ///
    /// # Errors
    /// There is no room.
    pub fn room(&self, bytes: u64) -> Result<u64> {
        Ok(self.memory.allocate(bytes, AllocationKind::Device)?)
    }

    fn object(&self, module: &str) -> Result<&LoadedCodeObject> {
        let loaded = self.modules.get(module);
        Ok(loaded.with_context(|| format!("module {module} was not loaded"))?)
    }

    /// Run a kernel of a module that was loaded.
    ///
    /// # Errors
    /// There is no such kernel, it takes other arguments, or it faults.
    pub fn run(
        &self,
        module: &str,
        kernel: &str,
        grid: [[u32; 3]; 2],
        args: &[Arg],
    ) -> Result<Executed> {
        let loaded = self.object(module)?;
        let kernel = found(loaded, module, kernel)?;
        let profile = Mutex::new(Profile::default());
        let options = Options {
            profile: Some(&profile),
            ..Options::default()
        };
        let counters = self.dispatch(kernel, grid, 0, &kernarg(kernel, args)?, &options)?;
        let profile = profile.into_inner();
        let lines = Listing::of(&loaded.object, &kernel.kernel)?.lines;
        let waits = |line: &&Line| ["s_barrier", "s_barrier_wait"].contains(&line.name);
        let executed = |line: &Line| profile.at(line.offset).executions;
        Ok(Executed {
            counters,
            barriers: lines.iter().filter(waits).map(executed).sum(),
            profile,
        })
    }

    /// How long a launch of a kernel would take on the GPU, after those that left what is `kept`. Only the workgroups that tell
    /// it are executed.
    ///
    /// # Errors
    /// As [`Device::run`]; there is no model of the GPU's time.
    pub fn time(
        &self,
        module: &str,
        kernel: &str,
        grid: [[u32; 3]; 2],
        args: &[Arg],
        kept: Kept,
    ) -> Result<LaunchTime> {
        let kernel = found(self.object(module)?, module, kernel)?;
        self.timed(kernel, grid, 0, &kernarg(kernel, args)?, kept)
    }

    /// The same of a launch that asks for so many bytes of LDS beside the kernel's own, and whose arguments are given as they
    /// lie in memory.
    ///
    /// # Errors
    /// As [`Device::time`].
    pub fn time_raw(
        &self,
        module: &str,
        kernel: &str,
        grid: [[u32; 3]; 2],
        dynamic_lds: u32,
        kernarg: &[u8],
        kept: Kept,
    ) -> Result<LaunchTime> {
        let kernel = found(self.object(module)?, module, kernel)?;
        let size = kernel.kernel.explicit_kernarg_size() as usize;
        ensure!(
            kernarg.len() == size,
            "{} takes {size} bytes of arguments, not {}",
            kernel.kernel.name,
            kernarg.len()
        );
        self.timed(kernel, grid, dynamic_lds, kernarg, kept)
    }

    fn timed(
        &self,
        kernel: &LoadedKernel,
        grid: [[u32; 3]; 2],
        dynamic_lds: u32,
        kernarg: &[u8],
        kept: Kept,
    ) -> Result<LaunchTime> {
        let sampling = Sampling {
            warm: kept.operands,
            code_kept: kept.code,
            alone: true,
            ..Sampling::default()
        };
        let cycles = Cycles::new(self.target, sampling)?;
        let options = Options {
            cycles: Some(&cycles),
            ..Options::default()
        };
        self.dispatch(kernel, grid, dynamic_lds, kernarg, &options)?;
        cycles.time().context("a launch without workgroups")
    }

    fn dispatch(
        &self,
        kernel: &LoadedKernel,
        [grid, block]: [[u32; 3]; 2],
        dynamic_lds: u32,
        kernarg: &[u8],
        options: &Options,
    ) -> Result<Counters> {
        let launch = Launch {
            kernel,
            grid,
            block,
            dynamic_lds,
            kernarg,
        };
        dispatch(&self.memory, &launch, options).map_err(|fault| anyhow::anyhow!("{fault}"))
    }
}

/// A kernel's arguments as they lie in memory.
fn kernarg(kernel: &LoadedKernel, args: &[Arg]) -> Result<Vec<u8>> {
    let mut kernarg = vec![0; kernel.kernel.explicit_kernarg_size() as usize];
    let parameters: Vec<_> = kernel.kernel.explicit_args().collect();
    let bytes: Vec<_> = args.iter().map(Arg::bytes).collect();
    ensure!(
        parameters.len() == args.len()
            && parameters
                .iter()
                .zip(&bytes)
                .all(|(p, b)| p.size as usize == b.len()),
        "{} takes arguments of {:?} bytes",
        kernel.kernel.name,
        parameters.iter().map(|p| p.size).collect::<Vec<_>>()
    );
    for (parameter, bytes) in parameters.iter().zip(&bytes) {
        kernarg[parameter.offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
    Ok(kernarg)
}

fn found<'a>(loaded: &'a LoadedCodeObject, module: &str, kernel: &str) -> Result<&'a LoadedKernel> {
    let found = loaded.kernel(&symbol(module, kernel));
    found.with_context(|| format!("module {module} has no kernel {kernel}"))
}
