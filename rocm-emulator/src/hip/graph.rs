//! Graphs, which replay what a capture recorded.

use std::sync::{Arc, LazyLock};

use super::handles::{Kind, Table};
use super::operation::Node;

/// Graphs.
pub static GRAPHS: LazyLock<Table<Graph>> = LazyLock::new(|| Table::new(Kind::Graph));
/// Instantiated graphs.
pub static GRAPH_EXECS: LazyLock<Table<GraphExec>> = LazyLock::new(|| Table::new(Kind::GraphExec));

/// A graph.
pub struct Graph {
    /// The device that it was captured on.
    pub device: usize,
    /// Its nodes in an order that the dependencies allow.
    pub nodes: Arc<[Node]>,
}

/// An instantiated graph.
pub struct GraphExec {
    /// The graph's device.
    pub device: usize,
    /// The graph's nodes.
    pub nodes: Arc<[Node]>,
}

/// Handles of nodes: the graph's handle in the high bits, the index below. A graph has fewer nodes than this.
const NODE_LIMIT: u64 = 1 << 20;
const NODE_TAG: u64 = 1 << 61;

/// The handle of a graph's node.
pub fn node_handle(graph: u64, index: usize) -> u64 {
    NODE_TAG | ((graph & 0xff_ffff_ffff) / 16 * NODE_LIMIT + index as u64)
}

/// The graph handle's low part and index that a node handle stands for.
pub fn split_node_handle(node: u64) -> Option<(u64, usize)> {
    if node & NODE_TAG == 0 || node >> 62 != 0 {
        return None;
    }
    let node = node & !NODE_TAG;
    Some((node / NODE_LIMIT * 16, (node % NODE_LIMIT) as usize))
}
