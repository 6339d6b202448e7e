//! What the program's objects registered when it started: their kernels and variables, loaded on a GPU when first used.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::RwLock;

use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::kernels::image::Image;
use crate::kernels::module::{Function, Module};
use crate::stream::context::Context;

type Map<V> = HashMap<usize, V, RandomState>;

/// What clang puts into an object: where its code is.
#[repr(C)]
pub struct Wrapper {
    magic: u32,
    version: u32,
    code: *const c_char,
    unused: *const c_void,
}

/// clang's number for HIP's code.
const MAGIC: u32 = 0x4849_5046;

/// An object's code. Its address is the handle by which its kernels name it.
struct Binary {
    /// None if it is not of this project's compiler.
    code: Option<&'static str>,
}

/// A kernel or a variable, by the address that host code has for it.
#[derive(Clone)]
struct Symbol {
    binary: usize,
    name: String,
    bytes: usize,
}

/// By their addresses. Filled before `main`, or when a shared library is loaded.
static SYMBOLS: RwLock<Option<Map<Symbol>>> = RwLock::new(None);
/// Code on each GPU, by its handle.
static MODULES: PerDevice<RwLock<Map<Arc<Module>>>> = PerDevice::new();
/// Kernels on each GPU, by their addresses.
static FUNCTIONS: PerDevice<RwLock<Map<Function>>> = PerDevice::new();

/// An object's code, when the program starts: noted, as nobody can tell yet which runtime it will choose.
///
/// # Safety
/// As clang calls it: `wrapper` is that of an object, and its code stays in memory.
#[no_mangle]
pub unsafe extern "C" fn __hipRegisterFatBinary(wrapper: *const Wrapper) -> *mut *mut c_void {
    // SAFETY: the caller's promise.
    let wrapper = unsafe { &*wrapper };
    let of_ours = wrapper.magic == MAGIC && wrapper.version == 1 && !wrapper.code.is_null();
    // SAFETY: rocm-nvcc ends what it writes there in NUL, and other compilers' bundles begin with a name and have
    // NULs in their numbers.
    let code = of_ours.then(|| unsafe { CStr::from_ptr(wrapper.code) });
    let code = code
        .and_then(|code| code.to_str().ok())
        .filter(|code| rocm_toolchain::text::is_encoded(code));
    Box::into_raw(Box::new(Binary { code })).cast()
}

/// An object's code, when the program ends. What is loaded stays so: the runtime may have ended before.
///
/// # Safety
/// As clang calls it: `binary` is what registering returned.
#[no_mangle]
pub unsafe extern "C" fn __hipUnregisterFatBinary(binary: *mut *mut c_void) {
    if let Some(symbols) = SYMBOLS.write().as_mut() {
        symbols.retain(|_, symbol| symbol.binary != binary as usize);
    }
}

/// A kernel of an object.
///
/// # Safety
/// As clang calls it: `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn __hipRegisterFunction(
    binary: *mut *mut c_void,
    kernel: *const c_void,
    _host_name: *const c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _wavefront: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe { register(binary, kernel, name, 0) };
}

/// A variable of an object.
///
/// # Safety
/// As clang calls it: `name` is a C string.
#[no_mangle]
pub unsafe extern "C" fn __hipRegisterVar(
    binary: *mut *mut c_void,
    variable: *mut c_void,
    _host_name: *const c_char,
    name: *const c_char,
    _external: c_int,
    bytes: usize,
    _constant: c_int,
    _global: c_uint,
) {
    // SAFETY: the caller's promise.
    unsafe { register(binary, variable, name, bytes) };
}

/// # Safety
/// `name` is a C string.
unsafe fn register(
    binary: *mut *mut c_void,
    address: *const c_void,
    name: *const c_char,
    bytes: usize,
) {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let symbol = Symbol {
        binary: binary as usize,
        name: name.to_string_lossy().into_owned(),
        bytes,
    };
    let mut symbols = SYMBOLS.write();
    symbols
        .get_or_insert_default()
        .insert(address as usize, symbol);
}

fn symbol(address: *const c_void, what: &str) -> Result<Symbol> {
    let symbols = SYMBOLS.read();
    let found = symbols
        .as_ref()
        .and_then(|symbols| symbols.get(&(address as usize)));
    found.cloned().ok_or_else(|| {
        let text = format!("no linked object registered a {what} at {address:p}");
        Error::new(ErrorKind::KernelNotFound, text)
    })
}

/// The code that a symbol is in, on this GPU; loaded now if it was not.
fn module(symbol: &Symbol, device: &Arc<Device>) -> Result<Arc<Module>> {
    let modules = MODULES.get_or_init(device, RwLock::default);
    if let Some(module) = modules.read().get(&symbol.binary) {
        return Ok(module.clone());
    }
    // SAFETY: the handle is one that registering returned, and none is ever freed.
    let binary = unsafe { &*(symbol.binary as *const Binary) };
    let Some(code) = binary.code else {
        return Err(Error::new(
            ErrorKind::Module,
            format!(
                "`{}` is in an object that another compiler made; build it with candle-rocm's cudaforge or nvcc",
                symbol.name
            ),
        ));
    };
    // Held while it is loaded, so that it is loaded once.
    let mut modules = modules.write();
    if let Some(module) = modules.get(&symbol.binary) {
        return Ok(module.clone());
    }
    let context = Context::new(device.ordinal())?;
    let module = context.load_module(Image::from_src(code))?;
    modules.insert(symbol.binary, module.clone());
    Ok(module)
}

/// The kernel that host code knows by this address, on this GPU.
pub(super) fn function(kernel: *const c_void, device: &Arc<Device>) -> Result<Function> {
    let functions = FUNCTIONS.get_or_init(device, RwLock::default);
    if let Some(function) = functions.read().get(&(kernel as usize)) {
        return Ok(function.clone());
    }
    let symbol = symbol(kernel, "kernel")?;
    let function = module(&symbol, device)?.load_function(&symbol.name)?;
    functions.write().insert(kernel as usize, function.clone());
    Ok(function)
}

/// The memory on this GPU of the variable that host code knows by this address: where, and how many bytes.
pub(super) fn variable(address: *const c_void, device: &Arc<Device>) -> Result<(u64, usize)> {
    let symbol = symbol(address, "variable")?;
    let module = module(&symbol, device)?;
    let stream = Context::new(device.ordinal())?.default_stream();
    let memory = module.get_global(&symbol.name, &stream)?;
    Ok((memory.ptr, memory.len.min(symbol.bytes)))
}
