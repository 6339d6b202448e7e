//! What an instruction may carry beside its operation: neg, abs, half selection, SDWA and DPP on the way
//! in; rounding and denormal modes around the operation; omod, clamp, half and byte selection on the way out.
//!
//! Only instructions that carry something, or floating-point ones in an unusual MODE, come through here.

use super::directed::{self, Directed};
use super::kernel::{Args, Entry, MAX_ARGUMENTS};
use super::lanes::{new_scratch, Destination, LaneOp};
use super::value::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16, Kind};
use super::Unimplemented;
use crate::exec::simd::multiversion;
use crate::exec::{Mode, Row, Wave, LANES};
use crate::isa::{is_gfx90a, Dpp, Encoding, Family, Inst, LaneControl, Sdwa, SdwaSelect, Target};

/// How one source is rearranged: select, then clear the sign (abs), then flip it (neg).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceRider {
    /// 16-bit and packed kinds: which half, or which register of packed f32, each half comes from.
    select: [u8; 2],
    /// Bits kept, then bits flipped, of the low and high dword.
    and: [u32; 2],
    xor: [u32; 2],
    sdwa: SdwaSelect,
    sign_extend: bool,
    /// The half selected is converted to f32 (`v_fma_mix`).
    widen: bool,
}

const PLAIN: SourceRider = SourceRider {
    select: [0, 1],
    and: [u32::MAX; 2],
    xor: [0; 2],
    sdwa: SdwaSelect::Dword,
    sign_extend: false,
    widen: false,
};

/// Where each lane's source 0 comes from under DPP; `OUTSIDE` where no lane is meant.
struct Permutation {
    from: [u8; LANES],
    /// Lanes that the row and bank masks let through.
    enabled: u64,
    bound_ctrl: bool,
    fetch_inactive: bool,
}

const OUTSIDE: u8 = u8::MAX;

/// Everything beside the operation itself.
pub(super) struct Riders {
    target: Target,
    entry: Entry,
    /// The neg bits mean something else to this instruction: the signedness of integers.
    neg_is_sign: bool,
    pub kinds: [Kind; MAX_ARGUMENTS],
    sources: [SourceRider; MAX_ARGUMENTS],
    permutation: Option<Permutation>,
    /// The operation under rounding modes other than nearest-even.
    directed: Option<Directed>,
    clamp: bool,
    omod: u8,
    /// The result goes to the high half.
    high_half: bool,
    sdwa: Option<(SdwaSelect, u8)>,
}

impl Riders {
    pub fn new(target: Target, entry: Entry, neg_is_sign: bool) -> Riders {
        Riders {
            target,
            neg_is_sign,
            entry,
            kinds: [Kind::B32; MAX_ARGUMENTS],
            sources: [PLAIN; MAX_ARGUMENTS],
            permutation: None,
            directed: None,
            clamp: false,
            omod: 0,
            high_half: false,
            sdwa: None,
        }
    }

    /// Take the modifiers of source `place` for argument `index`.
    pub fn source(&mut self, index: usize, place: usize, inst: &Inst) {
        let kind = self.kinds[index];
        let rider = &mut self.sources[index];
        let bit = |mask: u8| mask >> place & 1;
        // Only VOP3P chooses halves: `v_dot2c_f32_f16` in VOP2 takes both, the low one first.
        let halves = match inst.encoding {
            Encoding::VOP3P => [bit(inst.mods.op_sel), bit(inst.mods.op_sel_hi)],
            _ => [0, 1],
        };
        let (neg, abs) = (bit(inst.mods.neg) == 1, bit(inst.mods.abs) == 1);
        match kind {
            Kind::Mask => {}
            Kind::PackedF16 | Kind::PackedBf16 | Kind::PackedB16 => {
                rider.select = halves;
                if kind != Kind::PackedB16 {
                    rider.xor[0] = (neg as u32) << 15 | (bit(inst.mods.neg_hi) as u32) << 31;
                }
            }
            Kind::PackedB32 => {
                rider.select = halves;
            }
            Kind::PackedF32 => {
                rider.select = halves;
                rider.xor = [(neg as u32) << 31, (bit(inst.mods.neg_hi) as u32) << 31];
            }
            _ => {
                let (dword, sign) = match kind {
                    Kind::F16 | Kind::Bf16 | Kind::B16 => (0, 1 << 15),
                    Kind::F64 | Kind::I64 | Kind::U64 => (1, 1 << 31),
                    _ => (0, 1u32 << 31),
                };
                if kind.is_half() {
                    rider.select[0] = bit(inst.mods.op_sel);
                }
                if abs {
                    rider.and[dword] = !sign;
                }
                if neg {
                    rider.xor[dword] = sign;
                }
            }
        }
        if self.neg_is_sign {
            rider.xor = [0; 2];
        }
        if let (LaneControl::Sdwa(Sdwa { src, sext, .. }), true) = (&inst.lane, place < 2) {
            if kind != Kind::Mask {
                rider.sdwa = src[place];
                rider.sign_extend = sext >> place & 1 == 1;
            }
        }
    }

