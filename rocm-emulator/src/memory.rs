//! The device's address space: live allocations, and the check of every access against them.
//!
//! A device address is the host address of the bytes behind it, so a pointer in a kernel argument needs no
//! translation. Nothing is trusted for that: kernels and host copies reach memory through a lookup among the
//! live allocations. A guard gap follows each allocation, so that one element past its end is never another one.
//!
//! A launch takes a [`Snapshot`]: an immutable, sorted list of what was live, looked up without a lock. It keeps
//! the bytes alive, so a `free` that races a launch is harmless to the process.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::RwLock;

mod peers;
mod written;

use peers::Peers;
use written::Written;

/// Alignment of every allocation, as `hipMalloc` gives.
const ALIGNMENT: usize = 256;
/// Bytes after each allocation that belong to none.
const GUARD: usize = 4096;
/// Most bytes past an allocation's end that loads may be let read: they lie in the gap after it.
pub const MAX_READ_PAST_END: u32 = GUARD as u32;
/// Freed ranges remembered for fault messages.
const REMEMBERED_FREES: usize = 1024;
/// Freed bytes held back from the host's allocator, so that a use after free still finds nothing live there.
const QUARANTINE_BYTES: usize = 16 << 20;

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationKind {
    /// `hipMalloc`.
    Device,
    /// `hipHostMalloc` or `hipHostRegister`: the host uses the same address.
    PinnedHost,
    /// A loaded code object with its globals.
    Code,
    /// Kernel arguments.
    Kernarg,
}

/// One live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationInfo {
    /// First address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// What it is for.
    pub kind: AllocationKind,
}

impl AllocationInfo {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.base + self.size
    }

    fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.base && address - self.base <= self.size && bytes <= self.end() - address
    }
}

/// The device has no room left.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of device memory: {requested} bytes asked for, {used} of {total} in use")]
pub struct OutOfMemory {
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes the device has.
    pub total: u64,
}

/// A free of an address that is no live allocation's first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:#x} is not the start of a live allocation; {nearest}")]
pub struct InvalidAddress {
    /// The address.
    pub address: u64,
    /// The nearest allocation, in words.
    pub nearest: String,
}

/// A host-side read, write, copy or fill that leaves the live allocations.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{access} of {bytes} bytes at {address:#x} is not inside a live allocation; {nearest}")]
pub struct InvalidAccess {
    /// `read` or `write`.
    pub access: &'static str,
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The nearest allocation, in words.
    pub nearest: String,
}

/// Host memory behind an allocation, released when the last user drops it.
struct Backing {
    block: *mut u8,
    layout: Layout,
}

// SAFETY: the block is plain memory owned by this value; access to it is governed by `Memory`.
unsafe impl Send for Backing {}
// SAFETY: as above; no method hands out references.
unsafe impl Sync for Backing {}

impl Backing {
    /// Zeroed memory with room for alignment and the guard; the host maps large blocks lazily.
    fn new(bytes: usize) -> Option<(Backing, u64)> {
        let room = bytes.checked_add(ALIGNMENT + GUARD)?;
        let layout = Layout::from_size_align(room, 16).ok()?;
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        if block.is_null() {
            return None;
        }
        let base = (block as u64).next_multiple_of(ALIGNMENT as u64);
        Some((Backing { block, layout }, base))
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and dropped once.
        unsafe { dealloc(self.block, self.layout) }
    }
}

#[derive(Clone)]
struct Allocation {
    info: AllocationInfo,
    /// `None` for registered host memory.
    backing: Option<Arc<Backing>>,
    /// What was written, if that is asked for.
    written: Option<Arc<Written>>,
}

impl Allocation {
    fn mark(&self, address: u64, bytes: u64, known: bool) {
        if let Some(written) = &self.written {
            written.mark(address, address + bytes, known);
        }
    }
}

#[derive(Default)]
struct State {
    live: BTreeMap<u64, Allocation>,
    used: u64,
    freed: VecDeque<AllocationInfo>,
    quarantine: VecDeque<Arc<Backing>>,
    quarantined: usize,
    snapshot: Option<Arc<Snapshot>>,
}

