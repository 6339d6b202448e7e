//! Predicted times: a copy beside a published one, and what cannot be faster than it.

use candle_rocm_kernel_report::attention;
use candle_rocm_kernel_report::device::{Device, Kept};
use candle_rocm_kernel_report::products::{Gpus, Shape, TN};
use candle_rocm_kernel_report::rows::{self, COPY, ELEMENT_KERNELS, ROW_KERNELS};
use candle_rocm_kernel_report::scaled;
use candle_rocm_kernels::attention::Pass;
use candle_rocm_kernels::grouped::TILES;
use candle_rocm_runtime::gemm::GemmDtype;
use candle_rocm_testing::needs;
use rocm_emulator::isa::Target;

/// 10^9 bytes a second that a copy was measured to move: RRZE-HPC/gpu-benches, gpu-stream, kernel scale with all
/// work-items, on an MI300X and an MI210.
const COPIES: [(&str, f64); 2] = [("gfx942", 3997.0), ("gfx90a", 1362.0)];

fn devices() -> impl Iterator<Item = (Device, f64)> {
    let served = |(arch, _): &(&str, f64)| needs::serves(arch, candle_rocm_kernels::serves);
    let copies = COPIES.into_iter().filter(served);
    copies.map(|(arch, rate)| {
        let target = arch.parse().expect("the emulator knows it");
        (Device::new(target), rate)
    })
}

/// Within 10 %, which is what the model claims for copies.
#[test]
fn our_copy_is_as_fast_as_published_ones() {
    for (mut device, published) in devices() {
        let timed = rows::time_elements(&mut device, COPY).expect("it runs");
        let ratio = timed.gigabytes_per_second() / published;
        assert!((0.9..1.1).contains(&ratio), "{}: {ratio}", device.target);
    }
}

/// Kernels that move each byte once take no less time than memory does for them. (On gfx90a, all of which is played back,
/// this alone would take a minute.)
#[test]
fn nothing_is_faster_than_memory() {
    for (mut device, _) in devices().filter(|(device, _)| device.target == Target::Gfx942) {
        let target = device.target;
        let peak = f64::from(target.timing().expect("timed").memory.gigabytes_per_second);
        let exp = rows::time_elements(&mut device, ELEMENT_KERNELS[0]).expect("it runs");
        let softmax = rows::time_rows(&mut device, ROW_KERNELS[0], 1024).expect("it runs");
        let times = [exp, softmax];
        for timed in times {
            let share = timed.gigabytes_per_second() / peak;
            assert!((0.5..=1.0).contains(&share), "{target}: {share}");
        }
    }
}

#[test]
fn gpus_without_a_model_say_so() {
    let mut device = Device::new("gfx1101".parse().expect("the emulator knows it"));
    if needs::serves("gfx1101", candle_rocm_kernels::serves) {
        let refused = rows::time_elements(&mut device, COPY).expect_err("no model");
        let text = format!("{refused:#}");
        assert!(
            text.contains("no latencies and bandwidths of gfx1101"),
            "{text}"
        );
    }
}

/// What two slices of k tell of a product is what playing back all of it tells, within 5 %.
#[test]
fn slices_tell_the_time_of_a_whole_product() {
    const ARCH: &str = "gfx1151";
    if !needs::serves(ARCH, candle_rocm_kernels::serves) {
        return;
    }
    let gpus = Gpus::start(&[ARCH.to_owned()]).expect("the emulator starts");
    let shape = Shape::new(GemmDtype::F16, [2048, 2048, 1024], TN);
    let repeated = Kept {
        operands: true,
        code: false,
    };
    let whole = gpus.time_whole(ARCH, &shape, repeated).expect("it runs");
    let slices = gpus
        .time_by_slices(ARCH, &shape, repeated)
        .expect("it runs");
    let [(_, whole), (kernel, slices)] = [whole, slices].map(|timed| timed.expect("a kernel"));
    let ratio = slices.microseconds / whole.microseconds;
    assert!((0.95..=1.05).contains(&ratio), "{kernel}: {ratio}");
    assert!(slices.matrix <= 1.0, "{kernel}: {}", slices.matrix);
}

/// FP8, 4,096 tokens by 2,112 x 7,168, by the kernel for the shape: the matrix unit of the busiest SIMD works for two thirds
/// of the whole launch, operands in memory, what scales and the launch's beginning and end included.
#[test]
fn scaled_products_keep_the_matrix_unit_busy() {
    if !needs::serves("gfx942", candle_rocm_kernels::serves) {
        return;
    }
    let mut device = Device::new(Target::Gfx942);
    let shape = scaled::Shape {
        m: 2112,
        n: 4096,
        k: 7168,
        tile: TILES[0],
        transposed: [true, false],
        is_special: true,
    };
    let (kernel, time) = scaled::time(&mut device, &shape).expect("it runs");
    assert!(time.matrix >= 0.67, "{kernel}: {}", time.matrix);
}

/// bf16, 16 heads of 128, 4,096 queries and keys, nothing hidden: no slower than what aiter publishes at least for an
/// MI300X, forward and for gradients, whose two kernels' time is for five products.
#[test]
fn attention_is_as_fast_as_published() {
    if !needs::serves("gfx942", candle_rocm_kernels::serves) {
        return;
    }
    let mut device = Device::new(Target::Gfx942);
    let shape = |pass| attention::Shape {
        pass,
        dtype: "bf16",
        elements: 128,
        heads: 16,
        queries: 4096,
        keys: 4096,
        causal: false,
    };
    let mut microseconds = |pass| {
        let timed = attention::time(&mut device, &shape(pass)).expect("it runs");
        timed.1.microseconds
    };
    let product = shape(Pass::Forward).flop() / 2.0;
    let forward = 2.0 * product / microseconds(Pass::Forward) / 1e6;
    assert!(forward >= 513.0, "forward: {forward} TFLOP/s");
    let both = microseconds(Pass::BackwardKeys) + microseconds(Pass::BackwardQueries);
    let gradients = 5.0 * product / both / 1e6;
    assert!(gradients >= 490.0, "gradients: {gradients} TFLOP/s");
}
