//! `races`: two wavefronts touch the same bytes of the LDS or of memory, at least one writing, with nothing that orders
//! them.
//!
//! Within a workgroup barriers order accesses. A wavefront's phase is twice the number of barriers that it has passed,
//! plus one while it has arrived at the next one without waiting (GFX12): what it does then is not ordered with what the
//! others do before that barrier or after it. So each access spans one barrier interval or two, and two accesses are
//! ordered if their intervals do not meet.
//!
//! Between workgroups, and beside barriers, atomics of a single lane order: what a wavefront did before one is before what
//! another does after a later one on the same address; and so is what a workgroup had finished before its last barrier.
//! A load that goes to the GPU's memory past the nearer caches counts as an atomic one: each of its lanes reads a flag, and
//! comes after what the flag's writer did before. A plain load is no race with an atomic: compilers begin loops of compare-and-swap
//! with one. Barriers of the whole grid order everything. Two stores of the same value are no
//! finding, as no order of them can be told from another.

use std::collections::HashMap;

use super::facts::Facts;
use super::shadow::{Cell, Shadow, Touch};
use super::Place;
use crate::exec::memory::{Access, Footprint};
use crate::isa::{is_gfx940, Family, Inst, Target};

/// Atomics of a wavefront in one phase that have a time of their own.
const RELEASES: u32 = 255;

/// A wavefront's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Time(u32);

impl Time {
    fn phase(self) -> u32 {
        self.0 / (RELEASES + 1)
    }

    /// The intervals between barriers that an access of this time belongs to.
    fn intervals(self) -> (u32, u32) {
        (self.phase() / 2, self.phase().div_ceil(2))
    }

    fn of_phase(phase: u32) -> Time {
        Time(phase * (RELEASES + 1))
    }

    fn after_release(self) -> Time {
        match self.0 % (RELEASES + 1) {
            RELEASES => self,
            _ => Time(self.0 + 1),
        }
    }
}

/// Which wavefronts' deeds lie before: up to which of its times, and when it told so by the launch's clock.
pub(super) type Known = HashMap<u32, Told>;

/// What a wavefront told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    time: Time,
    when: u32,
}

impl Told {
    fn join(&mut self, other: Told) {
        self.time = self.time.max(other.time);
        self.when = self.when.max(other.when);
    }
}

/// Why what another did lies before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It is the wavefront itself, or a barrier of its workgroup is between.
    Here,
    /// The wavefront that did it told so, then.
    Told(u32),
}

fn join(known: &mut Known, other: &Known) {
    for (&wave, &told) in other {
        known.entry(wave).or_default().join(told);
    }
}

/// One wavefront's.
#[derive(Default)]
pub(super) struct WaveRaces {
    time: Time,
    known: Known,
}

/// A workgroup's: the LDS.
#[derive(Default)]
pub(super) struct GroupRaces {
    lds: Shadow,
}

/// The launch's: memory, and what atomics have told.
pub(super) struct Races {
    waves_of_group: u32,
    memory: Shadow,
    told: HashMap<u64, Known>,
    /// What the store that is being made writes over another's.
    pending: Vec<Same>,
    /// The launch's clock, for [`Races::note`].
    pub now: u32,
}

/// Bytes stored over another's: a finding unless they change nothing.
struct Same {
    /// Where they are, and that as findings say it: in the LDS its offset.
    first: u64,
    what: &'static str,
    at: u64,
    before: u32,
    bytes: u64,
    other: Touch,
    lane: u32,
}

/// A finding, and the lane.
pub(super) type Found = (String, Option<u32>);

/// How an access takes part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Read,
    Write,
    /// Reads and writes, or only reads, in one step.
    Atomic {
        writes: bool,
    },
}

impl How {
    fn of(access: &Footprint, facts: &RaceFacts) -> How {
        match access.access {
            Access::Load if facts.coherent => How::Atomic { writes: false },
            Access::Load => How::Read,
            Access::Store => How::Write,
            Access::Atomic => How::Atomic { writes: true },
        }
    }

    fn text(self) -> &'static str {
        match self {
            How::Read => "read",
            How::Write => "written",
            How::Atomic { .. } => "touched by an atomic",
        }
    }
}

impl WaveRaces {
    /// The wavefront arrives at a barrier without waiting.
    pub fn arrive(&mut self) {
        if self.time.phase().is_multiple_of(2) {
            self.time = Time::of_phase(self.time.phase() + 1);
        }
    }

    /// Whether what another did lies before what this one, `me`, does now.
    pub fn knows(&self, other: Touch, me: Touch, waves_of_group: u32) -> Option<Before> {
        before(other, me, &self.known, waves_of_group)
    }

