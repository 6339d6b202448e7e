//! Plans on every GPU of the table.

use candle_rocm_kernels::Processor;

use super::*;
use crate::gemm::plan::{SubGrid, MAX_WORKSPACE};
use crate::gemm::problem::{GemmDtype, Transpose};

/// Candle's product of m x k by k x n, row-major, contiguous: the operands in BLAS's order.
fn row_major(m: usize, n: usize, k: usize, weight_transposed: bool) -> GemmProblem {
    GemmProblem {
        transa: if weight_transposed {
            Transpose::Yes
        } else {
            Transpose::No
        },
        transb: Transpose::No,
        m: n,
        n: m,
        k,
        alpha: 1.0,
        a: 0x1000,
        lda: if weight_transposed { k } else { n },
        stride_a: (k * n) as i64,
        b: 0x2000,
        ldb: k,
        stride_b: (m * k) as i64,
        beta: 0.0,
        c: 0x3000,
        ldc: n,
        stride_c: (m * n) as i64,
        batch: 1,
        dtype: GemmDtype::F32,
        compute: GemmDtype::F32.compute(),
    }
}

/// A GPU of this processor, and of so many compute units.
fn gpu(processor: &str, compute_units: u32) -> Gpu {
    Gpu {
        processor: Processor::of(processor),
        compute_units,
    }
}

/// f32 is the vector units' on it.
fn rx_7900_xtx() -> Gpu {
    gpu("gfx1100", 48)
}

fn mi300x() -> Gpu {
    gpu("gfx942", 304)
}

fn h200() -> Gpu {
    gpu("sm_90", 132)
}

/// Every GPU of the table, as large as its largest product.
fn gpus() -> impl Iterator<Item = Gpu> {
    rocm_gpus::Gpu::all().map(|of| gpu(of.name(), of.multiprocessors()))
}

fn plan_on(problem: &GemmProblem, gpu: Gpu) -> Option<Plan> {
    Plan::new(problem, &Epilogue::default(), gpu)
}

fn plan_for(problem: &GemmProblem) -> Plan {
    plan_on(problem, rx_7900_xtx()).unwrap()
}

fn kernel_of(problem: &GemmProblem) -> String {
    plan_for(problem).kernel.name(problem.dtype)
}

fn of_type(dtype: GemmDtype, problem: GemmProblem) -> GemmProblem {
    GemmProblem {
        dtype,
        compute: dtype.compute(),
        ..problem
    }
}

/// The warps that share a row by the plan.
fn warps(problem: &GemmProblem, gpu: Gpu) -> u32 {
    match plan_on(problem, gpu).unwrap().kernel {
        Kernel::Skinny(skinny) => 1 << skinny.log2_slice_k,
        other => panic!("{other:?} for {problem}"),
    }
}

#[test]
fn decoding_uses_the_kernels_for_few_columns() {
    assert_eq!(kernel_of(&row_major(1, 512, 256, true)), "skinny_t_f32_n1");
    assert_eq!(kernel_of(&row_major(1, 512, 256, false)), "skinny_n_f32_n1");
    assert_eq!(kernel_of(&row_major(3, 512, 256, true)), "skinny_t_f32_n4");
    assert_eq!(kernel_of(&row_major(8, 512, 256, false)), "skinny_n_f32_n8");
    let halves = of_type(GemmDtype::F16, row_major(1, 512, 256, true));
    assert_eq!(kernel_of(&halves), "skinny_t_f16_n16");
}

/// As many warps as there are steps of k, or the next power of two: 128 elements of f32, so many of f16 as its unit takes.
#[test]
fn teams_share_a_row_as_far_as_there_are_steps() {
    for (k, expected) in [(1, 1), (128, 1), (256, 2), (300, 4), (1000, 8), (4096, 8)] {
        let problem = row_major(1, 512, k, true);
        assert_eq!(warps(&problem, rx_7900_xtx()), expected, "{k}");
        assert_eq!(warps(&problem, mi300x()), expected, "{k}");
    }
    for (gpu, expected) in [(rx_7900_xtx(), 8), (mi300x(), 2)] {
        let problem = of_type(GemmDtype::F16, row_major(1, 512, 512, true));
        assert_eq!(warps(&problem, gpu), expected);
    }
}

