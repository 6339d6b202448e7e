//! `caches`: what a wavefront reads comes from caches that nothing keeps alike, as on the GPU.
//!
//! Loads see what `hierarchy` says that they see: a program that reads what is stale goes on with that. A finding is a
//! load that misses what another wavefront stored *before*, where
//! - before is what atomics of a single lane, loads past the caches that see what another stored, and barriers order
//!   (as the check of races has it, whatever the scopes); and
//! - it misses it if what it reads is stale, or if it would be with a line that the cache may have kept: since the
//!   store nothing has emptied a cache that may answer the load, the bytes are still in another XCD's second level, or
//!   nothing waited for the store before others were told of it.
//!
//! So a cache need not have the line for a missing invalidation to be found. What nothing orders is no finding here: the
//! old value may be meant, as by loops of compare-and-swap, which begin with a plain load. One that misses what an atomic
//! stored is told when the wavefront ends, unless it did an atomic on the same place.
//! A wavefront that reads the same stale bytes again and again, and does nothing to memory meanwhile, waits for what it
//! will never see: a finding, too. So is an atomic for a compute unit or a workgroup (GFX12) where another workgroup did
//! one.

use std::collections::HashSet;

use super::facts::{Counter, Facts};
use super::flight::{Arrivals, Flight};
use super::hierarchy::{has, read, write, Hierarchy, Layout, Site};
use super::known::Instruction;
use super::policy::{Levels, Policy, Scope};
use super::races::{Before, Found, RaceFacts, Races, WaveRaces};
use super::shadow::{Cell, Touch};
use super::Place;
use crate::codeobject::LoadedKernel;
use crate::exec::memory::{Access, Context, Footprint};
use crate::exec::program::{Op, Step};
use crate::exec::wave::Wave;
use crate::isa::Target;
use crate::memory::AllocationKind;

/// So often a wavefront may read the same stale bytes before it counts as one that waits for them.
const POLLS: u32 = 8;

/// A wavefront's.
#[derive(Default)]
pub(super) struct WaveCaches {
    /// What lies before what it does now.
    pub order: WaveRaces,
    /// All that was stored until then lies before: a barrier of the whole grid.
    pub floor: u32,
    polls: Polls,
    flight: Flight,
    /// A load that missed what an atomic stored: where, and what is to be said of it.
    suspect: Option<(u64, u64, Found)>,
}

/// Stale bytes that it reads: by which instruction, where, how often.
#[derive(Default)]
struct Polls {
    pc: u64,
    at: u64,
    count: u32,
}

/// The launch's.
pub(super) struct Caches {
    target: Target,
    hierarchy: Hierarchy,
    order: Races,
    waves_of_group: u32,
    /// What the coming instruction accesses: ranges inside allocations that are cached, the window of each and a lane.
    ranges: Vec<Range>,
    doing: Option<(Access, Site, Policy)>,
    /// Bytes of memory that now are as the wavefront sees them: where, and what they are.
    patched: Vec<(u64, u8)>,
    arrivals: Arrivals,
    /// Wavefronts that have ended.
    ended: HashSet<u32>,
    /// When the first wavefront passed each barrier of the whole grid.
    barriers: Vec<u32>,
}

struct Range {
    first: u64,
    end: u64,
    window: (u64, u64),
    lane: u32,
    /// Where what the wavefront sees begins among all that it sees.
    seen: usize,
}

impl Caches {
    pub fn new(kernel: &LoadedKernel, waves_of_group: u32, seed: u64) -> Caches {
        let target = kernel.kernel.target;
        let layout = Layout::of(target, kernel.kernel.descriptor.wgp_mode);
        Caches {
            target,
            hierarchy: Hierarchy::new(target, layout, seed),
            order: Races::new(waves_of_group),
            waves_of_group,
            ranges: Vec::new(),
            doing: None,
            patched: Vec::new(),
            arrivals: Arrivals::default(),
            ended: HashSet::new(),
            barriers: Vec::new(),
        }
    }

    /// The first wavefront goes on after a barrier of the whole grid.
    pub fn note_barrier(&mut self) {
        self.barriers.push(self.hierarchy.now);
    }

    /// A wavefront goes on after so many barriers of the whole grid.
    pub fn pass_barrier(&self, own: &mut WaveCaches, count: u32) {
        let last = count.checked_sub(1).map(|last| last as usize);
        own.floor = last
            .and_then(|last| self.barriers.get(last).copied())
            .unwrap_or(own.floor);
    }

