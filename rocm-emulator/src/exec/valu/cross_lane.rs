//! Instructions that move data between lanes, or between lanes and scalar registers.

use super::lowering::{Run, Unimplemented};
use super::operand::{ScalarReg, Source};
use super::value::Kind;
use crate::exec::{Row, Wave, LANES};
use crate::isa::{Inst, Operand, Role, Special};

/// A scalar source: a register or a constant.
#[derive(Clone, Copy)]
enum Scalar {
    Register(ScalarReg),
    Constant(u32),
}

impl Scalar {
    fn of(operand: Operand) -> Result<Scalar, Unimplemented> {
        match Source::of(operand, Kind::B32)? {
            Source::Scalar(register) => Ok(Scalar::Register(register)),
            Source::Rows(rows) => Ok(Scalar::Constant(rows[0].0[0])),
            other => Err(Unimplemented::new(format!("{other:?} as a scalar source"))),
        }
    }

    fn read(self, wave: &Wave) -> u32 {
        match self {
            Scalar::Register(register) => register.read(wave),
            Scalar::Constant(value) => value,
        }
    }
}

fn vgpr(inst: &Inst, operand: Operand) -> Result<usize, Unimplemented> {
    match operand {
        Operand::Vgpr { first, .. } => Ok(first as usize),
        other => Err(Unimplemented::new(format!(
            "{}: {other:?} where a vector register must be",
            inst.op.name
        ))),
    }
}

/// The row that an operand reads: a register, or a broadcast value.
fn row_of(wave: &Wave, source: &Source) -> Row {
    match source {
        Source::Vgpr(number) => wave.vgpr[*number as usize],
        Source::Agpr(number) => wave.agpr[*number as usize],
        Source::Rows(rows) => rows[0],
        Source::Scalar(register) => Row([register.read(wave); LANES]),
        _ => Row::ZERO,
    }
}

/// Write `value` in the active lanes of a register.
fn write_active(wave: &mut Wave, number: usize, value: &Row) {
    let exec = *wave.exec_row();
    for ((old, &new), &mask) in wave.vgpr[number].0.iter_mut().zip(&value.0).zip(&exec.0) {
        *old = *old & !mask | new & mask;
    }
}

/// Lower a cross-lane instruction; `None` if it is none.
pub(super) fn lower(inst: &Inst, lanes: u32) -> Result<Option<Run>, Unimplemented> {
    let last = lanes as usize - 1;
    let run: Run = match inst.op.columns.role {
        Role::Nothing => Box::new(|_| {}),
        Role::SlidingDifferences => sliding_differences(inst)?,
        Role::ReadFirstLane => {
            let source = Source::of(inst.src[0], Kind::B32)?;
            let dst = scalar_destination(inst)?;
            Box::new(move |wave| {
                // With no lane active, lane 0 is read.
                let exec = wave.exec();
                let lane = if exec == 0 {
                    0
                } else {
                    exec.trailing_zeros() as usize
                };
                let value = row_of(wave, &source).0[lane];
                dst.write(wave, value);
            })
        }
        Role::ReadLane => {
            let source = Source::of(inst.src[0], Kind::B32)?;
            let select = Scalar::of(inst.src[1])?;
            let dst = scalar_destination(inst)?;
            Box::new(move |wave| {
                let lane = select.read(wave) as usize & last;
                let value = row_of(wave, &source).0[lane];
                dst.write(wave, value);
            })
        }
        Role::WriteLane => {
            let value = Scalar::of(inst.src[0])?;
            let select = Scalar::of(inst.src[1])?;
            let dst = vgpr(inst, inst.dst[0])?;
            Box::new(move |wave| {
                let lane = select.read(wave) as usize & last;
                let value = value.read(wave);
                wave.vgpr[dst].0[lane] = value;
            })
        }
        Role::Swap | Role::SwapHalves => swap(inst)?,
        Role::MoveRelativeDestination
        | Role::MoveRelativeSource
        | Role::MoveRelative
        | Role::MoveRelative2
        | Role::SwapRelative => relative(inst)?,
        _ => return permute(inst),
    };
    Ok(Some(run))
}

