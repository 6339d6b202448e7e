//! From an operation on one lane to a loop over a wavefront.
//!
//! The tables state operations as plain functions of typed values. [`entry`] turns such a function into
//! an [`Entry`]: what its operands are, and a [`Kernel`] compiled twice, for the baseline CPU and for one
//! with AVX2, FMA and F16C, where the loop over the lanes becomes SIMD.

use std::mem::MaybeUninit;

use super::value::{Argument, Buffer, Kind, Outcome, Slot};
use crate::exec::simd;
use crate::exec::LANES;

/// Arguments that an operation may have.
pub(super) const MAX_ARGUMENTS: usize = 5;

/// What a kernel works on. Row pointers point to [`LANES`] dwords for each dword of the operand.
pub(super) struct Args {
    /// Arguments in the operation's order.
    pub src: [*const u32; MAX_ARGUMENTS],
    /// The vector destination.
    pub dst: *mut u32,
    /// Bits of the destination's dwords that are written: the half of a 16-bit result, or all.
    pub write: u32,
    /// All ones in the lanes that are written.
    pub exec: *const u32,
    /// Every lane is written.
    pub full: bool,
    /// Lanes of the wavefront.
    pub lanes: usize,
    /// Output: the lane mask, inactive lanes not yet cleared.
    pub mask: u64,
}

/// A loop over the wavefront.
///
/// # Safety
/// Callable when the pointers in [`Args`] are valid for what the entry's slots say, and on a CPU with the
/// features of [`simd::level`] at the time of the entry's making.
pub(super) type Kernel = unsafe fn(&mut Args);

/// An operation on one lane; `Marker` is its argument tuple.
pub(super) trait Operation<Marker>: Copy {
    type Output: Outcome;
    const SLOTS: &'static [Slot];

    /// # Safety
    /// As for [`Argument::load`], for every argument.
    unsafe fn low(self, rows: &[*const u32; MAX_ARGUMENTS], lane: usize) -> Self::Output;

    /// # Safety
    /// As for [`Argument::load_high`], for every argument.
    unsafe fn high(self, rows: &[*const u32; MAX_ARGUMENTS], lane: usize) -> Self::Output;
}

macro_rules! operation_of_arity {
    ($($argument:ident $index:tt),*) => {
        impl<Function, Output, $($argument),*> Operation<($($argument,)*)> for Function
        where
            Function: Fn($($argument),*) -> Output + Copy,
            Output: Outcome,
            $($argument: Argument,)*
        {
            type Output = Output;
            const SLOTS: &'static [Slot] = &[$($argument::SLOT),*];

            #[inline(always)]
            unsafe fn low(self, rows: &[*const u32; MAX_ARGUMENTS], lane: usize) -> Output {
                // SAFETY: the caller's promise.
                self($(unsafe { $argument::load(rows[$index], lane) }),*)
            }

            #[inline(always)]
            unsafe fn high(self, rows: &[*const u32; MAX_ARGUMENTS], lane: usize) -> Output {
                // SAFETY: the caller's promise.
                self($(unsafe { $argument::load_high(rows[$index], lane) }),*)
            }
        }
    };
}

operation_of_arity!(A 0);
operation_of_arity!(A 0, B 1);
operation_of_arity!(A 0, B 1, C 2);
operation_of_arity!(A 0, B 1, C 2, D 3);
operation_of_arity!(A 0, B 1, C 2, D 3, E 4);

/// What the tables hold for an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub slots: &'static [Slot],
    /// What the vector destination receives, if there is one.
    pub value: Option<Kind>,
    /// Whether a lane mask is produced.
    pub mask: bool,
    /// Packed math: the operation runs on both halves.
    pub packed: bool,
    pub kernel: Kernel,
}

/// The function item's only value.
#[inline(always)]
fn conjure<F: Copy>() -> F {
    const {
        assert!(size_of::<F>() == 0, "operations are function items");
    }
    // SAFETY: a type of size zero has no bits to read, and a value of this one was passed to `entry`.
    unsafe { std::ptr::NonNull::<F>::dangling().read() }
}

/// # Safety
/// See [`Kernel`].
#[inline(always)]
unsafe fn run<F: Operation<M>, M, const PACKED: bool>(args: &mut Args) {
    let operation: F = conjure();
    let rows = args.src;
    let mut buffer = MaybeUninit::<Buffer>::uninit();
    // SAFETY: a buffer is made of MaybeUninit elements.
    let buffer = unsafe { &mut *buffer.as_mut_ptr() };
    // Two possible trip counts, so that the compiler sees neither a remainder nor a bounds check.
    let lanes = if args.lanes == LANES {
        LANES
    } else {
        LANES / 2
    };
    for lane in 0..lanes {
        // SAFETY: the caller's promise, and lanes are at most LANES.
        unsafe {
            operation.low(&rows, lane).put(buffer, lane);
            if PACKED {
                operation.high(&rows, lane).put_high(buffer, lane);
            }
        }
    }
    if let Some(kind) = F::Output::VALUE {
        let kind = if PACKED { kind.packed() } else { kind };
        // SAFETY: `put` wrote the low dword of every lane, and the high one for kinds of two.
        unsafe {
            if kind.is_half() {
                store_half(args, &buffer.low, lanes);
            } else {
                store(args, 0, &buffer.low, lanes);
                if kind.dwords() == 2 {
                    store(args, 1, &buffer.high, lanes);
                }
            }
        }
    }
    if F::Output::MASK {
        // SAFETY: `put` wrote the mask byte of every lane.
        args.mask = unsafe { pack_bits(&buffer.mask, lanes) };
    }
}

