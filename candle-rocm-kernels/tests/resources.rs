//! What the compiler made of the kernels: no spilled registers but those with a reason, the float modes
//! that Candle's results need, workgroups as large as Candle launches.

mod support;

use candle_rocm_kernels as kernels;
use rocm_gpus::CodeTarget;
use support::{reason, Kernel, SCALAR_SPILLS, VECTOR_SPILLS};

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
fn nothing_spills_without_a_reason() {
    let mut spilled = Vec::new();
    for_every_kernel(|_, arch, kernel| {
        let scratch = kernel.scratch_bytes != 0 || kernel.vgpr_spills != 0;
        if scratch && reason(VECTOR_SPILLS, &kernel.name).is_none()
            || kernel.sgpr_spills != 0 && reason(SCALAR_SPILLS, &kernel.name).is_none()
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
        let target: CodeTarget = arch.parse().expect("in the table of GPUs");
        let expected = u64::from(target.unit().wavefront);
        assert_eq!(
            kernel.wavefront_size, expected,
            "{} for {arch}",
            kernel.name
        );
    });
}

/// Candle launches up to 1024 threads, and at most 128 of quantised products; the modules that stand for cuBLAS,
/// cuRAND and candle-kernels' C functions, the fused operators, attention, cuDNN's layers, sorts, scans, sparse
/// matrices, small decompositions and Fourier transforms launch their own.
#[test]
fn workgroups_may_have_1024_threads() {
    for_every_kernel(|module, arch, kernel| {
        if ![
            "gemm",
            "matmul",
            "convolution",
            "dnn",
            "random",
            "mmvq",
            "mmq",
            "upcast",
            "moe",
            "fused_operators",
            "attention_forward",
            "attention_backward",
            "attention_decode",
            "skinny_normed",
            "fp8_weights",
            "quantized_chained",
            "grouped",
            "experts",
            "fp8",
            "radix_sort",
            "cumsum",
            "positions",
            "histogram",
            "cross_entropy",
            "optimizers",
            "dropout",
            "communication",
            "cat",
            "sparse",
            "linalg",
            "fft",
        ]
        .contains(&module)
        {
            let product = ["mul_mat_", "indexed_moe_forward_"]
                .iter()
                .any(|prefix| kernel.name.starts_with(prefix));
            let long_fold = kernel.name.starts_with("long_");
            let update = ["ia_", "s_", "sa_"]
                .iter()
                .any(|of| kernel.name.starts_with(of));
            let expected = match module {
                "indexing" if update => 256,
                "quantized" if product => 128,
                "reduce" if long_fold => 256,
                _ => 1024,
            };
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