impl State {
    fn find(&self, address: u64, bytes: u64) -> Option<&Allocation> {
        let (_, allocation) = self.live.range(..=address).next_back()?;
        allocation
            .info
            .contains(address, bytes)
            .then_some(allocation)
    }
}

impl State {
    /// A range, which is inside an allocation, was written.
    fn mark(&self, address: u64, bytes: u64) {
        if let Some(allocation) = self.find(address, bytes) {
            allocation.mark(address, bytes, true);
        }
    }

    /// A range was copied: what nothing had written stays so.
    fn mark_copy(&self, to: u64, from: u64, bytes: u64) {
        let (Some(target), Some(source)) = (self.find(to, bytes), self.find(from, bytes)) else {
            return;
        };
        let mut unknown = Vec::new();
        if let (Some(written), true) = (&source.written, target.written.is_some()) {
            written.unknown(from, from + bytes, |at| unknown.push(to + (at - from)));
        }
        target.mark(to, bytes, true);
        for at in unknown {
            target.mark(at, 1, false);
        }
    }
}

/// What was live when a launch began; see the module's text.
pub struct Snapshot {
    /// Sorted by base.
    ranges: Box<[AllocationInfo]>,
    /// What was written of each, if that is asked for.
    written: Box<[Option<Arc<Written>>]>,
    _backings: Box<[Arc<Backing>]>,
}

impl Snapshot {
    /// One of several, the first of which is a device's own, the others its peers'. Host memory is in each.
    fn merged(parts: &[Arc<Snapshot>]) -> Snapshot {
        let mut entries: Vec<_> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let of_part = part
                .ranges
                .iter()
                .copied()
                .zip(part.written.iter().cloned());
            entries.extend(
                of_part.filter(|(info, _)| number == 0 || info.kind != AllocationKind::PinnedHost),
            );
        }
        entries.sort_by_key(|(info, _)| info.base);
        let (ranges, written): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let backings = parts.iter().flat_map(|part| part._backings.iter().cloned());
        Snapshot {
            ranges: ranges.into(),
            written: written.into(),
            _backings: backings.collect(),
        }
    }

    /// The allocation that holds `address`, as its range of addresses.
    #[inline]
    pub fn find(&self, address: u64) -> Option<(u64, u64)> {
        self.at_or_before(address).filter(|&(_, end)| address < end)
    }

    /// The last allocation that begins at `address` or before it, as its range of addresses.
    #[inline]
    pub(crate) fn at_or_before(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.ranges.partition_point(|range| range.base <= address);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        Some((range.base, range.end()))
    }

    /// What the allocation that holds `address` is for.
    pub(crate) fn kind(&self, address: u64) -> Option<AllocationKind> {
        let after = self.ranges.partition_point(|range| range.base <= address);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        (address < range.end()).then_some(range.kind)
    }

    /// What was written of the allocation that holds a range.
    fn written(&self, address: u64, bytes: u64) -> Option<&Written> {
        let after = self.ranges.partition_point(|range| range.base <= address);
        let at = after.checked_sub(1)?;
        let inside = self.ranges[at].contains(address, bytes);
        self.written[at].as_deref().filter(|_| inside)
    }

    /// A range was written with what is known, or is not; what is in no allocation is left.
    pub(crate) fn mark(&self, address: u64, bytes: u64, known: bool) {
        if let Some(written) = self.written(address, bytes) {
            written.mark(address, address + bytes, known);
        }
    }

    /// Visit the addresses of a range that nothing has written since they were allocated.
    pub(crate) fn unknown(&self, address: u64, bytes: u64, visit: impl FnMut(u64)) {
        if let Some(written) = self.written(address, bytes) {
            written.unknown(address, address + bytes, visit);
        }
    }

    /// Whether a range that is in no allocation lies within `room` bytes (at most [`MAX_READ_PAST_END`]) past the end of
    /// one, so that it can at least be read. Memory that the host registered has no such room.
    pub fn is_just_past(&self, address: u64, bytes: u64, room: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.base <= address);
        let range = after.checked_sub(1).and_then(|at| self.ranges.get(at));
        let room = room.min(MAX_READ_PAST_END.into());
        range.is_some_and(|range| {
            range.kind != AllocationKind::PinnedHost
                && address.saturating_add(bytes) <= range.end() + room
        })
    }
}

