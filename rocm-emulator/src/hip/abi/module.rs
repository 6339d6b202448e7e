//! Modules, functions, and what clang's start-up code calls.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::prelude::*;
use crate::hip::facts;
use crate::hip::late::late;
use crate::hip::module::{self, Function, FUNCTIONS, MODULES};
use crate::hip::registry::Registry;
use crate::hip::state::{runtime, Runtime};
use crate::trouble;

pub unsafe fn hipModuleLoad(module: *mut hipModule_t, path: *const c_char) -> Result {
    // SAFETY: the program's promise.
    let path = unsafe { text(path) }?;
    let bytes = std::fs::read(path)
        .map_err(|error| HipError::new(Code::FileNotFound, format!("{path}: {error}")))?;
    // SAFETY: the program's promise.
    unsafe { load(module, &bytes) }
}

pub unsafe fn hipModuleLoadData(module: *mut hipModule_t, image: *const c_void) -> Result {
    let bytes = module::image_bytes(image)?;
    // SAFETY: the program's promise.
    unsafe { load(module, &bytes) }
}

pub unsafe fn hipModuleLoadDataEx(
    module: *mut hipModule_t,
    image: *const c_void,
    _options: c_uint,
    _names: *mut hipJitOption,
    _values: *mut *mut c_void,
) -> Result {
    // There is nothing to compile, so the options have nothing to change.
    // SAFETY: the program's promise.
    unsafe { hipModuleLoadData(module, image) }
}

unsafe fn load(to: *mut hipModule_t, bytes: &[u8]) -> Result {
    let runtime = runtime()?;
    // SAFETY: the program's promise; nothing is loaded when the pointer is wrong.
    unsafe { out(to, std::ptr::null_mut()) }?;
    let handle = module::load(runtime.current(), bytes)?;
    // SAFETY: as above.
    unsafe { out(to, handle as hipModule_t) }
}

pub unsafe fn hipModuleUnload(handle: hipModule_t) -> Result {
    let runtime = runtime()?;
    if let Some(late) = late(runtime) {
        let devices = runtime.devices.iter();
        devices.for_each(|device| late.synchronize_device(runtime, device));
    }
    module::unload(runtime, handle)
}

pub unsafe fn hipModuleGetFunction(
    function: *mut hipFunction_t,
    handle: hipModule_t,
    name: *const c_char,
) -> Result {
    runtime()?;
    // SAFETY: the program's promise.
    let name = unsafe { text(name) }?;
    // SAFETY: the program's promise.
    unsafe { out(function, std::ptr::null_mut()) }?;
    let found = MODULES.get(handle)?.function(name)?;
    // SAFETY: as above.
    unsafe { out(function, found as hipFunction_t) }
}

pub unsafe fn hipModuleGetGlobal(
    pointer: *mut hipDeviceptr_t,
    bytes: *mut usize,
    handle: hipModule_t,
    name: *const c_char,
) -> Result {
    runtime()?;
    // SAFETY: the program's promise.
    let name = unsafe { text(name) }?;
    let module = MODULES.get(handle)?;
    let (address, size) = module.loaded.global(name).ok_or_else(|| {
        HipError::new(
            Code::NotFound,
            format!("no variable {name:?} in the module"),
        )
    })?;
    // SAFETY: the program's promise.
    unsafe {
        optional_out(pointer, address as hipDeviceptr_t)?;
        optional_out(bytes, size as usize)
    }
}

/// A function by its handle, or by the address of its stub.
fn find(runtime: &Runtime, function: *const c_void) -> Result<Arc<Function>> {
    let found = Registry::get().function(runtime.current(), function)?;
    Ok(found.1)
}

pub unsafe fn hipGetFuncBySymbol(function: *mut hipFunction_t, symbol: *const c_void) -> Result {
    let runtime = runtime()?;
    let (handle, _) = Registry::get().function(runtime.current(), symbol)?;
    // SAFETY: the program's promise.
    unsafe { out(function, handle as hipFunction_t) }
}

pub unsafe fn hipFuncGetAttribute(
    value: *mut c_int,
    attribute: hipFunction_attribute,
    function: hipFunction_t,
) -> Result {
    runtime()?;
    let found = FUNCTIONS.get(function)?.attribute(attribute)?;
    // SAFETY: the program's promise.
    unsafe { out(value, found) }
}