    /// An instruction is about to be executed: memory becomes what its wavefront sees.
    pub fn before(
        &mut self,
        step: &Step,
        wave: &Wave,
        cx: &Context,
        own: &mut WaveCaches,
        place: &Place,
        known: &Instruction,
    ) -> Option<Found> {
        let (facts, policy) = (&known.races, known.policy);
        self.restore();
        self.wait(own, place, &known.facts);
        self.doing = None;
        let site = self.hierarchy.layout().site(place.group, place.wave);
        if policy.writes_back {
            self.hierarchy.write_back_all(site.xcd);
        }
        if !policy.empties.is_empty() {
            self.hierarchy.now += 1;
            self.hierarchy.empty(policy.empties, site);
        }
        if let Op::End = step.op {
            self.ended.insert(self.order.number(place));
            return own.suspect.take().map(|(.., found)| found);
        }
        let access = self.gather(step, wave, cx);
        self.hierarchy.now += u32::from(access.is_some());
        self.order.now = self.hierarchy.now;
        self.issue(own, place, &known.facts, access);
        let access = access?;
        self.doing = Some((access, site, policy));
        let found = match access {
            Access::Load => self.load(own, place, site, policy, facts),
            Access::Store => {
                self.store(own, site, policy);
                None
            }
            Access::Atomic => self.atomic(own, place, site, policy),
        };
        if found.is_none() {
            self.note(step, wave, cx, own, place, facts);
        }
        found
    }

    /// It was executed: memory is again what was stored last.
    pub fn after(&mut self) {
        let Some((access, site, policy)) = self.doing.take() else {
            return;
        };
        self.restore();
        for range in &self.ranges {
            let ends = (range.first, range.end);
            match access {
                Access::Load => {}
                Access::Store => self.hierarchy.after_store(ends, site, policy),
                Access::Atomic => self.hierarchy.after_atomic(ends, site),
            }
        }
    }

    /// An instruction that waits for stores: they have arrived.
    fn wait(&mut self, own: &mut WaveCaches, place: &Place, facts: &Facts) {
        let counter = Counter::Store.on(self.target);
        let left = facts.wait.and_then(|wait| wait[counter as usize]);
        if let Some(store) = left.and_then(|left| own.flight.wait(left as usize)) {
            let wave = self.order.number(place);
            self.arrivals.note(wave, self.hierarchy.now, store);
        }
    }

    /// An instruction that raises the counter of stores.
    fn issue(
        &mut self,
        own: &mut WaveCaches,
        place: &Place,
        facts: &Facts,
        access: Option<Access>,
    ) {
        let counter = Counter::Store.on(self.target);
        if !facts.counts.contains(&counter) {
            return;
        }
        let now = self.hierarchy.now;
        let when = match access {
            Some(Access::Store | Access::Atomic) => now,
            _ => 0,
        };
        // The wavefront waits by itself for those beyond what the counter holds.
        if let Some(store) = own.flight.issue(when, counter.most(self.target)) {
            let wave = self.order.number(place);
            self.arrivals.note(wave, now.saturating_sub(1), store);
        }
    }

    fn restore(&mut self) {
        while let Some((at, byte)) = self.patched.pop() {
            write(at, byte);
        }
    }

    /// What a step accesses of memory that is cached; `None` if nothing.
    fn gather(&mut self, step: &Step, wave: &Wave, cx: &Context) -> Option<Access> {
        let ranges = &mut self.ranges;
        ranges.clear();
        let mut access = None;
        footprints(step, wave, |footprint| {
            access = Some(footprint.access);
            footprint.ranges(|first, end, lane| {
                let window = cx.snapshot.find(first);
                let kind = cx.snapshot.kind(first);
                // The host's memory is not cached on the GPU; what leaves an allocation is a fault of its own.
                let cached = matches!(kind, Some(AllocationKind::Device | AllocationKind::Code));
                if let Some(window) = window.filter(|window| cached && end <= window.1) {
                    ranges.push(Range {
                        first,
                        end,
                        window,
                        lane,
                        seen: 0,
                    });
                }
                true
            });
        });
        access.filter(|_| !ranges.is_empty())
    }

    /// Remember who did what, and what a load or an atomic has learnt by that.
    fn note(
        &mut self,
        step: &Step,
        wave: &Wave,
        cx: &Context,
        own: &mut WaveCaches,
        place: &Place,
        facts: &RaceFacts,
    ) {
        let facts = RaceFacts {
            // What is stale tells of nothing.
            coherent: facts.coherent && self.patched.is_empty(),
        };
        footprints(step, wave, |footprint| {
            let inside = |lane: usize| cx.holds(footprint.places[lane], footprint.bytes.into());
            if footprint.active(u64::MAX).all(inside) {
                self.order.note(&mut own.order, place, &facts, &footprint);
            }
        });
    }