/// One device's memory.
pub struct Memory {
    total: u64,
    state: RwLock<State>,
    remember_writes: AtomicBool,
    peers: Peers<Memory, Snapshot>,
}

impl Memory {
    /// A device with room for `total` bytes. The host's memory is taken as allocations are touched.
    pub fn new(total: u64) -> Memory {
        Memory {
            total,
            state: RwLock::new(State::default()),
            remember_writes: AtomicBool::new(false),
            peers: Peers::new(),
        }
    }

    /// Lets the device's kernels reach another device's memory; false if they do already.
    pub fn reach(&self, other: &'static Memory) -> bool {
        self.peers.add(other)
    }

    /// Ends [`Memory::reach`]; false if there was none.
    pub fn leave(&self, other: &'static Memory) -> bool {
        self.peers.remove(other)
    }

    /// Remember, for device memory that is allocated from now on, what of it was ever written: the check of
    /// uninitialised values asks.
    pub fn remember_writes(&self) {
        self.remember_writes.store(true, Ordering::Relaxed);
    }

    /// Bytes that the device has.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes in live allocations; registered host memory is not counted.
    pub fn used(&self) -> u64 {
        self.state.read().used
    }

    /// Allocate zeroed, 256-byte aligned memory. Zero bytes give an address at which no access is valid.
    ///
    /// # Errors
    /// When the device, or the host behind it, has no room.
    pub fn allocate(&self, bytes: u64, kind: AllocationKind) -> Result<u64, OutOfMemory> {
        let mut state = self.state.write();
        let refused = OutOfMemory {
            requested: bytes,
            used: state.used,
            total: self.total,
        };
        if bytes > self.total - state.used {
            return Err(refused);
        }
        let Some((backing, base)) = usize::try_from(bytes).ok().and_then(Backing::new) else {
            return Err(refused);
        };
        let info = AllocationInfo {
            base,
            size: bytes,
            kind,
        };
        let remembers =
            kind == AllocationKind::Device && self.remember_writes.load(Ordering::Relaxed);
        state.used += bytes;
        state.snapshot = None;
        // The addresses are live again: a fault there is no longer a use after free.
        state
            .freed
            .retain(|old| old.end() <= base || old.base >= info.end());
        state.live.insert(
            base,
            Allocation {
                info,
                backing: Some(Arc::new(backing)),
                written: remembers.then(|| Arc::new(Written::new(base, bytes))),
            },
        );
        Ok(base)
    }

    /// Release the allocation that starts at `address`.
    ///
    /// # Errors
    /// When no allocation made by [`Memory::allocate`] starts there.
    pub fn free(&self, address: u64) -> Result<(), InvalidAddress> {
        let mut state = self.state.write();
        let allocated = |allocation: &Allocation| allocation.backing.is_some();
        if !state.live.get(&address).is_some_and(allocated) {
            drop(state);
            return Err(self.invalid_address(address));
        }
        let Some(allocation) = state.live.remove(&address) else {
            return Ok(());
        };
        state.used -= allocation.info.size;
        state.snapshot = None;
        if state.freed.len() == REMEMBERED_FREES {
            state.freed.pop_front();
        }
        state.freed.push_back(allocation.info);
        if let Some(backing) = allocation.backing {
            let size = backing.layout.size();
            if size <= QUARANTINE_BYTES {
                state.quarantined += size;
                state.quarantine.push_back(backing);
            }
        }
        while state.quarantined > QUARANTINE_BYTES {
            let Some(oldest) = state.quarantine.pop_front() else {
                break;
            };
            state.quarantined -= oldest.layout.size();
        }
        Ok(())
    }

