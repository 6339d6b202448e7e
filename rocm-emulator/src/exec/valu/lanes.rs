//! Instructions that do the same in every lane: fetch, compute, write the active lanes.

use super::kernel::{Entry, MAX_ARGUMENTS};
use super::lane_op::{new_scratch, Destination, LaneOp};
use super::lowering::Unimplemented;
use super::operand::{ScalarReg, Source};
use super::riders::Riders;
use super::tables::Variant;
use super::value::{Kind, Slot};
use super::{general, tables};
use crate::exec::wave::Wave;
use crate::isa::{Architecture, Family, Inst, Operand, Special, Target, Traits};

/// Execute.
///
/// # Safety
/// The wave has at least `op.vgprs` and `op.agprs` registers.
#[inline]
pub(super) unsafe fn run(op: &LaneOp, wave: &mut Wave) {
    let mode = &wave.mode;
    let plain_mode =
        mode.round_f32 | mode.round_f64_f16 == 0 && mode.denorm_f32 & mode.denorm_f64_f16 == 3;
    if op.general || (op.float && !plain_mode) {
        // SAFETY: the caller's promise.
        unsafe { general::run(op, wave) };
        return;
    }
    if op.modified {
        // SAFETY: the caller's promise.
        unsafe { general::run_with_sources(op, wave) };
        return;
    }
    let mut scratch = new_scratch();
    let mut args = op.args(wave);
    for (index, scratch) in scratch.iter_mut().enumerate().take(op.count as usize) {
        args.src[index] = op.fetch(index, wave, scratch);
    }
    // SAFETY: the sources have the rows that the entry's slots ask for, and the destination exists or
    // the kernel writes none.
    unsafe { (op.kernel)(&mut args) };
    op.write_masks(wave, args.mask & wave.exec());
}

/// Lower an instruction of the tables.
pub(super) fn lower(target: Target, inst: &Inst) -> Result<LaneOp, Unimplemented> {
    let entry = find(target, inst)?;
    let columns = &inst.op.columns;
    let mut op = LaneOp {
        kernel: entry.kernel,
        sources: [const { Source::Nothing }; MAX_ARGUMENTS],
        count: entry.slots.len() as u8,
        dst: Destination::None,
        write: u32::MAX,
        mask: [None; 2],
        modified: false,
        general: false,
        float: false,
        riders: Box::new(Riders::new(
            target,
            entry,
            columns.has(Traits::SIGNED_BY_NEG),
        )),
        vgprs: 0,
        agprs: 0,
    };
    lower_sources(&mut op, &entry, inst)?;
    if let Some(kind) = entry.value {
        lower_destination(&mut op, kind, target, inst)?;
    }
    if entry.mask {
        lower_mask(&mut op, &entry, target, inst)?;
    }
    op.riders.finish(inst, &mut op.write)?;
    op.modified = op.riders.any();
    let scalar = matches!(op.dst, Destination::Scalar(_));
    op.general = !op.riders.only_sources() || scalar;
    Ok(op)
}

/// Resolve the operands that the entry's slots read.
fn lower_sources(op: &mut LaneOp, entry: &Entry, inst: &Inst) -> Result<(), Unimplemented> {
    let mut sources_read = 0;
    for (index, slot) in entry.slots.iter().enumerate() {
        let (operand, kind, place) = match *slot {
            Slot::Lane => continue,
            Slot::Ieee => {
                op.sources[index] = Source::Ieee;
                op.riders.kinds[index] = Kind::Mask;
                continue;
            }
            Slot::Destination(kind) => (inst.dst[0], kind, None),
            Slot::Source(kind) => {
                let place = sources_read;
                sources_read += 1;
                let mut operand = inst.src.get(place).copied().unwrap_or(Operand::None);
                if kind == Kind::Mask && operand == Operand::None {
                    operand = Operand::Special {
                        reg: Special::VccLo,
                        dwords: 2,
                    };
                }
                (operand, kind, Some(place))
            }
        };
        let kind = match (kind, place) {
            (Kind::Mix, Some(place)) => op.riders.mixed(index, place, inst),
            _ if entry.packed => kind.packed(),
            _ => kind,
        };
        op.riders.kinds[index] = kind;
        op.float |= kind.is_float();
        op.sources[index] =
            Source::of(operand, kind).map_err(|error| in_instruction(inst, error))?;
        match op.sources[index] {
            Source::Vgpr(first) => op.vgprs = op.vgprs.max(first as usize + kind.dwords()),
            Source::Agpr(first) => op.agprs = op.agprs.max(first as usize + kind.dwords()),
            _ => {}
        }
        match place {
            Some(place) => op.riders.source(index, place, inst),
            None => op.riders.accumulator(index, inst),
        }
    }
    if sources_read < inst.src.len() && inst.src[sources_read..].iter().any(extra_source) {
        return Err(Unimplemented::new(format!(
            "{}: more sources than the operation has ({:?})",
            inst.op.name, inst.src
        )));
    }
    Ok(())
}

