//! FLAT, GLOBAL and SCRATCH instructions: addresses, their check, and what is moved or updated.
//!
//! Global loads and stores need no alignment: the drivers run compute with unaligned access enabled. Atomics do.

use super::atomics::{self, AtomicOp};
use super::context::{misaligned, Access, Context, Outcome, Violation};
use super::transfer::{self, each_lane, Places, Transfer};
use crate::exec::program::{Lowering, Registers};
use crate::exec::scalar::Source;
use crate::exec::simd::multiversion;
use crate::exec::watch::Footprint;
use crate::exec::{Class, Row, Wave, LANES, PRIVATE_APERTURE, SHARED_APERTURE};
use crate::fault::FaultKind;
use crate::isa::{Encoding, Inst, Operand};

/// What happens at the addresses.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Load(Transfer, Registers),
    Store(Transfer, Registers),
    Atomic(Atomic),
    /// Load into LDS, at M0 plus the offset plus the lane's place.
    LoadToLds {
        bytes: u32,
        offset: u32,
    },
}

/// An atomic with its registers.
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub op: &'static AtomicOp,
    pub data: Registers,
    /// Where the value before goes.
    pub returns: Option<Registers>,
}

impl Action {
    /// Bytes that each lane accesses.
    pub fn bytes(&self) -> u32 {
        match self {
            Action::Load(transfer, _) | Action::Store(transfer, _) => transfer.bytes,
            Action::Atomic(atomic) => atomic.op.update.bytes(),
            Action::LoadToLds { bytes, .. } => *bytes,
        }
    }

    pub fn access(&self) -> Access {
        match self {
            Action::Load(..) | Action::LoadToLds { .. } => Access::Load,
            Action::Store(..) => Access::Store,
            Action::Atomic(_) => Access::Atomic,
        }
    }

    /// The action that a name asks for, given the name without its `global_` or other prefix.
    pub fn lower(name: &str, inst: &Inst, data: Operand, lowering: &Lowering) -> Option<Action> {
        if let Some(suffix) = name.strip_prefix("load_") {
            let into_lds = suffix.strip_prefix("lds_");
            let transfer = transfer::load_named(into_lds.unwrap_or(suffix))?;
            if into_lds.is_some() || inst.mem.lds {
                return Some(Action::LoadToLds {
                    bytes: transfer.bytes,
                    offset: inst.mem.offset as u32,
                });
            }
            let to = lowering.registers(inst.dst[0], transfer.rows)?;
            return Some(Action::Load(transfer, to));
        }
        if let Some(suffix) = name.strip_prefix("store_") {
            let transfer = transfer::store_named(suffix)?;
            let from = lowering.registers(data, transfer.rows)?;
            return Some(Action::Store(transfer, from));
        }
        let op = atomics::named(name.strip_prefix("atomic_")?)?;
        let dwords = (op.update.bytes() / 4) as u8;
        let operands = if op.compares { 2 * dwords } else { dwords };
        let data = lowering.registers(data, operands)?;
        let returns = if inst.mem.returns {
            Some(lowering.registers(inst.dst[0], dwords)?)
        } else {
            None
        };
        Some(Action::Atomic(Atomic { op, data, returns }))
    }

