//! A file that processes share memory by, and whose locks say which of them are alive.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::base::error::{Error, ErrorKind, Result};

/// The byte that is locked while the file is made.
const MAKING: i64 = 0;
/// The byte that the process of rank 0 keeps locked; the other ranks' follow.
const FIRST_RANK: i64 = 1;

/// The file, mapped.
pub(super) struct SharedFile {
    file: File,
    path: PathBuf,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is used through atomics, and by GPUs.
unsafe impl Send for SharedFile {}
// SAFETY: as above.
unsafe impl Sync for SharedFile {}

/// Folders, the one in memory first.
fn folders() -> [PathBuf; 2] {
    [PathBuf::from("/dev/shm"), std::env::temp_dir()]
}

impl SharedFile {
    /// The file of this name, made with so many bytes that are 0 unless another process has made it.
    ///
    /// # Errors
    /// No folder has room for it.
    pub fn open(name: &str, bytes: usize) -> Result<Self> {
        let mut reasons = Vec::new();
        for folder in folders() {
            let path = folder.join(name);
            match Self::open_at(&path, bytes) {
                Ok(file) => return Ok(file),
                Err(error) => reasons.push(format!("{}: {error}", path.display())),
            }
        }
        Err(Error::new(
            ErrorKind::Runtime,
            format!(
                "no memory of {bytes} bytes that ranks could share: {}. In a container, give it more: --shm-size=1g",
                reasons.join("; ")
            ),
        ))
    }

    fn open_at(path: &Path, bytes: usize) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        lock(&file, MAKING, libc::F_OFD_SETLKW)?;
        let sized = match file.metadata()?.len() {
            0 => allocate(&file, bytes),
            other if other == bytes as u64 => Ok(()),
            other => Err(io::Error::other(format!(
                "it has {other} bytes: the ranks differ in how many they are"
            ))),
        };
        unlock(&file, MAKING)?;
        if let Err(error) = sized {
            if file.metadata()?.len() == 0 {
                std::fs::remove_file(path)?;
            }
            return Err(error);
        }
        let memory = map(&file, bytes)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            memory,
            bytes,
        })
    }

    /// The memory's first byte.
    pub fn memory(&self) -> NonNull<u8> {
        self.memory
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says that this process has a rank, until it ends.
    ///
    /// # Errors
    /// Another process says so.
    pub fn hold(&self, rank: usize) -> io::Result<()> {
        lock(&self.file, FIRST_RANK + rank as i64, libc::F_OFD_SETLK)
    }

    /// Whether another process has a rank. (Of a rank of this process nobody knows.)
    pub fn is_held_elsewhere(&self, rank: usize) -> bool {
        let mut lock = of_byte(FIRST_RANK + rank as i64, libc::F_WRLCK);
        // SAFETY: the descriptor is open, and the lock readable and writable.
        let asked = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
        // Where locks cannot be asked for, nobody is known to be gone.
        asked != 0 || i32::from(lock.l_type) != libc::F_UNLCK
    }

    /// Takes the name away: who has the file keeps it, and nobody else finds it.
    pub fn forget_name(&self) {
        // Another rank may have been first.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with so many bytes, and used by nobody any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// Room for all of the file: memory that is not there would end the process when it is touched.
fn allocate(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let status = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) };
    match status {
        0 => Ok(()),
        // Some file systems cannot say.
        libc::EOPNOTSUPP | libc::EINVAL => file.write_all_at(&[0], bytes as u64 - 1),
        status => {
            file.set_len(0)?;
            Err(io::Error::from_raw_os_error(status))
        }
    }
}

fn map(file: &File, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping of an open file, which has so many bytes.
    let memory = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))
}

fn of_byte(byte: i64, kind: libc::c_int) -> libc::flock {
    // SAFETY: numbers, of which 0 is one.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    lock
}

fn lock(file: &File, byte: i64, command: libc::c_int) -> io::Result<()> {
    let lock = of_byte(byte, libc::F_WRLCK);
    // SAFETY: the descriptor is open, and the lock readable.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn unlock(file: &File, byte: i64) -> io::Result<()> {
    let lock = of_byte(byte, libc::F_UNLCK);
    // SAFETY: as above.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