    fn load(
        &mut self,
        own: &mut WaveCaches,
        place: &Place,
        site: Site,
        policy: Policy,
        facts: &RaceFacts,
    ) -> Option<Found> {
        let mut ranges = std::mem::take(&mut self.ranges);
        let mut seen = Vec::new();
        for range in &mut ranges {
            range.seen = seen.len();
            let ends = (range.first, range.end);
            self.hierarchy
                .look(ends, range.window, site, policy, &mut seen);
        }
        let mut found = None;
        for range in &ranges {
            let bytes = &seen[range.seen..];
            found = found.or_else(|| self.missed(own, place, site, policy, range, bytes));
        }
        for range in &ranges {
            let count = (range.end - range.first) as usize;
            if has(range.first, &seen[range.seen..][..count]) {
                continue;
            }
            for (at, byte) in (range.first..range.end).zip(&seen[range.seen..]) {
                let stored = read(at);
                if stored != *byte {
                    self.patched.push((at, stored));
                    write(at, *byte);
                }
            }
        }
        self.ranges = ranges;
        found.or_else(|| self.poll(own, place, facts))
    }

    /// What a load of a range misses that was stored before.
    fn missed(
        &mut self,
        own: &mut WaveCaches,
        place: &Place,
        site: Site,
        policy: Policy,
        range: &Range,
        seen: &[u8],
    ) -> Option<Found> {
        let (hierarchy, waves) = (&self.hierarchy, self.waves_of_group);
        let arrivals = &self.arrivals;
        let me = self.order.touch(&own.order, place);
        let (order, floor) = (&own.order, own.floor);
        let missed = self.order.cells(range.first, range.end, |at, bytes, cell| {
            if !cell.writer.is_some() {
                return None;
            }
            let before = match cell.when <= floor {
                true => Before::Here,
                false => order.knows(cell.writer, me, waves)?,
            };
            let offset = (at - range.first) as usize;
            let stale = !has(at, &seen[offset..][..bytes as usize]);
            let wave = u64::from(cell.writer.wave - 1);
            let waves = u64::from(waves);
            let writer = hierarchy.layout().site(wave / waves, (wave % waves) as u32);
            let lacks = lacks(hierarchy, cell, (at, bytes), site, writer, policy)
                .or_else(|| on_its_way(arrivals, cell, before, policy));
            (stale || lacks.is_some()).then_some((at, *cell, lacks, stale))
        });
        let (at, cell, lacks, stale) = missed?;
        let text = format!(
            "{at:#x} is read{}, and was stored before by {}; {}",
            if stale { " as it was" } else { "" },
            self.order.whose(cell.writer, place),
            lacks.unwrap_or("a cache has kept what was there"),
        );
        let found = (text, Some(range.lane));
        if cell.atomic {
            own.suspect.get_or_insert((range.first, range.end, found));
            return None;
        }
        Some(found)
    }

    /// Whether the wavefront waits for what it will not see.
    fn poll(&self, own: &mut WaveCaches, place: &Place, facts: &RaceFacts) -> Option<Found> {
        let polls = &mut own.polls;
        let Some((at, _)) = self.patched.first().copied() else {
            if polls.pc == place.pc {
                *polls = Polls::default();
            }
            return None;
        };
        if (polls.pc, polls.at) != (place.pc, at) {
            *polls = Polls {
                pc: place.pc,
                at,
                count: 0,
            };
        }
        polls.count += 1;
        let cell = self.order.cells(at, at + 1, |_, _, cell| Some(*cell))?;
        // An XCD may still write back what it stored; a cache that is read again need not ever change.
        let will_not_come = !facts.coherent || self.ended.contains(&cell.writer.wave);
        let waits = polls.count >= POLLS && cell.writer.is_some() && will_not_come;
        waits.then(|| {
            let text = format!(
                "{at:#x} is read again and again as it was, and was stored by {}: {}",
                self.order.whose(cell.writer, place),
                match facts.coherent {
                    true => "its XCD's second-level cache was not written back",
                    false => "the load's scope lets a cache answer",
                }
            );
            (text, None)
        })
    }

