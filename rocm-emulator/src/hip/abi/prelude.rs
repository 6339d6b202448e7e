//! What every function needs: HIP's types, errors, and how the pointers of its arguments are read and written.

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

use std::ffi::CStr;

pub use super::types::*;
pub use crate::hip::error::{Code, HipError, Result};

/// Write to an output pointer.
///
/// # Safety
/// The pointer is null or valid for writes.
pub unsafe fn out<T>(pointer: *mut T, value: T) -> Result {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(HipError::new(
            Code::InvalidValue,
            "null or misaligned output pointer",
        ));
    }
    // SAFETY: neither null nor misaligned; valid by the caller's promise.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Write to an output pointer that the caller may leave null.
///
/// # Safety
/// As [`out`].
pub unsafe fn optional_out<T>(pointer: *mut T, value: T) -> Result {
    match pointer.is_null() {
        true => Ok(()),
        // SAFETY: the caller's promise.
        false => unsafe { out(pointer, value) },
    }
}

/// Read what an input pointer points to.
///
/// # Safety
/// The pointer is null or valid for reads.
pub unsafe fn read<T: Copy>(pointer: *const T) -> Result<T> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(HipError::new(
            Code::InvalidValue,
            "null or misaligned input pointer",
        ));
    }
    // SAFETY: neither null nor misaligned; valid by the caller's promise.
    Ok(unsafe { pointer.read() })
}

/// Read a list.
///
/// # Safety
/// The pointer is null or valid for so many reads.
pub unsafe fn read_list<T: Copy>(pointer: *const T, count: usize) -> Result<Vec<T>> {
    (0..count)
        .map(|index| {
            let element = match pointer.is_null() {
                true => pointer,
                false => pointer.wrapping_add(index),
            };
            // SAFETY: the caller's promise.
            unsafe { read(element) }
        })
        .collect()
}

/// Give the length of a list, and with `list` its elements, as many as `count` says there is room for; the rest of the
/// room is nulled.
///
/// # Safety
/// The pointers are null or valid, the list for as many as `count` says.
pub unsafe fn list_out(list: *mut *mut c_void, count: *mut usize, elements: &[u64]) -> Result {
    // SAFETY: the caller's promise.
    let room = unsafe { read(count) }?;
    if list.is_null() {
        // SAFETY: as above.
        return unsafe { out(count, elements.len()) };
    }
    for index in 0..room {
        let element = elements.get(index).copied().unwrap_or(0);
        // SAFETY: there is room for this many, by the caller's promise.
        unsafe { out(list.add(index), element as *mut c_void) }?;
    }
    // SAFETY: as above.
    unsafe { out(count, room.min(elements.len())) }
}

/// A C string argument.
///
/// # Safety
/// The pointer is null or a NUL-terminated string.
pub unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(HipError::new(Code::InvalidValue, "null string"));
    }
    // SAFETY: not null; a string by the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| HipError::new(Code::InvalidValue, format!("{text:?} is not UTF-8")))
}

/// Fill a caller's character buffer, cut to its length.
///
/// # Safety
/// The buffer is null or has `len` bytes.
pub unsafe fn text_out(buffer: *mut c_char, len: c_int, text: &str) -> Result {
    let len = usize::try_from(len).unwrap_or(0);
    if buffer.is_null() || len == 0 {
        return Err(HipError::new(Code::InvalidValue, "no room for the text"));
    }
    let copied = text.len().min(len - 1);
    // SAFETY: `copied` and the NUL fit in the buffer, by the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, copied);
        buffer.add(copied).write(0);
    }
    Ok(())
}
