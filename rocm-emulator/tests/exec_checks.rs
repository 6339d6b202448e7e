//! The checks of races, of values that nothing wrote and of missing waits: each finds the fault that is planted in a
//! kernel, and is silent where it is mended.

use candle_rocm_testing::gpu::Arg::{self, U32, U64};
use candle_rocm_testing::gpu::Gpu;
use rocm_emulator::exec::{Checks, Options};
use rocm_emulator::fault::FaultKind;
use rocm_emulator::isa::{Family, Target};

const TARGETS: [Target; 5] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1030,
    Target::Gfx1100,
    Target::Gfx1201,
];
const WAITS: &str = include_str!("checks/waits.hip");
const RACES: &str = include_str!("checks/races.hip");
const UNINITIALISED: &str = include_str!("checks/uninitialised.hip");

fn gpu(target: Target, source: &str) -> Gpu {
    let gpu = Gpu::new(target, source);
    gpu.memory.remember_writes();
    gpu
}

/// What a check says of a launch; `None` if nothing.
fn finding(
    gpu: &Gpu,
    checks: Checks,
    name: &str,
    [groups, items]: [u32; 2],
    args: &[Arg],
) -> Option<String> {
    let options = Options {
        checks,
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

/// A `..._bad` kernel is found out and the words stand in the finding; a `..._good` one is not.
fn expect(gpu: &Gpu, checks: Checks, name: &str, geometry: [u32; 2], args: &[Arg], words: &[&str]) {
    let found = finding(gpu, checks, name, geometry, args);
    let target = gpu.target;
    match (name.ends_with("_bad"), found) {
        (true, Some(text)) => {
            for word in words {
                assert!(text.contains(word), "{target}: {name}: {word:?} in {text}");
            }
        }
        (true, None) => panic!("{target}: {name}: nothing found"),
        (false, Some(text)) => panic!("{target}: {name}: {text}"),
        (false, None) => {}
    }
}

#[test]
fn waits_for_counters() {
    for target in TARGETS {
        let gpu = gpu(target, WAITS);
        let (input, out) = (gpu.upload(&[3u32; 256]), gpu.buffer(1024));
        let counter = match target.family() {
            Family::Rdna4 => ["loadcnt", "dscnt", "kmcnt"],
            _ => ["vmcnt", "lgkmcnt", "lgkmcnt"],
        };
        for (name, words) in [
            ("memory_bad", [counter[0], "(0)"]),
            ("memory_good", [""; 2]),
            ("flat_memory_bad", [counter[0], "(0)"]),
            ("flat_memory_good", [""; 2]),
            ("second_bad", [counter[0], "(0)"]),
            ("second_good", [""; 2]),
            ("first_good", [""; 2]),
            ("scalar_bad", [counter[2], "(0)"]),
            ("scalar_good", [""; 2]),
            ("overwritten_bad", [counter[0], "overwritten"]),
            ("overwritten_good", [""; 2]),
        ] {
            expect(
                &gpu,
                Checks::WAITS,
                name,
                [1, 64],
                &[U64(input), U64(out)],
                &words,
            );
        }
        for (name, words) in [
            ("lds_use_bad", [counter[1], "check waits"]),
            ("lds_use_good", [""; 2]),
            ("flat_lds_bad", [counter[1], "(0)"]),
            ("flat_lds_good", [""; 2]),
        ] {
            expect(&gpu, Checks::WAITS, name, [1, 64], &[U64(out)], &words);
        }
        for name in ["barrier_bad", "barrier_good", "barrier_later_good"] {
            let words = ["LDS at", "came to a barrier without a wait"];
            expect(&gpu, Checks::WAITS, name, [1, 128], &[U64(out)], &words);
        }
    }
}

#[test]
fn wait_states() {
    let rules: [(&str, &[Target]); 7] = [
        ("lane_number", &[Target::Gfx90a, Target::Gfx942]),
        ("base", &[Target::Gfx90a, Target::Gfx942]),
        ("dpp", &[Target::Gfx90a, Target::Gfx942]),
        ("product", &[Target::Gfx90a, Target::Gfx942]),
        ("transcendental", &[Target::Gfx942, Target::Gfx1100]),
        ("scalar_value", &[Target::Gfx942]),
        ("chain", &[Target::Gfx1100, Target::Gfx1201]),
    ];
    for target in TARGETS {
        let gpu = gpu(target, WAITS);
        let (input, out) = (gpu.upload(&[1u32; 64]), gpu.buffer(256));
        if target.family() == Family::Cdna {
            let args = [U64(input), U64(out)];
            expect(&gpu, Checks::WAITS, "lane_value_good", [1, 64], &args, &[]);
        }
        if target == Target::Gfx942 {
            let args = [U64(input), U64(out)];
            expect(&gpu, Checks::WAITS, "mask_good", [1, 64], &args, &[]);
        }
        for (rule, _) in rules.iter().filter(|rule| rule.1.contains(&target)) {
            let args = [U64(input), U64(out)];
            let args = if *rule == "chain" { &args[1..] } else { &args };
            let items = target.wavefront_size();
            for end in ["_bad", "_good"] {
                let words = ["needed", "between"];
                expect(
                    &gpu,
                    Checks::WAITS,
                    &format!("{rule}{end}"),
                    [1, items],
                    args,
                    &words,
                );
            }
        }
    }
}

#[test]
fn races_in_a_workgroup() {
    for target in TARGETS {
        let gpu = gpu(target, RACES);
        let out = gpu.buffer(4096);
        for name in [
            "exchange_good",
            "exchange_unread_bad",
            "exchange_overwritten_bad",
            "bytes_good",
            "same_slot_bad",
            "same_slot_value_good",
        ] {
            let words = ["LDS at", "of this workgroup", "nothing between"];
            expect(&gpu, Checks::RACES, name, [1, 128], &[U64(out)], &words);
        }
        for name in ["memory_good", "memory_bad"] {
            let words = ["check races", "of this workgroup"];
            expect(&gpu, Checks::RACES, name, [1, 128], &[U64(out)], &words);
        }
        if target.family() == Family::Rdna4 {
            for name in ["split_bad", "split_good"] {
                expect(
                    &gpu,
                    Checks::RACES,
                    name,
                    [1, 128],
                    &[U64(out)],
                    &["LDS at"],
                );
            }
        }
    }
}

#[test]
fn races_between_workgroups() {
    for target in TARGETS {
        let gpu = gpu(target, RACES);
        let groups = 5;
        for name in [
            "same_element_bad",
            "same_value_good",
            "atomic_good",
            "atomic_and_store_bad",
        ] {
            let out = gpu.buffer(4);
            let words = [&*format!("{out:#x}"), "of workgroup number"];
            expect(&gpu, Checks::RACES, name, [groups, 64], &[U64(out)], &words);
        }
        for name in ["ticket_good", "ticket_bad"] {
            let (count, parts, out) = (gpu.upload(&[0u32]), gpu.buffer(4096), gpu.buffer(512));
            let args = [U64(count), U64(parts), U64(out), U32(groups)];
            expect(
                &gpu,
                Checks::RACES,
                name,
                [groups, 128],
                &args,
                &["of workgroup number"],
            );
        }
        for name in ["handover_good", "handover_bad"] {
            let (words, out) = (gpu.buffer(256), gpu.buffer(256));
            let args = [U64(words), U64(out)];
            let text = &["of workgroup number"];
            expect(&gpu, Checks::RACES, name, [2, 64], &args, text);
        }
    }
}

#[test]
fn uninitialised_values() {
    for target in TARGETS {
        let gpu = gpu(target, UNINITIALISED);
        for (name, words) in [
            ("sum_good", ""),
            ("sum_bad", "computed from a value that nothing wrote"),
            ("copy_good", ""),
            ("masked_good", ""),
            ("halves_good", ""),
            ("chosen_good", ""),
            ("branch_bad", "decided by a value that nothing wrote"),
            (
                "uniform_branch_bad",
                "decided by a value that nothing wrote",
            ),
            ("address_bad", "the address is made of v"),
        ] {
            let (input, out) = (gpu.buffer(256), gpu.buffer(256));
            gpu.memory.fill(input, &[1, 0, 0, 0], 32).expect("a buffer");
            expect(
                &gpu,
                Checks::UNINITIALISED,
                name,
                [1, 64],
                &[U64(input), U64(out)],
                &[words],
            );
        }
        let counters = gpu.buffer(256);
        let words = ["the atomic changes"];
        expect(
            &gpu,
            Checks::UNINITIALISED,
            "atomic_bad",
            [1, 64],
            &[U64(counters)],
            &words,
        );
        for name in ["lds_bad", "lds_good", "register_bad"] {
            let out = gpu.buffer(256);
            expect(
                &gpu,
                Checks::UNINITIALISED,
                name,
                [1, 64],
                &[U64(out)],
                &["computed"],
            );
        }
        for name in ["scratch_bad", "scratch_good"] {
            let out = gpu.buffer(256);
            expect(
                &gpu,
                Checks::UNINITIALISED,
                name,
                [1, 64],
                &[U64(out), U32(1)],
                &["computed"],
            );
        }
    }
}

#[test]
fn what_was_copied_is_as_unknown_as_before() {
    let gpu = gpu(Target::Gfx1100, UNINITIALISED);
    let (input, middle, out) = (gpu.buffer(256), gpu.buffer(256), gpu.buffer(256));
    gpu.memory.fill(input, &[1, 0, 0, 0], 32).expect("a buffer");
    let run = |name: &str, from: u64, to: u64| {
        finding(
            &gpu,
            Checks::UNINITIALISED,
            name,
            [1, 64],
            &[U64(from), U64(to)],
        )
    };
    assert_eq!(run("copy_good", input, middle), None);
    assert!(run("sum_bad", middle, out).is_some());
    let again = gpu.buffer(256);
    gpu.memory.copy(again, middle, 256).expect("buffers");
    assert!(run("sum_bad", again, out).is_some());
    gpu.memory.fill(middle, &[0], 256).expect("a buffer");
    assert_eq!(run("sum_bad", middle, out), None);
}

/// Programs of the other tests are right, whatever is checked and in whatever order their wavefronts run.
#[test]
fn correct_programs_are_left_alone() {
    let all = Checks::NAMES
        .iter()
        .fold(Checks::default(), |all, row| all.with(row.1));
    for target in TARGETS {
        let gpu = gpu(target, include_str!("exec_support/programs.hip"));
        let numbers: Vec<i32> = (0..512).collect();
        let (input, out) = (gpu.upload(&numbers), gpu.buffer(64));
        for seed in 0..3 {
            let options = Options {
                checks: all,
                seed,
                ..Options::default()
            };
            let args = [U64(input), U64(out), U32(512)];
            gpu.launch("reduce", [2, 1, 1], [256, 1, 1], 0, &args, &options)
                .unwrap_or_else(|fault| panic!("{target}: {fault}"));
            let sums: Vec<i32> = gpu.download(out, 2);
            assert_eq!(sums, [(0..256).sum::<i32>(), (256..512).sum()]);
        }
    }
}
