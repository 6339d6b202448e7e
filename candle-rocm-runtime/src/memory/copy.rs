//! Allocating, filling and copying, each in the order of a stream.

use std::sync::Arc;

use super::access::{DevicePtr, DevicePtrMut};
use super::buffer::DeviceBuffer;
use super::host::HostSlice;
use super::in_capture;
use crate::base::cuda_names::CUdeviceptr;
use crate::base::dtype::{DeviceRepr, ValidAsZeroBits};
use crate::base::enqueued;
use crate::base::error::{Error, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::*;
use crate::pool::known_parameters::KnownParameters;
use crate::profile::{self, Work};
use crate::stream::queue::Stream;

impl Stream {
    /// A buffer of no elements.
    pub fn null<T>(self: &Arc<Self>) -> Result<DeviceBuffer<T>> {
        self.enter()?;
        Ok(DeviceBuffer::from_raw_parts(0, 0, self))
    }

    /// A buffer of `len` elements.
    ///
    /// # Safety
    /// The memory is not initialised.
    ///
    /// # Errors
    /// Out of memory, with what is in use.
    pub unsafe fn alloc<T: DeviceRepr>(self: &Arc<Self>, len: usize) -> Result<DeviceBuffer<T>> {
        let bytes = len.checked_mul(std::mem::size_of::<T>()).ok_or_else(|| {
            Error::invalid(format!(
                "{len} elements of {} are more than an address space",
                std::any::type_name::<T>()
            ))
        })?;
        // The pool makes the GPU current where it needs the driver, which is rare.
        self.note_use()?;
        // An empty tensor has no memory: its address is null and nothing may be read or written there.
        let ptr = if bytes == 0 {
            0
        } else {
            self.context().device().pool().allocate(bytes, self.key())?
        };
        Ok(DeviceBuffer::from_raw_parts(ptr, len, self))
    }

    /// A buffer of `len` elements, all zero.
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(
        self: &Arc<Self>,
        len: usize,
    ) -> Result<DeviceBuffer<T>> {
        // SAFETY: filled by the next line before anyone can read it.
        let mut buffer = unsafe { self.alloc(len) }?;
        self.memset_zeros(&mut buffer)?;
        Ok(buffer)
    }

    /// Takes over memory that [`DeviceBuffer::leak`] gave away, or that the caller got from `hipMalloc`.
    ///
    /// # Safety
    /// `ptr` is the address of an allocation of this GPU with room for `len` elements, which are
    /// initialised, and nobody else frees it.
    pub unsafe fn upgrade_device_ptr<T>(
        self: &Arc<Self>,
        ptr: CUdeviceptr,
        len: usize,
    ) -> DeviceBuffer<T> {
        DeviceBuffer::from_raw_parts(ptr, len, self)
    }

    /// Sets all elements to zero.
    pub fn memset_zeros<T: DeviceRepr + ValidAsZeroBits, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        dst: &mut Dst,
    ) -> Result<()> {
        self.enter()?;
        let bytes = dst.num_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let (ptr, _written) = dst.device_ptr_mut(self);
        if in_capture::zeros(self, ptr, bytes)? {
            return Ok(());
        }
        let hip = self.context().device().hip();
        enqueued::note(|noted| noted.fills += 1);
        // SAFETY: `bytes` bytes at `ptr` are the destination's.
        let fill = || unsafe { (hip.hipMemsetAsync)(ptr as *mut _, 0, bytes, self.raw()) };
        let status = profile::timed(self, || Work::Fill { bytes }, fill);
        hip.check(status, || {
            format!("setting {bytes} bytes at {ptr:#x} to zero")
        })
    }

    /// A buffer with a copy of host memory.
    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<DeviceBuffer<T>> {
        if !T::IS_PARAMETER || src.is_pinned() {
            return self.copy_to_new(src);
        }
        self.note_use()?;
        // SAFETY: the slice is read only here, and by the copy, which synchronises by itself.
        let (words, _) = unsafe { src.stream_synced_slice(self) };
        // SAFETY: `usize` is the one type of parameters.
        let words = unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) };
        let pool = self.context().device().pool();
        if let Some((ptr, parameters, holds)) = pool.lend_parameters(words, self.key()) {
            let mut buffer = DeviceBuffer::from_raw_parts(ptr, words.len(), self);
            let copied = if holds {
                // Other streams wait for this one as if the words were copied now.
                drop(buffer.device_ptr_mut(self));
                Ok(())
            } else {
                self.memcpy_htod(src, &mut buffer)
            };
            if copied.is_err() {
                parameters.expose();
            }
            buffer.parameters = Some(parameters);
            return copied.map(|()| buffer);
        }
        let mut buffer = self.copy_to_new(src)?;
        let known = pool.know_parameters(words, buffer.ptr, self.key());
        let known = known.unwrap_or_else(|| KnownParameters::kept_nowhere(words));
        buffer.parameters = Some(known);
        Ok(buffer)
    }

    fn copy_to_new<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<DeviceBuffer<T>> {
        // SAFETY: filled by the next line before anyone can read it.
        let mut buffer = unsafe { self.alloc(src.len()) }?;
        self.memcpy_htod(src, &mut buffer)?;
        Ok(buffer)
    }

    /// cudarc's old name of [`Stream::clone_htod`].
    pub fn memcpy_stod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<DeviceBuffer<T>> {
        self.clone_htod(src)
    }

    /// Copies host memory to the device. From pageable memory the copy is complete, as far as the source
    /// goes, when the call returns; from page-locked memory it is asynchronous.
    ///
    /// # Errors
    /// The destination is too small; or the source is pageable and the stream is being captured: a graph
    /// would read the source again at each launch, when it may be gone.
    pub fn memcpy_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        check_room("host to device", src.len(), dst.len())?;
        self.enter()?;
        if src.is_empty() {
            return Ok(());
        }
        if !src.is_pinned() && self.is_capturing()? {
            return Err(Error::invalid(
                "copying from pageable host memory while a graph is captured: the graph would read that memory \
                 again at each launch; copy before the capture, or use page-locked memory that outlives the graph",
            ));
        }
        // SAFETY: the slice is used by the copy below, given to this stream.
        let (src, _src_used) = unsafe { src.stream_synced_slice(self) };
        let (ptr, _written) = dst.device_ptr_mut(self);
        let bytes = std::mem::size_of_val(src);
        let hip = self.context().device().hip();
        enqueued::note(|noted| noted.copies += 1);
        // SAFETY: `bytes` bytes are readable at `src` and, by the check above, writable at `ptr`.
        let copy = || unsafe {
            (hip.hipMemcpyAsync)(
                ptr as *mut _,
                src.as_ptr().cast(),
                bytes,
                MEMCPY_HOST_TO_DEVICE,
                self.raw(),
            )
        };
        let name = "copy from the host";
        let status = profile::timed(self, || Work::Copy { name, bytes }, copy);
        hip.check(status, || {
            format!("copying {bytes} bytes from the host to {ptr:#x}")
        })
    }

    /// A vector with a copy of device memory; waits for it.
    pub fn clone_dtoh<T: DeviceRepr, Src: DevicePtr<T>>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<Vec<T>> {
        let mut copy = Vec::<T>::with_capacity(src.len());
        self.enter()?;
        if !src.is_empty() {
            // SAFETY: the vector has room for as many elements as the source has.
            unsafe { self.read_to(src, copy.as_mut_ptr(), false) }?;
        }
        // SAFETY: just filled; device memory of type `T` holds values of `T`.
        unsafe { copy.set_len(src.len()) };
        Ok(copy)
    }

    /// cudarc's old name of [`Stream::clone_dtoh`].
    pub fn memcpy_dtov<T: DeviceRepr, Src: DevicePtr<T>>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<Vec<T>> {
        self.clone_dtoh(src)
    }

    /// Copies device memory to the host. Into pageable memory the copy is complete when the call
    /// returns; into page-locked memory it is asynchronous.
    ///
    /// # Errors
    /// The destination is too small; or work before the copy failed.
    pub fn memcpy_dtoh<T: DeviceRepr, Src: DevicePtr<T>, Dst: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        check_room("device to host", src.len(), dst.len())?;
        self.enter()?;
        if src.is_empty() {
            return Ok(());
        }
        let pinned = dst.is_pinned();
        // SAFETY: the slice is used by the copy below, given to this stream.
        let (dst, _dst_used) = unsafe { dst.stream_synced_mut_slice(self) };
        // SAFETY: by the check above the destination has room.
        unsafe { self.read_to(src, dst.as_mut_ptr(), pinned) }
    }

    /// # Safety
    /// `dst` has room for all elements of `src`; with `pinned`, until the stream has done the copy.
    unsafe fn read_to<T, Src: DevicePtr<T>>(
        &self,
        src: &Src,
        dst: *mut T,
        pinned: bool,
    ) -> Result<()> {
        if !pinned && self.is_capturing()? {
            return Err(Error::invalid(
                "copying to pageable host memory while a graph is captured: nothing runs before the graph is launched",
            ));
        }
        let bytes = src.num_bytes();
        let (ptr, _read) = src.device_ptr(self);
        let hip = self.context().device().hip();
        enqueued::note(|noted| noted.copies += 1);
        // SAFETY: `bytes` bytes are readable at `ptr`, and the caller promises as much room at `dst`.
        let copy = || unsafe {
            (hip.hipMemcpyAsync)(
                dst.cast(),
                ptr as *const _,
                bytes,
                MEMCPY_DEVICE_TO_HOST,
                self.raw(),
            )
        };
        let name = "copy to the host";
        let status = profile::timed(self, || Work::Copy { name, bytes }, copy);
        hip.check(status, || {
            format!("copying {bytes} bytes from {ptr:#x} to the host")
        })?;
        if pinned {
            return Ok(());
        }
        // HIP documents this copy as synchronous for pageable memory; waiting again costs nothing, and
        // returns the errors of the work before it.
        self.synchronize()
    }

    /// Copies between buffers, of the same GPU or of two.
    ///
    /// # Errors
    /// The destination is too small.
    pub fn memcpy_dtod<T, Src: DevicePtr<T>, Dst: DevicePtrMut<T>>(
        self: &Arc<Self>,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        check_room("device to device", src.len(), dst.len())?;
        self.enter()?;
        let bytes = src.num_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let hip = self.context().device().hip();
        let (from, to) = (src.stream().context().clone(), self.context());
        if from == *to {
            // A context with a single stream notes no uses, neither for another context nor of its buffers.
            let both_mark = from.is_managing_stream_synchronization()
                && to.is_managing_stream_synchronization();
            let unmarked = !Arc::ptr_eq(&from, to) && !both_mark;
            if unmarked {
                self.join(src.stream())?;
            }
            let src_stream = src.stream().clone();
            let (src, _read) = src.device_ptr(self);
            let (dst, _written) = dst.device_ptr_mut(self);
            // SAFETY: `bytes` bytes are readable at `src` and writable at `dst`.
            unsafe { self.copy_on_device(src, dst, bytes) }?;
            if unmarked {
                src_stream.join(self)?;
            }
            return Ok(());
        }
        enqueued::note(|noted| noted.copies += 1);
        let copy_peer = optional!(hip, hipMemcpyPeerAsync)?;
        // An event can be recorded only on a stream of its own GPU, so the read is noted on the source's
        // stream; this stream waits for that stream, and afterwards the source's stream for this one.
        let src_stream = src.stream().clone();
        let ready = src_stream.record_event(None)?;
        self.wait(&ready)?;
        let (src_ptr, read) = src.device_ptr(&src_stream);
        let (dst_ptr, _written) = dst.device_ptr_mut(self);
        // SAFETY: as above; each address belongs to the GPU named beside it.
        let copy = || unsafe {
            copy_peer(
                dst_ptr as *mut _,
                to.ordinal() as i32,
                src_ptr as *const _,
                from.ordinal() as i32,
                bytes,
                self.raw(),
            )
        };
        let name = "copy from another GPU";
        let status = profile::timed(self, || Work::Copy { name, bytes }, copy);
        hip.check(status, || {
            format!(
                "copying {bytes} bytes from GPU {} to GPU {}",
                from.ordinal(),
                to.ordinal()
            )
        })?;
        src_stream.wait(&self.record_event(None)?)?;
        drop(read);
        Ok(())
    }

    /// # Safety
    /// So many bytes are readable at `src` and writable at `dst`, on this GPU.
    unsafe fn copy_on_device(
        &self,
        src: CUdeviceptr,
        dst: CUdeviceptr,
        bytes: usize,
    ) -> Result<()> {
        if in_capture::copy(self, dst, src, bytes)? {
            return Ok(());
        }
        let hip = self.context().device().hip();
        enqueued::note(|noted| noted.copies += 1);
        // SAFETY: the caller's promise.
        let copy = || unsafe {
            (hip.hipMemcpyAsync)(
                dst as *mut _,
                src as *const _,
                bytes,
                MEMCPY_DEVICE_TO_DEVICE,
                self.raw(),
            )
        };
        let name = "copy";
        let status = profile::timed(self, || Work::Copy { name, bytes }, copy);
        hip.check(status, || {
            format!("copying {bytes} bytes from {src:#x} to {dst:#x} on the device")
        })
    }

    /// A buffer of this stream's GPU with a copy of another buffer.
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<DeviceBuffer<T>> {
        // SAFETY: filled by the next line before anyone can read it.
        let mut buffer = unsafe { self.alloc(src.len()) }?;
        self.memcpy_dtod(src, &mut buffer)?;
        Ok(buffer)
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

fn check_room(direction: &str, src: usize, dst: usize) -> Result<()> {
    if src <= dst {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "copy from {direction}: {src} elements do not fit into {dst}"
    )))
}
