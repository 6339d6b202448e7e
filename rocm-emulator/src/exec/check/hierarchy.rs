//! The caches of a GPU during a launch, and what each wavefront sees of memory through them.
//!
//! The emulated memory always holds what was stored last. What a wavefront sees instead is put together here: lines that
//! a cache keeps, and, where an XCD's second level has bytes that it has not written back, what memory had before.
//! First levels and those of shader arrays are written through. The second level is modelled where a GPU has several:
//! a single one is what all wavefronts share.

use std::collections::HashMap;

use super::cache::{bits, positions, together, Bytes, Cache, Line, LINE};
use super::order::Draw;
use super::policy::{Levels, Policy};
use crate::isa::{Family, Target};

/// Shader arrays with a cache of their own: two of each shader engine, of which large GPUs have four to six.
const ARRAYS: u32 = 8;
/// KiB of such a cache, and of a scalar one.
const ARRAY_KIB: u32 = 128;
const SCALAR_KIB: u32 = 16;
/// Of so many hits one finds that the line is gone.
const KEPT: usize = 512;

/// The caches that a wavefront goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub first: u32,
    pub scalar: u32,
    pub array: u32,
    pub xcd: u32,
}

/// Which workgroup runs where: they go to XCDs in turn, and of an XCD, or where there is one, to its compute units or
/// WGPs in turn. Neighbouring WGPs are of different shader arrays. In WGP mode a workgroup's wavefronts go to the two
/// compute units in turn, and in CU mode the workgroups of a WGP do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    xcds: u32,
    /// Compute units or WGPs of each.
    units: u32,
    /// Of a WGP.
    compute_units: u32,
    arrays: u32,
    wgp_mode: bool,
}

impl Layout {
    pub fn of(target: Target, wgp_mode: bool) -> Layout {
        let xcds = target.facts().product.xcds;
        let units = (target.multiprocessors() / xcds).max(1);
        Layout {
            xcds,
            units,
            compute_units: target.unit().compute_units,
            arrays: match target.family() {
                Family::Rdna2 | Family::Rdna3 => units.min(ARRAYS),
                Family::Cdna | Family::Rdna4 => 0,
            },
            wgp_mode,
        }
    }

    /// Where a wavefront of a workgroup runs, by their numbers.
    pub fn site(&self, group: u64, wave: u32) -> Site {
        let xcds = u64::from(self.xcds);
        let (xcd, of_xcd) = ((group % xcds) as u32, group / xcds);
        let (unit, round) = (
            of_xcd % u64::from(self.units),
            of_xcd / u64::from(self.units),
        );
        let half = match self.wgp_mode {
            true => wave,
            false => round as u32,
        };
        let unit = xcd * self.units + unit as u32;
        Site {
            first: unit * self.compute_units + half % self.compute_units,
            scalar: unit,
            array: unit.checked_rem(self.arrays).unwrap_or(0),
            xcd,
        }
    }
}

/// What memory has of a line's bytes where a second level has newer ones, and which wrote them.
struct Behind {
    mask: u128,
    bytes: Bytes,
    owner: [u8; LINE as usize],
}

/// See the module's text.
pub(super) struct Hierarchy {
    layout: Layout,
    first: HashMap<u32, Cache>,
    scalar: HashMap<u32, Cache>,
    array: Vec<Cache>,
    second: Vec<Cache>,
    behind: HashMap<u64, Behind>,
    /// Lines that each holds.
    first_lines: usize,
    /// Bytes of a line of the first level.
    line_bytes: u64,
    draw: Draw,
    /// Counts the instructions that reach memory.
    pub now: u32,
}

/// An address range that a launch may read whole: those of the allocation that an access is in.
pub(super) type Window = (u64, u64);

