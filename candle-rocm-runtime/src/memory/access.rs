//! The use of device memory by work that is given to a stream: who waits for it, and whom it waits for.

use std::sync::Arc;

use crate::base::cuda_names::CUdeviceptr;
use crate::base::error::Result;
use crate::stream::event::{Event, UseMark};
use crate::stream::queue::Stream;

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

pub(super) fn read_access<'a>(
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

pub(super) fn write_access<'a>(
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

#[inline]
pub(super) fn wait_all(
    read: &Option<UseMark>,
    write: &Option<UseMark>,
    stream: &Stream,
) -> Result<()> {
    for mark in [read, write].into_iter().flatten() {
        mark.wait(stream)?;
    }
    Ok(())
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

    /// Notes the uses of several buffers by work that this stream was given. Whether anybody is to be told is asked once.
    #[inline]
    pub(crate) fn end_all<const N: usize>(uses: [Self; N], stream: &Stream) {
        let marks_here = |of: &Self| match of.0 {
            Pending::Nothing => true,
            Pending::Mark(_, on) => std::ptr::eq(on, stream),
            Pending::Record(..) | Pending::Synchronize(_) => false,
        };
        if uses.iter().all(marks_here) && !stream.context().notes_given_work() {
            // They own nothing, and have nothing to note.
            std::mem::forget(uses);
        }
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
                if stream.context().notes_given_work() {
                    stream.context().record_err(mark.record(stream));
                }
            }
            Pending::Record(event, stream) => stream.context().record_err(event.record(stream)),
            Pending::Synchronize(stream) => stream.context().record_err(stream.finish()),
        }
    }
}
