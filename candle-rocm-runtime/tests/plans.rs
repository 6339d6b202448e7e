//! Plans stay as they are unless a change means to change them: a hash of each family's plans on each GPU, as recorded here. What a
//! plan launches decides the order of its sums, and so its bits.

use candle_rocm_kernels::grouped::Element;
use candle_rocm_kernels::launch_heuristics::Row;
use candle_rocm_kernels::{decode, gguf, mmvq, split_rows, Processor};
use candle_rocm_runtime::convolution;
use candle_rocm_runtime::gemm::plan::Plan;
use candle_rocm_runtime::gemm::{Epilogue, GemmDtype, GemmProblem, Gpu, Transpose};
use candle_rocm_runtime::plan::grouped;

/// Compute units as HIP counts them.
const GPUS: [(&str, u32); 6] = [
    ("gfx90a", 104),
    ("gfx942", 304),
    ("gfx1030", 40),
    ("gfx1100", 48),
    ("gfx1201", 32),
    ("sm_90", 132),
];

/// By family: the plans of each of [`GPUS`].
const RECORDED: [(&str, [u64; 6]); 6] = [
    (
        "convolution",
        [
            0x415f63fbef848b81,
            0x060e015625841b2b,
            0x651ed87d318b3b21,
            0x9a23addcf35f5d6a,
            0x4ce436b06f5c8d21,
            0x36bac81978f5c403,
        ],
    ),
    (
        "gemm",
        [
            0x67422e3353533fa1,
            0x207d0ada656e6e36,
            0x1e06bc7eb2260c53,
            0xd698d0dafb3d934b,
            0xeb496cd515d66448,
            0x8a7147a1c842c47c,
        ],
    ),
    (
        "grouped",
        [
            0xe2a0cf0a85db4ef8,
            0x5e4943b358f9d804,
            0x315ff931e90fb6ef,
            0x89592593359ea447,
            0x372e081d05092581,
            0xe050210236cfb5b9,
        ],
    ),
    (
        "mmvq",
        [
            0x65919ac76651f825,
            0xa6312b5b80ac7825,
            0xda51f0cd1fc96725,
            0xda51f0cd1fc96725,
            0xda51f0cd1fc96725,
            0x65919ac76651f825,
        ],
    ),
    (
        "decode",
        [
            0x69e0641e17ee0025,
            0xf27577efaa596d89,
            0x0590beb8cac42b85,
            0x4d45a10969ab0bd5,
            0xb05f3f285b292bdd,
            0xfd83c713e8311bdd,
        ],
    ),
    (
        "split_rows",
        [
            0x9ef466b65a2f8035,
            0xc1c680d24a33e02a,
            0x468b76c1efef97cd,
            0xaac893b6cbdfeb94,
            0xd8bb82d2abb75638,
            0xea57889b58bb01d6,
        ],
    ),
];

/// FNV-1a, and how many numbers there were.
struct Plans(u64, u64);

impl Plans {
    fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            self.1 += 1;
        }
    }
}

fn gemm(gpu: Gpu, plans: &mut Plans) {
    let dtypes = [
        GemmDtype::F16,
        GemmDtype::BF16ToF32,
        GemmDtype::F32,
        GemmDtype::F64,
        GemmDtype::I8,
    ];
    let ops = [[Transpose::Yes, Transpose::No], [Transpose::No; 2]];
    for m in [1usize, 8, 48, 128, 1000, 4096, 14_336] {
        for n in [1usize, 2, 16, 17, 100, 512, 4096] {
            for k in [1usize, 64, 300, 4096, 14_336] {
                for dtype in dtypes {
                    for (op, batch) in ops.into_iter().zip([1, 3]) {
                        let problem = GemmProblem {
                            batch,
                            stride_a: (m * k) as i64,
                            stride_b: (k * n) as i64,
                            stride_c: (m * n) as i64,
                            ..GemmProblem::packed(dtype, op, [m, n, k], [512, 1024, 2048])
                        };
                        // The best first.
                        for plan in Plan::candidates(&problem, &Epilogue::default(), gpu) {
                            add_gemm(&plan, plans);
                        }
                    }
                }
            }
        }
    }
}

