//! What stands for the driver's device files: a file in memory, whose pages are those of the GPUs' buffers.
//!
//! libhsakmt maps buffers and doorbells from the files that it opened, at the offsets that commands told it. All of
//! them are this one, so that nothing but its opening needs to be caught.

use std::ffi::c_void;
use std::io::{Error, Result, Seek as _, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use parking_lot::Mutex;

/// A page.
pub const PAGE: u64 = 4096;

/// The file.
pub struct DeviceFile {
    file: OwnedFd,
    identity: (u64, u64),
    end: Mutex<u64>,
}

/// An empty file in memory.
fn create() -> Result<OwnedFd> {
    // SAFETY: a C string that lives as long as the call.
    let file = unsafe { libc::memfd_create(c"rocm-emulator".as_ptr(), libc::MFD_CLOEXEC) };
    if file < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// A file in memory that holds this, at its beginning.
pub fn holding(contents: &[u8]) -> Result<OwnedFd> {
    let mut file = std::fs::File::from(create()?);
    file.write_all(contents)?;
    file.rewind()?;
    Ok(file.into())
}

impl DeviceFile {
    /// An empty one.
    pub fn new() -> Result<DeviceFile> {
        let file = create()?;
        let identity = identity(file.as_raw_fd()).ok_or_else(Error::last_os_error)?;
        Ok(DeviceFile {
            file,
            identity,
            end: Mutex::new(0),
        })
    }

    /// A descriptor for who opens it.
    pub fn open(&self) -> Result<RawFd> {
        // SAFETY: takes numbers alone.
        let copy = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        match copy {
            -1 => Err(Error::last_os_error()),
            copy => Ok(copy),
        }
    }

    /// Whether a descriptor is of this file.
    pub fn is(&self, file: RawFd) -> bool {
        identity(file) == Some(self.identity)
    }

    /// Room for so many bytes, zeroed: its offset.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64> {
        let mut end = self.end.lock();
        let offset = end.next_multiple_of(align.max(PAGE));
        let after = offset + bytes.next_multiple_of(PAGE);
        let length = i64::try_from(after).map_err(|_| Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: takes numbers alone.
        if unsafe { libc::ftruncate(self.file.as_raw_fd(), length) } != 0 {
            return Err(Error::last_os_error());
        }
        *end = after;
        Ok(offset)
    }

    /// Give the host the memory behind a range back. Its place is not used again.
    pub fn release(&self, offset: u64, bytes: u64) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: takes numbers alone. Where holes cannot be made, the memory stays taken.
        unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset as i64, bytes as i64) };
    }

    /// Lay a range over addresses that libhsakmt has reserved for it, readable and writable.
    ///
    /// # Safety
    /// Nothing else lies at these addresses.
    pub unsafe fn map(&self, address: u64, bytes: u64, offset: u64) -> Result<()> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let how = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the caller's promise.
        unsafe { map(address, bytes, access, how, self.file.as_raw_fd(), offset) }.map(|_| ())
    }

    /// Lay a range wherever there is room.
    pub fn map_anywhere(&self, bytes: u64, offset: u64) -> Result<u64> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: replaces nothing.
        unsafe {
            map(
                0,
                bytes,
                access,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                offset,
            )
        }
    }
}

/// Keep addresses reserved, with nothing behind them.
///
/// # Safety
/// Nobody uses what lies there.
pub unsafe fn unmap(address: u64, bytes: u64) -> Result<()> {
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the caller's promise.
    unsafe { map(address, bytes, libc::PROT_NONE, how, -1, 0) }.map(|_| ())
}

/// Whether all pages of a range are the process's.
pub fn is_mapped(address: u64, bytes: u64) -> bool {
    // SAFETY: with MS_ASYNC nothing is done but to look whether the pages are there.
    unsafe { libc::msync(address as *mut c_void, bytes as usize, libc::MS_ASYNC) == 0 }
}

/// # Safety
/// With MAP_FIXED, nothing lies at the addresses that is used.
unsafe fn map(
    address: u64,
    bytes: u64,
    access: i32,
    how: i32,
    file: RawFd,
    offset: u64,
) -> Result<u64> {
    let (address, offset) = (address as *mut c_void, offset as i64);
    // SAFETY: the caller's promise.
    let found = unsafe { libc::mmap(address, bytes as usize, access, how, file, offset) };
    match found {
        libc::MAP_FAILED => Err(Error::last_os_error()),
        found => Ok(found as u64),
    }
}

/// Which file a descriptor is of.
fn identity(file: RawFd) -> Option<(u64, u64)> {
    // SAFETY: zeroes are a value of it.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is large enough.
    let done = unsafe { libc::fstat(file, &mut found) };
    (done == 0).then_some((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    #[test]
    fn a_file_is_read_from_its_beginning() {
        let mut file = std::fs::File::from(super::holding(b"gpu_id 2\n").unwrap());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "gpu_id 2\n");
    }
}
