//! Events across streams: a pipeline of four streams that hand over thousands of buffers, ordered by events alone.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};

use anyhow::{ensure, Context as _, Result};
use candle_rocm_runtime::{DevicePtr as _, Event, Stream};

use super::amount::{amount, context, is_emulated, shared};
use super::patterns::{Address, Patterns};

/// Streams, each driven by a thread of its own.
const STAGES: usize = 4;
/// Buffers between two stages: so far may a stage be ahead of the next.
const SLOTS: usize = 8;
/// Words that are kept of each buffer that arrives.
const KEPT: usize = 3;
/// Each stage's `x * mul + add`.
const STEPS: [[u32; 2]; STAGES] = [[3, 1], [5, 7], [1_664_525, 1_013_904_223], [1, 11]];

struct Stage<'a> {
    number: usize,
    patterns: &'a Patterns,
    stream: &'a Stream,
    words: usize,
    /// What it reads and writes, slot by slot.
    inputs: &'a [Address],
    outputs: &'a [Address],
    /// Events after which an input is written, from the stage before.
    filled: Option<Receiver<Event>>,
    /// Tells the stage before that an input was read.
    read: Option<SyncSender<Event>>,
    /// Tells the stage after that an output is written.
    next: Option<SyncSender<Event>>,
    /// Events after which an output may be written again, from the stage after.
    free: Option<Receiver<Event>>,
}

impl Stage<'_> {
    fn run(&self, rounds: usize, mut last: impl FnMut(usize, Address) -> Result<()>) -> Result<()> {
        for round in 0..rounds {
            let slot = round % SLOTS;
            if let Some(filled) = &self.filled {
                self.stream
                    .wait(&filled.recv().context("the stage before ended")?)?;
            }
            if let (Some(free), true) = (&self.free, round >= SLOTS) {
                self.stream
                    .wait(&free.recv().context("the stage after ended")?)?;
            }
            // SAFETY: the buffers have so many words and outlive the pipeline; the events order their uses.
            unsafe {
                self.patterns.step_at(
                    self.stream,
                    self.inputs[slot],
                    self.outputs[slot],
                    self.words,
                    // What the first stage reads never changes; it adds the round.
                    match self.number {
                        0 => [STEPS[0][0], STEPS[0][1].wrapping_add(round as u32)],
                        other => STEPS[other],
                    },
                )
            }?;
            last(round, self.outputs[slot])?;
            for tell in [&self.read, &self.next].into_iter().flatten() {
                // A stage that ended before has an error, or needs no more.
                let _ = tell.send(self.stream.record_event(None)?);
            }
        }
        Ok(())
    }
}

/// What a word that starts as `seed` is after all stages of a round.
fn expected(seed: u32, round: u32) -> u32 {
    STEPS.iter().enumerate().fold(seed, |x, (stage, step)| {
        let [mul, mut add] = *step;
        if stage == 0 {
            add = add.wrapping_add(round);
        }
        x.wrapping_mul(mul).wrapping_add(add)
    })
}

