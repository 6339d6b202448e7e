//! The types in which the tables state operations, and how each is read from and written to rows.

use std::mem::MaybeUninit;

use crate::exec::LANES;

/// How the bits of an operand are understood: decides its width, its constants and its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F16,
    Bf16,
    F32,
    F64,
    B16,
    B32,
    I64,
    U64,
    /// Two packed f16.
    PackedF16,
    /// Two packed bf16.
    PackedBf16,
    /// Two packed 16-bit integers.
    PackedB16,
    /// Two packed f32 in a register pair.
    PackedF32,
    /// A register pair of which either half may be selected.
    PackedB32,
    /// f32, or a half of a register widened to it: `op_sel_hi` decides (`v_fma_mix`). Resolved at lowering.
    Mix,
    /// A lane mask in scalar registers.
    Mask,
}

impl Kind {
    /// Registers that one value takes.
    pub fn dwords(self) -> usize {
        match self {
            Kind::F64 | Kind::I64 | Kind::U64 | Kind::PackedF32 | Kind::PackedB32 => 2,
            _ => 1,
        }
    }

    /// Whether a value takes half a register.
    pub fn is_half(self) -> bool {
        matches!(self, Kind::F16 | Kind::Bf16 | Kind::B16)
    }

    /// Whether the MODE register's floating-point fields concern it.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Kind::F16 | Kind::F32 | Kind::F64 | Kind::PackedF16 | Kind::PackedF32
        )
    }

    /// The kind of an operand of packed math whose halves are of this kind.
    pub const fn packed(self) -> Kind {
        match self {
            Kind::F16 => Kind::PackedF16,
            Kind::Bf16 => Kind::PackedBf16,
            Kind::B16 => Kind::PackedB16,
            Kind::F32 => Kind::PackedF32,
            other => other,
        }
    }
}

/// Where an argument of an operation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// The next source operand.
    Source(Kind),
    /// The destination's value before.
    Destination(Kind),
    /// The lane's number; no operand.
    Lane,
    /// MODE's IEEE bit; no operand.
    Ieee,
}

/// An argument of an operation.
pub(super) trait Argument: Copy {
    const SLOT: Slot;

    /// The lane's value.
    ///
    /// # Safety
    /// `row` points to as many rows as the kind takes dwords, and `lane` is below [`LANES`].
    unsafe fn load(row: *const u32, lane: usize) -> Self;

    /// The value in the high half, or in the second dword of packed f32.
    ///
    /// # Safety
    /// As for [`Argument::load`].
    #[inline(always)]
    unsafe fn load_high(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::load(row, lane) }
    }
}

/// Where results wait until all lanes are computed, so that a destination may be a source.
pub(super) struct Buffer {
    pub low: [MaybeUninit<u32>; LANES],
    pub high: [MaybeUninit<u32>; LANES],
    pub mask: [MaybeUninit<u8>; LANES],
}

/// A result of an operation.
pub(super) trait Outcome: Copy {
    /// What the vector destination receives.
    const VALUE: Option<Kind>;
    /// Whether a lane mask is produced.
    const MASK: bool;

    fn put(self, buffer: &mut Buffer, lane: usize);

    /// Add the high half of a packed result.
    #[inline(always)]
    fn put_high(self, buffer: &mut Buffer, lane: usize) {
        let _ = (buffer, lane);
    }
}

/// An IEEE half, carried as the f32 of equal value; arithmetic on it is rounded to f16 when stored.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct F16(pub f32);

/// The same, of which a signalling NaN stays one: for minimum and maximum, which tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Raw16(pub f32);

/// A bfloat16, carried as the f32 of equal value.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) struct Bf16(pub f32);

/// The destination's value before the instruction, for accumulating forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acc<T>(pub T);

/// The lane's number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane(pub u32);

/// The two halves of a packed operand, low first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<T>(pub T, pub T);

/// A source of the mixed-precision instructions, as f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix(pub f32);

/// The selected register of a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected(pub u32);

/// MODE's IEEE bit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ieee(pub bool);

