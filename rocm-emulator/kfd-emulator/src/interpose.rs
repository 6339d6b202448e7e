//! The functions that stand before those of the C library and of libdrm: what concerns `/dev/kfd`, the GPUs' devices for
//! drawing and the kernel's topology is answered here, everything else goes where it would have gone.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void, CStr};
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::abi::LETTER;
use crate::driver::driver;
use crate::file;
use crate::render::{self, Bo, Device, GpuInfo, Imported};
use crate::topology::{self, FIRST_RENDER};

/// Devices of the kernel's driver.
const COMPUTE: &str = "/dev/kfd";
const RENDER: &str = "/dev/dri/renderD";

/// A function of the library that comes after this one.
macro_rules! next {
    ($name:expr, $type:ty) => {{
        // Not a OnceLock: the loader's lock is taken by dlsym, and held by who loads a library whose beginning calls this, so
        // that neither may wait for the other. Whoever comes at the same time finds the same.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let found = match NEXT.load(Ordering::Relaxed) {
            0 => {
                let name = concat!($name, "\0").as_ptr().cast::<c_char>();
                // SAFETY: a C string.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name) as usize };
                NEXT.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        };
        match found {
            0 => None,
            // SAFETY: the function of this name has this type.
            found => Some(unsafe { std::mem::transmute::<usize, $type>(found) }),
        }
    }};
}

fn set_errno(error: c_int) {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = error };
}

/// # Safety
/// A C string, or null.
unsafe fn text<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(path) }.to_str().ok()
}

/// The descriptor for a device of ours; `None` for any other file.
fn device(path: &str) -> Option<c_int> {
    let opened = match path.strip_prefix(RENDER) {
        Some(minor) => driver()?.open_render(minor.parse().ok()?)?,
        None if path == COMPUTE => driver()?.file.open(),
        None => return None,
    };
    Some(opened.unwrap_or_else(|error| {
        set_errno(error.raw_os_error().unwrap_or(libc::EIO));
        -1
    }))
}

/// C's `open`.
///
/// # Safety
/// As C's.
#[no_mangle]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    if let Some(file) = unsafe { text(path) }.and_then(device) {
        return file;
    }
    // SAFETY: the caller's promise; where no mode is given, none is read.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int }
}

/// C's `ioctl`, all of whose commands that are used take one more argument.
///
/// # Safety
/// As C's.
#[no_mangle]
pub unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request as u32 >> 8 & 0xff == LETTER {
        if let Some(driver) = driver().filter(|driver| driver.file.is(file)) {
            // SAFETY: the caller's promise.
            return match unsafe { driver.command(request, argument) } {
                Ok(()) => 0,
                Err(error) => {
                    set_errno(error);
                    -1
                }
            };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_ioctl, file, request, argument) as c_int }
}

/// What the kernel would say in a file of its topology.
fn contents(path: &str) -> Option<&'static [u8]> {
    let path = topology::inside(path)?;
    driver()?.topology.contents(path)
}

/// What is in a folder of the kernel's topology.
fn names(path: &str) -> Option<Vec<&'static str>> {
    let path = topology::inside(path)?;
    driver()?.topology.names(path)
}

/// A file of the topology, opened for reading. It has a descriptor, which C++'s streams read from.
fn opened(path: &str) -> Option<*mut libc::FILE> {
    let file = file::holding(contents(path)?);
    let file = file.map(|file| {
        // SAFETY: a descriptor of nobody else's, and a C string.
        unsafe { libc::fdopen(file.into_raw_fd(), c"r".as_ptr()) }
    });
    Some(file.unwrap_or_else(|error| {
        set_errno(error.raw_os_error().unwrap_or(libc::EIO));
        std::ptr::null_mut()
    }))
}

/// Declares C functions that open a file by name.
macro_rules! openers {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("C's `", stringify!($name), "`.\n\n# Safety\nAs C's.")]
            #[no_mangle]
            pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
                // SAFETY: the caller's promise.
                if let Some(file) = unsafe { text(path) }.and_then(opened) {
                    return file;
                }
                type Fopen = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
                match next!(stringify!($name), Fopen) {
                    // SAFETY: the caller's promise.
                    Some(fopen) => unsafe { fopen(path, mode) },
                    None => {
                        set_errno(libc::ENOSYS);
                        std::ptr::null_mut()
                    }
                }
            }
        )*
    };
}