/// Rows that lie together are taken 32 or more at a time, so that 512 of them would occupy sixteen compute units.
#[test]
fn few_workgroups_divide_k() {
    let splits = |k, gpu| {
        let plan = plan_on(&row_major(1, 512, k, false), gpu).unwrap();
        assert!(u64::from(plan.splits - 1) * u64::from(plan.k_per_split) < plan.product.k);
        assert!(u64::from(plan.splits) * u64::from(plan.k_per_split) >= plan.product.k);
        plan.splits
    };
    assert_eq!(splits(4096, rx_7900_xtx()), 6);
    assert_eq!(splits(4096, mi300x()), 8);
    assert_eq!(splits(128, mi300x()), 1);
    let wide = plan_on(&row_major(1, 65536, 4096, false), mi300x()).unwrap();
    assert_eq!(wide.splits, 1);
}

/// Those that have the next step on its way keep the memory busy with few workgroups.
#[test]
fn a_fifth_of_the_units_multiplies_one_vector() {
    let splits = |m, dtype| {
        let problem = of_type(dtype, row_major(1, m, 8192, true));
        plan_on(&problem, mi300x()).unwrap().splits
    };
    assert_eq!(splits(2048, GemmDtype::F16), 1);
    assert_eq!(splits(1024, GemmDtype::BF16), 1);
    assert!(splits(512, GemmDtype::F16) > 1);
    assert!(splits(1024, GemmDtype::F32) > 1);
}

/// Where lines wait in LDS as many warps share rows as leave all workgroups at once, and k is whole unless few would
/// have long to read; as timed on an H200.
#[test]
fn lines_that_are_turned_over_are_seldom_divided() {
    for (m, k, expected) in [
        (768, 768, (8, 1)),
        (4096, 4096, (8, 1)),
        (2048, 2048, (8, 1)),
        (2048, 8192, (8, 4)),
        (1024, 4096, (8, 8)),
        (14336, 4096, (4, 1)),
        (32000, 4096, (2, 1)),
        (128256, 2048, (1, 1)),
        (512, 8192, (8, 16)),
    ] {
        let problem = of_type(GemmDtype::F16, row_major(1, m, k, false));
        let plan = plan_on(&problem, h200()).unwrap();
        assert_eq!(
            (warps(&problem, h200()), plan.splits),
            expected,
            "{m} x {k}"
        );
        assert_eq!(plan.kernel.dynamic_lds(), 64 << 10);
    }
}

/// Where k is together and the workgroups would be fewer than the units, but not by much; as timed on an H200.
#[test]
fn workgroups_that_nearly_fill_the_gpu_divide_k() {
    for (n, m, k, expected) in [
        (1, 1024, 4096, (4, 4)),
        (8, 1024, 4096, (4, 4)),
        (16, 2048, 8192, (4, 4)),
        (1, 2048, 8192, (2, 6)),
        (8, 2048, 8192, (2, 6)),
        (1, 768, 3072, (8, 1)),
        (1, 512, 2048, (8, 1)),
    ] {
        let problem = of_type(GemmDtype::F16, row_major(n, m, k, true));
        let plan = plan_on(&problem, h200()).unwrap();
        let found = (warps(&problem, h200()), plan.splits);
        assert_eq!(found, expected, "{m} x {n} x {k}");
    }
}

