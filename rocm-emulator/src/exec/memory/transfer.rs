//! Moving data between memory and vector registers, whatever the address space: by then every lane's address
//! is a checked host pointer.

use super::places::{each_lane, Places};
use crate::exec::simd;
use crate::exec::wave::Row;
use crate::isa::Element as Moved;

/// A load or store of one element per lane.
#[derive(Clone, Copy)]
pub(crate) struct Transfer {
    /// Bytes in memory.
    pub bytes: u32,
    /// Registers.
    pub rows: u8,
    /// Moves each active lane's element.
    ///
    /// # Safety
    /// The places of active lanes are valid for `bytes` bytes; `data` holds `rows` rows.
    pub scattered: unsafe fn(data: &mut [Row], places: &Places, exec: u64, lanes: u32),
    /// Moves all lanes' elements, which follow each other from an address on.
    ///
    /// # Safety
    /// The address is valid for `bytes * lanes` bytes; `data` holds `rows` rows.
    pub sequence: unsafe fn(data: &mut [Row], first: u64, lanes: u32),
}

/// How an element looks in memory and in a lane's registers.
trait Element {
    const BYTES: usize;
    const ROWS: usize;

    /// The register dword `row`; `old` is what it holds.
    ///
    /// # Safety
    /// `BYTES` bytes can be read at `from`.
    unsafe fn load(from: *const u8, row: usize, old: u32) -> u32;

    /// # Safety
    /// `BYTES` bytes can be written at `to`.
    unsafe fn store(to: *mut u8, row: usize, value: u32);
}

struct Dwords<const N: usize>;

impl<const N: usize> Element for Dwords<N> {
    const BYTES: usize = 4 * N;
    const ROWS: usize = N;

    #[inline(always)]
    unsafe fn load(from: *const u8, row: usize, _old: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { from.add(4 * row).cast::<u32>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, row: usize, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { to.add(4 * row).cast::<u32>().write_unaligned(value) }
    }
}

/// Define an element smaller than a dword: type in memory, value loaded, value stored.
macro_rules! small_element {
    ($($name:ident: $type:ty, |$loaded:ident, $old:ident| $load:expr, |$value:ident| $store:expr;)*) => { $(
        struct $name;

        impl Element for $name {
            const BYTES: usize = size_of::<$type>();
            const ROWS: usize = 1;

            #[inline(always)]
            unsafe fn load(from: *const u8, _row: usize, $old: u32) -> u32 {
                // SAFETY: the caller's promise.
                let $loaded = unsafe { from.cast::<$type>().read_unaligned() };
                $load
            }

            #[inline(always)]
            unsafe fn store(to: *mut u8, _row: usize, $value: u32) {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<$type>().write_unaligned($store as $type) }
            }
        }
    )* };
}

const LOW: u32 = 0xffff;

small_element! {
    U8: u8, |x, _old| x.into(), |v| v;
    I8: i8, |x, _old| i32::from(x) as u32, |v| v;
    U16: u16, |x, _old| x.into(), |v| v;
    I16: i16, |x, _old| i32::from(x) as u32, |v| v;
    LowU8: u8, |x, old| old & !LOW | u32::from(x), |v| v;
    LowI8: i8, |x, old| old & !LOW | u32::from(i16::from(x) as u16), |v| v;
    Low16: u16, |x, old| old & !LOW | u32::from(x), |v| v;
    HighU8: u8, |x, old| old & LOW | u32::from(x) << 16, |v| v >> 16;
    HighI8: i8, |x, old| old & LOW | u32::from(i16::from(x) as u16) << 16, |v| v >> 16;
    High16: u16, |x, old| old & LOW | u32::from(x) << 16, |v| v >> 16;
    LoneLowI8: i8, |x, _old| u32::from(i16::from(x) as u16), |v| v;
    LoneHighU8: u8, |x, _old| u32::from(x) << 16, |v| v >> 16;
    LoneHighI8: i8, |x, _old| u32::from(i16::from(x) as u16) << 16, |v| v >> 16;
    LoneHigh16: u16, |x, _old| u32::from(x) << 16, |v| v >> 16;
}

