//! Hostcalls: a wavefront puts a packet of arguments, a row for each lane, on a stack, rings a doorbell, and sleeps until
//! the host has answered. `printf` and `assert` are messages of several such calls.
//!
//! The layout is that of ROCm 4 to 7 (ockl's `hostcall` on the device, ROCclr's `HostcallBuffer` on the host): a table of
//! pointers to the packets' headers and payloads and to a signal, two stacks of packets, free and ready, and the mask
//! of the bits of a stack's entry that number the packet. A message's first word says whether it begins (bit 0) or
//! ends (bit 1) it, how many words of the call belong to it (bits 5 to 7), and from bit 8 on its number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::buffer::Buffer;
use super::output::{PrintStream, Sink};
use super::printf;
use crate::fault::FaultKind;
use crate::memory::Memory;

/// Where the table keeps the stack of ready packets.
const READY_STACK: u64 = 32;
/// The signal that is the doorbell: nobody waits for it here, so it is only a place to add to.
const SIGNAL: u64 = 64;
const HEADERS: u64 = 128;
/// A header: next packet, active lanes, service, control.
const HEADER_BYTES: u64 = 24;
const CONTROL: u64 = 20;
/// Bit of the control dword: the host has not answered yet.
const READY: u32 = 1;
/// A payload: 8 words for each of 64 lanes.
const LANE_WORDS: usize = 8;
const PAYLOAD_BYTES: u64 = 64 * 8 * LANE_WORDS as u64;

/// The service that messages for `printf` go to.
const PRINTF: u32 = 2;

/// What the services do that are not served.
const OTHERS: &[(u32, &str)] = &[
    (1, "a call of a function of the program"),
    (3, "memory for malloc"),
    (4, "a report of the address sanitizer"),
];

/// A message's first word.
const BEGINS: u64 = 1;
const ENDS: u64 = 2;
const LENGTH_SHIFT: u32 = 5;
const NUMBER_SHIFT: u32 = 8;

/// A launch's hostcalls.
pub(super) struct Hostcalls<'a> {
    buffer: Buffer<'a>,
    /// A power of two.
    packets: u64,
    messages: Mutex<Messages>,
}

/// Messages that have begun.
#[derive(Default)]
struct Messages {
    next: u64,
    open: HashMap<u64, Vec<u64>>,
}

impl<'a> Hostcalls<'a> {
    /// For so many wavefronts at once: each has at most one packet.
    pub fn new(memory: &'a Memory, wavefronts: u64) -> Result<Hostcalls<'a>, FaultKind> {
        let packets = wavefronts.max(2).next_power_of_two();
        let payloads = (HEADERS + packets * HEADER_BYTES).next_multiple_of(64);
        let buffer = Buffer::new(memory, payloads + packets * PAYLOAD_BYTES)?;
        let base = buffer.address();
        // An entry is never 0: above the number it has a tag, which packet 0 needs from the start.
        let entry = |packet: u64| if packet == 0 { packets } else { packet };
        buffer.put(
            0,
            &[
                base + HEADERS,
                base + payloads,
                base + SIGNAL,
                entry(packets - 1),
                0,
                packets - 1,
            ],
        );
        for packet in 1..packets {
            buffer.put(HEADERS + packet * HEADER_BYTES, &[entry(packet - 1)]);
        }
        Ok(Hostcalls {
            buffer,
            packets,
            messages: Mutex::default(),
        })
    }

    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Answer the packets that are ready, in the order in which they became so; tells whether there were any.
    pub fn serve(&self, sink: &Sink) -> Result<bool, FaultKind> {
        let stack = self.buffer.address() + READY_STACK;
        // SAFETY: the buffer is live while `self` is, and 8-byte aligned; the kernel changes the word atomically.
        let stack = unsafe { AtomicU64::from_ptr(stack as *mut u64) };
        if stack.load(Ordering::Relaxed) == 0 {
            return Ok(false);
        }
        let mut messages = self.messages.lock();
        let mut ready = Vec::new();
        let mut entry = stack.swap(0, Ordering::Acquire);
        // The kernel may have destroyed the list: it has no more packets than there are.
        while entry != 0 && ready.len() < self.packets as usize {
            let packet = entry & (self.packets - 1);
            ready.push(packet);
            entry = self.words(HEADERS + packet * HEADER_BYTES, 1)[0];
        }
        for packet in ready.iter().rev() {
            self.answer(*packet, &mut messages, sink)?;
        }
        Ok(!ready.is_empty())
    }

    fn words(&self, at: u64, count: usize) -> Vec<u64> {
        let bytes = self.buffer.get(at, count * 8);
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect()
    }

    fn answer(&self, packet: u64, messages: &mut Messages, sink: &Sink) -> Result<(), FaultKind> {
        let header = HEADERS + packet * HEADER_BYTES;
        let fields = self.words(header, 3);
        let (lanes, service) = (fields[1], fields[2] as u32);
        if service != PRINTF {
            let known = OTHERS.iter().find(|other| other.0 == service);
            return Err(FaultKind::Hostcall {
                service,
                what: known.map_or("unknown", |other| other.1),
            });
        }
        let payloads = (HEADERS + self.packets * HEADER_BYTES).next_multiple_of(64);
        for lane in (0..64).filter(|lane| lanes >> lane & 1 != 0) {
            let at = payloads + packet * PAYLOAD_BYTES + lane * 8 * LANE_WORDS as u64;
            let words = self.words(at, LANE_WORDS);
            let answer = messages.take(&words, sink);
            self.buffer.put(at, &[answer]);
        }
        let control = self.buffer.address() + header + CONTROL;
        // SAFETY: as in `serve`; the dword is 4-byte aligned.
        let control = unsafe { AtomicU32::from_ptr(control as *mut u32) };
        control.fetch_and(!READY, Ordering::Release);
        Ok(())
    }
}

impl Messages {
    /// Take a lane's part of a message; gives the word that the lane goes on with, or what was printed.
    fn take(&mut self, words: &[u64], sink: &Sink) -> u64 {
        let mut descriptor = words[0];
        if descriptor & BEGINS != 0 {
            self.next += 1;
            self.open.insert(self.next, Vec::new());
            let kept = descriptor & ((1 << NUMBER_SHIFT) - 1) & !BEGINS;
            descriptor = kept | self.next << NUMBER_SHIFT;
        }
        let number = descriptor >> NUMBER_SHIFT;
        // A number that no message has is the kernel's mistake: it gets printf's failure.
        let Some(message) = self.open.get_mut(&number) else {
            return u64::MAX;
        };
        let length = (descriptor >> LENGTH_SHIFT & 7) as usize;
        message.extend(&words[1..1 + length]);
        if descriptor & ENDS == 0 {
            return descriptor;
        }
        let message = self.open.remove(&number).unwrap_or_default();
        print(&message, sink)
    }
}

/// Print a message: a word for the stream, then format and arguments.
fn print(message: &[u64], sink: &Sink) -> u64 {
    let to = match message.first() {
        Some(0) => PrintStream::Out,
        Some(1) => PrintStream::Err,
        _ => return u64::MAX,
    };
    let bytes: Vec<u8> = message[1..]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let text = printf::text(&bytes);
    sink.print(to, &text);
    text.len() as u64
}