    fn store(&mut self, own: &mut WaveCaches, site: Site, policy: Policy) {
        own.polls = Polls::default();
        for range in &self.ranges {
            let ends = (range.first, range.end);
            self.hierarchy.before_store(ends, site, policy);
        }
    }

    fn atomic(
        &mut self,
        own: &mut WaveCaches,
        place: &Place,
        site: Site,
        policy: Policy,
    ) -> Option<Found> {
        own.polls = Polls::default();
        let ranges = std::mem::take(&mut self.ranges);
        let mut found = None;
        for range in &ranges {
            let meets =
                |suspect: &(u64, u64, Found)| range.first < suspect.1 && suspect.0 < range.end;
            if own.suspect.as_ref().is_some_and(meets) {
                own.suspect = None;
            }
            self.hierarchy.before_atomic((range.first, range.end), site);
            found = found.or_else(|| self.narrow(place, site, policy.scope, range));
        }
        self.ranges = ranges;
        found
    }

    /// An atomic whose scope does not hold another's wavefront.
    fn narrow(&mut self, place: &Place, site: Site, scope: Scope, range: &Range) -> Option<Found> {
        let (layout, waves) = (self.hierarchy.layout(), u64::from(self.waves_of_group));
        let outside = |other: Touch| {
            let number = u64::from(other.wave - 1);
            let (group, wave) = (number / waves, (number % waves) as u32);
            match scope {
                Scope::Device => false,
                Scope::Group => group != place.group,
                Scope::Unit => group != place.group || layout.site(group, wave).first != site.first,
            }
        };
        let (at, other) = self.order.cells(range.first, range.end, |at, _, cell| {
            let other = cell.writer;
            (other.is_some() && cell.atomic && outside(other)).then_some((at, other))
        })?;
        let text = format!(
            "the atomic on {at:#x} is one for its {} alone, and so did {}",
            if scope == Scope::Unit {
                "compute unit"
            } else {
                "workgroup"
            },
            self.order.whose(other, place)
        );
        Some((text, Some(range.lane)))
    }
}

impl Drop for Caches {
    /// The kernel's end writes back what is left.
    fn drop(&mut self) {
        self.restore();
        self.hierarchy.finish();
    }
}

/// Why a load may not see what a writer stored, if it may not.
fn lacks(
    hierarchy: &Hierarchy,
    cell: &Cell,
    (at, bytes): (u64, u64),
    site: Site,
    writer: Site,
    policy: Policy,
) -> Option<&'static str> {
    let kept = |level: Levels, shared: bool| {
        let asked = policy.hits.contains(level) && hierarchy.has(level) && !shared;
        asked && hierarchy.emptied(level, site) < cell.when
    };
    if kept(Levels::SCALAR, false) {
        return Some("a scalar load is answered by a cache that nothing has emptied since");
    }
    if kept(Levels::FIRST, writer.first == site.first) {
        return Some("nothing has emptied the compute unit's vector cache since");
    }
    if kept(Levels::ARRAY, writer.array == site.array) {
        return Some("nothing has emptied the shader array's cache since");
    }
    if writer.xcd != site.xcd && hierarchy.is_behind(at, bytes, site.xcd) {
        return Some("its XCD's second-level cache was not written back");
    }
    let second = kept(Levels::SECOND, writer.xcd == site.xcd);
    second.then_some("nothing has emptied the XCD's second-level cache since")
}

/// Whether a store may not have arrived when others were told of it: nothing has waited for it. A load that passes all
/// caches may be of what tells by itself that it is there.
fn on_its_way(
    arrivals: &Arrivals,
    cell: &Cell,
    before: Before,
    policy: Policy,
) -> Option<&'static str> {
    let Before::Told(when) = before else {
        return None;
    };
    let is_plain = policy.hits.intersects(Levels::FIRST | Levels::SCALAR) && !cell.atomic;
    let may_be = is_plain && !arrivals.had_arrived(cell.writer.wave, cell.when, when);
    may_be.then_some("nothing has waited for the store before others were told of it")
}

/// What a step accesses of memory.
fn footprints(step: &Step, wave: &Wave, mut each: impl FnMut(Footprint)) {
    match &step.op {
        Op::Memory(op) => op.footprint(wave, each),
        Op::Buffer(op) => op.footprints(wave, each),
        Op::ScalarMemory(op) => {
            if let Some((first, bytes, access)) = op.footprint(wave) {
                let mut places = [0; crate::exec::wave::LANES];
                places[0] = first;
                each(Footprint {
                    access,
                    bytes,
                    places: &places,
                    lanes: 1,
                });
            }
        }
        _ => {}
    }
}
