//! Work that is enqueued on a stream, or recorded and replayed.

use std::ffi::c_void;
use std::sync::Arc;

use super::allocate;
use super::copy::{self, Rectangle};
use super::error::Result;
use super::event::{Event, Record};
use super::launch::KernelLaunch;
use super::state::{runtime, Device, Runtime};

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
    /// One that is to see memory as it was when it was made.
    StaleGraph(Arc<[Node]>),
    /// `hipMallocAsync` while capturing; the memory was allocated then, so that its address is known.
    Allocate(Arc<GraphAllocation>),
    /// `hipFreeAsync` while capturing.
    Free(u64),
    /// An event recorded by a graph, and its handle.
    Record(Arc<Event>, u64),
    /// A graph's wait for the event of a handle: whatever it stands for is done when the wait's turn comes.
    Wait(u64),
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
            Operation::Graph(nodes) | Operation::StaleGraph(nodes) => nodes
                .iter()
                .try_for_each(|node| node.operation.run(runtime, device)),
            Operation::Free(address) => allocate::free_device(runtime, *address, true),
            Operation::Record(event, _) => {
                *event.state.lock() = Record::Reached(std::time::Instant::now());
                Ok(())
            }
            Operation::Allocate(_) | Operation::Wait(..) | Operation::Empty => Ok(()),
        }
    }

    /// `hipGraphNodeType`.
    pub fn node_type(&self) -> u32 {
        match self {
            Operation::Kernel(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Fill { .. } => 2,
            Operation::Host { .. } => 3,
            Operation::Graph(_) | Operation::StaleGraph(_) => 4,
            Operation::Empty => 5,
            Operation::Wait(..) => 6,
            Operation::Record(..) => 7,
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
        if let Ok(runtime) = runtime() {
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
