//! How ranks begin: each waits until all have come, and learns where the others' slots are.
//!
//! A thread may have several ranks: each does a stage before any waits for the others to have done it.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::boxes::Boxes;
use super::device_slots::{self, DeviceSlots};
use super::layout::Word;
use super::rank::OwnRank;
use super::watched::Watched;
use crate::base::error::{Error, Result};
use crate::communication::choice::{self, CommChoice};

/// How often a rank looks whether the others have come.
const PERIOD: Duration = Duration::from_millis(1);

/// Stages, in order; 0 is before all.
const COME: u32 = 1;
const HAS_SLOTS: u32 = 2;

/// Waits until all ranks of the communicators of these, which are of one thread, have come.
///
/// # Errors
/// A rank does not come in time, or is gone; two have one GPU; or memory is not there. The error names the rank.
pub(in crate::communication) fn join(ranks: &[Arc<OwnRank>]) -> Result<()> {
    let limit = choice::timeout()?;
    for rank in ranks {
        say(&rank.watched, COME);
    }
    for rank in ranks {
        wait_for(&rank.watched, COME, limit)?;
    }
    for rank in ranks {
        own_gpu(&rank.watched)?;
        place_slots(&rank.watched)?;
        say(&rank.watched, HAS_SLOTS);
    }
    for rank in ranks {
        wait_for(&rank.watched, HAS_SLOTS, limit)?;
        rank.watched.segment.file.forget_name();
        rank.begin()?;
    }
    Ok(())
}

fn say(rank: &Watched, stage: u32) {
    let word = rank.segment.word(rank.rank, Word::Stage);
    word.store(stage, Ordering::Release);
}

/// Waits until all ranks have got to a stage.
fn wait_for(own: &Watched, stage: u32, limit: Duration) -> Result<()> {
    let start = Instant::now();
    for rank in 0..own.segment.layout.world {
        let is_there = || own.segment.word(rank, Word::Stage).load(Ordering::Acquire) >= stage;
        while !is_there() {
            let gone = own.gone(rank);
            if is_there() {
                break;
            }
            if let Some((_, what)) = gone {
                return Err(own.error(&what));
            }
            if start.elapsed() > limit {
                return Err(own.error(&own.too_late(rank, limit)));
            }
            std::thread::sleep(PERIOD);
        }
    }
    Ok(())
}

/// Ranks of one GPU would wait for each other with no room for both.
fn own_gpu(own: &Watched) -> Result<()> {
    let gpu = |rank| own.segment.word(rank, Word::Gpu).load(Ordering::Acquire);
    let same = (0..own.segment.layout.world).find(|rank| {
        *rank != own.rank && own.is_of_this_process(*rank) && gpu(*rank) == gpu(own.rank)
    });
    match same {
        None => Ok(()),
        Some(rank) => Err(Error::invalid(format!(
            "ranks {rank} and {} have one GPU, {}: each rank needs its own",
            own.rank,
            own.device.ordinal()
        ))),
    }
}

/// Where the GPUs of all ranks reach each other's memory, this rank's slots are in its GPU's, and the boxes that the others
/// write for it.
fn place_slots(own: &Watched) -> Result<()> {
    let segment = &own.segment;
    let world = segment.layout.world;
    let is_one_process = (0..world).all(|rank| own.is_of_this_process(rank));
    if !is_one_process || CommChoice::current()? == CommChoice::Staged {
        return Ok(());
    }
    for rank in 0..world {
        let gpu = segment.word(rank, Word::Gpu).load(Ordering::Acquire) as usize - 1;
        if !device_slots::reach(&own.device, gpu)? {
            return Ok(());
        }
    }
    let boxes = Boxes::near(&segment.layout, own.least_multiprocessors());
    let bytes = 2 * segment.layout.slot_bytes() + (world - 1) * boxes.bytes();
    let Some(slots) = DeviceSlots::allocate(&own.device, bytes)? else {
        return Ok(());
    };
    let address = segment.wide(own.rank, Word::Slots);
    address.store(slots.address(), Ordering::Release);
    segment.keep(slots);
    Ok(())
}