    /// Make host memory reachable by kernels under its own address.
    ///
    /// # Errors
    /// When the range overlaps a live allocation.
    ///
    /// # Safety
    /// The bytes must stay valid for reads and writes until [`Memory::unregister_host`] and the end of every
    /// launch that began before it.
    pub unsafe fn register_host(&self, address: u64, bytes: u64) -> Result<(), InvalidAddress> {
        let mut state = self.state.write();
        let end = address.checked_add(bytes);
        let overlaps = |end: u64| {
            let before = state.live.range(..end).next_back();
            before.is_some_and(|(_, other)| other.info.end() > address)
        };
        if address == 0 || end.is_none_or(overlaps) {
            drop(state);
            return Err(self.invalid_address(address));
        }
        let info = AllocationInfo {
            base: address,
            size: bytes,
            kind: AllocationKind::PinnedHost,
        };
        state.snapshot = None;
        let allocation = Allocation {
            info,
            backing: None,
            written: None,
        };
        state.live.insert(address, allocation);
        Ok(())
    }

    /// End a registration.
    ///
    /// # Errors
    /// When no registration starts at `address`.
    pub fn unregister_host(&self, address: u64) -> Result<(), InvalidAddress> {
        let mut state = self.state.write();
        let registered = |allocation: &Allocation| allocation.backing.is_none();
        if !state.live.get(&address).is_some_and(registered) {
            drop(state);
            return Err(self.invalid_address(address));
        }
        state.live.remove(&address);
        state.snapshot = None;
        Ok(())
    }

    /// The live allocation that holds `address`. An empty allocation holds its own address.
    pub fn lookup(&self, address: u64) -> Option<AllocationInfo> {
        let state = self.state.read();
        let info = state.find(address, 0)?.info;
        (address < info.end() || info.size == 0).then_some(info)
    }

    /// Every live allocation, by address.
    pub fn allocations(&self) -> Vec<AllocationInfo> {
        let state = self.state.read();
        state.live.values().map(|live| live.info).collect()
    }

