//! What docs/kernels/fp8.md says of FP8's products, held on every embedded architecture of the report.

use candle_rocm_kernel_report::device::Device;
use candle_rocm_kernel_report::page::ARCHITECTURES;
use candle_rocm_kernel_report::scaled::{run, Shape};
use candle_rocm_kernels::grouped::TILES;
use candle_rocm_testing::needs;

/// Least share of the loop's cycles that is the matrix unit's, of the large tile with k together in both operands, scaling
/// included, by the kernel for any shape and by one for its shape; on gfx1030 of its issue slots that are dot products.
/// This is if nothing overlapped: where scaling stands among matrix instructions (MI200 and MI300), tests/times.rs says how
/// busy the unit is.
const FLOORS: [(&str, [f64; 2]); 5] = [
    ("gfx942", [0.58, 0.65]),
    ("gfx90a", [0.54, 0.55]),
    ("gfx1100", [0.48, 0.48]),
    ("gfx1201", [0.73, 0.78]),
    ("gfx1030", [0.37, 0.37]),
];

#[test]
fn loops_are_full_and_move_what_their_tiles_need() {
    let mut below = Vec::new();
    for (arch, floors) in FLOORS {
        assert!(ARCHITECTURES.contains(&arch), "{arch} is not reported");
        if !needs::serves(arch, candle_rocm_kernels::serves) {
            continue;
        }
        let mut device = Device::new(arch.parse().expect("the emulator knows it"));
        let layouts = [[true, false], [false, false], [true, true], [false, true]];
        let general = TILES
            .iter()
            .flat_map(|&tile| layouts.map(|transposed| (tile, transposed)));
        let special = (TILES[0], layouts[0]);
        let all = general.map(|of| (of, false)).chain([(special, true)]);
        for ((tile, transposed), is_special) in all {
            let floor = floors[usize::from(is_special)];
            let shape = Shape {
                m: 256,
                n: 128,
                k: 512,
                tile,
                transposed,
                is_special,
            };
            let found = run(&mut device, &shape).expect("it runs");
            let (fill, counted) = (found.in_loop.fill, found.in_loop.total);
            println!(
                    "{arch}\t{}{}\t{} registers\t{} waves\tfill {:.3} ({:.3})\tLDS {}, conflicts {}\tbytes / least {:.3}\tlines / least {:.3}",
                    found.kernel,
                    if is_special { " for its shape" } else { "" },
                    found.report.kernel.vgpr_count,
                    found.report.waves,
                    fill.all,
                    fill.without_waits,
                    counted.lds_cycles,
                    counted.lds_conflicts,
                    found.bytes as f64 / found.least_bytes as f64,
                    counted.lines as f64 / counted.least_lines.max(1) as f64,
                );
            let mut fault = |what: &str| below.push(format!("{arch}: {}: {what}", found.kernel));
            if found.report.spills() > 0 || found.report.kernel.private_segment_fixed_size > 0 {
                fault("spills");
            }
            if tile == TILES[0] && transposed == [true, false] && counted.lds_conflicts > 0 {
                fault("bank conflicts");
            }
            // Where lanes read the factors of their own columns (MI200 and MI300), several read the same ones.
            let by_lanes = tile == TILES[0] && arch.starts_with("gfx9");
            let most = found.least_bytes * if by_lanes { 105 } else { 100 } / 100;
            if !(found.least_bytes..=most).contains(&found.bytes) {
                fault("moves other bytes than its tiles need");
            }
            if by_lanes && counted.lines != counted.least_lines {
                fault("touches lines more than once");
            }
            if tile == TILES[0] && transposed == [true, false] && fill.all < floor {
                fault("a thin loop");
            }
        }
    }
    assert!(below.is_empty(), "{}", below.join("\n"));
}
