//! Graphs by their handles, and the memory that their launches use.
#![allow(non_snake_case)]

use std::collections::BTreeMap;
use std::ffi::c_ulonglong;
use std::sync::Arc;

use parking_lot::Mutex;

use super::same::same;
use crate::base::cuda_names::{CUresult, CUstream};
use crate::base::hip::calls::optional;
use crate::base::hip::types::{
    hipGraphExec_t as CUgraphExec, hipGraphNode_t as CUgraphNode, hipGraph_t as CUgraph,
};
use crate::device::gpu::Device;
use crate::driver_api::{given, written};
use crate::foreign::current_device;
use crate::pool::captures::GraphMemory;
use crate::runtime;

/// The memory of graphs that were captured by handle, and of what was made launchable of them: it returns to the pool with the
/// last.
static GRAPHS: Mutex<BTreeMap<usize, Arc<GraphMemory>>> = Mutex::new(BTreeMap::new());
static LAUNCHABLE: Mutex<BTreeMap<usize, Launchable>> = Mutex::new(BTreeMap::new());

struct Launchable {
    device: Arc<Device>,
    /// Until the last launch is done.
    _memory: Arc<GraphMemory>,
}

/// Keeps the memory of a graph for its launches; without a graph it returns to the pool.
pub(super) fn keep(graph: CUgraph, memory: Option<GraphMemory>) {
    if let (false, Some(memory)) = (graph.is_null(), memory) {
        GRAPHS.lock().insert(graph as usize, Arc::new(memory));
    }
}

/// Makes a graph launchable.
///
/// # Safety
/// The graph is alive, and the place is writable.
pub unsafe fn cuGraphInstantiateWithFlags(
    exec: *mut CUgraphExec,
    graph: CUgraph,
    flags: c_ulonglong,
) -> CUresult {
    let instantiate = || {
        let device = current_device()?;
        let hip = device.hip();
        let instantiate = optional!(hip, hipGraphInstantiateWithFlags)?;
        let mut made = std::ptr::null_mut();
        // SAFETY: the caller's promise.
        let status = hip.relaxed(|| unsafe { instantiate(&mut made, graph, flags) });
        hip.check(status, || "cuGraphInstantiateWithFlags")?;
        if let Some(memory) = GRAPHS.lock().get(&(graph as usize)) {
            let launchable = Launchable {
                device: device.clone(),
                _memory: memory.clone(),
            };
            LAUNCHABLE.lock().insert(made as usize, launchable);
        }
        Ok(made)
    };
    // SAFETY: the caller's promise.
    unsafe { written(exec, instantiate) }
}

/// Gives a launchable graph up, after waiting for its launches if it has memory of its own.
///
/// # Safety
/// Nobody uses the handle after this.
pub unsafe fn cuGraphExecDestroy(exec: CUgraphExec) -> CUresult {
    let destroy = || {
        let launchable = LAUNCHABLE.lock().remove(&(exec as usize));
        if let Some(launchable) = &launchable {
            // Launches may use the memory, on any stream.
            launchable.device.synchronize()?;
        }
        let hip = runtime::current()?.hip();
        let destroy = optional!(hip, hipGraphExecDestroy)?;
        // SAFETY: the caller's promise.
        let status = hip.relaxed(|| unsafe { destroy(exec) });
        hip.check(status, || "cuGraphExecDestroy")
    };
    given(destroy())
}

/// Gives a graph up. What was made launchable of it lives on.
///
/// # Safety
/// Nobody uses the handle after this.
pub unsafe fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    let destroy = || {
        let hip = runtime::current()?.hip();
        let destroy = optional!(hip, hipGraphDestroy)?;
        // SAFETY: the caller's promise.
        let status = hip.relaxed(|| unsafe { destroy(graph) });
        let destroyed = hip.check(status, || "cuGraphDestroy");
        drop(GRAPHS.lock().remove(&(graph as usize)));
        destroyed
    };
    given(destroy())
}

same! {
    /// Gives the captured work to a stream.
    cuGraphLaunch(exec: CUgraphExec, stream: CUstream) => [optional notes graphs] hipGraphLaunch(exec, stream);
    /// Prepares the first launch ahead of time.
    cuGraphUpload(exec: CUgraphExec, stream: CUstream) => [optional] hipGraphUpload(exec, stream);
    /// How many nodes a graph has, and their handles where there is room for `count`.
    cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize)
        => [optional] hipGraphGetNodes(graph, nodes, count);
}
