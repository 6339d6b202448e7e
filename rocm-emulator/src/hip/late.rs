//! Streams that run late (`ROCM_EMU_CHECK=order`): work that is enqueued waits, and runs in an order that is drawn among
//! those that streams, events and the legacy default stream allow, when something waits for it or by chance. A host that
//! does not wait where it must then finds what it would find on a slow GPU.
//!
//! Copies between memory of the program that is not pinned and the device are done when their call returns, as HIP's are
//! once it has staged them.
//!
//! A kernel may wait for another GPU's, which may not be enqueued yet. Where there are several GPUs kernels run on threads
//! of their own, and one that takes long lets others begin beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::error::Result;
use super::event::{Event, Record};
use super::graph_faults;
use super::operation::{Node, Operation};
use super::state::{runtime, Device, Runtime};
use crate::exec::{Checks, Draw};
use crate::trouble;

/// A call runs one piece of work by chance as often as this.
const BY_CHANCE: usize = 4;
/// More pieces than this do not wait.
const MOST: usize = 64;
/// Work that nobody waits for begins after this time: the host may wait for memory to change.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a kernel runs, where there are several GPUs, before others may begin: it may wait for one of them.
const TURN: Duration = Duration::from_millis(10);

/// What is known of the stream that work belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The stream's number, which no other ever has.
    pub stream: u64,
    /// Its device.
    pub device: usize,
    /// It is the legacy default stream.
    pub legacy: bool,
    /// It is ordered with that.
    pub blocking: bool,
}

impl Lane {
    /// Whether work of this stream waits for earlier work of the other.
    fn follows(&self, other: &Lane) -> bool {
        let implied = (self.legacy && other.blocking) || (other.legacy && self.blocking);
        self.stream == other.stream || self.device == other.device && implied
    }
}

/// What is done.
enum Work {
    Operation(Operation),
    /// An event is reached.
    Reach(Arc<Event>),
}

impl Work {
    /// Whether it may wait for other work.
    fn may_wait(&self) -> bool {
        use Operation::{Graph, Kernel, StaleGraph};
        matches!(self, Self::Operation(Kernel(_) | Graph(_) | StaleGraph(_)))
    }
}

struct Entry {
    lane: Lane,
    /// Work that comes before.
    after: Vec<u64>,
    /// `None` while it runs.
    work: Option<Work>,
}

struct State {
    next: u64,
    unfinished: BTreeMap<u64, Entry>,
    draw: Draw,
    /// Grows as work is done.
    turns: u64,
}

impl State {
    fn is_ready(&self, entry: &Entry) -> bool {
        let done = |before: &u64| !self.unfinished.contains_key(before);
        entry.work.is_some() && entry.after.iter().all(done)
    }

    /// What must run before some work is done, itself included.
    fn needed(&self, wanted: &[u64]) -> BTreeSet<u64> {
        let mut needed = BTreeSet::new();
        let mut open = wanted.to_vec();
        while let Some(id) = open.pop() {
            if let Some(entry) = self.unfinished.get(&id) {
                if needed.insert(id) {
                    open.extend(&entry.after);
                }
            }
        }
        needed
    }

    /// One that can run now, drawn from those that `wanted` needs, or sometimes from all.
    fn choose(&mut self, wanted: Option<&[u64]>) -> Option<(u64, Lane, Work)> {
        let needed = wanted.map(|wanted| self.needed(wanted));
        let any = needed.is_none() || self.draw.below(BY_CHANCE) == 0;
        let ready = |all: bool| -> Vec<u64> {
            let entries = self
                .unfinished
                .iter()
                .filter(|(_, entry)| self.is_ready(entry));
            let counts = |id: &u64| all || needed.as_ref().is_some_and(|it| it.contains(id));
            entries.map(|(id, _)| *id).filter(counts).collect()
        };
        let ready = ready(any);
        if ready.is_empty() {
            return None;
        }
        let id = ready[self.draw.below(ready.len())];
        let entry = self.unfinished.get_mut(&id)?;
        Some((id, entry.lane, entry.work.take()?))
    }
}

/// Work that was enqueued and has not run.
pub struct Late {
    state: Mutex<State>,
    changed: Condvar,
}