    /// Run at checked places.
    ///
    /// # Safety
    /// The places of active lanes are valid for [`Action::bytes`] bytes, and aligned for atomics.
    pub unsafe fn run(&self, wave: &mut Wave, cx: &mut Context, places: &Places) -> Outcome {
        let (exec, lanes) = (wave.exec(), wave.lanes);
        match self {
            Action::Load(transfer, rows) | Action::Store(transfer, rows) => {
                // SAFETY: the caller's promise; lowering made the registers as many as the transfer's rows.
                unsafe { (transfer.scattered)(rows.rows(wave), places, exec, lanes) };
            }
            Action::Atomic(atomic) => {
                let dwords = usize::from(atomic.op.update.bytes() == 8) + 1;
                each_lane(exec, lanes, |lane| {
                    let rows = atomic.data.rows(wave);
                    let operand = |at: usize| match dwords {
                        1 => rows[at].0[lane].into(),
                        _ => {
                            let high = u64::from(rows[2 * at + 1].0[lane]);
                            u64::from(rows[2 * at].0[lane]) | high << 32
                        }
                    };
                    let compare = if atomic.op.compares { operand(1) } else { 0 };
                    // SAFETY: the caller's promise.
                    let old = unsafe {
                        let at = places[lane] as *mut u8;
                        atomic.op.update.apply_shared(at, operand(0), compare)
                    };
                    if let Some(returns) = &atomic.returns {
                        for (row, dwords) in returns.rows(wave).iter_mut().enumerate() {
                            dwords.0[lane] = (old >> (32 * row)) as u32;
                        }
                    }
                });
            }
            Action::LoadToLds { bytes, offset } => {
                let base = (wave.m0 & 0xffff).wrapping_add(*offset);
                let mut failed = None;
                each_lane(exec, lanes, |lane| {
                    // Sub-dword loads still take a dword of LDS each.
                    let at = base.wrapping_add(lane as u32 * (*bytes).max(4));
                    let room = (*bytes).max(4);
                    if u64::from(at) + u64::from(room) > u64::from(cx.lds_size) {
                        failed.get_or_insert((lane, at));
                        return;
                    }
                    let mut element = [0u8; 16];
                    // SAFETY: the place is valid for `bytes` (at most 16), and the LDS range was checked.
                    unsafe {
                        let from = places[lane] as *const u8;
                        std::ptr::copy_nonoverlapping(from, element.as_mut_ptr(), *bytes as usize);
                        let to = cx.lds.add(at as usize);
                        std::ptr::copy_nonoverlapping(element.as_ptr(), to, room as usize);
                    }
                });
                if let Some((lane, at)) = failed {
                    return Err(lds_overrun(
                        Access::Store,
                        at.into(),
                        *bytes,
                        cx.lds_size,
                        lane,
                    ));
                }
            }
        }
        Ok(())
    }

    /// Count the active lanes' bytes.
    pub fn count(&self, cx: &mut Context, active: u32) {
        let bytes = u64::from(self.bytes()) * u64::from(active);
        match self.access() {
            Access::Load => cx.counters.bytes_loaded += bytes,
            Access::Store | Access::Atomic => cx.counters.bytes_stored += bytes,
        }
    }
}

#[cold]
pub(crate) fn lds_overrun(
    access: Access,
    offset: u64,
    bytes: u32,
    size: u32,
    lane: usize,
) -> Box<Violation> {
    let kind = FaultKind::LdsOverrun {
        access: access.name(),
        offset,
        bytes,
        size,
    };
    Box::new(Violation {
        kind,
        lane: Some(lane as u32),
    })
}

#[cold]
pub(crate) fn scratch_overrun(
    access: Access,
    offset: u64,
    bytes: u32,
    size: u32,
    lane: usize,
) -> Box<Violation> {
    let kind = FaultKind::ScratchOverrun {
        access: access.name(),
        offset,
        bytes,
        size,
    };
    Box::new(Violation {
        kind,
        lane: Some(lane as u32),
    })
}

/// How the address is made.
#[derive(Clone, Copy)]
enum Address {
    /// A 64-bit address in two registers.
    Wide(u16),
    /// A scalar base and a 32-bit offset per lane.
    Based(Source, u16),
    /// Any address space, in two registers.
    Flat(u16),
    /// Scratch: the lane's offset and the wave's, either possibly absent.
    Scratch(Option<u16>, Option<Source>),
}

/// A FLAT, GLOBAL or SCRATCH instruction.
pub(crate) struct MemoryOp {
    address: Address,
    offset: i64,
    site: u32,
    action: Action,
}

impl MemoryOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<MemoryOp> {
        let name = inst.op.name;
        let (_, action) = name.split_once('_')?;
        let action = Action::lower(action, inst, inst.src[1], lowering)?;
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
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
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

