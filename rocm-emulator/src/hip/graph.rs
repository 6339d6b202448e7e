//! Graphs, captured or built node by node, and instantiated ones, which run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use super::error::{Code, HipError, Result};
use super::graph_faults;
use super::handles::{Kind, Table};
use super::operation::{Node, Operation};

/// Graphs.
pub static GRAPHS: LazyLock<Table<Graph>> = LazyLock::new(|| Table::new(Kind::Graph));
/// Instantiated graphs.
pub static GRAPH_EXECS: LazyLock<Table<GraphExec>> = LazyLock::new(|| Table::new(Kind::GraphExec));

/// What a node does.
#[derive(Clone)]
pub enum Work {
    /// An operation.
    Do(Operation),
    /// Another graph, the node's own, and its handle.
    Child(Arc<Graph>, u64),
}

impl Work {
    /// A copy of a graph, with a handle of its own; `handle` is the graph's.
    pub fn child(graph: &Graph, handle: u64) -> Work {
        let copy = Arc::new(graph.copied(handle));
        Work::Child(copy.clone(), GRAPHS.insert_shared(copy))
    }

    /// `hipGraphNodeType`.
    pub fn node_type(&self) -> u32 {
        match self {
            Work::Do(operation) => operation.node_type(),
            Work::Child(..) => 4,
        }
    }

    fn operation(&self) -> Result<Operation> {
        match self {
            Work::Do(operation) => Ok(operation.clone()),
            Work::Child(graph, _) => {
                let nodes = graph.in_order()?;
                let order: Vec<usize> = nodes.iter().map(|node| node.0).collect();
                let nodes: Result<Vec<Node>> = nodes
                    .iter()
                    .map(|(_, node)| {
                        Ok(Node {
                            operation: node.work.operation()?,
                            after: places(&order, &node.after),
                        })
                    })
                    .collect();
                Ok(Operation::Graph(nodes?.into()))
            }
        }
    }
}

/// Where in an order the nodes of these indices are.
fn places(order: &[usize], nodes: &[usize]) -> Vec<usize> {
    let place = |node: &usize| order.iter().position(|other| other == node);
    nodes.iter().filter_map(place).collect()
}

/// A node.
#[derive(Clone)]
pub struct GraphNode {
    /// What it does.
    pub work: Work,
    /// Indices of the nodes that come before, in rising order.
    pub after: Vec<usize>,
}

/// A graph.
pub struct Graph {
    /// The device that was current when it was begun.
    pub device: usize,
    /// The graph that it was cloned from.
    origin: Option<u64>,
    /// By index; a node that was destroyed leaves its place.
    nodes: Mutex<Vec<Option<GraphNode>>>,
}

fn invalid(what: impl Into<String>) -> HipError {
    HipError::new(Code::InvalidValue, what)
}

impl Graph {
    /// One without nodes.
    pub fn new(device: usize) -> Graph {
        Graph {
            device,
            origin: None,
            nodes: Mutex::default(),
        }
    }

    /// What a capture recorded.
    pub fn captured(device: usize, nodes: &[Node]) -> Graph {
        let node = |node: &Node| {
            let mut after = node.after.clone();
            after.sort_unstable();
            Some(GraphNode {
                work: Work::Do(node.operation.clone()),
                after,
            })
        };
        Graph {
            nodes: Mutex::new(nodes.iter().map(node).collect()),
            ..Graph::new(device)
        }
    }

    /// A copy whose nodes have the same indices; `handle` is this graph's.
    pub fn copied(&self, handle: u64) -> Graph {
        let mut nodes = self.nodes.lock().clone();
        for node in nodes.iter_mut().flatten() {
            if let Work::Child(graph, handle) = &node.work {
                node.work = Work::child(graph, *handle);
            }
        }
        Graph {
            origin: Some(handle),
            nodes: Mutex::new(nodes),
            ..Graph::new(self.device)
        }
    }

    /// Whether it was copied from the graph of a handle.
    pub fn is_copy_of(&self, handle: u64) -> bool {
        self.origin == Some(handle)
    }