/// `v_swap`: two registers, or a half of each, change places in the active lanes.
fn swap(inst: &Inst) -> Result<Run, Unimplemented> {
    let (a, b) = (vgpr(inst, inst.dst[0])?, vgpr(inst, inst.src[0])?);
    if inst.op.columns.role == Role::SwapHalves {
        let shift = |place: u32| u32::from(inst.mods.op_sel >> place & 1) * 16;
        let (a_shift, b_shift) = (shift(3), shift(0));
        return Ok(Box::new(move |wave| {
            let exec = *wave.exec_row();
            for lane in (0..LANES).filter(|lane| exec.0[*lane] != 0) {
                let (left, right) = (wave.vgpr[a].0[lane], wave.vgpr[b].0[lane]);
                let (old, new) = (left >> a_shift & 0xffff, right >> b_shift & 0xffff);
                let difference = old ^ new;
                wave.vgpr[a].0[lane] ^= difference << a_shift;
                // The other half of the same register, perhaps.
                wave.vgpr[b].0[lane] ^= difference << b_shift;
            }
        }));
    }
    Ok(Box::new(move |wave| {
        let (left, right) = (wave.vgpr[a], wave.vgpr[b]);
        write_active(wave, a, &right);
        write_active(wave, b, &left);
    }))
}

/// `v_permlane`; `None` for anything else.
fn permute(inst: &Inst) -> Result<Option<Run>, Unimplemented> {
    let run = match inst.op.columns.role {
        Role::PermuteRow => permute_row(inst, 0)?,
        Role::PermuteOtherRow => permute_row(inst, 16)?,
        Role::PermuteRowVariable => permute_row_variable(inst, 0)?,
        Role::PermuteOtherRowVariable => permute_row_variable(inst, 16)?,
        Role::SwapLanes64 => swap_halves(inst)?,
        Role::SwapRows16 => swap_rows(inst, 16)?,
        Role::SwapRows32 => swap_rows(inst, 32)?,
        _ => return Ok(None),
    };
    Ok(Some(run))
}

/// Each row of 16 picks by 16 nibbles of a scalar pair, from its own lanes or (16) from the neighbouring row's.
fn permute_row(inst: &Inst, other_row: usize) -> Result<Run, Unimplemented> {
    let source = Source::of(inst.src[0], Kind::B32)?;
    let (low, high) = (Scalar::of(inst.src[1])?, Scalar::of(inst.src[2])?);
    let dst = vgpr(inst, inst.dst[0])?;
    let [fetch_inactive, bound_control] = permute_options(inst);
    Ok(Box::new(move |wave| {
        let selects = low.read(wave) as u64 | (high.read(wave) as u64) << 32;
        permute_rows(
            wave,
            dst,
            &source,
            fetch_inactive,
            bound_control,
            |lane, _| ((lane & !15) ^ other_row) + (selects >> (4 * (lane & 15)) & 15) as usize,
        );
    }))
}

/// The same by each lane's own number.
fn permute_row_variable(inst: &Inst, other_row: usize) -> Result<Run, Unimplemented> {
    let source = Source::of(inst.src[0], Kind::B32)?;
    let select = Source::of(inst.src[1], Kind::B32)?;
    let dst = vgpr(inst, inst.dst[0])?;
    let [fetch_inactive, bound_control] = permute_options(inst);
    Ok(Box::new(move |wave| {
        let selects = row_of(wave, &select);
        permute_rows(
            wave,
            dst,
            &source,
            fetch_inactive,
            bound_control,
            |lane, _| ((lane & !15) ^ other_row) + (selects.0[lane] & 15) as usize,
        );
    }))
}

/// Bits of op_sel: whether inactive lanes are fetched, and whether they are zeros otherwise.
fn permute_options(inst: &Inst) -> [bool; 2] {
    [inst.mods.op_sel & 1 != 0, inst.mods.op_sel & 2 != 0]
}

/// Swaps the halves of a wave64; wave32 has one, and the instruction does nothing.
fn swap_halves(inst: &Inst) -> Result<Run, Unimplemented> {
    let source = Source::of(inst.src[0], Kind::B32)?;
    let dst = vgpr(inst, inst.dst[0])?;
    Ok(Box::new(move |wave| {
        if wave.lanes == 32 {
            return;
        }
        let row = row_of(wave, &source);
        let swapped = Row(std::array::from_fn(|lane| row.0[lane ^ 32]));
        write_active(wave, dst, &swapped);
    }))
}

/// Odd rows of so many lanes of the first register change places with even rows of the second.
fn swap_rows(inst: &Inst, width: usize) -> Result<Run, Unimplemented> {
    let (a, b) = (vgpr(inst, inst.dst[0])?, vgpr(inst, inst.src[0])?);
    Ok(Box::new(move |wave| {
        let (left, right) = (wave.vgpr[a], wave.vgpr[b]);
        let pick = |lane: usize, own: &Row, other: &Row, odd: bool| {
            if (lane & width != 0) == odd {
                other.0[lane ^ width]
            } else {
                own.0[lane]
            }
        };
        let new_left = Row(std::array::from_fn(|lane| pick(lane, &left, &right, true)));
        let new_right = Row(std::array::from_fn(|lane| pick(lane, &right, &left, false)));
        write_active(wave, a, &new_left);
        write_active(wave, b, &new_right);
    }))
}

