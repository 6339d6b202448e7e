//! Allocations, copies and fills, over device memory, pinned host memory and the program's own.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::Ordering;

use super::error::{Code, HipError, Result};
use super::host;
use super::state::{Device, Runtime};
use crate::memory::{AllocationInfo, AllocationKind, InvalidAccess, OutOfMemory};

/// Alignment of pinned host memory, and the room after it that belongs to nothing.
const PAGE: usize = 4096;
/// Bytes moved at a time between memories that only meet in a buffer.
const CHUNK: usize = 256 << 10;

impl From<OutOfMemory> for HipError {
    fn from(error: OutOfMemory) -> HipError {
        HipError::new(Code::OutOfMemory, error.to_string())
    }
}

impl From<InvalidAccess> for HipError {
    fn from(error: InvalidAccess) -> HipError {
        HipError::new(Code::InvalidValue, error.to_string())
    }
}

/// Host memory that every device reaches.
pub struct HostBlock {
    /// First byte.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The flags that it was made with.
    pub flags: u32,
    /// Made by `hipMallocManaged`.
    pub managed: bool,
    /// The device that was current.
    pub device: usize,
    /// The emulator's own memory; `None` for memory that the program registered.
    owned: Option<Layout>,
}

/// `hipHostMalloc` and `hipMallocManaged`.
pub fn allocate_host(runtime: &Runtime, bytes: usize, flags: u32, managed: bool) -> Result<u64> {
    let refused = || {
        HipError::new(
            Code::OutOfMemory,
            format!("the host has no room for {bytes} bytes"),
        )
    };
    let room = bytes.checked_add(PAGE).ok_or_else(refused)?;
    let layout = Layout::from_size_align(room, PAGE).map_err(|_| refused())?;
    // SAFETY: the size is at least a page.
    let block = unsafe { alloc_zeroed(layout) };
    if block.is_null() {
        return Err(refused());
    }
    let address = block as u64;
    let added = add_host_block(
        runtime,
        HostBlock {
            address,
            bytes: bytes as u64,
            flags,
            managed,
            device: runtime.current().index,
            owned: Some(layout),
        },
    );
    if added.is_err() {
        // SAFETY: allocated above with this layout, and known to nobody.
        unsafe { dealloc(block, layout) };
    }
    added.map(|()| address)
}

/// `hipHostRegister`.
pub fn register_host(runtime: &Runtime, address: u64, bytes: u64, flags: u32) -> Result {
    let end = address.checked_add(bytes);
    let (Some(end), false) = (end, address == 0 || bytes == 0) else {
        return Err(Code::InvalidValue.into());
    };
    for probe in [address, end - 1] {
        host::read(probe, &mut [0])?;
    }
    add_host_block(
        runtime,
        HostBlock {
            address,
            bytes,
            flags,
            managed: false,
            device: runtime.current().index,
            owned: None,
        },
    )
}

fn add_host_block(runtime: &Runtime, block: HostBlock) -> Result {
    let mut blocks = runtime.host_blocks.lock();
    for (index, device) in runtime.devices.iter().enumerate() {
        // SAFETY: the block is ours, or the program registered it and keeps it until it unregisters it.
        let registered = unsafe { device.memory.register_host(block.address, block.bytes) };
        if let Err(error) = registered {
            for device in &runtime.devices[..index] {
                // Registered by this loop.
                let _ = device.memory.unregister_host(block.address);
            }
            return Err(HipError::new(
                Code::HostMemoryAlreadyRegistered,
                error.to_string(),
            ));
        }
    }
    blocks.insert(block.address, block);
    Ok(())
}

