//! Threads that allocate, fill, hand on, verify and free buffers, each on its own stream.
//!
//! Every buffer is filled with words that no other buffer has. Before a buffer is freed, a part of it is copied aside
//! *on the stream*, without waiting: a block that the pool gives out again too early, or twice, is overwritten by its
//! next owner, and the copy shows whose words they are.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Arc;

use anyhow::{ensure, Context as _, Result};
use candle_rocm_runtime::{Context, DeviceBuffer, Stream};

use super::amount::{amount, context, is_emulated, shared};
use super::inputs::Random;
use super::patterns::{ensure_all, Patterns};

/// Buffers that a thread keeps at most.
const KEPT: usize = 24;
/// Words of a buffer that are copied aside: so many from its start, its middle and its end.
const WITNESSED: usize = 64;
/// Freed buffers between two readings of what was copied aside.
const WITNESSES: usize = 64;

/// A buffer all of whose words are `tag`.
struct Parcel {
    words: DeviceBuffer<u32>,
    tag: u32,
}

/// Copies of parts of buffers, made by the stream and read later.
struct Witnesses {
    copies: DeviceBuffer<u32>,
    /// Of each copied buffer its words and how many of each part.
    noted: Vec<(u32, usize)>,
}

impl Witnesses {
    fn new(stream: &Arc<Stream>) -> Result<Self> {
        Ok(Self {
            copies: stream.alloc_zeros(WITNESSES * 3 * WITNESSED)?,
            noted: Vec::new(),
        })
    }

    /// Queues the copy of a parcel's parts.
    fn note(&mut self, stream: &Arc<Stream>, parcel: &Parcel) -> Result<()> {
        let len = parcel.words.len();
        let part = WITNESSED.min(len);
        for (i, start) in [0, (len - part) / 2, len - part].into_iter().enumerate() {
            let at = (self.noted.len() * 3 + i) * WITNESSED;
            let mut to = self.copies.slice_mut(at..at + part);
            stream.memcpy_dtod(&parcel.words.slice(start..start + part), &mut to)?;
        }
        self.noted.push((parcel.tag, part));
        if self.noted.len() == WITNESSES {
            self.verify(stream)?;
        }
        Ok(())
    }

    fn verify(&mut self, stream: &Arc<Stream>) -> Result<()> {
        let words = stream.clone_dtoh(&self.copies)?;
        for ((tag, part), copies) in self.noted.drain(..).zip(words.chunks(3 * WITNESSED)) {
            for copy in copies.chunks(WITNESSED) {
                ensure_all(&copy[..part], tag, || {
                    format!("a buffer of {tag:#010x}, copied just before it was freed")
                })?;
            }
        }
        Ok(())
    }
}

struct Thread<'a> {
    number: usize,
    context: &'a Arc<Context>,
    patterns: &'a Patterns,
    stream: Arc<Stream>,
    random: Random,
    witnesses: Witnesses,
    kept: Vec<Parcel>,
    next: SyncSender<Parcel>,
    previous: Receiver<Parcel>,
    largest: usize,
}

