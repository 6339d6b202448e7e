//! Both forms of the row kernels give what f64 does, and products on the emulated GPU do; each on every embedded
//! architecture that the emulator knows.

use candle_rocm_gpu_mm::problems;
use candle_rocm_gpu_mm::rows;
use candle_rocm_kernel_report::device::Device;
use candle_rocm_testing::needs;
use rocm_emulator::isa::Target;

/// f16 results are rounded once; f32 sums of up to 8,192 numbers, and the hardware's exponential and root, lose a few bits.
fn tolerance(half: bool) -> f64 {
    if half {
        1.0 / 1024.0
    } else {
        4e-6
    }
}

#[test]
fn both_forms_of_rows_are_right_and_the_tree_takes_more_of_the_lds() {
    for arch in needs::architectures(candle_rocm_kernels::serves) {
        let target: Target = arch.parse().expect("the emulator knows it");
        let mut device = Device::new(target);
        for problem in problems::rows(Some(32)) {
            if problem.columns == 8192 {
                continue;
            }
            let found = rows::count(&mut device, &problem).expect("both run");
            let most = tolerance(problem.half);
            assert!(
                found.tree.error <= most,
                "{target}, tree: {problem:?}: {found:?}"
            );
            assert!(
                found.wave.error <= most,
                "{target}, wave: {problem:?}: {found:?}"
            );
            let (tree, wave) = (found.tree.counted.unwrap(), found.wave.counted.unwrap());
            assert!(
                tree.lds_cycles > wave.lds_cycles,
                "{target}: {problem:?}: {found:?}"
            );
            assert!(
                tree.barriers > wave.barriers,
                "{target}: {problem:?}: {found:?}"
            );
            assert_eq!(
                tree.conflicts + wave.conflicts,
                0.0,
                "{target}: {problem:?}"
            );
        }
    }
}
