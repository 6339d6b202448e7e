//! Which workgroup a thread runs next.
//!
//! A thread runs a workgroup to its end and takes the next. Only where a workgroup waits for another one (all its
//! wavefronts sleep, spin or stand at a barrier) is it laid aside and a later one begun, until there are as many
//! unfinished ones as the GPU holds at once; then the threads go round among those.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::workgroup::Workgroup;
use crate::exec::check::Draw;

/// What a thread does next.
pub(super) enum Next {
    /// Begin the workgroup of this number.
    Begin(u64),
    /// Go on with one that was laid aside.
    Resume(Workgroup),
    /// Ask again later: others run what is left, and the GPU has no room for more.
    Later,
    /// Nothing is left.
    Finished,
}

/// The workgroups of a launch, as its threads share them.
pub(super) struct Schedule {
    /// The workgroup that is begun next.
    next: AtomicU64,
    /// Workgroups from this one on need not run: there are no more, or an earlier one failed.
    limit: AtomicU64,
    /// Begun and not ended.
    resident: AtomicU64,
    /// As many may be.
    capacity: u64,
    aside: Mutex<VecDeque<Workgroup>>,
    /// How many are there, to be known without the lock.
    aside_count: AtomicUsize,
    /// Grows whenever a workgroup gets on.
    progress: AtomicU64,
    /// Threads at work.
    threads: AtomicUsize,
    idle: Mutex<Idle>,
    /// Who begins next where that is drawn.
    dealt: Option<Mutex<Dealt>>,
}

/// Workgroups dealt to XCDs in turn: each XCD begins its own in the grid's order, as far as it has room, and which XCD
/// does so next is drawn.
struct Dealt {
    xcds: Vec<Xcd>,
    /// Workgroups that each holds.
    room: u64,
    draw: Draw,
}

struct Xcd {
    /// The workgroup that it begins next.
    next: u64,
    resident: u64,
}

impl Dealt {
    fn begin(&mut self, limit: u64) -> Option<u64> {
        let room = self.room;
        let can = |xcd: &&mut Xcd| xcd.next < limit && xcd.resident < room;
        let step = self.xcds.len() as u64;
        let mut able: Vec<&mut Xcd> = self.xcds.iter_mut().filter(can).collect();
        if able.is_empty() {
            return None;
        }
        let drawn = self.draw.below(able.len());
        let xcd = able.swap_remove(drawn);
        let number = xcd.next;
        xcd.next += step;
        xcd.resident += 1;
        Some(number)
    }

    fn ended(&mut self, number: u64) {
        let xcd = (number % self.xcds.len() as u64) as usize;
        self.xcds[xcd].resident -= 1;
    }

    fn has_more(&self, limit: u64) -> bool {
        self.xcds.iter().any(|xcd| xcd.next < limit)
    }
}

/// Threads that have found every workgroup waiting since the launch last got on.
#[derive(Default)]
struct Idle {
    progress: u64,
    threads: usize,
}

impl Schedule {
    /// For a grid of so many workgroups on a GPU that holds `capacity` of them.
    pub fn new(workgroups: u64, capacity: u64) -> Schedule {
        Schedule {
            next: AtomicU64::new(0),
            limit: AtomicU64::new(workgroups),
            resident: AtomicU64::new(0),
            capacity: capacity.max(1),
            aside: Mutex::default(),
            aside_count: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
            threads: AtomicUsize::new(0),
            idle: Mutex::default(),
            dealt: None,
        }
    }

    /// The same, with a drawn order among so many XCDs, each of which holds its share.
    pub fn among(self, xcds: u32, draw: Draw) -> Schedule {
        let dealt = Dealt {
            xcds: (0..u64::from(xcds.max(1)))
                .map(|next| Xcd { next, resident: 0 })
                .collect(),
            room: (self.capacity / u64::from(xcds.max(1))).max(1),
            draw,
        };
        Schedule {
            dealt: Some(Mutex::new(dealt)),
            ..self
        }
    }

