//! Streams and events.

use super::prelude::*;
use crate::hip::capture::refuse_during_capture;
use crate::hip::event::{Event, Record, EVENTS};
use crate::hip::late::late;
use crate::hip::operation::{HostFunction, Operation};
use crate::hip::state::runtime;
use crate::hip::stream::{Stream, StreamKind, STREAMS};

fn invalid_flags(what: &str, flags: c_uint) -> HipError {
    HipError::new(Code::InvalidValue, format!("{what} flags {flags:#x}"))
}

pub unsafe fn hipStreamCreate(stream: *mut hipStream_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipStreamCreateWithPriority(stream, 0, 0) }
}

pub unsafe fn hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipStreamCreateWithPriority(stream, flags, 0) }
}

pub unsafe fn hipStreamCreateWithPriority(
    stream: *mut hipStream_t,
    flags: c_uint,
    priority: c_int,
) -> Result {
    let runtime = runtime()?;
    if flags > 1 {
        return Err(invalid_flags("stream", flags));
    }
    let device = runtime.current();
    device.healthy()?;
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(stream, std::ptr::null_mut()) }?;
    let priority = priority.clamp(-1, 1);
    let handle =
        STREAMS.insert(|_| Stream::new(device.index, StreamKind::Created, flags, priority));
    // SAFETY: as above.
    unsafe { out(stream, handle as hipStream_t) }
}

pub unsafe fn hipStreamDestroy(stream: hipStream_t) -> Result {
    runtime()?;
    STREAMS.remove(stream)?.abandon_capture();
    Ok(())
}

pub unsafe fn hipStreamSynchronize(stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?.synchronize(runtime)
}

pub unsafe fn hipStreamQuery(stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?.query(runtime)
}

pub unsafe fn hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if flags > 1 {
        return Err(invalid_flags("wait", flags));
    }
    let event = EVENTS.get(event)?;
    runtime.stream(stream)?.wait(runtime, &event)
}

pub unsafe fn hipStreamGetFlags(stream: hipStream_t, flags: *mut c_uint) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(flags, runtime()?.stream(stream)?.flags) }
}

pub unsafe fn hipStreamGetPriority(stream: hipStream_t, priority: *mut c_int) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(priority, runtime()?.stream(stream)?.priority) }
}

pub unsafe fn hipStreamGetDevice(stream: hipStream_t, device: *mut hipDevice_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(device, runtime()?.stream(stream)?.device as hipDevice_t) }
}

pub unsafe fn hipStreamAddCallback(
    stream: hipStream_t,
    callback: hipStreamCallback_t,
    data: *mut c_void,
    flags: c_uint,
) -> Result {
    let runtime = runtime()?;
    if flags != 0 {
        return Err(invalid_flags("callback", flags));
    }
    let callback = callback.ok_or(Code::InvalidValue)?;
    let function = HostFunction::Callback(callback, stream as u64);
    let data = data as u64;
    runtime
        .stream(stream)?
        .submit(runtime, Operation::Host { function, data })
}

pub unsafe fn hipLaunchHostFunc(
    stream: hipStream_t,
    function: hipHostFn_t,
    data: *mut c_void,
) -> Result {
    let runtime = runtime()?;
    let function = HostFunction::Plain(function.ok_or(Code::InvalidValue)?);
    let data = data as u64;
    runtime
        .stream(stream)?
        .submit(runtime, Operation::Host { function, data })
}

pub unsafe fn hipEventCreate(event: *mut hipEvent_t) -> Result {
    // SAFETY: the program's promise.
    unsafe { hipEventCreateWithFlags(event, 0) }
}

/// Blocking sync, no timing, interprocess, and AMD's three fence flags.
const EVENT_FLAGS: c_uint = 7 | 0xe000_0000;

pub unsafe fn hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if flags & !EVENT_FLAGS != 0 {
        return Err(invalid_flags("event", flags));
    }
    let device = runtime.current();
    device.healthy()?;
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(event, std::ptr::null_mut()) }?;
    let handle = EVENTS.insert(|_| Event {
        device: device.index,
        flags,
        state: parking_lot::Mutex::new(Record::Never),
        stream: parking_lot::Mutex::new(None),
    });
    // SAFETY: as above.
    unsafe { out(event, handle as hipEvent_t) }
}

pub unsafe fn hipEventRecord(event: hipEvent_t, stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    let event = EVENTS.get(event)?;
    runtime.stream(stream)?.record(runtime, &event)
}

pub unsafe fn hipEventRecordWithFlags(
    event: hipEvent_t,
    stream: hipStream_t,
    flags: c_uint,
) -> Result {
    if flags > 1 {
        return Err(invalid_flags("event record", flags));
    }
    // SAFETY: the program's promise.
    unsafe { hipEventRecord(event, stream) }
}

pub unsafe fn hipEventQuery(event: hipEvent_t) -> Result {
    // Work runs as it is enqueued, so a recorded event is complete, but on late streams.
    let runtime = runtime()?;
    let found = EVENTS.get(event)?;
    if late(runtime).is_some_and(|late| !late.is_reached(runtime, &found)) {
        return Err(Code::NotReady.into());
    }
    // SAFETY: the program's promise.
    unsafe { hipEventSynchronize(event) }
}

pub unsafe fn hipEventSynchronize(event: hipEvent_t) -> Result {
    let runtime = runtime()?;
    let event = EVENTS.get(event)?;
    event.wait()?;
    refuse_during_capture()?;
    if let Some(late) = late(runtime) {
        late.reach(runtime, &event);
    }
    runtime.devices[event.device].healthy()
}

pub unsafe fn hipEventElapsedTime(
    milliseconds: *mut f32,
    start: hipEvent_t,
    stop: hipEvent_t,
) -> Result {
    runtime()?;
    if milliseconds.is_null() {
        return Err(Code::InvalidValue.into());
    }
    let start = EVENTS.get(start)?.time()?;
    let stop = EVENTS.get(stop)?.time()?;
    let seconds = match stop.checked_duration_since(start) {
        Some(elapsed) => elapsed.as_secs_f64(),
        None => -start.duration_since(stop).as_secs_f64(),
    };
    // SAFETY: the program's promise.
    unsafe { out(milliseconds, (seconds * 1e3) as f32) }
}

pub unsafe fn hipEventDestroy(event: hipEvent_t) -> Result {
    runtime()?;
    EVENTS.remove(event)?;
    Ok(())
}
