//! The check of caches: a program sees what its caches have, each instruction that is missing is found, and programs
//! that have them all are left alone.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use candle_rocm_testing::gpu::Arg::{self, U32, U64};
use candle_rocm_testing::gpu::Gpu;
use candle_rocm_testing::hip::{compile, Compile};
use rocm_emulator::codeobject::LoadedCodeObject;
use rocm_emulator::exec::{Checks, Options};
use rocm_emulator::fault::FaultKind;
use rocm_emulator::isa::Target::{self, Gfx1030, Gfx1100, Gfx1201, Gfx90a, Gfx942};
use rocm_emulator::isa::{decode, Inst};

const SOURCE: &str = include_str!("checks/caches.hip");
const ALL: [Target; 5] = [Gfx90a, Gfx942, Gfx1030, Gfx1100, Gfx1201];
const RDNA: [Target; 3] = [Gfx1030, Gfx1100, Gfx1201];
const SEEDS: u64 = 2;

/// The source compiled for a target, once.
fn code(target: Target) -> Vec<u8> {
    static CODE: LazyLock<Mutex<HashMap<&str, Vec<u8>>>> = LazyLock::new(Mutex::default);
    let mut code = CODE.lock().unwrap_or_else(PoisonError::into_inner);
    let compile = || compile(SOURCE, &Compile::device(target.name()));
    code.entry(target.name()).or_insert_with(compile).clone()
}

fn gpu(target: Target) -> Gpu {
    let gpu = Gpu::empty(target, 1 << 26);
    // The one that `Gpu::launch` takes.
    gpu.program("program", || code(target));
    gpu
}

/// What the check says of a launch; `None` if nothing.
fn finding(
    gpu: &Gpu,
    name: &str,
    [groups, items]: [u32; 2],
    args: &[Arg],
    seed: u64,
) -> Option<String> {
    let options = Options {
        checks: Checks::CACHES,
        seed,
        ..Options::default()
    };
    match gpu.launch(name, [groups, 1, 1], [items, 1, 1], 0, args, &options) {
        Ok(_) => None,
        Err(fault) => {
            assert!(matches!(fault.kind, FaultKind::Finding { .. }), "{fault}");
            Some(fault.to_string())
        }
    }
}

/// A launch with new buffers for each seed: nothing is found, and what is made of the last buffer is asked for.
fn passes<T>(
    target: Target,
    name: &str,
    geometry: [u32; 2],
    args: impl Fn(&Gpu) -> Vec<Arg>,
    results: usize,
    right: impl Fn(usize) -> T,
) where
    T: candle_rocm_testing::gpu::Number + PartialEq + std::fmt::Debug,
{
    let gpu = gpu(target);
    for seed in 0..SEEDS {
        let args = args(&gpu);
        let found = finding(&gpu, name, geometry, &args, seed);
        assert_eq!(found, None, "{target}: {name}");
        let out = args.iter().rev().find_map(|arg| match arg {
            U64(address) => Some(*address),
            _ => None,
        });
        let got: Vec<T> = gpu.download(out.expect("a kernel has a result"), results);
        let expected: Vec<T> = (0..results).map(&right).collect();
        assert_eq!(got, expected, "{target}: {name}");
    }
}

/// A launch of each target with new buffers for each seed: found on `wrong` ones, with these words, and on no others.
fn found(
    name: &str,
    wrong: &[Target],
    geometry: [u32; 2],
    args: impl Fn(&Gpu) -> Vec<Arg>,
    words: &[&str],
) {
    for target in ALL {
        let gpu = gpu(target);
        for seed in 0..SEEDS {
            let found = finding(&gpu, name, geometry, &args(&gpu), seed);
            match (wrong.contains(&target), found) {
                (true, None) => panic!("{target}: {name}: nothing found"),
                (false, Some(text)) => panic!("{target}: {name}: {text}"),
                (true, Some(text)) => {
                    for word in words.iter().chain(&["check caches"]) {
                        assert!(text.contains(word), "{target}: {name}: {word:?} in {text}");
                    }
                }
                (false, None) => {}
            }
        }
    }
}

