//! What each scalar instruction computes, one line an instruction. ISA manuals, "SOP1", "SOP2", "SOPC", "SOPK".
//!
//! A row's closure takes its inputs by type (`u32`, `u64`, ... are the next source; [`Scc`], [`Exec`], [`Old`], [`M0`]
//! are state) and its result says what is written: a value to the destination, [`Scc`], or both. Floats lose their
//! denormals on the way in and out where MODE says so.

use std::collections::HashMap;
use std::sync::OnceLock;

use half::f16;

use super::op::ScalarOp;
use super::relative;
use crate::exec::wave::Wave;

/// The scalar condition code.
struct Scc(bool);
/// EXEC, or as many of its bits as the instruction works on.
struct Exec<T>(T);
/// What the destination holds before.
struct Old<T>(T);
/// MODE's IEEE bit.
struct Ieee(bool);
/// M0.
struct M0(u32);
/// Writes M0 and whether it offsets the numbers of vector registers.
struct Indexing {
    on: bool,
    m0: u32,
}
/// Writes EXEC, SCC from it, and a value to the destination.
struct SetExec<T> {
    exec: T,
    dst: T,
}

trait Input: Sized {
    fn read(wave: &Wave, op: &ScalarOp, next: &mut usize) -> Self;
}

trait Output {
    /// Dwords of the destination that are written.
    const DWORDS: u16;
    fn write(self, wave: &mut Wave, op: &ScalarOp);
}

/// The side of MODE's denormal fields: whether those of inputs, or of outputs, are kept.
const INPUTS: u8 = 1;
const OUTPUTS: u8 = 2;

/// A zero of its sign for a denormal that MODE does not keep.
#[inline(always)]
fn flush_f32(value: f32, wave: &Wave, side: u8) -> f32 {
    if wave.mode.denorm_f32 & side == 0 && value.is_subnormal() {
        return 0.0f32.copysign(value);
    }
    value
}

#[inline(always)]
fn flush_f16(value: f16, wave: &Wave, side: u8) -> f16 {
    let bits = value.to_bits();
    if wave.mode.denorm_f64_f16 & side == 0 && bits & 0x7c00 == 0 {
        return f16::from_bits(bits & 0x8000);
    }
    value
}

macro_rules! values {
    ($($type:ty: $read:ident, $write:ident, $dwords:literal, |$bits:ident, $in:ident| $from:expr,
       |$value:ident, $out:ident| $to:expr;)*) => { $(
        impl Input for $type {
            #[inline(always)]
            fn read($in: &Wave, op: &ScalarOp, next: &mut usize) -> Self {
                let $bits = op.src[*next].$read($in);
                *next += 1;
                $from
            }
        }

        impl Input for Old<$type> {
            #[inline(always)]
            fn read($in: &Wave, op: &ScalarOp, _next: &mut usize) -> Self {
                let $bits = op.dst.source().$read($in);
                Old($from)
            }
        }

        impl Output for $type {
            const DWORDS: u16 = $dwords;
            #[inline(always)]
            fn write(self, $out: &mut Wave, op: &ScalarOp) {
                let $value = self;
                let bits = $to;
                op.dst.$write($out, bits);
            }
        }
    )* };
}

values! {
    u32: read32, write32, 1, |x, wave| x, |x, wave| x;
    i32: read32, write32, 1, |x, wave| x as i32, |x, wave| x as u32;
    u64: read64, write64, 2, |x, wave| x, |x, wave| x;
    i64: read64, write64, 2, |x, wave| x as i64, |x, wave| x as u64;
    f32: read32, write32, 1, |x, wave| flush_f32(f32::from_bits(x), wave, INPUTS),
        |x, wave| flush_f32(x, wave, OUTPUTS).to_bits();
    f16: read32, write32, 1, |x, wave| flush_f16(f16::from_bits(x as u16), wave, INPUTS),
        |x, wave| flush_f16(x, wave, OUTPUTS).to_bits().into();
}

impl Input for Ieee {
    #[inline(always)]
    fn read(wave: &Wave, _op: &ScalarOp, _next: &mut usize) -> Self {
        Ieee(wave.mode.ieee)
    }
}

impl Ieee {
    /// In IEEE mode the first signalling NaN, quiet.
    fn signalling(self, a: f32, b: f32) -> Option<f32> {
        let is_signalling = |value: &f32| value.is_nan() && value.to_bits() & 0x0040_0000 == 0;
        let first = [a, b].into_iter().find(is_signalling);
        first.filter(|_| self.0).map(quiet)
    }
}

