//! The way of an XCD's compute units to memory.

use std::collections::VecDeque;

use rocm_gpus::{ArrayCache, Level, Timing};

use super::cache::{Cache, Port};
use super::record::MemoryUse;
use crate::exec::memory::Access;
use crate::isa::Target;

/// A compute unit's.
struct First {
    cache: Cache,
    /// When it has taken the instructions before.
    free: u64,
    busy: u64,
    /// When the lines that it waits for come, in order of asking.
    misses: VecDeque<u64>,
}

/// A shader array's: it has what compute units read, and stores pass by.
struct Array {
    cache: Cache,
    port: Port,
}

impl Array {
    fn new(of: ArrayCache, line: u64) -> Array {
        Array {
            cache: Cache::new(u64::from(of.kib) << 10, line),
            port: Port::new(of.bytes.into()),
        }
    }
}

/// A level beyond the first.
struct Beyond {
    latency: u64,
    port: Port,
}

impl Beyond {
    fn new(level: Level, share: f64, megahertz: u32) -> Beyond {
        let bytes = f64::from(level.gigabytes_per_second) * 1000.0 / f64::from(megahertz);
        Beyond {
            latency: level.latency.into(),
            port: Port::new(bytes * share),
        }
    }
}

/// What all compute units of an XCD share, and what each has.
pub(super) struct Hierarchy {
    timing: &'static Timing,
    line: u64,
    /// Least cycles for which an instruction of a wavefront occupies the way to the first-level cache.
    address_cycles: u64,
    first: Vec<First>,
    arrays: Vec<Array>,
    second: Cache,
    l2: Beyond,
    stores: Port,
    infinity: Option<(Beyond, Cache)>,
    /// All that the launch touches lies in the Infinity Cache.
    warm: bool,
    memory: Beyond,
}

/// A request on its way.
#[derive(Clone, Copy)]
struct Request {
    /// When its instruction was issued: ports take requests in this order, which is that of time.
    at: u64,
    /// When it came where it is now.
    start: u64,
}

impl Request {
    /// Behind a port.
    fn through(self, port: &mut Port, bytes: u64) -> Request {
        let passed = self.at + port.pass(self.at, bytes).saturating_sub(1);
        Request {
            start: self.start.max(passed),
            ..self
        }
    }
}

/// Cycles in which the ways were busy, for what a launch is bound by.
#[derive(Clone, Copy, Default)]
pub(super) struct Busy {
    pub first: u64,
    pub second: u64,
    pub memory: u64,
}

impl Hierarchy {
    /// Of one of `sharers` XCDs that the launch uses, for wavefronts of so many lanes.
    pub fn new(
        target: Target,
        timing: &'static Timing,
        lanes: u32,
        sharers: u32,
        warm: bool,
    ) -> Hierarchy {
        let product = &target.facts().product;
        let unit = target.unit();
        let line = u64::from(unit.line_bytes);
        let units = product.compute_units / product.xcds;
        let of_xcd = 1.0 / f64::from(product.xcds);
        let share = 1.0 / f64::from(sharers);
        let beyond = |level, share| Beyond::new(level, share, product.clock_mhz);
        let first = || First {
            cache: Cache::new(u64::from(unit.vector_cache_kib) << 10, line),
            free: 0,
            busy: 0,
            misses: VecDeque::new(),
        };
        let arrays = timing.array.iter().flat_map(|&array| {
            let count = units.div_ceil(array.compute_units);
            (0..count).map(move |_| Array::new(array, line))
        });
        let infinity_bytes = u64::from(product.infinity_cache_mib) << 20;
        Hierarchy {
            timing,
            line,
            address_cycles: lanes.div_ceil(timing.address_lanes).into(),
            arrays: arrays.collect(),
            first: (0..units).map(|_| first()).collect(),
            second: Cache::new(u64::from(product.l2_kib) << 10, line),
            l2: beyond(timing.l2, of_xcd),
            stores: Port::new(timing.l2_store_bytes.into()),
            infinity: timing.infinity.map(|level| {
                let bytes = infinity_bytes / u64::from(sharers);
                (beyond(level, share), Cache::new(bytes, line))
            }),
            warm: warm && timing.infinity.is_some(),
            memory: beyond(timing.memory, share),
        }
    }