    /// A source of `v_fma_mix`: with its `op_sel_hi` bit an f16 in the half that `op_sel` says, else an f32.
    pub fn mixed(&mut self, index: usize, place: usize, inst: &Inst) -> Kind {
        self.sources[index].widen = inst.mods.op_sel_hi >> place & 1 == 1;
        if self.sources[index].widen {
            Kind::F16
        } else {
            Kind::F32
        }
    }

    /// The destination's value before is read from the half that is written.
    pub fn accumulator(&mut self, index: usize, inst: &Inst) {
        if self.kinds[index].is_half() && inst.mods.op_sel & 8 != 0 {
            self.sources[index].select[0] = 1;
        }
    }

    /// Take what concerns the whole instruction.
    pub fn finish(
        &mut self,
        name: &str,
        inst: &Inst,
        write: &mut u32,
    ) -> Result<(), Unimplemented> {
        self.directed = directed::find(name);
        let float = self
            .entry
            .value
            .is_some_and(|kind| kind.is_float() || matches!(kind, Kind::Bf16 | Kind::PackedBf16));
        self.clamp = inst.mods.clamp && float;
        self.omod = inst.mods.omod;
        if self.entry.value.is_some_and(Kind::is_half) {
            let hi_form = name.contains("mixhi_");
            self.high_half = inst.mods.op_sel & 8 != 0 || hi_form;
            if self.high_half {
                // Choosing a half always keeps the other.
                *write = 0xffff;
            }
        }
        self.eight_bit_places(name, inst);
        match &inst.lane {
            LaneControl::None => {}
            LaneControl::Sdwa(sdwa) => {
                if self.entry.value.is_some() && sdwa.dst != SdwaSelect::Dword {
                    if self.entry.value.is_some_and(|kind| kind.dwords() == 2) {
                        return Err(Unimplemented::new(format!(
                            "{name}: SDWA on part of a 64-bit result"
                        )));
                    }
                    self.sdwa = Some((sdwa.dst, sdwa.dst_unused));
                }
            }
            LaneControl::Dpp(dpp) => self.permutation = Some(permutation(self.target, dpp)?),
            LaneControl::Dpp8 {
                lanes,
                fetch_inactive,
            } => {
                self.permutation = Some(Permutation {
                    from: std::array::from_fn(|lane| (lane & !7) as u8 + (lanes[lane & 7] & 7)),
                    enabled: u64::MAX,
                    bound_ctrl: true,
                    fetch_inactive: *fetch_inactive,
                });
            }
        }
        Ok(())
    }

    /// Eight-bit floats use op_sel to pick a byte or word of the source, or the byte written.
    fn eight_bit_places(&mut self, name: &str, inst: &Inst) {
        const BYTES: [SdwaSelect; 4] = [
            SdwaSelect::Byte0,
            SdwaSelect::Byte1,
            SdwaSelect::Byte2,
            SdwaSelect::Byte3,
        ];
        let op_sel = inst.mods.op_sel as usize;
        let plain = inst.lane == LaneControl::None;
        match name {
            // The byte's number with its bits swapped, as GFX12 encodes it.
            "v_cvt_f32_fp8" | "v_cvt_f32_bf8" if plain => {
                self.sources[0].sdwa = BYTES[(op_sel & 1) << 1 | op_sel >> 1 & 1];
            }
            "v_cvt_pk_f32_fp8" | "v_cvt_pk_f32_bf8" if plain && op_sel & 1 != 0 => {
                self.sources[0].sdwa = SdwaSelect::Word1;
            }
            "v_cvt_sr_fp8_f32" | "v_cvt_sr_bf8_f32" => {
                self.sdwa = Some((BYTES[op_sel >> 2 & 3], 2));
            }
            _ => {}
        }
    }

