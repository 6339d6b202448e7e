//! Stream capture and graphs.

use super::prelude::*;
use crate::hip::capture::{CAPTURE_MODE, MODE_RELAXED};
use crate::hip::graph::{find_node, node_handle, Graph, GraphExec, GRAPHS, GRAPH_EXECS};
use crate::hip::graph_faults;
use crate::hip::handles::Kind;
use crate::hip::state::runtime;

pub unsafe fn hipStreamBeginCapture(stream: hipStream_t, mode: hipStreamCaptureMode) -> Result {
    let runtime = runtime()?;
    runtime.stream(stream)?.begin_capture(runtime, mode)
}

pub unsafe fn hipStreamEndCapture(stream: hipStream_t, graph: *mut hipGraph_t) -> Result {
    let runtime = runtime()?;
    // SAFETY: the program's promise; a failed capture gives a null graph, as in HIP.
    unsafe { out(graph, std::ptr::null_mut()) }?;
    let ended = runtime.stream(stream)?.end_capture(runtime);
    if let Err(error) = &ended {
        if error.code == Code::IllegalState {
            // Where none began, AMD's HIP leaves a handle that is no graph's.
            // SAFETY: as above.
            unsafe { out(graph, Kind::Graph.tag() as hipGraph_t) }?;
        }
    }
    let capture = ended?;
    let handle = GRAPHS.insert(|_| Graph::captured(capture.device, &capture.nodes()));
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
    let found = GRAPHS.get(graph)?;
    let made = GraphExec::new(graph as u64, &found, flags)?;
    let handle = GRAPH_EXECS.insert(|_| made);
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
    let launch = graph_faults::launch(runtime, exec.number, exec.ready());
    stream.submit(runtime, launch)
}

pub unsafe fn hipGraphDestroy(graph: hipGraph_t) -> Result {
    runtime()?;
    GRAPHS.remove(graph)?.forget_children();
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
    let handle = GRAPHS.insert(|_| Graph::new(device));
    // SAFETY: as above.
    unsafe { out(graph, handle as hipGraph_t) }
}

pub unsafe fn hipGraphClone(clone: *mut hipGraph_t, graph: hipGraph_t) -> Result {
    runtime()?;
    // SAFETY: the program's promise; nothing is made when the pointer is wrong.
    unsafe { out(clone, std::ptr::null_mut()) }?;
    let copy = GRAPHS.get(graph)?.copied(graph as u64);
    let handle = GRAPHS.insert(|_| copy);
    // SAFETY: as above.
    unsafe { out(clone, handle as hipGraph_t) }
}

pub unsafe fn hipGraphNodeFindInClone(
    node: *mut hipGraphNode_t,
    original: hipGraphNode_t,
    clone: hipGraph_t,
) -> Result {
    let (graph, _, index) = find_node(original as u64)?;
    let found = GRAPHS.get(clone).map_err(|_| Code::InvalidValue)?;
    if !found.is_copy_of(graph) {
        return Err(HipError::new(
            Code::InvalidValue,
            "the graph is no clone of the node's",
        ));
    }
    found.node(index)?;
    // SAFETY: the program's promise.
    unsafe { out(node, node_handle(clone as u64, index) as hipGraphNode_t) }
}

pub unsafe fn hipGraphExecGetFlags(exec: hipGraphExec_t, flags: *mut c_ulonglong) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(flags, GRAPH_EXECS.get(exec)?.flags) }
}

pub unsafe fn hipGraphExecUpdate(
    exec: hipGraphExec_t,
    graph: hipGraph_t,
    error_node: *mut hipGraphNode_t,
    result: *mut hipGraphExecUpdateResult,
) -> Result {
    runtime()?;
    // SAFETY: the program's promise; nothing is changed when a pointer is wrong.
    unsafe {
        out(error_node, std::ptr::null_mut())?;
        out(result, 0)?;
    }
    let invalid = |_| HipError::from(Code::InvalidValue);
    let exec = GRAPH_EXECS.get(exec).map_err(invalid)?;
    let found = GRAPHS.get(graph).map_err(invalid)?;
    let Err(failure) = exec.update(&found) else {
        return Ok(());
    };
    let node = failure
        .node
        .map_or(0, |index| node_handle(graph as u64, index));
    // SAFETY: as above.
    unsafe {
        out(error_node, node as hipGraphNode_t)?;
        out(result, failure.result)?;
    }
    Err(HipError::new(
        Code::GraphExecUpdateFailure,
        "the graph's shape is not that of the instantiated one",
    ))
}