/// A row of values, as many as the wavefront has lanes.
type Values = [MaybeUninit<u32>; LANES];

/// Write a dword row of the destination in the active lanes.
///
/// # Safety
/// The destination has the row, and the first `lanes` values are initialised.
#[inline(always)]
unsafe fn store(args: &Args, row: usize, values: &Values, lanes: usize) {
    // SAFETY: the caller's promise; EXEC's row is no vector register.
    unsafe {
        let dst = args.dst.add(row * LANES);
        match (args.full, lanes == LANES) {
            (true, true) => copy::<LANES>(dst, values),
            (true, false) => copy::<{ LANES / 2 }>(dst, values),
            (false, true) => blend::<LANES>(&mut *dst.cast(), &*args.exec.cast(), values, u32::MAX),
            (false, false) => {
                blend::<{ LANES / 2 }>(&mut *dst.cast(), &*args.exec.cast(), values, u32::MAX)
            }
        }
    }
}

/// Write 16-bit results, keeping the bits outside `args.write`.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
unsafe fn store_half(args: &Args, values: &Values, lanes: usize) {
    // SAFETY: the caller's promise; EXEC's row is no vector register.
    unsafe {
        let (dst, exec) = (&mut *args.dst.cast(), &*args.exec.cast());
        if lanes == LANES {
            blend::<LANES>(dst, exec, values, args.write);
        } else {
            blend::<{ LANES / 2 }>(dst, exec, values, args.write);
        }
    }
}

/// # Safety
/// `dst` has `N` dwords, and as many values are initialised.
#[inline(always)]
unsafe fn copy<const N: usize>(dst: *mut u32, values: &Values) {
    // SAFETY: the caller's promise; the values are no vector register.
    unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u32>(), dst, N) }
}

/// # Safety
/// The first `N` values are initialised.
#[inline(always)]
unsafe fn blend<const N: usize>(
    dst: &mut [u32; LANES],
    exec: &[u32; LANES],
    values: &Values,
    write: u32,
) {
    // In pieces that are loaded whole before they are written, which needs no proof that nothing overlaps.
    const PIECE: usize = 8;
    for first in (0..N).step_by(PIECE) {
        let mut piece = [0; PIECE];
        for (i, new) in piece.iter_mut().enumerate() {
            let old = dst[first + i];
            // SAFETY: the caller's promise.
            let value = unsafe { values[first + i].assume_init() };
            *new = old ^ ((old ^ value) & exec[first + i] & write);
        }
        dst[first..first + PIECE].copy_from_slice(&piece);
    }
}

/// Zero/one bytes to a bit mask, eight at a time: the multiplication moves byte i's bit to bit 56 + i.
#[inline(always)]
unsafe fn pack_bits(bytes: &[MaybeUninit<u8>; LANES], lanes: usize) -> u64 {
    let mut mask = 0;
    for group in 0..lanes / 8 {
        // SAFETY: the caller's promise: the first `lanes` bytes are initialised.
        let eight = unsafe { bytes.as_ptr().cast::<u64>().add(group).read_unaligned() };
        let bits = u64::from_le(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= bits << (8 * group);
    }
    mask
}

/// # Safety
/// See [`Kernel`].
unsafe fn run_baseline<F: Operation<M>, M, const PACKED: bool>(args: &mut Args) {
    // SAFETY: the caller's promise.
    unsafe { run::<F, M, PACKED>(args) }
}

/// # Safety
/// See [`Kernel`]; the CPU has the features.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn run_avx2<F: Operation<M>, M, const PACKED: bool>(args: &mut Args) {
    // SAFETY: the caller's promise.
    unsafe { run::<F, M, PACKED>(args) }
}

fn choose<F: Operation<M>, M, const PACKED: bool>() -> Kernel {
    match simd::level() {
        #[cfg(target_arch = "x86_64")]
        simd::Level::Avx2 => run_avx2::<F, M, PACKED>,
        _ => run_baseline::<F, M, PACKED>,
    }
}

/// The entry of an operation.
pub(super) fn entry<F: Operation<M>, M>(_operation: F) -> Entry {
    Entry {
        slots: F::SLOTS,
        value: F::Output::VALUE,
        mask: F::Output::MASK,
        packed: false,
        kernel: choose::<F, M, false>(),
    }
}

/// The entry of an operation that runs on both halves of packed operands.
pub(super) fn packed_entry<F: Operation<M>, M>(_operation: F) -> Entry {
    Entry {
        slots: F::SLOTS,
        value: F::Output::VALUE.map(Kind::packed),
        mask: false,
        packed: true,
        kernel: choose::<F, M, true>(),
    }
}
