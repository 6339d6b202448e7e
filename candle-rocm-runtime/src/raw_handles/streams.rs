//! Streams, their captures, and events, by their handles.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use parking_lot::Mutex;

use super::same::same;
use crate::base::cuda_names::{
    CUhostFn, CUresult, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::{hipEvent_t as CUevent, STREAM_DEFAULT, STREAM_NON_BLOCKING};
use crate::driver_api::{given, written};
use crate::foreign::current_device;
use crate::runtime;
use crate::stream::capture;
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// Streams that were created here.
static CREATED: Mutex<BTreeMap<usize, Created>> = Mutex::new(BTreeMap::new());
/// Those of them that wait for the legacy default stream and that nobody has any more: as the safe layer's, they are not
/// destroyed, since AMD's HIP asks the stream of an event about that event also when the stream is gone.
static SPARE: Mutex<Vec<Created>> = Mutex::new(Vec::new());
/// Streams with a capture that began here: until it ends they are known to live.
static CAPTURED: Mutex<BTreeMap<usize, Arc<Stream>>> = Mutex::new(BTreeMap::new());

struct Created {
    stream: Arc<Stream>,
    /// Whether the legacy default stream and this one wait for each other.
    waits_for_legacy: bool,
    priority: Option<i32>,
}

/// The stream of this handle: one that was created here, or one of the thread's current GPU.
///
/// # Safety
/// The handle is null or a stream's that lives as long as the result is used.
pub(super) unsafe fn stream_of(raw: CUstream) -> Result<Arc<Stream>> {
    if let Some(created) = CREATED.lock().get(&(raw as usize)) {
        return Ok(created.stream.clone());
    }
    let context = Context::new(current_device()?.ordinal())?;
    // SAFETY: the caller's promise.
    Ok(unsafe { context.wrap_borrowed_stream(raw) })
}

/// A stream of the thread's current GPU, by its handle.
fn create(flags: c_uint, priority: Option<i32>) -> Result<CUstream> {
    let ordinal = current_device()?.ordinal();
    let context = Context::new(ordinal)?;
    // SAFETY: no buffer is made of this context, and none is tracked.
    unsafe { context.disable_event_tracking() };
    let waits_for_legacy = match flags {
        STREAM_DEFAULT => true,
        STREAM_NON_BLOCKING => false,
        _ => return Err(Error::invalid(format!("flags {flags} of a stream"))),
    };
    let spare = |created: &Created| {
        created.priority == priority && created.stream.context().ordinal() == ordinal
    };
    let stream = match (waits_for_legacy, priority) {
        (false, None) => context.new_stream()?,
        (false, Some(priority)) => context.new_stream_with_priority(priority)?,
        (true, _) => {
            let mut spares = SPARE.lock();
            match spares.iter().position(spare) {
                Some(place) => spares.swap_remove(place).stream,
                None => blocking(&context, priority)?,
            }
        }
    };
    let raw = stream.cu_stream();
    CREATED.lock().insert(
        raw as usize,
        Created {
            stream,
            waits_for_legacy,
            priority,
        },
    );
    Ok(raw)
}

/// A new stream that waits for the legacy default stream.
fn blocking(context: &Arc<Context>, priority: Option<i32>) -> Result<Arc<Stream>> {
    let hip = context.device().hip();
    let mut raw = std::ptr::null_mut();
    let status = match priority {
        // SAFETY: the output is writable.
        None => hip.relaxed(|| unsafe { (hip.hipStreamCreateWithFlags)(&mut raw, STREAM_DEFAULT) }),
        Some(priority) => {
            let create = optional!(hip, hipStreamCreateWithPriority)?;
            // SAFETY: as above.
            hip.relaxed(|| unsafe { create(&mut raw, STREAM_DEFAULT, priority) })
        }
    };
    hip.check(status, || "creating a stream")?;
    // SAFETY: it is never destroyed.
    Ok(unsafe { context.wrap_borrowed_stream(raw) })
}

/// A new stream. `flags` say whether the legacy default stream and this one wait for each other.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(stream, || create(flags, None)) }
}

/// The same of a priority; lower numbers go first.
///
/// # Safety
/// The place is writable.
pub unsafe fn cuStreamCreateWithPriority(
    stream: *mut CUstream,
    flags: c_uint,
    priority: c_int,
) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { written(stream, || create(flags, Some(priority))) }
}

/// Gives a stream up that was created here, once its work is done. A capture on it ends.
///
/// # Safety
/// Nobody uses the handle after this.
pub unsafe fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    let destroy = || {
        let created = CREATED.lock().remove(&(stream as usize));
        let Some(created) = created else {
            return Err(Error::new(
                ErrorKind::Hip(CUresult::CUDA_ERROR_INVALID_HANDLE as u32),
                format!("{stream:p} is the handle of no stream that cuStreamCreate made"),
            ));
        };
        CAPTURED.lock().remove(&(stream as usize));
        if created.waits_for_legacy {
            if created.stream.is_capturing()? {
                drop(created.stream.end_raw_capture()?);
            }
            SPARE.lock().push(created);
        }
        Ok(())
    };
    given(destroy())
}

