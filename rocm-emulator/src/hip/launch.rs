//! Kernel launches: checks, arguments, the run, and what becomes of a fault.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::facts;
use super::host;
use super::module::Function;
use super::profile;
use super::settings::SEED_VARIABLE;
use super::state::{Device, Runtime};
use crate::exec::{self, Counters};
use crate::fault::{Fault, FaultKind};
use crate::isa::Target;
use crate::trouble;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `_SIZE` and `_END` in a launch's `extra`.
const PARAM_BUFFER_POINTER: u64 = 1;
const PARAM_BUFFER_SIZE: u64 = 2;
const PARAM_END: u64 = 3;

/// A checked launch with its arguments copied.
pub struct KernelLaunch {
    function: Arc<Function>,
    /// What the program called the function by: its handle, or the address of its stub.
    named: u64,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_lds: u32,
    kernarg: Vec<u8>,
    /// The addresses of the arguments in `kernarg`.
    pointers: Vec<u64>,
    cooperative: bool,
}

/// Grid, block and dynamic LDS of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// Bytes.
    pub dynamic_lds: u64,
}

impl KernelLaunch {
    /// Check a launch, and copy its arguments from `parameters` (a pointer for each) or `extra` (one buffer). The
    /// workgroups of a `cooperative` one may wait for each other.
    ///
    /// # Errors
    /// `hipErrorInvalidConfiguration` for a grid or block that the kernel cannot have,
    /// `hipErrorLaunchOutOfResources` for too much LDS, `hipErrorInvalidValue` for arguments that are missing,
    /// `hipErrorCooperativeLaunchTooLarge` for more workgroups that meet than the GPU holds at once.
    pub fn new(
        (named, function): (u64, Arc<Function>),
        geometry: Geometry,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
        cooperative: bool,
    ) -> Result<KernelLaunch> {
        check(&function, &geometry)?;
        if cooperative {
            check_cooperative(&function, &geometry)?;
        }
        let kernarg = arguments(&function, parameters, extra)?;
        let pointers = pointers(&function, &kernarg);
        Ok(KernelLaunch {
            function,
            named,
            grid: geometry.grid,
            block: geometry.block,
            dynamic_lds: geometry.dynamic_lds as u32,
            kernarg,
            pointers,
            cooperative,
        })
    }

    /// What the program called the function by.
    pub fn named(&self) -> u64 {
        self.named
    }

    /// Its grid, block and dynamic LDS.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            grid: self.grid,
            block: self.block,
            dynamic_lds: self.dynamic_lds.into(),
        }
    }

    /// The address of an array of pointers to the arguments, which lives as long as the launch; 0 if there are none.
    pub fn parameters(&self) -> u64 {
        match self.pointers.is_empty() {
            true => 0,
            false => self.pointers.as_ptr() as u64,
        }
    }

    /// What may be an address among its arguments.
    pub fn addresses(&self) -> Vec<u64> {
        let (words, _) = self.kernarg.as_chunks();
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// The device that the kernel is loaded on.
    pub fn device(&self) -> usize {
        self.function.device
    }

    /// Run it. A fault stays with the device until it is reset.
    pub fn run(&self, runtime: &Runtime, device: &Device) -> Result {
        device.healthy()?;
        let kernel = &self.function.kernel;
        let profile = profile::wanted();
        let clock = profile::clock(device.target);
        let mut options = exec::Options {
            threads: runtime.settings.threads,
            profile: profile.as_ref(),
            cycles: clock.as_ref().and_then(|clock| clock.as_ref().ok()),
            cooperative: self.cooperative,
            formats: Some(&self.function.object.printf_formats),
            workgroups: runtime.settings.workgroups,
            read_past_end: runtime.settings.read_past_end,
            checks: runtime.settings.checks,
            seed: runtime.settings.seed,
            ..exec::Options::default()
        };
        if let Some(limit) = runtime.settings.max_instructions {
            options.max_instructions = limit;
        }
        let launch = exec::Launch {
            kernel,
            grid: self.grid,
            block: self.block,
            dynamic_lds: self.dynamic_lds,
            kernarg: &self.kernarg,
        };
        let outcome = exec::dispatch(&device.memory, &launch, &options);
        let counters = outcome.as_ref().copied().unwrap_or_default();
        count(device.target, &kernel.kernel.name, counters);
        if let (Some(profile), Ok(counters)) = (profile, &outcome) {
            let grid = [self.grid, self.block];
            profile::note(&kernel.kernel, grid, *counters, profile.into_inner());
        }
        if let (Some(clock), Ok(_)) = (clock, &outcome) {
            profile::note_time(&kernel.kernel, [self.grid, self.block], clock);
        }
        outcome.map(|_| ()).map_err(|fault| {
            let mut text = fault.to_string();
            let checks = runtime.settings.checks;
            if [exec::Checks::ORDER, exec::Checks::CACHES]
                .iter()
                .any(|it| checks.has(*it))
            {
                text += &format!(" [{SEED_VARIABLE}={}]", runtime.settings.seed);
            }
            let error = HipError::new(code_of(&fault), text.clone());
            trouble::say(format_args!(
                "device {} ({}): {text}",
                device.index, device.target
            ));
            *device.fault.lock() = Some(error.clone());
            error
        })
    }
}

