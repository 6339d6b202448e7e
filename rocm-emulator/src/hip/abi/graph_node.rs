//! Nodes of graphs: added, connected, listed, destroyed.

use std::sync::Arc;

use super::graph_work;
use super::prelude::*;
use crate::hip::event::EVENTS;
use crate::hip::graph::{find_node, node_handle, Graph, Work, GRAPHS, GRAPH_EXECS};
use crate::hip::operation::Operation;
use crate::hip::state::runtime;

fn invalid(what: &str) -> HipError {
    HipError::new(Code::InvalidValue, what)
}

fn find_graph(graph: hipGraph_t) -> Result<Arc<Graph>> {
    runtime()?;
    GRAPHS.get(graph).map_err(|_| invalid("no such graph"))
}

/// The index of a node that must be of a graph.
fn index_in(graph: hipGraph_t, node: hipGraphNode_t) -> Result<usize> {
    match find_node(node as u64)? {
        (of, _, index) if of == graph as u64 => Ok(index),
        _ => Err(invalid("a node of another graph")),
    }
}

/// Nodes that must be of a graph.
unsafe fn indices(
    graph: hipGraph_t,
    nodes: *const hipGraphNode_t,
    count: usize,
) -> Result<Vec<usize>> {
    // SAFETY: the program's promise.
    let nodes = unsafe { read_list(nodes, count) }?;
    nodes
        .into_iter()
        .map(|node| index_in(graph, node))
        .collect()
}

/// Add a node that does what `work` says.
unsafe fn add(
    to: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    work: impl FnOnce(&Graph) -> Result<Work>,
) -> Result {
    // SAFETY: the program's promise; nothing is added when the pointer is wrong.
    unsafe { out(to, std::ptr::null_mut()) }?;
    let found = find_graph(graph)?;
    // SAFETY: as above.
    let after = unsafe { indices(graph, dependencies, count) }?;
    let index = found.add(work(&found)?, after)?;
    // SAFETY: as above.
    unsafe { out(to, node_handle(graph as u64, index) as hipGraphNode_t) }
}

pub unsafe fn hipGraphAddKernelNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const hipKernelNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |graph| {
            graph_work::kernel(graph.device, &read(params)?)
        })
    }
}

pub unsafe fn hipGraphAddMemcpyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const hipMemcpy3DParms,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::copy(&read(params)?)
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipGraphAddMemcpyNode1D(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    dst: *mut c_void,
    src: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::copy_1d(dst, src, bytes, kind)
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipGraphAddMemcpyNodeToSymbol(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    symbol: *const c_void,
    src: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::copy_to_symbol(symbol, src, bytes, offset, kind)
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipGraphAddMemcpyNodeFromSymbol(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    dst: *mut c_void,
    symbol: *const c_void,
    bytes: usize,
    offset: usize,
    kind: hipMemcpyKind,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::copy_from_symbol(dst, symbol, bytes, offset, kind)
        })
    }
}

pub unsafe fn hipGraphAddMemsetNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const hipMemsetParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::fill(&read(params)?)
        })
    }
}

pub unsafe fn hipDrvGraphAddMemcpyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const HIP_MEMCPY3D,
    _context: hipCtx_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::driver_copy(&read(params)?)
        })
    }
}

pub unsafe fn hipDrvGraphAddMemsetNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const HIP_MEMSET_NODE_PARAMS,
    _context: hipCtx_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::fill(&graph_work::of_driver_fill(&read(params)?))
        })
    }
}

pub unsafe fn hipGraphAddHostNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    params: *const hipHostNodeParams,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::host(&read(params)?)
        })
    }
}

pub unsafe fn hipGraphAddEmptyNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            Ok(Work::Do(Operation::Empty))
        })
    }
}

pub unsafe fn hipGraphAddEventRecordNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    event: hipEvent_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::record(event)
        })
    }
}

pub unsafe fn hipGraphAddEventWaitNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    event: hipEvent_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            graph_work::wait(event)
        })
    }
}

pub unsafe fn hipGraphAddChildGraphNode(
    node: *mut hipGraphNode_t,
    graph: hipGraph_t,
    dependencies: *const hipGraphNode_t,
    count: usize,
    child: hipGraph_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe {
        add(node, graph, dependencies, count, |_| {
            Ok(Work::child(&*find_graph(child)?, child as u64))
        })
    }
}

pub unsafe fn hipGraphDestroyNode(node: hipGraphNode_t) -> Result {
    runtime()?;
    let (_, graph, index) = find_node(node as u64)?;
    graph.remove(index)?.work.forget_child();
    Ok(())
}

pub unsafe fn hipGraphAddDependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { change_edges(graph, from, to, count, Graph::connect) }
}

pub unsafe fn hipGraphRemoveDependencies(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { change_edges(graph, from, to, count, Graph::disconnect) }
}

unsafe fn change_edges(
    graph: hipGraph_t,
    from: *const hipGraphNode_t,
    to: *const hipGraphNode_t,
    count: usize,
    change: fn(&Graph, usize, usize) -> Result,
) -> Result {
    let found = find_graph(graph)?;
    // SAFETY: the program's promise.
    let (from, to) = unsafe { (indices(graph, from, count)?, indices(graph, to, count)?) };
    let mut edges = from.into_iter().zip(to);
    edges.try_for_each(|(from, to)| change(&found, from, to))
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
    // SAFETY: the program's promise.
    unsafe { list_nodes(graph, nodes, count, |after| after.is_empty()) }
}

