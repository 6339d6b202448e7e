//! Operations, captures of them, and graphs that replay them.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::ThreadId;

use parking_lot::Mutex;

use super::copy::{self, Rectangle};
use super::error::{Code, Result};
use super::launch::KernelLaunch;
use super::state::{Device, Runtime};

/// A function of the program, called in a stream's order.
#[derive(Clone, Copy)]
pub enum HostFunction {
    /// `hipLaunchHostFunc`.
    Plain(unsafe extern "C" fn(*mut c_void)),
    /// `hipStreamAddCallback`: also told the stream and its status.
    Callback(unsafe extern "C" fn(*mut c_void, u32, *mut c_void), u64),
}

/// One piece of work, enqueued on a stream or recorded in a graph.
#[derive(Clone)]
pub enum Operation {
    /// A kernel launch.
    Kernel(Arc<KernelLaunch>),
    /// A copy.
    Copy(Rectangle),
    /// A fill: of `rows` rows, `count` times the pattern's first `width` bytes.
    Fill {
        /// First byte.
        address: u64,
        /// Bytes from one row to the next.
        pitch: u64,
        /// Rows.
        rows: u64,
        /// The pattern, in its first `width` bytes.
        pattern: [u8; 4],
        /// 1, 2 or 4.
        width: usize,
        /// Patterns in a row.
        count: u64,
    },
    /// A call of the program.
    Host {
        /// The function.
        function: HostFunction,
        /// Its argument, as an address.
        data: u64,
    },
    /// An instantiated graph, launched.
    Graph(Arc<[Node]>),
    /// `hipMallocAsync` while capturing; the memory was allocated then, so that its address is known.
    Allocate(Arc<GraphAllocation>),
    /// `hipFreeAsync` while capturing.
    Free(u64),
    /// Nothing.
    Empty,
}

impl Operation {
    /// Do it, on the thread that calls.
    pub fn run(&self, runtime: &Runtime, device: &Device) -> Result {
        match self {
            Operation::Kernel(launch) => launch.run(runtime, device),
            Operation::Copy(rectangle) => copy::rectangle(runtime, rectangle),
            Operation::Fill {
                address,
                pitch,
                rows,
                pattern,
                width,
                count,
            } => (0..*rows).try_for_each(|row| {
                let row = address.wrapping_add(row.wrapping_mul(*pitch));
                copy::fill(runtime, row, &pattern[..*width], *count)
            }),
            Operation::Host { function, data } => {
                let data = *data as *mut c_void;
                match *function {
                    // SAFETY: the program enqueued this function with this argument.
                    HostFunction::Plain(function) => unsafe { function(data) },
                    // SAFETY: as above; the stream's handle is the one it was enqueued on.
                    HostFunction::Callback(function, stream) => unsafe {
                        function(stream as *mut c_void, 0, data)
                    },
                }
                Ok(())
            }
            Operation::Graph(nodes) => nodes
                .iter()
                .try_for_each(|node| node.operation.run(runtime, device)),
            Operation::Free(address) => copy::free_device(runtime, *address, true),
            Operation::Allocate(_) | Operation::Empty => Ok(()),
        }
    }

    /// `hipGraphNodeType`.
    pub fn node_type(&self) -> u32 {
        match self {
            Operation::Kernel(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Fill { .. } => 2,
            Operation::Host { .. } => 3,
            Operation::Graph(_) => 4,
            Operation::Empty => 5,
            Operation::Allocate(_) => 10,
            Operation::Free(_) => 11,
        }
    }
}

/// Memory that a capture allocated; freed with the last graph that uses it.
pub struct GraphAllocation {
    /// Its device.
    pub device: usize,
    /// Its first byte.
    pub address: u64,
}

impl Drop for GraphAllocation {
    fn drop(&mut self) {
        if let Ok(runtime) = super::state::runtime() {
            // The program may have freed it itself.
            let _ = runtime.devices[self.device].memory.free(self.address);
        }
    }
}

/// A node of a graph.
#[derive(Clone)]
pub struct Node {
    /// What it does.
    pub operation: Operation,
    /// Indices of the nodes that come before.
    pub after: Vec<usize>,
}

/// A capture under way. Nodes are kept in the order of capture, which is one that the dependencies allow.
pub struct Capture {
    /// Its number.
    pub id: u64,
    /// The mode that it began with.
    pub mode: u32,
    /// The thread that began it.
    pub thread: ThreadId,
    /// The device of the stream that began it.
    pub device: usize,
    invalid: AtomicBool,
    nodes: Mutex<Vec<Node>>,
}

static ACTIVE: LazyLock<Mutex<HashMap<u64, Arc<Capture>>>> = LazyLock::new(Mutex::default);

impl Capture {
    /// Begin one.
    pub fn begin(mode: u32, device: usize) -> Arc<Capture> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let capture = Arc::new(Capture {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            mode,
            thread: std::thread::current().id(),
            device,
            invalid: AtomicBool::new(false),
            nodes: Mutex::new(Vec::new()),
        });
        ACTIVE.lock().insert(capture.id, capture.clone());
        capture
    }

    /// The capture of that number, if it is under way.
    pub fn active(id: u64) -> Option<Arc<Capture>> {
        ACTIVE.lock().get(&id).cloned()
    }

    /// Every capture under way.
    pub fn all_active() -> Vec<Arc<Capture>> {
        ACTIVE.lock().values().cloned().collect()
    }

    /// It is no longer under way.
    pub fn finish(&self) {
        ACTIVE.lock().remove(&self.id);
    }

    /// A call that captures forbid was made.
    pub fn invalidate(&self) {
        self.invalid.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// `hipErrorStreamCaptureInvalidated` after [`Capture::invalidate`].
    pub fn check(&self) -> Result {
        match self.invalid.load(Ordering::Relaxed) {
            true => Err(Code::StreamCaptureInvalidated.into()),
            false => Ok(()),
        }
    }

    /// Record an operation after the given nodes; gives its index.
    pub fn push(&self, operation: Operation, after: Vec<usize>) -> Result<usize> {
        self.check()?;
        let mut nodes = self.nodes.lock();
        nodes.push(Node { operation, after });
        Ok(nodes.len() - 1)
    }

    /// Whether the capture allocated the memory that starts there.
    pub fn allocated(&self, address: u64) -> bool {
        self.nodes.lock().iter().any(|node| {
            matches!(&node.operation, Operation::Allocate(memory) if memory.address == address)
        })
    }

    /// Whether every node is at or before one of the given.
    pub fn reaches_all(&self, frontier: &[usize]) -> bool {
        let nodes = self.nodes.lock();
        let mut reached = vec![false; nodes.len()];
        let mut open = frontier.to_vec();
        while let Some(node) = open.pop() {
            if let Some(seen @ false) = reached.get_mut(node) {
                *seen = true;
                open.extend(&nodes[node].after);
            }
        }
        reached.into_iter().all(|seen| seen)
    }

    /// The nodes recorded.
    pub fn nodes(&self) -> Arc<[Node]> {
        self.nodes.lock().clone().into()
    }
}

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