pub unsafe fn hipFuncGetAttributes(to: *mut hipFuncAttributes, function: *const c_void) -> Result {
    let function = find(runtime()?, function)?;
    let get = |attribute| function.attribute(attribute);
    let found = hipFuncAttributes {
        maxThreadsPerBlock: get(0)?,
        sharedSizeBytes: get(1)? as usize,
        constSizeBytes: get(2)? as usize,
        localSizeBytes: get(3)? as usize,
        numRegs: get(4)?,
        ptxVersion: get(5)?,
        binaryVersion: get(6)?,
        cacheModeCA: get(7)?,
        maxDynamicSharedSizeBytes: get(8)?,
        preferredShmemCarveout: get(9)?,
    };
    // SAFETY: the program's promise.
    unsafe { out(to, found) }
}

pub unsafe fn hipFuncSetAttribute(
    function: *const c_void,
    attribute: hipFuncAttribute,
    value: c_int,
) -> Result {
    let function = find(runtime()?, function)?;
    let refuse = |what: &str| Err(HipError::new(Code::InvalidValue, what.to_string()));
    match attribute {
        8 => {
            let kernel = &function.kernel.kernel;
            let all = facts::lds_per_block(kernel.target);
            match u32::try_from(value) {
                Ok(bytes) if bytes.saturating_add(kernel.group_segment_fixed_size) <= all => {
                    function.max_dynamic_lds.store(bytes, Ordering::Relaxed);
                    Ok(())
                }
                _ => refuse("more dynamic LDS than a workgroup can have"),
            }
        }
        // A hint for caches that AMD's hardware has not.
        9 if (-1..=100).contains(&value) => Ok(()),
        _ => refuse("no such function attribute, or not a value of it"),
    }
}

pub unsafe fn hipFuncSetCacheConfig(function: *const c_void, _config: hipFuncCache_t) -> Result {
    find(runtime()?, function).map(|_| ())
}

pub unsafe fn hipFuncSetSharedMemConfig(
    function: *const c_void,
    _config: hipSharedMemConfig,
) -> Result {
    find(runtime()?, function).map(|_| ())
}

fn active_blocks(function: &Function, block: c_int, dynamic_lds: usize) -> Result<c_int> {
    let block = u32::try_from(block)
        .ok()
        .filter(|&block| block > 0)
        .ok_or_else(|| HipError::new(Code::InvalidValue, format!("block of {block} work-items")))?;
    let dynamic_lds = u32::try_from(dynamic_lds).unwrap_or(u32::MAX);
    Ok(function.active_blocks(block, dynamic_lds) as c_int)
}

pub unsafe fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: hipFunction_t,
    block: c_int,
    dynamic_lds: usize,
) -> Result {
    runtime()?;
    let function = FUNCTIONS.get(function)?;
    // SAFETY: the program's promise.
    unsafe { out(blocks, active_blocks(&function, block, dynamic_lds)?) }
}

pub unsafe fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: hipFunction_t,
    block: c_int,
    dynamic_lds: usize,
    _flags: c_uint,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, dynamic_lds)
    }
}

pub unsafe fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut c_int,
    function: *const c_void,
    block: c_int,
    dynamic_lds: usize,
) -> Result {
    let function = find(runtime()?, function)?;
    // SAFETY: the program's promise.
    unsafe { out(blocks, active_blocks(&function, block, dynamic_lds)?) }
}

pub unsafe fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: *mut c_int,
    function: *const c_void,
    block: c_int,
    dynamic_lds: usize,
    _flags: c_uint,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block, dynamic_lds) }
}

