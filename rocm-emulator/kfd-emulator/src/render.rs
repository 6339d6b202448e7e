//! What AMD's runtime asks of libdrm: what a GPU is called, and memory without an address of its own, which HIP lays
//! over addresses that it has reserved (`hipMemMap`, and the pools of `hipMallocAsync`).
//!
//! Names, structures and numbers are libdrm's (`amdgpu.h`, `amdgpu_drm.h`).

use std::ffi::{c_char, c_int, c_ulong, c_void, CString};
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rocm_emulator::isa::Target;
use rocm_gpus::Architecture;

use crate::buffers::Extent;
use crate::clock;
use crate::driver::{driver, Driver};
use crate::file;
use crate::gpu::Gpu;

/// libdrm's version of the driver's interface.
const VERSION: (u32, u32) = (3, 61);
/// `amdgpu_bo_handle_type_kms` and `_dma_buf_fd`.
const KMS: c_int = 1;
const DMA_BUF: c_int = 2;
/// `AMDGPU_VA_OP_MAP` and `_UNMAP`.
const MAP: u32 = 1;
const UNMAP: u32 = 2;
/// `DRM_AMDGPU_GEM_MMAP`: where in the device file a buffer is.
const WHERE: c_ulong = 1;

/// `struct amdgpu_gpu_info`, of which what AMD's runtime reads is named.
#[repr(C)]
pub struct GpuInfo {
    device: u32,
    revision: u32,
    external_revision: u32,
    family: u32,
    flags: u64,
    engine_clock: u64,
    memory_clock: u64,
    engines: u32,
    arrays: u32,
    unread: [u32; 6],
    /// In kHz.
    counter_frequency: u32,
    backends: [u32; 4],
    rest: [u32; 2 + 32 + 16 + 8 + 2 + 16 + 5],
}

/// `struct amdgpu_bo_import_result`.
#[repr(C)]
pub struct Imported {
    buffer: *mut Bo,
    bytes: u64,
}

/// A device: what libdrm's handle of one points to.
pub struct Device {
    driver: &'static Driver,
    gpu: &'static Gpu,
    name: CString,
}

/// A buffer object.
pub struct Bo {
    device: &'static Device,
    extent: Arc<Extent>,
    /// Where the host sees it, if it asked.
    host: Mutex<Option<u64>>,
}

/// The handles of all GPUs.
fn devices(driver: &'static Driver) -> &'static [Device] {
    static DEVICES: OnceLock<Box<[Device]>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let device = |gpu: &'static Gpu| Device {
            driver,
            gpu,
            name: CString::new(gpu.target.facts().product.name).unwrap_or_default(),
        };
        driver.gpus.iter().map(device).collect()
    })
}

/// A negative `errno`, as libdrm returns.
fn refuse(error: i32) -> c_int {
    -error
}

/// libdrm's, for a descriptor of a GPU of ours.
///
/// # Safety
/// The pointers may be written.
pub unsafe fn device_initialize(
    file: RawFd,
    major: *mut u32,
    minor: *mut u32,
    device: *mut *const Device,
) -> c_int {
    let Some(driver) = driver() else {
        return refuse(libc::ENODEV);
    };
    let Some(gpu) = driver.gpu_of(file) else {
        return refuse(libc::EINVAL);
    };
    // SAFETY: the caller's promise.
    unsafe {
        (*major, *minor) = VERSION;
        *device = &raw const devices(driver)[gpu.index];
    }
    0
}

/// libdrm's: a descriptor of the device's, which the caller closes.
pub fn device_file(device: &Device) -> c_int {
    let minor = crate::topology::FIRST_RENDER + device.gpu.index as u32;
    match device.driver.open_render(minor) {
        Some(Ok(file)) => file,
        _ => -1,
    }
}

/// libdrm's: the product's name.
pub fn name(device: &Device) -> *const c_char {
    device.name.as_ptr()
}

/// libdrm's: facts of the GPU.
///
/// # Safety
/// The structure may be written.
pub unsafe fn query(device: &Device, info: *mut GpuInfo) -> c_int {
    let product = &device.gpu.target.facts().product;
    // SAFETY: zeroes are a value of it.
    let mut found: GpuInfo = unsafe { std::mem::zeroed() };
    found.device = product.pci_id;
    found.family = family(device.gpu.target);
    found.engine_clock = u64::from(product.clock_mhz) * 1000;
    found.memory_clock = u64::from(product.memory.clock_mhz) * 1000;
    found.engines = 1;
    found.arrays = 1;
    found.counter_frequency = (clock::FREQUENCY / 1000) as u32;
    // SAFETY: the caller's promise.
    unsafe { info.write(found) };
    0
}