impl Input for M0 {
    #[inline(always)]
    fn read(wave: &Wave, _op: &ScalarOp, _next: &mut usize) -> Self {
        M0(wave.m0)
    }
}

impl Output for Indexing {
    const DWORDS: u16 = 0;
    #[inline(always)]
    fn write(self, wave: &mut Wave, _op: &ScalarOp) {
        wave.m0 = self.m0;
        wave.vgpr_indexing = self.on;
    }
}

impl Output for M0 {
    const DWORDS: u16 = 0;
    #[inline(always)]
    fn write(self, wave: &mut Wave, _op: &ScalarOp) {
        wave.m0 = self.0;
    }
}

impl Input for Scc {
    #[inline(always)]
    fn read(wave: &Wave, _op: &ScalarOp, _next: &mut usize) -> Self {
        Scc(wave.scc)
    }
}

impl Input for Exec<u32> {
    #[inline(always)]
    fn read(wave: &Wave, _op: &ScalarOp, _next: &mut usize) -> Self {
        Exec(wave.exec() as u32)
    }
}

impl Input for Exec<u64> {
    #[inline(always)]
    fn read(wave: &Wave, _op: &ScalarOp, _next: &mut usize) -> Self {
        Exec(wave.exec())
    }
}

impl Output for Scc {
    const DWORDS: u16 = 0;
    #[inline(always)]
    fn write(self, wave: &mut Wave, _op: &ScalarOp) {
        wave.scc = self.0;
    }
}

impl<T: Output> Output for (T, Scc) {
    const DWORDS: u16 = T::DWORDS;
    #[inline(always)]
    fn write(self, wave: &mut Wave, op: &ScalarOp) {
        self.0.write(wave, op);
        wave.scc = self.1 .0;
    }
}

impl Output for SetExec<u32> {
    const DWORDS: u16 = 1;
    #[inline(always)]
    fn write(self, wave: &mut Wave, op: &ScalarOp) {
        op.dst.write32(wave, self.dst);
        let high = wave.exec() >> 32 << 32;
        wave.set_exec(high | u64::from(self.exec));
        wave.scc = self.exec != 0;
    }
}

impl Output for SetExec<u64> {
    const DWORDS: u16 = 2;
    #[inline(always)]
    fn write(self, wave: &mut Wave, op: &ScalarOp) {
        op.dst.write64(wave, self.dst);
        wave.set_exec(self.exec);
        wave.scc = self.exec != 0;
    }
}

/// One instruction's semantics.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub run: fn(&mut Wave, &ScalarOp),
    /// Dwords that it writes.
    pub dwords: u16,
}

macro_rules! rows {
    ($($($name:literal)|+ => |$($arg:ident: $type:ty),*| -> $output:ty $body:block)*) => {
        &[$((
            &[$($name),+],
            Entry {
                run: {
                    #[allow(unused_mut, unused_variables, unused_assignments)]
                    fn run(wave: &mut Wave, op: &ScalarOp) {
                        let mut next = 0;
                        $(let $arg = <$type as Input>::read(wave, op, &mut next);)*
                        let output: $output = $body;
                        output.write(wave, op);
                    }
                    run
                },
                dwords: <$output as Output>::DWORDS,
            },
        )),*]
    };
}

fn nonzero32(value: u32) -> (u32, Scc) {
    (value, Scc(value != 0))
}

fn nonzero64(value: u64) -> (u64, Scc) {
    (value, Scc(value != 0))
}

/// Offset and width packed into an operand, as `s_bfe` takes them.
fn extract_u(value: u64, offset: u32, width: u32, bits: u32) -> u64 {
    let shifted = value >> offset;
    match width {
        0 => 0,
        _ if width >= bits => shifted,
        _ => shifted & ((1 << width) - 1),
    }
}

fn extract_i(value: i64, offset: u32, width: u32, bits: u32) -> i64 {
    let width = width.min(bits - offset);
    match width {
        0 => 0,
        _ => value << (64 - width - offset) >> (64 - width),
    }
}

/// Position found, or -1.
fn found(position: u32, bits: u32) -> i32 {
    if position < bits {
        position as i32
    } else {
        -1
    }
}

/// Leading bits equal to the sign, or -1 where all are.
fn sign_bits(value: i64, bits: u32) -> i32 {
    let aligned = value << (64 - bits);
    let same = (aligned ^ aligned >> 63).leading_zeros();
    found(same, bits)
}

