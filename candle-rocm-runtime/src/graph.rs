//! Graphs: a stream's work, captured once and launched many times.

use std::fmt;
use std::sync::Arc;

use crate::base::cuda_names::{
    CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use crate::base::error::Result;
use crate::base::hip::{self, types::*};
use crate::pool::GraphMemory;
use crate::stream::queue::Stream;

/// Captured work that can be launched again and again on the stream it was captured from.
///
/// Memory that was freed during the capture stays with the graph, because each launch uses it again; it
/// returns to the pool when the graph is dropped.
pub struct Graph {
    raw: hipGraph_t,
    exec: hipGraphExec_t,
    /// Dropped after the handles above are destroyed and before the stream.
    memory: Option<GraphMemory>,
    stream: Arc<Stream>,
}

macro_rules! optional {
    ($hip:expr, $name:ident) => {
        $hip.$name.ok_or_else(|| hip::missing(stringify!($name)))
    };
}

impl Stream {
    /// From now on work given to this stream is noted and not run, until [`Stream::end_capture`].
    pub fn begin_capture(&self, mode: CUstreamCaptureMode) -> Result<()> {
        self.enter()?;
        crate::gemm::library::prepare(self)?;
        let device = self.context().device();
        let hip = device.hip();
        let begin = optional!(hip, hipStreamBeginCapture)?;
        // First, so that from the capture's begin on no other thread takes this stream's blocks and waits for them.
        let pool = device.pool();
        let capture = pool.begin_capture(self);
        let begun = device.streams().begin_capture(hip, self, || {
            // SAFETY: the stream is alive.
            let status = unsafe { begin(self.raw(), mode as u32) };
            hip.check(status, || "beginning to capture a graph")
        });
        if begun.is_err() {
            self.context().record_err(pool.cancel_capture(capture));
        }
        begun
    }

    /// Ends the capture; `None` if nothing was captured.
    pub fn end_capture(self: &Arc<Self>, flags: CUgraphInstantiate_flags) -> Result<Option<Graph>> {
        self.enter()?;
        let device = self.context().device();
        let hip = device.hip();
        let end = optional!(hip, hipStreamEndCapture)?;
        let instantiate = optional!(hip, hipGraphInstantiateWithFlags)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the stream is alive and the output is writable.
        let status = unsafe { end(self.raw(), &mut raw) };
        let ended = hip.check(status, || "ending the capture of a graph");
        if ended.is_err() && self.is_capturing()? {
            // By a thread that may not: the capture goes on.
            return ended.map(|()| None);
        }
        let mut graph = Graph {
            raw,
            exec: std::ptr::null_mut(),
            // Only now: until here an event on this stream was a part of the capture.
            memory: self.capture_ended(),
            stream: self.clone(),
        };
        ended?;
        if graph.raw.is_null() {
            return Ok(None);
        }
        // SAFETY: the graph is alive and the output is writable. On an error `graph` destroys it.
        let make = || unsafe { instantiate(&mut graph.exec, graph.raw, flags.0.into()) };
        let status = hip.relaxed(make);
        hip.check(status, || "making a graph launchable")?;
        Ok(Some(graph))
    }

    /// Whether the stream's work is being captured.
    pub fn capture_status(&self) -> Result<CUstreamCaptureStatus> {
        self.enter()?;
        let hip = self.context().device().hip();
        let Some(query) = hip.hipStreamIsCapturing else {
            return Ok(CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
        };
        let mut capture = CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive and the output is writable.
        let status = unsafe { query(self.raw(), &mut capture) };
        hip.check(status, || "asking whether a stream is captured")?;
        Ok(match capture {
            CAPTURE_STATUS_NONE => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
            1 => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE,
            _ => CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED,
        })
    }

    /// Notes that the capture which began on this stream is over; returns what it freed. `None` if none began.
    pub(crate) fn capture_ended(&self) -> Option<GraphMemory> {
        let device = self.context().device();
        let memory = device.existing_pool()?.end_capture(self.key())?;
        device.streams().end_capture(self.key());
        Some(memory)
    }

    /// Ends a capture that nobody wants any more. Until then an event recorded on the stream would be a part
    /// of the capture, for which no other stream can wait.
    pub(crate) fn abandon_capture(&self) -> Result<()> {
        if !self.is_capturing()? {
            return Ok(());
        }
        let hip = self.context().device().hip();
        let (end, destroy) = (
            optional!(hip, hipStreamEndCapture)?,
            optional!(hip, hipGraphDestroy)?,
        );
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive, the output is writable, and the graph is destroyed once. A capture that
        // an error ended already has none.
        unsafe {
            end(self.raw(), &mut graph);
            if !graph.is_null() {
                destroy(graph);
            }
        }
        Ok(())
    }

    /// Whether this very stream is being captured; asks HIP only while some capture is in progress.
    pub(crate) fn is_capturing(&self) -> Result<bool> {
        let pool = self.context().device().existing_pool();
        if !pool.is_some_and(|pool| pool.is_any_capturing()) {
            return Ok(false);
        }
        Ok(self.capture_status()? != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }
}

impl Graph {
    /// Gives the captured work to the stream it was captured from.
    pub fn launch(&self) -> Result<()> {
        self.stream.enter()?;
        let hip = self.stream.context().device().hip();
        let launch = optional!(hip, hipGraphLaunch)?;
        // SAFETY: both handles are alive.
        let status = unsafe { launch(self.exec, self.stream.raw()) };
        hip.check(status, || "launching a graph")
    }

    /// Prepares the first launch ahead of time.
    pub fn upload(&self) -> Result<()> {
        self.stream.enter()?;
        let hip = self.stream.context().device().hip();
        let Some(upload) = hip.hipGraphUpload else {
            // Preparing is all it does: the first launch does it otherwise.
            return Ok(());
        };
        // SAFETY: both handles are alive.
        let status = unsafe { upload(self.exec, self.stream.raw()) };
        hip.check(status, || "uploading a graph")
    }

    /// HIP's handle of the graph, under cudarc's name. It belongs to this object.
    pub fn cu_graph(&self) -> hipGraph_t {
        self.raw
    }

    /// HIP's handle of the launchable graph, under cudarc's name. It belongs to this object.
    pub fn cu_graph_exec(&self) -> hipGraphExec_t {
        self.exec
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(context.device().bind());
        let hip = context.device().hip();
        // A launch may be running.
        context.record_err(self.stream.finish());
        if let (Some(destroy), false) = (hip.hipGraphExecDestroy, self.exec.is_null()) {
            // SAFETY: created by this object, destroyed once.
            let status = hip.relaxed(|| unsafe { destroy(self.exec) });
            context.record_err(hip.check(status, || "destroying a launchable graph"));
        }
        if let (Some(destroy), false) = (hip.hipGraphDestroy, self.raw.is_null()) {
            // SAFETY: created by this object, destroyed once.
            let status = hip.relaxed(|| unsafe { destroy(self.raw) });
            context.record_err(hip.check(status, || "destroying a graph"));
        }
        drop(self.memory.take());
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({:p})", self.raw)
    }
}