impl Hierarchy {
    pub fn new(target: Target, layout: Layout, seed: u64) -> Hierarchy {
        let lines = |kib: u32| (kib << 10) as usize / LINE as usize;
        let several = if layout.xcds > 1 { layout.xcds } else { 0 };
        let second = lines(target.facts().product.l2_kib);
        Hierarchy {
            layout,
            first: HashMap::new(),
            scalar: HashMap::new(),
            array: (0..layout.arrays)
                .map(|_| Cache::new(lines(ARRAY_KIB)))
                .collect(),
            second: (0..several).map(|_| Cache::new(second)).collect(),
            behind: HashMap::new(),
            first_lines: lines(target.unit().vector_cache_kib),
            line_bytes: target.unit().line_bytes.into(),
            draw: Draw::new(seed),
            now: 0,
        }
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What a load at a site sees of a range that lies in a window.
    pub fn look(
        &mut self,
        (first, end): (u64, u64),
        window: Window,
        site: Site,
        policy: Policy,
        seen: &mut Vec<u8>,
    ) {
        let mut line = first / LINE * LINE;
        while line < end {
            let wanted = bits(line, first, end);
            let bytes = self.nearest(line, wanted, window, site, policy.hits);
            if let Some(range) = together(wanted) {
                seen.extend_from_slice(&bytes[range]);
            }
            line += LINE;
        }
    }

    /// The bytes of a line as the nearest cache that may answer has them, or gets them.
    fn nearest(
        &mut self,
        line: u64,
        wanted: u128,
        window: Window,
        site: Site,
        hits: Levels,
    ) -> Bytes {
        let scalar = hits.contains(Levels::SCALAR);
        if !scalar && !hits.contains(Levels::FIRST) {
            return self.of_array(line, wanted, window, site, hits);
        }
        // All of the cache's own lines that the bytes are in.
        let own = self.line_bytes;
        let (from, to) = (wanted.trailing_zeros(), 127 - wanted.leading_zeros());
        let from = line + u64::from(from) / own * own;
        let to = line + (u64::from(to) / own + 1) * own;
        let whole = bits(line, from.max(window.0), to.min(window.1));
        let dropped = self.draw.below(KEPT) == 0;
        if let Some(bytes) = self.near(site, scalar).hit(line, wanted, || dropped) {
            return bytes;
        }
        let bytes = self.of_array(line, whole, window, site, hits);
        let mut draw = self.draw.clone();
        let (kept, _) = self.near(site, scalar).entry(line, &mut draw);
        kept.fill(whole, &bytes);
        let bytes = kept.bytes;
        self.draw = draw;
        bytes
    }

    /// The vector cache of a compute unit, or the scalar one of a compute unit or WGP.
    fn near(&mut self, site: Site, scalar: bool) -> &mut Cache {
        let new = |lines| move || Cache::new(lines);
        match scalar {
            true => self
                .scalar
                .entry(site.scalar)
                .or_insert_with(new((SCALAR_KIB << 10) as usize / LINE as usize)),
            false => self
                .first
                .entry(site.first)
                .or_insert_with(new(self.first_lines)),
        }
    }

    fn of_array(
        &mut self,
        line: u64,
        wanted: u128,
        window: Window,
        site: Site,
        hits: Levels,
    ) -> Bytes {
        if self.array.is_empty() || !hits.contains(Levels::ARRAY) {
            return self.of_second(line, wanted, window, site, hits);
        }
        let whole = bits(line, window.0, window.1);
        let (cache, draw) = (&mut self.array[site.array as usize], &mut self.draw);
        if let Some(bytes) = cache.hit(line, wanted, || draw.below(KEPT) == 0) {
            return bytes;
        }
        let bytes = self.of_second(line, whole, window, site, hits);
        let (kept, _) = self.array[site.array as usize].entry(line, &mut self.draw);
        kept.fill(whole, &bytes);
        kept.bytes
    }

    fn of_second(
        &mut self,
        line: u64,
        wanted: u128,
        window: Window,
        site: Site,
        hits: Levels,
    ) -> Bytes {
        let xcd = site.xcd as usize;
        if self.second.is_empty() {
            return self.of_memory(line, wanted);
        }
        if !hits.contains(Levels::SECOND) {
            let mut bytes = self.of_memory(line, wanted);
            // What the XCD itself has not written back is its own.
            if let Some(own) = self.second[xcd].get(line) {
                positions(own.dirty).for_each(|at| bytes[at] = own.bytes[at]);
            }
            return bytes;
        }
        if self.draw.below(KEPT) == 0 {
            self.write_back(site.xcd, line);
            if let Some(line) = self.second[xcd].get(line) {
                line.valid = 0;
            }
        }
        if let Some(bytes) = self.second[xcd].hit(line, wanted, || false) {
            return bytes;
        }
        let whole = bits(line, window.0, window.1);
        let bytes = self.of_memory(line, whole);
        let (kept, gone) = self.second[xcd].entry(line, &mut self.draw);
        kept.fill(whole & !kept.valid, &bytes);
        let bytes = kept.bytes;
        if let Some((address, line)) = gone {
            self.written_back(site.xcd, address, &line);
        }
        bytes
    }

    /// What memory has of a line, of the bytes of a mask.
    fn of_memory(&self, line: u64, wanted: u128) -> Bytes {
        let mut bytes = [0; LINE as usize];
        if let Some(range) = together(wanted) {
            copy(line + range.start as u64, &mut bytes[range]);
        }
        if let Some(behind) = self.behind.get(&line) {
            positions(behind.mask & wanted).for_each(|at| bytes[at] = behind.bytes[at]);
        }
        bytes
    }

    /// Whether memory has not got, of a range, what an XCD other than this one stored.
    pub fn is_behind(&self, first: u64, bytes: u64, xcd: u32) -> bool {
        let line = first / LINE * LINE;
        self.behind.get(&line).is_some_and(|behind| {
            positions(behind.mask & bits(line, first, first + bytes))
                .any(|at| u32::from(behind.owner[at]) != xcd)
        })
    }

    /// When the cache of a level was last emptied.
    pub fn emptied(&self, level: Levels, site: Site) -> u32 {
        let cache = if level == Levels::FIRST {
            self.first.get(&site.first)
        } else if level == Levels::SCALAR {
            self.scalar.get(&site.scalar)
        } else if level == Levels::ARRAY {
            self.array.get(site.array as usize)
        } else {
            self.second.get(site.xcd as usize)
        };
        cache.map_or(0, |cache| cache.emptied)
    }

    /// Whether the GPU has caches of a level that are not all wavefronts'.
    pub fn has(&self, level: Levels) -> bool {
        if level == Levels::ARRAY {
            return !self.array.is_empty();
        }
        level != Levels::SECOND || !self.second.is_empty()
    }

    /// Empty the caches of some levels that a site goes through.
    pub fn empty(&mut self, levels: Levels, site: Site) {
        let now = self.now;
        if levels.contains(Levels::FIRST) {
            self.near(site, false).empty(now);
        }
        if levels.contains(Levels::SCALAR) {
            self.near(site, true).empty(now);
        }
        if let (true, Some(array)) = (
            levels.contains(Levels::ARRAY),
            self.array.get_mut(site.array as usize),
        ) {
            array.empty(now);
        }
        if let (true, Some(second)) = (
            levels.contains(Levels::SECOND),
            self.second.get_mut(site.xcd as usize),
        ) {
            second.empty(now);
        }
    }

    /// A range is about to be stored to: what memory has is kept where the store ends in the second level.
    pub fn before_store(&mut self, (first, end): (u64, u64), site: Site, policy: Policy) {
        if self.second.is_empty() || policy.through {
            return;
        }
        let mut line = first / LINE * LINE;
        while line < end {
            let stored = bits(line, first, end);
            let behind = self.behind.entry(line).or_insert(Behind {
                mask: 0,
                bytes: [0; LINE as usize],
                owner: [0; LINE as usize],
            });
            for at in positions(stored) {
                if behind.mask >> at & 1 == 0 {
                    behind.bytes[at] = read(line + at as u64);
                }
                behind.owner[at] = site.xcd as u8;
            }
            behind.mask |= stored;
            line += LINE;
        }
    }

    /// A range was stored to.
    pub fn after_store(&mut self, (first, end): (u64, u64), site: Site, policy: Policy) {
        let mut line = first / LINE * LINE;
        while line < end {
            let stored = bits(line, first, end);
            let mut bytes = [0; LINE as usize];
            if let Some(range) = together(stored) {
                copy(line + range.start as u64, &mut bytes[range]);
            }
            if let Some(own) = self.first.get_mut(&site.first).and_then(|it| it.get(line)) {
                own.fill(stored & own.valid, &bytes);
            }
            if let Some(own) = self.of_site(site).and_then(|it| it.get(line)) {
                own.valid &= !stored;
            }
            if !self.second.is_empty() {
                self.second_stored(line, stored, &bytes, site, policy);
            }
            line += LINE;
        }
    }

    fn of_site(&mut self, site: Site) -> Option<&mut Cache> {
        self.array.get_mut(site.array as usize)
    }

    fn second_stored(
        &mut self,
        line: u64,
        stored: u128,
        bytes: &Bytes,
        site: Site,
        policy: Policy,
    ) {
        let second = &mut self.second[site.xcd as usize];
        if policy.through {
            self.arrived(line, stored);
            if let Some(own) = self.second[site.xcd as usize].get(line) {
                own.fill(stored & own.valid, bytes);
                own.dirty &= !stored;
            }
            return;
        }
        let (own, gone) = second.entry(line, &mut self.draw);
        own.fill(stored, bytes);
        own.dirty |= stored;
        if let Some((address, line)) = gone {
            self.written_back(site.xcd, address, &line);
        }
    }

    /// Memory has what was stored last.
    fn arrived(&mut self, line: u64, mask: u128) {
        if let Some(behind) = self.behind.get_mut(&line) {
            behind.mask &= !mask;
            if behind.mask == 0 {
                self.behind.remove(&line);
            }
        }
    }

    /// An atomic is about to be performed, where memory is.
    pub fn before_atomic(&mut self, (first, end): (u64, u64), site: Site) {
        if self.second.is_empty() {
            return;
        }
        let mut line = first / LINE * LINE;
        while line < end {
            self.write_back(site.xcd, line);
            // Others' bytes that are not written back are not known to it.
            let mask = bits(line, first, end);
            if let Some(behind) = self.behind.get(&line) {
                for at in positions(behind.mask & mask) {
                    write(line + at as u64, behind.bytes[at]);
                }
            }
            self.arrived(line, mask);
            line += LINE;
        }
    }

    /// An atomic was performed: what its own wavefront would see of it is not kept.
    pub fn after_atomic(&mut self, (first, end): (u64, u64), site: Site) {
        let mut line = first / LINE * LINE;
        while line < end {
            let mask = bits(line, first, end);
            let first = self.first.get_mut(&site.first);
            let array = self.array.get_mut(site.array as usize);
            let second = self.second.get_mut(site.xcd as usize);
            for cache in [first, array, second].into_iter().flatten() {
                if let Some(line) = cache.get(line) {
                    line.valid &= !mask;
                    line.dirty &= !mask;
                }
            }
            line += LINE;
        }
    }

    /// Write back all that an XCD's second level has and memory has not.
    pub fn write_back_all(&mut self, xcd: u32) {
        let Some(second) = self.second.get(xcd as usize) else {
            return;
        };
        for line in second.dirty() {
            self.write_back(xcd, line);
        }
    }

    /// The kernel's end: all of them, in a drawn order.
    pub fn finish(&mut self) {
        let mut xcds: Vec<u32> = (0..self.second.len() as u32).collect();
        self.draw.shuffle(&mut xcds);
        xcds.into_iter().for_each(|xcd| self.write_back_all(xcd));
    }

    fn write_back(&mut self, xcd: u32, address: u64) {
        let Some(line) = self.second[xcd as usize].get(address) else {
            return;
        };
        let (dirty, bytes) = (std::mem::take(&mut line.dirty), line.bytes);
        self.leave_in_memory(xcd, address, dirty, &bytes);
    }

    fn written_back(&mut self, xcd: u32, address: u64, line: &Line) {
        self.leave_in_memory(xcd, address, line.dirty, &line.bytes);
    }

    fn leave_in_memory(&mut self, xcd: u32, line: u64, dirty: u128, bytes: &Bytes) {
        let Some(behind) = self.behind.get_mut(&line) else {
            // Others stored there meanwhile, past their caches: that is lost.
            return positions(dirty).for_each(|at| write(line + at as u64, bytes[at]));
        };
        let mut arrived = 0;
        for at in positions(dirty) {
            match (behind.mask >> at & 1 != 0, behind.owner[at] == xcd as u8) {
                (true, true) => arrived |= 1 << at,
                (true, false) => behind.bytes[at] = bytes[at],
                (false, _) => write(line + at as u64, bytes[at]),
            }
        }
        self.arrived(line, arrived);
    }
}

/// Bytes of the emulated memory.
fn copy(from: u64, to: &mut [u8]) {
    // SAFETY: as for `read`.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to.as_mut_ptr(), to.len()) }
}

/// Whether the emulated memory has these bytes.
pub(super) fn has(at: u64, bytes: &[u8]) -> bool {
    // SAFETY: as for `read`; the launch runs on one thread, and nothing is written meanwhile.
    unsafe { std::slice::from_raw_parts(at as *const u8, bytes.len()) == bytes }
}

/// A byte of the emulated memory.
pub(super) fn read(at: u64) -> u8 {
    // SAFETY: those who ask have found the address inside an allocation, which the launch keeps alive.
    unsafe { (at as *const u8).read() }
}

/// Change a byte of the emulated memory.
pub(super) fn write(at: u64, byte: u8) {
    // SAFETY: as for `read`; the launch runs on one thread.
    unsafe { (at as *mut u8).write(byte) }
}