#[test]
fn few_rows_are_few_columns_of_the_transpose() {
    let plan = plan_for(&row_major(1000, 1, 64, false));
    assert_eq!(plan.kernel.name(GemmDtype::F32), "skinny_t_f32_n1");
    assert!(plan.b_along_k);
    assert_eq!((plan.product.m, plan.product.n), (1000, 1));
    assert_eq!((plan.product.row_c, plan.product.column_c), (1, 1));
    assert_eq!(plan.product.a.address, 0x2000);
    let plan = plan_for(&row_major(1000, 4, 64, false));
    assert_eq!(plan.kernel.name(GemmDtype::F32), "skinny_t_f32_n4");
    assert!(!plan.b_along_k);
    assert_eq!((plan.product.row_c, plan.product.column_c), (4, 1));
}

/// LLaMA 8B's layers with few hundred tokens, in the tiles and splits that are the fastest by the emulator's clock.
#[test]
fn prompts_are_divided_as_the_clock_has_it() {
    for (m, n, k, expected) in [
        (6144, 1024, 4096, ((256, 256), 3)),
        (4096, 1024, 4096, ((128, 128), 2)),
        (28672, 1024, 4096, ((128, 128), 1)),
        (4096, 1024, 14336, ((224, 256), 4)),
        (6144, 512, 4096, ((128, 128), 3)),
        (4096, 512, 4096, ((128, 128), 2)),
        (28672, 512, 4096, ((128, 128), 1)),
        (6144, 128, 4096, ((64, 64), 3)),
        (4096, 128, 4096, ((64, 64), 4)),
        (28672, 128, 4096, ((128, 128), 2)),
        (4096, 128, 14336, ((128, 128), 8)),
        (4096, 64, 4096, ((64, 64), 6)),
        (4096, 32, 4096, ((128, 32), 6)),
    ] {
        let problem = of_type(GemmDtype::BF16, row_major(n, m, k, true));
        let plan = plan_on(&problem, mi300x()).unwrap();
        assert_eq!((plan.kernel.tile(), plan.splits), expected, "{problem}");
    }
}

/// Each second-level cache of an MI300X gets a split of k, if there are as many, whose sums another launch adds up.
#[test]
fn xcds_have_parts_of_their_own() {
    let plan_of = |m, k| {
        let problem = of_type(GemmDtype::BF16, row_major(128, m, k, true));
        plan_on(&problem, mi300x()).unwrap()
    };
    let grid = |plan: &Plan| {
        plan.sub_grids()
            .map(|sub_grid| sub_grid.grid)
            .collect::<Vec<_>>()
    };
    let dealt = plan_of(4096, 14336);
    assert!(dealt.splits_per_xcd && !dealt.may_wait());
    assert_eq!(grid(&dealt), [(8, 32, 1)]);
    let in_kernel = plan_of(28672, 4096);
    assert!(!in_kernel.splits_per_xcd && in_kernel.may_wait());
    assert_eq!(grid(&in_kernel), [(224, 2, 1)]);
}

/// 4096 x 4096 in tiles of 256 x 256 would leave a sixth of them without a workgroup.
#[test]
fn a_large_product_has_a_workgroup_for_each_compute_unit() {
    let units = u64::from(mi300x().compute_units);
    for dtype in [GemmDtype::F16, GemmDtype::BF16] {
        for ops in 0..4 {
            let op = |bit: i32| match ops & bit {
                0 => Transpose::No,
                _ => Transpose::Yes,
            };
            let problem = GemmProblem {
                transa: op(1),
                transb: op(2),
                ..of_type(dtype, row_major(4096, 4096, 4096, true))
            };
            let plan = plan_on(&problem, mi300x()).unwrap();
            assert_eq!(plan.kernel.tile(), (224, 256), "{problem}");
            let workgroups: u64 = plan
                .sub_grids()
                .map(|sub_grid| u64::from(sub_grid.grid.0 * sub_grid.grid.1 * sub_grid.grid.2))
                .sum();
            assert_eq!(workgroups, units, "{problem}");
        }
    }
    // Three rounds of it would leave more of an MI250X without one than five of two small tiles.
    let mi250x = Gpu {
        processor: Processor::of("gfx90a"),
        compute_units: 110,
    };
    let problem = of_type(GemmDtype::BF16, row_major(4096, 4096, 4096, true));
    assert_eq!(plan_on(&problem, mi250x).unwrap().kernel.tile(), (128, 128));
    // f32 has no such tile.
    let plan = plan_on(&row_major(4096, 4096, 4096, true), mi300x()).unwrap();
    assert_ne!(plan.kernel.tile().0, 224);
}