    /// Whether anything is present.
    pub fn any(&self) -> bool {
        let sources_plain = self.sources.iter().all(|rider| *rider == PLAIN);
        !sources_plain || self.permutation.is_some() || self.output()
    }

    /// Whether nothing but sources is modified.
    pub fn only_sources(&self) -> bool {
        self.permutation.is_none() && !self.output()
    }

    fn output(&self) -> bool {
        self.clamp || self.omod != 0 || self.high_half || self.sdwa.is_some()
    }
}

/// DPP_CTRL (GFX9 and GFX10+ manuals, "DPP").
fn permutation(target: Target, dpp: &Dpp) -> Result<Permutation, Unimplemented> {
    let amount = (dpp.ctrl & 15) as usize;
    let gfx9 = target.family() == Family::Cdna;
    let unknown = || Unimplemented::new(format!("DPP control {:#x} on {target}", dpp.ctrl));
    let lane_from = |f: &dyn Fn(usize) -> Option<usize>| -> [u8; LANES] {
        std::array::from_fn(|lane| f(lane).filter(|&l| l < LANES).map_or(OUTSIDE, |l| l as u8))
    };
    let row_of = |lane: usize| lane & !15;
    let from = match dpp.ctrl {
        0..=0xff => {
            lane_from(&|lane| Some((lane & !3) + (dpp.ctrl as usize >> (2 * (lane & 3)) & 3)))
        }
        0x101..=0x10f => {
            lane_from(&|lane| Some(lane + amount).filter(|l| row_of(*l) == row_of(lane)))
        }
        0x111..=0x11f => lane_from(&|lane| {
            lane.checked_sub(amount)
                .filter(|l| row_of(*l) == row_of(lane))
        }),
        0x121..=0x12f => lane_from(&|lane| Some(row_of(lane) + ((lane & 15) + 16 - amount) % 16)),
        0x130 if gfx9 => lane_from(&|lane| Some(lane + 1)),
        0x134 if gfx9 => lane_from(&|lane| Some((lane + 1) % LANES)),
        0x138 if gfx9 => lane_from(&|lane| lane.checked_sub(1)),
        0x13c if gfx9 => lane_from(&|lane| Some((lane + LANES - 1) % LANES)),
        0x140 => lane_from(&|lane| Some(lane ^ 15)),
        0x141 => lane_from(&|lane| Some(lane ^ 7)),
        0x142 if gfx9 => lane_from(&|lane| row_of(lane).checked_sub(1)),
        0x143 if gfx9 => lane_from(&|lane| Some(31).filter(|_| lane >= 32)),
        // GFX90A calls it row_newbcast, GFX10 and later row_share.
        0x150..=0x15f if !gfx9 || is_gfx90a(target) => {
            lane_from(&|lane| Some(row_of(lane) + amount))
        }
        0x160..=0x16f if !gfx9 => lane_from(&|lane| Some(lane ^ amount)),
        _ => return Err(unknown()),
    };
    let mut enabled = 0u64;
    for lane in 0..LANES {
        let row = dpp.row_mask as usize >> (lane / 16) & 1;
        let bank = dpp.bank_mask as usize >> (lane / 4 % 4) & 1;
        enabled |= ((row & bank) as u64) << lane;
    }
    Ok(Permutation {
        from,
        enabled,
        bound_ctrl: dpp.bound_ctrl,
        fetch_inactive: dpp.fetch_inactive,
    })
}

fn expanded(mask: u64) -> Row {
    let mut row = Row::ZERO;
    spread_mask(&mut row, mask);
    row
}

