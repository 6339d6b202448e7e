//! How much the pool takes from the driver, beside what lives, for the allocations of models: caches that grow by
//! concatenation, weights loaded by way of a wider dtype, a server whose sequences come and go. And what it keeps after a
//! synchronisation.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::driver_api::{
    cuDeviceGetDefaultMemPool, cuMemPoolGetAttribute, cuMemPoolSetAttribute,
};
use candle_rocm_runtime::{cuda_names::CUmemPool_attribute, Context, DeviceBuffer, Stream};
use candle_rocm_testing::process::command_of;
use candle_rocm_testing::random::Random;
use common::{context, in_process};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Held beyond a quarter more than what lives.
const SLACK: usize = 64 * MIB;

/// A stream whose allocations are counted.
struct Program {
    context: Arc<Context>,
    stream: Arc<Stream>,
    live: usize,
    peak: usize,
}

impl Program {
    fn new() -> Self {
        let context = context();
        let stream = context.new_stream().unwrap();
        Self {
            context,
            stream,
            live: 0,
            peak: 0,
        }
    }

    fn alloc(&mut self, bytes: usize) -> DeviceBuffer<u8> {
        self.live += bytes;
        self.peak = self.peak.max(self.live);
        // SAFETY: nothing reads it.
        unsafe { self.stream.alloc(bytes) }.unwrap()
    }

    fn free(&mut self, buffer: DeviceBuffer<u8>) {
        self.live -= buffer.len();
    }

    /// What `Tensor::cat` does: a larger buffer takes the place of a smaller one, which lives until then.
    fn grow(&mut self, buffer: &mut DeviceBuffer<u8>, bytes: usize) {
        let larger = self.alloc(bytes);
        let smaller = std::mem::replace(buffer, larger);
        self.free(smaller);
    }

    /// No more was ever taken than a quarter above what lived at most, and the slack.
    fn took_little(&self) {
        let taken = self.context.pool_statistics().peak_reserved;
        let most = self.peak + self.peak / 4 + SLACK;
        let [taken_mib, live_mib] = [taken, self.peak].map(|bytes| bytes / MIB);
        println!("{live_mib} MiB lived at most, {taken_mib} were taken");
        assert!(
            taken <= most,
            "{live_mib} MiB lived at most, {taken_mib} were taken"
        );
    }

    /// What the pool holds after a synchronisation.
    fn kept(&self) -> usize {
        self.stream.synchronize().unwrap();
        self.context.pool_statistics().reserved
    }
}

/// Runs a program with the pool on, on a GPU of 16 GiB where it is emulated.
fn with_pool(test: &str, body: impl FnOnce(Program)) {
    in_process(
        test,
        &[
            ("CANDLE_ROCM_POOL", "1"),
            ("CANDLE_ROCM_POOL_THRESHOLD", ""),
            ("ROCM_EMU_MEMORY", "17179869184"),
        ],
        || body(Program::new()),
    );
}

/// Caches that grow in turn from nothing, by so many bytes a step, and are dropped.
fn caches_grow(mut program: Program, caches: usize, steps: usize, bytes: usize) {
    let mut all: Vec<_> = (0..caches).map(|_| program.alloc(bytes)).collect();
    for step in 2..=steps {
        for cache in &mut all {
            program.grow(cache, step * bytes);
        }
    }
    program.took_little();
    for cache in all {
        program.free(cache);
    }
    assert_eq!(program.kept(), 0);
}

#[test]
fn caches_that_grow_by_half_a_mib() {
    with_pool("caches_that_grow_by_half_a_mib", |program| {
        caches_grow(program, 32, 64, MIB / 2);
    });
}

#[test]
fn caches_of_eight_layers_and_8192_tokens() {
    with_pool("caches_of_eight_layers_and_8192_tokens", |program| {
        caches_grow(program, 16, 8192, 2 * KIB);
    });
}

#[test]
fn caches_of_llama_8b_and_4096_tokens() {
    with_pool("caches_of_llama_8b_and_4096_tokens", |program| {
        caches_grow(program, 64, 4096, 2 * KIB);
    });
}

