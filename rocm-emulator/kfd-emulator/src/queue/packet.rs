//! AQL packets: HSA's, and AMD's own (`hsa.h`, `hsa_ext_amd.h`).

use std::sync::atomic::{AtomicU16, Ordering};

use rocm_emulator::exec::PACKET_BYTES;

/// A packet's type, in the low byte of its header.
const INVALID: u8 = 1;

/// What a packet asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Run a kernel.
    Dispatch,
    /// Wait until the numbers of all these signals are 0.
    WaitForAll,
    /// Wait until that of one of them is.
    WaitForOne,
    /// Wait for what a signal's number compares with.
    WaitForValue,
    /// Commands of the hardware's: AMD's runtime clears caches with them, which the emulated GPU has not.
    Hardware,
    /// Something else, by its header.
    Unknown(u16),
}

/// A packet as it stood in the queue.
#[derive(Clone, Copy)]
pub struct Packet(pub [u8; PACKET_BYTES]);

impl Packet {
    /// The packet at an address of a queue; `None` while its header says that it is not there yet.
    ///
    /// # Safety
    /// A queue's packet lies there.
    pub unsafe fn read(address: u64) -> Option<Packet> {
        // SAFETY: the caller's promise; packets are aligned to their size.
        let header = unsafe { &*(address as *const AtomicU16) };
        if header.load(Ordering::Acquire) as u8 == INVALID {
            return None;
        }
        // SAFETY: as above. The host has stored the header last.
        Some(Packet(unsafe { *(address as *const [u8; PACKET_BYTES]) }))
    }

    /// Let the host write another one there.
    ///
    /// # Safety
    /// As of [`Packet::read`].
    pub unsafe fn clear(address: u64) {
        // SAFETY: the caller's promise.
        let header = unsafe { &*(address as *const AtomicU16) };
        header.store(INVALID.into(), Ordering::Release);
    }

    /// What it asks for.
    pub fn request(&self) -> Request {
        // Packets of the vendor's have a byte that says of what format they are.
        match (self.0[0], self.0[2]) {
            (0, 1) => Request::Hardware,
            (0, 2) => Request::WaitForValue,
            (2, _) => Request::Dispatch,
            (3, _) => Request::WaitForAll,
            (5, _) => Request::WaitForOne,
            _ => Request::Unknown(u16::from_le_bytes([self.0[0], self.0[1]])),
        }
    }

    /// The signal that is counted down when it is done; 0 for none.
    pub fn completion(&self) -> u64 {
        self.quadword(56)
    }

    /// The signals that a barrier waits for.
    pub fn dependencies(&self) -> impl Iterator<Item = u64> + '_ {
        let all = (1..6).map(|slot| self.quadword(8 * slot));
        all.filter(|signal| *signal != 0)
    }

    /// The signal that [`Request::WaitForValue`] is about, and whether a number of it is what is waited for.
    pub fn awaited(&self) -> (u64, impl Fn(i64) -> bool) {
        let (value, mask) = (self.quadword(16) as i64, self.quadword(24) as i64);
        let condition = self.quadword(32) as u32;
        let holds = move |number: i64| {
            let number = number & mask;
            match condition {
                0 => number == value,
                1 => number != value,
                2 => number < value,
                _ => number >= value,
            }
        };
        (self.quadword(8), holds)
    }

    fn quadword(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: u8, format: u8, quadwords: &[(usize, u64)]) -> Packet {
        let mut bytes = [0; PACKET_BYTES];
        bytes[0] = kind;
        bytes[2] = format;
        for (at, value) in quadwords {
            bytes[*at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        Packet(bytes)
    }

    #[test]
    fn requests_are_told_apart() {
        for (kind, format, request) in [
            (0, 1, Request::Hardware),
            (0, 2, Request::WaitForValue),
            (0, 3, Request::Unknown(0)),
            (2, 9, Request::Dispatch),
            (3, 0, Request::WaitForAll),
            (4, 0, Request::Unknown(4)),
            (5, 0, Request::WaitForOne),
        ] {
            assert_eq!(packet(kind, format, &[]).request(), request);
        }
    }

    #[test]
    fn barriers_name_up_to_five_signals() {
        let packet = packet(3, 0, &[(8, 80), (24, 96), (40, 112), (56, 7)]);
        assert_eq!(packet.dependencies().collect::<Vec<_>>(), [80, 96, 112]);
        assert_eq!(packet.completion(), 7);
    }

    #[test]
    fn values_are_compared_under_their_mask() {
        for (condition, number, holds) in [
            (0, 0x15, true),
            (0, 0x16, false),
            (1, 0x16, true),
            (2, 0x14, true),
            (2, 0x15, false),
            (3, 0x15, true),
            (3, 0x14, false),
        ] {
            let packet = packet(0, 2, &[(8, 64), (16, 5), (24, 0xf), (32, condition)]);
            let (signal, awaited) = packet.awaited();
            assert_eq!(signal, 64);
            assert_eq!(awaited(number), holds, "{condition} {number:#x}");
        }
    }

    #[test]
    fn a_packet_is_there_when_its_header_says_so() {
        #[repr(align(64))]
        struct Slot([u8; PACKET_BYTES]);
        let mut slot = Slot(packet(1, 0, &[]).0);
        let address = std::ptr::from_mut(&mut slot) as u64;
        // SAFETY: a packet lies there, of bytes that may be anything.
        unsafe {
            assert!(Packet::read(address).is_none());
            (address as *mut u8).write(2);
            assert_eq!(Packet::read(address).unwrap().request(), Request::Dispatch);
            Packet::clear(address);
            assert!(Packet::read(address).is_none());
        }
    }
}