impl LaneOp {
    /// Execute with modifiers on sources alone.
    ///
    /// # Safety
    /// The wave has at least `self.vgprs` and `self.agprs` registers.
    pub(super) unsafe fn run_with_sources(&self, wave: &mut Wave) {
        let mut fetched = new_scratch();
        let mut prepared = new_scratch();
        let mut args = self.args(wave);
        for (index, (fetched, prepared)) in fetched
            .iter_mut()
            .zip(&mut prepared)
            .enumerate()
            .take(self.count as usize)
        {
            let pointer = self.fetch(index, wave, fetched);
            let rider = &self.riders.sources[index];
            args.src[index] = if *rider == PLAIN {
                pointer
            } else {
                let rows = prepared.write([Row::ZERO; 2]);
                // SAFETY: a source of this kind has the rows.
                unsafe { rider.apply(self.riders.kinds[index], pointer.cast(), rows) };
                rows.as_ptr().cast()
            };
        }
        // SAFETY: as in `run`.
        unsafe { (self.kernel)(&mut args) };
        self.write_masks(wave, args.mask & wave.exec());
    }

    /// Execute with modifiers or an unusual MODE.
    ///
    /// # Safety
    /// The wave has at least `self.vgprs` and `self.agprs` registers.
    #[inline(never)]
    pub(super) unsafe fn run_general(&self, wave: &mut Wave) {
        let riders = &*self.riders;
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
        let mut src = [std::ptr::null(); MAX_ARGUMENTS];
        for index in 0..self.count as usize {
            let pointer = self.fetch(index, wave, &mut fetched[index]);
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
            flush(kind, &mode, 1, rows);
            if rider.widen {
                let narrow = rows[0];
                widen(&mut rows[0], &narrow, 0, u32::MAX, 0);
            }
            src[index] = rows.as_ptr().cast();
        }

        let dst = self.dst_pointer(wave);
        let value = riders.entry.value;
        let dwords = value.map_or(0, Kind::dwords);
        let mut result = [Row::ZERO; 2];
        for (dword, row) in result.iter_mut().enumerate().take(dwords) {
            if let Destination::Scalar(register) = self.dst {
                row.0.fill(register.read(wave));
                continue;
            }
            // SAFETY: the destination has that many rows.
            *row = unsafe { *dst.cast::<Row>().add(dword) };
        }
        let old = result;
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
            _ => unsafe { (self.kernel)(&mut args) },
        }

        if let Some(kind) = value {
            flush(kind, &mode, 2, &mut result);
            riders.omod(kind, wave, &mut result);
            if riders.clamp {
                clamp(
                    kind,
                    mode.dx10_clamp || wave.target.family() == Family::Rdna4,
                    &mut result,
                );
            }
            let mut write = self.write;
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
            let active_row = expanded(active);
            if let Destination::Scalar(register) = self.dst {
                // EXEC does not matter to a scalar result.
                let value = old[0].0[0] & !write | result[0].0[0] & write;
                register.write(wave, value);
                return;
            }
            for dword in 0..dwords {
                // SAFETY: the destination has that many rows; `old` and `result` are copies.
                let row = unsafe { &mut *dst.cast::<Row>().add(dword) };
                for lane in 0..LANES {
                    let written = active_row.0[lane] & write;
                    row.0[lane] = old[dword].0[lane] & !written | result[dword].0[lane] & written;
                }
            }
        }
        self.write_masks(wave, args.mask & active);
    }
}

impl Permutation {
    /// Lanes whose source lane exists and may be read.
    fn valid_lanes(&self, wave: &Wave) -> u64 {
        let readable = if self.fetch_inactive {
            wave.lane_mask()
        } else {
            wave.exec()
        };
        let mut valid = 0;
        for (lane, &from) in self.from.iter().enumerate() {
            if from != OUTSIDE && readable >> from & 1 == 1 {
                valid |= 1u64 << lane;
            }
        }
        valid
    }

    /// Permute, with zero from invalid lanes.
    fn apply(&self, row: &mut Row, valid: u64) {
        let source = *row;
        for (lane, &from) in self.from.iter().enumerate() {
            row.0[lane] = if valid >> lane & 1 == 1 {
                source.0[from as usize & (LANES - 1)]
            } else {
                0
            };
        }
    }
}

impl SourceRider {
    /// SDWA: replace each dword by the selected part of it, extended.
    fn select_field(&self, row: &mut Row) {
        if self.sdwa == SdwaSelect::Dword {
            return;
        }
        let (shift, bits) = sdwa_field(self.sdwa);
        for value in &mut row.0 {
            let left = *value << (32 - shift - bits);
            *value = if self.sign_extend {
                (left as i32 >> (32 - bits)) as u32
            } else {
                left >> (32 - bits)
            };
        }
    }

