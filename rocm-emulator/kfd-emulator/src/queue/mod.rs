//! Queues of AQL packets: each is read by a thread of its own, which runs what it finds.

mod doorbells;
mod packet;
mod ring;
mod signal;
mod work;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::abi::{queue_kind, CreateQueue};
use crate::events::Events;
use crate::gpu::Gpu;

use doorbells::Doorbells;
use ring::{Queue, Ring};

/// Most queues of a process: a page of doorbells on each GPU.
pub const MOST: usize = 1024;
/// Bytes of a doorbell.
pub const DOORBELL: u64 = 8;

/// A queue and the thread that serves it.
type Served = (Arc<Queue>, JoinHandle<()>);

/// The queues of the process.
pub struct Queues {
    events: &'static Events,
    doorbells: Doorbells,
    queues: Mutex<Vec<Option<Served>>>,
}

impl Queues {
    /// None yet; events are set when their signals are.
    pub fn new(events: &'static Events) -> Queues {
        Queues {
            events,
            doorbells: Doorbells::default(),
            queues: Mutex::default(),
        }
    }

    /// A new queue of a GPU: its number. `Err` is `errno`.
    pub fn create(&self, gpu: &'static Gpu, args: &CreateQueue) -> Result<u32, i32> {
        if args.kind != queue_kind::AQL {
            return Err(libc::EINVAL);
        }
        let ring = Ring::of(args).ok_or(libc::EINVAL)?;
        let queue = Arc::new(Queue {
            gpu,
            taken: AtomicU64::new(ring.read.load(Ordering::Relaxed)),
            ring,
            stop: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
        });
        let mut queues = self.queues.lock();
        let free = queues.iter().position(Option::is_none);
        let number = free.unwrap_or(queues.len());
        if number >= MOST {
            return Err(libc::ENOSPC);
        }
        let (events, works) = (self.events, queue.clone());
        let thread = std::thread::Builder::new().name(format!("gpu {} queue {number}", gpu.index));
        let thread = thread.spawn(move || work::work(&works, events));
        let thread = thread.map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN))?;
        self.doorbells.watch(queue.clone(), thread.thread().clone());
        let entry = Some((queue, thread));
        match free {
            Some(number) => queues[number] = entry,
            None => queues.push(entry),
        }
        Ok(number as u32)
    }

    /// End a queue, after the packet that it is at; false if there is no such one.
    pub fn destroy(&self, number: u32) -> bool {
        let taken = self
            .queues
            .lock()
            .get_mut(number as usize)
            .and_then(Option::take);
        let Some((queue, thread)) = taken else {
            return false;
        };
        queue.stop.store(true, Ordering::Release);
        self.doorbells.forget(&queue);
        thread.thread().unpark();
        // A thread that panicked has said so.
        let _ = thread.join();
        true
    }
}
