//! One XCD plays back what the wavefronts of its workgroups did.
//!
//! Each SIMD has its turn every fourth cycle. In its turn it issues at most one instruction of each class, each of another
//! wavefront, the one of highest priority and then the oldest first; a wavefront issues one in a turn. An instruction
//! waits for its registers, its unit, its code, and, if it is a wait, for what was asked for. (AMD's instruction set
//! manuals; ROCm Compute Profiler, "Pipeline descriptions".)

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use rocm_gpus::Timing;

use super::cache::Cache;
use super::geometry::Geometry;
use super::instruction::{Class, Effect, Instruction};
use super::memory::{Busy, Hierarchy};
use super::record::{Entry, WaveRecord, NOTHING};
use crate::codeobject::LoadedKernel;
use crate::exec::check::{Counter, REGISTERS};
use crate::isa::Target;

/// SIMDs that share a way to the LDS.
const PAIR: usize = 2;

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

#[derive(Clone, Default)]
struct Simd {
    /// When it can issue the next instruction of each class.
    issue: [u64; Class::COUNT],
    vector_free: u64,
    matrix_free: u64,
    vector_busy: u64,
    matrix_busy: u64,
    wavefronts: u32,
}

#[derive(Clone)]
struct Unit {
    simds: Vec<Simd>,
    lds_free: u64,
    lds_busy: u64,
    /// When each pair of SIMDs has got what it asked of the LDS.
    pair_free: Vec<u64>,
}

/// A workgroup on its unit.
struct Group {
    unit: usize,
    running: u32,
    /// Those that have arrived at the barrier.
    waiting: Vec<u32>,
}

/// A wavefront on its SIMD.
struct Wave<'a> {
    record: &'a WaveRecord,
    next: usize,
    group: usize,
    unit: usize,
    simd: usize,
    priority: u8,
    /// When what each counter counts is done, in order.
    counters: [Vec<u64>; 4],
    /// When each register can be read, and when by the addend of a matrix instruction.
    ready: Box<[[u64; 2]; REGISTERS]>,
    /// The line of code that it is in, and when that is there.
    code: (u64, u64),
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
        let memory = Hierarchy::new(target, timing, geometry.xcds_used(), warm);
        let simds = target.unit().simds as usize;
        let units = geometry.units_of_xcd() as usize;
        let [bytes, line] = timing.instructions.map(u64::from);
        let unit = Unit {
            simds: vec![Simd::default(); simds],
            lds_free: 0,
            lds_busy: 0,
            pair_free: vec![0; simds.div_ceil(PAIR)],
        };
        let caches = units.div_ceil(timing.instruction_sharers as usize);
        Xcd {
            target,
            timing,
            kernel,
            instructions: HashMap::new(),
            units: vec![unit; units],
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
        // One to each unit in turn, as the hardware spreads them.
        for _ in 0..held {
            for unit in 0..self.units.len() {
                if let Some(group) = coming.next() {
                    self.begin(unit, group, 0);
                    starts.push(0);
                }
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
            lds: self
                .units
                .iter()
                .map(|unit| unit.lds_busy)
                .max()
                .unwrap_or(0),
            memory: self.memory.busy(),
        }
    }

    fn begin(&mut self, unit: usize, records: &'a [WaveRecord], at: u64) {
        let group = self.groups.len();
        let running = records.iter().filter(|record| !record.entries.is_empty());
        self.groups.push(Group {
            unit,
            running: running.clone().count() as u32,
            waiting: Vec::new(),
        });
        for record in running {
            let simds = self.units[unit].simds.iter_mut().enumerate();
            let Some((simd, least)) = simds.min_by_key(|(_, simd)| simd.wavefronts) else {
                continue;
            };
            least.wavefronts += 1;
            let index = self.waves.len() as u32;
            self.waves.push(Some(Wave {
                record,
                next: 0,
                group,
                unit,
                simd,
                priority: 0,
                counters: Default::default(),
                ready: Box::new([[0; 2]; REGISTERS]),
                code: (u64::MAX, 0),
            }));
            self.turns.push(Reverse((at, u8::MAX, index)));
        }
    }

    /// A wavefront's turn: it issues, or comes back when it can. The unit, if a workgroup ended there.
    fn turn(&mut self, at: u64, index: u32) -> Option<usize> {
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
        let can = wave.can_issue(instruction, &unit.simds[wave.simd], self.target);
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
        issue(
            &mut self.units[wave.unit],
            &mut wave,
            instruction,
            timing,
            at,
        );
        let (class, slots, effect) = (instruction.class, instruction.slots, instruction.effect);
        let done = self.ask(&wave, class, entry, at);
        let instruction = &self.instructions[&entry.offset];
        wave.count(&instruction.counts, done);
        self.end = self.end.max(done);
        wave.next += 1;
        let mut next = at + cycle * slots;
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
        let ends = effect == Effect::End || follows.is_none();
        let (group, priority) = (wave.group, u8::MAX - wave.priority);
        if ends {
            // It stays until its stores are acknowledged.
            let last = wave.last_done();
            if last > at {
                wave.next -= 1;
                wave.counters = Default::default();
                self.turns.push(Reverse((last, priority, index)));
                self.waves[index as usize] = Some(wave);
                return None;
            }
            self.units[wave.unit].simds[wave.simd].wavefronts -= 1;
            return self.leave(group, at);
        }
        self.waves[index as usize] = Some(wave);
        if effect == Effect::Barrier {
            self.groups[group].waiting.push(index);
            self.release(group, next);
        } else {
            self.turns.push(Reverse((next, priority, index)));
        }
        None
    }

    /// When what an instruction asked of LDS or memory is done.
    fn ask(&mut self, wave: &Wave, class: Class, entry: Entry, at: u64) -> u64 {
        let detail = entry.detail as usize;
        match class {
            Class::Lds if entry.detail != NOTHING => {
                let of = wave.record.lds[detail];
                let unit = &mut self.units[wave.unit];
                let pair = &mut unit.pair_free[wave.simd / PAIR];
                let cycles = u64::from(of.cycles);
                let moved = u64::from(of.bytes).div_ceil(self.timing.lds_bytes_of_pair.into());
                let service = cycles.max(moved);
                let start = at.max(unit.lds_free).max(*pair);
                unit.lds_free = start + cycles;
                unit.lds_busy += cycles;
                *pair = start + service;
                start + service + u64::from(self.timing.lds)
            }
            Class::Memory if entry.detail != NOTHING => {
                let of = wave.record.accesses[detail];
                let lines = &wave.record.lines[of.first as usize..][..of.count as usize];
                self.memory.access(wave.unit, at, &of, lines)
            }
            // Scalar data are taken to lie in the second level.
            Class::ScalarMemory => at + u64::from(self.timing.l2.latency),
            _ => at + u64::from(self.timing.vector),
        }
    }

    /// A wavefront has ended.
    fn leave(&mut self, group: usize, at: u64) -> Option<usize> {
        self.end = self.end.max(at);
        let of = &mut self.groups[group];
        of.running -= 1;
        if of.running == 0 {
            return Some(of.unit);
        }
        self.release(group, at + u64::from(self.timing.vector));
        None
    }

    /// Let the wavefronts go on that wait at a barrier, if all are there.
    fn release(&mut self, group: usize, at: u64) {
        let of = &mut self.groups[group];
        if of.waiting.len() < of.running as usize {
            return;
        }
        for index in std::mem::take(&mut of.waiting) {
            let priority = self.waves[index as usize]
                .as_ref()
                .map_or(0, |it| it.priority);
            self.turns.push(Reverse((at, u8::MAX - priority, index)));
        }
    }
}