#[test]
fn tiles_grow_with_the_product() {
    assert_eq!(
        kernel_of(&row_major(20, 256, 256, true)),
        "gemm_f32_32x32_tn"
    );
    assert_eq!(
        kernel_of(&row_major(1024, 1024, 256, false)),
        "gemm_f32_64x64_nn"
    );
    assert_eq!(
        kernel_of(&row_major(4096, 4096, 256, true)),
        "gemm_f32_128x128_tn"
    );
    // By the clock 50 us, where 144 of the larger tiles on 96 compute units take 66.
    assert_eq!(
        kernel_of(&row_major(1536, 1536, 512, true)),
        "gemm_f32_64x64_tn"
    );
    let double = of_type(GemmDtype::F64, row_major(4096, 4096, 256, true));
    assert_eq!(kernel_of(&double), "gemm_f64_64x64_tn");
}

/// Sizes of models' products: decoding, prompts of several lengths, long sums; and one that has a tile of 224 x 256 for each
/// compute unit of an MI250X.
fn products() -> impl Iterator<Item = GemmProblem> {
    const SIZES: [usize; 9] = [1, 16, 32, 64, 128, 512, 4096, 14336, 128_256];
    let models = SIZES.into_iter().flat_map(|m| {
        SIZES.into_iter().flat_map(move |n| {
            [64, 512, 4096, 28672]
                .into_iter()
                .map(move |k| row_major(m, n, k, true))
        })
    });
    models.chain([row_major(2816, 2240, 4096, true)])
}

#[test]
fn each_tile_is_chosen_for_some_product() {
    for gpu in gpus() {
        for dtype in GemmDtype::ALL {
            let tiles: Vec<_> = MatrixTile::all(gpu.processor, dtype).collect();
            let mut chosen = Vec::new();
            for problem in products() {
                let plan = plan_on(&of_type(dtype, problem), gpu).unwrap();
                if let Kernel::Matrix { tile, .. } = plan.kernel {
                    chosen.push(tile);
                }
            }
            for tile in tiles {
                assert!(
                    chosen.contains(&tile),
                    "{} {tile:?} on {gpu:?}",
                    dtype.name()
                );
            }
        }
    }
}

/// Memory is the limit whichever tile it is, so that what a tile does besides must still count.
#[test]
fn thirty_two_columns_take_the_narrowest_tile() {
    let problem = of_type(GemmDtype::F16, row_major(32, 4096, 4096, true));
    for gpu in gpus() {
        let name = plan_on(&problem, gpu).unwrap().kernel.name(problem.dtype);
        assert_eq!(name, "matmul_f16_128x32_tn", "{gpu:?}");
    }
}

#[test]
fn rdna_multiplies_f32_and_f64_by_vector_units() {
    let rdna = |gpu: &Gpu| gpu.unit().wavefront == 32;
    for gpu in gpus().filter(rdna) {
        for dtype in [GemmDtype::F32, GemmDtype::F64] {
            for problem in products() {
                let plan = plan_on(&of_type(dtype, problem), gpu).unwrap();
                assert_eq!(plan.kernel.module().name(), "gemm", "{problem}");
            }
        }
    }
}