    /// The access to global memory that [`MemoryOp::run`] would make now; lanes that go to LDS or scratch are left out.
    pub fn footprint(&self, wave: &Wave, each: impl FnOnce(Footprint)) {
        let mut places = [0; LANES];
        let (exec, active) = (wave.exec(), wave.exec_row());
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
            Address::Scratch(..) => return,
        }
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
                _ => {
                    if !cx.reaches(self.site, address, bytes.into()) {
                        return Err(cx.out_of_bounds(access, address, bytes, Some(lane as u32)));
                    }
                }
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

/// Atomics must be naturally aligned.
pub(crate) fn check_alignment(places: &Places, exec: u64, bytes: u32) -> Outcome {
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        if places[lane] % u64::from(bytes) != 0 {
            let lane_number = Some(lane as u32);
            return Err(misaligned(
                Access::Atomic,
                places[lane],
                bytes,
                bytes,
                lane_number,
            ));
        }
    }
    Ok(())
}

/// Places of `base + offsets[lane]` in each lane's scratch, checked.
pub(crate) fn scratch_places(
    base: i64,
    offsets: &Row,
    exec: u64,
    bytes: u32,
    access: Access,
    cx: &Context,
) -> Outcome<Places> {
    let mut places = [0; LANES];
    let room = i64::from(cx.scratch_size) - i64::from(bytes);
    for (lane, place) in places.iter_mut().enumerate() {
        let offset = base + i64::from(offsets.0[lane]);
        let first = cx.scratch as u64 + lane as u64 * u64::from(cx.scratch_stride);
        *place = first.wrapping_add_signed(offset);
        if exec >> lane & 1 != 0 && (offset < 0 || offset > room) {
            let size = cx.scratch_size;
            return Err(scratch_overrun(access, offset as u64, bytes, size, lane));
        }
    }
    Ok(places)
}

multiversion! {
    /// Whether every lane's offset is `bytes` after the lane before.
    pub(crate) fn follow32(offsets: &Row, bytes: u32, lanes: u32) -> bool {
        let first = offsets.0[0];
        if first > u32::MAX - bytes * LANES as u32 {
            return false;
        }
        let difference = |lane: usize| offsets.0[lane] ^ first.wrapping_add(lane as u32 * bytes);
        let any = |lanes: usize| (0..lanes).fold(0, |any, lane| any | difference(lane));
        (if lanes == 32 { any(32) } else { any(64) }) == 0
    }

    /// The same for 64-bit addresses; false where the low dwords carry.
    fn follow64(low: &Row, high: &Row, bytes: u32, lanes: u32) -> bool {
        let (first, top) = (low.0[0], high.0[0]);
        if first > u32::MAX - bytes * LANES as u32 {
            return false;
        }
        let difference = |lane: usize| {
            (low.0[lane] ^ first.wrapping_add(lane as u32 * bytes)) | (high.0[lane] ^ top)
        };
        let any = |lanes: usize| (0..lanes).fold(0, |any, lane| any | difference(lane));
        (if lanes == 32 { any(32) } else { any(64) }) == 0
    }

    /// Addresses `base + offsets[lane]`; inactive lanes repeat an active one. Returns the least and the greatest.
    pub(crate) fn spread32(places: &mut Places, base: u64, offsets: &Row, exec: u64, active: &Row) -> (u64, u64) {
        let some = offsets.0[exec.trailing_zeros() as usize & 63];
        let (mut least, mut greatest) = (some, some);
        for (lane, place) in places.iter_mut().enumerate() {
            let offset = offsets.0[lane] & active.0[lane] | some & !active.0[lane];
            least = least.min(offset);
            greatest = greatest.max(offset);
            *place = base.wrapping_add(offset.into());
        }
        let (first, last) = (base.wrapping_add(least.into()), base.wrapping_add(greatest.into()));
        if first <= last { (first, last) } else { (0, u64::MAX) }
    }

    /// Addresses of 64 bits plus an offset; inactive lanes repeat an active one. Returns the least and the greatest.
    fn spread64(places: &mut Places, low: &Row, high: &Row, offset: i64, exec: u64, active: &Row) -> (u64, u64) {
        let lane = exec.trailing_zeros() as usize & 63;
        let some = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
        let some = some.wrapping_add_signed(offset);
        let (mut least, mut greatest) = (some, some);
        for (lane, place) in places.iter_mut().enumerate() {
            let address = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
            let address = address.wrapping_add_signed(offset);
            let mask = i64::from(active.0[lane] as i32) as u64;
            let address = address & mask | some & !mask;
            least = least.min(address);
            greatest = greatest.max(address);
            *place = address;
        }
        (least, greatest)
    }
}
