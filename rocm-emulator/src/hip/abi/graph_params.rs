//! Parameters of graphs' nodes, and of the nodes of instantiated graphs: read and changed.

use super::graph_node::in_exec;
use super::graph_work;
use super::prelude::*;
use crate::hip::graph::{find_node, Work, GRAPHS};
use crate::hip::state::runtime;

/// What a node does.
fn work_of(node: hipGraphNode_t) -> Result<Work> {
    runtime()?;
    let (_, graph, index) = find_node(node as u64)?;
    Ok(graph.node(index)?.work)
}

/// Change what a node does; `work` is given the graph's device.
fn set(node: hipGraphNode_t, work: impl FnOnce(usize) -> Result<Work>) -> Result {
    runtime()?;
    let (_, graph, index) = find_node(node as u64)?;
    graph.set(index, work(graph.device)?)
}

/// The same for an instantiated graph's.
fn set_exec(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    work: impl FnOnce(usize) -> Result<Work>,
) -> Result {
    let (exec, index) = in_exec(exec, node)?;
    exec.set(index, &work(exec.device)?)
}

pub unsafe fn hipGraphKernelNodeGetParams(
    node: hipGraphNode_t,
    params: *mut hipKernelNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(params, graph_work::kernel_params(&work_of(node)?)?) }
}

pub unsafe fn hipGraphKernelNodeSetParams(
    node: hipGraphNode_t,
    params: *const hipKernelNodeParams,
) -> Result {
    set(node, |device| {
        // SAFETY: the program's promise.
        graph_work::kernel(device, &unsafe { read(params) }?)
    })
}

pub unsafe fn hipGraphExecKernelNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const hipKernelNodeParams,
) -> Result {
    set_exec(exec, node, |device| {
        // SAFETY: the program's promise.
        graph_work::kernel(device, &unsafe { read(params) }?)
    })
}

pub unsafe fn hipGraphMemcpyNodeGetParams(
    node: hipGraphNode_t,
    params: *mut hipMemcpy3DParms,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(params, graph_work::copy_params(&work_of(node)?)?) }
}

pub unsafe fn hipGraphMemcpyNodeSetParams(
    node: hipGraphNode_t,
    params: *const hipMemcpy3DParms,
) -> Result {
    // SAFETY: the program's promise.
    set(node, |_| graph_work::copy(&unsafe { read(params) }?))
}

pub unsafe fn hipGraphExecMemcpyNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *mut hipMemcpy3DParms,
) -> Result {
    // SAFETY: the program's promise.
    set_exec(exec, node, |_| graph_work::copy(&unsafe { read(params) }?))
}

pub unsafe fn hipGraphMemcpyNodeSetParams1D(
    node: hipGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result {
    set(node, |_| graph_work::copy_1d(dst, src, bytes, kind))
}

pub unsafe fn hipGraphExecMemcpyNodeSetParams1D(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result {
    set_exec(exec, node, |_| graph_work::copy_1d(dst, src, bytes, kind))
}

pub unsafe fn hipGraphMemcpyNodeSetParamsToSymbol(
    node: hipGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    set(node, |_| {
        graph_work::copy_to_symbol(symbol, src, bytes, offset, kind)
    })
}

pub unsafe fn hipGraphExecMemcpyNodeSetParamsToSymbol(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    set_exec(exec, node, |_| {
        graph_work::copy_to_symbol(symbol, src, bytes, offset, kind)
    })
}

pub unsafe fn hipGraphMemcpyNodeSetParamsFromSymbol(
    node: hipGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    set(node, |_| {
        graph_work::copy_from_symbol(dst, symbol, bytes, offset, kind)
    })
}

pub unsafe fn hipGraphExecMemcpyNodeSetParamsFromSymbol(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    set_exec(exec, node, |_| {
        graph_work::copy_from_symbol(dst, symbol, bytes, offset, kind)
    })
}

pub unsafe fn hipDrvGraphMemcpyNodeSetParams(
    node: hipGraphNode_t,
    params: *const HIP_MEMCPY3D,
) -> Result {
    // SAFETY: the program's promise.
    set(node, |_| graph_work::driver_copy(&unsafe { read(params) }?))
}

pub unsafe fn hipDrvGraphExecMemcpyNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const HIP_MEMCPY3D,
    _context: hipCtx_t,
) -> Result {
    set_exec(exec, node, |_| {
        // SAFETY: the program's promise.
        graph_work::driver_copy(&unsafe { read(params) }?)
    })
}

pub unsafe fn hipGraphMemsetNodeGetParams(
    node: hipGraphNode_t,
    params: *mut hipMemsetParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(params, graph_work::fill_params(&work_of(node)?)?) }
}

pub unsafe fn hipGraphMemsetNodeSetParams(
    node: hipGraphNode_t,
    params: *const hipMemsetParams,
) -> Result {
    // SAFETY: the program's promise.
    set(node, |_| graph_work::fill(&unsafe { read(params) }?))
}

pub unsafe fn hipGraphExecMemsetNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const hipMemsetParams,
) -> Result {
    // SAFETY: the program's promise.
    set_exec(exec, node, |_| graph_work::fill(&unsafe { read(params) }?))
}

pub unsafe fn hipDrvGraphExecMemsetNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const HIP_MEMSET_NODE_PARAMS,
    _context: hipCtx_t,
) -> Result {
    set_exec(exec, node, |_| {
        // SAFETY: the program's promise.
        graph_work::fill(&graph_work::of_driver_fill(&unsafe { read(params) }?))
    })
}

pub unsafe fn hipGraphHostNodeGetParams(
    node: hipGraphNode_t,
    params: *mut hipHostNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(params, graph_work::host_params(&work_of(node)?)?) }
}

pub unsafe fn hipGraphHostNodeSetParams(
    node: hipGraphNode_t,
    params: *const hipHostNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    set(node, |_| graph_work::host(&unsafe { read(params) }?))
}

pub unsafe fn hipGraphExecHostNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    params: *const hipHostNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    set_exec(exec, node, |_| graph_work::host(&unsafe { read(params) }?))
}

pub unsafe fn hipGraphEventRecordNodeSetEvent(node: hipGraphNode_t, event: hipEvent_t) -> Result {
    set(node, |_| graph_work::record(event))
}

pub unsafe fn hipGraphExecEventRecordNodeSetEvent(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    event: hipEvent_t,
) -> Result {
    set_exec(exec, node, |_| graph_work::record(event))
}

pub unsafe fn hipGraphEventWaitNodeSetEvent(node: hipGraphNode_t, event: hipEvent_t) -> Result {
    set(node, |_| graph_work::wait(event))
}

pub unsafe fn hipGraphExecEventWaitNodeSetEvent(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    event: hipEvent_t,
) -> Result {
    set_exec(exec, node, |_| graph_work::wait(event))
}

pub unsafe fn hipGraphExecChildGraphNodeSetParams(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    child: hipGraph_t,
) -> Result {
    let graph = GRAPHS.get(child).map_err(|_| Code::InvalidValue)?;
    // Only what it does is taken: it needs no handle of its own.
    set_exec(exec, node, |_| Ok(Work::Child(graph, child as u64)))
}
