//! What docs/log/2026-11-23-attention-forward.md says of attention's kernels, held on every embedded architecture of the report.

use candle_rocm_kernel_report::attention::{run, Shape};
use candle_rocm_kernel_report::device::Device;
use candle_rocm_kernel_report::page::ARCHITECTURES;
use candle_rocm_kernels::attention::{tile, Pass, ELEMENTS};
use candle_rocm_kernels::Processor;
use candle_rocm_testing::needs;

/// Least share of the loop's cycles that is the matrix unit's, of bf16 and heads of 128; on gfx1030 of its issue slots that
/// are multiply-adds.
const FLOORS: [(&str, f64); 5] = [
    ("gfx942", 0.57),
    ("gfx90a", 0.71),
    ("gfx1100", 0.74),
    ("gfx1201", 0.65),
    ("gfx1030", 0.61),
];

/// Of the loops of gradients' kernels, keys' and queries', likewise.
const BACKWARD_FLOORS: [(&str, [f64; 2]); 5] = [
    ("gfx942", [0.46, 0.48]),
    ("gfx90a", [0.57, 0.64]),
    ("gfx1100", [0.70, 0.75]),
    ("gfx1201", [0.60, 0.65]),
    ("gfx1030", [0.55, 0.52]),
];

/// Faults of the kernels of a pass over 1,024 keys or queries: spills, bank conflicts in the loop, whatever a head's size;
/// with heads of 128 of bf16, a loop with a smaller share of products.
fn faults(arch: &str, pass: Pass, floor: f64) -> Vec<String> {
    let mut below = Vec::new();
    assert!(ARCHITECTURES.contains(&arch), "{arch} is not reported");
    if !needs::serves(arch, candle_rocm_kernels::serves) {
        return below;
    }
    let mut device = Device::new(arch.parse().expect("the emulator knows it"));
    let [queries, keys] = match pass {
        Pass::Forward | Pass::BackwardQueries => [128, 1024],
        Pass::BackwardKeys => [1024, 128],
    };
    let processor = Processor::of(arch);
    let sizes = ELEMENTS
        .into_iter()
        .filter(|&elements| tile(processor, pass, elements).is_some());
    for (elements, dtype) in sizes.flat_map(|n| [(n, "bf16"), (n, "f16")]) {
        let shape = Shape {
            pass,
            dtype,
            elements,
            heads: 1,
            queries,
            keys,
            causal: false,
        };
        let found = run(&mut device, &shape).expect("it runs");
        let of_loop = &found.in_loop;
        println!(
            "{arch}\t{}\t{} registers\t{} waves\t{} + {} spilled\tfill {:.3} ({:.3})\tLDS {}, conflicts {}",
            found.kernel,
            found.report.kernel.vgpr_count,
            found.report.waves,
            found.report.kernel.vgpr_spill_count,
            found.report.kernel.sgpr_spill_count,
            of_loop.fill.all,
            of_loop.fill.without_waits,
            of_loop.total.lds_cycles,
            of_loop.total.lds_conflicts,
        );
        if std::env::var_os("SHOW").is_some() {
            println!("{:?}", of_loop.counts);
        }
        let mut fault = |what: &str| below.push(format!("{arch}: {}: {what}", found.kernel));
        if found.report.spills() > 0 || found.report.kernel.private_segment_fixed_size > 0 {
            fault("spills");
        }
        if of_loop.total.lds_conflicts > 0 {
            fault("bank conflicts");
        }
        if elements == 128 && dtype == "bf16" && of_loop.fill.all < floor {
            fault("a thin loop");
        }
    }
    below
}

#[test]
fn the_loop_over_keys_is_what_the_page_claims() {
    let below = FLOORS.map(|(arch, floor)| faults(arch, Pass::Forward, floor));
    let below = below.concat();
    assert!(below.is_empty(), "{}", below.join("\n"));
}

#[test]
fn so_are_the_loops_of_gradients() {
    let mut below = Vec::new();
    for (arch, [keys, queries]) in BACKWARD_FLOORS {
        below.extend(faults(arch, Pass::BackwardKeys, keys));
        below.extend(faults(arch, Pass::BackwardQueries, queries));
    }
    assert!(below.is_empty(), "{}", below.join("\n"));
}
