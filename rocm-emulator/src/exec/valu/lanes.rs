//! Instructions that do the same in every lane: fetch, compute, write the active lanes.

use super::kernel::{Entry, MAX_ARGUMENTS};
use super::lane_op::{new_scratch, Destination, LaneOp};
use super::lowering::Unimplemented;
use super::operand::{ScalarReg, Source};
use super::riders::Riders;
use super::value::{Kind, Slot};
use super::{general, tables};
use crate::exec::wave::Wave;
use crate::isa::{Architecture, Family, Inst, Operand, Special, Target};

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

/// 16-bit instructions of GFX9 that keep the other half of the destination, as all of GFX10 and later do
/// (Vega ISA manual: "the high 16 bits are preserved"); the others of GFX9 zero it.
const GFX9_KEEPS_OTHER_HALF: &[&str] = &[
    "v_mad_f16",
    "v_mad_u16",
    "v_mad_i16",
    "v_fma_f16",
    "v_div_fixup_f16",
    "v_add_i16",
    "v_sub_i16",
    "v_min3_f16",
    "v_max3_f16",
    "v_med3_f16",
    "v_min3_i16",
    "v_max3_i16",
    "v_med3_i16",
    "v_min3_u16",
    "v_max3_u16",
    "v_med3_u16",
    "v_mad_mixlo_f16",
    "v_mad_mixhi_f16",
    "v_fma_mixlo_f16",
    "v_fma_mixhi_f16",
    "v_cvt_pk_fp8_f32",
    "v_cvt_pk_bf8_f32",
    "v_ashr_pk_i8_i32",
    "v_ashr_pk_u8_i32",
];

/// The name by which the tables know an instruction: dual-issue halves are ordinary instructions, and
/// `v_cmpx` computes what `v_cmp` does.
fn table_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("v_dual_") {
        format!("v_{rest}")
    } else if let Some(rest) = name.strip_prefix("v_cmpx_") {
        format!("v_cmp_{rest}")
    } else {
        name.to_string()
    }
}

/// Lower an instruction of the tables.
pub(super) fn lower(target: Target, inst: &Inst) -> Result<LaneOp, Unimplemented> {
    let name = table_name(inst.op.name);
    let entry = find(target, &name, inst)?;
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
        riders: Box::new(Riders::new(target, entry, name.contains("_iu"))),
        vgprs: 0,
        agprs: 0,
    };
    lower_sources(&mut op, &entry, inst)?;
    if let Some(kind) = entry.value {
        lower_destination(&mut op, kind, &name, target, inst)?;
    }
    if entry.mask {
        lower_mask(&mut op, &entry, target, inst)?;
    }
    op.riders.finish(&name, inst, &mut op.write)?;
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
    name: &str,
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
            let scalar = match name.starts_with("v_s_") {
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
        let zeroes_rest = target.family() == Family::Cdna && !GFX9_KEEPS_OTHER_HALF.contains(&name);
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
    if inst.op.name.starts_with("v_cmpx_") {
        // GFX9 writes the mask to both; GFX10 and later to EXEC alone.
        if target.family() != Family::Cdna {
            op.mask[0] = None;
        }
        op.mask[1] = Some(ScalarReg::Named(Special::ExecLo));
    }
    Ok(())
}

/// The table's row; integer instructions with `clamp` have rows of their own, which saturate.
fn find(target: Target, name: &str, inst: &Inst) -> Result<Entry, Unimplemented> {
    let name = match inst.op.name {
        // Of these the neg bits say which sources are signed.
        "v_dot4_i32_iu8" | "v_dot8_i32_iu4" => {
            let signs = ["uu", "su", "us", "ss"][inst.mods.neg as usize & 3];
            &format!("{name} {signs}")
        }
        // CDNA3's eight-bit floats are encoded otherwise than CDNA4's and GFX12's.
        _ if target.architecture() == Architecture::Cdna3
            && (name.contains("fp8") || name.contains("bf8")) =>
        {
            &format!("{name} fnuz")
        }
        _ => name,
    };
    let entry = tables::find(name)
        .ok_or_else(|| Unimplemented::new(format!("{}: no semantics", inst.op.name)))?;
    let float_result = entry
        .value
        .is_some_and(|kind| kind.is_float() || matches!(kind, Kind::Bf16 | Kind::PackedBf16));
    if !inst.mods.clamp || float_result || entry.value.is_none() {
        return Ok(entry);
    }
    tables::find(&format!("{name} clamp"))
        .ok_or_else(|| Unimplemented::new(format!("{}: no semantics with clamp", inst.op.name)))
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