/// Data, a flag and results.
fn message(gpu: &Gpu) -> Vec<Arg> {
    vec![
        U64(gpu.buffer(256)),
        U64(gpu.buffer(4)),
        U64(gpu.buffer(256)),
    ]
}

/// A counter, the parts of five workgroups and results.
fn ticket(gpu: &Gpu) -> Vec<Arg> {
    let (count, parts, out) = (gpu.buffer(4), gpu.buffer(5 * 512), gpu.buffer(512));
    vec![U64(count), U64(parts), U64(out), U32(5)]
}

/// A counter and what four workgroups have, twice.
fn rounds(gpu: &Gpu) -> Vec<Arg> {
    let (arrived, from, to) = (gpu.buffer(4), gpu.buffer(4 * 512), gpu.buffer(4 * 512));
    vec![U64(arrived), U64(from), U64(to), U32(4)]
}

#[test]
fn right_programs_are_left_alone() {
    for target in ALL {
        for name in ["message", "message_of_words", "message_of_the_system"] {
            passes(target, name, [2, 64], message, 64, |lane| lane as u32 + 1);
        }
        passes(target, "ticket", [5, 128], ticket, 128, |lane| {
            5 * lane as u32
        });
        passes(target, "rounds", [4, 128], rounds, 512, |_| 3u32);
        let one = |gpu: &Gpu| vec![U64(gpu.buffer(1024))];
        passes(target, "exchange", [1, 128], one, 256, |at| match at {
            0..128 => at as u32 + 1,
            _ => 256 - at as u32,
        });
        let two = |gpu: &Gpu| vec![U64(gpu.buffer(256)), U64(gpu.buffer(256))];
        passes(target, "scalar", [1, 32], two, 32, |_| 5u32);
        let counter = |gpu: &Gpu| vec![U64(gpu.buffer(4))];
        passes(target, "count", [6, 64], counter, 1, |_| 6 * 64u32);
        passes(target, "compare_and_swap", [3, 64], counter, 1, |_| 240u32);
    }
}

#[test]
fn bytes_of_a_line_are_each_workgroups_own() {
    for target in ALL {
        let inputs: Vec<u32> = (0..128).collect();
        let args = |gpu: &Gpu| {
            let (bytes, out) = (gpu.buffer(512), gpu.buffer(512));
            vec![U64(bytes), U64(gpu.upload(&inputs)), U64(out)]
        };
        passes(target, "neighbours", [2, 64], args, 128, |at| {
            let (group, lane) = (at as u32 / 64, at as u32 % 64);
            lane + group + 2 * lane
        });
        let gpu = gpu(target);
        let args = args(&gpu);
        assert_eq!(finding(&gpu, "neighbours", [2, 64], &args, 0), None);
        let U64(bytes) = args[0] else {
            unreachable!("it is an address")
        };
        let bytes: Vec<u8> = gpu.download(bytes, 128);
        let expected: Vec<u8> = (0..128u8).map(|at| at / 2 + at % 2).collect();
        assert_eq!(bytes, expected, "{target}");
    }
}

#[test]
fn narrow_scopes_of_flags_are_found() {
    let again = &["read again and again"];
    found("polled_in_the_wavefront", &ALL, [2, 64], message, again);
    // GFX11 has one bit for both scopes, and GFX12 nothing between the two that keeps lines.
    let wrong = [Gfx90a, Gfx942, Gfx1030];
    found("polled_in_the_workgroup", &wrong, [2, 64], message, again);
    // The others write through.
    found(
        "flagged_in_the_workgroup",
        &[Gfx942],
        [2, 64],
        message,
        again,
    );
}