    /// It goes on after the barrier.
    pub fn pass(&mut self) {
        self.time = Time::of_phase((self.time.phase() / 2 + 1) * 2);
    }

    /// What it knows goes to the others of its workgroup, at a barrier.
    pub fn share(&self, all: &mut Known) {
        join(all, &self.known);
    }

    pub fn learn(&mut self, all: &Known) {
        if !all.is_empty() {
            join(&mut self.known, all);
        }
    }
}

impl Races {
    pub fn new(waves_of_group: u32) -> Races {
        Races {
            waves_of_group,
            memory: Shadow::default(),
            told: HashMap::new(),
            pending: Vec::new(),
            now: 0,
        }
    }

    /// Everything before is before everything after: a barrier of the whole grid.
    pub fn forget(&mut self) {
        self.memory = Shadow::default();
    }

    /// The wavefront's number in the launch, plus one.
    pub fn number(&self, place: &Place) -> u32 {
        (place.group as u32)
            .wrapping_mul(self.waves_of_group)
            .wrapping_add(place.wave)
            + 1
    }

    /// An access to the LDS, which begins at an address and has so many bytes.
    pub fn lds(
        &mut self,
        group: &mut GroupRaces,
        wave: &WaveRaces,
        place: &Place,
        facts: &RaceFacts,
        access: &Footprint,
        (base, size): (u64, u64),
    ) -> Option<Found> {
        let how = How::of(access, facts);
        let me = self.touch(wave, place);
        let waves = self.waves_of_group;
        let pending = &mut self.pending;
        let mut found = None;
        access.ranges(|first, end, lane| {
            // One that is out of bounds is a fault of its own.
            if end > size {
                return true;
            }
            found = group.lds.visit(first, end, |at, bytes, cell| {
                let other = conflict(cell, me, how, &wave.known, waves);
                remember(cell, me, how, waves, &wave.known);
                let (other, did) = other?;
                if (how, did) != (How::Write, How::Write) {
                    return Some((at, (other, did), lane));
                }
                pending.push(Same {
                    first: base + at,
                    what: "LDS at",
                    at,
                    before: bytes_at(base + at, bytes),
                    bytes,
                    other,
                    lane,
                });
                None
            });
            found.is_none()
        });
        let (at, other, lane) = found?;
        Some((self.text("LDS at", at, how, other, place), Some(lane)))
    }

    /// An access to memory, before it is made.
    pub fn memory(
        &mut self,
        wave: &mut WaveRaces,
        place: &Place,
        facts: &RaceFacts,
        access: &Footprint,
    ) -> Option<Found> {
        let how = How::of(access, facts);
        self.learn(wave, how, access);
        let me = self.touch(wave, place);
        let waves = self.waves_of_group;
        let pending = &mut self.pending;
        let mut found = None;
        access.ranges(|first, end, lane| {
            found = self.memory.visit(first, end, |at, bytes, cell| {
                let other = conflict(cell, me, how, &wave.known, waves);
                remember(cell, me, how, waves, &wave.known);
                let (other, did) = other?;
                if (how, did) != (How::Write, How::Write) {
                    return Some((at, (other, did), lane));
                }
                pending.push(Same {
                    first: at,
                    what: "",
                    at,
                    before: bytes_at(at, bytes),
                    bytes,
                    other,
                    lane,
                });
                None
            });
            found.is_none()
        });
        self.tell(wave, me, how, access);
        let (at, other, lane) = found?;
        Some((self.text("", at, how, other, place), Some(lane)))
    }

    /// Remember who writes and when, and what an access tells and learns, without asking whether it is a race.
    pub fn note(
        &mut self,
        wave: &mut WaveRaces,
        place: &Place,
        facts: &RaceFacts,
        access: &Footprint,
    ) {
        let how = How::of(access, facts);
        self.learn(wave, how, access);
        let (me, now) = (self.touch(wave, place), self.now);
        if let How::Write | How::Atomic { writes: true } = how {
            access.ranges(|first, end, _| {
                self.memory.visit(first, end, |_, _, cell| -> Option<()> {
                    cell.writer = me;
                    cell.atomic = how != How::Write;
                    cell.when = now;
                    None
                });
                true
            });
        }
        self.tell(wave, me, how, access);
    }

    /// Look at what is remembered of a range of memory.
    pub fn cells<T>(
        &self,
        first: u64,
        end: u64,
        each: impl FnMut(u64, u64, &Cell) -> Option<T>,
    ) -> Option<T> {
        self.memory.look(first, end, each)
    }