fn code_of(fault: &Fault) -> Code {
    match fault.kind {
        FaultKind::OutOfBounds { .. }
        | FaultKind::Misaligned { .. }
        | FaultKind::LdsOverrun { .. }
        | FaultKind::ScratchOverrun { .. } => Code::IllegalAddress,
        FaultKind::InstructionLimit(_) => Code::LaunchTimeOut,
        _ => Code::LaunchFailure,
    }
}

fn check(function: &Function, geometry: &Geometry) -> Result {
    let kernel = &function.kernel.kernel;
    let refuse = |code: Code, what: String| {
        Err(HipError::new(
            code,
            format!("kernel {}: {what}", kernel.name),
        ))
    };
    let Geometry {
        grid,
        block,
        dynamic_lds,
    } = *geometry;
    if grid.contains(&0) || block.contains(&0) {
        return refuse(
            Code::InvalidConfiguration,
            format!("grid {grid:?} of blocks {block:?} has a zero"),
        );
    }
    // Three 32-bit numbers: their product needs 96 bits.
    let threads: u128 = block.iter().map(|&size| u128::from(size)).product();
    let most = kernel.max_flat_workgroup_size.min(exec::MAX_WORKGROUP);
    if block.iter().any(|&size| size > exec::MAX_WORKGROUP) || threads > u128::from(most) {
        return refuse(
            Code::InvalidConfiguration,
            format!("block {block:?} has {threads} work-items, the kernel was compiled for at most {most}"),
        );
    }
    if let Some(required) = kernel.required_workgroup_size {
        if required != block {
            return refuse(
                Code::InvalidConfiguration,
                format!("block {block:?}, but the kernel was compiled for {required:?}"),
            );
        }
    }
    for (blocks, size) in grid.iter().zip(block) {
        if u64::from(*blocks) * u64::from(size) > u64::from(u32::MAX) {
            return refuse(
                Code::InvalidConfiguration,
                format!("grid {grid:?} of blocks {block:?} has 2^32 work-items or more along a dimension"),
            );
        }
    }
    let fixed = u64::from(kernel.group_segment_fixed_size);
    let most = facts::lds_per_block(kernel.target);
    if fixed.saturating_add(dynamic_lds) > u64::from(most) {
        return refuse(
            Code::LaunchOutOfResources,
            format!(
                "{fixed} bytes of static and {dynamic_lds} of dynamic LDS, more than the {most} that a workgroup can have"
            ),
        );
    }
    Ok(())
}

/// The workgroups of a cooperative launch must all be on the GPU at once.
fn check_cooperative(function: &Function, geometry: &Geometry) -> Result {
    let kernel = &function.kernel.kernel;
    let workgroups: u128 = geometry
        .grid
        .iter()
        .map(|&count| u128::from(count))
        .product();
    let items = geometry.block.iter().product();
    let held = function.active_blocks(items, geometry.dynamic_lds as u32);
    let most = u128::from(held) * u128::from(kernel.target.multiprocessors());
    if workgroups <= most {
        return Ok(());
    }
    Err(HipError::new(
        Code::CooperativeLaunchTooLarge,
        format!(
            "kernel {}: {workgroups} workgroups that may wait for each other; the GPU holds {most} of them at once",
            kernel.name
        ),
    ))
}

