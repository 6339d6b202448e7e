//! Reading and writing memory that belongs to the program and not to the emulator.
//!
//! A wrong pointer in a HIP call must give an error and not end the process, so such bytes are copied by the
//! kernel (`process_vm_readv` on ourselves), which reports what is not mapped.

use std::ffi::c_void;

use super::error::{Code, HipError, Result};

fn iovec(address: u64, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut c_void,
        iov_len: bytes,
    }
}

fn outcome(moved: isize, bytes: usize, what: &str, address: u64) -> Option<Result> {
    if usize::try_from(moved) == Ok(bytes) {
        return Some(Ok(()));
    }
    let denied = moved < 0
        && matches!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EPERM | libc::ENOSYS)
        );
    // A sandbox that forbids the call leaves a plain copy, without the check.
    (!denied).then(|| {
        Err(HipError::new(
            Code::InvalidValue,
            format!("{what} of {bytes} bytes at {address:#x}: not mapped in this process"),
        ))
    })
}

/// Copy bytes of the program.
///
/// # Errors
/// `hipErrorInvalidValue` when they are not mapped.
pub fn read(address: u64, into: &mut [u8]) -> Result {
    gather(&[(address, into.len())], into)
}

/// Copy several pieces of the program's memory, one after the other, into `into`, whose length is their sum.
///
/// # Errors
/// `hipErrorInvalidValue` when one is not mapped.
pub fn gather(pieces: &[(u64, usize)], mut into: &mut [u8]) -> Result {
    // The kernel takes at most 1024 pieces at once.
    for pieces in pieces.chunks(1024) {
        let bytes = pieces.iter().map(|piece| piece.1).sum();
        let (now, later) = into.split_at_mut(bytes);
        into = later;
        if bytes == 0 {
            continue;
        }
        let local = iovec(now.as_mut_ptr() as u64, bytes);
        let remote: Vec<_> = pieces.iter().map(|&(at, bytes)| iovec(at, bytes)).collect();
        // SAFETY: `local` is a live buffer of that length; the kernel checks the remote addresses.
        let moved = unsafe {
            libc::process_vm_readv(
                libc::getpid(),
                &local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        if let Some(result) = outcome(moved, bytes, "read", pieces[0].0) {
            result?;
            continue;
        }
        let mut at = 0;
        for &(address, bytes) in pieces {
            // SAFETY: the caller of the HIP function vouches for its pointers where the kernel cannot.
            unsafe {
                std::ptr::copy(address as *const u8, now[at..].as_mut_ptr(), bytes);
            }
            at += bytes;
        }
    }
    Ok(())
}

/// Copy bytes to the program.
///
/// # Errors
/// `hipErrorInvalidValue` when the place is not mapped for writing.
pub fn write(address: u64, from: &[u8]) -> Result {
    if from.is_empty() {
        return Ok(());
    }
    let local = iovec(from.as_ptr() as u64, from.len());
    let remote = iovec(address, from.len());
    // SAFETY: `local` is a live buffer of that length; the kernel checks the remote address.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    if let Some(result) = outcome(moved, from.len(), "write", address) {
        return result;
    }
    // SAFETY: the caller of the HIP function vouches for its pointers where the kernel cannot.
    unsafe { std::ptr::copy(from.as_ptr(), address as *mut u8, from.len()) };
    Ok(())
}