/// Whole quads: every bit of a group of four is set if any was.
fn whole_quads(value: u64) -> u64 {
    let any = value | value >> 1 | value >> 2 | value >> 3;
    (any & 0x1111_1111_1111_1111) * 15
}

fn quad_mask(value: u64) -> u64 {
    (0..16).fold(0, |mask, quad| {
        mask | u64::from(value >> (4 * quad) & 15 != 0) << quad
    })
}

fn shift_add(value: u32, shift: u32, addend: u32) -> (u32, Scc) {
    let sum = (u64::from(value) << shift) + u64::from(addend);
    (sum as u32, Scc(sum >> 32 != 0))
}

fn pack(low: u32, high: u32) -> u32 {
    low & 0xffff | high << 16
}

/// Round a f32 to f16 toward zero.
fn f16_toward_zero(value: f32) -> u32 {
    let nearest = f16::from_f32(value);
    let beyond = nearest.to_f32().abs() > value.abs();
    u32::from(if beyond {
        nearest.to_bits() - 1
    } else {
        nearest.to_bits()
    })
}

fn quiet(value: f32) -> f32 {
    if value.is_nan() {
        f32::from_bits(value.to_bits() | 0x0040_0000)
    } else {
        value
    }
}

/// The number where one is none; of two NaN the first, quiet.
fn number(a: f32, b: f32, chosen: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => quiet(a),
        (true, false) => b,
        (false, true) => a,
        (false, false) => chosen,
    }
}

/// The first NaN, quiet.
fn propagated(a: f32, b: f32, chosen: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => quiet(a),
        (_, true) => quiet(b),
        _ => chosen,
    }
}

/// The smaller number; -0 is smaller than +0.
fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a == b && a.is_sign_negative() {
        a
    } else {
        b
    }
}

fn larger(a: f32, b: f32) -> f32 {
    if a > b || a == b && a.is_sign_positive() {
        a
    } else {
        b
    }
}

fn min_num(a: f32, b: f32) -> f32 {
    number(a, b, smaller(a, b))
}

fn max_num(a: f32, b: f32) -> f32 {
    number(a, b, larger(a, b))
}

fn minimum(a: f32, b: f32) -> f32 {
    propagated(a, b, smaller(a, b))
}

fn maximum(a: f32, b: f32) -> f32 {
    propagated(a, b, larger(a, b))
}

fn each_half(a: f16, f: impl Fn(f32) -> f32) -> f16 {
    f16::from_f32(f(a.to_f32()))
}

fn both_halves(a: f16, b: f16, f: impl Fn(f32, f32) -> f32) -> f16 {
    f16::from_f32(f(a.to_f32(), b.to_f32()))
}

