//! The emulator's own speed: lane-operations a second on an FMA loop, bytes a second on a memory copy; and what its checks
//! cost, on one thread.
//!
//! `cargo bench -p candle-rocm-benches --bench emulator`. Criterion's "elem/s" of `fma` is FMAs of single
//! lanes; of `copy`, "B/s" counts each byte once as read and once as written. The times of `checks` are to be
//! divided by those of "none".

use std::sync::Arc;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use criterion::{BenchmarkId, Criterion, Throughput};
use rocm_emulator::codeobject::CodeObject;
use rocm_emulator::exec::{dispatch, Checks, Launch, Options};
use rocm_emulator::memory::{AllocationKind, Memory};
use rocm_toolchain::Toolchain;

const WORKGROUPS: u32 = 64;
const BLOCK: u32 = 256;
const FMA_ROUNDS: u32 = 512;
const FMAS_A_ROUND: u64 = 8;
const COPY_ROUNDS: u32 = 64;
/// Enough of them for launches of milliseconds.
const CHECKED_WORKGROUPS: u32 = 512;
const COPY_BYTES: u64 = WORKGROUPS as u64 * COPY_ROUNDS as u64 * 4096;

fn compile(arch: &str) -> Result<CodeObject> {
    let toolchain = Toolchain::find()?;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/emulator.cu");
    let object = toolchain.compile_alone(source.as_ref(), arch)?;
    Ok(CodeObject::parse(&object)?)
}

fn bench(criterion: &mut Criterion, arch: &str) -> Result<()> {
    let memory = Memory::new(1 << 30);
    let loaded = Arc::new(compile(arch)?).load(&memory)?;
    let kernel = |name: &str| {
        loaded
            .kernel(name)
            .with_context(|| format!("no kernel {name}"))
    };
    let input = memory.allocate(COPY_BYTES, AllocationKind::Device)?;
    let output = memory.allocate(COPY_BYTES, AllocationKind::Device)?;
    let pattern: Vec<u8> = (0..COPY_BYTES).map(|i| ((i * 31) >> 3) as u8).collect();
    memory.write(input, &pattern)?;
    let cores = std::thread::available_parallelism()?.get();

    let run = |name: &str, kernarg: &[u8], threads: usize| -> Result<()> {
        let launch = Launch {
            kernel: kernel(name)?,
            grid: [WORKGROUPS, 1, 1],
            block: [BLOCK, 1, 1],
            dynamic_lds: 0,
            kernarg,
        };
        let options = Options {
            threads,
            ..Default::default()
        };
        dispatch(&memory, &launch, &options)?;
        Ok(())
    };
    let fma_args: Vec<u8> = [
        &output.to_le_bytes()[..],
        &0.999f32.to_le_bytes(),
        &0.5f32.to_le_bytes(),
        &FMA_ROUNDS.to_le_bytes(),
    ]
    .concat();
    let copy_args = [
        &input.to_le_bytes()[..],
        &output.to_le_bytes(),
        &COPY_ROUNDS.to_le_bytes(),
    ]
    .concat();

    // A benchmark of wrong results measures nothing.
    run("copy_loop", &copy_args, cores)?;
    let mut copied = vec![0; COPY_BYTES as usize];
    memory.read(output, &mut copied)?;
    ensure!(copied == pattern, "copy_loop on {arch} did not copy");

    let fmas = u64::from(WORKGROUPS * BLOCK) * u64::from(FMA_ROUNDS) * FMAS_A_ROUND;
    let rows = [
        ("fma", "fma_loop", fma_args, Throughput::Elements(fmas)),
        (
            "copy",
            "copy_loop",
            copy_args,
            Throughput::Bytes(2 * COPY_BYTES),
        ),
    ];
    for (group, name, args, throughput) in rows {
        let mut group = criterion.benchmark_group(group);
        group
            .throughput(throughput)
            .sample_size(20)
            .measurement_time(Duration::from_secs(4));
        for threads in [1, cores] {
            let id = BenchmarkId::new(arch, format!("{threads} threads"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| run(name, &args, threads).expect("the launch worked above"))
            });
        }
        group.finish();
    }
    Ok(())
}

/// A reduction in LDS and a sum of two arrays, without checks and under each.
fn bench_checks(criterion: &mut Criterion, arch: &str) -> Result<()> {
    let memory = Memory::new(1 << 26);
    let loaded = Arc::new(compile(arch)?).load(&memory)?;
    let bytes = 4 * u64::from(CHECKED_WORKGROUPS * BLOCK);
    let input = memory.allocate(bytes, AllocationKind::Device)?;
    let output = memory.allocate(bytes, AllocationKind::Device)?;
    // What `uninitialised` asks for; the input is written after it.
    memory.remember_writes();
    memory.write(input, &vec![0; bytes as usize])?;
    let rows = [
        ("reduce", &[input, output][..]),
        ("add", &[input, input, output]),
    ];
    for (name, args) in rows {
        let kernarg: Vec<u8> = args.iter().flat_map(|arg| arg.to_le_bytes()).collect();
        let launch = Launch {
            kernel: loaded
                .kernel(name)
                .with_context(|| format!("no kernel {name}"))?,
            grid: [CHECKED_WORKGROUPS, 1, 1],
            block: [BLOCK, 1, 1],
            dynamic_lds: 0,
            kernarg: &kernarg,
        };
        let mut group = criterion.benchmark_group(format!("checks/{name}"));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(2));
        for (word, checks) in [("none", Checks::default())]
            .into_iter()
            .chain(Checks::NAMES)
        {
            let options = Options {
                threads: 1,
                checks,
                ..Default::default()
            };
            // A launch that a check ends early measures nothing.
            dispatch(&memory, &launch, &options)?;
            group.bench_function(BenchmarkId::new(arch, word), |bencher| {
                bencher
                    .iter(|| dispatch(&memory, &launch, &options).expect("the launch worked above"))
            });
        }
        group.finish();
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    for arch in ["gfx1100", "gfx942"] {
        bench(&mut criterion, arch)?;
        bench_checks(&mut criterion, arch)?;
    }
    criterion.final_summary();
    Ok(())
}
