//! The figures that the page claims, held on every embedded architecture of the report.

use std::sync::OnceLock;

use candle_rocm_kernel_report::device::{Device, Kept};
use candle_rocm_kernel_report::kernels::Kernels;
use candle_rocm_kernel_report::page::{self, Claim, ARCHITECTURES, LARGE, SLICE};
use candle_rocm_kernel_report::products::{Gpus, Shape, OPERATIONS, TN};
use candle_rocm_kernel_report::rows::{self, ROW_KERNELS};
use candle_rocm_kernels::GEMM;
use candle_rocm_runtime::gemm::GemmDtype;
use candle_rocm_testing::needs;

/// Those that the build embeds.
fn archs() -> Vec<String> {
    let archs = ARCHITECTURES.into_iter();
    let archs = archs.filter(|arch| needs::serves(arch, candle_rocm_kernels::serves));
    archs.map(str::to_owned).collect()
}

fn gpus() -> &'static Gpus {
    static GPUS: OnceLock<Gpus> = OnceLock::new();
    GPUS.get_or_init(|| Gpus::start(&archs()).expect("the emulator starts"))
}

fn device(arch: &str) -> Device {
    Device::new(arch.parse().expect("the emulator knows it"))
}

/// Least wavefronts on a SIMD and least fill of the loop as executed, with both matrices along k, and with any other
/// operations, nearly as reached. On MI200 and MI300 a thread chooses what it writes to LDS of two vectors, which takes 32
/// instructions of a K-block that whole lines are read for; they stand among matrix instructions, which the fill leaves
/// out (`large_products_keep_the_matrix_unit_busy` has what comes of it). gfx1030 has dot products instead of matrix
/// instructions, and for bf16 not even those.
const FLOORS: [(&str, u64, [f64; 2]); 5] = [
    ("gfx942", 2, [0.86, 0.85]),
    ("gfx90a", 2, [0.85, 0.80]),
    ("gfx1100", 4, [0.92, 0.90]),
    ("gfx1201", 4, [0.88, 0.84]),
    ("gfx1030", 4, [0.75, 0.75]),
];

/// Rows and columns of C that are computed of them: whole tiles of 64, 128, 224 and 256.
const CORNER: usize = 1792;

/// bf16 4096 x 4096 x 4096 with all operations: no spill, enough wavefronts, a loop full of arithmetic and without bank
/// conflicts, each operand read once for each tile.
#[test]
fn large_products_are_what_the_page_claims() {
    let of_each = |arch: String| OPERATIONS.map(|ops| (arch.clone(), ops));
    for (arch, ops) in archs().into_iter().flat_map(of_each) {
        let shape = page::claimed(ops).cornered(CORNER);
        let Claim { report, executed } = page::claim(gpus(), &arch, &shape).expect("it runs");
        assert_eq!(report.spills(), 0, "{arch}: {}", executed.kernel);
        assert_eq!(report.kernel.private_segment_fixed_size, 0, "{arch}");
        let in_loop = executed.in_loop.expect("a loop");
        assert_eq!(
            in_loop.total.lds_conflicts, 0,
            "{arch}: {}",
            executed.kernel
        );
        assert!(in_loop.total.lds_cycles > 0, "{arch}: {}", executed.kernel);
        let (_, waves, fill) = FLOORS
            .iter()
            .find(|(name, ..)| *name == arch)
            .expect("a floor for each architecture");
        assert!(
            report.waves >= *waves,
            "{arch}: {} wavefronts",
            report.waves
        );
        let fill = fill[usize::from(ops != TN)];
        assert!(
            in_loop.fill.all >= fill,
            "{arch}: {}: a fill of {}",
            executed.kernel,
            in_loop.fill.all
        );
        let ratio = executed.bytes as f64 / executed.least_bytes as f64;
        assert!(
            (1.0..=1.1).contains(&ratio),
            "{arch}: bytes {ratio} of the least"
        );
    }
}

