//! DS instructions: LDS loads, stores and atomics.

use super::access::{lds_overrun, misaligned, Access, Outcome};
use super::atomics::{self, AtomicOp};
use super::context::Context;
use super::footprint::Footprint;
use super::lowering::{Lowering, Registers};
use super::permute::Permute;
use super::places::{each_lane, follow32, spread32, zeros, Places};
use super::transfer::{self, Transfer};
use crate::exec::counters::Class;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{Inst, Operand, Role, Traits};

/// What a DS instruction does.
enum Kind {
    Load(Transfer, Registers),
    Store(Transfer, Registers),
    /// Two elements at two offsets.
    Load2(Transfer, [Registers; 2], [u32; 2]),
    Store2(Transfer, [Registers; 2], [u32; 2]),
    /// Two exchanges.
    Exchange2 {
        data: [Registers; 2],
        returns: [Registers; 2],
        offsets: [u32; 2],
    },
    /// What a second place holds is applied to the first, or stored there (gfx906, gfx908).
    FromSecond {
        op: &'static AtomicOp,
        distance: i32,
    },
    Atomic {
        op: &'static AtomicOp,
        data: Registers,
        compare: Option<Registers>,
        returns: Option<Registers>,
    },
    /// No access: data goes from lane to lane.
    Permute(Permute),
    /// Add or subtract the number of active lanes, at M0's base.
    Count {
        dst: Registers,
        subtract: bool,
    },
    /// At M0 plus the offset plus four bytes a lane.
    LoadByLane(Transfer, Registers),
    StoreByLane(Transfer, Registers),
    Nothing,
}

/// What an instruction with two addresses does at them.
#[derive(Clone, Copy)]
enum Form {
    Read,
    Write,
    Exchange,
}

/// A DS instruction.
pub(crate) struct LdsOp {
    kind: Kind,
    address: u16,
    offset: u32,
}