fn scalar_destination(inst: &Inst) -> Result<ScalarReg, Unimplemented> {
    ScalarReg::of(inst.dst[0])?.ok_or_else(|| {
        Unimplemented::new(format!(
            "{}: {:?} where a scalar register must be",
            inst.op.name, inst.dst[0]
        ))
    })
}

/// Fetch each active lane's value from the lane that `from` names. A source lane that is inactive (and not
/// fetched nevertheless) reads as zero with bound control, and leaves the destination as it is without.
fn permute_rows(
    wave: &mut Wave,
    dst: usize,
    source: &Source,
    fetch_inactive: bool,
    bound_control: bool,
    from: impl Fn(usize, usize) -> usize,
) {
    let row = row_of(wave, source);
    let exec = wave.exec();
    let lanes = wave.lanes as usize;
    let old = wave.vgpr[dst];
    let mut result = old;
    for lane in 0..lanes {
        let source_lane = from(lane, lanes) & (lanes - 1);
        result.0[lane] = if fetch_inactive || exec >> source_lane & 1 == 1 {
            row.0[source_lane]
        } else if bound_control {
            0
        } else {
            old.0[lane]
        };
    }
    write_active(wave, dst, &result);
}

/// Moves whose register numbers are offset by M0: relative destination, source, or both. An offset that
/// leaves the wave's registers uses register 0, as the hardware does.
fn relative(inst: &Inst) -> Result<Run, Unimplemented> {
    let (name, role) = (inst.op.name, inst.op.columns.role);
    let dst = vgpr(inst, inst.dst[0])?;
    let source = Source::of(inst.src[0], Kind::B32)?;
    let source_register = match source {
        Source::Vgpr(number) => Some(number as usize),
        _ => None,
    };
    if source_register.is_none() && role != Role::MoveRelativeDestination {
        return Err(Unimplemented::new(format!(
            "{name}: the source must be a vector register"
        )));
    }
    Ok(Box::new(move |wave| {
        let m0 = ScalarReg::Named(Special::M0).read(wave);
        let (source_offset, dst_offset) = match role {
            Role::MoveRelativeDestination => (0, m0),
            Role::MoveRelativeSource => (m0, 0),
            Role::MoveRelative => (m0, m0),
            _ => (m0 & 0x3ff, m0 >> 16 & 0x3ff),
        };
        let count = wave.vgpr.len();
        let resolve = |base: usize, offset: u32| {
            let number = base + offset as usize;
            if number < count {
                number
            } else {
                0
            }
        };
        let to = resolve(dst, dst_offset);
        let from = source_register.map(|number| resolve(number, source_offset));
        let value = match from {
            Some(number) => wave.vgpr[number],
            None => row_of(wave, &source),
        };
        if role == Role::SwapRelative {
            let other = wave.vgpr[to];
            if let Some(number) = from {
                write_active(wave, number, &other);
            }
        }
        write_active(wave, to, &value);
    }))
}

/// Four masked sums of absolute byte differences over a sliding window, added to four dwords: the one
/// operation with 128-bit operands.
fn sliding_differences(inst: &Inst) -> Result<Run, Unimplemented> {
    let (a, b) = (
        Source::of(inst.src[0], Kind::U64)?,
        Source::of(inst.src[1], Kind::B32)?,
    );
    let (c, dst) = (vgpr(inst, inst.src[2])?, vgpr(inst, inst.dst[0])?);
    let Source::Vgpr(window) = a else {
        return Err(Unimplemented::new(format!(
            "{}: {a:?} as the window of bytes",
            inst.op.name
        )));
    };
    let window = window as usize;
    Ok(Box::new(move |wave| {
        let (low, high, reference) = (wave.vgpr[window], wave.vgpr[window + 1], row_of(wave, &b));
        let sums: [Row; 4] = std::array::from_fn(|i| {
            let addend = wave.vgpr[c + i];
            Row(std::array::from_fn(|lane| {
                let bytes = low.0[lane] as u64 | (high.0[lane] as u64) << 32;
                (0..4).fold(addend.0[lane], |sum, byte| {
                    let (x, y) = (
                        (bytes >> (8 * (i + byte))) as u8,
                        (reference.0[lane] >> (8 * byte)) as u8,
                    );
                    sum.wrapping_add(if y == 0 { 0 } else { x.abs_diff(y) as u32 })
                })
            }))
        });
        for (i, row) in sums.iter().enumerate() {
            write_active(wave, dst + i, row);
        }
    }))
}
