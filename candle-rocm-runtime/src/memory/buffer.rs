//! Memory on a GPU: [`DeviceBuffer`] owns it, [`View`] and [`ViewMut`] borrow parts of it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::access::{read_access, wait_all, write_access};
use super::view::{describe, range_or_panic, to_range};
use crate::base::cuda_names::CUdeviceptr;
use crate::pool::known_parameters::KnownParameters;
use crate::stream::context::Context;
use crate::stream::event::UseMark;
use crate::stream::queue::Stream;

pub use super::access::{DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
pub use super::view::{View, ViewMut};

/// `len` elements of `T` on a GPU. Dropping it returns the memory to the pool, in the order of its
/// stream.
pub struct DeviceBuffer<T> {
    pub(crate) ptr: CUdeviceptr,
    pub(crate) len: usize,
    pub(crate) read: Option<UseMark>,
    pub(crate) write: Option<UseMark>,
    pub(crate) stream: Arc<Stream>,
    /// That it is known what is in it.
    pub(crate) parameters: Option<KnownParameters>,
    pub(crate) marker: PhantomData<*const T>,
}

// SAFETY: the buffer holds an address that the host never follows; HIP orders the device's accesses.
unsafe impl<T> Send for DeviceBuffer<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for DeviceBuffer<T> {}

impl<T> DeviceBuffer<T> {
    pub(crate) fn from_raw_parts(ptr: CUdeviceptr, len: usize, stream: &Arc<Stream>) -> Self {
        let tracked = stream.context().is_event_tracking();
        Self {
            ptr,
            len,
            read: tracked.then(UseMark::default),
            write: tracked.then(UseMark::default),
            stream: stream.clone(),
            parameters: None,
            marker: PhantomData,
        }
    }

    /// Notes that the address is given to others than our kernels, which only read parameters.
    #[inline]
    pub(crate) fn expose(&self) {
        if let Some(parameters) = &self.parameters {
            parameters.expose();
        }
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

    /// The GPU's number.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal()
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// The stream that it was allocated on and will be freed on.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The whole buffer as a view.
    pub fn as_view(&self) -> View<'_, T> {
        self.expose();
        View {
            ptr: self.ptr,
            len: self.len,
            read: &self.read,
            write: &self.write,
            stream: &self.stream,
            marker: PhantomData,
        }
    }

    /// The whole buffer as a mutable view.
    pub fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.expose();
        ViewMut {
            ptr: self.ptr,
            len: self.len,
            read: &self.read,
            write: &self.write,
            stream: &self.stream,
            marker: PhantomData,
        }
    }

    /// A part of the buffer.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[track_caller]
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> View<'_, T> {
        self.as_view().slice(bounds)
    }

    /// A part of the buffer, or `None` if the range is not within it.
    pub fn try_slice(&self, bounds: impl RangeBounds<usize>) -> Option<View<'_, T>> {
        self.as_view().try_slice(bounds)
    }

    /// A mutable part of the buffer.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    #[track_caller]
    pub fn slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = range_or_panic(bounds, self.len);
        self.as_view_mut().into_part(start, end)
    }

    /// A mutable part of the buffer, or `None` if the range is not within it.
    pub fn try_slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> Option<ViewMut<'_, T>> {
        let (start, end) = to_range(bounds, self.len)?;
        Some(self.as_view_mut().into_part(start, end))
    }

    /// The same bytes as `len` elements of another type; `None` if there are not so many bytes.
    ///
    /// # Safety
    /// The bytes are values of `S`.
    pub unsafe fn transmute<S>(&self, len: usize) -> Option<View<'_, S>> {
        // SAFETY: the caller's promise.
        unsafe { self.as_view().transmute(len) }
    }

    /// The same bytes as `len` elements of another type, mutably; `None` if there are not so many bytes.
    ///
    /// # Safety
    /// The bytes are values of `S`, and what is written are values of `T`.
    pub unsafe fn transmute_mut<S>(&mut self, len: usize) -> Option<ViewMut<'_, S>> {
        self.as_view_mut().into_type(len)
    }

    /// The parts before and from `mid`.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at(&self, mid: usize) -> (View<'_, T>, View<'_, T>) {
        self.as_view().split_at(mid)
    }

    /// The parts before and from `mid`, or `None` if `mid > len`.
    pub fn try_split_at(&self, mid: usize) -> Option<(View<'_, T>, View<'_, T>)> {
        self.as_view().try_split_at(mid)
    }

    /// The parts before and from `mid`, mutably.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at_mut(&mut self, mid: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        let len = self.len;
        match self.try_split_at_mut(mid) {
            Some(parts) => parts,
            None => panic!("split at {mid} of a device buffer of {len} elements"),
        }
    }

    /// The parts before and from `mid`, mutably, or `None` if `mid > len`.
    pub fn try_split_at_mut(&mut self, mid: usize) -> Option<(ViewMut<'_, T>, ViewMut<'_, T>)> {
        self.as_view_mut().into_split(mid)
    }

    /// Gives the address away; the memory is freed when [`Stream::upgrade_device_ptr`] takes it back.
    pub fn leak(self) -> CUdeviceptr {
        let ptr = self.ptr;
        self.expose();
        self.return_parameters();
        if self.context().is_managing_stream_synchronization() {
            self.context()
                .record_err(wait_all(&self.read, &self.write, &self.stream));
        }
        let mut this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is never touched again, so each field is dropped exactly once.
        unsafe {
            std::ptr::drop_in_place(&mut this.read);
            std::ptr::drop_in_place(&mut this.write);
            std::ptr::drop_in_place(&mut this.stream);
        }
        ptr
    }

    /// Whether the pool keeps the memory for the sake of what is in it.
    #[inline]
    fn return_parameters(&self) -> bool {
        self.parameters.as_ref().is_some_and(|parameters| {
            let pool = self.context().device().pool();
            pool.return_parameters(parameters, self.stream.key())
        })
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if self.ptr == 0 {
            return;
        }
        let context = self.stream.context();
        if context.is_managing_stream_synchronization() {
            // The memory is next used in its own stream's order: that stream waits for the others' uses.
            context.record_err(wait_all(&self.read, &self.write, &self.stream));
        }
        if !self.return_parameters() {
            context.record_err(context.device().pool().free(self.ptr, self.stream.key()));
        }
    }
}

impl<T> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe(
            "DeviceBuffer",
            std::any::type_name::<T>(),
            self.ptr,
            self.len,
            f,
        )
    }
}

impl<T> DeviceSlice<T> for DeviceBuffer<T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}

impl<T> DevicePtr<T> for DeviceBuffer<T> {
    fn device_ptr<'a>(&'a self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.expose();
        read_access(self.ptr, &self.read, &self.write, &self.stream, stream)
    }
}

impl<T> DevicePtrMut<T> for DeviceBuffer<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.expose();
        write_access(self.ptr, &self.read, &self.write, &self.stream, stream)
    }
}
