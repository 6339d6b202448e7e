//! Host memory that every device reaches: pinned, managed, or registered by the program.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::host;
use super::state::Runtime;

/// Alignment of pinned host memory, and the room after it that belongs to nothing.
const PAGE: usize = 4096;
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

/// The blocks by first address.
static HOST_BLOCKS: Mutex<BTreeMap<u64, HostBlock>> = Mutex::new(BTreeMap::new());

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
    let mut blocks = HOST_BLOCKS.lock();
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
    let mut blocks = HOST_BLOCKS.lock();
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
pub fn host_block<T>(address: u64, read: impl FnOnce(&HostBlock) -> T) -> Option<T> {
    let blocks = HOST_BLOCKS.lock();
    let (_, block) = blocks.range(..=address).next_back()?;
    (address - block.address < block.bytes.max(1)).then(|| read(block))
}