/// f16 bits to f32, exactly. The exponent is rebased by a multiplication, which also normalises
/// denormals; signalling NaN become quiet.
#[inline(always)]
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = (bits as u32 & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let quiet = if magnitude > 0x0f80_0000 {
        0x0040_0000
    } else {
        0
    };
    let value = if magnitude >= 0x0f80_0000 {
        special | quiet
    } else {
        scaled
    };
    f32::from_bits(value | (bits as u32 & 0x8000) << 16)
}

/// The same, but a signalling NaN keeps its payload and stays signalling.
#[inline(always)]
fn f16_to_f32_signalling(bits: u16) -> f32 {
    let wide = f16_to_f32(bits).to_bits();
    let is_nan = bits & 0x7fff > 0x7c00;
    let quiet = (bits as u32 & 0x200) << 13;
    f32::from_bits(if is_nan {
        wide & !0x0040_0000 | quiet
    } else {
        wide
    })
}

/// f32 to the nearest f16, ties to even; branch-free so that it vectorises.
#[inline(always)]
pub(super) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal results: rebase the exponent, then round at bit 13.
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude
        .wrapping_sub(0x3800_0000)
        .wrapping_add(0x0fff)
        .wrapping_add(odd)
        >> 13;
    // Denormal results: adding 0.5 aligns the significand so that the FPU rounds it.
    let denormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let nan = 0x7e00 | ((magnitude >> 13) & 0x03ff);
    let finite = if magnitude < 0x3880_0000 {
        denormal
    } else {
        normal
    };
    let unsigned = if magnitude > 0x7f80_0000 {
        nan
    } else if magnitude >= 0x477f_f000 {
        0x7c00
    } else {
        finite
    };
    (sign | unsigned) as u16
}

/// bf16 bits to f32.
#[inline(always)]
pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// f32 to the nearest bf16, ties to even.
#[inline(always)]
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 {
        nan
    } else {
        rounded
    }) as u16
}

/// The value types of one dword or half a dword: (type, kind, from dword, to dword).
macro_rules! dword_values {
    ($($type:ty, $kind:ident, |$bits:ident| $from:expr, |$value:ident| $to:expr;)*) => { $(
        impl Argument for $type {
            const SLOT: Slot = Slot::Source(Kind::$kind);

            #[inline(always)]
            unsafe fn load(row: *const u32, lane: usize) -> Self {
                // SAFETY: the caller's promise.
                let $bits = unsafe { *row.add(lane) };
                $from
            }

            #[inline(always)]
            unsafe fn load_high(row: *const u32, lane: usize) -> Self {
                // SAFETY: the caller's promise; a packed f32 takes two rows.
                let $bits = unsafe {
                    if matches!(Kind::$kind, Kind::F32) {
                        *row.add(LANES + lane)
                    } else {
                        *row.add(lane) >> 16
                    }
                };
                $from
            }
        }

        impl Outcome for $type {
            const VALUE: Option<Kind> = Some(Kind::$kind);
            const MASK: bool = false;

            #[inline(always)]
            fn put(self, buffer: &mut Buffer, lane: usize) {
                let $value = self;
                buffer.low[lane].write($to);
            }

            #[inline(always)]
            fn put_high(self, buffer: &mut Buffer, lane: usize) {
                let $value = self;
                let high: u32 = $to;
                if matches!(Kind::$kind, Kind::F32) {
                    buffer.high[lane].write(high);
                } else {
                    // SAFETY: `put` wrote the low half of this lane.
                    let low = unsafe { buffer.low[lane].assume_init() };
                    buffer.low[lane].write(low | high << 16);
                }
            }
        }
    )* };
}

