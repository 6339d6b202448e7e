//! Stream capture and graphs.

use super::prelude::*;
use crate::hip::capture::{CAPTURE_MODE, MODE_RELAXED};
use crate::hip::graph::{node_handle, split_node_handle, Graph, GraphExec, GRAPHS, GRAPH_EXECS};
use crate::hip::operation::Operation;
use crate::hip::state::runtime;

pub unsafe fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?.begin_capture(runtime, mode)
}

pub unsafe fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> Result {
    let runtime = runtime()?;
    // SAFETY: the program's promise; a failed capture gives a null graph, as in HIP.
    unsafe { out(graph, std::ptr::null_mut()) }?;
    let capture = runtime.stream(stream)?.end_capture(runtime)?;
    let handle = GRAPHS.insert(|_| Graph {
        device: capture.device,
        nodes: capture.nodes(),
    });
    // SAFETY: as above.
    unsafe { out(graph, handle as hipGraph_t) }
}

pub unsafe fn hipStreamIsCapturing(
    stream: hipStream_t,
    status: *mut hipStreamCaptureStatus,
) -> Result {
    let info = runtime()?.stream(stream)?.capture_info();
    // SAFETY: the program's promise.
    unsafe { out(status, info.map_or(0, |info| info.status)) }
}

pub unsafe fn hipStreamGetCaptureInfo(
    stream: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut c_ulonglong,
) -> Result {
    let info = runtime()?.stream(stream)?.capture_info();
    let (found, number) = info.map_or((0, 0), |info| (info.status, info.id));
    // SAFETY: the program's promise.
    unsafe {
        out(status, found)?;
        optional_out(id, number)
    }
}

pub unsafe fn hipStreamGetCaptureInfo_v2(
    stream: hipStream_t,
    status: *mut hipStreamCaptureStatus,
    id: *mut c_ulonglong,
    graph: *mut hipGraph_t,
    dependencies: *mut *const hipGraphNode_t,
    count: *mut usize,
) -> Result {
    // SAFETY: the program's promise. The graph has no handle before the capture ends.
    unsafe {
        hipStreamGetCaptureInfo(stream, status, id)?;
        optional_out(graph, std::ptr::null_mut())?;
        optional_out(dependencies, std::ptr::null())?;
        optional_out(count, 0)
    }
}

pub unsafe fn hipThreadExchangeStreamCaptureMode(mode: *mut hipStreamCaptureMode) -> Result {
    if mode.is_null() || !mode.is_aligned() {
        return Err(Code::InvalidValue.into());
    }
    // SAFETY: valid by the program's promise.
    let new = unsafe { mode.read() };
    if new > MODE_RELAXED {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("capture mode {new}"),
        ));
    }
    // SAFETY: as above.
    unsafe { out(mode, CAPTURE_MODE.replace(new)) }
}

pub unsafe fn hipGraphInstantiate(
    exec: *mut hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    log: *mut c_char,
    log_bytes: usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        optional_out(error_node, std::ptr::null_mut())?;
        if log_bytes > 0 {
            optional_out(log, 0)?;
        }
        hipGraphInstantiateWithFlags(exec, graph, 0)
    }
}

pub unsafe fn hipGraphInstantiateWithFlags(
    exec: *mut hipGraphExec_t,
    graph: hipGraph_t,
    flags: c_ulonglong,
) -> Result {
    runtime()?;
    // Free on launch, upload, device launch, node priorities: all without effect here.
    if flags > 15 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("graph flags {flags:#x}"),
        ));
    }
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(exec, std::ptr::null_mut()) }?;
    let graph = GRAPHS.get(graph)?;
    let handle = GRAPH_EXECS.insert(|_| GraphExec {
        device: graph.device,
        nodes: graph.nodes.clone(),
    });
    // SAFETY: as above.
    unsafe { out(exec, handle as hipGraphExec_t) }
}

pub unsafe fn hipGraphUpload(exec: hipGraphExec_t, stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    GRAPH_EXECS.get(exec)?;
    let stream = runtime.stream(stream)?;
    runtime.devices[stream.device].healthy()
}