type Rows = &'static [(&'static [&'static str], Entry)];

static MOVES: Rows = rows! {
    "s_mov_b32" => |a: u32| -> u32 { a }
    "s_mov_b64" => |a: u64| -> u64 { a }
    "s_movk_i32" => |a: u32| -> u32 { a }
    "s_cmov_b32" | "s_cmovk_i32" => |a: u32, old: Old<u32>, scc: Scc| -> u32 { if scc.0 { a } else { old.0 } }
    "s_cmov_b64" => |a: u64, old: Old<u64>, scc: Scc| -> u64 { if scc.0 { a } else { old.0 } }
    "s_cselect_b32" => |a: u32, b: u32, scc: Scc| -> u32 { if scc.0 { a } else { b } }
    "s_cselect_b64" => |a: u64, b: u64, scc: Scc| -> u64 { if scc.0 { a } else { b } }
    "s_sext_i32_i8" => |a: u32| -> i32 { (a as i8).into() }
    "s_sext_i32_i16" => |a: u32| -> i32 { (a as i16).into() }
    "s_pack_ll_b32_b16" => |a: u32, b: u32| -> u32 { pack(a, b) }
    "s_pack_lh_b32_b16" => |a: u32, b: u32| -> u32 { pack(a, b >> 16) }
    "s_pack_hl_b32_b16" => |a: u32, b: u32| -> u32 { pack(a >> 16, b) }
    "s_pack_hh_b32_b16" => |a: u32, b: u32| -> u32 { pack(a >> 16, b >> 16) }
    "s_bitreplicate_b64_b32" => |a: u32| -> u64 { (0..32).fold(0, |wide, bit| wide | ((u64::from(a >> bit & 1) * 3) << (2 * bit))) }
};

/// GFX9's offset for the numbers of vector registers: M0's low byte, and which operands have it in bits 12 to 15.
const INDEX: u32 = 0xff;
const INDEXED: u32 = 0xf000;

static INDEXES: Rows = rows! {
    "s_set_gpr_idx_on" => |index: u32, operands: u32, old: M0| -> Indexing {
        let m0 = old.0 & !(INDEX | INDEXED) | index & INDEX | operands << 12 & INDEXED;
        Indexing { on: true, m0 }
    }
    "s_set_gpr_idx_off" => |old: M0| -> Indexing { Indexing { on: false, m0: old.0 } }
    "s_set_gpr_idx_idx" => |index: u32, old: M0| -> M0 { M0(old.0 & !INDEX | index & INDEX) }
    "s_set_gpr_idx_mode" => |operands: u32, old: M0| -> M0 { M0(old.0 & !INDEXED | operands << 12 & INDEXED) }
};

/// Moves whose register numbers have M0 added.
static RELATIVE: Rows = &[
    (
        &["s_movrels_b32"],
        Entry {
            run: relative::source::<1>,
            dwords: 1,
        },
    ),
    (
        &["s_movrels_b64"],
        Entry {
            run: relative::source::<2>,
            dwords: 2,
        },
    ),
    (
        &["s_movreld_b32"],
        Entry {
            run: relative::destination::<1>,
            dwords: 1,
        },
    ),
    (
        &["s_movreld_b64"],
        Entry {
            run: relative::destination::<2>,
            dwords: 2,
        },
    ),
    (
        &["s_movrelsd_2_b32"],
        Entry {
            run: relative::both,
            dwords: 1,
        },
    ),
];

static ARITHMETIC: Rows = rows! {
    "s_add_u32" | "s_add_co_u32" => |a: u32, b: u32| -> (u32, Scc) { let (sum, carry) = a.overflowing_add(b); (sum, Scc(carry)) }
    "s_sub_u32" | "s_sub_co_u32" => |a: u32, b: u32| -> (u32, Scc) { let (difference, borrow) = a.overflowing_sub(b); (difference, Scc(borrow)) }
    "s_addc_u32" | "s_add_co_ci_u32" => |a: u32, b: u32, scc: Scc| -> (u32, Scc) {
        let sum = u64::from(a) + u64::from(b) + u64::from(scc.0);
        (sum as u32, Scc(sum >> 32 != 0))
    }
    "s_subb_u32" | "s_sub_co_ci_u32" => |a: u32, b: u32, scc: Scc| -> (u32, Scc) {
        let difference = i64::from(a) - i64::from(b) - i64::from(scc.0);
        (difference as u32, Scc(difference < 0))
    }
    "s_add_i32" | "s_add_co_i32" => |a: i32, b: i32| -> (i32, Scc) { let (sum, overflow) = a.overflowing_add(b); (sum, Scc(overflow)) }
    "s_sub_i32" | "s_sub_co_i32" => |a: i32, b: i32| -> (i32, Scc) { let (difference, overflow) = a.overflowing_sub(b); (difference, Scc(overflow)) }
    "s_addk_i32" | "s_addk_co_i32" => |a: i32, old: Old<i32>| -> (i32, Scc) { let (sum, overflow) = old.0.overflowing_add(a); (sum, Scc(overflow)) }
    "s_mulk_i32" => |a: i32, old: Old<i32>| -> i32 { old.0.wrapping_mul(a) }
    "s_add_u64" | "s_add_nc_u64" => |a: u64, b: u64| -> u64 { a.wrapping_add(b) }
    "s_sub_u64" | "s_sub_nc_u64" => |a: u64, b: u64| -> u64 { a.wrapping_sub(b) }
    "s_mul_u64" => |a: u64, b: u64| -> u64 { a.wrapping_mul(b) }
    "s_mul_i32" => |a: u32, b: u32| -> u32 { a.wrapping_mul(b) }
    "s_mul_hi_u32" => |a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }
    "s_mul_hi_i32" => |a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }
    "s_min_i32" => |a: i32, b: i32| -> (i32, Scc) { (a.min(b), Scc(a < b)) }
    "s_min_u32" => |a: u32, b: u32| -> (u32, Scc) { (a.min(b), Scc(a < b)) }
    "s_max_i32" => |a: i32, b: i32| -> (i32, Scc) { (a.max(b), Scc(a >= b)) }
    "s_max_u32" => |a: u32, b: u32| -> (u32, Scc) { (a.max(b), Scc(a >= b)) }
    "s_abs_i32" => |a: i32| -> (u32, Scc) { nonzero32(a.unsigned_abs()) }
    "s_absdiff_i32" => |a: i32, b: i32| -> (u32, Scc) { nonzero32(a.wrapping_sub(b).unsigned_abs()) }
    "s_lshl1_add_u32" => |a: u32, b: u32| -> (u32, Scc) { shift_add(a, 1, b) }
    "s_lshl2_add_u32" => |a: u32, b: u32| -> (u32, Scc) { shift_add(a, 2, b) }
    "s_lshl3_add_u32" => |a: u32, b: u32| -> (u32, Scc) { shift_add(a, 3, b) }
    "s_lshl4_add_u32" => |a: u32, b: u32| -> (u32, Scc) { shift_add(a, 4, b) }
};