impl LdsOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<LdsOp> {
        if inst.mem.gds {
            return None;
        }
        let columns = &inst.op.columns;
        let by_lane = columns.has(Traits::BY_LANE);
        let kind = match columns.role {
            Role::Nothing => Kind::Nothing,
            role @ (Role::Append | Role::Consume) => Kind::Count {
                dst: lowering.registers(inst.dst[0], 1)?,
                subtract: role == Role::Consume,
            },
            Role::Load => {
                let transfer = lowering.load(columns.moves?)?;
                let to = lowering.registers(inst.dst[0], transfer.rows)?;
                match by_lane {
                    true => Kind::LoadByLane(transfer, to),
                    false => Kind::Load(transfer, to),
                }
            }
            Role::Store => {
                let transfer = transfer::store_of(columns.moves?)?;
                let from = lowering.registers(inst.src[1], transfer.rows)?;
                match by_lane {
                    true => Kind::StoreByLane(transfer, from),
                    false => Kind::Store(transfer, from),
                }
            }
            Role::LoadTwo => two_addresses(Form::Read, inst, lowering)?,
            Role::StoreTwo => two_addresses(Form::Write, inst, lowering)?,
            Role::ExchangeTwo => two_addresses(Form::Exchange, inst, lowering)?,
            Role::FromSecond => from_second(inst)?,
            Role::Update => atomic(inst, lowering)?,
            _ => Kind::Permute(Permute::lower(inst, lowering)?),
        };
        let address = match inst.src[0] {
            operand @ Operand::Vgpr { .. } => lowering.registers(operand, 1)?.first,
            _ => 0,
        };
        Some(LdsOp {
            kind,
            address,
            offset: inst.mem.offset as u32,
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
        let exec = wave.exec();
        if exec == 0 {
            return Ok(());
        }
        cx.count(Class::Lds);
        cx.counters.lane_operations += u64::from(exec.count_ones());
        match &self.kind {
            Kind::Load(transfer, rows) => {
                self.transfer(transfer, *rows, self.offset, Access::Load, wave, cx)
            }
            Kind::Store(transfer, rows) => {
                self.transfer(transfer, *rows, self.offset, Access::Store, wave, cx)
            }
            Kind::Load2(transfer, rows, offsets) => {
                self.load_two(transfer, rows, offsets, wave, cx)
            }
            Kind::Store2(transfer, rows, offsets) => {
                self.transfer(transfer, rows[0], offsets[0], Access::Store, wave, cx)?;
                self.transfer(transfer, rows[1], offsets[1], Access::Store, wave, cx)
            }
            Kind::Exchange2 {
                data,
                returns,
                offsets,
            } => self.exchange_two(data, returns, offsets, wave, cx),
            Kind::FromSecond { op, distance } => self.apply_second(op, *distance, wave, cx),
            Kind::Atomic {
                op,
                data,
                compare,
                returns,
            } => self.update(
                op,
                [Some(data), compare.as_ref()],
                returns.as_ref(),
                wave,
                cx,
            ),
            Kind::Permute(permute) => {
                permute.run(self.address, self.offset, wave);
                Ok(())
            }
            Kind::Count { dst, subtract } => self.count(dst, *subtract, wave, cx),
            Kind::LoadByLane(transfer, rows) => {
                self.transfer_by_lane(transfer, *rows, Access::Load, wave, cx)
            }
            Kind::StoreByLane(transfer, rows) => {
                self.transfer_by_lane(transfer, *rows, Access::Store, wave, cx)
            }
            Kind::Nothing => Ok(()),
        }
    }

    /// The register that addresses the LDS; `None` where M0 does, or where lanes are addressed.
    pub fn address(&self) -> Option<u16> {
        match self.kind {
            Kind::Permute(_) | Kind::Nothing | Kind::Count { .. } => None,
            Kind::LoadByLane(..) | Kind::StoreByLane(..) => None,
            _ => Some(self.address),
        }
    }

    /// The LDS accesses that [`LdsOp::run`] would make now; none for lane permutations.
    pub fn footprints(&self, wave: &Wave, mut each: impl FnMut(Footprint)) {
        let (bytes, access, offsets) = match &self.kind {
            Kind::Load(transfer, _) => (transfer.bytes, Access::Load, [Some(self.offset), None]),
            Kind::Store(transfer, _) => (transfer.bytes, Access::Store, [Some(self.offset), None]),
            Kind::Load2(transfer, _, offsets) => (transfer.bytes, Access::Load, offsets.map(Some)),
            Kind::Store2(transfer, _, offsets) => {
                (transfer.bytes, Access::Store, offsets.map(Some))
            }
            Kind::Exchange2 { data, offsets, .. } => {
                let bytes = 4 * u32::from(data[0].count);
                (bytes, Access::Atomic, offsets.map(Some))
            }
            Kind::Atomic { op, .. } => {
                let bytes = op.update.bytes();
                (bytes, Access::Atomic, [Some(self.offset), None])
            }
            // One dword for all lanes, or one for each in order: never a conflict, and never in a loop of ours.
            Kind::Count { .. } | Kind::LoadByLane(..) | Kind::StoreByLane(..) => return,
            Kind::Permute(_) | Kind::FromSecond { .. } | Kind::Nothing => return,
        };
        let addresses = &wave.vgpr[usize::from(self.address)];
        for offset in offsets.into_iter().flatten() {
            each(Footprint {
                access,
                bytes,
                places: &addresses
                    .0
                    .map(|address| address.wrapping_add(offset).into()),
                lanes: wave.exec(),
            });
        }
    }

    /// Two loads; the first may overwrite the address, which the second needs.
    fn load_two(
        &self,
        transfer: &Transfer,
        rows: &[Registers; 2],
        offsets: &[u32; 2],
        wave: &mut Wave,
        cx: &mut Context,
    ) -> Outcome {
        let address = wave.vgpr[usize::from(self.address)];
        self.transfer(transfer, rows[0], offsets[0], Access::Load, wave, cx)?;
        let after = std::mem::replace(&mut wave.vgpr[usize::from(self.address)], address);
        let mut staged = [Row::ZERO; 2];
        let second = rows[1].rows(wave);
        let count = second.len();
        staged[..count].copy_from_slice(second);
        self.gather(transfer, &mut staged[..count], offsets[1], wave, cx)?;
        wave.vgpr[usize::from(self.address)] = after;
        let exec = *wave.exec_row();
        for (row, new) in rows[1].rows(wave).iter_mut().zip(&staged) {
            for lane in 0..LANES {
                let mask = exec.0[lane];
                row.0[lane] = new.0[lane] & mask | row.0[lane] & !mask;
            }
        }
        Ok(())
    }

    /// Two exchanges, of dwords or pairs, the first one first.
    fn exchange_two(
        &self,
        data: &[Registers; 2],
        returns: &[Registers; 2],
        offsets: &[u32; 2],
        wave: &mut Wave,
        cx: &Context,
    ) -> Outcome {
        let bytes = 4 * u32::from(data[0].count);
        let exec = wave.exec();
        let mut places = [[0; LANES]; 2];
        for (places, offset) in places.iter_mut().zip(offsets) {
            *places = self.places(bytes, *offset, Access::Atomic, wave, cx)?;
        }
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let mut old = [[0u32; 2]; 2];
            for which in 0..2 {
                let at = places[which][lane] as *mut u32;
                for (dword, old) in old[which].iter_mut().enumerate().take(bytes as usize / 4) {
                    let new = data[which].rows(wave)[dword].0[lane];
                    // SAFETY: the place was checked; only this thread runs the workgroup that owns the LDS.
                    unsafe {
                        *old = at.add(dword).read_unaligned();
                        at.add(dword).write_unaligned(new);
                    }
                }
            }
            for (returns, old) in returns.iter().zip(old) {
                for (row, old) in returns.rows(wave).iter_mut().zip(old) {
                    row.0[lane] = old;
                }
            }
        }
        Ok(())
    }

