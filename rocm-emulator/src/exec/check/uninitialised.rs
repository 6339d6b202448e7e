//! `uninitialised`: a value that nothing wrote decides an address, a branch or a stored result.
//!
//! Each wavefront has a twin that executes the same instructions. The two begin alike but for what nothing wrote: there
//! each byte of the twin's registers, LDS and scratch differs, and so does what it loads of memory that was never written.
//! Where an address, the condition of a branch or EXEC differs between the two, an undefined value decides it. So what an
//! instruction does with undefined bits need not be known: masking them off, or choosing the other operand, makes the two
//! alike again. That the twins agree by chance is possible; that they differ without cause is not.
//!
//! Stores of undefined bytes are no finding while they are copies: those bytes of memory then count as not written. A byte
//! is one where the twins differ as they did at the beginning. Any other difference is a result that was computed from
//! what nothing wrote, and a finding. So is an atomic whose operand, or whose memory, nothing wrote.

use super::facts::Facts;
use super::registers::{self, M0};
use crate::exec::memory::{
    Access, BufferOp, Context, Footprint, MemoryOp, Outcome, Places, ScalarMemoryOp,
};
use crate::exec::program::{Op, Step};
use crate::exec::scalar::{set_hwreg, set_mode_bits, Destination};
use crate::exec::wave::{Row, Wave, LANES, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::isa::Traits;

/// How the bytes that nothing wrote differ between a wavefront and its twin: one of these in each, so that some are
/// negative and others positive, whatever the type.
const DIFFERENCES: [u8; 2] = [0x5a, 0xa5];

/// The difference in a dword of memory, the LDS or a register.
fn difference(dword: usize) -> u32 {
    u32::from_ne_bytes([DIFFERENCES[dword % 2]; 4])
}

/// Whether bytes that differ by this were copied, and not computed.
fn is_copy(difference: u8) -> bool {
    DIFFERENCES.contains(&difference)
}

/// Fill the twin's LDS or scratch.
pub(super) fn fill(words: &mut [u64]) {
    words.fill(u64::from(difference(0)) | u64::from(difference(1)) << 32);
}

/// What one lane's store wrote for the twin.
struct Store {
    first: u64,
    lane: u32,
    bytes: Vec<u8>,
}

/// A finding, and the lane.
pub(super) type Found = (String, Option<u32>);

/// A wavefront's twin.
pub(super) struct Twin {
    wave: Wave,
    scratch: Vec<u64>,
    stores: Vec<Store>,
    /// What an atomic changes of the LDS (`true`) or the scratch through flat addresses: offsets.
    local: Vec<(bool, u64)>,
    /// The instruction's result is the wavefront's own: of a clock, or of memory that both share.
    follows: bool,
    /// The same of SCC, which the barrier sets later.
    follows_scc: bool,
    /// The instruction is a load that goes past the caches: others may write between the wavefront's and the twin's.
    pub passes_caches: bool,
}

impl Twin {
    /// Of a wavefront with so many bytes of scratch in all.
    pub fn new(wave: &Wave, scratch: usize) -> Twin {
        let (vgprs, agprs) = (wave.vgpr.len(), wave.agpr.len());
        let mut twin = Wave::new(wave.target, wave.lanes, vgprs, agprs, wave.mode);
        twin.accum_offset = wave.accum_offset;
        Twin {
            wave: twin,
            scratch: vec![0; scratch.div_ceil(8)],
            stores: Vec::new(),
            local: Vec::new(),
            follows: false,
            passes_caches: false,
            follows_scc: false,
        }
    }

    /// Begin anew; `launch` sets what the hardware does.
    pub fn start(&mut self, launch: impl FnOnce(&mut Wave)) {
        let row = |at: usize| Row(std::array::from_fn(|lane| difference(at + lane)));
        let wave = &mut self.wave;
        for file in [&mut wave.vgpr, &mut wave.agpr] {
            file.iter_mut()
                .enumerate()
                .for_each(|(at, it)| *it = row(at));
        }
        wave.sgpr = std::array::from_fn(difference);
        wave.vgpr_indexing = false;
        fill(&mut self.scratch);
        launch(wave);
        wave.vcc ^= u64::from(difference(0)) | u64::from(difference(1)) << 32;
        wave.m0 ^= difference(0);
        wave.scc = !wave.scc;
        self.stores.clear();
        self.follows = false;
        self.follows_scc = false;
    }

    /// Compare what an instruction is about to use, and let the twin execute it.
    pub fn before(
        &mut self,
        step: &Step,
        facts: &Facts,
        wave: &Wave,
        cx: &mut Context,
        lds: &mut [u64],
    ) -> Option<Found> {
        self.stores.clear();
        self.local.clear();
        self.follows = false;
        if std::mem::take(&mut self.follows_scc) {
            self.wave.scc = wave.scc;
        }
        let after = step.pc + u64::from(step.size);
        match &step.op {
            Op::Vector(op) | Op::Matrix(op) => op.run(&mut self.wave),
            Op::Scalar(op) => op.run(&mut self.wave),
            Op::Branch(condition, _) if condition.holds(wave) != condition.holds(&self.wave) => {
                let text = "the branch is decided by a value that nothing wrote";
                return Some((text.into(), None));
            }
            Op::SetPc(to) | Op::SwapPc(_, to) if to.read64(wave) != to.read64(&self.wave) => {
                return Some(("the address jumped to was written by nothing".into(), None));
            }
            Op::Call(dst, _) | Op::GetPc(dst) | Op::SwapPc(dst, _) => {
                dst.write64(&mut self.wave, after);
            }
            Op::SetReg(id, value) => {
                let value = value.read32(&self.wave);
                set_hwreg(&mut self.wave, *id, value);
            }
            Op::ModeBits(offset, value) => set_mode_bits(&mut self.wave, *offset, *value),
            Op::GetReg(..) | Op::RealTime(_) => self.follows = true,
            Op::BarrierSignalIsFirst => self.follows_scc = true,
            Op::Memory(op) => return self.memory(op, facts, wave, cx, lds),
            Op::Buffer(op) => return self.buffer(op, facts, wave, cx, lds),
            Op::ScalarMemory(op) => return self.scalar_memory(op, facts, wave, cx),
            Op::Lds(op) => {
                let same = |register: u16| self.same_rows(wave, usize::from(register), 1);
                let address = op.address().and_then(|register| same(register).err());
                if let Some(lane) = address {
                    return Some(self.address(facts, wave, Some(lane)));
                }
                if facts.reads_m0 && wave.m0 != self.wave.m0 {
                    return Some(self.address(facts, wave, None));
                }
                self.execute(cx, lds, |twin, cx| op.run(twin, cx));
            }
            _ => {}
        }
        None
    }

    /// Compare what an instruction did.
    pub fn after(
        &mut self,
        step: &Step,
        facts: &Facts,
        wave: &Wave,
        cx: &Context,
        lds: &mut [u64],
    ) -> Option<Found> {
        if self.follows {
            self.follow(step, facts, wave);
        }
        self.copy_local(cx, lds);
        if wave.exec() != self.wave.exec() {
            let lane = (wave.exec() ^ self.wave.exec()).trailing_zeros();
            return Some((
                "EXEC is decided by a value that nothing wrote".into(),
                Some(lane),
            ));
        }
        let stores = std::mem::take(&mut self.stores);
        for store in &stores {
            for (at, other) in (store.first..).zip(&store.bytes) {
                // SAFETY: `before` asked whether the range is inside an allocation, which the launch keeps alive.
                let byte = unsafe { (at as *const u8).read() };
                let differs = byte ^ other;
                if differs != 0 && !is_copy(differs) {
                    let text = format!(
                        "what is stored at {at:#x} was computed from a value that nothing wrote"
                    );
                    return Some((text, Some(store.lane)));
                }
                cx.snapshot.mark(at, 1, differs == 0);
            }
        }
        None
    }

    /// The twin's results are the wavefront's.
    fn follow(&mut self, step: &Step, facts: &Facts, wave: &Wave) {
        let copy = |twin: &mut Wave, to: &Destination| {
            let value = to.source().read64(wave);
            to.write64(twin, value);
        };
        match &step.op {
            Op::GetReg(dst, _) => {
                let value = dst.source().read32(wave);
                dst.write32(&mut self.wave, value);
            }
            Op::RealTime(dst) => copy(&mut self.wave, dst),
            _ => {
                for register in facts.writes.iter().flat_map(|span| span.registers()) {
                    match register {
                        0..106 => self.wave.sgpr[register] = wave.sgpr[register],
                        106 | 107 => self.wave.vcc = wave.vcc,
                        256.. => {
                            *registers::row_mut(&mut self.wave, register) =
                                *registers::row(wave, register);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    fn memory(
        &mut self,
        op: &MemoryOp,
        facts: &Facts,
        wave: &Wave,
        cx: &mut Context,
        lds: &mut [u64],
    ) -> Option<Found> {
        let (mine, other) = (op.addresses(wave), op.addresses(&self.wave));
        let exec = wave.exec();
        let differs = |lane: &usize| exec >> lane & 1 != 0 && mine[*lane] != other[*lane];
        if let Some(lane) = (0..LANES).find(differs) {
            return Some(self.address(facts, wave, Some(lane as u32)));
        }
        if facts.reads_m0 && wave.m0 != self.wave.m0 {
            return Some(self.address(facts, wave, None));
        }
        let mut access = Accesses::default();
        op.footprint(wave, |footprint| access.add(footprint));
        if op.access() == Access::Atomic {
            self.note_local(&mine, exec, cx);
        }
        self.exchange(access, op.access(), facts, wave, cx, lds, |twin, cx| {
            op.run(twin, cx)
        })
    }

    /// An atomic's places in the LDS and in scratch.
    fn note_local(&mut self, places: &Places, exec: u64, cx: &Context) {
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let offset = places[lane] & 0xffff_ffff;
            match places[lane] >> 32 << 32 {
                SHARED_APERTURE => self.local.push((true, offset)),
                PRIVATE_APERTURE => {
                    let stride = u64::from(cx.scratch_stride);
                    self.local.push((false, lane as u64 * stride + offset));
                }
                _ => {}
            }
        }
    }

    /// What an atomic made of them is the twin's too.
    fn copy_local(&mut self, cx: &Context, lds: &mut [u64]) {
        for (shared, offset) in std::mem::take(&mut self.local) {
            // Atomics are aligned: the eight bytes hold all of one.
            let word = offset as usize / 8;
            let (words, own) = match shared {
                true => (&mut *lds, cx.lds),
                false => (&mut self.scratch[..], cx.scratch),
            };
            if let Some(to) = words.get_mut(word) {
                // SAFETY: the wavefront's LDS and scratch have as many words as the twin's.
                *to = unsafe { own.cast::<u64>().add(word).read() };
            }
        }
    }

    fn buffer(
        &mut self,
        op: &BufferOp,
        facts: &Facts,
        wave: &Wave,
        cx: &mut Context,
        lds: &mut [u64],
    ) -> Option<Found> {
        let exec = wave.exec();
        let (mine, inside) = op.addresses(wave);
        let (other, inside_other) = op.addresses(&self.wave);
        let differs = |lane: &usize| exec >> lane & 1 != 0 && mine[*lane] != other[*lane];
        if let Some(lane) = (0..LANES).find(differs) {
            return Some(self.address(facts, wave, Some(lane as u32)));
        }
        if inside != inside_other {
            return Some(self.address(facts, wave, None));
        }
        let mut access = Accesses::default();
        op.footprints(wave, |footprint| access.add(footprint));
        self.exchange(access, op.access(), facts, wave, cx, lds, |twin, cx| {
            op.run(twin, cx)
        })
    }

    fn scalar_memory(
        &mut self,
        op: &ScalarMemoryOp,
        facts: &Facts,
        wave: &Wave,
        cx: &mut Context,
    ) -> Option<Found> {
        let Some((first, bytes, access)) = op.footprint(wave) else {
            self.follows = true;
            return None;
        };
        if op.footprint(&self.wave) != Some((first, bytes, access)) {
            return Some(self.address(facts, wave, None));
        }
        if access != Access::Load {
            self.follows = true;
            cx.snapshot.mark(first, bytes.into(), true);
            return None;
        }
        let accesses = Accesses(vec![(first, first + u64::from(bytes), 0)]);
        self.load(&accesses, cx, &mut [], |twin, cx| op.run(twin, cx));
        None
    }

    /// Let the twin do a checked access.
    #[allow(clippy::too_many_arguments)]
    fn exchange(
        &mut self,
        accesses: Accesses,
        access: Access,
        facts: &Facts,
        wave: &Wave,
        cx: &mut Context,
        lds: &mut [u64],
        run: impl Fn(&mut Wave, &mut Context) -> Outcome,
    ) -> Option<Found> {
        if !accesses.are_inside(cx) {
            // The wavefront's own access will say so.
            return None;
        }
        match access {
            Access::Load => self.load(&accesses, cx, lds, run),
            Access::Store => self.store(&accesses, cx, lds, run),
            Access::Atomic => return self.atomic(&accesses, facts, wave, cx),
        }
        None
    }

    /// The twin's load: meanwhile, what nothing wrote is other than the wavefront will find it.
    fn load(
        &mut self,
        accesses: &Accesses,
        cx: &mut Context,
        lds: &mut [u64],
        run: impl Fn(&mut Wave, &mut Context) -> Outcome,
    ) {
        let mut unknown = Vec::new();
        for (first, end, _) in &accesses.0 {
            cx.snapshot
                .unknown(*first, end - first, |at| unknown.push(at));
        }
        // The twin has a scratch and an LDS of its own, which are no accesses of memory.
        let is_of_memory = !accesses.0.is_empty();
        if is_of_memory && unknown.is_empty() && self.passes_caches {
            self.follows = true;
            return;
        }
        unknown.sort_unstable();
        unknown.dedup();
        let turn = || {
            for at in &unknown {
                let differs = difference((at / 4) as usize) as u8;
                // SAFETY: the byte is inside an allocation, which the launch keeps alive. Whoever else reads it now reads
                // what nothing wrote.
                unsafe { *(*at as *mut u8) ^= differs };
            }
        };
        turn();
        self.execute(cx, lds, run);
        turn();
    }

    /// The twin's store: what it wrote is kept, and taken back.
    fn store(
        &mut self,
        accesses: &Accesses,
        cx: &mut Context,
        lds: &mut [u64],
        run: impl Fn(&mut Wave, &mut Context) -> Outcome,
    ) {
        let read = |(first, end, _): &(u64, u64, u32)| {
            let mut bytes = vec![0; (end - first) as usize];
            // SAFETY: the range is inside an allocation, which the launch keeps alive.
            unsafe {
                std::ptr::copy_nonoverlapping(*first as *const u8, bytes.as_mut_ptr(), bytes.len());
            }
            bytes
        };
        let before: Vec<Vec<u8>> = accesses.0.iter().map(read).collect();
        self.execute(cx, lds, run);
        for range in &accesses.0 {
            self.stores.push(Store {
                first: range.0,
                lane: range.2,
                bytes: read(range),
            });
        }
        for (range, bytes) in accesses.0.iter().zip(&before) {
            // SAFETY: as above; ranges that overlap hold the same old bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), range.0 as *mut u8, bytes.len())
            };
        }
    }

    fn atomic(
        &mut self,
        accesses: &Accesses,
        facts: &Facts,
        wave: &Wave,
        cx: &Context,
    ) -> Option<Found> {
        for span in facts.reads.iter().filter(|span| span.is_vector()) {
            for register in span.registers() {
                let a = registers::row(wave, register);
                let b = registers::row(&self.wave, register);
                let differs =
                    |lane: &usize| wave.exec() >> lane & 1 != 0 && a.0[*lane] != b.0[*lane];
                if let Some(lane) = (0..LANES).find(differs) {
                    let text = format!(
                        "the atomic's operand {} was written by nothing",
                        registers::name(register, wave)
                    );
                    return Some((text, Some(lane as u32)));
                }
            }
        }
        let replaces = facts.op.columns.has(Traits::REPLACES);
        for (first, end, lane) in &accesses.0 {
            let mut unknown = None;
            cx.snapshot
                .unknown(*first, end - first, |at| unknown = unknown.or(Some(at)));
            if let (Some(at), false) = (unknown, replaces) {
                let text = format!("the atomic changes {at:#x}, which nothing wrote");
                return Some((text, Some(*lane)));
            }
            cx.snapshot.mark(*first, end - first, true);
        }
        self.follows = true;
        None
    }

    /// Run something on the twin, with its own LDS and scratch.
    fn execute(
        &mut self,
        cx: &mut Context,
        lds: &mut [u64],
        run: impl FnOnce(&mut Wave, &mut Context) -> Outcome,
    ) {
        let (own_lds, own_scratch, counters) = (cx.lds, cx.scratch, cx.counters);
        if !lds.is_empty() {
            cx.lds = lds.as_mut_ptr().cast();
        }
        cx.scratch = self.scratch.as_mut_ptr().cast();
        // A fault is the wavefront's too, and told there.
        let _ = run(&mut self.wave, cx);
        (cx.lds, cx.scratch, cx.counters) = (own_lds, own_scratch, counters);
    }

    /// Whether registers are alike in all active lanes; the first lane where they are not.
    fn same_rows(&self, wave: &Wave, first: usize, count: usize) -> Result<(), u32> {
        let rows = wave.vgpr[first..]
            .iter()
            .zip(&self.wave.vgpr[first..])
            .take(count);
        for (mine, other) in rows {
            let differs =
                |lane: &usize| wave.exec() >> lane & 1 != 0 && mine.0[*lane] != other.0[*lane];
            if let Some(lane) = (0..LANES).find(differs) {
                return Err(lane as u32);
            }
        }
        Ok(())
    }

    /// The finding that an address is undefined, with the register that makes it so.
    fn address(&self, facts: &Facts, wave: &Wave, lane: Option<u32>) -> Found {
        let at = lane.unwrap_or(0) as usize;
        let differs = |register: &usize| match *register {
            0..106 => wave.sgpr[*register] != self.wave.sgpr[*register],
            256.. => {
                registers::row(wave, *register).0[at] != registers::row(&self.wave, *register).0[at]
            }
            _ => false,
        };
        let mut registers = facts.reads.iter().flat_map(|span| span.registers());
        let register = registers.find(differs).unwrap_or(M0.into());
        let text = format!(
            "the address is made of {}, which holds a value that nothing wrote",
            registers::name(register, wave)
        );
        (text, lane)
    }
}

/// Ranges of addresses with the first of the lanes that access them.
#[derive(Default)]
struct Accesses(Vec<(u64, u64, u32)>);

impl Accesses {
    fn add(&mut self, footprint: Footprint) {
        footprint.ranges(|first, end, lane| {
            self.0.push((first, end, lane));
            true
        });
    }

    fn are_inside(&self, cx: &Context) -> bool {
        self.0
            .iter()
            .all(|(first, end, _)| cx.holds(*first, end - first))
    }
}