openers! { fopen fopen64 }

/// Declares C functions that say what a file is: programs ask whether it is one.
macro_rules! describers {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("C's `", stringify!($name), "`.\n\n# Safety\nAs C's.")]
            #[no_mangle]
            pub unsafe extern "C" fn $name(path: *const c_char, found: *mut libc::stat) -> c_int {
                // SAFETY: the caller's promise.
                if let Some((kind, bytes)) = unsafe { text(path) }.and_then(described) {
                    // SAFETY: zeroes are a value of it, and the caller's promise.
                    unsafe {
                        found.write(std::mem::zeroed());
                        (*found).st_mode = kind | 0o444;
                        (*found).st_size = bytes as i64;
                    }
                    return 0;
                }
                // SAFETY: the caller's promise.
                unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, found, 0) as c_int }
            }
        )*
    };
}

describers! { stat stat64 }

/// What a file or folder of the topology is (`S_IFREG` or `S_IFDIR`), and how long.
fn described(path: &str) -> Option<(libc::mode_t, usize)> {
    if let Some(contents) = contents(path) {
        return Some((libc::S_IFREG, contents.len()));
    }
    names(path).map(|_| (libc::S_IFDIR, 0))
}

/// A folder of the topology that is being read.
struct Listing {
    names: Vec<String>,
    next: usize,
    entry: libc::dirent,
}

/// Those that are open, by their handles: addresses of their own.
static LISTINGS: LazyLock<Mutex<HashMap<usize, Box<Listing>>>> = LazyLock::new(Mutex::default);

fn listing(path: &str) -> Option<*mut libc::DIR> {
    let names = names(path)?.into_iter().map(str::to_owned).collect();
    let listing = Box::new(Listing {
        names,
        next: 0,
        // SAFETY: zeroes are a value of it.
        entry: unsafe { std::mem::zeroed() },
    });
    let handle = &raw const *listing as usize;
    LISTINGS.lock().insert(handle, listing);
    Some(handle as *mut libc::DIR)
}

/// C's `opendir`.
///
/// # Safety
/// As C's.
#[no_mangle]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: the caller's promise.
    if let Some(handle) = unsafe { text(path) }.and_then(listing) {
        return handle;
    }
    type Opendir = unsafe extern "C" fn(*const c_char) -> *mut libc::DIR;
    match next!("opendir", Opendir) {
        // SAFETY: the caller's promise.
        Some(opendir) => unsafe { opendir(path) },
        None => std::ptr::null_mut(),
    }
}

/// Declares C functions that give a folder's next entry. Both have the same entries where files have 64 bits.
macro_rules! readers {
    ($($name:ident)*) => {
        $(
            #[doc = concat!("C's `", stringify!($name), "`.\n\n# Safety\nAs C's.")]
            #[no_mangle]
            pub unsafe extern "C" fn $name(folder: *mut libc::DIR) -> *mut libc::dirent {
                if let Some(listing) = LISTINGS.lock().get_mut(&(folder as usize)) {
                    return listing.next_entry();
                }
                type Readdir = unsafe extern "C" fn(*mut libc::DIR) -> *mut libc::dirent;
                match next!(stringify!($name), Readdir) {
                    // SAFETY: the caller's promise.
                    Some(readdir) => unsafe { readdir(folder) },
                    None => std::ptr::null_mut(),
                }
            }
        )*
    };
}

readers! { readdir readdir64 }

impl Listing {
    /// The next folder's, which lies here until the one after it is asked for; null at the end.
    fn next_entry(&mut self) -> *mut libc::dirent {
        let Some(name) = self.names.get(self.next) else {
            return std::ptr::null_mut();
        };
        self.next += 1;
        self.entry.d_type = libc::DT_DIR;
        self.entry.d_name.fill(0);
        for (place, byte) in self.entry.d_name.iter_mut().zip(name.bytes()) {
            *place = byte as c_char;
        }
        &raw mut self.entry
    }
}

