//! What host code asks of GPUs, under the CUDA runtime's names.
//!
//! A warp has 32 lanes on every GPU, and the compute capability is that of the `__CUDA_ARCH__` that kernels are compiled
//! for: host code chooses among its kernels by them.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use super::errors::returned;
use crate::base::error::{Error, Result};
use crate::device::gpu::Device;
use crate::runtime;

/// The release whose names our headers follow.
const VERSION: c_int = 12080;
/// Lanes of a warp.
const WARP: c_int = 32;
/// 32-bit registers of a compute unit that a workgroup can have, at least.
const REGISTERS: c_int = 65536;

/// Work-items that a compute unit holds: 32 wavefronts of 64 on CDNA, twice as many of 32 on RDNA.
const THREADS_OF_A_UNIT: c_int = 2048;

/// `cudaDeviceProp`, as our header has it.
#[repr(C)]
pub struct Properties {
    name: [c_char; 256],
    total_global_mem: usize,
    shared_mem_per_block: usize,
    regs_per_block: c_int,
    warp_size: c_int,
    max_threads_per_block: c_int,
    max_threads_dim: [c_int; 3],
    max_grid_size: [c_int; 3],
    clock_rate: c_int,
    total_const_mem: usize,
    major: c_int,
    minor: c_int,
    multi_processor_count: c_int,
    max_threads_per_multi_processor: c_int,
    shared_mem_per_multiprocessor: usize,
    shared_mem_per_block_optin: usize,
}

/// The compute capability: major and minor number.
fn capability() -> Result<(c_int, c_int)> {
    let arch = rocm_toolchain::cuda_arch::of_environment();
    let arch = arch.map_err(|error| Error::invalid(error.to_string()))? / 10;
    Ok(((arch / 10) as c_int, (arch % 10) as c_int))
}

fn device(number: c_int) -> Result<&'static Arc<Device>> {
    let number =
        usize::try_from(number).map_err(|_| Error::invalid(format!("there is no GPU {number}")))?;
    runtime::current()?.device(number)
}

/// As C's `int`, where a number is larger than that.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// `cudaGetDeviceProperties`. The clock is not known.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaGetDeviceProperties(
    properties: *mut Properties,
    number: c_int,
) -> c_int {
    let ask = || -> Result<()> {
        let info = device(number)?.info();
        let (major, minor) = capability()?;
        let mut name = [0; 256];
        // One is left for the NUL.
        for (to, from) in name[..255].iter_mut().zip(info.name.bytes()) {
            *to = from as c_char;
        }
        let lds = info.max_lds_bytes as usize;
        let known = Properties {
            name,
            total_global_mem: info.total_memory,
            shared_mem_per_block: lds,
            regs_per_block: REGISTERS,
            warp_size: WARP,
            max_threads_per_block: int(info.max_threads_per_block),
            max_threads_dim: info.max_block_dim.map(int),
            max_grid_size: info.max_grid_dim.map(int),
            clock_rate: 0,
            total_const_mem: 65536,
            major,
            minor,
            multi_processor_count: int(info.compute_units),
            max_threads_per_multi_processor: THREADS_OF_A_UNIT,
            shared_mem_per_multiprocessor: lds,
            shared_mem_per_block_optin: lds,
        };
        // SAFETY: the caller's promise.
        unsafe { *properties = known };
        Ok(())
    };
    returned("cudaGetDeviceProperties", ask())
}

/// `cudaDeviceGetAttribute`. One that HIP has no name for here is an error.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    number: c_int,
) -> c_int {
    let ask = || -> Result<()> {
        let info = device(number)?.info();
        let known = match attribute {
            1 => int(info.max_threads_per_block),
            2..=4 => int(info.max_block_dim[attribute as usize - 2]),
            5..=7 => int(info.max_grid_dim[attribute as usize - 5]),
            8 | 81 | 97 => int(info.max_lds_bytes),
            9 => 65536,
            10 => WARP,
            12 | 82 => REGISTERS,
            16 => int(info.compute_units),
            39 => THREADS_OF_A_UNIT,
            75 => capability()?.0,
            76 => capability()?.1,
            // Cooperative launches; reserved shared memory, of which there is none.
            95 => 1,
            111 => 0,
            _ => {
                return Err(Error::unsupported(format!(
                    "the attribute {attribute} of a GPU is not known here"
                )))
            }
        };
        // SAFETY: the caller's promise.
        unsafe { *value = known };
        Ok(())
    };
    returned("cudaDeviceGetAttribute", ask())
}

macro_rules! versions {
    ($($name:ident)*) => {
        $(
            /// The version of CUDA whose names these are.
            ///
            /// # Safety
            /// The output is writable.
            #[no_mangle]
            pub unsafe extern "C" fn $name(version: *mut c_int) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { *version = VERSION };
                0
            }
        )*
    };
}
versions! { cudaRuntimeGetVersion cudaDriverGetVersion }