dword_values! {
    u32, B32, |bits| bits, |value| value;
    i32, B32, |bits| bits as i32, |value| value as u32;
    f32, F32, |bits| f32::from_bits(bits), |value| value.to_bits();
    u16, B16, |bits| bits as u16, |value| value as u32;
    i16, B16, |bits| bits as i16, |value| value as u16 as u32;
    F16, F16, |bits| F16(f16_to_f32(bits as u16)), |value| f32_to_f16(value.0) as u32;
    Raw16, F16, |bits| Raw16(f16_to_f32_signalling(bits as u16)), |value| f32_to_f16(value.0) as u32;
    Bf16, Bf16, |bits| Bf16(bf16_to_f32(bits as u16)), |value| f32_to_bf16(value.0) as u32;
}

macro_rules! qword_values {
    ($($type:ty, $kind:ident, |$bits:ident| $from:expr, |$value:ident| $to:expr;)*) => { $(
        impl Argument for $type {
            const SLOT: Slot = Slot::Source(Kind::$kind);

            #[inline(always)]
            unsafe fn load(row: *const u32, lane: usize) -> Self {
                // SAFETY: the caller's promise: two rows.
                let $bits = unsafe { *row.add(lane) as u64 | (*row.add(LANES + lane) as u64) << 32 };
                $from
            }
        }

        impl Outcome for $type {
            const VALUE: Option<Kind> = Some(Kind::$kind);
            const MASK: bool = false;

            #[inline(always)]
            fn put(self, buffer: &mut Buffer, lane: usize) {
                let $value = self;
                let bits: u64 = $to;
                buffer.low[lane].write(bits as u32);
                buffer.high[lane].write((bits >> 32) as u32);
            }
        }
    )* };
}

qword_values! {
    u64, U64, |bits| bits, |value| value;
    i64, I64, |bits| bits as i64, |value| value as u64;
    f64, F64, |bits| f64::from_bits(bits), |value| value.to_bits();
}

impl Argument for bool {
    const SLOT: Slot = Slot::Source(Kind::Mask);

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise; masks arrive expanded to a row.
        unsafe { *row.add(lane) != 0 }
    }
}

impl Outcome for bool {
    const VALUE: Option<Kind> = None;
    const MASK: bool = true;

    #[inline(always)]
    fn put(self, buffer: &mut Buffer, lane: usize) {
        buffer.mask[lane].write(self as u8);
    }
}

/// A value and a mask bit: carries, scaling flags.
impl<T: Outcome> Outcome for (T, bool) {
    const VALUE: Option<Kind> = T::VALUE;
    const MASK: bool = true;

    #[inline(always)]
    fn put(self, buffer: &mut Buffer, lane: usize) {
        self.0.put(buffer, lane);
        self.1.put(buffer, lane);
    }
}

impl<T: Argument> Argument for Acc<T> {
    const SLOT: Slot = match T::SLOT {
        Slot::Source(kind) => Slot::Destination(kind),
        other => other,
    };

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        Acc(unsafe { T::load(row, lane) })
    }

    #[inline(always)]
    unsafe fn load_high(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        Acc(unsafe { T::load_high(row, lane) })
    }
}

impl Argument for Lane {
    const SLOT: Slot = Slot::Lane;

    #[inline(always)]
    unsafe fn load(_row: *const u32, lane: usize) -> Self {
        Lane(lane as u32)
    }
}

impl<T: Argument> Argument for Pair<T> {
    const SLOT: Slot = match T::SLOT {
        Slot::Source(kind) => Slot::Source(kind.packed()),
        other => other,
    };

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Pair(T::load(row, lane), T::load_high(row, lane)) }
    }
}

impl Argument for Mix {
    const SLOT: Slot = Slot::Source(Kind::Mix);

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        Mix(f32::from_bits(unsafe { *row.add(lane) }))
    }
}

impl Argument for Selected {
    const SLOT: Slot = Slot::Source(Kind::PackedB32);

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise.
        Selected(unsafe { *row.add(lane) })
    }
}

impl Argument for Ieee {
    const SLOT: Slot = Slot::Ieee;

    #[inline(always)]
    unsafe fn load(row: *const u32, lane: usize) -> Self {
        // SAFETY: the caller's promise; the bit arrives as a row.
        Ieee(unsafe { *row.add(lane) != 0 })
    }
}
