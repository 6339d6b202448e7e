//! Modules and their functions.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::handles::{Kind, Table};
use super::host;
use super::state::{Device, Runtime};
use crate::codeobject::{bundle, CodeObject, CodeObjectError, LoadedCodeObject, LoadedKernel};

/// A code object in a device's memory.
pub struct Module {
    /// Its device.
    pub device: usize,
    /// What was loaded.
    pub loaded: LoadedCodeObject,
    /// Handles of the functions that were asked for.
    functions: Mutex<HashMap<String, u64>>,
}

/// A kernel that the program asked for.
pub struct Function {
    /// Its device.
    pub device: usize,
    /// The kernel.
    pub kernel: LoadedKernel,
    /// The code object that it is of.
    pub object: Arc<CodeObject>,
    /// `HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` as the program set it; AMD's hardware needs no opt-in.
    pub max_dynamic_lds: AtomicU32,
}

/// Loaded modules.
pub static MODULES: LazyLock<Table<Module>> = LazyLock::new(|| Table::new(Kind::Module));
/// Functions of loaded modules.
pub static FUNCTIONS: LazyLock<Table<Function>> = LazyLock::new(|| Table::new(Kind::Function));

impl From<CodeObjectError> for HipError {
    fn from(error: CodeObjectError) -> HipError {
        let code = match error {
            CodeObjectError::WrongTarget { .. }
            | CodeObjectError::NotInBundle { .. }
            | CodeObjectError::UnknownProcessor(_) => Code::NoBinaryForGpu,
            CodeObjectError::Memory(_) => Code::OutOfMemory,
            CodeObjectError::MissingSymbol(_) => Code::SharedObjectSymbolNotFound,
            _ => Code::InvalidImage,
        };
        HipError::new(code, error.to_string())
    }
}

/// Copy the code object or bundle that a program's pointer names; its size is in its own headers.
///
/// # Errors
/// When there is none.
pub fn image_bytes(image: *const c_void) -> Result<Vec<u8>> {
    if image.is_null() {
        return Err(HipError::new(Code::InvalidValue, "null image"));
    }
    // Memory that begins like an image may still be none: what its headers announce is read only where there is some.
    let mut start = [0; 8];
    host::read(image as u64, &mut start)?;
    let size = bundle::size_of_image(|offset, count| {
        let mut bytes = vec![0; count];
        let place = (image as u64).wrapping_add(offset);
        host::read(place, &mut bytes).map_err(|_| {
            let what = format!("{count} bytes at {offset:#x} of it are not mapped");
            CodeObjectError::Malformed(what)
        })?;
        Ok(bytes)
    })?;
    let mut bytes = vec![0; size];
    host::read(image as u64, &mut bytes)?;
    Ok(bytes)
}

/// Load a code object, or the right entry of a bundle, onto a device; gives the module's handle.
///
/// # Errors
/// `hipErrorNoBinaryForGpu` for another architecture, `hipErrorInvalidImage` for anything unreadable.
pub fn load(device: &Device, bytes: &[u8]) -> Result<u64> {
    device.healthy()?;
    let object = Arc::new(CodeObject::parse_for(bytes, device.code_target()?)?);
    let loaded = object.load(&device.memory)?;
    Ok(MODULES.insert(|_| Module {
        device: device.index,
        loaded,
        functions: Mutex::new(HashMap::new()),
    }))
}

impl Module {
    /// The handle of a function.
    ///
    /// # Errors
    /// `hipErrorNotFound`, naming what there is.
    pub fn function(&self, name: &str) -> Result<u64> {
        let mut functions = self.functions.lock();
        if let Some(handle) = functions.get(name) {
            return Ok(*handle);
        }
        let Some(kernel) = self.loaded.kernel(name) else {
            let mut names: Vec<&str> = self
                .loaded
                .kernels()
                .iter()
                .map(|kernel| kernel.kernel.name.as_str())
                .take(8)
                .collect();
            if self.loaded.kernels().len() > names.len() {
                names.push("...");
            }
            return Err(HipError::new(
                Code::NotFound,
                format!(
                    "no kernel {name:?} in the module; it has {}",
                    names.join(", ")
                ),
            ));
        };
        let handle = FUNCTIONS.insert(|_| Function {
            device: self.device,
            kernel: kernel.clone(),
            object: self.loaded.object.clone(),
            max_dynamic_lds: AtomicU32::new(super::facts::lds_per_block(kernel.kernel.target)),
        });
        functions.insert(name.to_string(), handle);
        Ok(handle)
    }

    /// Give the memory back and drop what was decoded.
    pub fn unload(&self, device: &Device) {
        // A reset may have freed it before.
        let _ = device.memory.free(self.loaded.allocation);
        crate::exec::unload(self.loaded.id);
    }
}

/// `hipModuleUnload`.
///
/// # Errors
/// `hipErrorInvalidHandle`.
pub fn unload(runtime: &Runtime, handle: *const c_void) -> Result {
    let module = MODULES.remove(handle)?;
    for function in module.functions.lock().values() {
        // A reset may have dropped it.
        let _ = FUNCTIONS.remove(*function as *const c_void);
    }
    module.unload(&runtime.devices[module.device]);
    Ok(())
}

impl Function {
    /// `hipFuncGetAttribute` by number.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for a number that HIP does not have.
    pub fn attribute(&self, attribute: u32) -> Result<i32> {
        let kernel = &self.kernel.kernel;
        let value = match attribute {
            0 => kernel.max_flat_workgroup_size,
            1 => kernel.group_segment_fixed_size,
            2 => 0,
            3 => kernel.private_segment_fixed_size,
            4 => kernel.vgpr_count,
            // PTX and binary versions: the processor's, as HIP gives it.
            5 | 6 => {
                let (major, minor) = super::facts::version(kernel.target);
                (major * 10 + minor) as u32
            }
            7 => 0,
            8 => self.max_dynamic_lds.load(Ordering::Relaxed).min(
                super::facts::lds_per_block(kernel.target)
                    .saturating_sub(kernel.group_segment_fixed_size),
            ),
            9 => 0,
            _ => {
                return Err(HipError::new(
                    Code::InvalidValue,
                    format!("function attribute {attribute}"),
                ))
            }
        };
        Ok(i32::try_from(value).unwrap_or(i32::MAX))
    }

    /// How many workgroups of a size a multiprocessor holds: the least that waves, registers and LDS allow.
    pub fn active_blocks(&self, block: u32, dynamic_lds: u32) -> u32 {
        let kernel = &self.kernel.kernel;
        if block == 0 || block > kernel.max_flat_workgroup_size {
            return 0;
        }
        let lds = kernel.group_segment_fixed_size.saturating_add(dynamic_lds);
        crate::exec::workgroups_per_multiprocessor(kernel, block, lds)
    }
}