/// The process's late work; `None` if work runs as it is enqueued.
pub fn late(runtime: &Runtime) -> Option<&'static Late> {
    static LATE: OnceLock<Option<Late>> = OnceLock::new();
    LATE.get_or_init(|| {
        let settings = &runtime.settings;
        settings.checks.has(Checks::ORDER).then(|| {
            std::thread::spawn(watch);
            Late {
                state: Mutex::new(State {
                    next: 0,
                    unfinished: BTreeMap::new(),
                    draw: Draw::new(settings.seed),
                    turns: 0,
                }),
                changed: Condvar::new(),
            }
        })
    })
    .as_ref()
}

/// Runs what nobody waits for, in the end.
fn watch() {
    let Ok(runtime) = runtime() else { return };
    let mut seen = None;
    loop {
        std::thread::sleep(PATIENCE);
        let Some(late) = late(runtime) else { return };
        let turns = late.state.lock().turns;
        if seen.replace(turns) == Some(turns) {
            late.run_one(runtime, None);
        }
    }
}

/// Run a piece that was chosen, on a thread of its own.
fn complete_here(id: u64, lane: Lane, work: &Work) {
    let Ok(runtime) = runtime() else { return };
    if let Some(late) = late(runtime) {
        late.complete(runtime, id, lane, work);
    }
}

impl Late {
    /// Enqueue an operation behind its stream's work, and behind the events that the stream waits for.
    pub fn enqueue(&self, runtime: &Runtime, lane: Lane, waits: Vec<u64>, operation: Operation) {
        let at_once = match &operation {
            Operation::Copy(copy) => [copy.from, copy.to]
                .iter()
                .any(|address| runtime.owner(*address).is_none()),
            _ => false,
        };
        let id = self.push(lane, waits, Work::Operation(operation));
        if at_once {
            self.finish(runtime, |at, _| at == id);
        }
        self.drift(runtime);
    }

    /// Enqueue an event.
    pub fn record(&self, runtime: &Runtime, lane: Lane, waits: Vec<u64>, event: &Arc<Event>) {
        let mut state = event.state.lock();
        *state = Record::Pending(self.push(lane, waits, Work::Reach(Arc::clone(event))));
        drop(state);
        self.drift(runtime);
    }

    fn push(&self, lane: Lane, waits: Vec<u64>, work: Work) -> u64 {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let before = state.unfinished.iter();
        let mut after: Vec<u64> = before
            .filter(|(_, entry)| lane.follows(&entry.lane))
            .map(|(id, _)| *id)
            .collect();
        after.extend(waits);
        let work = Some(work);
        state.unfinished.insert(id, Entry { lane, after, work });
        id
    }

    /// Run something by chance.
    fn drift(&self, runtime: &Runtime) {
        let chance = {
            let mut state = self.state.lock();
            state.draw.below(BY_CHANCE) == 0 || state.unfinished.len() > MOST
        };
        if chance {
            self.run_one(runtime, None);
        }
    }