fn add_gemm(plan: &Plan, plans: &mut Plans) {
    let (rows, columns) = plan.kernel.tile();
    plans.add(&[rows, columns, plan.product.is_transposed.into()]);
    let words = [
        plan.kernel.threads(),
        plan.kernel.dynamic_lds(),
        plan.splits,
        plan.k_per_split,
        plan.group,
        plan.xcds,
        plan.splits_per_xcd.into(),
    ];
    plans.add(&words.map(u64::from));
    for sub_grid in plan.sub_grids().take(2) {
        let (x, y, z) = sub_grid.grid;
        plans.add(&[x, y, z].map(u64::from));
    }
}

fn of_grouped(gpu: Gpu, plans: &mut Plans) {
    // Batch, columns of a group in use, whether matrices are blocks of columns, whether K may be divided.
    let forms = [
        (1, None, false, true),
        (4, None, false, true),
        (1, Some(7), true, true),
        (1, Some(40), true, true),
        (8, Some(20), false, false),
    ];
    for element in [Element::Bf16, Element::F8e4m3] {
        for m in [128usize, 1000, 4096, 7168] {
            for n in [1usize, 16, 17, 64, 100, 500, 4096] {
                for k in [128usize, 512, 7168, 16_384] {
                    for (batch, usual, blocks, divides) in forms {
                        let size = grouped::Size {
                            m,
                            n,
                            k,
                            batch,
                            divides,
                            usual,
                            matrices: if blocks { n.div_ceil(128) } else { batch },
                        };
                        for along_k in [true, false] {
                            let units = gpu.compute_units as usize;
                            for plan in grouped::plans(element, size, along_k, gpu.processor, units)
                            {
                                let (tile, columns) = match plan.kernel {
                                    grouped::Kernel::Tile(tile) => (tile.rows, tile.columns),
                                    grouped::Kernel::Skinny {
                                        columns,
                                        log2_slice_k,
                                        ..
                                    } => (1 << log2_slice_k, columns),
                                };
                                plans.add(&[tile, columns].map(u64::from));
                                plans.add(
                                    &[plan.splits, plan.k_per_split].map(|number| number as u64),
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

fn of_convolution(gpu: Gpu, plans: &mut Plans) {
    use convolution::{Axis, Convolution, Dtype, Operands, Operation};
    let operands = Operands {
        inputs: 256,
        weights: 512,
        outputs: 1024,
    };
    let operations = [Operation::Forward, Operation::Data, Operation::Weights];
    for dtype in [Dtype::F16, Dtype::F32, Dtype::F64] {
        for (batch, size) in [(1usize, 512usize), (2, 64), (32, 56), (32, 7)] {
            for channels in [[3usize, 64], [64, 64], [320, 320], [1280, 640]] {
                for (kernel, stride) in [(1usize, 1usize), (3, 1), (3, 2), (7, 2)] {
                    let axis = Axis::new(size, kernel, stride, 1, [kernel / 2; 2]);
                    let axes = [Axis::NONE, axis, axis];
                    for groups in [1, channels[0]] {
                        let channels = channels.map(|count| count.next_multiple_of(groups));
                        let of = Convolution::contiguous(dtype, batch, channels, groups, axes);
                        for operation in operations {
                            let of = Convolution { operation, ..of };
                            add_convolution(&convolution::chosen(&of, &operands, gpu), plans);
                        }
                    }
                }
            }
        }
    }
}

fn add_convolution(kernel: &convolution::plan::Kernel, plans: &mut Plans) {
    use convolution::plan::Kernel;
    plans.add(&match *kernel {
        Kernel::Direct => [0; 4],
        Kernel::Depthwise { taps, stride } => [1, taps, stride, 0].map(u64::from),
        Kernel::DepthwiseData { taps, stride } => [5, taps, stride, 0].map(u64::from),
        Kernel::Grouped { taps, stride } => [6, taps, stride, 0].map(u64::from),
        Kernel::DepthwiseLast { taps, stride } => [2, taps, stride, 0].map(u64::from),
        Kernel::DepthwiseWeights {
            taps,
            stride,
            splits,
            k_per_split,
        } => [50 + taps, stride, splits, k_per_split].map(u64::from),
        Kernel::Tile {
            shape,
            splits,
            k_per_split,
        } => [shape.tile.rows, shape.tile.columns, splits, k_per_split].map(u64::from),
        Kernel::Lines {
            lines,
            splits,
            k_per_split,
        } => [
            10 * lines.taps + lines.unit,
            lines.shape.tile.rows,
            splits,
            k_per_split,
        ]
        .map(u64::from),
        Kernel::Sliced { shape } => [4, shape.tile.rows, shape.tile.columns, 0].map(u64::from),
        Kernel::Halo { shape, unit, .. } => {
            [3, shape.tile.rows, shape.tile.columns, unit].map(u64::from)
        }
    });
}

fn of_mmvq(gpu: Gpu, plans: &mut Plans) {
    let wavefront = match gpu.processor.architecture() {
        Some(architecture) => architecture.unit().wavefront,
        None => 32,
    };
    let units = (gpu.compute_units, wavefront);
    for format in gguf::FORMATS {
        for rows in [1u32, 200, 2047, 2048, 8192, 128_256] {
            for columns in [256u32, 2048, 4096, 14_336] {
                for size in [1u32, 2, 4, 8] {
                    let thread_rows = mmvq::thread_rows(format.elements, size);
                    let pieces = columns / mmvq::BLOCK;
                    let threads = mmvq::row_threads(units, rows, thread_rows, pieces, size);
                    plans.add(&[thread_rows, threads].map(u64::from));
                }
            }
        }
    }
}

fn of_decode(gpu: Gpu, plans: &mut Plans) {
    for bytes in [2usize, 4] {
        for elements in [64u32, 80, 128, 256, 512] {
            for group in [1u32, 4, 8] {
                let kernel = decode::Kernel::of(gpu.processor, bytes, elements, group).unwrap();
                for others in [1u32, 8, 32, 256] {
                    for seen in [1u32, 16, 1000, 4096, 131_072] {
                        let splits = kernel.splits(gpu.compute_units, others, seen);
                        plans.add(&[kernel.elements, kernel.queries, splits].map(u64::from));
                    }
                }
            }
        }
    }
}

fn of_split_rows(gpu: Gpu, plans: &mut Plans) {
    for rows in [0u32, 1, 2, 16, 24, 48, 66, 152, 1024] {
        for elements in [1000u64, 32_768, 65_536, 100_003, 1 << 24] {
            for element_bytes in [2u64, 4, 8] {
                let row = Row {
                    elements,
                    element_bytes,
                    strided: false,
                };
                for reads_once in [false, true] {
                    let splits = split_rows::splits(rows, row, gpu.compute_units, reads_once);
                    plans.add(&[splits.map_or(0, u64::from)]);
                }
            }
        }
    }
}

#[test]
fn plans_are_the_recorded_ones() {
    let families: [fn(Gpu, &mut Plans); 6] = [
        of_convolution,
        gemm,
        of_grouped,
        of_mmvq,
        of_decode,
        of_split_rows,
    ];
    let (mut found, mut numbers) = (Vec::new(), 0);
    for ((family, recorded), of_family) in RECORDED.into_iter().zip(families) {
        let hashes = GPUS.map(|(name, compute_units)| {
            let mut plans = Plans(0xcbf2_9ce4_8422_2325, 0);
            let processor = Processor::of(name);
            let gpu = Gpu {
                processor,
                compute_units,
            };
            of_family(gpu, &mut plans);
            numbers += plans.1;
            plans.0
        });
        if hashes != recorded {
            let hashes = hashes.map(|hash| format!("{hash:#018x}")).join(", ");
            found.push(format!("    (\"{family}\", [{hashes}]),"));
        }
    }
    assert!(numbers > 100_000, "{numbers} numbers of plans");
    assert!(
        found.is_empty(),
        "other plans than those recorded; if that is meant, say in the commit which changed and why, and record\n{}",
        found.join("\n")
    );
}