/// Resolve where a result of this kind goes, and which bits of it are written.
fn lower_destination(
    op: &mut LaneOp,
    kind: Kind,
    target: Target,
    inst: &Inst,
) -> Result<(), Unimplemented> {
    op.dst = match inst.dst[0] {
        Operand::Vgpr { first, .. } => {
            op.vgprs = op.vgprs.max(first as usize + kind.dwords());
            Destination::Vgpr(first)
        }
        Operand::Agpr { first, .. } => {
            op.agprs = op.agprs.max(first as usize + kind.dwords());
            Destination::Agpr(first)
        }
        operand => {
            let scalar = match inst.op.columns.has(Traits::SCALAR_RESULT) {
                true => ScalarReg::of(operand)?,
                false => None,
            };
            let register = scalar.ok_or_else(|| {
                Unimplemented::new(format!("{}: {operand:?} as the destination", inst.op.name))
            })?;
            Destination::Scalar(register)
        }
    };
    op.float |= kind.is_float();
    if kind.is_half() {
        let keeps_rest = inst.op.columns.has(Traits::KEEPS_HALF);
        let zeroes_rest = target.family() == Family::Cdna && !keeps_rest;
        op.write = if zeroes_rest { u32::MAX } else { 0xffff };
    }
    Ok(())
}

/// Resolve where the lane mask goes.
fn lower_mask(
    op: &mut LaneOp,
    entry: &Entry,
    target: Target,
    inst: &Inst,
) -> Result<(), Unimplemented> {
    let place = usize::from(entry.value.is_some());
    let scalar = match inst.dst[place] {
        Operand::None => Some(ScalarReg::Named(Special::VccLo)),
        operand => ScalarReg::of(operand).map_err(|error| in_instruction(inst, error))?,
    };
    if scalar.is_none() {
        return Err(Unimplemented::new(format!(
            "{}: {:?} as the destination of a lane mask",
            inst.op.name, inst.dst[place]
        )));
    }
    op.mask[0] = scalar;
    if inst.op.columns.has(Traits::COMPARES_EXEC) {
        // GFX9 writes the mask to both; GFX10 and later to EXEC alone.
        if target.family() != Family::Cdna {
            op.mask[0] = None;
        }
        op.mask[1] = Some(ScalarReg::Named(Special::ExecLo));
    }
    Ok(())
}

/// The table's row; integer instructions with `clamp` have rows of their own, which saturate.
fn find(target: Target, inst: &Inst) -> Result<Entry, Unimplemented> {
    let columns = &inst.op.columns;
    let is_cdna3 = target.architecture() == Architecture::Cdna3;
    let variant = match columns {
        it if it.has(Traits::SIGNED_BY_NEG) => Variant::SIGNS[usize::from(inst.mods.neg & 3)],
        it if is_cdna3 && it.has(Traits::EIGHT_BIT_FLOATS) => Variant::Fnuz,
        _ => Variant::Plain,
    };
    let missing = |what: &str| Unimplemented::new(format!("{}: {what}", inst.op.name));
    let entry =
        tables::find(&columns.row, variant, false).ok_or_else(|| missing("no semantics"))?;
    let float_result = entry
        .value
        .is_some_and(|kind| kind.is_float() || matches!(kind, Kind::Bf16 | Kind::PackedBf16));
    if !inst.mods.clamp || float_result || entry.value.is_none() {
        return Ok(entry);
    }
    tables::find(&columns.row, variant, true).ok_or_else(|| missing("no semantics with clamp"))
}

fn extra_source(operand: &Operand) -> bool {
    !matches!(
        operand,
        Operand::None
            | Operand::Special {
                reg: Special::VccLo,
                ..
            }
    )
}

fn in_instruction(inst: &Inst, error: Unimplemented) -> Unimplemented {
    Unimplemented::new(format!("{}: {}", inst.op.name, error.reason))
}
