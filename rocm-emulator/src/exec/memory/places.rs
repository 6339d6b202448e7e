//! Where the lanes of a wavefront access: addresses made of registers, and their alignment.

use super::access::{misaligned, scratch_overrun, Access, Outcome};
use super::context::Context;
use crate::exec::simd::multiversion;
use crate::exec::wave::{Row, LANES};

/// Host addresses by lane; inactive lanes hold anything.
pub(crate) type Places = [u64; LANES];

/// Places where nothing but zeros is read, 16 bytes at most: what a load gets that is out of range, in the half of a
/// register that it writes.
pub(crate) fn zeros() -> Places {
    static ZEROS: [u64; 2] = [0; 2];
    [ZEROS.as_ptr() as u64; LANES]
}

/// Run `lane` for every active lane, without a branch on the mask where all are active.
#[inline(always)]
pub(crate) fn each_lane(exec: u64, lanes: u32, mut lane: impl FnMut(usize)) {
    match (exec == u64::MAX >> (64 - lanes), lanes) {
        (true, 32) => (0..32).for_each(lane),
        (true, _) => (0..64).for_each(lane),
        _ => {
            let mut rest = exec;
            while rest != 0 {
                lane(rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

/// Atomics must be naturally aligned.
pub(crate) fn check_alignment(places: &Places, exec: u64, bytes: u32) -> Outcome {
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        if !places[lane].is_multiple_of(u64::from(bytes)) {
            let lane_number = Some(lane as u32);
            return Err(misaligned(
                Access::Atomic,
                places[lane],
                bytes,
                bytes,
                lane_number,
            ));
        }
    }
    Ok(())
}

/// Places of `base + offsets[lane]` in each lane's scratch, checked.
pub(crate) fn scratch_places(
    base: i64,
    offsets: &Row,
    exec: u64,
    bytes: u32,
    access: Access,
    cx: &Context,
) -> Outcome<Places> {
    let mut places = [0; LANES];
    let room = i64::from(cx.scratch_size) - i64::from(bytes);
    for (lane, place) in places.iter_mut().enumerate() {
        let offset = base + i64::from(offsets.0[lane]);
        let first = cx.scratch as u64 + lane as u64 * u64::from(cx.scratch_stride);
        *place = first.wrapping_add_signed(offset);
        if exec >> lane & 1 != 0 && (offset < 0 || offset > room) {
            let size = cx.scratch_size;
            return Err(scratch_overrun(access, offset as u64, bytes, size, lane));
        }
    }
    Ok(places)
}

multiversion! {
    /// Whether every lane's offset is `bytes` after the lane before.
    pub(crate) fn follow32(offsets: &Row, bytes: u32, lanes: u32) -> bool {
        let first = offsets.0[0];
        if first > u32::MAX - bytes * LANES as u32 {
            return false;
        }
        let difference = |lane: usize| offsets.0[lane] ^ first.wrapping_add(lane as u32 * bytes);
        let any = |lanes: usize| (0..lanes).fold(0, |any, lane| any | difference(lane));
        (if lanes == 32 { any(32) } else { any(64) }) == 0
    }

    /// The same for 64-bit addresses; false where the low dwords carry.
    pub(crate) fn follow64(low: &Row, high: &Row, bytes: u32, lanes: u32) -> bool {
        let (first, top) = (low.0[0], high.0[0]);
        if first > u32::MAX - bytes * LANES as u32 {
            return false;
        }
        let difference = |lane: usize| {
            (low.0[lane] ^ first.wrapping_add(lane as u32 * bytes)) | (high.0[lane] ^ top)
        };
        let any = |lanes: usize| (0..lanes).fold(0, |any, lane| any | difference(lane));
        (if lanes == 32 { any(32) } else { any(64) }) == 0
    }

    /// Addresses `base + offsets[lane]`; inactive lanes repeat an active one. Returns the least and the greatest.
    pub(crate) fn spread32(places: &mut Places, base: u64, offsets: &Row, exec: u64, active: &Row) -> (u64, u64) {
        let some = offsets.0[exec.trailing_zeros() as usize & 63];
        let (mut least, mut greatest) = (some, some);
        for (lane, place) in places.iter_mut().enumerate() {
            let offset = offsets.0[lane] & active.0[lane] | some & !active.0[lane];
            least = least.min(offset);
            greatest = greatest.max(offset);
            *place = base.wrapping_add(offset.into());
        }
        let (first, last) = (base.wrapping_add(least.into()), base.wrapping_add(greatest.into()));
        if first <= last { (first, last) } else { (0, u64::MAX) }
    }

    /// Addresses of 64 bits plus an offset; inactive lanes repeat an active one. Returns the least and the greatest.
    pub(crate) fn spread64(places: &mut Places, low: &Row, high: &Row, offset: i64, exec: u64, active: &Row) -> (u64, u64) {
        let lane = exec.trailing_zeros() as usize & 63;
        let some = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
        let some = some.wrapping_add_signed(offset);
        let (mut least, mut greatest) = (some, some);
        for (lane, place) in places.iter_mut().enumerate() {
            let address = u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32;
            let address = address.wrapping_add_signed(offset);
            let mask = i64::from(active.0[lane] as i32) as u64;
            let address = address & mask | some & !mask;
            least = least.min(address);
            greatest = greatest.max(address);
            *place = address;
        }
        (least, greatest)
    }
}
