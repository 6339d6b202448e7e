//! Graphs: a stream's work, captured once and launched many times.

pub mod check;
mod memory_kernels;
mod trial;
pub mod wish;

use std::fmt;
use std::sync::Arc;

use crate::base::cuda_names::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use crate::base::enqueued;
use crate::base::error::Result;
use crate::base::hip::calls::optional;
use crate::base::hip::types::*;
use crate::gemm::library::selection;
use crate::gemm::split_k_workspace;
use crate::pool::captures::GraphMemory;
use crate::profile::{self, Work};
use crate::stream::capture;
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

impl Stream {
    /// From now on work given to this stream is noted and not run, until [`Stream::end_capture`].
    pub fn begin_capture(&self, mode: CUstreamCaptureMode) -> Result<()> {
        self.enter()?;
        selection::prepare(self)?;
        split_k_workspace::prepare(self)?;
        memory_kernels::prepare(self)?;
        capture::begin(self.context().device(), self.handle(), mode)
    }

    /// Ends the capture; `None` if nothing was captured.
    pub fn end_capture(self: &Arc<Self>, flags: CUgraphInstantiate_flags) -> Result<Option<Graph>> {
        let hip = self.context().device().hip();
        let instantiate = optional!(hip, hipGraphInstantiateWithFlags)?;
        let (raw, memory) = self.end_raw_capture()?;
        let mut graph = Graph {
            raw,
            exec: std::ptr::null_mut(),
            memory,
            stream: self.clone(),
        };
        if graph.raw.is_null() {
            return Ok(None);
        }
        // SAFETY: the graph is alive and the output is writable. On an error `graph` destroys it.
        let make = || unsafe { instantiate(&mut graph.exec, graph.raw, flags as u64) };
        let status = hip.relaxed(make);
        hip.check(status, || "making a graph launchable")?;
        Ok(Some(graph))
    }

    /// Ends the capture: HIP's graph, null if nothing was captured, and the memory that its launches use.
    ///
    /// # Errors
    /// No capture is in progress here, or it failed; or another thread's it is, and goes on.
    pub(crate) fn end_raw_capture(&self) -> Result<(hipGraph_t, Option<GraphMemory>)> {
        self.enter()?;
        let device = self.context().device();
        let hip = device.hip();
        let end = optional!(hip, hipStreamEndCapture)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the stream is alive and the output is writable.
        let status = unsafe { end(self.raw(), &mut raw) };
        let ended = hip.check(status, || "ending the capture of a graph");
        if ended.is_err() && self.is_capturing()? {
            // By a thread that may not: the capture goes on.
            return ended.map(|()| (std::ptr::null_mut(), None));
        }
        // Only now: until here an event on this stream was a part of the capture. AMD's HIP leaves a handle that is none
        // when it fails.
        let memory = capture::ended(device, self.key());
        ended.map(|()| (raw, memory))
    }
}

impl Graph {
    /// Gives the captured work to the stream it was captured from.
    pub fn launch(&self) -> Result<()> {
        self.stream.enter()?;
        let hip = self.stream.context().device().hip();
        let launch = optional!(hip, hipGraphLaunch)?;
        enqueued::note(|noted| noted.graphs += 1);
        // SAFETY: both handles are alive.
        let give = || unsafe { launch(self.exec, self.stream.raw()) };
        let status = profile::timed(&self.stream, || Work::Graph, give);
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

    /// HIP's handle of the launchable graph, under cudarc's name. It belongs to this object, and must not run beside the
    /// stream's other work, with which it shares memory.
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
