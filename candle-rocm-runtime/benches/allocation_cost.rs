//! Host time of each allocation and of each release, in traces of programs: a chain of small operators, a decode loop
//! that synchronises for each token, caches that grow by concatenation, a server whose sequences come and go.
//!
//!     CANDLE_ROCM_RUNTIME=nvidia cargo bench -p candle-rocm-runtime --features nvidia --bench allocation_cost
//!
//! prints the median, the 99 % and the longest, in microseconds; without a GPU `CANDLE_ROCM_RUNTIME=emulator
//! CANDLE_ROCM_POOL=1`. Nothing is launched, so that kernels may be left out (`CANDLE_ROCM_SKIP_KERNELS=1`).
#![allow(missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_rocm_runtime::{Context, DeviceBuffer, Stream};
use candle_rocm_testing::random::Random;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Name and calls.
type Trace = (&'static str, fn(&mut Program));

const TRACES: [Trace; 4] = [
    ("chain", chain),
    ("decode", decode),
    ("caches", caches),
    ("server", server),
];

/// The times of a trace's calls.
#[derive(Default)]
struct Times {
    allocations: Vec<Duration>,
    releases: Vec<Duration>,
    synchronisations: Vec<Duration>,
}

struct Program {
    stream: Arc<Stream>,
    times: Times,
}

impl Program {
    fn alloc(&mut self, bytes: usize) -> DeviceBuffer<u8> {
        let start = Instant::now();
        // SAFETY: nothing reads it.
        let buffer = unsafe { self.stream.alloc(bytes) }.unwrap();
        self.times.allocations.push(start.elapsed());
        buffer
    }

    fn free(&mut self, buffer: DeviceBuffer<u8>) {
        let start = Instant::now();
        drop(buffer);
        self.times.releases.push(start.elapsed());
    }

    fn synchronise(&mut self) {
        let start = Instant::now();
        self.stream.synchronize().unwrap();
        self.times.synchronisations.push(start.elapsed());
    }
}

/// Results of a layer's operators, of which each lives until the next one is there.
fn chain(program: &mut Program) {
    let mut held = program.alloc(8 * KIB);
    for step in 0..20_000 {
        let next = program.alloc([8, 32, 8, 112, 8][step % 5] * KIB);
        let before = std::mem::replace(&mut held, next);
        program.free(before);
    }
    program.free(held);
}

/// A token's 300 operators, then a synchronisation.
fn decode(program: &mut Program) {
    for _ in 0..100 {
        let mut held = program.alloc(8 * KIB);
        for step in 0..300 {
            let next = program.alloc([8, 32, 8, 112, 256][step % 5] * KIB);
            let before = std::mem::replace(&mut held, next);
            program.free(before);
        }
        program.free(held);
        program.synchronise();
    }
}

/// Caches of 16 layers, which grow by 16 KiB a token.
fn caches(program: &mut Program) {
    let mut caches: Vec<_> = (0..32).map(|_| program.alloc(MIB)).collect();
    for token in 1..512 {
        for cache in &mut caches {
            let larger = program.alloc(MIB + token * 16 * KIB);
            let before = std::mem::replace(cache, larger);
            program.free(before);
        }
        program.synchronise();
    }
}

/// Sequences of drawn lengths, each a buffer that lives for a while.
fn server(program: &mut Program) {
    let mut random = Random::new(1);
    let mut live: Vec<DeviceBuffer<u8>> = Vec::new();
    for step in 0..4000 {
        live.push(program.alloc((1 + random.below(1024)) * 64 * KIB));
        if live.len() > 8 {
            let ended = live.swap_remove(random.below(8));
            program.free(ended);
        }
        if step % 8 == 0 {
            program.synchronise();
        }
    }
}

fn print(trace: &str, what: &str, mut times: Vec<Duration>) {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else {
        return;
    };
    let at = |share: f64| times[(last as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "{trace:<10} {what:<18} {:>7} calls  median {:8.3}  99 % {:8.3}  longest {:10.1}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn main() {
    let context = Context::new(0).unwrap();
    for (name, trace) in TRACES {
        let stream = context.new_stream().unwrap();
        let mut program = Program {
            stream,
            times: Times::default(),
        };
        // The first time fills the pool.
        trace(&mut program);
        program.times = Times::default();
        trace(&mut program);
        let Times {
            allocations,
            releases,
            synchronisations,
        } = program.times;
        print(name, "allocation", allocations);
        print(name, "release", releases);
        print(name, "synchronisation", synchronisations);
    }
}
