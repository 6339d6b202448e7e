//! One XCD plays back what the wavefronts of its workgroups did.
//!
//! Each SIMD has its turn every fourth cycle, or every cycle on RDNA. In its turn it issues at most one instruction of
//! each class, each of another wavefront, the one of highest priority and then the oldest first; a wavefront issues one
//! in a turn. An instruction waits for its registers, its unit, its code, and, if it is a wait, for what was asked for.
//! (AMD's instruction set manuals; ROCm Compute Profiler, "Pipeline descriptions"; RDNA white paper.)

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use rocm_gpus::Timing;

use super::cache::Cache;
use super::geometry::Geometry;
use super::instruction::{Class, Effect, Instruction};
use super::memory::{Busy, Hierarchy};
use super::record::{Entry, WaveRecord, NOTHING};
use super::simd::Simd;
use super::unit::{Unit, PAIR};
use super::wave::Wave;
use crate::codeobject::LoadedKernel;
use crate::isa::Target;

/// What an XCD's playing back gave, in cycles.
pub(super) struct Played {
    /// When everything was done.
    pub end: u64,
    /// When each workgroup began, in order.
    pub starts: Vec<u64>,
    /// Most that a SIMD's matrix unit, and vector unit, were busy.
    pub matrix: u64,
    pub vector: u64,
    /// Most that a compute unit's LDS was.
    pub lds: u64,
    pub memory: Busy,
}

/// Where a workgroup runs: on a multiprocessor, or, in RDNA's CU mode, on one of its two compute units.
#[derive(Clone, Copy)]
struct Place {
    unit: usize,
    compute_unit: Option<usize>,
}

/// A workgroup on its unit.
struct Group {
    place: Place,
    /// Of which compute unit its LDS is.
    lds: usize,
    running: u32,
    /// Those that have arrived at the barrier.
    arrived: u32,
    /// Barriers at which all have arrived.
    passed: u64,
    /// Those that wait at the barrier.
    waiting: Vec<u32>,
}

pub(super) struct Xcd<'a> {
    target: Target,
    timing: &'static Timing,
    kernel: &'a LoadedKernel,
    instructions: HashMap<i32, Instruction>,
    units: Vec<Unit>,
    memory: Hierarchy,
    code: Vec<Cache>,
    groups: Vec<Group>,
    waves: Vec<Option<Wave<'a>>>,
    /// When, how unimportant, which.
    turns: BinaryHeap<Reverse<(u64, u8, u32)>>,
    end: u64,
}

