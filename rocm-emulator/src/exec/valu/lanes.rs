//! Instructions that do the same in every lane: fetch, compute, write the active lanes.

use std::mem::MaybeUninit;

use super::kernel::{Args, Entry, Kernel, MAX_ARGUMENTS};
use super::operand::{ScalarReg, Source};
use super::riders::{self, Riders};
use super::tables;
use super::value::{Kind, Slot};
use super::Unimplemented;
use crate::exec::{Row, Wave, LANES};
use crate::isa::{Architecture, Family, Inst, Operand, Special, Target};

/// Where the vector result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    None,
    Vgpr(u16),
    Agpr(u16),
    /// A scalar result (`v_s_exp_f32` and its kind): lane 0 of a row that no register holds.
    Scalar(ScalarReg),
}

/// One lowered instruction.
pub(super) struct LaneOp {
    pub kernel: Kernel,
    pub sources: [Source; MAX_ARGUMENTS],
    pub count: u8,
    pub dst: Destination,
    /// Bits of the destination's dwords that are written.
    pub write: u32,
    /// Scalar destinations of the lane mask.
    pub mask: [Option<ScalarReg>; 2],
    /// Sources are modified.
    pub modified: bool,
    /// More than sources is modified: always take the general path.
    pub general: bool,
    /// MODE's rounding and denormal fields matter.
    pub float: bool,
    pub riders: Box<Riders>,
    /// Registers used.
    pub vgprs: usize,
    pub agprs: usize,
}

/// Room for operands that are not registers, one pair of rows an argument.
pub(super) type Scratch = [MaybeUninit<[Row; 2]>; MAX_ARGUMENTS];

pub(super) fn new_scratch() -> Scratch {
    [const { MaybeUninit::uninit() }; MAX_ARGUMENTS]
}

impl LaneOp {
    /// Execute.
    ///
    /// # Safety
    /// The wave has at least `self.vgprs` and `self.agprs` registers.
    #[inline]
    pub unsafe fn run(&self, wave: &mut Wave) {
        let mode = &wave.mode;
        let plain_mode =
            mode.round_f32 | mode.round_f64_f16 == 0 && mode.denorm_f32 & mode.denorm_f64_f16 == 3;
        if self.general || (self.float && !plain_mode) {
            // SAFETY: the caller's promise.
            unsafe { self.run_general(wave) };
            return;
        }
        if self.modified {
            // SAFETY: the caller's promise.
            unsafe { self.run_with_sources(wave) };
            return;
        }
        let mut scratch = new_scratch();
        let mut args = self.args(wave);
        for (index, scratch) in scratch.iter_mut().enumerate().take(self.count as usize) {
            args.src[index] = self.fetch(index, wave, scratch);
        }
        // SAFETY: the sources have the rows that the entry's slots ask for, and the destination exists or
        // the kernel writes none.
        unsafe { (self.kernel)(&mut args) };
        self.write_masks(wave, args.mask & wave.exec());
    }

    /// Arguments without sources.
    #[inline(always)]
    pub fn args(&self, wave: &mut Wave) -> Args {
        Args {
            src: [std::ptr::null(); MAX_ARGUMENTS],
            dst: self.dst_pointer(wave),
            write: self.write,
            exec: wave.exec_row().0.as_ptr(),
            full: wave.exec_full(),
            lanes: wave.lanes as usize,
            mask: 0,
        }
    }

    /// Pointer to the destination's first row; null if there is none.
    pub fn dst_pointer(&self, wave: &mut Wave) -> *mut u32 {
        match self.dst {
            Destination::None | Destination::Scalar(_) => std::ptr::null_mut(),
            // Through the slice's own pointer, so that the rows after the first are in reach.
            Destination::Vgpr(first) => wave.vgpr[first as usize..].as_mut_ptr().cast(),
            Destination::Agpr(first) => wave.agpr[first as usize..].as_mut_ptr().cast(),
        }
    }