#[test]
fn up_to_16_columns_are_few() {
    for (columns, dtype, gpu, expected) in [
        (9, GemmDtype::F32, rx_7900_xtx(), "skinny_t_f32_n16"),
        (2, GemmDtype::F64, rx_7900_xtx(), "skinny_t_f64_n4"),
        (16, GemmDtype::F64, rx_7900_xtx(), "skinny_t_f64_n16"),
        (17, GemmDtype::F32, rx_7900_xtx(), "gemm_f32_32x32_tn"),
        (8, GemmDtype::F16, rx_7900_xtx(), "skinny_t_f16_n16"),
        (17, GemmDtype::F16, rx_7900_xtx(), "matmul_f16_128x32_tn"),
        (16, GemmDtype::F32, mi300x(), "skinny_t_f32_n16"),
        (1, GemmDtype::BF16, h200(), "skinny_t_bf16_n8"),
        (3, GemmDtype::BF16, h200(), "skinny_t_bf16_n8"),
        (9, GemmDtype::BF16, h200(), "skinny_t_bf16_n16"),
        (1, GemmDtype::I8, rx_7900_xtx(), "matmul_i8_128x32_tn"),
    ] {
        let problem = of_type(dtype, row_major(columns, 4096, 512, true));
        let plan = plan_on(&problem, gpu).unwrap();
        assert_eq!(plan.kernel.name(dtype), expected);
    }
}

#[test]
fn no_kernel_multiplies_integers_elsewhere() {
    let other = Gpu {
        processor: Processor::of("sm_75"),
        compute_units: 40,
    };
    let problem = row_major(100, 100, 100, false);
    assert_eq!(plan_on(&of_type(GemmDtype::I8, problem), other), None);
    assert!(plan_on(&of_type(GemmDtype::F16, problem), other).is_some());
}

/// Halves and bytes by matrix units as on AMD's GPUs, with tiles that the GPU's LDS holds; f32 by vector units.
#[test]
fn nvidia_has_matrix_units() {
    for (arch, compute_units, dtype, expected) in [
        ("sm_90", 132, GemmDtype::BF16, "matmul_bf16_256x128_tn"),
        ("sm_90", 132, GemmDtype::I8, "matmul_i8_256x128_tn"),
        ("sm_90", 132, GemmDtype::F64, "matmul_f64_64x64_tn"),
        ("sm_90", 132, GemmDtype::F32, "gemm_f32_128x128_tn"),
        ("sm_86", 84, GemmDtype::F16, "matmul_f16_128x128_tn"),
        ("sm_86", 84, GemmDtype::F64, "gemm_f64_64x64_tn"),
    ] {
        let gpu = Gpu {
            processor: Processor::of(arch),
            compute_units,
        };
        let plan = plan_on(&of_type(dtype, row_major(4096, 4096, 4096, true)), gpu).unwrap();
        assert_eq!(plan.kernel.name(dtype), expected, "{arch}");
        if let Kernel::Matrix { tile, .. } = plan.kernel {
            let halves = dtype.bytes() == 2;
            assert_eq!(tile.dynamic_lds > 0, halves, "{arch} {expected}");
        }
    }
    let skinny = of_type(GemmDtype::BF16, row_major(16, 4096, 4096, true));
    let plan = plan_on(&skinny, h200()).unwrap();
    assert_eq!(plan.kernel.name(skinny.dtype), "skinny_t_bf16_n16");
}

#[test]
fn long_sums_of_few_elements_are_divided() {
    for gpu in gpus() {
        let problem = of_type(GemmDtype::F16, row_major(64, 64, 28672, true));
        let plan = plan_on(&problem, gpu).unwrap();
        // As many splits as a small GPU has units keep it busy.
        let least = if gpu.compute_units >= 16 {
            5
        } else {
            gpu.compute_units.min(2)
        };
        assert!(plan.splits >= least, "{gpu:?}: {}", plan.description());
        // As many elements of C as fill the GPU: one split.
        let problem = of_type(GemmDtype::F16, row_major(8192, 8192, 4096, true));
        assert_eq!(plan_on(&problem, gpu).unwrap().splits, 1, "{gpu:?}");
    }
}