    /// An atomic whose operand lies `distance` dwords from its place.
    fn apply_second(&self, op: &AtomicOp, distance: i32, wave: &mut Wave, cx: &Context) -> Outcome {
        let (exec, lanes, bytes) = (wave.exec(), wave.lanes, op.update.bytes());
        let places = self.places(bytes, 0, Access::Atomic, wave, cx)?;
        let second = self.places(bytes, (4 * distance) as u32, Access::Load, wave, cx)?;
        each_lane(exec, lanes, |lane| {
            let mut operand = [0u8; 8];
            // SAFETY: both places were checked; only this thread runs the workgroup that owns the LDS.
            unsafe {
                let from = second[lane] as *const u8;
                std::ptr::copy_nonoverlapping(from, operand.as_mut_ptr(), bytes as usize);
                let operand = u64::from_le_bytes(operand);
                op.update.apply_private(places[lane] as *mut u8, operand, 0);
            }
        });
        Ok(())
    }

    /// Atomics; `operands` are the data and what compare-and-swap compares with.
    fn update(
        &self,
        op: &AtomicOp,
        operands: [Option<&Registers>; 2],
        returns: Option<&Registers>,
        wave: &mut Wave,
        cx: &Context,
    ) -> Outcome {
        let exec = wave.exec();
        let bytes = op.update.bytes();
        let places = self.places(bytes, self.offset, Access::Atomic, wave, cx)?;
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let at = places[lane] - cx.lds as u64;
            if !at.is_multiple_of(u64::from(bytes)) {
                let lane = Some(lane as u32);
                return Err(misaligned(Access::Atomic, at, bytes, bytes, lane));
            }
        }
        each_lane(exec, wave.lanes, |lane| {
            let [data, compare] = operands.map(|registers| {
                registers.map_or(0, |registers| {
                    let rows = registers.rows(wave);
                    let high = rows.get(1).map_or(0, |row| row.0[lane]);
                    u64::from(rows[0].0[lane]) | u64::from(high) << 32
                })
            });
            // SAFETY: the place was checked; only this thread runs the workgroup that owns the LDS.
            let old = unsafe {
                op.update
                    .apply_private(places[lane] as *mut u8, data, compare)
            };
            if let Some(returns) = returns {
                for (row, dwords) in returns.rows(wave).iter_mut().enumerate() {
                    dwords.0[lane] = (old >> (32 * row)) as u32;
                }
            }
        });
        Ok(())
    }

    /// Add or subtract the number of active lanes, at M0's base.
    fn count(&self, dst: &Registers, subtract: bool, wave: &mut Wave, cx: &Context) -> Outcome {
        let exec = wave.exec();
        let at = u64::from(wave.m0 & 0xffff) + u64::from(self.offset);
        let first = exec.trailing_zeros() as usize;
        if at + 4 > cx.lds_size.into() {
            return Err(lds_overrun(Access::Atomic, at, 4, cx.lds_size, first));
        }
        if at % 4 != 0 {
            return Err(misaligned(Access::Atomic, at, 4, 4, Some(first as u32)));
        }
        // SAFETY: the range was checked, and LDS is aligned.
        let old = unsafe {
            let word = cx.lds.add(at as usize).cast::<u32>();
            let old = word.read();
            let active = exec.count_ones();
            word.write(if subtract {
                old.wrapping_sub(active)
            } else {
                old.wrapping_add(active)
            });
            old
        };
        let lanes = wave.lanes;
        let to = &mut dst.rows(wave)[0];
        each_lane(exec, lanes, |lane| to.0[lane] = old);
        Ok(())
    }

    /// A dword of each lane at M0 plus the offset plus four bytes a lane.
    fn transfer_by_lane(
        &self,
        transfer: &Transfer,
        rows: Registers,
        access: Access,
        wave: &mut Wave,
        cx: &Context,
    ) -> Outcome {
        let exec = wave.exec();
        let base = u64::from(wave.m0 & 0xffff) + u64::from(self.offset);
        let mut places = [0; LANES];
        for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
            let at = base + 4 * lane as u64;
            if at + 4 > cx.lds_size.into() {
                return Err(lds_overrun(access, at, 4, cx.lds_size, lane));
            }
            places[lane] = cx.lds as u64 + at;
        }
        let lanes = wave.lanes;
        // SAFETY: the places of active lanes were checked.
        unsafe { (transfer.scattered)(rows.rows(wave), &places, exec, lanes) };
        Ok(())
    }

    #[inline(always)]
    fn transfer(
        &self,
        transfer: &Transfer,
        rows: Registers,
        offset: u32,
        access: Access,
        wave: &mut Wave,
        cx: &mut Context,
    ) -> Outcome {
        let (exec, lanes) = (wave.exec(), wave.lanes);
        let addresses = &wave.vgpr[usize::from(self.address)];
        if wave.exec_full() && follow32(addresses, transfer.bytes, lanes) {
            let start = u64::from(addresses.0[0].wrapping_add(offset));
            if start + u64::from(transfer.bytes * lanes) <= cx.lds_size.into() {
                // SAFETY: the range was just checked.
                unsafe {
                    (transfer.sequence)(rows.rows(wave), cx.lds as u64 + start, lanes);
                }
                return Ok(());
            }
        }
        let places = self.places(transfer.bytes, offset, access, wave, cx)?;
        // SAFETY: `places` checked every active lane.
        unsafe { (transfer.scattered)(rows.rows(wave), &places, exec, lanes) };
        Ok(())
    }

    /// Load into rows that are not the wave's.
    fn gather(
        &self,
        transfer: &Transfer,
        rows: &mut [Row],
        offset: u32,
        wave: &Wave,
        cx: &Context,
    ) -> Outcome {
        let places = self.places(transfer.bytes, offset, Access::Load, wave, cx)?;
        // SAFETY: `places` checked every active lane.
        unsafe { (transfer.scattered)(rows, &places, wave.exec(), wave.lanes) };
        Ok(())
    }

    /// Host addresses, checked.
    #[inline(always)]
    fn places(
        &self,
        bytes: u32,
        offset: u32,
        access: Access,
        wave: &Wave,
        cx: &Context,
    ) -> Outcome<Places> {
        let mut places = [0; LANES];
        let addresses = &wave.vgpr[usize::from(self.address)];
        let base = cx.lds as u64 + u64::from(offset);
        let (_, last) = spread32(&mut places, base, addresses, wave.exec(), wave.exec_row());
        if last - cx.lds as u64 + u64::from(bytes) > cx.lds_size.into() {
            // Addresses wrap at 32 bits: the compiler folds offsets into bases that may be negative.
            let wrapped = Row(addresses.0.map(|address| address.wrapping_add(offset)));
            let base = cx.lds as u64;
            let (_, last) = spread32(&mut places, base, &wrapped, wave.exec(), wave.exec_row());
            if last - base + u64::from(bytes) <= cx.lds_size.into() {
                return Ok(places);
            }
            let overruns = |lane: &usize| {
                let at = u64::from(wrapped.0[*lane]);
                wave.exec() >> lane & 1 != 0 && at + u64::from(bytes) > cx.lds_size.into()
            };
            let lane = (0..LANES).find(overruns).unwrap_or(0);
            let at = u64::from(wrapped.0[lane]);
            if access == Access::Load && asks_for_zero(&wrapped, wave.exec()) {
                return Ok(zeros());
            }
            return Err(lds_overrun(access, at, bytes, cx.lds_size, lane));
        }
        Ok(places)
    }
}