    /// Pointer to a source's first row.
    #[inline(always)]
    pub fn fetch(
        &self,
        index: usize,
        wave: &Wave,
        scratch: &mut MaybeUninit<[Row; 2]>,
    ) -> *const u32 {
        match &self.sources[index] {
            Source::Vgpr(first) => wave.vgpr[*first as usize..].as_ptr().cast(),
            Source::Agpr(first) => wave.agpr[*first as usize..].as_ptr().cast(),
            Source::Rows(rows) => rows.as_ptr().cast(),
            Source::Nothing => std::ptr::null(),
            Source::Ieee => {
                static ROWS: [Row; 2] = [Row::ZERO, Row([u32::MAX; LANES])];
                // GFX12 has no such bit; its min and max always return the number.
                let ieee = wave.mode.ieee && wave.target.family() != Family::Rdna4;
                ROWS[ieee as usize].0.as_ptr()
            }
            Source::Scalar(register) => {
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: the scratch has room for two rows, and any bits are a row.
                riders::broadcast(unsafe { &mut *row }, register.read(wave));
                row.cast_const().cast()
            }
            Source::ScalarExtended(register) => {
                let rows = scratch.write([Row([register.read(wave); LANES]), Row::ZERO]);
                rows.as_ptr().cast()
            }
            Source::ScalarPair(register) => {
                let value = register.read_pair(wave);
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: as above.
                unsafe {
                    riders::broadcast(&mut *row, value as u32);
                    riders::broadcast(&mut *row.add(1), (value >> 32) as u32);
                }
                row.cast_const().cast()
            }
            Source::Mask(ScalarReg::Named(Special::ExecLo)) => wave.exec_row().0.as_ptr(),
            Source::Mask(register) => {
                let mask = register.read_mask(wave);
                let row = scratch.as_mut_ptr().cast::<Row>();
                // SAFETY: the scratch has room for two rows, and any bits are a row.
                riders::spread_mask(unsafe { &mut *row }, mask);
                row.cast_const().cast()
            }
        }
    }

    /// Write the lane mask to its scalar destinations.
    pub fn write_masks(&self, wave: &mut Wave, mask: u64) {
        for register in self.mask.iter().flatten() {
            register.write_mask(wave, mask);
        }
    }
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
    let exec = ScalarReg::Named(Special::ExecLo);
    let vcc = ScalarReg::Named(Special::VccLo);

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

    let mut next = 0;
    let mut sources_read = 0;
    for (index, slot) in entry.slots.iter().enumerate() {
        let (operand, kind, modifiers) = match *slot {
            Slot::Lane => continue,
            Slot::Ieee => {
                op.sources[index] = Source::Ieee;
                op.riders.kinds[index] = Kind::Mask;
                continue;
            }
            Slot::Destination(kind) => (inst.dst[0], kind, None),
            Slot::Source(kind) => {
                let mut operand = inst.src.get(next).copied().unwrap_or(Operand::None);
                if kind == Kind::Mask && operand == Operand::None {
                    operand = Operand::Special {
                        reg: Special::VccLo,
                        dwords: 2,
                    };
                }
                let place = next;
                next += 1;
                sources_read = next;
                (operand, kind, Some(place))
            }
        };
        let kind = match (kind, modifiers) {
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
        match modifiers {
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

    if let Some(kind) = entry.value {
        (op.dst, op.vgprs, op.agprs) = match inst.dst[0] {
            Operand::Vgpr { first, .. } => (
                Destination::Vgpr(first),
                op.vgprs.max(first as usize + kind.dwords()),
                op.agprs,
            ),
            Operand::Agpr { first, .. } => (
                Destination::Agpr(first),
                op.vgprs,
                op.agprs.max(first as usize + kind.dwords()),
            ),
            operand if name.starts_with("v_s_") && ScalarReg::of(operand)?.is_some() => {
                let register = ScalarReg::of(operand)?;
                (
                    register.map_or(Destination::None, Destination::Scalar),
                    op.vgprs,
                    op.agprs,
                )
            }
            other => {
                return Err(Unimplemented::new(format!(
                    "{}: {other:?} as the destination",
                    inst.op.name
                )))
            }
        };
        op.float |= kind.is_float();
        if kind.is_half() {
            let zeroes_rest =
                target.family() == Family::Cdna && !GFX9_KEEPS_OTHER_HALF.contains(&&*name);
            op.write = if zeroes_rest { u32::MAX } else { 0xffff };
        }
    }
    if entry.mask {
        let place = usize::from(entry.value.is_some());
        let scalar = match inst.dst[place] {
            Operand::None => Some(vcc),
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
            op.mask[1] = Some(exec);
        }
    }
    op.riders.finish(&name, inst, &mut op.write)?;
    op.modified = op.riders.any();
    let scalar = matches!(op.dst, Destination::Scalar(_));
    op.general = !op.riders.only_sources() || scalar;
    Ok(op)
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