    /// An access that acquires learns what was told there.
    fn learn(&mut self, wave: &mut WaveRaces, how: How, access: &Footprint) {
        let acquires = match how {
            How::Atomic { writes } => !writes || access.lanes.count_ones() == 1,
            How::Read | How::Write => false,
        };
        if acquires {
            for lane in access.active(u64::MAX) {
                self.acquire(wave, access.places[lane], access.bytes);
            }
        }
    }

    /// An atomic of a single lane tells what lies before.
    fn tell(&mut self, wave: &mut WaveRaces, me: Touch, how: How, access: &Footprint) {
        if let (How::Atomic { writes: true }, 1) = (how, access.lanes.count_ones()) {
            let lane = access.lanes.trailing_zeros() as usize;
            self.release(wave, me.wave, access.places[lane]);
        }
    }

    /// After the access: whether a store over another's changed anything.
    pub fn after(&mut self, place: &Place) -> Option<Found> {
        let mut pending = std::mem::take(&mut self.pending);
        let changed = pending
            .iter()
            .find(|same| bytes_at(same.first, same.bytes) != same.before);
        let found = changed.map(|same| {
            let text = self.text(
                same.what,
                same.at,
                How::Write,
                (same.other, How::Write),
                place,
            );
            (text, Some(same.lane))
        });
        pending.clear();
        self.pending = pending;
        found
    }

    /// What a wavefront does now.
    pub fn touch(&self, wave: &WaveRaces, place: &Place) -> Touch {
        Touch {
            wave: self.number(place),
            time: wave.time.0,
            offset: place.pc.wrapping_sub(place.kernel.entry) as i32,
        }
    }

    /// What atomics on an address have told, or what its writer did before.
    fn acquire(&mut self, wave: &mut WaveRaces, at: u64, bytes: u32) {
        if let Some(told) = self.told.get(&at) {
            join(&mut wave.known, told);
        }
        let known = &mut wave.known;
        self.memory
            .visit(at, at + u64::from(bytes), |_, _, cell| -> Option<()> {
                let Touch { wave, time, .. } = cell.writer;
                if cell.writer.is_some() {
                    let (time, when) = (Time(time), cell.when);
                    known.entry(wave).or_default().join(Told { time, when });
                }
                None
            });
    }

    fn release(&mut self, wave: &mut WaveRaces, number: u32, at: u64) {
        let told = self.told.entry(at).or_default();
        join(told, &wave.known);
        let (time, when) = (wave.time, self.now);
        told.entry(number).or_default().join(Told { time, when });
        wave.time = wave.time.after_release();
    }

    fn text(
        &self,
        what: &str,
        at: u64,
        how: How,
        (other, did): (Touch, How),
        place: &Place,
    ) -> String {
        format!(
            "{what}{}{at:#x} is {} and was {} by {}, with nothing between that orders them",
            if what.is_empty() { "" } else { " " },
            how.text(),
            did.text(),
            self.whose(other, place)
        )
    }

    /// A wavefront and its instruction, in words.
    pub fn whose(&self, other: Touch, place: &Place) -> String {
        let number = u64::from(other.wave - 1);
        let (group, wave) = (
            number / u64::from(self.waves_of_group),
            number % u64::from(self.waves_of_group),
        );
        let whose = match group == place.group {
            true => format!("wavefront {wave} of this workgroup"),
            false => format!("wavefront {wave} of workgroup number {group}"),
        };
        let pc = place.kernel.entry.wrapping_add_signed(other.offset.into());
        format!("{whose}, {}", place.instruction(pc))
    }
}

/// The four bytes or the one byte at an address that a store was or will be checked for.
fn bytes_at(at: u64, bytes: u64) -> u32 {
    match bytes {
        // SAFETY: the range lies in a snapshot's allocation, as `Checker` asks before it tells of an access, or in the LDS.
        4 => unsafe { (at as *const u32).read_unaligned() },
        // SAFETY: as above.
        _ => unsafe { (at as *const u8).read() }.into(),
    }
}

/// Why what another did lies before what `me` does now, if it does.
fn before(other: Touch, me: Touch, known: &Known, waves: u32) -> Option<Before> {
    if other.wave == me.wave {
        return Some(Before::Here);
    }
    let group = |wave: u32| (wave - 1) / waves;
    let (_, last) = Time(other.time).intervals();
    if group(other.wave) == group(me.wave) && last < Time(me.time).intervals().0 {
        return Some(Before::Here);
    }
    if known.is_empty() {
        return None;
    }
    // What one of its workgroup told: its own deeds, and those of all before the last barrier.
    let first = group(other.wave) * waves + 1;
    let mut others = (first..first + waves).filter(|wave| *wave != other.wave);
    let by_another = |wave| {
        let told = known.get(&wave);
        told.is_some_and(|told| last < told.time.intervals().0)
    };
    if others.any(by_another) {
        return Some(Before::Here);
    }
    let told = known.get(&other.wave)?;
    (other.time <= told.time.0).then_some(Before::Told(told.when))
}