static BITS: Rows = rows! {
    "s_and_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a & b) }
    "s_and_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(a & b) }
    "s_or_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a | b) }
    "s_or_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(a | b) }
    "s_xor_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a ^ b) }
    "s_xor_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(a ^ b) }
    "s_andn2_b32" | "s_and_not1_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a & !b) }
    "s_andn2_b64" | "s_and_not1_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(a & !b) }
    "s_orn2_b32" | "s_or_not1_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a | !b) }
    "s_orn2_b64" | "s_or_not1_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(a | !b) }
    "s_nand_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(!(a & b)) }
    "s_nand_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(!(a & b)) }
    "s_nor_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(!(a | b)) }
    "s_nor_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(!(a | b)) }
    "s_xnor_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(!(a ^ b)) }
    "s_xnor_b64" => |a: u64, b: u64| -> (u64, Scc) { nonzero64(!(a ^ b)) }
    "s_not_b32" => |a: u32| -> (u32, Scc) { nonzero32(!a) }
    "s_not_b64" => |a: u64| -> (u64, Scc) { nonzero64(!a) }
    "s_wqm_b32" => |a: u32| -> (u32, Scc) { nonzero32(whole_quads(a.into()) as u32) }
    "s_wqm_b64" => |a: u64| -> (u64, Scc) { nonzero64(whole_quads(a)) }
    "s_quadmask_b32" => |a: u32| -> (u32, Scc) { nonzero32(quad_mask(a.into()) as u32) }
    "s_quadmask_b64" => |a: u64| -> (u64, Scc) { nonzero64(quad_mask(a)) }
    "s_brev_b32" => |a: u32| -> u32 { a.reverse_bits() }
    "s_brev_b64" => |a: u64| -> u64 { a.reverse_bits() }
    "s_lshl_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a << (b & 31)) }
    "s_lshl_b64" => |a: u64, b: u32| -> (u64, Scc) { nonzero64(a << (b & 63)) }
    "s_lshr_b32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(a >> (b & 31)) }
    "s_lshr_b64" => |a: u64, b: u32| -> (u64, Scc) { nonzero64(a >> (b & 63)) }
    "s_ashr_i32" => |a: i32, b: u32| -> (u32, Scc) { nonzero32((a >> (b & 31)) as u32) }
    "s_ashr_i64" => |a: i64, b: u32| -> (u64, Scc) { nonzero64((a >> (b & 63)) as u64) }
    "s_bfm_b32" => |a: u32, b: u32| -> u32 { ((1 << (a & 31)) - 1) << (b & 31) }
    "s_bfm_b64" => |a: u32, b: u32| -> u64 { ((1 << (a & 63)) - 1) << (b & 63) }
    "s_bfe_u32" => |a: u32, b: u32| -> (u32, Scc) { nonzero32(extract_u(a.into(), b & 31, b >> 16 & 127, 32) as u32) }
    "s_bfe_i32" => |a: i32, b: u32| -> (u32, Scc) { nonzero32(extract_i(a.into(), b & 31, b >> 16 & 127, 32) as u32) }
    "s_bfe_u64" => |a: u64, b: u32| -> (u64, Scc) { nonzero64(extract_u(a, b & 63, b >> 16 & 127, 64)) }
    "s_bfe_i64" => |a: i64, b: u32| -> (u64, Scc) { nonzero64(extract_i(a, b & 63, b >> 16 & 127, 64) as u64) }
    "s_bitset0_b32" => |a: u32, old: Old<u32>| -> u32 { old.0 & !(1 << (a & 31)) }
    "s_bitset0_b64" => |a: u32, old: Old<u64>| -> u64 { old.0 & !(1 << (a & 63)) }
    "s_bitset1_b32" => |a: u32, old: Old<u32>| -> u32 { old.0 | 1 << (a & 31) }
    "s_bitset1_b64" => |a: u32, old: Old<u64>| -> u64 { old.0 | 1 << (a & 63) }
    "s_bcnt0_i32_b32" => |a: u32| -> (u32, Scc) { nonzero32(a.count_zeros()) }
    "s_bcnt0_i32_b64" => |a: u64| -> (u32, Scc) { nonzero32(a.count_zeros()) }
    "s_bcnt1_i32_b32" => |a: u32| -> (u32, Scc) { nonzero32(a.count_ones()) }
    "s_bcnt1_i32_b64" => |a: u64| -> (u32, Scc) { nonzero32(a.count_ones()) }
    "s_ff0_i32_b32" => |a: u32| -> i32 { found(a.trailing_ones(), 32) }
    "s_ff0_i32_b64" => |a: u64| -> i32 { found(a.trailing_ones(), 64) }
    "s_ff1_i32_b32" | "s_ctz_i32_b32" => |a: u32| -> i32 { found(a.trailing_zeros(), 32) }
    "s_ff1_i32_b64" | "s_ctz_i32_b64" => |a: u64| -> i32 { found(a.trailing_zeros(), 64) }
    "s_flbit_i32_b32" | "s_clz_i32_u32" => |a: u32| -> i32 { found(a.leading_zeros(), 32) }
    "s_flbit_i32_b64" | "s_clz_i32_u64" => |a: u64| -> i32 { found(a.leading_zeros(), 64) }
    "s_flbit_i32" | "s_cls_i32" => |a: i32| -> i32 { sign_bits(a.into(), 32) }
    "s_flbit_i32_i64" | "s_cls_i32_i64" => |a: i64| -> i32 { sign_bits(a, 64) }
};