fn arguments(
    function: &Function,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>> {
    let kernel = &function.kernel.kernel;
    let size = kernel.explicit_kernarg_size() as usize;
    let refuse = |what: String| {
        Err(HipError::new(
            Code::InvalidValue,
            format!("kernel {}: {what}", kernel.name),
        ))
    };
    let mut kernarg = vec![0; size];
    if size == 0 {
        return Ok(kernarg);
    }
    if !extra.is_null() {
        if !parameters.is_null() {
            return refuse("both kernelParams and extra are given".into());
        }
        let (pointer, bytes) = extra_buffer(extra)?;
        // The buffer may be shorter than the last argument's padding, and longer than all arguments.
        if bytes < size as u64 {
            return refuse(format!(
                "the argument buffer has {bytes} bytes, the arguments need {size}"
            ));
        }
        host::read(pointer, &mut kernarg)?;
        return Ok(kernarg);
    }
    if parameters.is_null() {
        return refuse(format!(
            "no arguments given, it takes {}",
            kernel.explicit_args().count()
        ));
    }
    let count = kernel.explicit_args().count();
    let mut pointers = vec![0; count * size_of::<u64>()];
    host::read(parameters as u64, &mut pointers)?;
    let pieces: Vec<(u64, usize)> = pointers
        .chunks_exact(8)
        .zip(kernel.explicit_args())
        .map(|(pointer, arg)| {
            let address = u64::from_le_bytes(pointer.try_into().unwrap_or_default());
            (address, arg.size as usize)
        })
        .collect();
    if let Some(index) = pieces
        .iter()
        .position(|(address, bytes)| *address == 0 && *bytes > 0)
    {
        return refuse(format!("argument {index} of {count} is a null pointer"));
    }
    let mut values = vec![0; pieces.iter().map(|piece| piece.1).sum()];
    host::gather(&pieces, &mut values)?;
    let mut at = 0;
    for arg in kernel.explicit_args() {
        let (offset, bytes) = (arg.offset as usize, arg.size as usize);
        kernarg[offset..offset + bytes].copy_from_slice(&values[at..at + bytes]);
        at += bytes;
    }
    Ok(kernarg)
}

/// Where each argument lies.
fn pointers(function: &Function, kernarg: &[u8]) -> Vec<u64> {
    let base = kernarg.as_ptr() as u64;
    let args = function.kernel.kernel.explicit_args();
    args.map(|arg| base + u64::from(arg.offset)).collect()
}

/// Pointer and size of the argument buffer in `extra`.
fn extra_buffer(extra: *mut *mut c_void) -> Result<(u64, u64)> {
    let word = |index: u64| -> Result<u64> {
        let mut bytes = [0; 8];
        host::read(extra as u64 + index * 8, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    };
    let refuse = |what: &str| {
        HipError::new(
            Code::InvalidValue,
            format!("launch parameters in extra: {what}"),
        )
    };
    let (mut pointer, mut size) = (None, None);
    let mut at = 0;
    loop {
        match word(at)? {
            PARAM_BUFFER_POINTER => pointer = Some(word(at + 1)?),
            PARAM_BUFFER_SIZE => {
                let mut bytes = [0; 8];
                host::read(word(at + 1)?, &mut bytes)?;
                size = Some(u64::from_le_bytes(bytes));
            }
            PARAM_END => break,
            _ => return Err(refuse("a key that is none of pointer, size and end")),
        }
        at += 2;
        if at > 8 {
            return Err(refuse("no end"));
        }
    }
    match (pointer, size) {
        (Some(pointer), Some(size)) if pointer != 0 => Ok((pointer, size)),
        _ => Err(refuse("a buffer pointer and a size are needed")),
    }
}

/// Launches and what they executed, of one kernel on one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelStatistics {
    /// The architecture.
    pub target: Target,
    /// The (mangled) name.
    pub kernel: String,
    /// Launches, those that faulted included.
    pub launches: u64,
    /// Sums over the launches that ended well.
    pub counters: Counters,
}

type Statistics = BTreeMap<&'static str, BTreeMap<String, (u64, Counters)>>;

static STATISTICS: LazyLock<Mutex<Statistics>> = LazyLock::new(Mutex::default);

fn count(target: Target, kernel: &str, counters: Counters) {
    let mut statistics = STATISTICS.lock();
    let kernels = statistics.entry(target.name()).or_default();
    match kernels.get_mut(kernel) {
        Some((launches, sum)) => {
            *launches += 1;
            *sum += counters;
        }
        None => {
            kernels.insert(kernel.to_string(), (1, counters));
        }
    }
}

/// Every kernel that this process launched, by architecture and name.
pub fn statistics() -> Vec<KernelStatistics> {
    let statistics = STATISTICS.lock();
    Target::all()
        .filter_map(|target| Some((target, statistics.get(target.name())?)))
        .flat_map(|(target, kernels)| {
            kernels
                .iter()
                .map(move |(kernel, (launches, counters))| KernelStatistics {
                    target,
                    kernel: kernel.clone(),
                    launches: *launches,
                    counters: *counters,
                })
        })
        .collect()
}
