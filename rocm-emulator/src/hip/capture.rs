//! Captures of streams' work, and what HIP refuses while one is under way.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::ThreadId;

use parking_lot::Mutex;

use super::error::{Code, Result};
use super::operation::{Node, Operation};

/// `hipStreamCaptureModeGlobal`.
pub const MODE_GLOBAL: u32 = 0;
/// `hipStreamCaptureModeRelaxed`.
pub const MODE_RELAXED: u32 = 2;

thread_local! {
    /// `hipThreadExchangeStreamCaptureMode`.
    pub static CAPTURE_MODE: Cell<u32> = const { Cell::new(MODE_GLOBAL) };
}

/// Captures under way whose mode is another than relaxed.
static STRICT: AtomicU64 = AtomicU64::new(0);

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
        if mode != MODE_RELAXED {
            STRICT.fetch_add(1, Ordering::Relaxed);
        }
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
        if ACTIVE.lock().remove(&self.id).is_some() && self.mode != MODE_RELAXED {
            STRICT.fetch_sub(1, Ordering::Relaxed);
        }
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

/// Refuse what waits for a whole device while anything is captured, in whichever mode.
///
/// # Errors
/// `hipErrorStreamCaptureUnsupported`, and all captures are invalid from then on.
pub fn refuse_during_any_capture() -> Result {
    let captures = Capture::all_active();
    captures.iter().for_each(|capture| capture.invalidate());
    match captures.is_empty() {
        true => Ok(()),
        false => Err(Code::StreamCaptureUnsupported.into()),
    }
}

/// Refuse a call that may wait for, or disturb, work being captured (allocations, synchronous copies, loading modules,
/// waiting for streams and events), by the rules of the capture modes.
///
/// # Errors
/// `hipErrorStreamCaptureUnsupported`, and the captures concerned are invalid from then on.
pub fn refuse_during_capture() -> Result {
    if STRICT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let mode = CAPTURE_MODE.get();
    if mode == MODE_RELAXED {
        return Ok(());
    }
    let this = std::thread::current().id();
    let mut refused = false;
    for capture in Capture::all_active() {
        let own = capture.thread == this && capture.mode != MODE_RELAXED;
        let others = mode == MODE_GLOBAL && capture.mode == MODE_GLOBAL;
        if own || others {
            capture.invalidate();
            refused = true;
        }
    }
    match refused {
        true => Err(Code::StreamCaptureUnsupported.into()),
        false => Ok(()),
    }
}