/// C's `closedir`.
///
/// # Safety
/// As C's.
#[no_mangle]
pub unsafe extern "C" fn closedir(folder: *mut libc::DIR) -> c_int {
    if LISTINGS.lock().remove(&(folder as usize)).is_some() {
        return 0;
    }
    type Closedir = unsafe extern "C" fn(*mut libc::DIR) -> c_int;
    match next!("closedir", Closedir) {
        // SAFETY: the caller's promise.
        Some(closedir) => unsafe { closedir(folder) },
        None => -1,
    }
}

/// libdrm's `drmOpenRender`. A GPU of ours stands before one of the machine's.
#[no_mangle]
pub extern "C" fn drmOpenRender(minor: c_int) -> c_int {
    let minor = u32::try_from(minor).unwrap_or(FIRST_RENDER - 1);
    let opened = driver().and_then(|driver| driver.open_render(minor));
    match opened {
        Some(Ok(file)) => file,
        Some(Err(error)) => refused(error.raw_os_error().unwrap_or(libc::EIO)),
        None => refused(libc::ENOENT),
    }
}

fn refused(error: c_int) -> c_int {
    set_errno(error);
    -error
}

/// libdrm's `drmCommandWriteRead`.
///
/// # Safety
/// As libdrm's.
#[no_mangle]
pub unsafe extern "C" fn drmCommandWriteRead(
    _file: RawFd,
    command: c_ulong,
    data: *mut c_void,
    bytes: c_ulong,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { render::place(command, data, bytes) }
}

/// libdrm's `amdgpu_device_initialize`.
///
/// # Safety
/// As libdrm's.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_device_initialize(
    file: RawFd,
    major: *mut u32,
    minor: *mut u32,
    device: *mut *const Device,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { render::device_initialize(file, major, minor, device) }
}

/// libdrm's `amdgpu_device_deinitialize`: devices live as long as the process.
#[no_mangle]
pub extern "C" fn amdgpu_device_deinitialize(_device: *const Device) -> c_int {
    0
}

/// Declares functions of libdrm whose first argument is a handle that came from here.
macro_rules! of_handles {
    ($($name:ident($handle:ident: $type:ty $(, $arg:ident: $arg_type:ty)*) -> $returns:ty = $body:expr;)*) => {
        $(
            #[doc = concat!("libdrm's `", stringify!($name), "`.\n\n# Safety\nAs libdrm's.")]
            #[no_mangle]
            pub unsafe extern "C" fn $name($handle: *const $type $(, $arg: $arg_type)*) -> $returns {
                // SAFETY: a handle that came from here, and the caller's promise for the rest.
                #[allow(unused_unsafe)]
                unsafe {
                    let $handle: &'static $type = &*$handle;
                    $body
                }
            }
        )*
    };
}

of_handles! {
    amdgpu_device_get_fd(device: Device) -> c_int = render::device_file(device);
    amdgpu_get_marketing_name(device: Device) -> *const c_char = render::name(device);
    amdgpu_query_gpu_info(device: Device, info: *mut GpuInfo) -> c_int = render::query(device, info);
    amdgpu_bo_import(device: Device, kind: c_int, file: u32, imported: *mut Imported) -> c_int =
        render::import(device, kind, file, imported);
    amdgpu_bo_export(buffer: Bo, kind: c_int, shared: *mut u32) -> c_int = render::export(buffer, kind, shared);
    amdgpu_bo_va_op(buffer: Bo, offset: u64, bytes: u64, address: u64, _flags: u64, operation: u32) -> c_int =
        render::lay(buffer, offset, bytes, address, operation);
    amdgpu_bo_cpu_map(buffer: Bo, address: *mut *mut c_void) -> c_int = render::host(buffer, address);
}

/// libdrm's `amdgpu_bo_free`.
///
/// # Safety
/// As libdrm's.
#[no_mangle]
pub unsafe extern "C" fn amdgpu_bo_free(buffer: *mut Bo) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { render::free(buffer) }
}
