//! A rank as others see it: what it waits for, and who is gone.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_rocm_kernels::numbers::communication::{ALL_REDUCE_WORKGROUPS, DOUBT_ALL};
use parking_lot::Mutex;

use super::layout::{ChannelWord, Word};
use super::segment::{self, Segment};
use crate::base::error::{Error, ErrorKind, Result};
use crate::communication::choice;
use crate::device::gpu::Device;

/// Since when a rank is waited for, and how far it was then: its last message, what it read and what it sent.
type Wait = (Instant, [u32; 3]);

/// The rank that is to blame if one is not waited for any more, and the error then.
type Doubt = (usize, Error);

/// A rank of this process.
pub(super) struct Watched {
    /// What it shares with the others.
    pub segment: Arc<Segment>,
    /// Its number.
    pub rank: usize,
    /// Its GPU.
    pub device: Arc<Device>,
    /// Why it waits for nobody any more.
    failure: Mutex<Option<Error>>,
    /// For each other rank, whether it is waited for.
    waits: Mutex<Vec<Option<Wait>>>,
    /// For each workgroup of all-reduces, since when it waits, and for which piece.
    awaits: Mutex<Vec<Option<(Instant, u32)>>>,
    /// What the GPU was told not to wait for: it looks once more, and gives up if nothing has come.
    doubt: Mutex<Option<Doubt>>,
}

/// Whether a message comes after another; numbers wrap around.
fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}