impl Thread<'_> {
    fn run(&mut self, rounds: usize) -> Result<()> {
        for round in 0..rounds {
            self.round(round)
                .with_context(|| format!("thread {}, round {round}", self.number))?;
        }
        for parcel in std::mem::take(&mut self.kept) {
            self.verify(&parcel)?;
        }
        self.witnesses.verify(&self.stream)
    }

    fn round(&mut self, round: usize) -> Result<()> {
        let tag = (self.number as u32 + 1) << 24 | round as u32 & 0xff_ffff;
        let parcel = self.make(tag)?;
        self.kept.push(parcel);
        if self.random.below(8) == 0 {
            let at = self.random.below(self.kept.len());
            let parcel = self.kept.swap_remove(at);
            // Full: the receiver has enough.
            if let Err(error) = self.next.try_send(parcel) {
                use std::sync::mpsc::TrySendError::{Disconnected, Full};
                let (Full(parcel) | Disconnected(parcel)) = error;
                self.kept.push(parcel);
            }
        }
        if let Ok(parcel) = self.previous.try_recv() {
            self.kept.push(parcel);
        }
        while self.kept.len() > KEPT || self.random.below(2) == 0 && !self.kept.is_empty() {
            let at = self.random.below(self.kept.len());
            let parcel = self.kept.swap_remove(at);
            if self.random.below(8) == 0 {
                self.verify(&parcel)?;
            }
            self.witnesses.note(&self.stream, &parcel)?;
            // Freed here while the copies, and often the filling, are still to come.
        }
        match self.random.below(128) {
            // Never used.
            0 => drop(self.stream.alloc_zeros::<u32>(4 * self.largest)?),
            // A stream that ends with its buffer, and work on a buffer by another stream than its own.
            1 => {
                let own = self.context.new_stream()?;
                let mut words = own.alloc_zeros::<u32>(self.size())?;
                drop(own);
                let tag = tag ^ 0x80_0000;
                self.patterns.fill(&self.stream, &mut words, tag)?;
                self.witnesses.note(&self.stream, &Parcel { words, tag })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Sizes whose logarithms are spread evenly, as programs have them.
    fn size(&mut self) -> usize {
        let bits = usize::BITS - self.largest.leading_zeros() - 1;
        let size = 1 << self.random.below(bits as usize + 1);
        1 + self.random.below(2 * size)
    }

    fn make(&mut self, tag: u32) -> Result<Parcel> {
        let len = self.size();
        // SAFETY: filled before anyone reads it.
        let mut words = unsafe { self.stream.alloc::<u32>(len) }?;
        // Work that is not done yet when the host goes on.
        for decoy in 0..self.random.below(3) as u32 {
            self.patterns.fill(&self.stream, &mut words, !tag ^ decoy)?;
        }
        self.patterns.fill(&self.stream, &mut words, tag)?;
        Ok(Parcel { words, tag })
    }

    fn verify(&self, parcel: &Parcel) -> Result<()> {
        let words = self.stream.clone_dtoh(&parcel.words)?;
        ensure_all(&words, parcel.tag, || "a buffer, read whole".to_string())
    }
}

#[test]
fn threads_allocate_fill_hand_on_and_free() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    let patterns = Patterns::new(&context)?;
    let (threads, largest) = if is_emulated()? {
        (4, 1 << 12)
    } else {
        (16, 1 << 22)
    };
    let rounds = amount(3000, 1500)?;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(4)).unzip();
    let mut senders = senders;
    senders.rotate_left(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = senders
            .into_iter()
            .zip(receivers)
            .enumerate()
            .map(|(number, (next, previous))| {
                let (context, patterns) = (&context, &patterns);
                scope.spawn(move || -> Result<()> {
                    // Half of the threads on created streams, half on their per-thread streams.
                    let stream = if number % 2 == 0 {
                        context.new_stream()?
                    } else {
                        context.per_thread_stream()
                    };
                    let mut thread = Thread {
                        number,
                        context,
                        patterns,
                        witnesses: Witnesses::new(&stream)?,
                        stream,
                        random: Random::new(number as u64 + 1),
                        kept: Vec::new(),
                        next,
                        previous,
                        largest,
                    };
                    thread.run(rounds)
                })
            })
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread returns its error"))
    })?;
    context.synchronize()?;
    let statistics = context.pool_statistics();
    ensure!(
        statistics.in_use + statistics.cached + statistics.held_by_graphs == statistics.reserved,
        "{statistics:?} do not add up"
    );
    Ok(())
}

/// A slow reader and a quick one of the same buffer: it is free when both are done.
#[test]
fn a_buffer_read_on_two_streams_is_freed_after_both() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    let patterns = Patterns::new(&context)?;
    let [owner, slow, quick] = [
        context.new_stream()?,
        context.new_stream()?,
        context.new_stream()?,
    ];
    let words = if is_emulated()? { 1 << 10 } else { 1 << 22 };
    for round in 0..amount(200, 20)? as u32 {
        // SAFETY: all are written before they are read.
        let (mut shared, mut busy, mut seen) = unsafe {
            (
                owner.alloc::<u32>(words)?,
                slow.alloc::<u32>(words)?,
                slow.alloc::<u32>(words)?,
            )
        };
        patterns.fill(&owner, &mut shared, round)?;
        // The slow stream has work to do before it reads.
        for value in 0..20 {
            patterns.fill(&slow, &mut busy, value)?;
        }
        patterns.step(&slow, &shared.as_view(), &mut seen, [1, 0])?;
        // SAFETY: written by the next line.
        let mut glimpse = unsafe { quick.alloc::<u32>(1) }?;
        quick.memcpy_dtod(&shared.slice(..1), &mut glimpse)?;
        drop(shared);
        // Most likely the same block, at once overwritten.
        // SAFETY: written by the next line.
        let mut next = unsafe { owner.alloc::<u32>(words) }?;
        patterns.fill(&owner, &mut next, !round)?;
        ensure_all(&slow.clone_dtoh(&seen)?, round, || {
            format!("round {round}: read by the slow stream")
        })?;
        ensure_all(&owner.clone_dtoh(&next)?, !round, || {
            format!("round {round}: the next owner's")
        })?;
    }
    Ok(())
}
