//! A user's handle on a GPU: streams and events are created from it, and errors that no call could
//! return wait in it.

use std::fmt;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::cuda_names::{
    CUctx_flags, CUdevice, CUdevice_attribute, CUfunc_cache, CUlimit, CUuuid,
};
use crate::base::error::{Error, Result};
use crate::base::sticky::StickyError;
use crate::base::thread::thread_number;
use crate::device::gpu::Device;
use crate::device::info::DeviceInfo;
use crate::pool::allocator::Waited;
use crate::pool::statistics::PoolStatistics;
use crate::runtime;

/// A handle on a GPU. Thread-safe; every call that needs it makes the GPU current on its thread.
///
/// Several contexts can exist on one GPU; they share its memory pool and its loaded modules.
pub struct Context {
    device: Arc<Device>,
    /// One of [`ONE_STREAM`], [`TURNING`] and [`MANY_STREAMS`], in this order and never back: a stream that is gone may
    /// have left work behind.
    streams: AtomicU8,
    /// Held by who turns to many streams, for others to wait for.
    turning: Mutex<()>,
    event_tracking: AtomicBool,
    /// The first thread that used the per-thread stream, 0 before that.
    per_thread_owner: AtomicU64,
    sticky: StickyError,
}

/// All work so far is ordered by itself: uses of buffers are not tracked.
const ONE_STREAM: u8 = 0;
/// Uses are tracked from here on, and somebody waits for those that were not.
const TURNING: u8 = 1;
/// Streams are ordered by nothing but events, and uses that were not tracked are over.
const MANY_STREAMS: u8 = 2;

impl Context {
    /// A context on the GPU of this ordinal.
    ///
    /// # Errors
    /// The runtime cannot start (see [`crate::runtime`]) or has no such GPU.
    pub fn new(ordinal: usize) -> Result<Arc<Self>> {
        let device = runtime::current()?.device(ordinal)?.clone();
        device.bind()?;
        Ok(Arc::new(Self {
            device,
            streams: AtomicU8::new(ONE_STREAM),
            turning: Mutex::new(()),
            event_tracking: AtomicBool::new(true),
            per_thread_owner: AtomicU64::new(0),
            sticky: StickyError::default(),
        }))
    }

    /// The number of GPUs.
    pub fn device_count() -> Result<i32> {
        Ok(runtime::current()?.device_count() as i32)
    }

    /// The GPU itself.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What is known about the GPU.
    pub fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    /// The GPU's number.
    pub fn ordinal(&self) -> usize {
        self.device.ordinal()
    }

    /// The GPU's number, under cudarc's name.
    pub fn cu_device(&self) -> CUdevice {
        self.device.ordinal() as CUdevice
    }

    /// The GPU's marketing name.
    pub fn name(&self) -> Result<String> {
        self.check_err()?;
        Ok(self.info().name.clone())
    }