#[test]
fn a_buffer_that_grows_by_2_kib() {
    with_pool("a_buffer_that_grows_by_2_kib", |mut program| {
        let mut buffer = program.alloc(2 * MIB);
        for step in 1..=500 {
            program.grow(&mut buffer, 2 * MIB + step * 2 * KIB);
        }
        program.took_little();
        let asked = program.context.pool_statistics().driver_allocations;
        assert!(asked <= 2, "the driver was asked {asked} times");
    });
}

#[test]
fn weights_loaded_by_way_of_f32() {
    with_pool("weights_loaded_by_way_of_f32", |mut program| {
        let mut weights = Vec::new();
        for layer in 0..32 {
            for mib in [2, 4, 6, 4 + layer % 3] {
                let wide = program.alloc(2 * mib * MIB);
                weights.push(program.alloc(mib * MIB));
                program.free(wide);
            }
        }
        program.took_little();
        for weight in weights {
            program.free(weight);
        }
        assert_eq!(program.kept(), 0);
    });
}

/// A server of eight sequences: each has a cache of keys and one of values for each layer, which grow by a token a step.
fn server(mut program: Program, layers: usize, token: usize, longest: usize, steps: usize) {
    struct Sequence {
        caches: Vec<DeviceBuffer<u8>>,
        tokens: usize,
        end: usize,
    }
    let mut random = Random::new(88_172);
    let mut sequences: Vec<Sequence> = Vec::new();
    for _ in 0..steps {
        if sequences.len() < 8 {
            let tokens = 16 + random.below(longest / 2);
            let caches = (0..2 * layers).map(|_| program.alloc(tokens * token));
            sequences.push(Sequence {
                caches: caches.collect(),
                tokens,
                end: tokens + 16 + random.below(longest / 2),
            });
        }
        for sequence in &mut sequences {
            sequence.tokens += 1;
            for cache in &mut sequence.caches {
                program.grow(cache, sequence.tokens * token);
            }
        }
        let (gone, rest): (Vec<_>, Vec<_>) = sequences
            .into_iter()
            .partition(|sequence| sequence.tokens >= sequence.end);
        sequences = rest;
        for cache in gone.into_iter().flat_map(|sequence| sequence.caches) {
            program.free(cache);
        }
    }
    program.took_little();
    for cache in sequences.into_iter().flat_map(|sequence| sequence.caches) {
        program.free(cache);
    }
    assert_eq!(program.kept(), 0);
}

#[test]
fn a_server_of_eight_sequences_of_a_large_model() {
    with_pool("a_server_of_eight_sequences_of_a_large_model", |program| {
        server(program, 32, 2 * KIB, 2048, 4000);
    });
}

#[test]
fn a_server_of_eight_sequences_of_a_small_model() {
    with_pool("a_server_of_eight_sequences_of_a_small_model", |program| {
        server(program, 16, KIB, 4096, 4000);
    });
}

#[test]
fn a_loop_that_synchronises_asks_the_driver_no_more() {
    with_pool(
        "a_loop_that_synchronises_asks_the_driver_no_more",
        |mut program| {
            let weights: Vec<_> = (0..64).map(|_| program.alloc(2 * MIB)).collect();
            let step = |program: &mut Program| {
                for bytes in [4 * KIB, 16 * KIB, 3 * MIB, 20 * MIB, 64 * KIB] {
                    let temporary = program.alloc(bytes);
                    let result = program.alloc(bytes / 2);
                    program.free(temporary);
                    program.free(result);
                }
                program.stream.synchronize().unwrap();
            };
            for _ in 0..3 {
                step(&mut program);
            }
            let asked = program.context.pool_statistics().driver_allocations;
            for _ in 0..100 {
                step(&mut program);
            }
            assert_eq!(program.context.pool_statistics().driver_allocations, asked);
            for weight in weights {
                program.free(weight);
            }
            assert_eq!(program.kept(), 0);
        },
    );
}