#[test]
fn missing_fences_are_found() {
    let before = &["stored before by wavefront", "of workgroup number 1"];
    found("not_acquired", &ALL, [2, 64], message, before);
    let wrong = [Gfx90a, Gfx942, Gfx1030, Gfx1100];
    found(
        "acquired_in_the_workgroup",
        &wrong,
        [2, 64],
        message,
        before,
    );
    // Where a workgroup's release waits for stores, they are where all see them, but on GFX942.
    let past = &["of workgroup number 1"];
    found("not_released", &ALL, [2, 64], message, past);
    let wrong = [Gfx90a, Gfx942];
    found("released_in_the_workgroup", &wrong, [2, 64], message, past);
    let back = &["not written back", "of workgroup number 1"];
    for name in ["not_released_read_past", "words_in_the_workgroup"] {
        found(name, &[Gfx942], [2, 64], message, back);
    }
}

#[test]
fn narrow_scopes_of_data_are_found() {
    let before = &["stored before by wavefront", "of workgroup number 1"];
    found(
        "words_read_in_the_wavefront",
        &ALL,
        [2, 64],
        message,
        before,
    );
    let wrong = [Gfx90a, Gfx942, Gfx1030];
    found(
        "words_read_in_the_workgroup",
        &wrong,
        [2, 64],
        message,
        before,
    );
}

#[test]
fn tickets_and_barriers_of_the_grid() {
    let before = &["stored before by wavefront", "of workgroup number"];
    // On GFX12 the workgroup's barrier empties what the device's fence does.
    let wrong = [Gfx90a, Gfx942, Gfx1030, Gfx1100];
    found("ticket_not_observed", &wrong, [5, 128], ticket, before);
    found("rounds_not_acquired", &wrong, [4, 128], rounds, before);
    // RDNA's workgroups, of two compute units, wait for their stores before a barrier.
    let wrong = [Gfx90a, Gfx942];
    found("ticket_not_published", &wrong, [5, 128], ticket, before);
    found("rounds_not_released", &wrong, [4, 128], rounds, before);
}

#[test]
fn a_workgroup_of_two_compute_units() {
    let words = &["of this workgroup", "vector cache"];
    let args = |gpu: &Gpu| vec![U64(gpu.buffer(1024))];
    found("exchange_by_barrier_alone", &RDNA, [1, 128], args, words);
}

#[test]
fn scalar_loads_and_narrow_atomics() {
    let two = |gpu: &Gpu| vec![U64(gpu.buffer(256)), U64(gpu.buffer(256))];
    found("scalar_not_emptied", &ALL, [1, 32], two, &["scalar load"]);
    let counter = |gpu: &Gpu| vec![U64(gpu.buffer(4))];
    let narrow = &["one for its workgroup alone"];
    found(
        "count_in_the_workgroup",
        &[Gfx1201],
        [2, 64],
        counter,
        narrow,
    );
    let before = &["stored before by wavefront"];
    found("read_of_a_sum", &ALL, [2, 64], message, before);
}

/// Without an order nothing is found, and the program goes on with what it sees.
#[test]
fn stale_lines_are_seen() {
    for target in ALL {
        let gpu = gpu(target);
        for seed in 0..SEEDS {
            let args = message_of_flags(&gpu);
            let found = finding(&gpu, "unordered", [2, 64], &args, seed);
            assert_eq!(found, None, "{target}");
            let (U64(data), U64(out)) = (args[0], args[2]) else {
                unreachable!("they are addresses")
            };
            let seen: Vec<u32> = gpu.download(out, 64);
            assert_eq!(seen, [0; 64], "{target}");
            let stored: Vec<u32> = gpu.download(data, 64);
            assert_eq!(stored, (1..=64).collect::<Vec<_>>(), "{target}");
        }
    }
}

fn message_of_flags(gpu: &Gpu) -> Vec<Arg> {
    vec![
        U64(gpu.buffer(256)),
        U64(gpu.buffer(256)),
        U64(gpu.buffer(256)),
    ]
}