/// Waits until the stream is idle.
///
/// # Safety
/// The handle is alive.
pub unsafe fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    // SAFETY: the caller's promise.
    given(unsafe { stream_of(stream) }.and_then(|stream| stream.synchronize()))
}

/// Makes the stream's further work wait for an event.
///
/// # Safety
/// Both handles are alive.
pub unsafe fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) -> CUresult {
    let wait = || {
        // SAFETY: the caller's promise.
        let stream = unsafe { stream_of(stream) }?;
        stream.enter()?;
        let device = stream.context().device();
        let (hip, handle) = (device.hip(), stream.handle());
        device.streams().wait(hip, handle, || {
            // SAFETY: the caller's promise; HIP keeps what it needs of the event.
            let status = unsafe { (hip.hipStreamWaitEvent)(handle.raw, event, flags) };
            hip.check(status, || "cuStreamWaitEvent")
        })
    };
    given(wait())
}

/// From now on work given to this stream is noted and not run, until [`cuStreamEndCapture`]; to the safe layer, too.
///
/// # Safety
/// The handle is alive until then.
pub unsafe fn cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode) -> CUresult {
    // SAFETY: the caller's promise.
    let begin = unsafe { stream_of(stream) }.and_then(|known| {
        known.begin_capture(mode)?;
        CAPTURED.lock().insert(stream as usize, known);
        Ok(())
    });
    given(begin)
}

/// Ends a capture: the graph, null if nothing was captured. Memory that was freed meanwhile belongs to it.
///
/// # Safety
/// The handle is alive, and the place is writable.
pub unsafe fn cuStreamEndCapture(
    stream: CUstream,
    graph: *mut crate::base::hip::types::hipGraph_t,
) -> CUresult {
    let end = || {
        // SAFETY: the caller's promise.
        let known = unsafe { stream_of(stream) }?;
        let ended = known.end_raw_capture();
        if !known.is_capturing()? {
            CAPTURED.lock().remove(&(stream as usize));
        }
        let (raw, memory) = ended?;
        super::graphs::keep(raw, memory);
        Ok(raw)
    };
    // SAFETY: the caller's promise.
    unsafe { written(graph, end) }
}

/// Whether the stream's work is being captured.
///
/// # Safety
/// The handle is alive, and the place is writable.
pub unsafe fn cuStreamIsCapturing(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe {
        written(status, || {
            capture::status(runtime::current()?.hip(), stream)
        })
    }
}

/// Exchanges which calls captures forbid to this thread.
///
/// # Safety
/// The place holds a mode, and receives the one before.
pub unsafe fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> CUresult {
    let exchange = || {
        let hip = runtime::current()?.hip();
        let exchange = optional!(hip, hipThreadExchangeStreamCaptureMode)?;
        // SAFETY: the caller's promise; the modes' numbers are HIP's.
        let status = unsafe { exchange(mode.cast()) };
        hip.check(status, || "cuThreadExchangeStreamCaptureMode")
    };
    given(exchange())
}

same! {
    /// Whether the stream is idle: `CUDA_ERROR_NOT_READY` if not.
    cuStreamQuery(stream: CUstream) => [required] hipStreamQuery(stream);
    /// Calls a function of the host in the stream's order. It must not call the driver.
    cuLaunchHostFunc(stream: CUstream, function: CUhostFn, data: *mut c_void)
        => [optional] hipLaunchHostFunc(stream, function, data);
    /// The least and the greatest priority of a stream; lower numbers go first.
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int)
        => [optional] hipDeviceGetStreamPriorityRange(least, greatest);
    /// An event with nothing recorded.
    cuEventCreate(event: *mut CUevent, flags: c_uint) => [required] hipEventCreateWithFlags(event, flags);
    /// Sets the event to the work that the stream has been given so far.
    cuEventRecord(event: CUevent, stream: CUstream) => [required] hipEventRecord(event, stream);
    /// Whether the work before the event is done: `CUDA_ERROR_NOT_READY` if not.
    cuEventQuery(event: CUevent) => [required] hipEventQuery(event);
    /// Waits until the work before the event is done.
    cuEventSynchronize(event: CUevent) => [required] hipEventSynchronize(event);
    /// Milliseconds between two events that are done.
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent)
        => [required] hipEventElapsedTime(milliseconds, start, end);
    /// Milliseconds between two events that are done, under the name of CUDA 13.
    cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent)
        => [required] hipEventElapsedTime(milliseconds, start, end);
    /// Gives an event up.
    cuEventDestroy_v2(event: CUevent) => [required] hipEventDestroy(event);
}
