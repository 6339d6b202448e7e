//! What a queue's thread does: one packet after the other, in their order, until one of them fails.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rocm_emulator::exec::DispatchPacket;
use rocm_emulator::fault::FaultKind;
use rocm_emulator::trouble;

use super::packet::{Packet, Request};
use super::ring::Queue;
use super::signal::Signal;
use crate::abi::amd_queue;
use crate::clock;
use crate::events::Events;
use crate::gpu::Failure;

/// How often a thread looks again before it sleeps.
const LOOKS: u32 = 200;
/// How long it sleeps between two looks at signals.
const REST: Duration = Duration::from_micros(20);
/// How long it sleeps when its doorbell has not rung: it is woken then.
const LONG: Duration = Duration::from_millis(500);

/// Bits of a queue's error (ROCr's `DynamicQueueEventsHandler`, as the hardware's firmware sets them).
const NO_ITEMS: i64 = 2;
const TOO_MUCH_LDS: i64 = 4;
const NO_CODE: i64 = 8;
const NO_SUCH_PACKET: i64 = 32;
const TOO_MANY_ITEMS: i64 = 64;
const MEMORY: i64 = 0x2000_0000;
const ILLEGAL_INSTRUCTION: i64 = 0x4000_0000;
const EXCEPTION: i64 = 0x8000_0000;

/// Take packets until the queue ends.
pub fn work(queue: &Queue, events: &Events) {
    let ring = &queue.ring;
    let mut next = queue.taken.load(Ordering::Relaxed);
    while let Some(packet) = wait_for_packet(queue, next) {
        let begun = clock::now();
        if let Err((text, error)) = run(queue, &packet, next) {
            trouble::say(format_args!(
                "device {} ({}): {text}",
                queue.gpu.index, queue.gpu.target
            ));
            return fail(queue, error, events);
        }
        if queue.stops() {
            return;
        }
        // SAFETY: the packet was read from there.
        unsafe { Packet::clear(ring.packet(next)) };
        next += 1;
        queue.taken.store(next, Ordering::Relaxed);
        ring.read.store(next, Ordering::Release);
        if let Some(signal) = Signal::of(queue.gpu, packet.completion()) {
            signal.complete(begun, clock::now(), events);
        }
    }
}

/// The packet of a number; `None` when the queue ends.
fn wait_for_packet(queue: &Queue, number: u64) -> Option<Packet> {
    loop {
        let mut looks = 0;
        while !queue.is_rung() {
            looks += 1;
            if looks < LOOKS {
                std::thread::yield_now();
                continue;
            }
            queue.sleeps.store(true, Ordering::Release);
            if !queue.is_rung() {
                std::thread::park_timeout(LONG);
            }
            queue.sleeps.store(false, Ordering::Release);
        }
        if queue.stops() {
            return None;
        }
        // The host takes a place first, and writes the packet then.
        // SAFETY: the index says that a packet is, or will be, there.
        if let Some(packet) = unsafe { Packet::read(queue.ring.packet(number)) } {
            return Some(packet);
        }
        std::thread::yield_now();
    }
}

/// What went wrong, in words and as the queue's error.
type Wrong = (String, i64);

fn run(queue: &Queue, packet: &Packet, number: u64) -> Result<(), Wrong> {
    let gpu = queue.gpu;
    let signals = || {
        packet.dependencies().map(|handle| {
            let signal = Signal::of(gpu, handle);
            signal.ok_or_else(|| wrong(format!("a barrier on {handle:#x}, which is no signal")))
        })
    };
    match packet.request() {
        Request::Dispatch => {
            let packet = DispatchPacket {
                bytes: packet.0,
                queue: queue.ring.queue,
                number,
            };
            let outcome = gpu.launch(&packet);
            return outcome.map_err(|failure| (failure.to_string(), error_of(&failure)));
        }
        Request::WaitForAll => {
            for signal in signals() {
                let signal = signal?;
                wait_until(queue, || signal.value() == 0);
            }
        }
        Request::WaitForOne => {
            let signals = signals().collect::<Result<Vec<_>, _>>()?;
            wait_until(queue, || {
                signals.is_empty() || signals.iter().any(|signal| signal.value() == 0)
            });
        }
        Request::WaitForValue => {
            let (handle, holds) = packet.awaited();
            if handle == 0 {
                return Ok(());
            }
            let signal = Signal::of(gpu, handle);
            let signal = signal
                .ok_or_else(|| wrong(format!("a wait for {handle:#x}, which is no signal")))?;
            wait_until(queue, || holds(signal.value()));
        }
        Request::Hardware => {}
        Request::Unknown(header) => {
            return Err(wrong(format!("a packet with the header {header:#06x}")));
        }
    }
    Ok(())
}

fn wrong(text: String) -> Wrong {
    (text, NO_SUCH_PACKET)
}

/// Wait for others, or for the queue's end.
fn wait_until(queue: &Queue, holds: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        std::thread::yield_now();
    }
    while !holds() && !queue.stops() {
        std::thread::sleep(REST);
    }
}

/// The queue's error that AMD's runtime knows a failure by.
fn error_of(failure: &Failure) -> i64 {
    match failure {
        Failure::NoItems => NO_ITEMS,
        Failure::TooManyItems(_) => TOO_MANY_ITEMS,
        Failure::TooMuchLds { .. } => TOO_MUCH_LDS,
        Failure::NoKernel(_) | Failure::BadKernel(_) => NO_CODE,
        Failure::Fault(fault) => match fault.kind {
            FaultKind::OutOfBounds { .. }
            | FaultKind::Misaligned { .. }
            | FaultKind::LdsOverrun { .. }
            | FaultKind::ScratchOverrun { .. } => MEMORY,
            FaultKind::Unimplemented { .. }
            | FaultKind::UnknownInstruction { .. }
            | FaultKind::RegisterOutOfRange { .. } => ILLEGAL_INSTRUCTION,
            _ => EXCEPTION,
        },
    }
}

/// Tell the runtime that the queue takes no more packets.
fn fail(queue: &Queue, error: i64, events: &Events) {
    let place = queue.ring.queue + amd_queue::INACTIVE_SIGNAL;
    // SAFETY: the queue's structure, aligned; AMD's runtime has filled it in before the first packet.
    let handle = unsafe { &*(place as *const AtomicU64) }.load(Ordering::Acquire);
    match Signal::of(queue.gpu, handle) {
        Some(signal) => signal.store(error, events),
        None => trouble::say(format_args!(
            "the queue has no signal for errors; who waits for it waits for ever"
        )),
    }
}