/// One scope bit less, one operation on a cache less: each such change of a right program is noticed.
#[test]
fn no_bit_and_no_operation_is_there_for_nothing() {
    for target in ALL {
        let gpu = Gpu::empty(target, 1 << 26);
        let code = code(target);
        for name in ["message", "message_of_words"] {
            let right = gpu.program(name, || code.clone());
            let changes = changes(&gpu, &right, name);
            assert!(changes.len() >= 2, "{target}: {name}: {changes:?}");
            for (number, change) in changes.iter().enumerate() {
                let program = gpu.program(&format!("{name} {number}"), || code.clone());
                let kernel = program.kernel(name).expect("the program has it");
                let bytes: Vec<u8> = change
                    .words
                    .iter()
                    .flat_map(|it| it.to_le_bytes())
                    .collect();
                let at = kernel.entry + change.offset;
                gpu.memory.write(at, &bytes).expect("it is code");
                // RDNA4 writes through whatever the scope.
                let on_stores = ["store", "global_wb"];
                let is_on_stores = on_stores.iter().any(|part| change.text.contains(part));
                let harmless = target == Gfx1201 && is_on_stores;
                let noticed = is_noticed(&gpu, &program, name);
                assert_eq!(noticed, !harmless, "{target}: {name}: {change:?}");
            }
        }
    }
}

/// A change of an instruction.
#[derive(Debug)]
struct Change {
    text: String,
    offset: u64,
    words: Vec<u32>,
}

/// Each bit of the cache policy of a kernel's instructions, and each operation on caches, left out.
fn changes(gpu: &Gpu, program: &LoadedCodeObject, name: &str) -> Vec<Change> {
    const NOP: u32 = 0xbf80_0000;
    let kernel = program.kernel(name).expect("the program has it");
    let entries = program.kernels().iter().map(|other| other.entry);
    let end = entries.filter(|other| *other > kernel.entry).min();
    let end = end.unwrap_or(kernel.code.end);
    let mut changes = Vec::new();
    let mut pc = kernel.entry;
    while pc < end {
        let count = ((kernel.code.end - pc) / 4).min(4) as usize;
        let words: Vec<u32> = gpu.download(pc, count);
        let Ok(inst) = decode(gpu.target, &words) else {
            break;
        };
        let words = &words[..usize::from(inst.size) / 4];
        let mut change = |what: &str, words: Vec<u32>| {
            changes.push(Change {
                text: format!("{} without {what}", inst.op.name),
                offset: pc - kernel.entry,
                words,
            });
        };
        let on_caches = ["_inv", "wbl2", "wbinvl1"];
        if on_caches.iter().any(|part| inst.op.name.contains(part)) {
            change("itself", vec![NOP; words.len()]);
        } else {
            for bit in 0..32 * words.len() {
                let mut less = words.to_vec();
                less[bit / 32] &= !(1 << (bit % 32));
                let bits = bits_less(gpu.target, &inst, &less);
                if less != words && bits {
                    change(&format!("bit {bit}"), less);
                }
            }
        }
        pc += u64::from(inst.size);
    }
    changes
}

/// Whether words are an instruction with a cache policy of fewer bits, and otherwise the same.
fn bits_less(target: Target, inst: &Inst, words: &[u32]) -> bool {
    let Ok(mut other) = decode(target, words) else {
        return false;
    };
    let cache = std::mem::replace(&mut other.mem.cache, inst.mem.cache);
    cache != inst.mem.cache && other == *inst
}

/// Whether the check finds something, or the kernel's result is wrong.
fn is_noticed(gpu: &Gpu, program: &LoadedCodeObject, name: &str) -> bool {
    let args = message(gpu);
    let U64(out) = args[2] else {
        unreachable!("it is an address")
    };
    let args: Vec<Vec<u8>> = args
        .iter()
        .map(|arg| match arg {
            U64(address) => address.to_le_bytes().to_vec(),
            _ => unreachable!("they are addresses"),
        })
        .collect();
    let options = Options {
        checks: Checks::CACHES,
        max_instructions: 1 << 28,
        ..Options::default()
    };
    let grid = ([2, 1, 1], [32, 1, 1]);
    match gpu.launch_of(program, name, grid, 0, &args, &options) {
        Err(fault) => matches!(fault.kind, FaultKind::Finding { .. }),
        Ok(_) => gpu.download::<u32>(out, 32) != (1..=32).collect::<Vec<_>>(),
    }
}
