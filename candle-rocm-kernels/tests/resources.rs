//! What the compiler made of the kernels: no scratch memory, no spilled registers, the float modes
//! that Candle's results need, workgroups as large as Candle launches.

mod support;

use candle_rocm_kernels as kernels;
use support::{Kernel, SCALAR_SPILLS};

fn for_every_kernel(mut check: impl FnMut(&str, &str, &Kernel)) {
    assert!(
        !kernels::architectures().is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    for module in kernels::MODULES {
        for arch in kernels::architectures() {
            let code = module.code_object(arch).expect("an embedded architecture");
            for kernel in support::kernels(&code).values() {
                check(module.name(), arch, kernel);
            }
        }
    }
}

#[test]
fn nothing_spills_to_memory() {
    let mut spilled = Vec::new();
    for_every_kernel(|_, arch, kernel| {
        let allowed = SCALAR_SPILLS.iter().any(|(name, _)| *name == kernel.name);
        if kernel.scratch_bytes != 0
            || kernel.vgpr_spills != 0
            || (kernel.sgpr_spills != 0 && !allowed)
        {
            spilled.push(format!(
                "{} for {arch}: {} bytes of scratch, {} vector and {} scalar registers spilled",
                kernel.name, kernel.scratch_bytes, kernel.vgpr_spills, kernel.sgpr_spills
            ));
        }
    });
    assert!(spilled.is_empty(), "{}", spilled.join("\n"));
}

#[test]
fn wavefronts_have_the_width_of_the_architecture() {
    for_every_kernel(|_, arch, kernel| {
        let expected = if arch.starts_with("gfx9") { 64 } else { 32 };
        assert_eq!(
            kernel.wavefront_size, expected,
            "{} for {arch}",
            kernel.name
        );
    });
}

/// Candle launches up to 1024 threads, and always 128 of `mul_mat_*`; the modules that stand for cuBLAS,
/// cuRAND and candle-kernels' C functions launch their own.
#[test]
fn workgroups_may_have_1024_threads() {
    for_every_kernel(|module, arch, kernel| {
        if !["gemm", "random", "mmvq", "mmq", "moe"].contains(&module) {
            let tiled = module == "quantized" && kernel.name.starts_with("mul_mat_q");
            let expected = if tiled { 128 } else { 1024 };
            assert_eq!(kernel.max_workgroup, expected, "{} for {arch}", kernel.name);
        }
    });
}

/// Bits 19:12 of `compute_pgm_rsrc1`: round to nearest even for f32 and for f64/f16 (0), keep
/// denormals of both (3).
#[test]
fn floats_round_to_nearest_and_keep_denormals() {
    for_every_kernel(|_, arch, kernel| {
        assert_eq!(
            kernel.rsrc1 >> 12 & 0xff,
            0b1111_0000,
            "{} for {arch}",
            kernel.name
        );
    });
}