    /// Read a source into `to` as the operation is to see it.
    ///
    /// # Safety
    /// `from` has as many rows as the kind takes.
    unsafe fn apply(&self, kind: Kind, from: *const Row, to: &mut [Row; 2]) {
        let mut selected;
        // SAFETY: the caller's promise.
        let row = |dword: usize| unsafe { &*from.add(dword) };
        let mut first = row(0);
        if self.sdwa != SdwaSelect::Dword {
            selected = *first;
            self.select_field(&mut selected);
            first = &selected;
        }
        let [low, high] = self.select.map(|select| 16 * select as u32);
        let [and, and_high] = self.and;
        let [xor, xor_high] = self.xor;
        match kind {
            Kind::F16 if self.widen => widen(&mut to[0], first, low, and, xor),
            Kind::F16 | Kind::Bf16 | Kind::B16 => half(&mut to[0], first, low, and, xor),
            Kind::PackedF16 | Kind::PackedBf16 | Kind::PackedB16 => {
                halves(&mut to[0], first, low, high, xor);
            }
            Kind::PackedF32 | Kind::PackedB32 => {
                sign(&mut to[0], row(self.select[0] as usize & 1), and, xor);
                sign(
                    &mut to[1],
                    row(self.select[1] as usize & 1),
                    and_high,
                    xor_high,
                );
            }
            _ => {
                sign(&mut to[0], first, and, xor);
                if kind.dwords() == 2 {
                    sign(&mut to[1], row(1), and_high, xor_high);
                }
            }
        }
    }
}

fn sdwa_field(select: SdwaSelect) -> (u32, u32) {
    match select {
        SdwaSelect::Byte0 => (0, 8),
        SdwaSelect::Byte1 => (8, 8),
        SdwaSelect::Byte2 => (16, 8),
        SdwaSelect::Byte3 => (24, 8),
        SdwaSelect::Word0 => (0, 16),
        SdwaSelect::Word1 => (16, 16),
        SdwaSelect::Dword => (0, 32),
    }
}

/// Place the result in part of the dword; `unused` says what becomes of the rest.
fn sdwa_write(select: SdwaSelect, unused: u8, result: &mut Row, old: &Row) {
    let (shift, bits) = sdwa_field(select);
    let field = (u32::MAX >> (32 - bits)) << shift;
    for (value, old) in result.0.iter_mut().zip(&old.0) {
        let placed = *value << shift & field;
        *value = match unused {
            0 => placed,
            1 => {
                // Sign-extend above, zero below.
                let left = placed << (32 - shift - bits);
                ((left as i32 >> (32 - bits)) as u32) << shift
            }
            _ => *old & !field | placed,
        };
    }
}

multiversion! {
    /// One value in every lane.
    pub(super) fn broadcast(row: &mut Row, value: u32) {
        row.0 = [value; LANES];
    }

    /// A lane mask as a row of all-ones and zeroes.
    pub(super) fn spread_mask(row: &mut Row, mask: u64) {
        let (low, high) = (mask as u32, (mask >> 32) as u32);
        for lane in 0..32 {
            row.0[lane] = 0u32.wrapping_sub(low >> lane & 1);
            row.0[32 + lane] = 0u32.wrapping_sub(high >> lane & 1);
        }
    }

    /// abs and neg of a dword.
    fn sign(to: &mut Row, from: &Row, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = from & and ^ xor;
        }
    }

    /// A half of each dword, with abs and neg.
    fn half(to: &mut Row, from: &Row, shift: u32, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = (from >> shift) & and ^ xor;
        }
    }

    /// A half of each dword as f32.
    fn widen(to: &mut Row, from: &Row, shift: u32, and: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = f16_to_f32(((from >> shift) & and ^ xor) as u16).to_bits();
        }
    }

    /// Two halves, each from either half.
    fn halves(to: &mut Row, from: &Row, low: u32, high: u32, xor: u32) {
        for (to, from) in to.0.iter_mut().zip(&from.0) {
            *to = (from >> low & 0xffff | (from >> high) << 16) ^ xor;
        }
    }

    fn flush_f32(row: &mut Row) {
        for value in &mut row.0 {
            if *value & 0x7f80_0000 == 0 {
                *value &= 0x8000_0000;
            }
        }
    }

    fn flush_f16(row: &mut Row, both: bool) {
        for value in &mut row.0 {
            let low = if *value & 0x7c00 == 0 { 0x8000 } else { 0xffff };
            let high = if both && *value & 0x7c00_0000 == 0 { 0x8000_0000 } else { 0xffff_0000 };
            *value &= low | high;
        }
    }

    fn flush_f64(low: &mut Row, high: &mut Row) {
        for (low, high) in low.0.iter_mut().zip(&mut high.0) {
            if *high & 0x7ff0_0000 == 0 {
                *low = 0;
                *high &= 0x8000_0000;
            }
        }
    }
}