    /// Run one piece that can run; tells whether there was one.
    fn run_one(&self, runtime: &Runtime, wanted: Option<&[u64]>) -> bool {
        let Some((id, lane, work)) = self.state.lock().choose(wanted) else {
            return false;
        };
        if runtime.devices.len() == 1 || !work.may_wait() {
            self.complete(runtime, id, lane, &work);
            return true;
        }
        std::thread::spawn(move || complete_here(id, lane, &work));
        let end = Instant::now() + TURN;
        let mut state = self.state.lock();
        while state.unfinished.contains_key(&id) {
            if self.changed.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        true
    }

    /// Run a piece that was chosen, to its end.
    fn complete(&self, runtime: &Runtime, id: u64, lane: Lane, work: &Work) {
        let device = &runtime.devices[lane.device];
        if let Err(error) = self.run(runtime, device, id, work) {
            // There is no call to return it from: it is the device's, as a kernel's fault is.
            let mut fault = device.fault.lock();
            if fault.is_none() {
                trouble::say(format_args!(
                    "device {} ({}): {error}",
                    device.index, device.target
                ));
                *fault = Some(error);
            }
        }
        let mut state = self.state.lock();
        state.unfinished.remove(&id);
        state.turns += 1;
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self, runtime: &Runtime, device: &Device, id: u64, work: &Work) -> Result {
        let operation = match work {
            Work::Operation(operation) => operation,
            Work::Reach(event) => {
                let mut state = event.state.lock();
                // It may have been recorded again.
                if *state == Record::Pending(id) {
                    *state = Record::Reached(Instant::now());
                }
                return Ok(());
            }
        };
        device.healthy()?;
        match operation {
            // A host function may enqueue on another stream.
            Operation::Host { .. } => operation.run(runtime, device),
            Operation::Graph(nodes) => {
                let _held = device.order.read();
                let order = self.order_of(nodes);
                let mut operations = order.into_iter().map(|at| &nodes[at].operation);
                operations.try_for_each(|operation| operation.run(runtime, device))
            }
            _ => {
                let _held = device.order.read();
                graph_faults::run(runtime, device, operation)
            }
        }
    }

    /// A graph's nodes in a drawn order that their edges allow.
    fn order_of(&self, nodes: &[Node]) -> Vec<usize> {
        let draw = &mut self.state.lock().draw;
        let mut order: Vec<usize> = Vec::new();
        let mut left: Vec<usize> = (0..nodes.len()).collect();
        while !left.is_empty() {
            let ready = |at: &&usize| nodes[**at].after.iter().all(|it| order.contains(it));
            let ready: Vec<usize> = left.iter().filter(ready).copied().collect();
            // Edges make no circle: graphs are checked as they are built.
            let Some(next) = ready.get(draw.below(ready.len())) else {
                order.append(&mut left);
                break;
            };
            left.retain(|at| at != next);
            order.push(*next);
        }
        order
    }

    /// Run until all work that `wants` chooses is done, with what that needs.
    fn finish(&self, runtime: &Runtime, wants: impl Fn(u64, &Lane) -> bool) {
        loop {
            let wanted: Vec<u64> = {
                let state = self.state.lock();
                let entries = state.unfinished.iter();
                let wanted = entries.filter(|(id, entry)| wants(**id, &entry.lane));
                wanted.map(|(id, _)| *id).collect()
            };
            if wanted.is_empty() {
                return;
            }
            if !self.run_one(runtime, Some(&wanted)) {
                // Another thread runs what is needed.
                let mut state = self.state.lock();
                self.changed.wait_for(&mut state, Duration::from_millis(1));
            }
        }
    }

    /// Wait for a stream: its work, and the events that it waits for.
    pub fn synchronize(&self, runtime: &Runtime, lane: Lane, waits: &[u64]) {
        self.finish(runtime, |id, other| {
            let blocking = lane.legacy && other.blocking && lane.device == other.device;
            lane.stream == other.stream || blocking || waits.contains(&id)
        });
    }

    /// Wait for all work of a device.
    pub fn synchronize_device(&self, runtime: &Runtime, device: &Device) {
        self.finish(runtime, |_, lane| lane.device == device.index);
    }

    /// Wait for an event.
    pub fn reach(&self, runtime: &Runtime, event: &Event) {
        let record = event.state.lock().clone();
        if let Record::Pending(wanted) = record {
            self.finish(runtime, |id, _| id == wanted);
        }
    }

    /// Whether a stream has nothing left to do; asking lets something run.
    pub fn is_idle(&self, runtime: &Runtime, lane: Lane) -> bool {
        self.run_one(runtime, None);
        let state = self.state.lock();
        let mut lanes = state.unfinished.values().map(|entry| entry.lane);
        !lanes.any(|other| other.stream == lane.stream)
    }

    /// Whether an event is reached; asking lets something run.
    pub fn is_reached(&self, runtime: &Runtime, event: &Event) -> bool {
        self.run_one(runtime, None);
        !matches!(*event.state.lock(), Record::Pending(_))
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;

    #[test]
    fn the_default_stream_is_ordered_with_blocking_ones() {
        let lane = |stream, legacy, blocking| Lane {
            stream,
            device: 0,
            legacy,
            blocking,
        };
        let (default, one, other) = (
            lane(0, true, true),
            lane(1, false, true),
            lane(2, false, true),
        );
        assert!(default.follows(&one) && one.follows(&default));
        assert!(!one.follows(&other) && one.follows(&one));
        let apart = lane(3, false, false);
        assert!(!default.follows(&apart) && !apart.follows(&default));
        let elsewhere = Lane { device: 1, ..one };
        assert!(!default.follows(&elsewhere));
    }
}
