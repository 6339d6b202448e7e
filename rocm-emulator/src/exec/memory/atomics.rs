//! Read-modify-write: what each atomic computes, and the loops that apply it in memory and in LDS.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};

/// The new value from the old one, the operand and, for compare-and-swap, the value compared with.
#[derive(Clone, Copy)]
pub(crate) enum Update {
    B32(fn(old: u32, data: u32, compare: u32) -> u32),
    B64(fn(old: u64, data: u64, compare: u64) -> u64),
}

impl Update {
    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        match self {
            Update::B32(_) => 4,
            Update::B64(_) => 8,
        }
    }

    /// Apply to memory that other threads use too; returns the old value.
    ///
    /// # Safety
    /// `at` is valid for reads and writes and aligned for the width.
    pub unsafe fn apply_shared(self, at: *mut u8, data: u64, compare: u64) -> u64 {
        match self {
            Update::B32(update) => {
                // SAFETY: the caller's promise; every concurrent access to the word by this emulator that
                // matters to a correct kernel is atomic too.
                let word = unsafe { AtomicU32::from_ptr(at.cast()) };
                let new = |old| Some(update(old, data as u32, compare as u32));
                match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, new) {
                    Ok(old) | Err(old) => old.into(),
                }
            }
            Update::B64(update) => {
                // SAFETY: as above.
                let word = unsafe { AtomicU64::from_ptr(at.cast()) };
                let new = |old| Some(update(old, data, compare));
                match word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, new) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    }

    /// Apply to memory that only this thread uses; returns the old value.
    ///
    /// # Safety
    /// `at` is valid for reads and writes.
    #[inline(always)]
    pub unsafe fn apply_private(self, at: *mut u8, data: u64, compare: u64) -> u64 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Update::B32(update) => {
                    let old = at.cast::<u32>().read_unaligned();
                    at.cast::<u32>()
                        .write_unaligned(update(old, data as u32, compare as u32));
                    old.into()
                }
                Update::B64(update) => {
                    let old = at.cast::<u64>().read_unaligned();
                    at.cast::<u64>().write_unaligned(update(old, data, compare));
                    old
                }
            }
        }
    }
}

/// An atomic operation: its names, and what it does.
pub(crate) struct AtomicOp {
    /// Names after `global_atomic_`, `flat_atomic_`, `buffer_atomic_` or `ds_`, without `_rtn`.
    names: &'static [&'static str],
    pub update: Update,
    /// Takes a second operand to compare with.
    pub compares: bool,
}

impl AtomicOp {
    /// Dwords of its operands.
    pub fn dwords(&self) -> u8 {
        let dwords = (self.update.bytes() / 4) as u8;
        if self.compares {
            2 * dwords
        } else {
            dwords
        }
    }
}

macro_rules! table {
    ($($($name:literal)|+ => $width:ident $($compares:ident)? |$old:ident, $data:ident, $compare:pat_param| $new:expr;)*) => {
        &[$(AtomicOp {
            names: &[$($name),+],
            update: Update::$width(|$old, $data, $compare| $new),
            compares: table!(@compares $($compares)?),
        }),*]
    };
    (@compares) => { false };
    (@compares compares) => { true };
}