    /// Major and minor number of the architecture: (11, 0) for gfx1100.
    pub fn compute_capability(&self) -> Result<(i32, i32)> {
        Ok((
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }

    /// An attribute of the GPU, under CUDA's name for it.
    pub fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32> {
        self.check_err()?;
        attribute.read(&self.device)
    }

    /// Device memory in bytes.
    pub fn total_mem(&self) -> Result<usize> {
        self.check_err()?;
        Ok(self.info().total_memory)
    }

    /// Free and total device memory in bytes; what the pool caches is not free.
    pub fn mem_get_info(&self) -> Result<(usize, usize)> {
        self.check_err()?;
        self.device.memory()
    }

    /// What the memory pool of this GPU holds.
    pub fn pool_statistics(&self) -> PoolStatistics {
        self.device
            .existing_pool()
            .map(|pool| pool.statistics())
            .unwrap_or_default()
    }

    /// True: buffers come from a stream-ordered pool, so that allocating and freeing never block.
    pub fn has_async_alloc(&self) -> bool {
        true
    }

    /// True: HIP has one context for each GPU of a process.
    pub fn is_primary(&self) -> bool {
        true
    }

    /// The same as [`Context::new`]: HIP has one context for each GPU of a process.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn new_non_primary(ordinal: usize, _flags: u32) -> Result<Arc<Self>> {
        Self::new(ordinal)
    }

    /// What tells the GPU from every other.
    ///
    /// # Errors
    /// HIP cannot describe it.
    pub fn uuid(&self) -> Result<CUuuid> {
        self.check_err()?;
        self.device.uuid()
    }

    /// How the CPU waits is HIP's choice: this changes nothing.
    ///
    /// # Errors
    /// One that an earlier call left.
    pub fn set_blocking_synchronize(&self) -> Result<()> {
        self.check_err()
    }

    /// The same: these flags are about waiting.
    ///
    /// # Errors
    /// One that an earlier call left.
    pub fn set_flags(&self, _flags: CUctx_flags) -> Result<()> {
        self.check_err()
    }

    /// Always [`CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE`]: LDS is not shared with the cache.
    ///
    /// # Errors
    /// One that an earlier call left.
    pub fn get_cache_config(&self) -> Result<CUfunc_cache> {
        self.check_err()?;
        Ok(CUfunc_cache::CU_FUNC_CACHE_PREFER_NONE)
    }

    /// A preference, which nothing here depends on.
    ///
    /// # Errors
    /// One that an earlier call left.
    pub fn set_cache_config(&self, _config: CUfunc_cache) -> Result<()> {
        self.check_err()
    }

    /// Limits of stacks and heaps.
    ///
    /// # Errors
    /// Always: AMD's driver sizes them by itself.
    pub fn get_limit(&self, limit: CUlimit) -> Result<usize> {
        Err(no_limit(limit))
    }

    /// Limits of stacks and heaps.
    ///
    /// # Errors
    /// Always: AMD's driver sizes them by itself.
    pub fn set_limit(&self, limit: CUlimit, _value: usize) -> Result<()> {
        Err(no_limit(limit))
    }

    /// Makes the GPU current on this thread, and returns an error that an earlier call left.
    #[inline]
    pub fn bind_to_thread(&self) -> Result<()> {
        self.check_err()?;
        self.device.bind()
    }

    /// Waits for all work on the GPU.
    pub fn synchronize(&self) -> Result<()> {
        self.check_err()?;
        self.device.synchronize()?;
        self.after_synchronisation(Waited::Gpu)?;
        self.check_err()
    }

    /// The host has waited: the pool gives idle memory back.
    pub(crate) fn after_synchronisation(&self, waited: Waited) -> Result<()> {
        self.device
            .existing_pool()
            .map_or(Ok(()), |pool| pool.after_synchronisation(waited))
    }

    /// Whether work of this context has run on more than one stream, so that buffers must track their use.
    #[inline]
    pub fn is_in_multi_stream_mode(&self) -> bool {
        self.streams.load(Ordering::Relaxed) != ONE_STREAM
    }

    /// Whether new buffers track their use by events (the default).
    #[inline]
    pub fn is_event_tracking(&self) -> bool {
        self.event_tracking.load(Ordering::Relaxed)
    }

    /// Whether streams are made to wait for each other's use of a buffer.
    #[inline]
    pub fn is_managing_stream_synchronization(&self) -> bool {
        self.is_in_multi_stream_mode() && self.is_event_tracking()
    }

    /// Whether work that a stream has just been given is to be noted. Asked before giving it, another thread could turn
    /// to many streams in between, and wait for all but this.
    #[inline]
    pub(crate) fn notes_given_work(&self) -> bool {
        // Either this sees the other thread's store, or its wait, which comes after a fence as well, sees the work.
        fence(Ordering::SeqCst);
        self.is_managing_stream_synchronization()
    }

    /// Turns the tracking of buffers on.
    ///
    /// # Safety
    /// Buffers made while tracking was off stay untracked; their user orders their uses.
    pub unsafe fn enable_event_tracking(&self) {
        self.event_tracking.store(true, Ordering::Relaxed);
    }

    /// Turns the tracking of buffers off.
    ///
    /// # Safety
    /// The user orders all uses of a buffer on different streams, its freeing included.
    pub unsafe fn disable_event_tracking(&self) {
        self.event_tracking.store(false, Ordering::Relaxed);
    }

    /// Called for each use of the per-thread stream. Every thread has its own stream behind that one
    /// handle: from the second thread on, buffers must track their use as they do between streams.
    #[inline]
    pub(crate) fn enter_per_thread_stream(&self) -> Result<()> {
        let thread = thread_number();
        if self.per_thread_owner.load(Ordering::Relaxed) == thread
            || self.streams.load(Ordering::Acquire) == MANY_STREAMS
        {
            return Ok(());
        }
        let owner =
            self.per_thread_owner
                .compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed);
        match owner {
            Ok(_) => Ok(()),
            Err(owner) if owner == thread => Ok(()),
            Err(_) => self.turn_to_many_streams(),
        }
    }

    /// From here on buffers track their use; when this returns, work that was not tracked is over, whoever turned.
    pub(crate) fn turn_to_many_streams(&self) -> Result<()> {
        let _turn = self.turning.lock();
        if self.streams.load(Ordering::Relaxed) == MANY_STREAMS {
            return Ok(());
        }
        self.streams.store(TURNING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.is_event_tracking() {
            self.device.synchronize()?;
        }
        self.streams.store(MANY_STREAMS, Ordering::Release);
        Ok(())
    }

    /// Returns the error that an earlier call could not return (a drop, a kernel), once.
    #[inline]
    pub fn check_err(&self) -> Result<()> {
        self.sticky.take()?;
        self.device.sticky().take()
    }

    /// Keeps the error of a result for the next call.
    #[inline]
    pub fn record_err<T>(&self, result: Result<T>) {
        if let Err(error) = result {
            self.keep(error);
        }
    }

    #[cold]
    fn keep(&self, error: Error) {
        tracing::debug!(%error, "kept for the next call");
        self.sticky.set(error);
    }
}

// As with cudarc's: tensors may be caught in an unwinding panic. What is locked is changed in whole steps.
impl std::panic::RefUnwindSafe for Context {}

fn no_limit(limit: CUlimit) -> Error {
    Error::unsupported(format!(
        "{limit:?}: AMD's driver sizes stacks and heaps by itself"
    ))
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.device, &other.device)
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({:?})", self.device)
    }
}