/// `AMDGPU_FAMILY_*`, by which AMD's runtime knows how images lie in memory.
fn family(target: Target) -> u32 {
    match target.architecture() {
        Architecture::Vega20
        | Architecture::Cdna1
        | Architecture::Cdna2
        | Architecture::Cdna3
        | Architecture::Cdna4 => 141,
        Architecture::Rdna2 => 143,
        Architecture::Rdna3 => 145,
        Architecture::Rdna3_5 => 150,
        Architecture::Rdna4 => 152,
    }
}

/// libdrm's: the buffer that a descriptor stands for.
///
/// # Safety
/// The structure may be written.
pub unsafe fn import(
    device: &'static Device,
    kind: c_int,
    file: u32,
    imported: *mut Imported,
) -> c_int {
    let extent = match kind {
        DMA_BUF => device.driver.buffers().exported(file as RawFd),
        _ => None,
    };
    let Some(extent) = extent else {
        return refuse(libc::EINVAL);
    };
    let bytes = extent.bytes;
    let buffer = Box::into_raw(Box::new(Bo {
        device,
        extent,
        host: Mutex::new(None),
    }));
    // SAFETY: the caller's promise.
    unsafe { imported.write(Imported { buffer, bytes }) };
    0
}

/// libdrm's: a descriptor that stands for a buffer, or a number by which [`place`] knows it.
///
/// # Safety
/// The number may be written.
pub unsafe fn export(buffer: &Bo, kind: c_int, shared: *mut u32) -> c_int {
    let exported = match kind {
        DMA_BUF => buffer.device.driver.buffers().export_extent(&buffer.extent),
        // In pages: the file would have to be of 16 TiB for this to fail.
        KMS => i32::try_from(buffer.extent.offset / file::PAGE).map_err(|_| libc::EOVERFLOW),
        _ => Err(libc::EINVAL),
    };
    match exported {
        Ok(number) => {
            // SAFETY: the caller's promise.
            unsafe { shared.write(number as u32) };
            0
        }
        Err(error) => refuse(error),
    }
}

/// libdrm's `drmCommandWriteRead`, for a device file of ours: where a buffer is in it.
///
/// # Safety
/// `data` points to so many bytes, which may be written.
pub unsafe fn place(command: c_ulong, data: *mut c_void, bytes: c_ulong) -> c_int {
    if command != WHERE || bytes < 8 || data.is_null() {
        return refuse(libc::EINVAL);
    }
    // SAFETY: the caller's promise: a number going in, and an offset coming out in its place.
    unsafe {
        let number = data.cast::<u32>().read_unaligned();
        let offset = u64::from(number) * file::PAGE;
        data.cast::<u64>().write_unaligned(offset);
    }
    0
}

/// libdrm's: lay a part of a buffer over addresses, or take it away from there.
pub fn lay(buffer: &Bo, offset: u64, bytes: u64, address: u64, operation: u32) -> c_int {
    let gpu = buffer.device.gpu;
    let end = offset.checked_add(bytes);
    if end.is_none_or(|end| end > buffer.extent.bytes) {
        return refuse(libc::EINVAL);
    }
    let done = match operation {
        MAP => {
            let place = buffer.extent.offset + offset;
            // SAFETY: HIP has reserved the addresses for this.
            let mapped = unsafe { buffer.device.driver.file.map(address, bytes, place) };
            // SAFETY: mapped now, until it is taken away below.
            mapped.is_ok() && unsafe { gpu.map(address, bytes) }.is_ok()
        }
        // SAFETY: HIP keeps them reserved, and says that nobody uses them.
        UNMAP => gpu.unmap(address).is_ok() && unsafe { file::unmap(address, bytes) }.is_ok(),
        _ => false,
    };
    match done {
        true => 0,
        false => refuse(libc::EINVAL),
    }
}

/// libdrm's: where the host sees a buffer.
///
/// # Safety
/// The pointer may be written.
pub unsafe fn host(buffer: &Bo, address: *mut *mut c_void) -> c_int {
    let mut host = buffer.host.lock();
    let extent = &buffer.extent;
    let found = match *host {
        Some(found) => found,
        None => match buffer
            .device
            .driver
            .file
            .map_anywhere(extent.bytes, extent.offset)
        {
            Ok(found) => *host.insert(found),
            Err(error) => return refuse(error.raw_os_error().unwrap_or(libc::ENOMEM)),
        },
    };
    // SAFETY: the caller's promise.
    unsafe { address.write(found as *mut c_void) };
    0
}

/// libdrm's: let a buffer go.
///
/// # Safety
/// It came from [`import`], and is not used again.
pub unsafe fn free(buffer: *mut Bo) -> c_int {
    // SAFETY: the caller's promise.
    let buffer = unsafe { Box::from_raw(buffer) };
    if let Some(host) = buffer.host.lock().take() {
        // SAFETY: mapped in `host`, for this buffer alone.
        unsafe { libc::munmap(host as *mut c_void, buffer.extent.bytes as usize) };
    }
    0
}