impl Watched {
    /// A rank that comes.
    ///
    /// # Errors
    /// It has come before.
    pub fn come(segment: Arc<Segment>, rank: usize, device: Arc<Device>) -> Result<Arc<Self>> {
        let world = segment.layout.world;
        let twice = |whose: String| {
            Error::invalid(format!(
                "rank {rank} of {world} comes twice: {whose} has it"
            ))
        };
        segment
            .file
            .hold(rank)
            .map_err(|_| twice("another process".to_owned()))?;
        // Before the process: who sees that one asks whose it is.
        let instance = segment::instance()?;
        segment
            .wide(rank, Word::Instance)
            .store(instance, Ordering::Release);
        let process = segment.word(rank, Word::Process);
        let own = std::process::id();
        process
            .compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|process| twice(format!("process {process}")))?;
        let gpu = device.ordinal() as u32 + 1;
        segment.word(rank, Word::Gpu).store(gpu, Ordering::Release);
        let multiprocessors = segment.word(rank, Word::Multiprocessors);
        multiprocessors.store(device.info().compute_units, Ordering::Release);
        Ok(Arc::new(Self {
            rank,
            device,
            failure: Mutex::new(None),
            waits: Mutex::new(vec![None; world]),
            awaits: Mutex::new(vec![None; ALL_REDUCE_WORKGROUPS as usize]),
            doubt: Mutex::new(None),
            segment,
        }))
    }

    fn load(&self, rank: usize, word: Word) -> u32 {
        self.segment.word(rank, word).load(Ordering::Acquire)
    }

    /// Whether another rank is of this process.
    pub fn is_of_this_process(&self, rank: usize) -> bool {
        let instance = |rank| {
            self.segment
                .wide(rank, Word::Instance)
                .load(Ordering::Acquire)
        };
        instance(rank) == instance(self.rank)
    }

    /// Multiprocessors of the smallest GPU of all ranks, which have come.
    pub fn least_multiprocessors(&self) -> u32 {
        let ranks = 0..self.segment.layout.world;
        let of_ranks = ranks.map(|rank| self.load(rank, Word::Multiprocessors));
        of_ranks.min().unwrap_or_default().max(1)
    }

    /// A rank in words, with its process.
    pub fn name(&self, rank: usize) -> String {
        match self.load(rank, Word::Process) {
            0 => format!("rank {rank}"),
            process => format!("rank {rank} (process {process})"),
        }
    }

    /// What became of a rank that will do nothing more, and the rank that is to blame.
    pub fn gone(&self, rank: usize) -> Option<(usize, String)> {
        let culprit = self.load(rank, Word::Culprit) as usize;
        if culprit > 0 && culprit - 1 != self.rank && culprit - 1 != rank {
            let found = format!(
                "{} is gone, as {} found",
                self.name(culprit - 1),
                self.name(rank)
            );
            return Some((culprit - 1, found));
        }
        if culprit > 0 {
            return Some((rank, format!("{} has given up", self.name(rank))));
        }
        if self.load(rank, Word::Left) != 0 {
            return Some((rank, format!("{} has left", self.name(rank))));
        }
        let has_come = self.load(rank, Word::Process) != 0;
        let is_dead = has_come
            && !self.is_of_this_process(rank)
            && !self.segment.file.is_held_elsewhere(rank);
        is_dead.then(|| (rank, format!("{} has ended", self.name(rank))))
    }

    /// Whether the GPU waits, or will, for another rank's message, and how far that one is.
    fn waits_for(&self, other: usize) -> Option<[u32; 3]> {
        let channel = |from, to, word| self.segment.channel(from, to, word).load(Ordering::Acquire);
        let (own, rank) = (self.load(self.rank, Word::Flag), self.rank);
        let flag = self.load(other, Word::Flag);
        let read = channel(rank, other, ChannelWord::Read);
        let sent = channel(other, rank, ChannelWord::Sent);
        let waits = is_after(own, flag)
            || is_after(channel(rank, other, ChannelWord::SenderWants), read)
            || is_after(channel(other, rank, ChannelWord::ReceiverWants), sent);
        waits.then_some([flag, read, sent])
    }

    /// Ends the GPU's waiting for ranks that are gone, or have not come in time.
    pub fn look(&self) {
        self.settle();
        if self.failure.lock().is_some() {
            return;
        }
        let Ok(limit) = choice::timeout() else {
            return;
        };
        let others = (0..self.segment.layout.world).filter(|other| *other != self.rank);
        for other in others {
            if let Some((culprit, error)) = self.look_at(other, limit) {
                self.fail(culprit, error);
                return;
            }
        }
        self.look_at_all_reduces(limit);
    }

    /// Tells the GPU whom not to wait for. What came before it was told counts: it alone knows.
    fn look_at_all_reduces(&self, limit: Duration) {
        let mut waits = self.awaits.lock();
        let mut found = None;
        for (workgroup, wait) in waits.iter_mut().enumerate() {
            let awaited = self.segment.awaits(self.rank, workgroup);
            let awaited = awaited.load(Ordering::Acquire);
            if awaited == 0 {
                *wait = None;
                continue;
            }
            let (other, piece) = ((awaited & 0xff) as usize - 1, awaited >> 8);
            if wait.is_none_or(|(_, seen)| seen != piece) {
                *wait = Some((Instant::now(), piece));
            }
            let since = wait.map_or(Duration::ZERO, |(since, _)| since.elapsed());
            let too_late = || (other, self.too_late(other, limit));
            let reason = self.gone(other).or_else(|| (since > limit).then(too_late));
            if let Some((culprit, what)) = reason {
                found = Some((other, (culprit, self.error(&what))));
                break;
            }
        }
        let word = self.segment.word(self.rank, Word::Doubt);
        let doubted = found.as_ref().map_or(0, |(other, _)| *other as u32 + 1);
        // Who fails says something else.
        let failure = self.failure.lock();
        if failure.is_none() {
            // Before the GPU reads it.
            *self.doubt.lock() = found.map(|(_, doubt)| doubt);
            word.store(doubted, Ordering::Release);
        }
    }

    /// If the GPU has given up, so does the rank.
    fn settle(&self) {
        if self.load(self.rank, Word::GaveUp) == 0 {
            return;
        }
        let doubt = self.doubt.lock().take();
        if let Some((culprit, error)) = doubt {
            self.fail(culprit, error);
        }
    }

    fn look_at(&self, other: usize, limit: Duration) -> Option<(usize, Error)> {
        let mut waits = self.waits.lock();
        let Some(_) = self.waits_for(other) else {
            waits[other] = None;
            return None;
        };
        let gone = self.gone(other);
        // What it did before it went counts.
        let Some(progress) = self.waits_for(other) else {
            waits[other] = None;
            return None;
        };
        if let Some((culprit, what)) = gone {
            return Some((culprit, self.error(&what)));
        }
        let (since, seen) = *waits[other].get_or_insert((Instant::now(), progress));
        if seen != progress {
            waits[other] = Some((Instant::now(), progress));
        } else if since.elapsed() > limit {
            return Some((other, self.error(&self.too_late(other, limit))));
        }
        None
    }

    /// That a rank has not come in time, in words.
    pub fn too_late(&self, rank: usize, limit: Duration) -> String {
        format!(
            "{} has not come within {} s ({})",
            self.name(rank),
            limit.as_secs_f64(),
            choice::TIMEOUT_VARIABLE
        )
    }

    /// The error of this rank, for what became of another.
    pub fn error(&self, what: &str) -> Error {
        let world = self.segment.layout.world;
        let message = format!("{what}; rank {} of {world} waited for it", self.rank);
        Error::new(ErrorKind::Communication, message)
    }

    /// From now on the rank waits for nobody, and the others not for it.
    pub fn fail(&self, culprit: usize, error: Error) {
        let mut failure = self.failure.lock();
        if failure.is_some() {
            return;
        }
        let word = self.segment.word(self.rank, Word::Culprit);
        word.store(culprit as u32 + 1, Ordering::Release);
        let abort = self.segment.word(self.rank, Word::Abort);
        abort.store(1, Ordering::Release);
        let doubt = self.segment.word(self.rank, Word::Doubt);
        doubt.store(DOUBT_ALL, Ordering::Release);
        self.device.sticky().set(error.clone());
        *failure = Some(error);
    }

    /// # Errors
    /// Another rank is gone, or did not come in time: the communicator is of no use any more.
    pub fn check(&self) -> Result<()> {
        self.settle();
        let failure = self.failure.lock();
        let Some(error) = &*failure else {
            return Ok(());
        };
        // Said here, it need not be said by the GPU's next call.
        if let Err(other) = self.device.sticky().take() {
            if other != *error {
                self.device.sticky().set(other);
            }
        }
        Err(error.clone())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.segment
            .word(self.rank, Word::Left)
            .store(1, Ordering::Release);
    }
}