/// bf16 4096 x 4096 x 4096 on gfx942 by the clock: the matrix unit of the busiest SIMD works for so much of the whole
/// launch; whole lines, each touched once in the loop. (The first, `tn`, gave 0.6 % for loads that are 1,000 cycles ahead in the
/// loop of three blocks of rows, too; tests/distances.rs holds those.)
#[test]
fn large_products_keep_the_matrix_unit_busy() {
    const FLOORS: [f64; 4] = [0.875, 0.87, 0.87, 0.85];
    if !archs().iter().any(|arch| arch == "gfx942") {
        return;
    }
    let mut kernels = Kernels::new("gfx942");
    for (ops, floor) in OPERATIONS.into_iter().zip(FLOORS) {
        let shape = Shape::new(GemmDtype::BF16, LARGE, ops);
        let repeated = Kept {
            operands: true,
            code: false,
        };
        let times = gpus().time("gfx942", &shape, repeated).expect("it runs");
        let [time] = &times.expect("a kernel")[..] else {
            panic!("k in parts");
        };
        let kernel = &time.kernel.name;
        let matrix = time.time.as_ref().expect("a model of it").matrix;
        assert!(matrix >= floor, "{kernel}: {matrix}");
        let found = gpus().run(
            "gfx942",
            &mut kernels,
            &shape.sliced(SLICE).cornered(CORNER),
        );
        let in_loop = found.expect("it runs").expect("a kernel").in_loop;
        let total = in_loop.expect("a loop").total;
        assert_eq!(total.lines, total.least_lines, "{kernel}");
    }
}

/// No type's operands have bank conflicts on matrix units, whichever way they come to LDS.
#[test]
fn matrix_units_read_and_write_lds_without_conflicts() {
    for arch in archs() {
        let mut kernels = Kernels::new(&arch);
        for dtype in GemmDtype::ALL {
            for ops in OPERATIONS {
                let shape = Shape::new(dtype, [256, 256, 256], ops);
                let found = gpus().run(&arch, &mut kernels, &shape).expect("it runs");
                let found = found.expect("a kernel for each type");
                if !found.kernel.starts_with("matmul_") {
                    continue;
                }
                let in_loop = found.in_loop.expect("a loop").total;
                assert!(in_loop.lds_cycles > 0, "{arch}: {}", found.kernel);
                assert_eq!(in_loop.lds_conflicts, 0, "{arch}: {}", found.kernel);
            }
        }
    }
}

/// Rows of a tall f16 matrix go through the GPU once, without bank conflicts, in whole lines.
#[test]
fn rows_are_read_and_written_once() {
    for arch in archs() {
        let mut device = device(&arch);
        for kernel in ROW_KERNELS {
            for columns in [1024, 8192, 16384] {
                let found = rows::run_rows(&mut device, kernel, columns).expect("it runs");
                let name = format!("{arch}: {}_f16 of {columns}", kernel.name);
                assert_eq!(found.bytes, found.least_bytes, "{name}");
                assert_eq!(found.total.lines, found.total.least_lines, "{name}");
                assert_eq!(found.total.lds_conflicts, 0, "{name}");
            }
        }
    }
}

/// Contiguous elementwise kernels move each byte once, in whole lines.
#[test]
fn elementwise_kernels_are_coalesced() {
    for arch in archs() {
        let mut device = device(&arch);
        for kernel in rows::ELEMENT_KERNELS {
            let found = rows::run_elements(&mut device, kernel).expect("it runs");
            let name = format!("{arch}: {}", kernel.name);
            if kernel.turned {
                // What the lanes need of the shape, and no more.
                assert!(found.bytes < found.least_bytes * 2, "{name}");
            } else {
                assert_eq!(found.bytes, found.least_bytes, "{name}");
                assert_eq!(found.total.lines, found.total.least_lines, "{name}");
            }
        }
    }
}

/// f32 by the vector units of RDNA 3 and 4: of a K-block's multiply-adds, 128 or 64 for each of 16 elements of k, nearly all
/// issue in pairs, as reached, and nothing spills.
#[test]
fn multiply_adds_of_f32_issue_in_pairs() {
    const LEAST: [(&str, usize); 2] = [("128x128", 990), ("64x64", 480)];
    let pairing = |arch: &String| ["gfx1100", "gfx1201"].contains(&arch.as_str());
    for arch in archs().iter().filter(|arch| pairing(arch)) {
        let mut kernels = Kernels::new(arch);
        for (tile, least) in LEAST {
            for ops in ["nn", "nt", "tn", "tt"] {
                let name = format!("gemm_f32_{tile}_{ops}");
                let report = kernels.report(&GEMM, &name).expect("it is embedded");
                let lines = report.listing.lines.iter();
                let pairs = lines.filter(|line| line.name == "v_dual_fmac_f32").count();
                assert!(pairs >= least, "{arch} {name}: {pairs} pairs");
                assert_eq!(report.spills(), 0, "{arch} {name}");
            }
        }
    }
}
