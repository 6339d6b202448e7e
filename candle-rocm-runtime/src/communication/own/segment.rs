//! The memory that the ranks of a communicator share: one mapping for all ranks of a process, which GPUs reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use super::device_slots::DeviceSlots;
use super::layout::{ChannelWord, Layout, Word};
use super::shared_file::SharedFile;
use crate::base::error::{Error, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::{HOST_MAPPED, HOST_PORTABLE};
use crate::communication::id::{self, Token};
use crate::device::gpu::Device;

/// The memory.
pub(super) struct Segment {
    /// Where what lies.
    pub layout: Layout,
    /// The file behind it.
    pub file: SharedFile,
    /// The GPU that it was registered by.
    device: Arc<Device>,
    /// Slots in GPUs' memory: a rank may read those of one that has left.
    slots: Mutex<Vec<DeviceSlots>>,
}

/// The segments of this process that live.
static SEGMENTS: LazyLock<Mutex<HashMap<Token, Weak<Segment>>>> = LazyLock::new(Mutex::default);

/// A number that no other process has.
pub(super) fn instance() -> Result<u64> {
    static INSTANCE: Mutex<Option<u64>> = Mutex::new(None);
    let mut known = INSTANCE.lock();
    if let Some(instance) = *known {
        return Ok(instance);
    }
    let [low, high] = halves(&id::new_token()?);
    // 0 means that nobody has come.
    let instance = (low ^ high) | 1;
    *known = Some(instance);
    Ok(instance)
}

fn halves(token: &Token) -> [u64; 2] {
    let number = u128::from_le_bytes(*token);
    [number as u64, (number >> 64) as u64]
}

impl Segment {
    /// The segment of a token for so many ranks, whichever rank of whichever process is first.
    ///
    /// # Errors
    /// There is no memory to share, GPUs cannot reach it, or the ranks differ in how many they are.
    pub fn open(token: Token, world: usize, device: &Arc<Device>) -> Result<Arc<Self>> {
        let mut segments = SEGMENTS.lock();
        segments.retain(|_, segment| segment.strong_count() > 0);
        if let Some(segment) = segments.get(&token).and_then(Weak::upgrade) {
            if segment.layout.world != world {
                return Err(Error::invalid(format!(
                    "a rank of {world} comes to {} ranks",
                    segment.layout.world
                )));
            }
            return Ok(segment);
        }
        let layout = Layout { world };
        let [low, high] = halves(&token);
        let file = SharedFile::open(
            &format!("candle-rocm-{low:016x}{high:016x}"),
            layout.bytes(),
        )?;
        let segment = Arc::new(Self {
            layout,
            file,
            device: device.clone(),
            slots: Mutex::default(),
        });
        segment.register()?;
        segments.insert(token, Arc::downgrade(&segment));
        Ok(segment)
    }

    fn register(&self) -> Result<()> {
        self.device.bind()?;
        let hip = self.device.hip();
        let register = optional!(hip, hipHostRegister)?;
        let memory = self.file.memory().as_ptr().cast();
        // SAFETY: the memory is mapped as long as this lives, and unregistered before it is unmapped.
        let status = hip.relaxed(|| unsafe {
            register(memory, self.file.bytes(), HOST_PORTABLE | HOST_MAPPED)
        });
        hip.check(status, || "letting GPUs reach memory that ranks share")
    }

    /// The address of its first byte for the GPU that is current.
    ///
    /// # Errors
    /// The GPU does not reach it.
    pub fn address(&self, device: &Device) -> Result<u64> {
        device.bind()?;
        let hip = device.hip();
        let ask = optional!(hip, hipHostGetDevicePointer)?;
        let mut address = std::ptr::null_mut();
        // SAFETY: the memory is registered; the place is writable.
        let status = unsafe { ask(&mut address, self.file.memory().as_ptr().cast(), 0) };
        hip.check(status, || {
            "asking where a GPU reaches memory that ranks share"
        })?;
        Ok(address as u64)
    }

    /// Keeps slots as long as the segment lives.
    pub fn keep(&self, slots: DeviceSlots) {
        self.slots.lock().push(slots);
    }

    fn word_at(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned, and used as an atomic by all.
        unsafe { &*self.file.memory().as_ptr().add(offset).cast() }
    }

    /// A word of a rank.
    pub fn word(&self, rank: usize, word: Word) -> &AtomicU32 {
        self.word_at(self.layout.word(rank, word))
    }

    /// Two words of a rank as one.
    pub fn wide(&self, rank: usize, word: Word) -> &AtomicU64 {
        let offset = self.layout.word(rank, word);
        // SAFETY: within the mapping, aligned to 8, and used as an atomic by all.
        unsafe { &*self.file.memory().as_ptr().add(offset).cast() }
    }

    /// What a workgroup of a rank's all-reduces waits for.
    pub fn awaits(&self, rank: usize, workgroup: usize) -> &AtomicU32 {
        self.word_at(self.layout.awaits(rank, workgroup))
    }

    /// A word of a channel.
    pub fn channel(&self, from: usize, to: usize, word: ChannelWord) -> &AtomicU32 {
        self.word_at(self.layout.channel(from, to, word))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.file.forget_name();
        let hip = self.device.hip();
        let unregistered = self.device.bind().and_then(|()| {
            let unregister = optional!(hip, hipHostUnregister)?;
            // SAFETY: registered by `register`; the ranks' streams are idle.
            let status = hip.relaxed(|| unsafe { unregister(self.file.memory().as_ptr().cast()) });
            hip.check(status, || "giving back memory that ranks shared")
        });
        if let Err(error) = unregistered {
            tracing::debug!(%error, "memory stays registered");
        }
    }
}