#[test]
fn parts_cover_k_within_the_workspace() {
    for gpu in gpus() {
        for dtype in GemmDtype::ALL {
            for problem in products() {
                let problem = of_type(dtype, problem);
                for plan in Plan::candidates(&problem, &Epilogue::default(), gpu) {
                    assert!(plan.workspace_bytes() <= MAX_WORKSPACE);
                    let depth = match plan.kernel {
                        Kernel::Matrix { tile, .. } => tile.depth,
                        Kernel::Skinny(skinny) => skinny.round(),
                        Kernel::Tile { .. } => {
                            assert_eq!(plan.splits, 1);
                            continue;
                        }
                    };
                    let (splits, k_per_split) =
                        (u64::from(plan.splits), u64::from(plan.k_per_split));
                    assert!(splits == 1 || k_per_split % u64::from(depth) == 0);
                    assert!(splits * k_per_split >= plan.product.k);
                    assert!((splits - 1) * k_per_split < plan.product.k);
                    assert!(plan.group >= 1 && plan.xcds >= 1);
                }
            }
        }
    }
}

#[test]
fn the_first_candidate_is_the_plan() {
    for gpu in gpus() {
        for problem in products() {
            let problem = of_type(GemmDtype::BF16, problem);
            let candidates = Plan::candidates(&problem, &Epilogue::default(), gpu);
            assert_eq!(candidates.first().copied(), plan_on(&problem, gpu));
        }
    }
}

#[test]
fn tiles_are_dealt_to_xcds() {
    let problem = of_type(GemmDtype::F16, row_major(8192, 8192, 4096, true));
    let xcds = |compute_units| {
        let gpu = Gpu {
            compute_units,
            ..mi300x()
        };
        plan_on(&problem, gpu).unwrap().xcds
    };
    // MI300X, MI300A, and one of an MI300X's eight.
    assert_eq!([304, 228, 38].map(xcds), [8, 6, 1]);
    assert_eq!(plan_on(&problem, rx_7900_xtx()).unwrap().xcds, 1);
}

#[test]
fn an_epilogue_goes_with_its_part_of_c() {
    let epilogue = Epilogue {
        bias: Some(0x10_0000),
        residual: Some(super::super::Residual {
            address: 0x20_0000,
            ld: 6_000_000,
            stride: 0,
        }),
        ..Epilogue::default()
    };
    // A product with one row is taken transposed: its bias and residual are not.
    let tall = GemmProblem {
        lda: 16,
        ..row_major(1, i32::MAX as usize, 16, true)
    };
    let transposed = row_major(i32::MAX as usize, 1, 16, false);
    for (problem, step_of_bias, step_of_residual) in [(tall, 1, 1), (transposed, 0, 6_000_000)] {
        let plan = Plan::new(&problem, &epilogue, rx_7900_xtx()).unwrap();
        let sub_grids: Vec<SubGrid> = plan.sub_grids().collect();
        let (first, second) = (&sub_grids[0].product, &sub_grids[1].product);
        assert_eq!(first.epilogue.bias, 0x10_0000);
        let moved = |one: u64, other: u64| (other - one) / 4;
        assert_eq!(
            moved(first.epilogue.bias, second.epilogue.bias),
            first.m * step_of_bias
        );
        assert_eq!(
            moved(first.epilogue.residual, second.epilogue.residual),
            first.m * step_of_residual
        );
    }
}

#[test]
fn far_apart_rows_go_to_tiles() {
    let far = GemmProblem {
        lda: 1 << 30,
        ..row_major(1, 512, 256, true)
    };
    assert_eq!(kernel_of(&far), "gemm_f32_32x32_tn");
    // One row only: its distance to the next does not matter.
    let single = GemmProblem {
        lda: 1 << 30,
        ..row_major(1, 1, 256, true)
    };
    assert!(kernel_of(&single).starts_with("skinny_t"));
}

