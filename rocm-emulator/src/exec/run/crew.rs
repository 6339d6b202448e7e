//! Threads that help with launches.
//!
//! A model's launches are short and follow each other closely: the time that a sleeping thread takes to wake is longer than
//! many of them. So a helper looks for the next launch for a while before it sleeps, and a launch waits for those helpers
//! alone that have begun, never for one that is still to wake.

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long a helper without work looks for some before it sleeps, longer than the host takes from launch to launch; and how
/// long a launch looks for the end of its helpers.
const LOOKS: Duration = Duration::from_micros(100);

/// Runs `work` on this thread and on up to `helpers` others, as far as they are free. `work` shares out what there is to do
/// and returns when nothing is left. Returns when all that began have ended.
///
/// # Panics
/// If `work` does, on any of the threads.
pub(super) fn share(helpers: usize, work: &(dyn Fn() + Sync)) {
    let job = CREW.offer(helpers, work);
    let mine = catch_unwind(AssertUnwindSafe(work));
    CREW.withdraw(&job);
    let theirs = job.wait();
    if let Err(panic) = mine {
        resume_unwind(panic);
    }
    if let Some(panic) = theirs {
        resume_unwind(panic);
    }
}

static CREW: Crew = Crew {
    state: Mutex::new(State {
        jobs: Vec::new(),
        threads: 0,
        sleeping: 0,
    }),
    offered: AtomicU64::new(0),
    wake: Condvar::new(),
};

/// All helpers of the process, and what they can help with.
struct Crew {
    state: Mutex<State>,
    /// Counts offers, so that a helper sees a new one without the lock.
    offered: AtomicU64,
    wake: Condvar,
}

struct State {
    /// Those that helpers may begin with.
    jobs: Vec<Arc<Job>>,
    /// Helpers there are.
    threads: usize,
    /// Of those, how many sleep.
    sleeping: usize,
}

impl Crew {
    fn offer(&'static self, helpers: usize, work: &(dyn Fn() + Sync)) -> Arc<Job> {
        // SAFETY: only the lifetime changes. Helpers call it between `begin` and `end`; `share` returns after `withdraw`,
        // from when on none begins, and after `wait`, when all have ended.
        let work =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) };
        let job = Arc::new(Job {
            work,
            helpers: Mutex::new(Helpers {
                places: helpers,
                inside: 0,
                panic: None,
            }),
            ended: Condvar::new(),
        });
        let mut state = self.state.lock();
        while state.threads < helpers {
            let helper = std::thread::Builder::new().name("rocm-emu".to_owned());
            // Without a helper the launch is slower, and right.
            if helper.spawn(|| self.help()).is_err() {
                break;
            }
            state.threads += 1;
        }
        state.jobs.push(job.clone());
        self.offered.fetch_add(1, Ordering::Release);
        for _ in 0..helpers.min(state.sleeping) {
            self.wake.notify_one();
        }
        job
    }

    /// From now on no helper begins.
    fn withdraw(&self, job: &Arc<Job>) {
        let mut state = self.state.lock();
        state.jobs.retain(|other| !Arc::ptr_eq(other, job));
    }

    /// A helper's life.
    fn help(&self) {
        loop {
            let job = self.next();
            let result = catch_unwind(AssertUnwindSafe(job.work));
            job.end(result.err());
        }
    }

    /// The next job that wants this helper.
    fn next(&self) -> Arc<Job> {
        let mut since = Instant::now();
        let mut seen = None;
        loop {
            let offered = self.offered.load(Ordering::Acquire);
            if seen != Some(offered) {
                if let Some(job) = self.begin(&self.state.lock()) {
                    return job;
                }
                seen = Some(offered);
            }
            if since.elapsed() < LOOKS {
                std::thread::yield_now();
                continue;
            }
            let mut state = self.state.lock();
            if self.offered.load(Ordering::Relaxed) == offered {
                state.sleeping += 1;
                self.wake.wait(&mut state);
                state.sleeping -= 1;
            }
            (since, seen) = (Instant::now(), None);
        }
    }

    fn begin(&self, state: &State) -> Option<Arc<Job>> {
        state.jobs.iter().find(|job| job.begin()).cloned()
    }
}

/// What helpers can help with.
struct Job {
    /// Valid as long as the job is offered, or a helper is inside.
    work: &'static (dyn Fn() + Sync),
    helpers: Mutex<Helpers>,
    ended: Condvar,
}

struct Helpers {
    /// How many more may begin.
    places: usize,
    /// How many have begun and not ended.
    inside: usize,
    /// That of the first which panicked.
    panic: Option<Box<dyn Any + Send>>,
}

impl Job {
    /// Take a place, if there is one. The crew's lock is held: the job is still offered.
    fn begin(&self) -> bool {
        let mut helpers = self.helpers.lock();
        let free = helpers.places > 0;
        if free {
            helpers.places -= 1;
            helpers.inside += 1;
        }
        free
    }

    fn end(&self, panic: Option<Box<dyn Any + Send>>) {
        let mut helpers = self.helpers.lock();
        helpers.inside -= 1;
        helpers.panic = helpers.panic.take().or(panic);
        self.ended.notify_all();
    }

    /// Wait until every helper that began has ended; the panic of one, if one did.
    fn wait(&self) -> Option<Box<dyn Any + Send>> {
        let since = Instant::now();
        let mut helpers = self.helpers.lock();
        while helpers.inside > 0 {
            if since.elapsed() < LOOKS {
                MutexGuard::unlocked(&mut helpers, std::thread::yield_now);
            } else {
                self.ended.wait(&mut helpers);
            }
        }
        helpers.panic.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Calls `each` for every number below `count`, by whoever takes it.
    fn count_up(helpers: usize, count: usize, each: impl Fn(usize) + Sync) {
        let next = AtomicUsize::new(0);
        share(helpers, &|| loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            each(number);
        });
    }

    #[test]
    fn every_piece_is_done_once() {
        for round in 0..200 {
            let done: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            count_up(round % 5, done.len(), |number| {
                done[number].fetch_add(1, Ordering::Relaxed);
            });
            assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_helper_comes() {
        let threads = Mutex::new(std::collections::HashSet::new());
        // Ends only when a second thread has taken part.
        count_up(1, 2, |_| {
            threads.lock().insert(std::thread::current().id());
            let start = Instant::now();
            while threads.lock().len() < 2 && start.elapsed() < Duration::from_secs(30) {
                std::thread::yield_now();
            }
        });
        assert_eq!(threads.lock().len(), 2);
    }

    #[test]
    fn launches_of_several_threads_share_the_helpers() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let sum = AtomicUsize::new(0);
                        count_up(3, 50, |number| {
                            sum.fetch_add(number, Ordering::Relaxed);
                        });
                        assert_eq!(sum.load(Ordering::Relaxed), 1225);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller() {
        for _ in 0..20 {
            let result = catch_unwind(|| count_up(2, 8, |number| assert_ne!(number, 5)));
            assert!(result.is_err());
        }
        every_piece_is_done_once();
    }
}