macro_rules! mover {
    ($select:ident, $lane:ident) => {
        fn $select<E: Element>() -> Transfer {
            #[inline(always)]
            unsafe fn scattered<E: Element>(
                data: &mut [Row],
                places: &Places,
                exec: u64,
                lanes: u32,
            ) {
                let data = &mut data[..E::ROWS];
                each_lane(exec, lanes, |lane| {
                    // SAFETY: the caller's promise for an active lane.
                    unsafe { $lane::<E>(data, lane, places[lane]) }
                });
            }

            #[inline(always)]
            unsafe fn sequence<E: Element>(data: &mut [Row], first: u64, lanes: u32) {
                let data = &mut data[..E::ROWS];
                let first = first as *mut u8;
                each_lane(u64::MAX >> (64 - lanes), lanes, |lane| {
                    // SAFETY: the caller's promise; the lane's element lies at that distance.
                    unsafe { $lane::<E>(data, lane, first.add(lane * E::BYTES) as u64) }
                });
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            unsafe fn scattered_avx2<E: Element>(
                data: &mut [Row],
                places: &Places,
                exec: u64,
                lanes: u32,
            ) {
                // SAFETY: the caller's promise.
                unsafe { scattered::<E>(data, places, exec, lanes) }
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
            unsafe fn sequence_avx2<E: Element>(data: &mut [Row], first: u64, lanes: u32) {
                // SAFETY: the caller's promise.
                unsafe { sequence::<E>(data, first, lanes) }
            }

            let baseline = Transfer {
                bytes: E::BYTES as u32,
                rows: E::ROWS as u8,
                scattered: scattered::<E>,
                sequence: sequence::<E>,
            };
            match simd::level() {
                #[cfg(target_arch = "x86_64")]
                simd::Level::Avx2 => Transfer {
                    scattered: scattered_avx2::<E>,
                    sequence: sequence_avx2::<E>,
                    ..baseline
                },
                _ => baseline,
            }
        }
    };
}

/// Dwords are moved in pairs: where one is aligned, a workgroup on another thread has written both dwords or neither.
/// RCCL's packets are such pairs, two in a move of four dwords.
///
/// # Safety
/// `E::BYTES` bytes can be read at `from`, and `data` has `E::ROWS` rows.
#[inline(always)]
unsafe fn load_lane<E: Element>(data: &mut [Row], lane: usize, from: u64) {
    let from = from as *const u8;
    let (pairs, rest) = data.as_chunks_mut::<2>();
    for (pair, [low, high]) in pairs.iter_mut().enumerate() {
        // SAFETY: the caller's promise; elements of two rows and more have four bytes for each.
        let both = unsafe { from.add(8 * pair).cast::<u64>().read_unaligned() };
        (low.0[lane], high.0[lane]) = (both as u32, (both >> 32) as u32);
    }
    for (row, dwords) in rest.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        dwords.0[lane] = unsafe { E::load(from, 2 * pairs.len() + row, dwords.0[lane]) };
    }
}

/// Dwords in pairs, as [`load_lane`].
///
/// # Safety
/// `E::BYTES` bytes can be written at `to`, and `data` has `E::ROWS` rows.
#[inline(always)]
unsafe fn store_lane<E: Element>(data: &mut [Row], lane: usize, to: u64) {
    let to = to as *mut u8;
    let (pairs, rest) = data.as_chunks::<2>();
    for (pair, [low, high]) in pairs.iter().enumerate() {
        let both = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
        // SAFETY: the caller's promise; elements of two rows and more have four bytes for each.
        unsafe { to.add(8 * pair).cast::<u64>().write_unaligned(both) };
    }
    for (row, dwords) in rest.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { E::store(to, 2 * pairs.len() + row, dwords.0[lane]) };
    }
}

mover!(loading, load_lane);
mover!(storing, store_lane);

/// The load of an element. One into half a register keeps the other half, or where the registers have ECC writes zero
/// there: see [`crate::isa::d16_loads_keep_half`]. `None` for what no vector instruction loads.
pub(crate) fn load_of(element: Moved, keeps_half: bool) -> Option<Transfer> {
    Some(match (element, keeps_half) {
        (Moved::B32, _) => loading::<Dwords<1>>(),
        (Moved::B64, _) => loading::<Dwords<2>>(),
        (Moved::B96, _) => loading::<Dwords<3>>(),
        (Moved::B128, _) => loading::<Dwords<4>>(),
        (Moved::U8, _) => loading::<U8>(),
        (Moved::I8, _) => loading::<I8>(),
        (Moved::U16, _) => loading::<U16>(),
        (Moved::I16, _) => loading::<I16>(),
        (Moved::LowU8, true) => loading::<LowU8>(),
        (Moved::HighU8, true) => loading::<HighU8>(),
        (Moved::LowI8, true) => loading::<LowI8>(),
        (Moved::HighI8, true) => loading::<HighI8>(),
        (Moved::Low16, true) => loading::<Low16>(),
        (Moved::High16, true) => loading::<High16>(),
        (Moved::LowU8, false) => loading::<U8>(),
        (Moved::HighU8, false) => loading::<LoneHighU8>(),
        (Moved::LowI8, false) => loading::<LoneLowI8>(),
        (Moved::HighI8, false) => loading::<LoneHighI8>(),
        (Moved::Low16, false) => loading::<U16>(),
        (Moved::High16, false) => loading::<LoneHigh16>(),
        (Moved::B256 | Moved::B512 | Moved::B8 | Moved::B16, _) => return None,
    })
}

/// The store of an element; `None` for what no vector instruction stores.
pub(crate) fn store_of(element: Moved) -> Option<Transfer> {
    Some(match element {
        Moved::B32 => storing::<Dwords<1>>(),
        Moved::B64 => storing::<Dwords<2>>(),
        Moved::B96 => storing::<Dwords<3>>(),
        Moved::B128 => storing::<Dwords<4>>(),
        Moved::B8 => storing::<U8>(),
        Moved::B16 => storing::<U16>(),
        Moved::HighU8 => storing::<HighU8>(),
        Moved::High16 => storing::<High16>(),
        _ => return None,
    })
}