    /// Add a node after others; gives its index.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for one of the others that is not there, or is named twice.
    pub fn add(&self, work: Work, mut after: Vec<usize>) -> Result<usize> {
        let mut nodes = self.nodes.lock();
        let there = |&index: &usize| nodes.get(index).is_some_and(Option::is_some);
        after.sort_unstable();
        if !after.iter().all(there) || after.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(invalid(
                "a dependency that is no node of the graph, or is named twice",
            ));
        }
        if nodes.len() as u64 + 1 >= NODE_LIMIT {
            return Err(invalid(format!("a graph of {NODE_LIMIT} nodes")));
        }
        nodes.push(Some(GraphNode { work, after }));
        Ok(nodes.len() - 1)
    }

    /// A node.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is none of that index.
    pub fn node(&self, index: usize) -> Result<GraphNode> {
        let nodes = self.nodes.lock();
        let node = nodes.get(index).cloned().flatten();
        node.ok_or_else(|| invalid("a node that is not in the graph"))
    }

    /// Change what a node does, to something of the same type.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is no such node, or it is of another type.
    pub fn set(&self, index: usize, work: Work) -> Result {
        let mut nodes = self.nodes.lock();
        match nodes.get_mut(index) {
            Some(Some(node)) if node.work.node_type() == work.node_type() => {
                node.work = work;
                Ok(())
            }
            _ => Err(invalid(
                "a node that is not in the graph, or is of another type",
            )),
        }
    }

    /// Put a node after another.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when one is not there, both are the same, or it is so already.
    pub fn connect(&self, from: usize, to: usize) -> Result {
        self.node(from)?;
        let mut nodes = self.nodes.lock();
        match nodes.get_mut(to) {
            Some(Some(node)) if from != to => match node.after.binary_search(&from) {
                Ok(_) => Err(invalid("the dependency is there already")),
                Err(at) => {
                    node.after.insert(at, from);
                    Ok(())
                }
            },
            _ => Err(invalid(
                "a dependency of a node that is not in the graph, or on itself",
            )),
        }
    }

    /// Undo [`Graph::connect`].
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is no such dependency.
    pub fn disconnect(&self, from: usize, to: usize) -> Result {
        let mut nodes = self.nodes.lock();
        let node = nodes.get_mut(to).and_then(Option::as_mut);
        let node = node.ok_or_else(|| invalid("a node that is not in the graph"))?;
        match node.after.binary_search(&from) {
            Ok(at) => {
                node.after.remove(at);
                Ok(())
            }
            Err(_) => Err(invalid("there is no such dependency")),
        }
    }

    /// Take a node out, with its dependencies both ways.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when it is not there.
    pub fn remove(&self, index: usize) -> Result<GraphNode> {
        let mut nodes = self.nodes.lock();
        let taken = nodes.get_mut(index).and_then(Option::take);
        let taken = taken.ok_or_else(|| invalid("a node that is not in the graph"))?;
        for node in nodes.iter_mut().flatten() {
            node.after.retain(|&before| before != index);
        }
        Ok(taken)
    }

    /// The nodes and their indices, in the order in which they were added.
    pub fn nodes(&self) -> Vec<(usize, GraphNode)> {
        let nodes = self.nodes.lock();
        let nodes = nodes.iter().enumerate();
        nodes
            .filter_map(|(index, node)| Some((index, node.clone()?)))
            .collect()
    }

    /// The nodes in an order that the dependencies allow; of those that could come next, the first added.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for dependencies that go in a circle.
    pub fn in_order(&self) -> Result<Vec<(usize, GraphNode)>> {
        let nodes = self.nodes();
        let mut waiting: BTreeSet<usize> = nodes.iter().map(|node| node.0).collect();
        let mut order = Vec::with_capacity(nodes.len());
        while !waiting.is_empty() {
            let before = order.len();
            // In most graphs nodes are added after those that they depend on, so one round is enough.
            for (index, node) in &nodes {
                let ready = !node.after.iter().any(|before| waiting.contains(before));
                if ready && waiting.remove(index) {
                    order.push((*index, node.clone()));
                }
            }
            if order.len() == before {
                return Err(invalid("the graph's dependencies go in a circle"));
            }
        }
        Ok(order)
    }

    /// Forget the handles of the graphs that are nodes of this one.
    pub fn forget_children(&self) {
        for (_, node) in self.nodes() {
            node.work.forget_child();
        }
    }
}

impl Work {
    /// Forget the handle of the graph that the node is.
    pub fn forget_child(&self) {
        if let Work::Child(graph, handle) = self {
            graph.forget_children();
            // The program may have destroyed it itself.
            let _ = GRAPHS.remove(*handle as *const std::ffi::c_void);
        }
    }
}

/// An instantiated graph.
pub struct GraphExec {
    /// The graph's device.
    pub device: usize,
    /// The graph's handle; it may be destroyed.
    pub graph: u64,
    /// `hipGraphInstantiateWithFlags`.
    pub flags: u64,
    /// How many were instantiated before it.
    pub number: u64,
    state: Mutex<ExecState>,
}

struct ExecState {
    nodes: Vec<ExecNode>,
    /// What a launch runs.
    ready: Arc<[Node]>,
}

struct ExecNode {
    /// Its index in the graph.
    index: usize,
    node_type: u32,
    operation: Operation,
    after: Vec<usize>,
    enabled: bool,
}

/// Why an instantiated graph cannot be updated: `hipGraphExecUpdateResult`, and the node of the new graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateFailure {
    /// `hipGraphExecUpdateResult`.
    pub result: u32,
    /// The index of the node that is at fault, if it is one.
    pub node: Option<usize>,
}

/// `hipGraphExecUpdateResult`.
const UPDATE_ERROR: u32 = 1;
const TOPOLOGY_CHANGED: u32 = 2;
const NODE_TYPE_CHANGED: u32 = 3;

