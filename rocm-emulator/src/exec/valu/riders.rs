//! What an instruction may carry beside its operation: neg, abs, half selection, SDWA and DPP on the way
//! in; rounding and denormal modes around the operation; omod, clamp, half and byte selection on the way out.
//!
//! Only instructions that carry something, or floating-point ones in an unusual MODE, come through here.

use super::directed::Directed;
use super::dpp::{permutation, Permutation};
use super::kernel::{Entry, MAX_ARGUMENTS};
use super::lowering::Unimplemented;
use super::rows::{half, halves, sign, widen};
use super::value::Kind;
use crate::exec::wave::Row;
use crate::isa::{Encoding, Inst, LaneControl, Role, Sdwa, SdwaSelect, Target, Traits};

/// How one source is rearranged: select, then clear the sign (abs), then flip it (neg).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceRider {
    /// 16-bit and packed kinds: which half, or which register of packed f32, each half comes from.
    pub select: [u8; 2],
    /// Bits kept, then bits flipped, of the low and high dword.
    pub and: [u32; 2],
    pub xor: [u32; 2],
    pub sdwa: SdwaSelect,
    pub sign_extend: bool,
    /// The half selected is converted to f32 (`v_fma_mix`).
    pub widen: bool,
}

/// Nothing is rearranged.
pub(super) const PLAIN: SourceRider = SourceRider {
    select: [0, 1],
    and: [u32::MAX; 2],
    xor: [0; 2],
    sdwa: SdwaSelect::Dword,
    sign_extend: false,
    widen: false,
};

/// Everything beside the operation itself.
pub(super) struct Riders {
    pub target: Target,
    pub entry: Entry,
    /// The neg bits mean something else to this instruction: the signedness of integers.
    pub neg_is_sign: bool,
    pub kinds: [Kind; MAX_ARGUMENTS],
    pub sources: [SourceRider; MAX_ARGUMENTS],
    pub permutation: Option<Permutation>,
    /// The operation under rounding modes other than nearest-even.
    pub directed: Option<Directed>,
    pub clamp: bool,
    pub omod: u8,
    /// The result goes to the high half.
    pub high_half: bool,
    pub sdwa: Option<(SdwaSelect, u8)>,
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
    pub fn finish(&mut self, inst: &Inst, write: &mut u32) -> Result<(), Unimplemented> {
        let columns = &inst.op.columns;
        self.directed = columns.rounds.map(Directed::of);
        let float = self
            .entry
            .value
            .is_some_and(|kind| kind.is_float() || matches!(kind, Kind::Bf16 | Kind::PackedBf16));
        self.clamp = inst.mods.clamp && float;
        self.omod = inst.mods.omod;
        if self.entry.value.is_some_and(Kind::is_half) {
            let hi_form = columns.has(Traits::HIGH_RESULT);
            self.high_half = inst.mods.op_sel & 8 != 0 || hi_form;
            if self.high_half {
                // Choosing a half always keeps the other.
                *write = 0xffff;
            }
        }
        self.eight_bit_places(inst);
        match &inst.lane {
            LaneControl::None => {}
            LaneControl::Sdwa(sdwa) => {
                if self.entry.value.is_some() && sdwa.dst != SdwaSelect::Dword {
                    if self.entry.value.is_some_and(|kind| kind.dwords() == 2) {
                        return Err(Unimplemented::new(format!(
                            "{}: SDWA on part of a 64-bit result",
                            inst.op.name
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
                self.permutation = Some(Permutation::of_eight(lanes, *fetch_inactive));
            }
        }
        Ok(())
    }

    /// Eight-bit floats use op_sel to pick a byte or word of the source, or the byte written.
    fn eight_bit_places(&mut self, inst: &Inst) {
        const BYTES: [SdwaSelect; 4] = [
            SdwaSelect::Byte0,
            SdwaSelect::Byte1,
            SdwaSelect::Byte2,
            SdwaSelect::Byte3,
        ];
        let op_sel = inst.mods.op_sel as usize;
        let plain = inst.lane == LaneControl::None;
        match inst.op.columns.role {
            // The byte's number with its bits swapped, as GFX12 encodes it.
            Role::ByteOfSource if plain => {
                self.sources[0].sdwa = BYTES[(op_sel & 1) << 1 | op_sel >> 1 & 1];
            }
            Role::WordOfSource if plain && op_sel & 1 != 0 => {
                self.sources[0].sdwa = SdwaSelect::Word1;
            }
            Role::ByteOfResult => {
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

impl SourceRider {
    /// SDWA: replace each dword by the selected part of it, extended.
    pub fn select_field(&self, row: &mut Row) {
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
    pub unsafe fn apply(&self, kind: Kind, from: *const Row, to: &mut [Row; 2]) {
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

/// First bit and bits of the part.
pub(super) fn sdwa_field(select: SdwaSelect) -> (u32, u32) {
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