fn is_before(other: Touch, me: Touch, known: &Known, waves: u32) -> bool {
    before(other, me, known, waves).is_some()
}

/// The access that conflicts with one, and what it did.
fn conflict(cell: &Cell, me: Touch, how: How, known: &Known, waves: u32) -> Option<(Touch, How)> {
    let with = |other: Touch| other.is_some() && !is_before(other, me, known, waves);
    let atomic = matches!(how, How::Atomic { .. });
    // A flag is stored as other data is: a load past the caches is no race with that. And loads that begin a loop of
    // compare-and-swap are plain ones.
    let flag = how == How::Atomic { writes: false } || how == How::Read && cell.atomic;
    if with(cell.writer) && !(atomic && cell.atomic) && !flag {
        let did = match cell.atomic {
            true => How::Atomic { writes: true },
            false => How::Write,
        };
        return Some((cell.writer, did));
    }
    if how != How::Write {
        return None;
    }
    let reader = cell.readers.into_iter().find(|reader| with(*reader));
    reader.map(|reader| (reader, How::Read))
}

fn remember(cell: &mut Cell, me: Touch, how: How, waves: u32, known: &Known) {
    match how {
        How::Write | How::Atomic { writes: true } => {
            cell.writer = me;
            cell.atomic = how != How::Write;
            cell.readers = [Touch::default(); 2];
        }
        // Not remembered: what stores to a flag later is no race with who asks for it.
        How::Atomic { writes: false } => {}
        How::Read => {
            let mine = cell.readers.iter().position(|it| it.wave == me.wave);
            let done = |it: &Touch| !it.is_some() || is_before(*it, me, known, waves);
            let later = |it: &Touch| Time(it.time).intervals().1 < Time(me.time).intervals().1;
            let slot = mine
                .or_else(|| cell.readers.iter().position(done))
                .or_else(|| cell.readers.iter().position(later));
            if let Some(slot) = slot {
                cell.readers[slot] = me;
            }
        }
    }
}

/// What the check knows of a memory instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RaceFacts {
    /// A load that goes past the caches that the GPU's workgroups do not share.
    pub coherent: bool,
}

impl RaceFacts {
    /// By the cache-policy bits (LLVM's AMDGPUUsage, "Memory model", for each family).
    pub fn of(target: Target, inst: &Inst, facts: &Facts) -> RaceFacts {
        const GLC: u16 = 1;
        const SLC: u16 = 2;
        const SC1: u16 = 16;
        let cache = inst.mem.cache;
        let coherent = match target.family() {
            Family::Cdna if is_gfx940(target) => cache & SC1 != 0,
            // With SLC it is a load that bypasses caches for speed.
            Family::Cdna | Family::Rdna2 | Family::Rdna3 => cache & (GLC | SLC) == GLC,
            // The scope: of the device or the system.
            Family::Rdna4 => cache >> 3 & 3 >= 2,
        };
        RaceFacts {
            coherent: coherent && !facts.writes.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(wave: u32, phase: u32) -> Touch {
        Touch {
            wave,
            time: Time::of_phase(phase).0,
            offset: 0,
        }
    }

    #[test]
    fn barriers_order_a_workgroup() {
        let before = |other, me| is_before(other, me, &Known::new(), 4);
        assert!(!before(touch(1, 0), touch(2, 0)));
        assert!(before(touch(1, 0), touch(2, 2)));
        // Between arriving and waiting: ordered with neither side of the barrier.
        assert!(!before(touch(1, 1), touch(2, 2)));
        assert!(before(touch(1, 1), touch(2, 4)));
        assert!(!before(touch(1, 0), touch(2, 1)));
        // Other workgroups have other barriers.
        assert!(!before(touch(1, 0), touch(5, 8)));
    }

    #[test]
    fn atomics_tell_of_a_workgroup() {
        let told = Told {
            time: Time::of_phase(2),
            when: 0,
        };
        let known = Known::from([(1, told)]);
        let before = |other| is_before(other, touch(9, 0), &known, 4);
        assert!(before(touch(1, 2)));
        assert!(before(touch(2, 0)));
        assert!(!before(touch(2, 2)));
        assert!(!before(touch(5, 0)));
    }
}