impl ExecState {
    fn new(graph: &Graph) -> Result<ExecState> {
        let nodes = graph.in_order()?.into_iter().map(|(index, node)| {
            Ok(ExecNode {
                index,
                node_type: node.work.node_type(),
                operation: node.work.operation()?,
                after: node.after,
                enabled: true,
            })
        });
        let mut state = ExecState {
            nodes: nodes.collect::<Result<_>>()?,
            ready: [].into(),
        };
        state.prepare();
        Ok(state)
    }

    fn prepare(&mut self) {
        let order: Vec<usize> = self.nodes.iter().map(|node| node.index).collect();
        let nodes = self.nodes.iter();
        self.ready = nodes
            .map(|node| Node {
                // Others still wait for what comes before it.
                operation: match node.enabled {
                    true => node.operation.clone(),
                    false => Operation::Empty,
                },
                after: places(&order, &node.after),
            })
            .collect();
    }

    fn node(&mut self, index: usize) -> Result<&mut ExecNode> {
        let node = self.nodes.iter_mut().find(|node| node.index == index);
        node.ok_or_else(|| invalid("a node that is not in the instantiated graph"))
    }
}

impl GraphExec {
    /// Instantiate the graph of a handle.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` for dependencies that go in a circle.
    pub fn new(handle: u64, graph: &Graph, flags: u64) -> Result<GraphExec> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        graph_faults::made();
        Ok(GraphExec {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            device: graph.device,
            graph: handle,
            flags,
            state: Mutex::new(ExecState::new(graph)?),
        })
    }

    /// What a launch runs, in order.
    pub fn ready(&self) -> Arc<[Node]> {
        self.state.lock().ready.clone()
    }

    /// Change what a node does from the next launch on.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is no such node, or it is of another type.
    pub fn set(&self, index: usize, work: &Work) -> Result {
        let operation = work.operation()?;
        let mut state = self.state.lock();
        let node = state.node(index)?;
        if node.node_type != work.node_type() {
            return Err(invalid("the node is of another type"));
        }
        node.operation = operation;
        state.prepare();
        Ok(())
    }

    /// Whether a node runs.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is no such node.
    pub fn enabled(&self, index: usize) -> Result<bool> {
        Ok(self.state.lock().node(index)?.enabled)
    }

    /// Let a kernel, copy or fill run, or not, from the next launch on.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` when there is no such node, or it is of another type.
    pub fn enable(&self, index: usize, enabled: bool) -> Result {
        let mut state = self.state.lock();
        let node = state.node(index)?;
        if node.node_type > 2 {
            return Err(invalid("only kernels, copies and fills can be disabled"));
        }
        node.enabled = enabled;
        state.prepare();
        Ok(())
    }

    /// Take over what the nodes of another graph of the same shape do.
    ///
    /// # Errors
    /// That the shape differs; then nothing has changed.
    pub fn update(&self, graph: &Graph) -> std::result::Result<(), UpdateFailure> {
        let failure = |result, node| UpdateFailure { result, node };
        let new = ExecState::new(graph).map_err(|_| failure(UPDATE_ERROR, None))?;
        let mut state = self.state.lock();
        if state.nodes.len() != new.nodes.len() {
            return Err(failure(TOPOLOGY_CHANGED, None));
        }
        let place =
            |nodes: &[ExecNode], index: usize| nodes.iter().position(|node| node.index == index);
        for (old, node) in state.nodes.iter().zip(&new.nodes) {
            if old.node_type != node.node_type {
                return Err(failure(NODE_TYPE_CHANGED, Some(node.index)));
            }
            let places = |nodes: &[ExecNode], after: &[usize]| -> BTreeSet<Option<usize>> {
                after.iter().map(|&index| place(nodes, index)).collect()
            };
            if places(&state.nodes, &old.after) != places(&new.nodes, &node.after) {
                return Err(failure(TOPOLOGY_CHANGED, Some(node.index)));
            }
        }
        for (old, node) in state.nodes.iter_mut().zip(new.nodes) {
            old.operation = node.operation;
        }
        state.prepare();
        Ok(())
    }
}

/// Handles of nodes: the graph's handle in the high bits, the index below. A graph has fewer nodes than this.
const NODE_LIMIT: u64 = 1 << 20;
const NODE_TAG: u64 = 1 << 61;

/// The handle of a graph's node.
pub fn node_handle(graph: u64, index: usize) -> u64 {
    NODE_TAG | ((graph & 0xff_ffff_ffff) / 16 * NODE_LIMIT + index as u64)
}

/// The graph that a node's handle names, with its handle, and the node's index.
///
/// # Errors
/// `hipErrorInvalidValue` when there is no such graph, or it has no such node.
pub fn find_node(node: u64) -> Result<(u64, Arc<Graph>, usize)> {
    let wrong = || invalid("not the handle of a graph's node");
    if node & NODE_TAG == 0 || node >> 62 != 0 {
        return Err(wrong());
    }
    let node = node & !NODE_TAG;
    let (number, index) = (node / NODE_LIMIT * 16, (node % NODE_LIMIT) as usize);
    let graph = GRAPHS.get_by_number(number).map_err(|_| wrong())?;
    graph.node(index)?;
    Ok((Kind::Graph.tag() | number, graph, index))
}
