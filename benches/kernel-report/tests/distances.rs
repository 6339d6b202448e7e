//! The order that the products' source shows is the order that their code has: loads stay ahead of their waits, in
//! every kernel of every embedded architecture.

use candle_rocm_kernel_report::distances;
use candle_rocm_kernel_report::kernels::Kernels;
use candle_rocm_kernel_report::loops;
use candle_rocm_kernel_report::page::ARCHITECTURES;
use candle_rocm_kernels::{Module, GROUPED, MATMUL};
use candle_rocm_testing::needs;

/// The tiles whose K-blocks MFMA units take in four slices, or by whole lines in two halves whose first is written before
/// the last quarter is multiplied; the others', and other units', have two slices or one.
const QUARTERED: [&str; 4] = ["256x256", "224x256", "256x128", "128x128"];

/// Least arithmetic between a load from global memory and the wait for it, as part of a K-block's: of [`QUARTERED`]
/// tiles, and of the others. One set of registers holds a K-block. It can be loaded again when the K-block's last slice
/// has left for LDS, and is waited for when the next K-block's first one leaves: of four slices two are multiplied
/// meanwhile, of two or one, all. (gfx1030's loops over steps count once, both in the distance and in the K-block's
/// arithmetic.)
const FLOORS: [(&str, [f64; 2]); 5] = [
    ("gfx942", [0.5, 1.0]),
    ("gfx90a", [0.5, 1.0]),
    ("gfx1100", [1.0, 1.0]),
    ("gfx1201", [1.0, 1.0]),
    ("gfx1030", [1.0, 1.0]),
];

/// Cycles by which a kernel's loads are ahead at least, whatever its K-blocks have: where the matrix unit is fastest, a
/// half microsecond at 2.1 GHz, for two wavefronts on a SIMD a whole one.
const LARGEST: [(&str, &str, u64); 4] = [
    ("gfx942", "matmul_bf16_256x256_", 1000),
    ("gfx942", "matmul_f16_256x256_", 1000),
    ("gfx942", "matmul_bf16_224x256_", 1000),
    ("gfx942", "matmul_f16_224x256_", 1000),
];

/// Least wavefronts on a SIMD. A slice is read after the barrier that completes it, and its first products wait for that:
/// only other wavefronts can compute meanwhile.
const PARTNERS: u64 = 2;

#[test]
fn loads_are_ahead_of_their_waits() {
    let mut below = Vec::new();
    for arch in ARCHITECTURES {
        if !needs::serves(arch, candle_rocm_kernels::serves) {
            continue;
        }
        let mut kernels = Kernels::new(arch);
        for module in [&MATMUL, &GROUPED] {
            let names = kernels.names(module).expect("the module is embedded");
            // The narrow grouped tiles' loops over edges have as much arithmetic as those over K-blocks, and are taken for
            // them.
            let is_narrow = |name: &str| {
                name.starts_with("grouped")
                    && ["128x32", "128x64"].iter().any(|of| name.contains(of))
            };
            // Those for few columns have no K-blocks: all loads of a round are on their way before the first is used.
            let is_skinny = |name: &str| name.contains("_skinny_");
            let is_product =
                |name: &&String| !(name.contains("_sum") || is_narrow(name) || is_skinny(name));
            for name in names.iter().filter(is_product) {
                below.extend(shortcoming(arch, &mut kernels, module, name));
            }
        }
    }
    assert!(below.is_empty(), "{}", below.join("\n"));
}

/// What a kernel has less of than it should.
fn shortcoming(arch: &str, kernels: &mut Kernels, module: &Module, name: &str) -> Option<String> {
    let report = kernels.report(module, name).expect("it decodes");
    let k_blocks = loops::k_blocks(&report.listing);
    let found: Vec<_> = k_blocks
        .iter()
        .map(|of| distances::of(&report.listing, of))
        .collect();
    let least = found
        .iter()
        .filter_map(|of| of.load.zip(Some(of.iteration)));
    let Some((load, iteration)) = least.min() else {
        return Some(format!("{arch}: {name}: no loop loads anything"));
    };
    let (_, floors) = FLOORS
        .iter()
        .find(|(of, _)| of == &arch)
        .expect("a floor for each architecture");
    let quartered = QUARTERED.iter().any(|tile| name.contains(tile));
    let share = floors[usize::from(!quartered)];
    let largest = LARGEST
        .iter()
        .find(|(of, start, _)| *of == arch && name.starts_with(start));
    // Scaling is arithmetic, too, and comes after the wait.
    let share = if name.contains("f8e4m3") {
        0.9 * share
    } else {
        share
    };
    let floor = (share * iteration as f64).max(largest.map_or(0.0, |(.., cycles)| *cycles as f64));
    let read = found.iter().filter_map(|of| of.read).min();
    println!(
        "{arch}\t{name}\t{load}\t{iteration}\t{read:?}\t{} waves",
        report.waves
    );
    if (load as f64) < floor {
        return Some(format!(
            "{arch}: {name}: a load {load} cycles ahead of its wait, of {iteration}; the floor is {floor}"
        ));
    }
    if report.waves < PARTNERS {
        return Some(format!(
            "{arch}: {name}: nobody computes while it reads LDS"
        ));
    }
    None
}
