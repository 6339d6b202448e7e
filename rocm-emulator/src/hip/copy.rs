//! Copies and fills, over device memory, pinned host memory and the program's own.

use std::ffi::c_void;

use super::error::{Code, HipError, Result};
use super::host;
use super::state::{Device, Runtime};
use crate::memory::InvalidAccess;

/// Bytes moved at a time between memories that only meet in a buffer.
const CHUNK: usize = 256 << 10;

impl From<InvalidAccess> for HipError {
    fn from(error: InvalidAccess) -> HipError {
        HipError::new(Code::InvalidValue, error.to_string())
    }
}

/// What a copy's kind says about an end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Host,
    Device,
    Either,
}

/// A copy of `planes` planes of `rows` rows of `width` bytes; plain copies have one of each.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle {
    /// First byte written.
    pub to: u64,
    /// Bytes between rows written.
    pub to_pitch: u64,
    /// First byte read.
    pub from: u64,
    /// Bytes between rows read.
    pub from_pitch: u64,
    /// Bytes of a row.
    pub width: u64,
    /// Rows.
    pub rows: u64,
    /// Planes.
    pub planes: u64,
    /// Bytes between planes written.
    pub to_plane: u64,
    /// Bytes between planes read.
    pub from_plane: u64,
    to_end: End,
    from_end: End,
}

impl Rectangle {
    /// A copy of consecutive bytes; `kind` is `hipMemcpyKind`.
    ///
    /// # Errors
    /// `hipErrorInvalidMemcpyDirection` for a kind that does not exist, `hipErrorInvalidValue` for a null pointer.
    pub fn plain(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: u32,
    ) -> Result<Rectangle> {
        Rectangle::new(to, bytes, from, bytes, bytes, 1, kind)
    }

    /// A copy of rows.
    ///
    /// # Errors
    /// As [`Rectangle::plain`], and `hipErrorInvalidPitchValue` for a pitch below the width.
    pub fn new(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        rows: usize,
        kind: u32,
    ) -> Result<Rectangle> {
        let (from_end, to_end) = match kind {
            0 => (End::Host, End::Host),
            1 => (End::Host, End::Device),
            2 => (End::Device, End::Host),
            3 | 1024 => (End::Device, End::Device),
            4 => (End::Either, End::Either),
            _ => return Err(Code::InvalidMemcpyDirection.into()),
        };
        if width > 0 && rows > 0 {
            if to.is_null() || from.is_null() {
                return Err(HipError::new(
                    Code::InvalidValue,
                    "copy to or from a null pointer",
                ));
            }
            if rows > 1 && (to_pitch < width || from_pitch < width) {
                return Err(Code::InvalidPitchValue.into());
            }
        }
        Ok(Rectangle {
            to: to as u64,
            to_pitch: to_pitch as u64,
            from: from as u64,
            from_pitch: from_pitch as u64,
            width: width as u64,
            rows: rows as u64,
            planes: 1,
            to_plane: 0,
            from_plane: 0,
            to_end,
            from_end,
        })
    }

    /// The same for so many planes, with the bytes between them.
    pub fn with_planes(self, planes: usize, to_plane: usize, from_plane: usize) -> Rectangle {
        Rectangle {
            planes: planes as u64,
            to_plane: to_plane as u64,
            from_plane: from_plane as u64,
            ..self
        }
    }

    /// The `hipMemcpyKind`.
    pub fn kind(&self) -> u32 {
        match (self.from_end, self.to_end) {
            (End::Host, End::Host) => 0,
            (End::Host, End::Device) => 1,
            (End::Device, End::Host) => 2,
            (End::Device, End::Device) => 3,
            _ => 4,
        }
    }
}

/// Do a copy.
///
/// # Errors
/// `hipErrorInvalidValue` when either end is not inside an allocation of the side that the kind names, or, on the
/// host, not mapped.
pub fn rectangle(runtime: &Runtime, copy: &Rectangle) -> Result {
    if copy.width == 0 || copy.rows == 0 || copy.planes == 0 {
        return Ok(());
    }
    let to = place(runtime, copy.to, copy.to_end)?;
    let from = place(runtime, copy.from, copy.from_end)?;
    let at = |base: u64, index: u64, pitch: u64| base.wrapping_add(index.wrapping_mul(pitch));
    for plane in 0..copy.planes {
        let to_plane = at(copy.to, plane, copy.to_plane);
        let from_plane = at(copy.from, plane, copy.from_plane);
        for row in 0..copy.rows {
            let to_row = at(to_plane, row, copy.to_pitch);
            let from_row = at(from_plane, row, copy.from_pitch);
            bytes(to, to_row, from, from_row, copy.width)?;
        }
    }
    Ok(())
}

/// The device whose memory holds an address, or `None` for the program's own memory.
fn place(runtime: &Runtime, address: u64, end: End) -> Result<Option<&Device>> {
    let owner = runtime.owner(address);
    match (end, owner) {
        (End::Device, None) => Err(HipError::new(
            Code::InvalidValue,
            format!(
                "{address:#x} is not device memory; {}",
                runtime.current().memory.nearest(address)
            ),
        )),
        // HIP lets the kind say host for memory that the device has too, as everything is mapped.
        _ => Ok(owner),
    }
}

fn bytes(
    to: Option<&Device>,
    to_at: u64,
    from: Option<&Device>,
    from_at: u64,
    count: u64,
) -> Result {
    if let (Some(to), Some(from)) = (to, from) {
        if to.index == from.index {
            return Ok(to.memory.copy(to_at, from_at, count)?);
        }
    }
    let mut buffer = vec![0u8; CHUNK.min(usize::try_from(count).unwrap_or(CHUNK))];
    // Both ends are checked before the first byte moves, as far as that can be known.
    for (device, at, access) in [(to, to_at, "written"), (from, from_at, "read")] {
        let Some(device) = device else { continue };
        let room = device
            .memory
            .lookup(at)
            .map_or(0, |info| info.end().saturating_sub(at));
        if room < count {
            return Err(HipError::new(
                Code::InvalidValue,
                format!(
                    "{count} bytes {access} at {at:#x}, but the allocation ends after {room} bytes"
                ),
            ));
        }
    }
    let mut done = 0;
    while done < count {
        let now = ((count - done) as usize).min(buffer.len());
        let chunk = &mut buffer[..now];
        match from {
            Some(from) => from.memory.read(from_at + done, chunk)?,
            None => host::read(from_at + done, chunk)?,
        }
        match to {
            Some(to) => to.memory.write(to_at + done, chunk)?,
            None => host::write(to_at + done, chunk)?,
        }
        done += now as u64;
    }
    Ok(())
}

/// Repeat a pattern.
///
/// # Errors
/// `hipErrorInvalidValue` when the range is not inside an allocation.
pub fn fill(runtime: &Runtime, address: u64, pattern: &[u8], count: u64) -> Result {
    if count == 0 {
        return Ok(());
    }
    let owner = runtime.owner(address).ok_or_else(|| {
        HipError::new(
            Code::InvalidValue,
            format!(
                "fill at {address:#x}, which is not device memory; {}",
                runtime.current().memory.nearest(address)
            ),
        )
    })?;
    Ok(owner.memory.fill(address, pattern, count)?)
}
