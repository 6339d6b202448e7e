//! Memory of the host that a module's kernels write to before they trap.

use std::ffi::CString;

use candle_rocm_kernels::report::{Report, Variable, VARIABLE};
use object::{Object as _, ObjectSymbol as _};

use crate::base::error::Result;
use crate::base::hip::calls::optional;
use crate::base::hip::types::*;
use crate::base::reports;
use crate::device::gpu::Device;

/// A loaded module's report, which errors read. It lives as long as the module.
pub(super) struct ModuleReport {
    block: *mut Block,
}

/// Page-locked memory: what kernels write, and what the module's variable is set to.
#[derive(Default)]
#[repr(C)]
struct Block {
    report: Report,
    variable: Variable,
}

// SAFETY: the memory belongs to this object, which reads nothing but the address.
unsafe impl Send for ModuleReport {}
// SAFETY: as above.
unsafe impl Sync for ModuleReport {}

impl ModuleReport {
    /// Tells a module that was loaded from this image on this GPU, the current one, where its kernels write; `None` for
    /// one whose kernels do not.
    ///
    /// # Errors
    /// HIP has no page-locked memory, or cannot copy to the GPU.
    pub fn of_module(device: &Device, module: hipModule_t, image: &[u8]) -> Result<Option<Self>> {
        let hip = device.hip();
        // HIP remembers a failed call as the thread's last error, so it is not asked for what is not there.
        if !has_variable(image) {
            return Ok(None);
        }
        let Ok(get) = optional!(hip, hipModuleGetGlobal) else {
            return Ok(None);
        };
        let name = CString::new(VARIABLE).unwrap_or_default();
        let (mut variable, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: the module is loaded, the name ends in NUL, the outputs are writable.
        let status = unsafe { get(&mut variable, &mut bytes, module, name.as_ptr()) };
        if status != HIP_SUCCESS || bytes != size_of::<Variable>() {
            return Ok(None);
        }
        let mut memory = std::ptr::null_mut();
        let flags = HOST_PORTABLE | HOST_MAPPED | HOST_COHERENT;
        // SAFETY: the output is writable.
        let status =
            hip.relaxed(|| unsafe { (hip.hipHostMalloc)(&mut memory, size_of::<Block>(), flags) });
        hip.check(status, || "allocating memory for a module's reports")?;
        let block: *mut Block = memory.cast();
        let first = Block {
            report: Report::default(),
            variable: Variable {
                // With HIP and CUDA page-locked memory has one address, the host's and the GPUs'.
                report: block as u64,
                ..Variable::default()
            },
        };
        // SAFETY: just allocated with this size, page by page.
        unsafe { block.write(first) };
        let report = Self { block };
        // SAFETY: the report lives until this object removes it. The module's variable alone has its address.
        unsafe { reports::add(device.ordinal(), &raw const (*block).report) };
        // SAFETY: the variable has this size, and the block lives until the copy is done.
        match unsafe { set(device, variable, &raw const (*block).variable) } {
            Ok(()) => Ok(Some(report)),
            // Kernels do not have the address.
            Err(error) => report.free(device).and(Err(error)),
        }
    }

    /// Frees the memory, once the module is gone.
    pub fn free(self, device: &Device) -> Result<()> {
        // SAFETY: the block is alive.
        reports::remove(unsafe { &raw const (*self.block).report });
        let hip = device.hip();
        // SAFETY: allocated by `hipHostMalloc`; neither errors nor kernels know it any more.
        let status = hip.relaxed(|| unsafe { (hip.hipHostFree)(self.block.cast()) });
        hip.check(status, || "freeing the memory of a module's reports")
    }
}

/// Whether a code object, or PTX, has the variable.
fn has_variable(image: &[u8]) -> bool {
    match object::File::parse(image) {
        Ok(file) => {
            let mut symbols = file.symbols().chain(file.dynamic_symbols());
            symbols.any(|symbol| symbol.name_bytes() == Ok(VARIABLE.as_bytes()))
        }
        Err(_) => std::str::from_utf8(image).is_ok_and(|text| text.contains(VARIABLE)),
    }
}

/// Sets a module's variable, and waits for that alone: other streams may be captured or busy.
///
/// # Safety
/// Both are of the variable's size; `value` is page-locked.
unsafe fn set(device: &Device, variable: hipDeviceptr_t, value: *const Variable) -> Result<()> {
    let hip = device.hip();
    let bytes = size_of::<Variable>();
    let mut stream = std::ptr::null_mut();
    hip.relaxed(|| {
        // SAFETY: the output is writable.
        let status = unsafe { (hip.hipStreamCreateWithFlags)(&mut stream, STREAM_NON_BLOCKING) };
        hip.check(status, || "making a stream for a module's reports")?;
        // SAFETY: the caller's promise; the stream is alive.
        let copied = unsafe {
            match (hip.hipMemcpyAsync)(variable, value.cast(), bytes, MEMCPY_HOST_TO_DEVICE, stream)
            {
                HIP_SUCCESS => (hip.hipStreamSynchronize)(stream),
                failure => failure,
            }
        };
        // SAFETY: the stream is alive, and ours. No event was recorded on it.
        let destroyed = unsafe { (hip.hipStreamDestroy)(stream) };
        hip.check(copied, || "setting a module's variable for reports")?;
        hip.check(destroyed, || "destroying a stream")
    })
}