    /// An instruction of a compute unit, issued at a cycle: when its data are there, or its stores acknowledged.
    pub fn access(&mut self, unit: usize, at: u64, of: &MemoryUse, lines: &[u64]) -> u64 {
        let first = &mut self.first[unit];
        let moved = u64::from(of.bytes).div_ceil(self.timing.l1_bytes.into());
        let service = self.address_cycles.max(moved).max(lines.len() as u64);
        let start = at.max(first.free);
        first.free = start + service;
        first.busy += service;
        // The first bytes come after the latency, the last when all have passed.
        let after = service - self.address_cycles;
        let bytes = (u64::from(of.bytes) / (lines.len() as u64).max(1)).min(self.line);
        let mut done = start + after + u64::from(self.timing.l1_latency);
        let request = Request { at, start };
        for &line in lines {
            let ready = match of.access {
                Access::Load => self.load(unit, request, line) + after,
                Access::Store => self.store(request, line, bytes) + after,
                Access::Atomic => {
                    let loaded = self.second_level(request, line);
                    loaded.max(self.store(request, line, bytes))
                }
            };
            done = done.max(ready);
        }
        done
    }

    fn load(&mut self, unit: usize, request: Request, line: u64) -> u64 {
        let Request { at, mut start } = request;
        let hit = start + u64::from(self.timing.l1_latency);
        let first = &mut self.first[unit];
        if let Some(ready) = first.cache.find(line) {
            return hit.max(ready);
        }
        while first.misses.front().is_some_and(|&ready| ready <= at) {
            first.misses.pop_front();
        }
        if let Some(most) = self.timing.misses {
            if let Some(before) = first.misses.len().checked_sub(most as usize) {
                start = start.max(first.misses[before]);
            }
        }
        let ready = self.array(unit, Request { at, start }, line);
        let first = &mut self.first[unit];
        let in_order = first.misses.back().copied().unwrap_or(0).max(ready);
        first.misses.push_back(in_order);
        first.cache.keep(line, ready);
        ready
    }

    /// When a line is there that a compute unit asks of its shader array's cache, or, without one, of the second level.
    fn array(&mut self, unit: usize, mut request: Request, line: u64) -> u64 {
        let Some(of) = self.timing.array else {
            return self.second_level(request, line);
        };
        let at = unit / of.compute_units as usize;
        request = request.through(&mut self.arrays[at].port, self.line);
        let hit = request.start + u64::from(of.latency);
        if let Some(ready) = self.arrays[at].cache.find(line) {
            return hit.max(ready);
        }
        let ready = self.second_level(request, line);
        self.arrays[at].cache.keep(line, ready);
        ready
    }

    /// When a line is there that is asked of the second level.
    fn second_level(&mut self, request: Request, line: u64) -> u64 {
        let request = request.through(&mut self.l2.port, self.line);
        let hit = request.start + self.l2.latency;
        if let Some(ready) = self.second.find(line) {
            return hit.max(ready);
        }
        let ready = self.third_level(request, line);
        self.second.keep(line, ready);
        ready
    }

    fn third_level(&mut self, mut request: Request, line: u64) -> u64 {
        if let Some((level, cache)) = &mut self.infinity {
            request = request.through(&mut level.port, self.line);
            let hit = request.start + level.latency;
            match cache.find(line) {
                Some(ready) => return hit.max(ready),
                None if self.warm => return hit,
                None => {}
            }
        }
        let request = request.through(&mut self.memory.port, self.line);
        let ready = request.start + self.memory.latency;
        if let Some((_, cache)) = &mut self.infinity {
            cache.keep(line, ready);
        }
        ready
    }

    /// A line, or part of it, is written to the second level, and from there to memory once, as the XCDs' second
    /// levels do not know each other's and write back at the launch's end.
    fn store(&mut self, request: Request, line: u64, bytes: u64) -> u64 {
        let done = request.through(&mut self.stores, bytes).start + self.l2.latency;
        if self.second.find(line).is_none() {
            self.second.keep(line, done);
        }
        if self.second.write(line) {
            if let Some((level, cache)) = &mut self.infinity {
                level.port.pass(request.at, bytes);
                if cache.find(line).is_none() {
                    cache.keep(line, done);
                }
            }
            if !self.warm {
                self.memory.port.pass(request.at, bytes);
            }
        }
        done
    }

    /// When all that was written is where it belongs.
    pub fn settled(&self) -> u64 {
        let infinity = self
            .infinity
            .as_ref()
            .map_or(0, |(level, _)| level.port.idle_from());
        self.memory
            .port
            .idle_from()
            .max(infinity)
            .max(self.stores.idle_from())
    }

    /// The compute unit's most, and the XCD's.
    pub fn busy(&self) -> Busy {
        let infinity = self
            .infinity
            .as_ref()
            .map_or(0, |(level, _)| level.port.busy());
        Busy {
            first: self.first.iter().map(|first| first.busy).max().unwrap_or(0),
            second: self.l2.port.busy().max(self.stores.busy()),
            memory: self.memory.port.busy().max(infinity),
        }
    }
}