/// The `saveexec` and `wrexec` forms of one operation on (source, EXEC), for both widths.
macro_rules! exec_rows {
    ($($($name32:literal)|+, $($name64:literal)|+ => |$s:ident, $e:ident| $new:expr, $kept:ident;)*) => {
        rows! { $(
            $($name32)|+ => |$s: u32, e: Exec<u32>| -> SetExec<u32> { let $e = e.0; let exec = $new; SetExec { exec, dst: exec_rows!(@$kept $e exec) } }
            $($name64)|+ => |$s: u64, e: Exec<u64>| -> SetExec<u64> { let $e = e.0; let exec = $new; SetExec { exec, dst: exec_rows!(@$kept $e exec) } }
        )* }
    };
    (@old $old:ident $new:ident) => { $old };
    (@new $old:ident $new:ident) => { $new };
}

static EXEC: Rows = exec_rows! {
    "s_and_saveexec_b32", "s_and_saveexec_b64" => |s, e| s & e, old;
    "s_or_saveexec_b32", "s_or_saveexec_b64" => |s, e| s | e, old;
    "s_xor_saveexec_b32", "s_xor_saveexec_b64" => |s, e| s ^ e, old;
    "s_nand_saveexec_b32", "s_nand_saveexec_b64" => |s, e| !(s & e), old;
    "s_nor_saveexec_b32", "s_nor_saveexec_b64" => |s, e| !(s | e), old;
    "s_xnor_saveexec_b32", "s_xnor_saveexec_b64" => |s, e| !(s ^ e), old;
    "s_andn1_saveexec_b32" | "s_and_not0_saveexec_b32", "s_andn1_saveexec_b64" | "s_and_not0_saveexec_b64" => |s, e| !s & e, old;
    "s_orn1_saveexec_b32" | "s_or_not0_saveexec_b32", "s_orn1_saveexec_b64" | "s_or_not0_saveexec_b64" => |s, e| !s | e, old;
    "s_andn2_saveexec_b32" | "s_and_not1_saveexec_b32", "s_andn2_saveexec_b64" | "s_and_not1_saveexec_b64" => |s, e| s & !e, old;
    "s_orn2_saveexec_b32" | "s_or_not1_saveexec_b32", "s_orn2_saveexec_b64" | "s_or_not1_saveexec_b64" => |s, e| s | !e, old;
    "s_andn1_wrexec_b32" | "s_and_not0_wrexec_b32", "s_andn1_wrexec_b64" | "s_and_not0_wrexec_b64" => |s, e| !s & e, new;
    "s_andn2_wrexec_b32" | "s_and_not1_wrexec_b32", "s_andn2_wrexec_b64" | "s_and_not1_wrexec_b64" => |s, e| s & !e, new;
};

