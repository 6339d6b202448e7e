//! Code by its handles: modules, kernels, launches.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::Arc;

use object::elf::FileHeader64;
use object::read::elf::FileHeader as _;
use object::Endianness;
use parking_lot::Mutex;

use super::streams::stream_of;
use crate::base::cuda_names::{
    CUdeviceptr, CUfunc_cache, CUfunction_attribute, CUresult, CUstream,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::{hipFunction_t as CUfunction, hipModule_t as CUmodule};
use crate::driver_api::{given, written};
use crate::foreign::current_device;
use crate::kernels::image::Image;
use crate::kernels::launch::{launch_by_address, LaunchConfig};
use crate::kernels::module::{Function, Module};
use crate::stream::context::Context;

/// Modules that were loaded by handle, until they are unloaded.
static MODULES: Mutex<BTreeMap<usize, Arc<Module>>> = Mutex::new(BTreeMap::new());

fn module_of(handle: CUmodule) -> Result<Arc<Module>> {
    let module = MODULES.lock().get(&(handle as usize)).cloned();
    module.ok_or_else(|| {
        Error::new(
            ErrorKind::Hip(CUresult::CUDA_ERROR_INVALID_HANDLE as u32),
            format!("{handle:p} is the handle of no module that cuModuleLoadData loaded"),
        )
    })
}

/// The image at this address: an ELF code object, which says its own size, or text that ends in NUL.
///
/// # Safety
/// It is there.
unsafe fn image_at(image: *const c_void) -> Result<Image> {
    if image.is_null() {
        return Err(Error::invalid("an image at a null address"));
    }
    // SAFETY: the caller's promise; text has at least its NUL, at which the comparison ends.
    let begins = |magic: &[u8]| unsafe {
        let at = image.cast::<u8>();
        magic
            .iter()
            .enumerate()
            .all(|(index, byte)| *at.add(index) == *byte)
    };
    if begins(b"__CLANG_OFFLOAD_BUNDLE__") || begins(b"CCOB") {
        return Err(Error::new(
            ErrorKind::Module,
            "an offload bundle by its address alone, which does not say its size: give it to Ptx::from_binary",
        ));
    }
    if !begins(b"\x7fELF") {
        // SAFETY: the caller's promise.
        let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
        return Ok(Image::from_src(text));
    }
    const HEADER: usize = std::mem::size_of::<FileHeader64<Endianness>>();
    // SAFETY: the caller's promise: a file of this format begins with its header.
    let header = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), HEADER) };
    let wrong = |error: object::Error| Error::new(ErrorKind::Module, error.to_string());
    let file = FileHeader64::<Endianness>::parse(header).map_err(wrong)?;
    let endian = file.endian().map_err(wrong)?;
    let table = |offset: u64, size: u16, count: u16| {
        offset.saturating_add(u64::from(size) * u64::from(count))
    };
    // Linkers put the table of sections last.
    let sections = table(
        file.e_shoff(endian),
        file.e_shentsize(endian),
        file.e_shnum(endian),
    );
    let segments = table(
        file.e_phoff(endian),
        file.e_phentsize(endian),
        file.e_phnum(endian),
    );
    let size = usize::try_from(sections.max(segments)).unwrap_or(usize::MAX);
    // SAFETY: the caller's promise: what its header announces is there.
    let bytes =
        unsafe { std::slice::from_raw_parts(image.cast::<u8>(), size.min(isize::MAX as usize)) };
    Ok(Image::from_binary(bytes.to_vec()))
}

/// Loads code on the thread's current GPU: a code object, or text that [`Image::from_src`] takes.
///
/// # Safety
/// The image is whole, text ends in NUL, and the place is writable.
pub unsafe fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult {
    let load = || {
        let context = Context::new(current_device()?.ordinal())?;
        // SAFETY: the caller's promise.
        let loaded = context.load_module(unsafe { image_at(image) }?)?;
        let raw = loaded.raw();
        MODULES.lock().insert(raw as usize, loaded);
        Ok(raw)
    };
    // SAFETY: the caller's promise.
    unsafe { written(module, load) }
}

/// Unloads code.
///
/// # Safety
/// Nobody uses its kernels after this.
pub unsafe fn cuModuleUnload(module: CUmodule) -> CUresult {
    given(module_of(module).map(|_| drop(MODULES.lock().remove(&(module as usize)))))
}