unsafe fn potential_block(
    grid: *mut c_int,
    block: *mut c_int,
    function: &Function,
    dynamic_lds: usize,
    limit: c_int,
) -> Result {
    let kernel = &function.kernel.kernel;
    let most = match u32::try_from(limit) {
        Ok(limit) if limit > 0 => limit.min(kernel.max_flat_workgroup_size),
        _ => kernel.max_flat_workgroup_size,
    };
    let dynamic_lds = u32::try_from(dynamic_lds).unwrap_or(u32::MAX);
    // The size that keeps most work-items resident; of equals, the largest.
    let wave = kernel.wavefront_size;
    let sizes = (1..=most / wave).map(|waves| waves * wave);
    let best = sizes
        .max_by_key(|&size| (function.active_blocks(size, dynamic_lds) * size, size))
        .unwrap_or(most);
    let resident = function.active_blocks(best, dynamic_lds);
    let multiprocessors = kernel.target.multiprocessors();
    // SAFETY: the program's promise.
    unsafe {
        out(grid, (resident * multiprocessors) as c_int)?;
        out(block, best as c_int)
    }
}

pub unsafe fn hipModuleOccupancyMaxPotentialBlockSize(
    grid: *mut c_int,
    block: *mut c_int,
    function: hipFunction_t,
    dynamic_lds: usize,
    limit: c_int,
) -> Result {
    runtime()?;
    let function = FUNCTIONS.get(function)?;
    // SAFETY: the program's promise.
    unsafe { potential_block(grid, block, &function, dynamic_lds, limit) }
}

pub unsafe fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
    grid: *mut c_int,
    block: *mut c_int,
    function: hipFunction_t,
    dynamic_lds: usize,
    limit: c_int,
    _flags: c_uint,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipModuleOccupancyMaxPotentialBlockSize(grid, block, function, dynamic_lds, limit) }
}

pub unsafe fn hipOccupancyMaxPotentialBlockSize(
    grid: *mut c_int,
    block: *mut c_int,
    function: *const c_void,
    dynamic_lds: usize,
    limit: c_int,
) -> Result {
    let function = find(runtime()?, function)?;
    // SAFETY: the program's promise.
    unsafe { potential_block(grid, block, &function, dynamic_lds, limit) }
}

/// `HIPF`, the magic of clang's fat binary wrapper.
const WRAPPER_MAGIC: u32 = 0x4849_5046;

pub unsafe fn __hipRegisterFatBinary(wrapper: *const c_void) -> *mut *mut c_void {
    let wrapper = wrapper.cast::<FatBinaryWrapper>();
    if wrapper.is_null() || !wrapper.is_aligned() {
        return std::ptr::null_mut();
    }
    // SAFETY: clang's start-up code passes its wrapper.
    let wrapper = unsafe { wrapper.read() };
    let bytes = match wrapper.magic {
        WRAPPER_MAGIC => module::image_bytes(wrapper.binary),
        magic => Err(HipError::new(
            Code::InvalidImage,
            format!("fat binary wrapper of magic {magic:#x}"),
        )),
    };
    match bytes {
        Ok(bytes) => Registry::get().add_binary(bytes) as *mut *mut c_void,
        Err(error) => {
            trouble::say(format_args!("__hipRegisterFatBinary: {error}"));
            std::ptr::null_mut()
        }
    }
}

pub unsafe fn __hipUnregisterFatBinary(binary: *mut *mut c_void) {
    Registry::get().remove_binary(binary as u64);
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn __hipRegisterFunction(
    binary: *mut *mut c_void,
    stub: *const c_void,
    _device_function: *mut c_char,
    name: *const c_char,
    _thread_limit: c_uint,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_dim: *mut dim3,
    _grid_dim: *mut dim3,
    _wave_size: *mut c_int,
) {
    // SAFETY: clang's start-up code passes a literal.
    if let Ok(name) = unsafe { text(name) } {
        Registry::get().add_kernel(binary as u64, stub as u64, name.to_string());
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn __hipRegisterVar(
    binary: *mut *mut c_void,
    shadow: *mut c_void,
    _host_name: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: clang's start-up code passes a literal.
    if let Ok(name) = unsafe { text(name) } {
        Registry::get().add_variable(binary as u64, shadow as u64, name.to_string());
    }
}

pub unsafe fn __hipRegisterManagedVar(
    _binary: *mut c_void,
    _pointer: *mut *mut c_void,
    _initial: *mut c_void,
    name: *const c_char,
    _bytes: usize,
    _align: c_uint,
) {
    // SAFETY: clang's start-up code passes a literal.
    let name = unsafe { text(name) }.unwrap_or("?");
    trouble::say(format_args!(
        "__managed__ variable {name}: not supported; use hipMallocManaged"
    ));
}