unsafe fn list_nodes(
    graph: hipGraph_t,
    nodes: *mut hipGraphNode_t,
    count: *mut usize,
    wanted: impl Fn(&[usize]) -> bool,
) -> Result {
    runtime()?;
    let found = GRAPHS.get(graph)?.nodes().into_iter();
    let handles: Vec<u64> = found
        .filter(|(_, node)| wanted(&node.after))
        .map(|(index, _)| node_handle(graph as u64, index))
        .collect();
    // SAFETY: the program's promise.
    unsafe { list_out(nodes, count, &handles) }
}

pub unsafe fn hipGraphGetEdges(
    graph: hipGraph_t,
    from: *mut hipGraphNode_t,
    to: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result {
    if from.is_null() != to.is_null() {
        return Err(invalid("one of the two lists of an edge's nodes is null"));
    }
    let nodes = find_graph(graph)?.nodes().into_iter();
    let handle = |index: usize| node_handle(graph as u64, index);
    let (befores, afters): (Vec<u64>, Vec<u64>) = nodes
        .flat_map(|(index, node)| {
            let edges = node.after.into_iter();
            edges.map(move |before| (handle(before), handle(index)))
        })
        .unzip();
    // SAFETY: the program's promise; the second call sets the count that the first was given.
    unsafe {
        let mut room = read(count)?;
        list_out(from, &mut room, &befores)?;
        list_out(to, count, &afters)
    }
}

pub unsafe fn hipGraphNodeGetDependencies(
    node: hipGraphNode_t,
    dependencies: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result {
    let (handle, graph, index) = find_node(node as u64)?;
    let after = graph.node(index)?.after.into_iter();
    let handles: Vec<u64> = after.map(|index| node_handle(handle, index)).collect();
    // SAFETY: the program's promise.
    unsafe { list_out(dependencies, count, &handles) }
}

pub unsafe fn hipGraphNodeGetDependentNodes(
    node: hipGraphNode_t,
    dependents: *mut hipGraphNode_t,
    count: *mut usize,
) -> Result {
    let (handle, graph, index) = find_node(node as u64)?;
    let nodes = graph.nodes().into_iter();
    let handles: Vec<u64> = nodes
        .filter(|(_, node)| node.after.contains(&index))
        .map(|(index, _)| node_handle(handle, index))
        .collect();
    // SAFETY: the program's promise.
    unsafe { list_out(dependents, count, &handles) }
}

pub unsafe fn hipGraphNodeGetType(
    node: hipGraphNode_t,
    node_type: *mut hipGraphNodeType,
) -> Result {
    runtime()?;
    let (_, graph, index) = find_node(node as u64)?;
    // SAFETY: the program's promise.
    unsafe { out(node_type, graph.node(index)?.work.node_type()) }
}

pub unsafe fn hipGraphNodeSetEnabled(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    enabled: c_uint,
) -> Result {
    let (exec, index) = in_exec(exec, node)?;
    exec.enable(index, enabled != 0)
}

pub unsafe fn hipGraphNodeGetEnabled(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
    enabled: *mut c_uint,
) -> Result {
    let (exec, index) = in_exec(exec, node)?;
    // SAFETY: the program's promise.
    unsafe { out(enabled, exec.enabled(index)?.into()) }
}

/// An instantiated graph, and a node of the graph that it was made from.
pub fn in_exec(
    exec: hipGraphExec_t,
    node: hipGraphNode_t,
) -> Result<(Arc<crate::hip::graph::GraphExec>, usize)> {
    runtime()?;
    let exec = GRAPH_EXECS
        .get(exec)
        .map_err(|_| invalid("no such instantiated graph"))?;
    let index = index_in(exec.graph as hipGraph_t, node)?;
    Ok((exec, index))
}

pub unsafe fn hipGraphChildGraphNodeGetGraph(
    node: hipGraphNode_t,
    graph: *mut hipGraph_t,
) -> Result {
    let (_, of, index) = find_node(node as u64)?;
    match of.node(index)?.work {
        // SAFETY: the program's promise.
        Work::Child(_, handle) => unsafe { out(graph, handle as hipGraph_t) },
        Work::Do(_) => Err(invalid("the node is no graph")),
    }
}

/// The event of a node that records one, or waits for one.
fn event_of(node: hipGraphNode_t, node_type: u32) -> Result<u64> {
    let (_, graph, index) = find_node(node as u64)?;
    match graph.node(index)?.work {
        Work::Do(Operation::Record(_, event) | Operation::Wait(event))
            if graph.node(index)?.work.node_type() == node_type =>
        {
            EVENTS.get(event as hipEvent_t).map(|_| event)
        }
        _ => Err(invalid("the node is of another type")),
    }
}

/// `hipGraphNodeTypeWaitEvent` and `hipGraphNodeTypeEventRecord`.
const WAIT_EVENT: u32 = 6;
const EVENT_RECORD: u32 = 7;

pub unsafe fn hipGraphEventRecordNodeGetEvent(
    node: hipGraphNode_t,
    event: *mut hipEvent_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(event, event_of(node, EVENT_RECORD)? as hipEvent_t) }
}

pub unsafe fn hipGraphEventWaitNodeGetEvent(
    node: hipGraphNode_t,
    event: *mut hipEvent_t,
) -> Result {
    // SAFETY: the program's promise.
    unsafe { out(event, event_of(node, WAIT_EVENT)? as hipEvent_t) }
}