/// Replace denormals by zeroes of the same sign unless MODE keeps them; `side` is the mode's bit: 1 for
/// inputs, 2 for outputs.
fn flush(kind: Kind, mode: &Mode, side: u8, rows: &mut [Row; 2]) {
    let (keeps_f32, keeps_others) = (mode.denorm_f32 & side != 0, mode.denorm_f64_f16 & side != 0);
    match kind {
        Kind::F32 if !keeps_f32 => flush_f32(&mut rows[0]),
        Kind::PackedF32 if !keeps_f32 => rows.iter_mut().for_each(flush_f32),
        Kind::F16 if !keeps_others => flush_f16(&mut rows[0], false),
        Kind::PackedF16 if !keeps_others => flush_f16(&mut rows[0], true),
        Kind::F64 if !keeps_others => {
            let [low, high] = rows;
            flush_f64(low, high);
        }
        _ => {}
    }
}

/// Apply `f` to every floating-point value of the result.
fn map_float(kind: Kind, rows: &mut [Row; 2], f: impl Fn(f64) -> f64) {
    let single = |bits: u32| (f(f32::from_bits(bits) as f64) as f32).to_bits();
    let half = |bits: u16| f32_to_f16(f(f16_to_f32(bits) as f64) as f32);
    let brain = |bits: u16| f32_to_bf16(f(bf16_to_f32(bits) as f64) as f32);
    let [low, high] = rows;
    for (low, high) in low.0.iter_mut().zip(&mut high.0) {
        match kind {
            Kind::F32 => *low = single(*low),
            Kind::PackedF32 => (*low, *high) = (single(*low), single(*high)),
            Kind::F64 => {
                let value = f(f64::from_bits(*low as u64 | (*high as u64) << 32)).to_bits();
                (*low, *high) = (value as u32, (value >> 32) as u32);
            }
            Kind::F16 => *low = half(*low as u16) as u32,
            Kind::PackedF16 => {
                *low = half(*low as u16) as u32 | (half((*low >> 16) as u16) as u32) << 16;
            }
            Kind::Bf16 => *low = brain(*low as u16) as u32,
            Kind::PackedBf16 => {
                *low = brain(*low as u16) as u32 | (brain((*low >> 16) as u16) as u32) << 16;
            }
            _ => {}
        }
    }
}

/// Clamp to 0..=1. NaN becomes zero with DX10_CLAMP, and stays otherwise.
fn clamp(kind: Kind, nan_to_zero: bool, rows: &mut [Row; 2]) {
    map_float(kind, rows, |value| {
        if value.is_nan() {
            if nan_to_zero {
                0.0
            } else {
                value
            }
        } else if value > 0.0 {
            value.min(1.0)
        } else {
            0.0
        }
    });
}

impl Riders {
    /// Multiply the result by 2, 4 or 1/2; -0 becomes +0. The hardware ignores the modifier where the result's
    /// denormals are kept, and in IEEE mode.
    fn omod(&self, kind: Kind, wave: &Wave, rows: &mut [Row; 2]) {
        let denorm = match kind {
            Kind::F32 | Kind::PackedF32 => wave.mode.denorm_f32,
            _ => wave.mode.denorm_f64_f16,
        };
        let ieee = wave.mode.ieee && wave.target.family() != Family::Rdna4;
        if self.omod == 0 || denorm & 2 != 0 || ieee {
            return;
        }
        let factor = [1.0, 2.0, 4.0, 0.5][self.omod as usize & 3];
        map_float(kind, rows, |value| value * factor);
        flush(kind, &wave.mode, 2, rows);
        // A sum with +0 is never -0.
        map_float(kind, rows, |value| value + 0.0);
    }
}
