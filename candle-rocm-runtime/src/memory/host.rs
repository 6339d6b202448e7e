//! Host memory that copies go to and from: slices, arrays, vectors and page-locked memory.

use std::sync::Arc;

use super::access::SyncOnDrop;
use crate::base::cuda_names::{CUevent_flags, CU_MEMHOSTALLOC_WRITECOMBINED};
use crate::base::dtype::{DeviceRepr, ValidAsZeroBits};
use crate::base::error::{Error, Result};
use crate::stream::context::Context;
use crate::stream::event::Event;
use crate::stream::queue::Stream;

/// Host memory that a copy can use.
pub trait HostSlice<T> {
    /// Number of elements.
    fn len(&self) -> usize;

    /// True if there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the memory is page-locked, so that copies may still run when the call returns.
    fn is_pinned(&self) -> bool {
        false
    }

    /// The elements, once `stream` has been made to wait for their other uses.
    ///
    /// # Safety
    /// The elements are used only by work given to `stream` while the guard lives.
    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a Stream) -> (&'a [T], SyncOnDrop<'a>);

    /// The elements, mutably, once `stream` has been made to wait for their other uses.
    ///
    /// # Safety
    /// The elements are used only by work given to `stream` while the guard lives.
    unsafe fn stream_synced_mut_slice<'a>(
        &'a mut self,
        stream: &'a Stream,
    ) -> (&'a mut [T], SyncOnDrop<'a>);
}

macro_rules! pageable {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {
        $(
            impl<T, $($generics)*> HostSlice<T> for $type {
                fn len(&self) -> usize {
                    <[T]>::len(self)
                }
                unsafe fn stream_synced_slice<'a>(&'a self, _: &'a Stream) -> (&'a [T], SyncOnDrop<'a>) {
                    (self, SyncOnDrop::nothing())
                }
                unsafe fn stream_synced_mut_slice<'a>(
                    &'a mut self,
                    _: &'a Stream,
                ) -> (&'a mut [T], SyncOnDrop<'a>) {
                    (self, SyncOnDrop::nothing())
                }
            }
        )*
    };
}
pageable!([const N: usize] [T; N], [] [T], [] Vec<T>);

/// Page-locked host memory: copies to and from it run without the host.
#[derive(Debug)]
pub struct PinnedHostSlice<T> {
    ptr: *mut T,
    len: usize,
    event: Event,
}

// SAFETY: the memory belongs to this object alone, like a `Box<[T]>`.
unsafe impl<T: Send> Send for PinnedHostSlice<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Sync> Sync for PinnedHostSlice<T> {}

impl Context {
    /// Page-locked memory for `len` elements, write-combined: the host should write it in order and not
    /// read it.
    ///
    /// # Safety
    /// The memory is not initialised.
    pub unsafe fn alloc_pinned<T: DeviceRepr>(
        self: &Arc<Self>,
        len: usize,
    ) -> Result<PinnedHostSlice<T>> {
        // SAFETY: the caller's promise.
        unsafe { self.alloc_pinned_with_flags(len, CU_MEMHOSTALLOC_WRITECOMBINED) }
    }

    /// Page-locked memory for `len` elements; `flags` are 1 portable, 2 mapped, 4 write-combined, or 0.
    ///
    /// # Safety
    /// The memory is not initialised.
    pub unsafe fn alloc_pinned_with_flags<T: DeviceRepr>(
        self: &Arc<Self>,
        len: usize,
        flags: u32,
    ) -> Result<PinnedHostSlice<T>> {
        let bytes = len
            .checked_mul(std::mem::size_of::<T>())
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "{len} elements of {} are more than an address space",
                    std::any::type_name::<T>()
                ))
            })?;
        self.bind_to_thread()?;
        let event = self.new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC))?;
        let mut ptr = std::ptr::null_mut();
        if bytes != 0 {
            let hip = self.device().hip();
            // SAFETY: `ptr` is writable.
            let status = hip.relaxed(|| unsafe { (hip.hipHostMalloc)(&mut ptr, bytes, flags) });
            hip.check(status, || {
                format!("allocating {bytes} bytes of page-locked memory")
            })?;
        }
        let ptr = if ptr.is_null() {
            std::ptr::NonNull::dangling().as_ptr()
        } else {
            ptr.cast::<T>()
        };
        assert!(ptr.is_aligned(), "HIP returned misaligned host memory");
        Ok(PinnedHostSlice { ptr, len, event })
    }
}

impl<T> PinnedHostSlice<T> {
    /// The context it was allocated in.
    pub fn context(&self) -> &Arc<Context> {
        self.event.context()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of bytes.
    pub fn num_bytes(&self) -> usize {
        self.len * std::mem::size_of::<T>()
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: ValidAsZeroBits> PinnedHostSlice<T> {
    /// The address, after waiting for the copies given so far.
    pub fn as_ptr(&self) -> Result<*const T> {
        self.event.synchronize()?;
        Ok(self.ptr)
    }

    /// The address, after waiting for the copies given so far.
    pub fn as_mut_ptr(&mut self) -> Result<*mut T> {
        self.event.synchronize()?;
        Ok(self.ptr)
    }

    /// The elements, after waiting for the copies given so far.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.event.synchronize()?;
        // SAFETY: `len` elements that belong to this object; whoever allocated it promised to fill it.
        Ok(unsafe { std::slice::from_raw_parts(self.ptr, self.len) })
    }

    /// The elements, mutably, after waiting for the copies given so far.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.event.synchronize()?;
        // SAFETY: as above, and borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) })
    }
}

impl<T> HostSlice<T> for PinnedHostSlice<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn is_pinned(&self) -> bool {
        true
    }

    unsafe fn stream_synced_slice<'a>(&'a self, stream: &'a Stream) -> (&'a [T], SyncOnDrop<'a>) {
        stream.context().record_err(stream.wait(&self.event));
        (
            // SAFETY: `len` elements that belong to this object, used in the stream's order.
            unsafe { std::slice::from_raw_parts(self.ptr, self.len) },
            SyncOnDrop::record_event(&self.event, stream),
        )
    }

    unsafe fn stream_synced_mut_slice<'a>(
        &'a mut self,
        stream: &'a Stream,
    ) -> (&'a mut [T], SyncOnDrop<'a>) {
        stream.context().record_err(stream.wait(&self.event));
        (
            // SAFETY: as above, and borrowed mutably.
            unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) },
            SyncOnDrop::record_event(&self.event, stream),
        )
    }
}

impl<T> Drop for PinnedHostSlice<T> {
    fn drop(&mut self) {
        let context = self.event.context();
        context.record_err(self.event.synchronize());
        if self.num_bytes() == 0 {
            return;
        }
        let hip = context.device().hip();
        // SAFETY: allocated by `hipHostMalloc`, and no copy uses it any more.
        let status = hip.relaxed(|| unsafe { (hip.hipHostFree)(self.ptr.cast()) });
        context.record_err(hip.check(status, || "freeing page-locked memory"));
    }
}