pub unsafe fn hipGraphLaunch(exec: hipGraphExec_t, stream: hipStream_t) -> Result {
    let runtime = runtime()?;
    let exec = GRAPH_EXECS.get(exec)?;
    let stream = runtime.stream(stream)?;
    if stream.device != exec.device {
        return Err(HipError::new(
            Code::InvalidHandle,
            format!(
                "graph of device {} launched in a stream of device {}",
                exec.device, stream.device
            ),
        ));
    }
    stream.submit(runtime, Operation::Graph(exec.nodes.clone()))
}

pub unsafe fn hipGraphDestroy(graph: hipGraph_t) -> Result {
    runtime()?;
    GRAPHS.remove(graph)?;
    Ok(())
}

pub unsafe fn hipGraphExecDestroy(exec: hipGraphExec_t) -> Result {
    runtime()?;
    GRAPH_EXECS.remove(exec)?;
    Ok(())
}

pub unsafe fn hipGraphCreate(graph: *mut hipGraph_t, flags: c_uint) -> Result {
    let runtime = runtime()?;
    if flags != 0 {
        return Err(HipError::new(
            Code::InvalidValue,
            format!("graph flags {flags:#x}"),
        ));
    }
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(graph, std::ptr::null_mut()) }?;
    let device = runtime.current().index;
    let handle = GRAPHS.insert(|_| Graph {
        device,
        nodes: [].into(),
    });
    // SAFETY: as above.
    unsafe { out(graph, handle as hipGraph_t) }
}

pub unsafe fn hipGraphClone(clone: *mut hipGraph_t, graph: hipGraph_t) -> Result {
    runtime()?;
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(clone, std::ptr::null_mut()) }?;
    let graph = GRAPHS.get(graph)?;
    let handle = GRAPHS.insert(|_| Graph {
        device: graph.device,
        nodes: graph.nodes.clone(),
    });
    // SAFETY: as above.
    unsafe { out(clone, handle as hipGraph_t) }
}

pub unsafe fn hipGraphGetNodes(
    graph: hipGraph_t,
    nodes: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { list_nodes(graph, nodes, count, |_| true) }
}

pub unsafe fn hipGraphGetRootNodes(
    graph: hipGraph_t,
    nodes: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result {
    runtime()?;
    // SAFETY: the program's promise.
    unsafe { list_nodes(graph, nodes, count, |after| after.is_empty()) }
}

/// Give the number of nodes that are wanted, and with `nodes` their handles, as many as `count` says there is
/// room for; the rest of the room is nulled.
unsafe fn list_nodes(
    graph: hipGraph_t,
    nodes: *mut hipGraphNode_t,
    count: *mut usize,
    wanted: impl Fn(&[usize]) -> bool,
) -> Result {
    let found = GRAPHS.get(graph)?;
    let handles: Vec<u64> = found
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| wanted(&node.after))
        .map(|(index, _)| node_handle(graph as u64, index))
        .collect();
    if count.is_null() || !count.is_aligned() {
        return Err(Code::InvalidValue.into());
    }
    if nodes.is_null() {
        // SAFETY: the program's promise.
        return unsafe { out(count, handles.len()) };
    }
    // SAFETY: the program's promise.
    let room = unsafe { count.read() };
    for index in 0..room {
        let handle = handles.get(index).copied().unwrap_or(0);
        // SAFETY: the program says that there is room for this many.
        unsafe { out(nodes.add(index), handle as hipGraphNode_t) }?;
    }
    // SAFETY: the program's promise.
    unsafe { out(count, room.min(handles.len())) }
}

pub unsafe fn hipGraphNodeGetType(
    node: hipGraphNode_t,
    node_type: *mut hipGraphNodeType,
) -> Result {
    let invalid = || HipError::from(Code::InvalidValue);
    let (graph, index) = split_node_handle(node as u64).ok_or_else(invalid)?;
    runtime()?;
    let graph = GRAPHS.get_by_number(graph).map_err(|_| invalid())?;
    let node = graph.nodes.get(index).ok_or_else(invalid)?;
    // SAFETY: the program's promise.
    unsafe { out(node_type, node.operation.node_type()) }
}
