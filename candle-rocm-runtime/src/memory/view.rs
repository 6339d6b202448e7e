//! Borrowed parts of device memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::access::{read_access, write_access, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use crate::base::cuda_names::CUdeviceptr;
use crate::stream::event::UseMark;
use crate::stream::queue::Stream;

/// A borrowed part of a [`DeviceBuffer`](super::buffer::DeviceBuffer).
pub struct View<'a, T> {
    pub(crate) ptr: CUdeviceptr,
    pub(crate) len: usize,
    pub(crate) read: &'a Option<UseMark>,
    pub(crate) write: &'a Option<UseMark>,
    pub(crate) stream: &'a Arc<Stream>,
    pub(super) marker: PhantomData<&'a [T]>,
}

/// A mutably borrowed part of a [`DeviceBuffer`](super::buffer::DeviceBuffer).
pub struct ViewMut<'a, T> {
    pub(crate) ptr: CUdeviceptr,
    pub(crate) len: usize,
    pub(crate) read: &'a Option<UseMark>,
    pub(crate) write: &'a Option<UseMark>,
    pub(crate) stream: &'a Arc<Stream>,
    pub(crate) marker: PhantomData<&'a mut [T]>,
}

impl<T> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("View", std::any::type_name::<T>(), self.ptr, self.len, f)
    }
}

impl<T> fmt::Debug for ViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("ViewMut", std::any::type_name::<T>(), self.ptr, self.len, f)
    }
}

// SAFETY: as for `DeviceBuffer`: an address that the host never follows.
unsafe impl<T> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T> Sync for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T> Send for ViewMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T> Sync for ViewMut<'_, T> {}

/// Bytes from the start of `count` elements of `T`, which lie within an allocation.
fn bytes_of<T>(count: usize) -> u64 {
    (count * std::mem::size_of::<T>()) as u64
}

/// Whether `wanted` elements of `S` fit into `have` elements of `T`.
fn fits<T, S>(have: usize, wanted: usize) -> bool {
    wanted
        .checked_mul(std::mem::size_of::<S>())
        .is_some_and(|bytes| bytes <= have * std::mem::size_of::<T>())
}

