//! What FLAT, GLOBAL, SCRATCH and buffer instructions do at their addresses, once those are checked.

use super::access::{lds_overrun, Access, Outcome};
use super::atomics::{self, AtomicOp};
use super::context::Context;
use super::lowering::{Lowering, Registers};
use super::places::{each_lane, Places};
use super::transfer::{self, Transfer};
use crate::exec::wave::{Row, Wave};
use crate::isa::{Element, Inst, Operand, Role};

/// What happens at the addresses.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Load(Transfer, Registers),
    Store(Transfer, Registers),
    /// GFX12: eight elements of so many bytes for each lane, and in each group of eight lanes lane i receives element i
    /// of every lane.
    LoadTransposed(Transfer, Registers, u32),
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
            Action::Load(transfer, _)
            | Action::Store(transfer, _)
            | Action::LoadTransposed(transfer, ..) => transfer.bytes,
            Action::Atomic(atomic) => atomic.op.update.bytes(),
            Action::LoadToLds { bytes, .. } => *bytes,
        }
    }

    pub fn access(&self) -> Access {
        match self {
            Action::Load(..) | Action::LoadTransposed(..) | Action::LoadToLds { .. } => {
                Access::Load
            }
            Action::Store(..) => Access::Store,
            Action::Atomic(_) => Access::Atomic,
        }
    }

    /// What an instruction does with its data.
    pub fn lower(inst: &Inst, data: Operand, lowering: &Lowering) -> Option<Action> {
        let columns = &inst.op.columns;
        match columns.role {
            Role::Update => Action::lower_atomic(inst, data, lowering),
            role => Action::transfer(role, columns.moves?, inst, data, lowering),
        }
    }

    /// A load or store of an element.
    pub fn transfer(
        role: Role,
        element: Element,
        inst: &Inst,
        data: Operand,
        lowering: &Lowering,
    ) -> Option<Action> {
        if role == Role::Store {
            let transfer = transfer::store_of(element)?;
            let from = lowering.registers(data, transfer.rows)?;
            return Some(Action::Store(transfer, from));
        }
        let transfer = lowering.load(element)?;
        let to = || lowering.registers(inst.dst[0], transfer.rows);
        Some(match role {
            Role::LoadTransposed => Action::LoadTransposed(transfer, to()?, transfer.bytes / 8),
            Role::Load if inst.mem.lds => Action::LoadToLds {
                bytes: transfer.bytes,
                offset: inst.mem.offset as u32,
            },
            Role::Load => Action::Load(transfer, to()?),
            _ => return None,
        })
    }

    fn lower_atomic(inst: &Inst, data: Operand, lowering: &Lowering) -> Option<Action> {
        let op = atomics::named(&inst.op.columns.row)?;
        let dwords = (op.update.bytes() / 4) as u8;
        let data = lowering.registers(data, op.dwords())?;
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
            Action::LoadTransposed(transfer, rows, bytes) => {
                let rows = rows.rows(wave);
                // SAFETY: as above.
                unsafe { (transfer.scattered)(rows, places, exec, lanes) };
                transpose(rows, *bytes, exec, lanes);
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

/// Exchange elements of `bytes` bytes, of which each lane has eight, in groups of eight lanes; those of inactive lanes
/// are zero.
fn transpose(rows: &mut [Row], bytes: u32, exec: u64, lanes: u32) {
    let mut before = [Row::ZERO; 4];
    before[..rows.len()].copy_from_slice(rows);
    let (bits, in_row) = (8 * bytes, 4 / bytes as usize);
    let mask = u32::MAX >> (32 - bits);
    let place = |element: usize| (element / in_row, bits * (element % in_row) as u32);
    each_lane(exec, lanes, |lane| {
        for element in 0..8 {
            let source = lane & !7 | element;
            let (row, shift) = place(lane & 7);
            let active = exec >> source & 1 != 0;
            let value = if active {
                before[row].0[source] >> shift & mask
            } else {
                0
            };
            let (row, shift) = place(element);
            let old = rows[row].0[lane];
            rows[row].0[lane] = old & !(mask << shift) | value << shift;
        }
    });
}