fn f32s(new: impl Fn(f32, f32) -> f32, a: u32, b: u32) -> u32 {
    new(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

fn f64s(new: impl Fn(f64, f64) -> f64, a: u64, b: u64) -> u64 {
    new(f64::from_bits(a), f64::from_bits(b)).to_bits()
}

/// Apply to both halves of packed 16-bit values.
fn halves(new: impl Fn(u16, u16) -> u16, a: u32, b: u32) -> u32 {
    u32::from(new(a as u16, b as u16)) | u32::from(new((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// The 32 bits from `shift` on: those of `data` without their highest bit if that is set, else those before.
fn flagged(old: u64, data: u64, shift: u32) -> u64 {
    const FLAG: u64 = 1 << 31;
    let (old, data) = (old >> shift & 0xffff_ffff, data >> shift & 0xffff_ffff);
    (if data & FLAG != 0 { data & !FLAG } else { old }) << shift
}

fn add_f16(a: u16, b: u16) -> u16 {
    f16::from_f32(f16::from_bits(a).to_f32() + f16::from_bits(b).to_f32()).to_bits()
}

fn add_bf16(a: u16, b: u16) -> u16 {
    bf16::from_f32(bf16::from_bits(a).to_f32() + bf16::from_bits(b).to_f32()).to_bits()
}

/// The sign and magnitude order in which minNum and maxNum prefer -0 and +0.
fn min_f32(a: f32, b: f32) -> f32 {
    if a == b && a.is_sign_negative() {
        a
    } else {
        b.min(a)
    }
}

fn max_f32(a: f32, b: f32) -> f32 {
    if a == b && a.is_sign_positive() {
        a
    } else {
        b.max(a)
    }
}

fn min_f64(a: f64, b: f64) -> f64 {
    if a == b && a.is_sign_negative() {
        a
    } else {
        b.min(a)
    }
}

fn max_f64(a: f64, b: f64) -> f64 {
    if a == b && a.is_sign_positive() {
        a
    } else {
        b.max(a)
    }
}

/// ISA manuals, "Flat/buffer atomics" and "LDS instructions".
static ATOMICS: &[AtomicOp] = table! {
    "swap" | "swap_b32" | "wrxchg_b32" | "storexchg_b32" => B32 |_old, data, _| data;
    "swap_x2" | "swap_b64" | "wrxchg_b64" | "storexchg_b64" => B64 |_old, data, _| data;
    "cmpswap" | "cmpswap_b32" | "cmpst_b32" | "cmpstore_b32" => B32 compares |old, data, compare| if old == compare { data } else { old };
    "cmpswap_x2" | "cmpswap_b64" | "cmpst_b64" | "cmpstore_b64" => B64 compares |old, data, compare| if old == compare { data } else { old };
    "fcmpswap" | "cmpswap_f32" | "cmpst_f32" | "cmpstore_f32" => B32 compares |old, data, compare| if f32::from_bits(old) == f32::from_bits(compare) { data } else { old };
    "fcmpswap_x2" | "cmpst_f64" | "cmpstore_f64" => B64 compares |old, data, compare| if f64::from_bits(old) == f64::from_bits(compare) { data } else { old };
    "add" | "add_u32" => B32 |old, data, _| old.wrapping_add(data);
    "add_x2" | "add_u64" => B64 |old, data, _| old.wrapping_add(data);
    "sub" | "sub_u32" => B32 |old, data, _| old.wrapping_sub(data);
    "sub_x2" | "sub_u64" => B64 |old, data, _| old.wrapping_sub(data);
    "rsub_u32" => B32 |old, data, _| data.wrapping_sub(old);
    "rsub_u64" => B64 |old, data, _| data.wrapping_sub(old);
    "csub" | "csub_u32" | "sub_clamp_u32" => B32 |old, data, _| old.saturating_sub(data);
    "cond_sub_u32" => B32 |old, data, _| if old >= data { old - data } else { old };
    "wrap_b32" => B32 compares |old, data, limit| if old >= limit { old - limit } else { old.wrapping_add(data) };
    "condxchg32_b64" => B64 |old, data, _| flagged(old, data, 0) | flagged(old, data, 32);
    "smin" | "min_i32" => B32 |old, data, _| (old as i32).min(data as i32) as u32;
    "smin_x2" | "min_i64" => B64 |old, data, _| (old as i64).min(data as i64) as u64;
    "umin" | "min_u32" => B32 |old, data, _| old.min(data);
    "umin_x2" | "min_u64" => B64 |old, data, _| old.min(data);
    "smax" | "max_i32" => B32 |old, data, _| (old as i32).max(data as i32) as u32;
    "smax_x2" | "max_i64" => B64 |old, data, _| (old as i64).max(data as i64) as u64;
    "umax" | "max_u32" => B32 |old, data, _| old.max(data);
    "umax_x2" | "max_u64" => B64 |old, data, _| old.max(data);
    "and" | "and_b32" => B32 |old, data, _| old & data;
    "and_x2" | "and_b64" => B64 |old, data, _| old & data;
    "or" | "or_b32" => B32 |old, data, _| old | data;
    "or_x2" | "or_b64" => B64 |old, data, _| old | data;
    "xor" | "xor_b32" => B32 |old, data, _| old ^ data;
    "xor_x2" | "xor_b64" => B64 |old, data, _| old ^ data;
    "inc" | "inc_u32" => B32 |old, data, _| if old >= data { 0 } else { old + 1 };
    "inc_x2" | "inc_u64" => B64 |old, data, _| if old >= data { 0 } else { old + 1 };
    "dec" | "dec_u32" => B32 |old, data, _| if old == 0 || old > data { data } else { old - 1 };
    "dec_x2" | "dec_u64" => B64 |old, data, _| if old == 0 || old > data { data } else { old - 1 };
    "mskor_b32" => B32 compares |old, data, mask| old & !mask | data;
    "mskor_b64" => B64 compares |old, data, mask| old & !mask | data;
    "add_f32" => B32 |old, data, _| f32s(|a, b| a + b, old, data);
    "add_f64" => B64 |old, data, _| f64s(|a, b| a + b, old, data);
    "fmin" | "min_f32" | "min_num_f32" => B32 |old, data, _| f32s(min_f32, old, data);
    "fmax" | "max_f32" | "max_num_f32" => B32 |old, data, _| f32s(max_f32, old, data);
    "fmin_x2" | "min_f64" | "min_num_f64" => B64 |old, data, _| f64s(min_f64, old, data);
    "fmax_x2" | "max_f64" | "max_num_f64" => B64 |old, data, _| f64s(max_f64, old, data);
    "pk_add_f16" => B32 |old, data, _| halves(add_f16, old, data);
    "pk_add_bf16" => B32 |old, data, _| halves(add_bf16, old, data);
};

/// The atomic of that name, see [`AtomicOp::names`].
pub(crate) fn named(name: &str) -> Option<&'static AtomicOp> {
    ATOMICS.iter().find(|op| op.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run32(name: &str, old: u32, data: u32, compare: u32) -> u32 {
        let op = named(name).unwrap();
        let mut word = [old];
        let at = word.as_mut_ptr().cast();
        // SAFETY: one aligned, live word.
        let returned = unsafe { op.update.apply_shared(at, data.into(), compare.into()) };
        assert_eq!(returned, u64::from(old));
        let mut again = [old];
        // SAFETY: as above.
        unsafe {
            op.update
                .apply_private(again.as_mut_ptr().cast(), data.into(), compare.into())
        };
        assert_eq!(word, again);
        word[0]
    }

    #[test]
    fn wrap_rules_of_inc_and_dec() {
        assert_eq!(run32("inc", 3, 5, 0), 4);
        assert_eq!(run32("inc_u32", 5, 5, 0), 0);
        assert_eq!(run32("inc", 9, 5, 0), 0);
        assert_eq!(run32("dec", 3, 5, 0), 2);
        assert_eq!(run32("dec_u32", 0, 5, 0), 5);
        assert_eq!(run32("dec", 9, 5, 0), 5);
    }

    #[test]
    fn signs_and_compares() {
        assert_eq!(run32("smin", 1, u32::MAX, 0), u32::MAX);
        assert_eq!(run32("umin", 1, u32::MAX, 0), 1);
        assert_eq!(run32("max_i32", 1, u32::MAX, 0), 1);
        assert_eq!(run32("cmpswap", 7, 1, 7), 1);
        assert_eq!(run32("cmpstore_b32", 7, 1, 8), 7);
        assert_eq!(run32("rsub_u32", 3, 10, 0), 7);
        assert_eq!(run32("mskor_b32", 0b1111, 0b0100, 0b0110), 0b1101);
        assert_eq!(run32("csub_u32", 3, 10, 0), 0);
        assert_eq!(run32("cond_sub_u32", 3, 10, 0), 3);
    }

    #[test]
    fn floats() {
        let bits = f32::to_bits;
        assert_eq!(run32("add_f32", bits(1.5), bits(2.0), 0), bits(3.5));
        assert_eq!(run32("fmin", bits(f32::NAN), bits(2.0), 0), bits(2.0));
        assert_eq!(run32("max_f32", bits(-0.0), bits(0.0), 0), bits(0.0));
        assert_eq!(run32("min_num_f32", bits(0.0), bits(-0.0), 0), bits(-0.0));
        // 1.0 + 2.0 and 65504 + 65504 in f16; 1.0 + 2.0 in bf16.
        assert_eq!(
            run32("pk_add_f16", 0x7bff_3c00, 0x7bff_4000, 0),
            0x7c00_4200
        );
        assert_eq!(run32("pk_add_bf16", 0x3f80, 0x4000, 0), 0x4040);
    }

    #[test]
    fn wide() {
        let op = named("add_x2").unwrap();
        let mut word = [u64::from(u32::MAX)];
        // SAFETY: one aligned, live word.
        let old = unsafe { op.update.apply_shared(word.as_mut_ptr().cast(), 1, 0) };
        assert_eq!((old, word[0]), (u64::from(u32::MAX), 1 << 32));
        assert_eq!(named("max_f64").unwrap().update.bytes(), 8);
        assert!(named("frobnicate").is_none());
    }
}
