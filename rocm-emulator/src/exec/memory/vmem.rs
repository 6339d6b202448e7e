//! FLAT, GLOBAL and SCRATCH instructions: addresses, their check, and what is moved or updated.
//!
//! Global loads and stores need no alignment: the drivers run compute with unaligned access enabled. Atomics do.

use super::access::{lds_overrun, scratch_overrun, Access, Outcome};
use super::action::Action;
use super::context::Context;
use super::footprint::Footprint;
use super::lowering::Lowering;
use super::places::{
    check_alignment, follow32, follow64, scratch_places, spread32, spread64, Places,
};
use crate::exec::counters::Class;
use crate::exec::scalar::Source;
use crate::exec::wave::{Row, Wave, LANES, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::isa::{Element, Encoding, Inst, Operand, Role, Traits};

/// How the address is made.
#[derive(Clone, Copy)]
enum Address {
    /// A 64-bit address in two registers.
    Wide(u16),
    /// A scalar base and a 32-bit offset per lane.
    Based(Source, u16),
    /// Any address space, in two registers.
    Flat(u16),
    /// A scalar base and four bytes for each lane.
    ByLane(Source),
    /// Scratch: the lane's offset and the wave's, either possibly absent.
    Scratch(Option<u16>, Option<Source>),
}

/// A FLAT, GLOBAL or SCRATCH instruction.
pub(crate) struct MemoryOp {
    address: Address,
    offset: i64,
    site: u32,
    action: Action,
    /// GFX12's blocks: what M0's bits choose among, each for a register.
    parts: Vec<MemoryOp>,
}

/// Registers of a block.
const BLOCK: u16 = 32;

impl MemoryOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<MemoryOp> {
        match inst.op.columns.role {
            role @ (Role::LoadBlock | Role::StoreBlock) => {
                MemoryOp::lower_block(role, inst, lowering)
            }
            _ => MemoryOp::new(Action::lower(inst, inst.src[1], lowering)?, inst, lowering),
        }
    }

    /// An action at the addresses that an instruction gives.
    fn new(action: Action, inst: &Inst, lowering: &Lowering) -> Option<MemoryOp> {
        let by_lane = inst.op.columns.has(Traits::BY_LANE);
        let vector = |dwords| match inst.src[0] {
            Operand::Vgpr { .. } => lowering
                .registers(inst.src[0], dwords)
                .map(|registers| registers.first),
            _ => None,
        };
        let saddr = match inst.src[2] {
            Operand::None => None,
            operand => Some(Source::lower(operand)?),
        };
        let address = match (inst.encoding, saddr) {
            (Encoding::SCRATCH, saddr) => Address::Scratch(vector(1), saddr),
            (Encoding::GLOBAL, base) if by_lane => Address::ByLane(base.unwrap_or(Source::ZERO)),
            (Encoding::GLOBAL, Some(base)) => Address::Based(base, vector(1)?),
            (Encoding::GLOBAL, None) => Address::Wide(vector(2)?),
            (Encoding::FLAT, None) => Address::Flat(vector(2)?),
            _ => return None,
        };
        Some(MemoryOp {
            address,
            offset: inst.mem.offset.into(),
            site: lowering.site(),
            action,
            parts: Vec::new(),
        })
    }

    /// `load_block` and `store_block`: up to 32 registers, dword after dword in memory. M0 says which are moved.
    fn lower_block(role: Role, inst: &Inst, lowering: &Lowering) -> Option<MemoryOp> {
        let register = |operand: Operand, at: u16| match operand {
            Operand::Vgpr { first, .. } => Operand::Vgpr {
                first: first + at,
                dwords: 1,
            },
            other => other,
        };
        let each = match role {
            Role::LoadBlock => Role::Load,
            _ => Role::Store,
        };
        let mut part = inst.clone();
        let mut parts = Vec::new();
        for at in 0..BLOCK {
            part.dst[0] = register(inst.dst[0], at);
            part.src[1] = register(inst.src[1], at);
            part.mem.offset = inst.mem.offset + 4 * i32::from(at);
            // Registers that the kernel does not have are not moved.
            let action = Action::transfer(each, Element::B32, &part, part.src[1], lowering);
            match action.and_then(|action| MemoryOp::new(action, &part, lowering)) {
                Some(op) => parts.push(op),
                None => break,
            }
        }
        if let (Operand::Vgpr { first, .. }, Operand::Vgpr { first: address, .. }) =
            (inst.dst[0], inst.src[0])
        {
            // The address must last until the end.
            if (first..first + BLOCK).contains(&address) {
                return None;
            }
        }
        let first = parts.first()?;
        Some(MemoryOp {
            address: first.address,
            action: first.action,
            offset: first.offset,
            site: first.site,
            parts,
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
        if !self.parts.is_empty() {
            let chosen = wave.m0;
            let parts = self.parts.iter().enumerate();
            return parts
                .filter(|(at, _)| chosen >> at & 1 != 0)
                .try_for_each(|(_, part)| part.run(wave, cx));
        }
        let exec = wave.exec();
        if exec == 0 {
            return Ok(());
        }
        cx.count(Class::Memory);
        cx.counters.lane_operations += u64::from(exec.count_ones());
        self.action.count(cx, exec.count_ones());
        let bytes = self.action.bytes();
        match self.address {
            Address::Wide(first) | Address::Flat(first) => {
                let first = usize::from(first);
                let [low, high] = &wave.vgpr[first..first + 2] else {
                    return Ok(());
                };
                let start = low.0[0] as u64 | (high.0[0] as u64) << 32;
                let start = start.wrapping_add_signed(self.offset);
                // The apertures lie above every address that `reaches` accepts.
                if wave.exec_full() && follow64(low, high, bytes, wave.lanes) {
                    if let Some(done) = self.run_sequence(start, wave, cx) {
                        return done;
                    }
                }
                let [low, high] = &wave.vgpr[first..first + 2] else {
                    return Ok(());
                };
                let mut places = [0; LANES];
                let range = spread64(&mut places, low, high, self.offset, exec, wave.exec_row());
                self.finish(places, range, wave, cx)
            }
            Address::Based(base, offsets) => {
                let base = base.read64(wave).wrapping_add_signed(self.offset);
                let offsets = &wave.vgpr[usize::from(offsets)];
                if wave.exec_full() && follow32(offsets, bytes, wave.lanes) {
                    let start = base.wrapping_add(offsets.0[0].into());
                    if let Some(done) = self.run_sequence(start, wave, cx) {
                        return done;
                    }
                }
                let offsets = &wave.vgpr[usize::from(match self.address {
                    Address::Based(_, offsets) => offsets,
                    _ => 0,
                })];
                let mut places = [0; LANES];
                let range = spread32(&mut places, base, offsets, exec, wave.exec_row());
                self.finish(places, range, wave, cx)
            }
            Address::ByLane(base) => {
                let base = base.read64(wave).wrapping_add_signed(self.offset);
                let places = std::array::from_fn(|lane| base.wrapping_add(4 * lane as u64));
                let last = base.wrapping_add(4 * u64::from(wave.lanes - 1));
                self.finish(places, (base, last.max(base)), wave, cx)
            }
            Address::Scratch(vector, scalar) => {
                let base = scalar.map_or(0, |scalar| scalar.read32(wave));
                let base = i64::from(base) + self.offset;
                let zero = Row::ZERO;
                let offsets = vector.map_or(&zero, |first| &wave.vgpr[usize::from(first)]);
                let places = scratch_places(base, offsets, exec, bytes, self.action.access(), cx)?;
                self.check_alignment(&places, exec)?;
                // SAFETY: `scratch_places` checked every active lane.
                unsafe { self.action.run(wave, cx, &places) }
            }
        }
    }

    /// What it does at its addresses.
    pub fn access(&self) -> Access {
        self.action.access()
    }

    /// The addresses that the lanes give, of whatever address space; inactive lanes hold anything.
    pub fn addresses(&self, wave: &Wave) -> Places {
        let mut places = [0; LANES];
        let (exec, active) = (wave.exec(), wave.exec_row());
        if exec == 0 {
            return places;
        }
        match self.address {
            Address::Wide(first) | Address::Flat(first) => {
                let rows = &wave.vgpr[usize::from(first)..];
                spread64(&mut places, &rows[0], &rows[1], self.offset, exec, active);
            }
            Address::Based(base, offsets) => {
                let base = base.read64(wave).wrapping_add_signed(self.offset);
                let offsets = &wave.vgpr[usize::from(offsets)];
                spread32(&mut places, base, offsets, exec, active);
            }
            Address::ByLane(base) => {
                let base = base.read64(wave).wrapping_add_signed(self.offset);
                places = std::array::from_fn(|lane| base.wrapping_add(4 * lane as u64));
            }
            Address::Scratch(vector, scalar) => {
                let base = scalar.map_or(0, |scalar| scalar.read32(wave));
                let base = (i64::from(base) + self.offset) as u64;
                let offsets = vector.map_or(&Row::ZERO, |first| &wave.vgpr[usize::from(first)]);
                places = offsets.0.map(|offset| base.wrapping_add(offset.into()));
            }
        }
        places
    }

    /// The accesses to global memory that [`MemoryOp::run`] would make now; lanes that go to LDS or scratch are left out.
    pub fn footprint(&self, wave: &Wave, mut each: impl FnMut(Footprint)) {
        if self.parts.is_empty() {
            return self.footprint_of_one(wave, each);
        }
        let chosen = wave.m0;
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(at, _)| chosen >> at & 1 != 0)
            .for_each(|(_, part)| part.footprint_of_one(wave, &mut each));
    }

    /// The access to LDS that [`MemoryOp::run`] would make now through flat addresses, if any.
    pub fn lds_footprint(&self, wave: &Wave, each: impl FnOnce(Footprint)) {
        let Address::Flat(_) = self.address else {
            return;
        };
        let places = self.addresses(wave);
        let shared = |lane: &usize| {
            wave.exec() >> lane & 1 != 0 && places[*lane] >> 32 == SHARED_APERTURE >> 32
        };
        let lanes = (0..LANES)
            .filter(shared)
            .fold(0, |lanes, lane| lanes | 1 << lane);
        if lanes != 0 {
            each(Footprint {
                access: self.action.access(),
                bytes: self.action.bytes(),
                places: &places.map(|place| place & 0xffff_ffff),
                lanes,
            });
        }
    }

    fn footprint_of_one(&self, wave: &Wave, mut each: impl FnMut(Footprint)) {
        if let Address::Scratch(..) = self.address {
            return;
        }
        let (places, exec) = (self.addresses(wave), wave.exec());
        // The apertures lie above all memory.
        let global = |lane: &usize| exec >> lane & 1 != 0 && places[*lane] < SHARED_APERTURE;
        let lanes = (0..LANES)
            .filter(global)
            .fold(0, |lanes, lane| lanes | 1 << lane);
        each(Footprint {
            access: self.action.access(),
            bytes: self.action.bytes(),
            places: &places,
            lanes,
        });
    }

    /// The path for elements that follow each other; `None` where the general path must decide.
    #[inline(always)]
    fn run_sequence(&self, start: u64, wave: &mut Wave, cx: &mut Context) -> Option<Outcome> {
        let (Action::Load(transfer, rows) | Action::Store(transfer, rows)) = &self.action else {
            return None;
        };
        let lanes = wave.lanes;
        if !cx.reaches(self.site, start, u64::from(transfer.bytes * lanes)) {
            return None;
        }
        // SAFETY: the range was just checked; the registers are as many as the transfer's rows.
        unsafe { (transfer.sequence)(rows.rows(wave), start, lanes) };
        Some(Ok(()))
    }

    /// Check the addresses, which lie between `first` and `last`, and act.
    fn finish(
        &self,
        mut places: Places,
        (first, last): (u64, u64),
        wave: &mut Wave,
        cx: &mut Context,
    ) -> Outcome {
        let (exec, bytes, access) = (wave.exec(), self.action.bytes(), self.action.access());
        let span = (last - first).saturating_add(bytes.into());
        if !cx.reaches(self.site, first, span) {
            self.check_each(&mut places, exec, cx)?;
        }
        if access == Access::Atomic {
            self.check_alignment(&places, exec)?;
        }
        // SAFETY: every active lane's place was checked, one by one or as a range.
        unsafe { self.action.run(wave, cx, &places) }
    }

    /// Check lane by lane, resolving flat apertures to host addresses.
    #[cold]
    #[inline(never)]
    fn check_each(&self, places: &mut Places, exec: u64, cx: &mut Context) -> Outcome {
        const SHARED: u64 = SHARED_APERTURE >> 32;
        const PRIVATE: u64 = PRIVATE_APERTURE >> 32;
        let (bytes, access) = (self.action.bytes(), self.action.access());
        let flat = matches!(self.address, Address::Flat(_));
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let address = places[lane];
            let offset = address & 0xffff_ffff;
            match address >> 32 {
                SHARED if flat => {
                    if offset + u64::from(bytes) > cx.lds_size.into() {
                        return Err(lds_overrun(access, offset, bytes, cx.lds_size, lane));
                    }
                    places[lane] = cx.lds as u64 + offset;
                }
                PRIVATE if flat => {
                    if offset + u64::from(bytes) > cx.scratch_size.into() {
                        let size = cx.scratch_size;
                        return Err(scratch_overrun(access, offset, bytes, size, lane));
                    }
                    let lane_base = lane as u64 * u64::from(cx.scratch_stride);
                    places[lane] = cx.scratch as u64 + lane_base + offset;
                }
                _ => cx.check(self.site, access, address, bytes, Some(lane as u32))?,
            }
        }
        Ok(())
    }

    fn check_alignment(&self, places: &Places, exec: u64) -> Outcome {
        if let Action::Atomic(_) = self.action {
            check_alignment(places, exec, self.action.bytes())?;
        }
        Ok(())
    }
}