#[test]
fn a_threshold_lets_memory_stay() {
    let variables = [
        ("CANDLE_ROCM_POOL", "1"),
        ("CANDLE_ROCM_POOL_THRESHOLD", "100MiB"),
    ];
    in_process("a_threshold_lets_memory_stay", &variables, || {
        let mut program = Program::new();
        let fill = |program: &mut Program| {
            let buffers: Vec<_> = (0..10).map(|_| program.alloc(20 * MIB)).collect();
            for buffer in buffers {
                program.free(buffer);
            }
            program.kept()
        };
        assert_eq!(fill(&mut program), 100 * MIB);
        let mut pool = std::ptr::null_mut();
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        for (threshold, kept) in [(u64::MAX, 200 * MIB), (40 << 20, 40 * MIB), (0, 0)] {
            let (mut set, mut read) = (threshold, 1u64);
            // SAFETY: the places are of the attribute's type.
            unsafe {
                cuDeviceGetDefaultMemPool(&mut pool, 0).result().unwrap();
                cuMemPoolSetAttribute(pool, attribute, (&raw mut set).cast())
                    .result()
                    .unwrap();
                cuMemPoolGetAttribute(pool, attribute, (&raw mut read).cast())
                    .result()
                    .unwrap();
            }
            assert_eq!(read, threshold);
            assert_eq!(fill(&mut program), kept);
        }
    });
}

#[test]
fn peaks_are_counted_anew() {
    with_pool("peaks_are_counted_anew", |mut program| {
        let large = program.alloc(64 * MIB);
        program.free(large);
        assert_eq!(program.kept(), 0);
        let mut pool = std::ptr::null_mut();
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
        let (mut high, mut one) = (0u64, 1u64);
        // SAFETY: the places are of the attribute's type.
        unsafe {
            cuDeviceGetDefaultMemPool(&mut pool, 0).result().unwrap();
            cuMemPoolGetAttribute(pool, attribute, (&raw mut high).cast())
                .result()
                .unwrap();
            assert_eq!(high, 64 << 20);
            let refused = cuMemPoolSetAttribute(pool, attribute, (&raw mut one).cast()).result();
            assert!(refused
                .unwrap_err()
                .to_string()
                .contains("can be set to 0 alone"));
            high = 0;
            cuMemPoolSetAttribute(pool, attribute, (&raw mut high).cast())
                .result()
                .unwrap();
            cuMemPoolGetAttribute(pool, attribute, (&raw mut high).cast())
                .result()
                .unwrap();
        }
        assert_eq!(high, 0);
    });
}

/// Neighbours freed on different streams serve one request, after the work of both.
#[test]
fn what_two_streams_freed_is_joined() {
    with_pool("what_two_streams_freed_is_joined", |program| {
        let streams = [(); 2].map(|()| program.context.new_stream().unwrap());
        let alloc = |stream: &Arc<Stream>, bytes| {
            // SAFETY: nothing reads it.
            unsafe { stream.alloc::<u8>(bytes) }.unwrap()
        };
        // A shared segment of 32 MiB, in eight blocks that the streams have in turn.
        let blocks: Vec<_> = (0..8).map(|i| alloc(&streams[i % 2], 4 * MIB)).collect();
        drop(blocks);
        let before = program.context.pool_statistics();
        let large = alloc(&streams[0], 15 * MIB);
        let after = program.context.pool_statistics();
        assert_eq!(before.driver_allocations, after.driver_allocations);
        assert_eq!(after.in_use, 15 * MIB);
        drop(large);
        assert_eq!(program.kept(), 0);
    });
}

#[test]
fn nothing_goes_back_during_a_capture() {
    with_pool("nothing_goes_back_during_a_capture", |mut program| {
        let buffer = program.alloc(20 * MIB);
        program.free(buffer);
        let other = program.context.new_stream().unwrap();
        let mode =
            candle_rocm_runtime::cuda_names::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        other.begin_capture(mode).unwrap();
        assert_eq!(program.kept(), 20 * MIB);
        drop(other.end_capture(Default::default()));
        assert_eq!(program.kept(), 0);
    });
}

/// Three fifths of the GPU's memory, which are given back.
fn fill_and_give_back(program: &mut Program) {
    let (_, total) = program.context.mem_get_info().unwrap();
    let buffer = program.alloc(total / 5 * 3);
    program.free(buffer);
    assert_eq!(program.kept(), 0);
}

#[test]
#[ignore = "the second process, for processes_take_what_others_gave_back"]
fn the_other_process() {
    fill_and_give_back(&mut Program::new());
}

/// On a real GPU two processes share the memory; the first would have no room for the second if it kept its own.
#[test]
fn processes_take_what_others_gave_back() {
    with_pool("processes_take_what_others_gave_back", |mut program| {
        for _ in 0..2 {
            fill_and_give_back(&mut program);
            let output = command_of("the_other_process").output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
        }
    });
}
