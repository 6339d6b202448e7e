//! Instructions that carry something beside their operation, or meet an unusual MODE.

use super::kernel::{Args, MAX_ARGUMENTS};
use super::lane_op::{new_scratch, Destination, LaneOp, Scratch};
use super::results::{clamp, flush, omod, sdwa_write};
use super::riders::{SourceRider, PLAIN};
use super::rows::{expanded, widen};
use super::value::Kind;
use crate::exec::wave::{Mode, Row, Wave, LANES};
use crate::isa::{Family, SdwaSelect};

/// Execute with modifiers on sources alone.
///
/// # Safety
/// The wave has at least `op.vgprs` and `op.agprs` registers.
pub(super) unsafe fn run_with_sources(op: &LaneOp, wave: &mut Wave) {
    let mut fetched = new_scratch();
    let mut prepared = new_scratch();
    let mut args = op.args(wave);
    for (index, (fetched, prepared)) in fetched
        .iter_mut()
        .zip(&mut prepared)
        .enumerate()
        .take(op.count as usize)
    {
        let pointer = op.fetch(index, wave, fetched);
        let rider = &op.riders.sources[index];
        args.src[index] = if *rider == PLAIN {
            pointer
        } else {
            let rows = prepared.write([Row::ZERO; 2]);
            // SAFETY: a source of this kind has the rows.
            unsafe { rider.apply(op.riders.kinds[index], pointer.cast(), rows) };
            rows.as_ptr().cast()
        };
    }
    // SAFETY: as in `lanes::run`.
    unsafe { (op.kernel)(&mut args) };
    op.write_masks(wave, args.mask & wave.exec());
}

/// Sources as the operation is to see them.
type Prepared = [[Row; 2]; MAX_ARGUMENTS];

/// Execute with modifiers or an unusual MODE.
///
/// # Safety
/// The wave has at least `op.vgprs` and `op.agprs` registers.
#[inline(never)]
pub(super) unsafe fn run(op: &LaneOp, wave: &mut Wave) {
    let riders = &*op.riders;
    let mode = wave.mode;
    let mut active = wave.exec();
    let mut valid = u64::MAX;
    if let Some(permutation) = &riders.permutation {
        valid = permutation.valid_lanes(wave);
        active &= permutation.enabled;
        if !permutation.bound_ctrl {
            active &= valid;
        }
    }

    let mut fetched = new_scratch();
    let mut prepared = [[Row::ZERO; 2]; MAX_ARGUMENTS];
    // SAFETY: the caller's promise.
    let src = unsafe { prepare(op, wave, &mode, valid, &mut fetched, &mut prepared) };

    let old = destination(op, wave);
    let mut result = old;
    let all = Row([u32::MAX; LANES]);
    let mut args = Args {
        src,
        dst: result.as_mut_ptr().cast(),
        write: u32::MAX,
        exec: all.0.as_ptr(),
        full: true,
        lanes: wave.lanes as usize,
        mask: 0,
    };
    let rounding = match riders.directed {
        Some(directed) => directed.rounding(&mode),
        None => 0,
    };
    match riders.directed {
        Some(directed) if rounding != 0 => {
            directed.run(
                rounding,
                &riders.kinds,
                &prepared,
                riders.entry.packed,
                &mut result,
                wave.lanes as usize,
            );
        }
        // SAFETY: the prepared rows have the kinds' dwords, and the result has two rows.
        _ => unsafe { (op.kernel)(&mut args) },
    }

    if let Some(kind) = riders.entry.value {
        let write = finish(op, kind, &mode, wave, &old, &mut result);
        if let Destination::Scalar(register) = op.dst {
            // EXEC does not matter to a scalar result.
            let value = old[0].0[0] & !write | result[0].0[0] & write;
            register.write(wave, value);
            return;
        }
        let active_row = expanded(active);
        let dst = op.dst_pointer(wave);
        for dword in 0..kind.dwords() {
            // SAFETY: the destination has that many rows; `old` and `result` are copies.
            let row = unsafe { &mut *dst.cast::<Row>().add(dword) };
            for lane in 0..LANES {
                let written = active_row.0[lane] & write;
                row.0[lane] = old[dword].0[lane] & !written | result[dword].0[lane] & written;
            }
        }
    }
    op.write_masks(wave, args.mask & active);
}

/// Fetch the sources, permute and modify them; the pointers are to rows of the wave, `fetched` or `prepared`.
///
/// # Safety
/// The wave has at least `op.vgprs` and `op.agprs` registers.
unsafe fn prepare(
    op: &LaneOp,
    wave: &Wave,
    mode: &Mode,
    valid: u64,
    fetched: &mut Scratch,
    prepared: &mut Prepared,
) -> [*const u32; MAX_ARGUMENTS] {
    let riders = &*op.riders;
    let mut src = [std::ptr::null(); MAX_ARGUMENTS];
    for index in 0..op.count as usize {
        let pointer = op.fetch(index, wave, &mut fetched[index]);
        let kind = riders.kinds[index];
        if pointer.is_null() || kind == Kind::Mask {
            src[index] = pointer;
            continue;
        }
        let mut copy = [Row::ZERO; 2];
        for (dword, row) in copy.iter_mut().enumerate().take(kind.dwords()) {
            // SAFETY: a source of this kind has that many rows.
            *row = unsafe { *pointer.cast::<Row>().add(dword) };
            if let (0, Some(permutation)) = (index, &riders.permutation) {
                permutation.apply(row, valid);
            }
        }
        let rider = &riders.sources[index];
        rider.select_field(&mut copy[0]);
        // Before widening, in the format that the operand has.
        let flushed = SourceRider {
            widen: false,
            sdwa: SdwaSelect::Dword,
            ..*rider
        };
        let rows = &mut prepared[index];
        // SAFETY: the copy has two rows.
        unsafe { flushed.apply(kind, copy.as_ptr(), rows) };
        flush(kind, mode, 1, rows);
        if rider.widen {
            let narrow = rows[0];
            widen(&mut rows[0], &narrow, 0, u32::MAX, 0);
        }
        src[index] = rows.as_ptr().cast();
    }
    src
}

/// What the destination holds.
fn destination(op: &LaneOp, wave: &mut Wave) -> [Row; 2] {
    let dst = op.dst_pointer(wave);
    let dwords = op.riders.entry.value.map_or(0, Kind::dwords);
    let mut rows = [Row::ZERO; 2];
    for (dword, row) in rows.iter_mut().enumerate().take(dwords) {
        if let Destination::Scalar(register) = op.dst {
            row.0.fill(register.read(wave));
            continue;
        }
        // SAFETY: the destination has that many rows.
        *row = unsafe { *dst.cast::<Row>().add(dword) };
    }
    rows
}

/// Modify the result; gives the bits of the destination's dwords that are written.
fn finish(
    op: &LaneOp,
    kind: Kind,
    mode: &Mode,
    wave: &Wave,
    old: &[Row; 2],
    result: &mut [Row; 2],
) -> u32 {
    let riders = &*op.riders;
    flush(kind, mode, 2, result);
    omod(riders.omod, kind, wave, result);
    if riders.clamp {
        let nan_to_zero = mode.dx10_clamp || wave.target.family() == Family::Rdna4;
        clamp(kind, nan_to_zero, result);
    }
    let mut write = op.write;
    if riders.high_half {
        for value in &mut result[0].0 {
            *value <<= 16;
        }
        write = 0xffff_0000;
    }
    if let Some((select, unused)) = riders.sdwa {
        sdwa_write(select, unused, &mut result[0], &old[0]);
        write = u32::MAX;
    }
    write
}