impl<'a> Xcd<'a> {
    pub fn new(
        kernel: &'a LoadedKernel,
        timing: &'static Timing,
        geometry: &Geometry,
        warm: bool,
    ) -> Xcd<'a> {
        let target = kernel.kernel.target;
        let lanes = kernel.kernel.wavefront_size;
        let memory = Hierarchy::new(target, timing, lanes, geometry.xcds_used(), warm);
        let units = geometry.units_of_xcd() as usize;
        let [bytes, line] = timing.instructions.map(u64::from);
        let caches = units.div_ceil(timing.instruction_sharers as usize);
        Xcd {
            target,
            timing,
            kernel,
            instructions: HashMap::new(),
            units: vec![Unit::new(target.unit()); units],
            memory,
            code: (0..caches).map(|_| Cache::new(bytes, line)).collect(),
            groups: Vec::new(),
            waves: Vec::new(),
            turns: BinaryHeap::new(),
            end: 0,
        }
    }

    /// All that workgroups execute lies in the instruction caches, or as much as there is room for.
    pub fn keep_code(&mut self, groups: &[Vec<WaveRecord>]) {
        let line_bytes = u64::from(self.timing.instructions[1]);
        let entries = groups.iter().flatten().flat_map(|wave| &wave.entries);
        let address = |offset: i32| self.kernel.entry.wrapping_add_signed(offset.into());
        let lines: BTreeSet<u64> = entries
            .map(|entry| address(entry.offset) / line_bytes)
            .collect();
        for cache in &mut self.code {
            lines.iter().for_each(|line| cache.keep(*line, 0));
        }
    }

    /// Play workgroups back, so many at once on a unit.
    pub fn play(mut self, groups: &'a [Vec<WaveRecord>], held: u32) -> Played {
        let mut coming = groups.iter();
        let mut starts = Vec::new();
        let places = self.places();
        let each = (held as usize * self.units.len() / places.len()).max(1);
        // One to each unit in turn, as the hardware spreads them.
        for place in (0..each).flat_map(|_| &places) {
            if let Some(group) = coming.next() {
                self.begin(*place, group, 0);
                starts.push(0);
            }
        }
        while let Some(Reverse((at, _, index))) = self.turns.pop() {
            let Some(ended) = self.turn(at, index) else {
                continue;
            };
            if let Some(group) = coming.next() {
                self.begin(ended, group, at);
                starts.push(at);
            }
        }
        let simds = || self.units.iter().flat_map(|unit| &unit.simds);
        let most = |of: fn(&Simd) -> u64| simds().map(of).max().unwrap_or(0);
        Played {
            end: self.end.max(self.memory.settled()),
            starts,
            matrix: most(|simd| simd.matrix_busy),
            vector: most(|simd| simd.vector_busy),
            lds: self.units.iter().map(Unit::lds_busy).max().unwrap_or(0),
            memory: self.memory.busy(),
        }
    }

    /// Where workgroups run, in the order in which they come there.
    fn places(&self) -> Vec<Place> {
        let unit = self.target.unit();
        let units = 0..self.units.len();
        if unit.compute_units == 1 || self.kernel.kernel.descriptor.wgp_mode {
            let whole = |unit| Place {
                unit,
                compute_unit: None,
            };
            return units.map(whole).collect();
        }
        let of = |at: usize| units.clone().map(move |unit| (unit, Some(at)));
        let places = (0..unit.compute_units as usize).flat_map(of);
        places
            .map(|(unit, compute_unit)| Place { unit, compute_unit })
            .collect()
    }

    fn begin(&mut self, place: Place, records: &'a [WaveRecord], at: u64) {
        let group = self.groups.len();
        let running = records.iter().filter(|record| !record.entries.is_empty());
        let unit = &mut self.units[place.unit];
        self.groups.push(Group {
            place,
            lds: unit.enter(place.compute_unit),
            running: running.clone().count() as u32,
            arrived: 0,
            passed: 0,
            waiting: Vec::new(),
        });
        let simds = match place.compute_unit {
            Some(at) => PAIR * at..PAIR * (at + 1),
            None => 0..unit.simds.len(),
        };
        for record in running {
            let each = unit.simds[simds.clone()].iter_mut().enumerate();
            let Some((simd, least)) = each.min_by_key(|(_, simd)| simd.wavefronts) else {
                continue;
            };
            least.wavefronts += 1;
            let index = self.waves.len() as u32;
            let wave = Wave::new(record, group, place.unit, simds.start + simd);
            self.waves.push(Some(wave));
            self.turns.push(Reverse((at, u8::MAX, index)));
        }
    }

    /// A wavefront's turn: it issues, or comes back when it can. The place, if a workgroup ended there.
    fn turn(&mut self, at: u64, index: u32) -> Option<Place> {
        let mut wave = self.waves[index as usize].take()?;
        let entry = wave.record.entries[wave.next];
        let timing = self.timing;
        let kernel = self.kernel;
        let pc = kernel.entry.wrapping_add_signed(entry.offset.into());
        let instruction = self.instructions.entry(entry.offset).or_insert_with(|| {
            // What was executed can be decoded.
            Instruction::at(kernel, timing, pc).expect("an instruction that was executed")
        });
        let unit = &self.units[wave.unit];
        let code = &mut self.code[wave.unit / timing.instruction_sharers as usize];
        let fetched = fetch(&mut wave, code, timing, pc, at);
        let free = unit.simds[wave.simd].free(instruction);
        let can = wave.can_issue(instruction, free, self.target);
        // Its SIMD's turn.
        let cycle = u64::from(self.target.unit().issue_cycles);
        let phase = wave.simd as u64 % cycle;
        let can = at.max(can).max(fetched);
        let can = (can + cycle - 1 - phase) / cycle * cycle + phase;
        if can > at {
            self.turns
                .push(Reverse((can, u8::MAX - wave.priority, index)));
            self.waves[index as usize] = Some(wave);
            return None;
        }
        let instruction = &self.instructions[&entry.offset];
        let simd = &mut self.units[wave.unit].simds[wave.simd];
        simd.issue(&mut wave, instruction, timing, at);
        let (class, slots, effect) = (instruction.class, instruction.slots, instruction.effect);
        let done = self.ask(&wave, class, entry, at);
        let instruction = &self.instructions[&entry.offset];
        wave.count(&instruction.counts, done);
        self.end = self.end.max(done);
        wave.next += 1;
        let mut next = at + slots;
        let follows = wave.record.entries.get(wave.next);
        let after = instruction.size as i32;
        if class == Class::Branch && follows.is_some_and(|it| it.offset != entry.offset + after) {
            next = at + u64::from(timing.branch);
        }
        match effect {
            Effect::Priority(priority) => wave.priority = priority,
            Effect::Sleep(cycles) => next += cycles,
            _ => {}
        }
        if effect == Effect::End || follows.is_none() {
            return self.end_wave(wave, index, at);
        }
        self.go_on(wave, index, effect, next);
        None
    }

    /// A wavefront has issued its last instruction. The place, if its workgroup ended.
    fn end_wave(&mut self, mut wave: Wave<'a>, index: u32, at: u64) -> Option<Place> {
        // It stays until its stores are acknowledged.
        let last = wave.last_done();
        if last > at {
            wave.next -= 1;
            wave.settle();
            let priority = u8::MAX - wave.priority;
            self.turns.push(Reverse((last, priority, index)));
            self.waves[index as usize] = Some(wave);
            return None;
        }
        self.units[wave.unit].simds[wave.simd].wavefronts -= 1;
        self.leave(wave.group, at)
    }

    /// A wavefront's next turn, unless it waits at a barrier.
    fn go_on(&mut self, mut wave: Wave<'a>, index: u32, effect: Effect, next: u64) {
        let (group, priority) = (wave.group, u8::MAX - wave.priority);
        let of = &mut self.groups[group];
        let arrives = matches!(effect, Effect::Barrier | Effect::Arrive);
        if arrives {
            wave.arrivals += 1;
            of.arrived += 1;
        }
        let waits = match effect {
            Effect::Barrier => true,
            Effect::Await => of.passed < wave.arrivals,
            _ => false,
        };
        self.waves[index as usize] = Some(wave);
        if waits {
            of.waiting.push(index);
        } else {
            self.turns.push(Reverse((next, priority, index)));
        }
        if arrives {
            self.release(group, next);
        }
    }

    /// When what an instruction asked of LDS or memory is done.
    fn ask(&mut self, wave: &Wave, class: Class, entry: Entry, at: u64) -> u64 {
        let detail = entry.detail as usize;
        match class {
            Class::Lds if entry.detail != NOTHING => {
                let lds = self.groups[wave.group].lds;
                let unit = &mut self.units[wave.unit];
                unit.ask([lds, wave.simd], wave.record.lds[detail], self.timing, at)
            }
            Class::Memory if entry.detail != NOTHING => {
                let of = wave.record.accesses[detail];
                let lines = &wave.record.lines[of.first as usize..][..of.count as usize];
                let unit = self.target.unit();
                let of_unit = wave.simd / (unit.simds / unit.compute_units) as usize;
                let compute_unit = wave.unit * unit.compute_units as usize + of_unit;
                self.memory.access(compute_unit, at, &of, lines)
            }
            // Scalar data are taken to lie in the second level.
            Class::ScalarMemory => at + u64::from(self.timing.l2.latency),
            _ => at + u64::from(self.timing.vector),
        }
    }

    /// A wavefront has ended.
    fn leave(&mut self, group: usize, at: u64) -> Option<Place> {
        self.end = self.end.max(at);
        let of = &mut self.groups[group];
        of.running -= 1;
        if of.running == 0 {
            self.units[of.place.unit].leave(of.lds);
            return Some(of.place);
        }
        self.release(group, at + u64::from(self.timing.vector));
        None
    }

    /// Let the wavefronts go on that wait at a barrier, if all are there.
    fn release(&mut self, group: usize, at: u64) {
        let of = &mut self.groups[group];
        if of.arrived == 0 || of.arrived < of.running {
            return;
        }
        of.arrived = 0;
        of.passed += 1;
        for index in std::mem::take(&mut of.waiting) {
            let priority = self.waves[index as usize]
                .as_ref()
                .map_or(0, |it| it.priority);
            self.turns.push(Reverse((at, u8::MAX - priority, index)));
        }
    }
}

/// When the code at an address is there. Lines that the instruction cache lacks come from the second level, where the
/// launches before have left them, and some that follow come with them.
fn fetch(wave: &mut Wave, cache: &mut Cache, timing: &Timing, pc: u64, at: u64) -> u64 {
    let line = pc / u64::from(timing.instructions[1]);
    if wave.code.0 != line {
        let mut find = |line| {
            cache.find(line).unwrap_or_else(|| {
                let ready = at + u64::from(timing.l2.latency);
                cache.keep(line, ready);
                ready
            })
        };
        wave.code = (line, find(line));
        for ahead in 1..=u64::from(timing.code_ahead) {
            find(line + ahead);
        }
    }
    wave.code.1
}