/// Whether all active lanes load from one place that no LDS has, yet not before its start. Loads out of range return zero,
/// and kernels of AMD's (rocBLAS, at 15 MiB) clear registers so: it is no mistake of an index, which stays near LDS or is
/// another in each lane.
#[cold]
fn asks_for_zero(addresses: &Row, exec: u64) -> bool {
    const FAR: std::ops::Range<u32> = 1 << 20..1 << 31;
    let mut active = (0..LANES).filter(|lane| exec >> lane & 1 != 0);
    let first = active.next().map(|lane| addresses.0[lane]);
    first.is_some_and(|first| FAR.contains(&first) && active.all(|lane| addresses.0[lane] == first))
}

/// The `src2` forms. The offsets' lower seven bits of the second byte and the first byte, as a signed number of dwords,
/// lead to the second place (Vega ISA manual, "LDS instructions").
fn from_second(inst: &Inst) -> Option<Kind> {
    if inst.mem.offset & 0x8000 != 0 {
        // The distance is part of the address.
        return None;
    }
    // Fifteen bits with a sign.
    let distance = (inst.mem.offset << 17) >> 17;
    let op = atomics::named(&inst.op.columns.row)?;
    Some(Kind::FromSecond { op, distance })
}

/// An instruction with two addresses, whose offsets count elements, or 64 of them.
fn two_addresses(form: Form, inst: &Inst, lowering: &Lowering) -> Option<Kind> {
    let columns = &inst.op.columns;
    let scale = match columns.has(Traits::STRIDE64) {
        true => 64,
        false => 1,
    };
    let element = columns.moves?;
    let transfer = match form {
        Form::Write => transfer::store_of(element)?,
        Form::Read | Form::Exchange => lowering.load(element)?,
    };
    let rows = transfer.rows;
    let unit = transfer.bytes * scale;
    let offsets = [
        inst.mem.offset as u32 * unit,
        u32::from(inst.mem.offset1) * unit,
    ];
    let data = || {
        let first = lowering.registers(inst.src[1], rows)?;
        Some([first, lowering.registers(inst.src[2], rows)?])
    };
    if let Form::Write = form {
        return Some(Kind::Store2(transfer, data()?, offsets));
    }
    let both = lowering.registers(inst.dst[0], 2 * rows)?;
    let half = |at: u8| Registers {
        first: both.first + u16::from(at * rows),
        count: rows,
        ..both
    };
    let halves = [half(0), half(1)];
    Some(match form {
        Form::Exchange => Kind::Exchange2 {
            data: data()?,
            returns: halves,
            offsets,
        },
        _ => Kind::Load2(transfer, halves, offsets),
    })
}

/// An atomic, which returns the value before or not.
fn atomic(inst: &Inst, lowering: &Lowering) -> Option<Kind> {
    let columns = &inst.op.columns;
    let op = atomics::named(&columns.row)?;
    let rows = (op.update.bytes() / 4) as u8;
    let first = lowering.registers(inst.src[1], rows)?;
    let second = || lowering.registers(inst.src[2], rows);
    let (data, compare) = match (op.compares, columns.has(Traits::NEW_VALUE_FIRST)) {
        (false, _) => (first, None),
        (true, true) => (first, Some(second()?)),
        (true, false) => (second()?, Some(first)),
    };
    let returns = if inst.mem.returns {
        Some(lowering.registers(inst.dst[0], rows)?)
    } else {
        None
    };
    Some(Kind::Atomic {
        op,
        data,
        compare,
        returns,
    })
}
