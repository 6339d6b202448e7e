//! Who wakes a queue's thread. A doorbell is memory that the host writes, so somebody must look: one thread does for all
//! queues, often while there is work, rarely when there has been none for a while.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ring::Queue;
use rocm_emulator::trouble;

/// Between two looks while there is work.
const SOON: Duration = Duration::from_micros(20);
/// Between two looks when there is none.
const LATE: Duration = Duration::from_micros(300);
/// When there has been none for so long.
const QUIET: Duration = Duration::from_millis(20);

type Watched = Arc<Mutex<Vec<(Arc<Queue>, Thread)>>>;

/// The doorbells of all queues.
#[derive(Default)]
pub struct Doorbells {
    watched: Watched,
    watcher: OnceLock<()>,
}

impl Doorbells {
    /// Look after a queue, whose thread this is.
    pub fn watch(&self, queue: Arc<Queue>, thread: Thread) {
        self.watched.lock().push((queue, thread));
        self.watcher.get_or_init(|| {
            let watched = self.watched.clone();
            let thread = std::thread::Builder::new().name("gpu doorbells".into());
            if let Err(error) = thread.spawn(move || look(&watched)) {
                trouble::say(format_args!(
                    "no thread for doorbells, queues will stand still: {error}"
                ));
            }
        });
    }

    /// Look after it no longer.
    pub fn forget(&self, queue: &Arc<Queue>) {
        self.watched
            .lock()
            .retain(|(other, _)| !Arc::ptr_eq(other, queue));
    }
}

fn look(watched: &Watched) {
    // Sleeps end when they should, not 50 us later.
    // SAFETY: takes numbers alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut last = Instant::now();
    loop {
        let mut rang = false;
        for (queue, thread) in watched.lock().iter() {
            if queue.is_rung() {
                rang = true;
                if queue.sleeps.swap(false, Ordering::AcqRel) {
                    thread.unpark();
                }
            }
        }
        if rang {
            last = Instant::now();
        }
        std::thread::sleep(if last.elapsed() < QUIET { SOON } else { LATE });
    }
}