#[test]
fn a_shared_a_folds_the_batch() {
    let problem = GemmProblem {
        stride_a: 0,
        batch: 10,
        ..row_major(20, 256, 64, true)
    };
    let plan = plan_for(&problem);
    assert_eq!((plan.product.n, plan.product.batch), (200, 1));
    let apart = GemmProblem {
        stride_c: (20 * 256 + 1) as i64,
        ..problem
    };
    let plan = plan_for(&apart);
    assert_eq!((plan.product.n, plan.product.batch), (20, 10));
}

#[test]
fn alpha_zero_reads_no_operand() {
    let problem = GemmProblem {
        alpha: 0.0,
        ..row_major(20, 30, 40, false)
    };
    assert_eq!(plan_for(&problem).product.k, 0);
}

#[test]
fn an_empty_c_needs_no_plan() {
    for (m, n) in [(0, 5), (5, 0)] {
        assert_eq!(plan_on(&row_major(m, n, 4, false), mi300x()), None);
    }
}

/// Every piece keeps to a grid's limits, and together they cover each element of C once.
#[test]
fn pieces_cover_c() {
    let huge_batch = GemmProblem {
        batch: 200_000,
        ..row_major(20, 20, 16, false)
    };
    let wide = row_major(9_000_000, 40, 16, false);
    let tall = GemmProblem {
        lda: 16,
        ..row_major(1, i32::MAX as usize, 16, true)
    };
    let both = of_type(
        GemmDtype::F16,
        GemmProblem {
            lda: 64,
            ldb: 64,
            ..row_major(5_000_000, 3_000_000, 64, true)
        },
    );
    for problem in [huge_batch, wide, tall, both] {
        let plan = plan_for(&problem);
        let sub_grids: Vec<SubGrid> = plan.sub_grids().collect();
        assert!(sub_grids.len() > 1, "{problem}");
        let (rows, columns) = plan.kernel.tile();
        let mut area = 0u128;
        for SubGrid { product, grid } in &sub_grids {
            assert!(u64::from(grid.0) * u64::from(plan.kernel.threads()) <= u64::from(u32::MAX));
            assert!(grid.1 <= 65_535 && grid.2 <= 65_535);
            let tiles = [product.m.div_ceil(rows), product.n.div_ceil(columns)];
            match plan.kernel {
                Kernel::Matrix { .. } => {
                    assert_eq!(u64::from(grid.0), tiles[0] * tiles[1]);
                    assert_eq!(grid.1, plan.splits);
                }
                _ => assert_eq!([grid.0, grid.1].map(u64::from), tiles),
            }
            assert_eq!(u64::from(grid.2), product.batch);
            area += u128::from(product.m) * u128::from(product.n) * u128::from(product.batch);
        }
        let all = problem.m as u128 * problem.n as u128 * problem.batch as u128;
        assert_eq!(area, all, "{problem}");
        let mut starts: Vec<u64> = sub_grids
            .iter()
            .map(|sub_grid| sub_grid.product.c)
            .collect();
        starts.dedup();
        assert_eq!(starts.len(), sub_grids.len());
        // The second piece begins where the first ends.
        let (first, second) = (&sub_grids[0].product, &sub_grids[1].product);
        let bytes = problem.dtype.bytes() as u64;
        let step = |now: u64, before: u64| (now - before) / bytes;
        if first.batch < plan.product.batch {
            assert_eq!(step(second.a.address, first.a.address), 65_535 * 320);
            assert_eq!(step(second.c, first.c), 65_535 * 400);
        } else if first.n < plan.product.n {
            assert_eq!(step(second.b.address, first.b.address), first.n * 16);
            assert_eq!(step(second.c, first.c), first.n * 40);
        } else {
            assert_eq!(
                step(second.a.address, first.a.address),
                first.m * problem.k as u64
            );
            assert_eq!(step(second.c, first.c), first.m);
        }
    }
}