#[test]
fn four_streams_hand_over_thousands_of_buffers() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    // SAFETY: all uses of a buffer on different streams are ordered by the events below, which are what is tested.
    unsafe { context.disable_event_tracking() };
    let patterns = Patterns::new(&context)?;
    let rounds = amount(5000, 1000)?;
    let words = if is_emulated()? { 1 << 10 } else { 1 << 18 };
    let main = context.new_stream()?;
    let seeds: Vec<u32> = (0..words as u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let first = (0..SLOTS)
        .map(|_| Ok(main.clone_htod(&seeds)?))
        .collect::<Result<Vec<_>>>()?;
    let between = (0..STAGES * SLOTS)
        .map(|_| Ok(main.alloc_zeros::<u32>(words)?))
        .collect::<Result<Vec<_>>>()?;
    let mut history = main.alloc_zeros::<u32>(rounds * KEPT)?;
    main.synchronize()?;
    let addresses: Vec<Vec<Address>> = std::iter::once(&first[..])
        .chain(between.chunks(SLOTS))
        .map(|slots| slots.iter().map(|slot| slot.device_ptr(&main).0).collect())
        .collect();
    let streams = (0..STAGES)
        .map(|_| Ok(context.new_stream()?))
        .collect::<Result<Vec<_>>>()?;
    // Forward: filled. Backward: read. A channel's capacity keeps the host at most so far ahead.
    let (mut filled_senders, mut filled_receivers) = (Vec::new(), vec![None]);
    let (mut read_senders, mut read_receivers) = (vec![None], Vec::new());
    for _ in 1..STAGES {
        let (sender, receiver) = sync_channel(SLOTS);
        filled_senders.push(Some(sender));
        filled_receivers.push(Some(receiver));
        // Without a bound: whoever reads never waits to say so.
        let (sender, receiver) = sync_channel(rounds);
        read_senders.push(Some(sender));
        read_receivers.push(Some(receiver));
    }
    filled_senders.push(None);
    read_receivers.push(None);
    let history_stream = &streams[STAGES - 1];
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        let ends = filled_senders
            .into_iter()
            .zip(filled_receivers)
            .zip(read_senders)
            .zip(read_receivers);
        let (between, history) = (&between, &mut history);
        let mut history = Some(history);
        for (number, (((next, filled), read), free)) in ends.enumerate() {
            let stage = Stage {
                number,
                patterns: &patterns,
                stream: &streams[number],
                words,
                inputs: &addresses[number],
                outputs: &addresses[number + 1],
                filled,
                read,
                next,
                free,
            };
            let history = history.take_if(|_| number == STAGES - 1);
            running.push(scope.spawn(move || match history {
                None => stage.run(rounds, |_, _| Ok(())),
                Some(history) => stage.run(rounds, |round, _| {
                    let output = &between[(STAGES - 1) * SLOTS + round % SLOTS];
                    for (i, at) in kept(words).into_iter().enumerate() {
                        let to = round * KEPT + i;
                        history_stream.memcpy_dtod(
                            &output.slice(at..at + 1),
                            &mut history.slice_mut(to..to + 1),
                        )?;
                    }
                    Ok(())
                }),
            }));
        }
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("the thread returns its error"))
    })?;
    context.synchronize()?;
    let history = main.clone_dtoh(&history)?;
    for (round, found) in history.chunks(KEPT).enumerate() {
        for (&found, at) in found.iter().zip(kept(words)) {
            let expected = expected(seeds[at], round as u32);
            ensure!(
                found == expected,
                "round {round}, word {at}: {found:#x} arrived, not {expected:#x}"
            );
        }
    }
    Ok(())
}

/// Which words are kept: the first, one in the middle, the last.
fn kept(words: usize) -> [usize; KEPT] {
    [0, words / 2 + 1, words - 1]
}

/// One buffer that goes round: each stream waits for the one before it, and for no one else.
#[test]
fn a_token_goes_round_four_streams() -> Result<()> {
    let _gpu = shared();
    let context = context()?;
    // SAFETY: one stream after the other uses the buffers, ordered by `join`.
    unsafe { context.disable_event_tracking() };
    let patterns = Patterns::new(&context)?;
    let streams = (0..STAGES)
        .map(|_| Ok(context.new_stream()?))
        .collect::<Result<Vec<_>>>()?;
    let words = if is_emulated()? { 1 << 8 } else { 1 << 16 };
    let start: Vec<u32> = (0..words as u32).collect();
    let mut buffers = [
        streams[0].clone_htod(&start)?,
        streams[0].alloc_zeros(words)?,
    ];
    let rounds = amount(4000, 1000)?;
    for round in 0..rounds {
        let stream = &streams[round % STAGES];
        stream.join(&streams[(round + STAGES - 1) % STAGES])?;
        let [from, to] = &mut buffers;
        patterns.step(stream, &from.as_view(), to, [3, 1])?;
        buffers.swap(0, 1);
    }
    let found = streams[(rounds - 1) % STAGES].clone_dtoh(&buffers[0])?;
    for (at, (&found, &start)) in found.iter().zip(&start).enumerate() {
        let expected = (0..rounds).fold(start, |x, _| x.wrapping_mul(3).wrapping_add(1));
        ensure!(
            found == expected,
            "word {at} is {found:#x}, not {expected:#x}"
        );
    }
    context.synchronize()?;
    Ok(())
}