/// `hipHostFree` and `hipHostUnregister`, which differ in what they take.
pub fn remove_host_block(runtime: &Runtime, address: u64, owned: bool) -> Result {
    let mut blocks = runtime.host_blocks.lock();
    match blocks.get(&address) {
        Some(block) if block.owned.is_some() == owned => {}
        _ if owned => {
            return Err(HipError::new(
                Code::InvalidValue,
                format!("{address:#x} is not the start of pinned host memory"),
            ))
        }
        _ => return Err(Code::HostMemoryNotRegistered.into()),
    }
    for device in &runtime.devices {
        // No launch that could use the memory may be under way.
        let _idle = device.order.write();
        device
            .memory
            .unregister_host(address)
            .map_err(|error| HipError::new(Code::InvalidValue, error.to_string()))?;
    }
    if let Some(HostBlock {
        owned: Some(layout),
        ..
    }) = blocks.remove(&address)
    {
        // SAFETY: allocated by `allocate_host` with this layout; no table names it any more.
        unsafe { dealloc(address as *mut u8, layout) };
    }
    Ok(())
}

/// Pinned or registered memory that holds an address: its first byte, its device address (the same), flags, and
/// whether it is managed.
pub fn host_block<T>(
    runtime: &Runtime,
    address: u64,
    read: impl FnOnce(&HostBlock) -> T,
) -> Option<T> {
    let blocks = runtime.host_blocks.lock();
    let (_, block) = blocks.range(..=address).next_back()?;
    (address - block.address < block.bytes.max(1)).then(|| read(block))
}

/// `hipMalloc`.
pub fn allocate_device(device: &Device, bytes: usize) -> Result<u64> {
    device.healthy()?;
    Ok(device
        .memory
        .allocate(bytes as u64, AllocationKind::Device)?)
}

/// `hipFree` and, with `asynchronous`, `hipFreeAsync`. Null is no error.
pub fn free_device(runtime: &Runtime, address: u64, asynchronous: bool) -> Result {
    if address == 0 {
        return Ok(());
    }
    if let Some(owned) = host_block(runtime, address, |block| {
        block.managed && block.address == address
    }) {
        if owned && !asynchronous {
            return remove_host_block(runtime, address, true);
        }
    }
    let invalid = |text: String| HipError::new(Code::InvalidValue, text);
    let device = runtime.owner(address).ok_or_else(|| {
        invalid(format!(
            "free of {address:#x}: {}",
            runtime.current().memory.nearest(address)
        ))
    })?;
    let info = device.memory.lookup(address);
    match info {
        Some(AllocationInfo {
            kind: AllocationKind::Device,
            ..
        }) => {}
        _ => {
            return Err(invalid(format!(
                "{address:#x} was not allocated with hipMalloc"
            )))
        }
    }
    device
        .memory
        .free(address)
        .map_err(|error| invalid(error.to_string()))?;
    for pool in runtime.pools.all() {
        if let Some(bytes) = pool.allocations.lock().remove(&address) {
            pool.used.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// `hipMallocAsync` from a pool.
pub fn allocate_from_pool(runtime: &Runtime, pool: *const c_void, bytes: usize) -> Result<u64> {
    let pool = runtime.pools.get(pool)?;
    let address = allocate_device(&runtime.devices[pool.device], bytes)?;
    pool.allocations.lock().insert(address, bytes as u64);
    let used = pool.used.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    pool.used_high.fetch_max(used, Ordering::Relaxed);
    Ok(address)
}

/// What a copy's kind says about an end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Host,
    Device,
    Either,
}

/// A copy of `rows` rows of `width` bytes; plain copies have one row.
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
            to_end,
            from_end,
        })
    }
}

/// Do a copy.
///
/// # Errors
/// `hipErrorInvalidValue` when either end is not inside an allocation of the side that the kind names, or, on the
/// host, not mapped.
pub fn rectangle(runtime: &Runtime, copy: &Rectangle) -> Result {
    if copy.width == 0 {
        return Ok(());
    }
    let to = place(runtime, copy.to, copy.to_end)?;
    let from = place(runtime, copy.from, copy.from_end)?;
    for row in 0..copy.rows {
        let to_row = copy.to.wrapping_add(row.wrapping_mul(copy.to_pitch));
        let from_row = copy.from.wrapping_add(row.wrapping_mul(copy.from_pitch));
        bytes(to, to_row, from, from_row, copy.width)?;
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