static COMPARES: Rows = rows! {
    "s_cmp_eq_i32" | "s_cmp_eq_u32" | "s_cmpk_eq_i32" => |a: u32, b: u32| -> Scc { Scc(a == b) }
    "s_cmp_lg_i32" | "s_cmp_lg_u32" | "s_cmpk_lg_i32" => |a: u32, b: u32| -> Scc { Scc(a != b) }
    "s_cmp_gt_i32" | "s_cmpk_gt_i32" => |a: i32, b: i32| -> Scc { Scc(a > b) }
    "s_cmp_ge_i32" | "s_cmpk_ge_i32" => |a: i32, b: i32| -> Scc { Scc(a >= b) }
    "s_cmp_lt_i32" | "s_cmpk_lt_i32" => |a: i32, b: i32| -> Scc { Scc(a < b) }
    "s_cmp_le_i32" | "s_cmpk_le_i32" => |a: i32, b: i32| -> Scc { Scc(a <= b) }
    "s_cmp_gt_u32" => |a: u32, b: u32| -> Scc { Scc(a > b) }
    "s_cmp_ge_u32" => |a: u32, b: u32| -> Scc { Scc(a >= b) }
    "s_cmp_lt_u32" => |a: u32, b: u32| -> Scc { Scc(a < b) }
    "s_cmp_le_u32" => |a: u32, b: u32| -> Scc { Scc(a <= b) }
    "s_cmpk_eq_u32" => |a: u32, b: u32| -> Scc { Scc(a == b & 0xffff) }
    "s_cmpk_lg_u32" => |a: u32, b: u32| -> Scc { Scc(a != b & 0xffff) }
    "s_cmpk_gt_u32" => |a: u32, b: u32| -> Scc { Scc(a > b & 0xffff) }
    "s_cmpk_ge_u32" => |a: u32, b: u32| -> Scc { Scc(a >= b & 0xffff) }
    "s_cmpk_lt_u32" => |a: u32, b: u32| -> Scc { Scc(a < b & 0xffff) }
    "s_cmpk_le_u32" => |a: u32, b: u32| -> Scc { Scc(a <= b & 0xffff) }
    "s_cmp_eq_u64" => |a: u64, b: u64| -> Scc { Scc(a == b) }
    "s_cmp_lg_u64" => |a: u64, b: u64| -> Scc { Scc(a != b) }
    "s_bitcmp0_b32" => |a: u32, b: u32| -> Scc { Scc(a >> (b & 31) & 1 == 0) }
    "s_bitcmp1_b32" => |a: u32, b: u32| -> Scc { Scc(a >> (b & 31) & 1 != 0) }
    "s_bitcmp0_b64" => |a: u64, b: u32| -> Scc { Scc(a >> (b & 63) & 1 == 0) }
    "s_bitcmp1_b64" => |a: u64, b: u32| -> Scc { Scc(a >> (b & 63) & 1 != 0) }
};

/// Float comparisons of both widths; `n` forms are the negations, true for NaN.
macro_rules! float_compares {
    ($($f32_name:literal, $f16_name:literal => |$a:ident, $b:ident| $holds:expr;)*) => {
        rows! { $(
            $f32_name => |$a: f32, $b: f32| -> Scc { Scc($holds) }
            $f16_name => |$a: f16, $b: f16| -> Scc { Scc($holds) }
        )* }
    };
}

// Every form as it is defined: what lints call simpler differs for NaN.
#[allow(
    clippy::double_comparisons,
    clippy::neg_cmp_op_on_partial_ord,
    clippy::nonminimal_bool
)]
static FLOAT_COMPARES: Rows = float_compares! {
    "s_cmp_lt_f32", "s_cmp_lt_f16" => |a, b| a < b;
    "s_cmp_eq_f32", "s_cmp_eq_f16" => |a, b| a == b;
    "s_cmp_le_f32", "s_cmp_le_f16" => |a, b| a <= b;
    "s_cmp_gt_f32", "s_cmp_gt_f16" => |a, b| a > b;
    "s_cmp_lg_f32", "s_cmp_lg_f16" => |a, b| a < b || a > b;
    "s_cmp_ge_f32", "s_cmp_ge_f16" => |a, b| a >= b;
    "s_cmp_o_f32", "s_cmp_o_f16" => |a, b| !a.is_nan() && !b.is_nan();
    "s_cmp_u_f32", "s_cmp_u_f16" => |a, b| a.is_nan() || b.is_nan();
    "s_cmp_nge_f32", "s_cmp_nge_f16" => |a, b| !(a >= b);
    "s_cmp_nlg_f32", "s_cmp_nlg_f16" => |a, b| !(a < b || a > b);
    "s_cmp_ngt_f32", "s_cmp_ngt_f16" => |a, b| !(a > b);
    "s_cmp_nle_f32", "s_cmp_nle_f16" => |a, b| !(a <= b);
    "s_cmp_neq_f32", "s_cmp_neq_f16" => |a, b| a != b;
    "s_cmp_nlt_f32", "s_cmp_nlt_f16" => |a, b| !(a < b);
};

