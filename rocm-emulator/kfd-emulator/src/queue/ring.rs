//! A queue as AMD's runtime lays it out: the ring of its packets, its indices, and how far it was read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::abi::{amd_queue, CreateQueue};
use crate::gpu::Gpu;

/// Bytes of an AQL packet.
const PACKET: u64 = 64;

/// A queue's place in memory, which AMD's runtime gives.
pub struct Ring {
    address: u64,
    packets: u64,
    /// How many packets were written.
    pub write: &'static AtomicU64,
    /// How many were read, for AMD's runtime.
    pub read: &'static AtomicU64,
    /// The `amd_queue_t`.
    pub queue: u64,
}

impl Ring {
    /// What AMD's runtime asks for, if it can be.
    pub fn of(args: &CreateQueue) -> Option<Ring> {
        let packets = u64::from(args.ring_size) / PACKET;
        let aligned = |address: u64| address != 0 && address.is_multiple_of(8);
        if !packets.is_power_of_two()
            || ![args.ring, args.write_pointer, args.read_pointer]
                .into_iter()
                .all(aligned)
        {
            return None;
        }
        // SAFETY: AMD's runtime keeps both indices where it says, aligned, until the queue is destroyed; the reference is
        // not used after that.
        let index = |address: u64| unsafe { &*(address as *const AtomicU64) };
        Some(Ring {
            address: args.ring,
            packets,
            write: index(args.write_pointer),
            read: index(args.read_pointer),
            queue: args.write_pointer - amd_queue::WRITE_INDEX,
        })
    }

    /// The address of the packet of a number.
    pub fn packet(&self, number: u64) -> u64 {
        self.address + number % self.packets * PACKET
    }
}

/// A queue.
pub struct Queue {
    /// Whose it is.
    pub gpu: &'static Gpu,
    /// Where it lies.
    pub ring: Ring,
    /// Packets that were taken.
    pub taken: AtomicU64,
    /// Its thread is to end.
    pub stop: AtomicBool,
    /// Its thread sleeps until its doorbell rings.
    pub sleeps: AtomicBool,
}

impl Queue {
    /// Whether there is something to do.
    pub fn is_rung(&self) -> bool {
        self.ring.write.load(Ordering::Acquire) > self.taken.load(Ordering::Relaxed) || self.stops()
    }

    /// Whether its thread is to end.
    pub fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