/// A text of C.
///
/// # Safety
/// It ends in NUL and lives as long as the result.
unsafe fn text<'a>(name: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_str();
    name.map_err(|error| Error::invalid(format!("a name: {error}")))
}

/// The kernel of this name.
///
/// # Safety
/// The name ends in NUL, and the place is writable.
pub unsafe fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    let get = || {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }?;
        Ok(module_of(module)?.load_function(name)?.cu_function())
    };
    // SAFETY: the caller's promise.
    unsafe { written(function, get) }
}

/// Address and bytes of the global variable of this name. Either place may be null.
///
/// # Safety
/// The name ends in NUL, and the places are writable.
pub unsafe fn cuModuleGetGlobal_v2(
    address: *mut CUdeviceptr,
    bytes: *mut usize,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    let get = || {
        let hip = current_device()?.hip();
        let get = optional!(hip, hipModuleGetGlobal)?;
        let raw = module_of(module)?.raw();
        let (mut at, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: the module is loaded, the outputs are writable, and the name is the caller's promise.
        let status = unsafe { get(&mut at, &mut size, raw, name) };
        hip.check(status, || "cuModuleGetGlobal_v2")?;
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(address) = address.as_mut() {
                *address = at as CUdeviceptr;
            }
            if let Some(bytes) = bytes.as_mut() {
                *bytes = size;
            }
        }
        Ok(())
    };
    given(get())
}

/// An attribute of a kernel.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: CUfunction_attribute,
    function: CUfunction,
) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe {
        written(value, || {
            Function::of_handle(function)?.get_attribute(attribute)
        })
    }
}

/// Sets an attribute of a kernel.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuFuncSetAttribute(
    function: CUfunction,
    attribute: CUfunction_attribute,
    value: c_int,
) -> CUresult {
    given(Function::of_handle(function).and_then(|kernel| kernel.set_attribute(attribute, value)))
}

/// A preference, which nothing here depends on.
///
/// # Safety
/// None is needed; CUDA's is C.
pub unsafe fn cuFuncSetCacheConfig(function: CUfunction, config: CUfunc_cache) -> CUresult {
    given(Function::of_handle(function).and_then(|kernel| kernel.set_function_cache_config(config)))
}

/// How many workgroups of this size fit on a compute unit at once.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    count: *mut c_int,
    function: CUfunction,
    block_size: c_int,
    dynamic_bytes: usize,
) -> CUresult {
    let ask = || {
        let kernel = Function::of_handle(function)?;
        let size = u32::try_from(block_size)
            .map_err(|_| Error::invalid(format!("a workgroup of {block_size}")))?;
        let fit =
            kernel.occupancy_max_active_blocks_per_multiprocessor(size, dynamic_bytes, None)?;
        Ok(fit as c_int)
    };
    // SAFETY: the caller's promise.
    unsafe { written(count, ask) }
}

macro_rules! launches {
    ($($(#[$doc:meta])* $name:ident($($extra:ident: $extra_type:ty)?) $cooperative:literal;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments are those of the kernel, in number, order and type, and the stream is one of its GPU.
            #[allow(clippy::too_many_arguments)] // They are CUDA's.
            pub unsafe fn $name(
                function: CUfunction,
                grid_x: c_uint,
                grid_y: c_uint,
                grid_z: c_uint,
                block_x: c_uint,
                block_y: c_uint,
                block_z: c_uint,
                shared: c_uint,
                stream: CUstream,
                arguments: *mut *mut c_void,
                $($extra: $extra_type,)?
            ) -> CUresult {
                let launch = || {
                    $(if !$extra.is_null() {
                        return Err(Error::unsupported(
                            "arguments of a kernel in a buffer (`extra`), and not by their addresses",
                        ));
                    })?
                    let kernel = Function::of_handle(function)?;
                    let config = LaunchConfig {
                        grid_dim: (grid_x, grid_y, grid_z),
                        block_dim: (block_x, block_y, block_z),
                        shared_mem_bytes: shared,
                    };
                    // SAFETY: the caller's promise.
                    let stream = unsafe { stream_of(stream) }?;
                    // SAFETY: the caller's promise.
                    unsafe { launch_by_address(&stream, &kernel, config, arguments, $cooperative) }
                };
                given(launch())
            }
        )*
    };
}
launches! {
    /// Gives a kernel to a stream. Those of our own modules run on the grids that the safe layer launches them on.
    cuLaunchKernel(extra: *mut *mut c_void) false;
    /// The same, of a grid whose workgroups may wait for each other.
    cuLaunchCooperativeKernel() true;
}