impl<'a, T> View<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn part(&self, start: usize, end: usize) -> Self {
        Self {
            ptr: self.ptr + bytes_of::<T>(start),
            len: end - start,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        }
    }

    /// A part of the view.
    ///
    /// # Panics
    /// If the range is not within the view.
    #[track_caller]
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> Self {
        let (start, end) = range_or_panic(bounds, self.len);
        self.part(start, end)
    }

    /// A part of the view, or `None` if the range is not within it.
    pub fn try_slice(&self, bounds: impl RangeBounds<usize>) -> Option<Self> {
        let (start, end) = to_range(bounds, self.len)?;
        Some(self.part(start, end))
    }

    /// The same bytes as `len` elements of another type; `None` if there are not so many bytes.
    ///
    /// # Safety
    /// The bytes are values of `S`.
    pub unsafe fn transmute<S>(&self, len: usize) -> Option<View<'a, S>> {
        fits::<T, S>(self.len, len).then_some(View {
            ptr: self.ptr,
            len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        })
    }

    /// The parts before and from `mid`.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at(&self, mid: usize) -> (Self, Self) {
        match self.try_split_at(mid) {
            Some(parts) => parts,
            None => panic!("split at {mid} of a device view of {} elements", self.len),
        }
    }

    /// The parts before and from `mid`, or `None` if `mid > len`.
    pub fn try_split_at(&self, mid: usize) -> Option<(Self, Self)> {
        (mid <= self.len).then(|| (self.part(0, mid), self.part(mid, self.len)))
    }

    /// Parts of `chunk_size` elements each.
    ///
    /// # Panics
    /// If `chunk_size` is 0 or does not divide the length.
    #[track_caller]
    pub fn chunks_exact(&self, chunk_size: usize) -> impl Iterator<Item = View<'a, T>> + '_ {
        let chunks = chunk_count(self.len, chunk_size);
        (0..chunks).map(move |i| self.part(i * chunk_size, (i + 1) * chunk_size))
    }

    /// [`DevicePtr::device_ptr`] whose guard lives as long as the viewed buffer.
    pub fn view_ptr(self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        read_access(self.ptr, self.read, self.write, self.stream, stream)
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The same elements, shared.
    pub fn as_view(&self) -> View<'_, T> {
        View {
            ptr: self.ptr,
            len: self.len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        }
    }

    /// The same elements, shared, for as long as the buffer is borrowed.
    pub fn into_view(self) -> View<'a, T> {
        View {
            ptr: self.ptr,
            len: self.len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        }
    }

    /// The same elements, mutably borrowed from this view.
    fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut {
            ptr: self.ptr,
            len: self.len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        }
    }

    pub(super) fn into_part(self, start: usize, end: usize) -> Self {
        Self {
            ptr: self.ptr + bytes_of::<T>(start),
            len: end - start,
            ..self
        }
    }

    pub(super) fn into_type<S>(self, len: usize) -> Option<ViewMut<'a, S>> {
        fits::<T, S>(self.len, len).then_some(ViewMut {
            ptr: self.ptr,
            len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        })
    }

    pub(super) fn into_split(self, mid: usize) -> Option<(Self, Self)> {
        let len = self.len;
        (mid <= len).then(|| {
            // Two disjoint halves of one exclusive borrow.
            let first = ViewMut {
                marker: PhantomData,
                ..self
            };
            let second = ViewMut {
                marker: PhantomData,
                ..self
            };
            (first.into_part(0, mid), second.into_part(mid, len))
        })
    }

    /// A part of the view, shared.
    ///
    /// # Panics
    /// If the range is not within the view.
    #[track_caller]
    pub fn slice(&self, bounds: impl RangeBounds<usize>) -> View<'_, T> {
        self.as_view().slice(bounds)
    }

    /// A part of the view, shared, or `None` if the range is not within it.
    pub fn try_slice(&self, bounds: impl RangeBounds<usize>) -> Option<View<'_, T>> {
        self.as_view().try_slice(bounds)
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
        self.reborrow().into_type(len)
    }

    /// A part of the view.
    ///
    /// # Panics
    /// If the range is not within the view.
    #[track_caller]
    pub fn slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = range_or_panic(bounds, self.len);
        self.reborrow().into_part(start, end)
    }

    /// A part of the view, or `None` if the range is not within it.
    pub fn try_slice_mut(&mut self, bounds: impl RangeBounds<usize>) -> Option<ViewMut<'_, T>> {
        let (start, end) = to_range(bounds, self.len)?;
        Some(self.reborrow().into_part(start, end))
    }

    /// The parts before and from `mid`.
    ///
    /// # Panics
    /// If `mid > len`.
    #[track_caller]
    pub fn split_at_mut(&mut self, mid: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        let len = self.len;
        match self.try_split_at_mut(mid) {
            Some(parts) => parts,
            None => panic!("split at {mid} of a device view of {len} elements"),
        }
    }

    /// The parts before and from `mid`, or `None` if `mid > len`.
    pub fn try_split_at_mut(&mut self, mid: usize) -> Option<(ViewMut<'_, T>, ViewMut<'_, T>)> {
        self.reborrow().into_split(mid)
    }

    /// Parts of `chunk_size` elements each.
    ///
    /// # Panics
    /// If `chunk_size` is 0 or does not divide the length.
    #[track_caller]
    pub fn chunks_exact_mut(self, chunk_size: usize) -> impl Iterator<Item = ViewMut<'a, T>> {
        let chunks = chunk_count(self.len, chunk_size);
        // Disjoint parts of one exclusive borrow.
        (0..chunks).map(move |i| ViewMut {
            ptr: self.ptr + bytes_of::<T>(i * chunk_size),
            len: chunk_size,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        })
    }

    /// [`DevicePtr::device_ptr`] whose guard lives as long as the viewed buffer.
    pub fn view_ptr(self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        read_access(self.ptr, self.read, self.write, self.stream, stream)
    }

    /// [`DevicePtrMut::device_ptr_mut`] whose guard lives as long as the viewed buffer.
    pub fn view_ptr_mut(self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        write_access(self.ptr, self.read, self.write, self.stream, stream)
    }
}

impl<T> DeviceSlice<T> for View<'_, T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<Stream> {
        self.stream
    }
}

impl<T> DevicePtr<T> for View<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        read_access(self.ptr, self.read, self.write, self.stream, stream)
    }
}

impl<T> DeviceSlice<T> for ViewMut<'_, T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<Stream> {
        self.stream
    }
}

impl<T> DevicePtr<T> for ViewMut<'_, T> {
    fn device_ptr<'a>(&'a self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        read_access(self.ptr, self.read, self.write, self.stream, stream)
    }
}

impl<T> DevicePtrMut<T> for ViewMut<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        write_access(self.ptr, self.read, self.write, self.stream, stream)
    }
}

#[track_caller]
fn chunk_count(len: usize, chunk_size: usize) -> usize {
    assert!(
        chunk_size != 0 && len % chunk_size == 0,
        "chunks of {chunk_size} elements do not divide a device view of {len}"
    );
    len / chunk_size
}

pub(super) fn to_range(bounds: impl RangeBounds<usize>, len: usize) -> Option<(usize, usize)> {
    let start = match bounds.start_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(&n) => n.checked_add(1)?,
        Bound::Excluded(&n) => n,
        Bound::Unbounded => len,
    };
    (start <= end && end <= len).then_some((start, end))
}

#[track_caller]
pub(super) fn range_or_panic(bounds: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let shown = (bounds.start_bound().cloned(), bounds.end_bound().cloned());
    match to_range(bounds, len) {
        Some(range) => range,
        None => panic!("range {shown:?} is not within a device buffer of {len} elements"),
    }
}

/// What buffers and views show for debugging.
pub(super) fn describe(
    what: &str,
    element: &str,
    ptr: u64,
    len: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{what}<{element}>({len} at {ptr:#x})")
}