    /// What is live now, here and at the devices that are reached, for lock-free checks. Cached until the next change.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let own = self.own_snapshot();
        self.peers
            .with_peers(own, Memory::own_snapshot, Snapshot::merged)
    }

    fn own_snapshot(&self) -> Arc<Snapshot> {
        if let Some(snapshot) = &self.state.read().snapshot {
            return snapshot.clone();
        }
        let mut state = self.state.write();
        let snapshot = Arc::new(Snapshot {
            ranges: state.live.values().map(|live| live.info).collect(),
            written: state
                .live
                .values()
                .map(|live| live.written.clone())
                .collect(),
            _backings: state
                .live
                .values()
                .filter_map(|live| live.backing.clone())
                .collect(),
        });
        state.snapshot = Some(snapshot.clone());
        snapshot
    }

    /// Copy device bytes to the host.
    ///
    /// # Errors
    /// When the range is not inside one live allocation.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), InvalidAccess> {
        let state = self.state.read();
        self.check(&state, "read", address, into.len() as u64)?;
        // SAFETY: the range is inside a live allocation, which the lock keeps alive, and `into` is the caller's own.
        // It may itself be device memory the host was given (pinned), hence the overlapping copy.
        unsafe { std::ptr::copy(address as *const u8, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copy host bytes to the device.
    ///
    /// # Errors
    /// When the range is not inside one live allocation.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), InvalidAccess> {
        let state = self.state.read();
        self.check(&state, "write", address, from.len() as u64)?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy(from.as_ptr(), address as *mut u8, from.len()) };
        state.mark(address, from.len() as u64);
        Ok(())
    }

    /// Copy between device ranges, which may overlap.
    ///
    /// # Errors
    /// When either range is not inside one live allocation.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), InvalidAccess> {
        let state = self.state.read();
        self.check(&state, "read", from, bytes)?;
        self.check(&state, "write", to, bytes)?;
        // SAFETY: both ranges are inside live allocations, kept alive by the lock; `copy` allows overlap.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize) };
        state.mark_copy(to, from, bytes);
        Ok(())
    }

    /// Repeat `pattern` (1, 2, 4 or any number of bytes) `count` times from `address` on.
    ///
    /// # Errors
    /// When the range is not inside one live allocation.
    pub fn fill(&self, address: u64, pattern: &[u8], count: u64) -> Result<(), InvalidAccess> {
        let state = self.state.read();
        let bytes = count.saturating_mul(pattern.len() as u64);
        self.check(&state, "write", address, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let to = address as *mut u8;
        state.mark(address, bytes);
        if pattern.iter().all(|&byte| byte == pattern[0]) {
            // SAFETY: the range was checked and the lock keeps it alive.
            unsafe { std::ptr::write_bytes(to, pattern[0], bytes as usize) };
            return Ok(());
        }
        for i in 0..count as usize {
            // SAFETY: as above; `i` stays below `count`.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    pattern.as_ptr(),
                    to.add(i * pattern.len()),
                    pattern.len(),
                );
            }
        }
        Ok(())
    }

    /// The allocation nearest to an address that an access missed, in words for a fault message.
    pub fn nearest(&self, address: u64) -> String {
        let state = self.state.read();
        let range = |info: &AllocationInfo| {
            format!("{:#x}..{:#x} ({} bytes)", info.base, info.end(), info.size)
        };
        let freed = state
            .freed
            .iter()
            .rev()
            .find(|old| address >= old.base && address < old.end().max(old.base + 1));
        if let Some(old) = freed {
            return format!("inside the freed allocation {}", range(old));
        }
        let before = state.live.range(..=address).next_back();
        let after = state.live.range(address..).next();
        let past = before.map(|(_, live)| (address.saturating_sub(live.info.end()), &live.info));
        let ahead = after.map(|(&base, live)| (base - address, &live.info));
        match (past, ahead) {
            (None, None) => "nothing is allocated".to_string(),
            (Some((distance, info)), next)
                if next.is_none_or(|(ahead, _)| distance <= ahead) && address >= info.end() =>
            {
                format!(
                    "nearest allocation {}, {distance} bytes before this address",
                    range(info)
                )
            }
            (Some((_, info)), _) if address < info.end() => {
                format!(
                    "{} bytes before the end of the allocation {}",
                    info.end() - address,
                    range(info)
                )
            }
            (_, Some((distance, info))) => format!(
                "nearest allocation {}, {distance} bytes after this address",
                range(info)
            ),
            (Some((_, info)), None) => format!("nearest allocation {}", range(info)),
        }
    }

    fn invalid_address(&self, address: u64) -> InvalidAddress {
        InvalidAddress {
            address,
            nearest: self.nearest(address),
        }
    }

    fn check(
        &self,
        state: &State,
        access: &'static str,
        address: u64,
        bytes: u64,
    ) -> Result<(), InvalidAccess> {
        if bytes == 0 || state.find(address, bytes).is_some() {
            return Ok(());
        }
        // The caller holds a read lock; parking_lot would deadlock on a second one if a writer waits.
        let nearest = state.find(address, 0).map_or_else(
            || "no live allocation holds its first byte".to_string(),
            |live| {
                format!(
                    "the allocation {:#x}..{:#x} ends before it does",
                    live.info.base,
                    live.info.end()
                )
            },
        );
        Err(InvalidAccess {
            access,
            address,
            bytes,
            nearest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_zeroed_and_apart() {
        let memory = Memory::new(1 << 20);
        let first = memory.allocate(100, AllocationKind::Device).unwrap();
        let second = memory.allocate(100, AllocationKind::Device).unwrap();
        assert_eq!(first % 256, 0);
        assert!(first.abs_diff(second) >= 100 + GUARD as u64);
        let mut bytes = [1u8; 100];
        memory.read(first, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 100]);
        assert_eq!(memory.used(), 200);
        assert_eq!(memory.lookup(first + 99).unwrap().base, first);
        assert!(memory.lookup(first + 100).is_none());
    }

    #[test]
    fn host_accesses_are_checked() {
        let memory = Memory::new(1 << 20);
        let a = memory.allocate(64, AllocationKind::Device).unwrap();
        memory.fill(a, &[1, 2], 32).unwrap();
        memory.copy(a + 1, a, 63).unwrap();
        let mut bytes = [0u8; 4];
        memory.read(a, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 1, 2, 1]);
        assert!(memory.read(a + 61, &mut bytes).is_err());
        assert!(memory.write(a + 64, &[0]).is_err());
        assert!(memory.fill(a, &[0], 65).is_err());
        assert!(memory.copy(a, a + 1, 64).is_err());
        memory.write(a + 64, &[]).unwrap();
    }

    #[test]
    fn the_device_runs_out() {
        let memory = Memory::new(1000);
        let a = memory.allocate(600, AllocationKind::Device).unwrap();
        let error = memory.allocate(600, AllocationKind::Device).unwrap_err();
        assert_eq!((error.requested, error.used, error.total), (600, 600, 1000));
        memory.free(a).unwrap();
        memory.allocate(1000, AllocationKind::Device).unwrap();
        assert!(Memory::new(u64::MAX)
            .allocate(u64::MAX - 10, AllocationKind::Device)
            .is_err());
    }

    #[test]
    fn frees_are_checked_and_remembered() {
        let memory = Memory::new(1 << 20);
        let a = memory.allocate(64, AllocationKind::Device).unwrap();
        assert!(memory.free(a + 1).is_err());
        let snapshot = memory.snapshot();
        memory.free(a).unwrap();
        assert!(memory.free(a).is_err());
        assert!(memory.nearest(a + 8).contains("freed"));
        assert!(snapshot.find(a).is_some(), "a snapshot keeps what it saw");
        assert!(memory.snapshot().find(a).is_none());
    }

    #[test]
    fn registered_host_memory_is_reachable_but_not_freed() {
        let memory = Memory::new(1 << 20);
        let mut host = vec![7u8; 128];
        let address = host.as_mut_ptr() as u64;
        // SAFETY: `host` outlives the registration.
        unsafe { memory.register_host(address, 128) }.unwrap();
        // SAFETY: refused, so nothing is registered.
        assert!(unsafe { memory.register_host(address + 64, 128) }.is_err());
        let mut bytes = [0u8; 2];
        memory.read(address + 126, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 7]);
        assert!(memory.free(address).is_err());
        assert_eq!(memory.used(), 0);
        memory.unregister_host(address).unwrap();
        assert!(memory.lookup(address).is_none());
    }

    #[test]
    fn peers_are_reached_by_kernels_alone() {
        let memory = Memory::new(1 << 20);
        let peer: &'static Memory = Box::leak(Box::new(Memory::new(1 << 20)));
        let own = memory.allocate(64, AllocationKind::Device).unwrap();
        let theirs = peer.allocate(64, AllocationKind::Device).unwrap();
        assert!(memory.snapshot().find(theirs).is_none());
        assert!(memory.reach(peer) && !memory.reach(peer));
        let both = memory.snapshot();
        assert!(both.find(own).is_some() && both.find(theirs).is_some());
        assert!(Arc::ptr_eq(&both, &memory.snapshot()));
        assert!(memory.lookup(theirs).is_none() && peer.snapshot().find(own).is_none());
        let later = peer.allocate(64, AllocationKind::Device).unwrap();
        assert!(memory.snapshot().find(later).is_some());
        assert!(memory.leave(peer) && !memory.leave(peer));
        assert!(memory.snapshot().find(theirs).is_none());
    }

    #[test]
    fn nearest_names_the_neighbour() {
        let memory = Memory::new(1 << 20);
        assert_eq!(memory.nearest(4096), "nothing is allocated");
        let a = memory.allocate(64, AllocationKind::Device).unwrap();
        assert!(memory.nearest(a + 64).contains("0 bytes before"));
        assert!(memory.nearest(a - 4).contains("4 bytes after"));
        assert!(memory.nearest(a + 62).contains("2 bytes before the end"));
    }
}