static FLOATS: Rows = rows! {
    "s_ceil_f32" => |a: f32| -> f32 { quiet(a.ceil()) }
    "s_floor_f32" => |a: f32| -> f32 { quiet(a.floor()) }
    "s_trunc_f32" => |a: f32| -> f32 { quiet(a.trunc()) }
    "s_rndne_f32" => |a: f32| -> f32 { quiet(a.round_ties_even()) }
    "s_ceil_f16" => |a: f16| -> f16 { each_half(a, f32::ceil) }
    "s_floor_f16" => |a: f16| -> f16 { each_half(a, f32::floor) }
    "s_trunc_f16" => |a: f16| -> f16 { each_half(a, f32::trunc) }
    "s_rndne_f16" => |a: f16| -> f16 { each_half(a, f32::round_ties_even) }
    "s_cvt_f32_i32" => |a: i32| -> f32 { a as f32 }
    "s_cvt_f32_u32" => |a: u32| -> f32 { a as f32 }
    "s_cvt_i32_f32" => |a: f32| -> i32 { a as i32 }
    "s_cvt_u32_f32" => |a: f32| -> u32 { a as u32 }
    "s_cvt_f16_f32" => |a: f32| -> f16 { f16::from_f32(a) }
    "s_cvt_f32_f16" => |a: f16| -> f32 { a.to_f32() }
    "s_cvt_hi_f32_f16" => |a: u32| -> f32 { f16::from_bits((a >> 16) as u16).to_f32() }
    "s_cvt_pk_rtz_f16_f32" => |a: f32, b: f32| -> u32 { f16_toward_zero(a) | f16_toward_zero(b) << 16 }
    "s_add_f32" => |a: f32, b: f32| -> f32 { a + b }
    "s_sub_f32" => |a: f32, b: f32| -> f32 { a - b }
    "s_mul_f32" => |a: f32, b: f32| -> f32 { a * b }
    "s_min_num_f32" => |a: f32, b: f32| -> f32 { min_num(a, b) }
    "s_max_num_f32" => |a: f32, b: f32| -> f32 { max_num(a, b) }
    "s_min_f32" => |a: f32, b: f32, mode: Ieee| -> f32 { mode.signalling(a, b).unwrap_or(min_num(a, b)) }
    "s_max_f32" => |a: f32, b: f32, mode: Ieee| -> f32 { mode.signalling(a, b).unwrap_or(max_num(a, b)) }
    "s_minimum_f32" => |a: f32, b: f32| -> f32 { minimum(a, b) }
    "s_maximum_f32" => |a: f32, b: f32| -> f32 { maximum(a, b) }
    "s_fmac_f32" => |a: f32, b: f32, old: Old<f32>| -> f32 { a.mul_add(b, old.0) }
    "s_fmaak_f32" | "s_fmamk_f32" => |a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) }
    "s_add_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, |a, b| a + b) }
    "s_sub_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, |a, b| a - b) }
    "s_mul_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, |a, b| a * b) }
    "s_min_f16" | "s_min_num_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, min_num) }
    "s_max_f16" | "s_max_num_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, max_num) }
    "s_minimum_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, minimum) }
    "s_maximum_f16" => |a: f16, b: f16| -> f16 { both_halves(a, b, maximum) }
    "s_fmac_f16" => |a: f16, b: f16, old: Old<f16>| -> f16 {
        // Exact in f64 but for one rounding, then f16.
        f16::from_f64(a.to_f64().mul_add(b.to_f64(), old.0.to_f64()))
    }
};

fn table() -> &'static HashMap<&'static str, Entry> {
    static TABLE: OnceLock<HashMap<&'static str, Entry>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let parts = [
            MOVES,
            INDEXES,
            RELATIVE,
            ARITHMETIC,
            BITS,
            EXEC,
            COMPARES,
            FLOAT_COMPARES,
            FLOATS,
        ];
        let rows = parts.into_iter().flatten();
        rows.flat_map(|(names, entry)| names.iter().map(|name| (*name, *entry)))
            .collect()
    })
}

/// The semantics of a row.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    table().get(name)
}
