//! Memory on a GPU: [`DeviceBuffer`] owns it, [`View`] and [`ViewMut`] borrow parts of it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::base::cuda_names::CUdeviceptr;
use crate::base::dtype::DeviceRepr;
use crate::base::error::{Error, Result};
use crate::pool::KnownParameters;
use crate::stream::context::Context;
use crate::stream::event::{Event, UseMark};
use crate::stream::queue::Stream;

/// `len` elements of `T` on a GPU. Dropping it returns the memory to the pool, in the order of its
/// stream.
pub struct DeviceBuffer<T> {
    pub(crate) ptr: CUdeviceptr,
    pub(crate) len: usize,
    pub(crate) read: Option<UseMark>,
    pub(crate) write: Option<UseMark>,
    pub(crate) stream: Arc<Stream>,
    /// That the pool knows what is in it.
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
            pool.return_parameters(parameters, &self.stream)
        })
    }
}

impl<T: DeviceRepr> DeviceBuffer<T> {
    /// A copy, made by its stream.
    pub fn try_clone(&self) -> Result<Self> {
        self.stream.clone_dtod(self)
    }
}

impl<T: DeviceRepr> Clone for DeviceBuffer<T> {
    /// # Panics
    /// If the device has no memory left; [`DeviceBuffer::try_clone`] returns that instead.
    fn clone(&self) -> Self {
        match self.try_clone() {
            Ok(copy) => copy,
            Err(error) => panic!("cloning a device buffer: {error}"),
        }
    }
}

impl<T: Clone + Default + DeviceRepr> TryFrom<DeviceBuffer<T>> for Vec<T> {
    type Error = Error;

    fn try_from(buffer: DeviceBuffer<T>) -> Result<Self> {
        buffer.stream.clone_dtoh(&buffer)
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
            context.record_err(context.device().pool().free(self.ptr, &self.stream));
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

fn describe(
    what: &str,
    element: &str,
    ptr: u64,
    len: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(f, "{what}<{element}>({len} at {ptr:#x})")
}

#[inline]
fn wait_all(read: &Option<UseMark>, write: &Option<UseMark>, stream: &Stream) -> Result<()> {
    for mark in [read, write].into_iter().flatten() {
        mark.wait(stream)?;
    }
    Ok(())
}

/// A borrowed part of a [`DeviceBuffer`].
pub struct View<'a, T> {
    pub(crate) ptr: CUdeviceptr,
    pub(crate) len: usize,
    pub(crate) read: &'a Option<UseMark>,
    pub(crate) write: &'a Option<UseMark>,
    pub(crate) stream: &'a Arc<Stream>,
    marker: PhantomData<&'a [T]>,
}

/// A mutably borrowed part of a [`DeviceBuffer`].
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

    fn into_part(self, start: usize, end: usize) -> Self {
        Self {
            ptr: self.ptr + bytes_of::<T>(start),
            len: end - start,
            ..self
        }
    }

    fn into_type<S>(self, len: usize) -> Option<ViewMut<'a, S>> {
        fits::<T, S>(self.len, len).then_some(ViewMut {
            ptr: self.ptr,
            len,
            read: self.read,
            write: self.write,
            stream: self.stream,
            marker: PhantomData,
        })
    }

    fn into_split(self, mid: usize) -> Option<(Self, Self)> {
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

#[track_caller]
fn chunk_count(len: usize, chunk_size: usize) -> usize {
    assert!(
        chunk_size != 0 && len % chunk_size == 0,
        "chunks of {chunk_size} elements do not divide a device view of {len}"
    );
    len / chunk_size
}

fn to_range(bounds: impl RangeBounds<usize>, len: usize) -> Option<(usize, usize)> {
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
fn range_or_panic(bounds: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let shown = (bounds.start_bound().cloned(), bounds.end_bound().cloned());
    match to_range(bounds, len) {
        Some(range) => range,
        None => panic!("range {shown:?} is not within a device buffer of {len} elements"),
    }
}

/// What buffers and views have in common.
pub trait DeviceSlice<T> {
    /// Number of elements.
    fn len(&self) -> usize;

    /// Number of bytes.
    fn num_bytes(&self) -> usize {
        self.len() * std::mem::size_of::<T>()
    }

    /// True if there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream that the buffer was allocated on.
    fn stream(&self) -> &Arc<Stream>;
}

/// Device memory that can be read.
pub trait DevicePtr<T>: DeviceSlice<T> {
    /// The address, for a read that is given to `stream` while the guard lives. The stream is made to
    /// wait for earlier writes, and later writes will wait for the read.
    fn device_ptr<'a>(&'a self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>);
}

/// Device memory that can be written.
pub trait DevicePtrMut<T>: DeviceSlice<T> {
    /// The address, for a write that is given to `stream` while the guard lives. The stream is made to
    /// wait for earlier reads and writes, and later ones will wait for the write.
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a Stream) -> (CUdeviceptr, SyncOnDrop<'a>);
}

fn read_access<'a>(
    ptr: CUdeviceptr,
    read: &'a Option<UseMark>,
    write: &'a Option<UseMark>,
    owner: &Stream,
    stream: &'a Stream,
) -> (CUdeviceptr, SyncOnDrop<'a>) {
    if owner.context().is_managing_stream_synchronization() {
        if let Some(write) = write {
            stream.context().record_err(write.wait(stream));
        }
    }
    (ptr, SyncOnDrop::mark(read, stream))
}

fn write_access<'a>(
    ptr: CUdeviceptr,
    read: &'a Option<UseMark>,
    write: &'a Option<UseMark>,
    owner: &Stream,
    stream: &'a Stream,
) -> (CUdeviceptr, SyncOnDrop<'a>) {
    if owner.context().is_managing_stream_synchronization() {
        stream.context().record_err(wait_all(read, write, stream));
    }
    (ptr, SyncOnDrop::mark(write, stream))
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

/// Notes the use of a buffer when dropped, which is after the work that uses it was given to the stream.
#[derive(Debug)]
#[must_use = "the use of the buffer is noted when this is dropped: keep it until the work is given to the stream"]
pub struct SyncOnDrop<'a>(Pending<'a>);

#[derive(Debug)]
enum Pending<'a> {
    Nothing,
    Mark(&'a UseMark, &'a Stream),
    Record(&'a Event, &'a Stream),
    Synchronize(&'a Stream),
}

impl<'a> SyncOnDrop<'a> {
    /// Does nothing.
    pub fn nothing() -> Self {
        Self(Pending::Nothing)
    }

    /// Records `event` on `stream`.
    pub fn record_event(event: &'a Event, stream: &'a Stream) -> Self {
        Self(Pending::Record(event, stream))
    }

    /// Waits until `stream` is idle.
    pub fn sync_stream(stream: &'a Stream) -> Self {
        Self(Pending::Synchronize(stream))
    }

    pub(crate) fn mark(mark: &'a Option<UseMark>, stream: &'a Stream) -> Self {
        Self(match mark {
            Some(mark) => Pending::Mark(mark, stream),
            None => Pending::Nothing,
        })
    }
}

impl Drop for SyncOnDrop<'_> {
    fn drop(&mut self) {
        match self.0 {
            Pending::Nothing => {}
            Pending::Mark(mark, stream) => {
                if stream.context().is_managing_stream_synchronization() {
                    stream.context().record_err(mark.record(stream));
                }
            }
            Pending::Record(event, stream) => stream.context().record_err(event.record(stream)),
            Pending::Synchronize(stream) => stream.context().record_err(stream.finish()),
        }
    }
}