    /// What to run now; `after_waiting` if the thread's last workgroup waits, and another may be what it waits for.
    pub fn next(&self, after_waiting: bool) -> Next {
        if !after_waiting {
            if let Some(workgroup) = self.take_aside() {
                return Next::Resume(workgroup);
            }
        }
        if let Some(number) = self.begin() {
            return Next::Begin(number);
        }
        match self.take_aside() {
            Some(workgroup) => Next::Resume(workgroup),
            None if self.has_more() => Next::Later,
            None => Next::Finished,
        }
    }

    fn has_more(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        match &self.dealt {
            Some(dealt) => dealt.lock().has_more(limit),
            None => self.next.load(Ordering::Relaxed) < limit,
        }
    }

    fn begin(&self) -> Option<u64> {
        if let Some(dealt) = &self.dealt {
            return dealt.lock().begin(self.limit.load(Ordering::Relaxed));
        }
        if self.resident.fetch_add(1, Ordering::Relaxed) < self.capacity {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number < self.limit.load(Ordering::Relaxed) {
                return Some(number);
            }
        }
        self.resident.fetch_sub(1, Ordering::Relaxed);
        None
    }

    fn take_aside(&self) -> Option<Workgroup> {
        if self.aside_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = self.aside.lock().pop_front()?;
        self.aside_count.fetch_sub(1, Ordering::Relaxed);
        Some(taken)
    }

    /// Lay a workgroup aside.
    pub fn lay_aside(&self, workgroup: Workgroup) {
        self.aside.lock().push_back(workgroup);
        self.aside_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Workgroups laid aside.
    pub fn aside(&self) -> usize {
        self.aside_count.load(Ordering::Relaxed)
    }

    /// The workgroup of this number has ended, or is given up.
    pub fn ended(&self, number: u64) {
        match &self.dealt {
            Some(dealt) => dealt.lock().ended(number),
            None => {
                self.resident.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.got_on();
    }

    /// A workgroup has got on.
    pub fn got_on(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows as workgroups get on.
    pub fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }

    /// A thread begins its work.
    pub fn enter(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread has finished its work.
    pub fn leave(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// A thread has found every workgroup that is laid aside waiting, since the launch was at `progress`; `noted` is the
    /// progress at which it said so last. Tells whether all threads have: then nothing can go on by itself.
    pub fn note_idle(&self, progress: u64, noted: &mut Option<u64>) -> bool {
        let mut idle = self.idle.lock();
        if idle.progress != progress {
            *idle = Idle {
                progress,
                threads: 0,
            };
        }
        if noted.replace(progress) != Some(progress) || idle.threads == 0 {
            idle.threads += 1;
        }
        idle.threads >= self.threads.load(Ordering::Relaxed)
    }

    /// The workgroup of this number failed: later ones need not run.
    pub fn failed(&self, number: u64) {
        self.limit.fetch_min(number, Ordering::Relaxed);
    }

    /// Whether the workgroup of this number must still run.
    pub fn wants(&self, number: u64) -> bool {
        number < self.limit.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Next, Schedule};
    use crate::exec::check::Draw;

    /// The numbers of workgroups that begin, as far as there is room.
    fn begun(schedule: &Schedule) -> Vec<u64> {
        let next = || match schedule.next(false) {
            Next::Begin(number) => Some(number),
            _ => None,
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn each_xcd_begins_its_own_in_order() {
        let drawn = |seed| Schedule::new(20, 8).among(4, Draw::new(seed));
        let schedule = drawn(1);
        let first = begun(&schedule);
        assert_eq!(first.len(), 8);
        for xcd in 0..4 {
            let of_xcd: Vec<u64> = first.iter().copied().filter(|it| it % 4 == xcd).collect();
            assert_eq!(of_xcd, [xcd, xcd + 4]);
        }
        assert_ne!(first, begun(&drawn(2)));
        schedule.ended(1);
        assert_eq!(begun(&schedule), [9], "of the XCD that has room");
        schedule.failed(10);
        schedule.ended(0);
        schedule.ended(3);
        assert_eq!(begun(&schedule), [8], "none behind one that failed");
    }
}