/// When the code at an address is there. Lines that the instruction cache lacks come from the second level, where the
/// launches before have left them.
fn fetch(wave: &mut Wave, cache: &mut Cache, timing: &Timing, pc: u64, at: u64) -> u64 {
    let line = pc / u64::from(timing.instructions[1]);
    if wave.code.0 != line {
        let ready = cache.find(line).unwrap_or_else(|| {
            let ready = at + u64::from(timing.l2.latency);
            cache.keep(line, ready);
            ready
        });
        wave.code = (line, ready);
    }
    wave.code.1
}

/// The SIMD, and the wavefront's registers, after an instruction is issued.
fn issue(unit: &mut Unit, wave: &mut Wave, of: &Instruction, timing: &Timing, at: u64) {
    let simd = &mut unit.simds[wave.simd];
    let cycle = u64::from(timing.vector);
    if of.class != Class::Internal {
        simd.issue[of.class as usize] = at + cycle;
    }
    let mut ready = [at + cycle; 2];
    match of.matrix {
        Some(matrix) => {
            simd.matrix_free = at + matrix.cycles;
            simd.matrix_busy += matrix.cycles;
            simd.vector_free = at + cycle;
            simd.vector_busy += cycle;
            let result = at + matrix.cycles;
            ready = [result + u64::from(timing.matrix_result), result];
        }
        None if of.class == Class::Vector => {
            simd.vector_free = at + of.occupies;
            simd.vector_busy += of.occupies;
            ready = [at + of.occupies; 2];
        }
        // What is loaded is waited for by counters.
        None if of.class != Class::Scalar => return,
        None => {}
    }
    for register in of.writes.iter().flat_map(|span| span.registers()) {
        wave.ready[register] = ready;
    }
}

impl Wave<'_> {
    /// Something that these counters count is done then, or with what was before: they come back in order.
    fn count(&mut self, counters: &[Counter], done: u64) {
        for counter in counters {
            let counted = &mut self.counters[*counter as usize];
            let last = counted.last().copied().unwrap_or(0);
            counted.push(done.max(last));
        }
    }

    /// When all is done that is counted.
    fn last_done(&self) -> u64 {
        let counters = self.counters.iter().filter_map(|counted| counted.last());
        counters.copied().max().unwrap_or(0)
    }

    /// The first cycle in which its registers, its unit and what it waits for let it issue.
    fn can_issue(&mut self, of: &Instruction, simd: &Simd, target: Target) -> u64 {
        let mut can = match of.class {
            Class::Internal => 0,
            class => simd.issue[class as usize],
        };
        if of.class == Class::Vector {
            can = can.max(simd.vector_free);
        }
        let addend = of.matrix.and_then(|matrix| matrix.addend);
        for span in &of.reads {
            let as_addend = usize::from(addend == Some(*span));
            let registers = span
                .registers()
                .map(|register| self.ready[register][as_addend]);
            can = can.max(registers.max().unwrap_or(0));
        }
        if of.matrix.is_some() {
            can = can.max(simd.matrix_free);
        }
        for counter in Counter::ALL {
            let pending = &self.counters[counter as usize];
            let most = match of.wait[counter as usize] {
                Some(most) => most as usize,
                // One more must fit.
                None if of.counts.contains(&counter) => counter.most(target) - 1,
                None => continue,
            };
            if let Some(last) = pending.len().checked_sub(most + 1) {
                can = can.max(pending[last]);
            }
        }
        can
    }
}
