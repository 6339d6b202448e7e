//! Products as large as those whose times are published, on AMD's HIP with few of their workgroups executed
//! (`cargo xtask rocm --libraries`, which counts what they execute): what was written of the result is right.

mod common;

use std::sync::Arc;

use candle_rocm_runtime::gemm::{self, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{DeviceBuffer, DevicePtr, DevicePtrMut, Stream};
use candle_rocm_testing::random::Random;
use common::on_each_device;
use half::bf16;

const SIDE: usize = 4096;
/// Elements that are compared.
const COMPARED: usize = 500;
/// The product that is timed, `rows,columns,k`.
const TIMED_VARIABLE: &str = "CANDLE_ROCM_TEST_PRODUCT";

/// `C = A^T B` of `[m, n, k]` with columns one after the other: a linear layer's, both matrices have k together.
fn multiply(
    stream: &Arc<Stream>,
    [m, n, k]: [usize; 3],
    a: &DeviceBuffer<bf16>,
    b: &DeviceBuffer<bf16>,
) -> DeviceBuffer<bf16> {
    let mut product = stream.alloc_zeros::<bf16>(m * n).unwrap();
    {
        let (a, _a) = a.device_ptr(stream);
        let (b, _b) = b.device_ptr(stream);
        let (c, _c) = product.device_ptr_mut(stream);
        let ops = [Transpose::Yes, Transpose::No];
        let problem = GemmProblem::packed(GemmDtype::BF16, ops, [m, n, k], [a, b, c]);
        // SAFETY: the buffers hold the matrices, at these addresses.
        unsafe { gemm::gemm_strided_batched(stream, &problem) }.unwrap();
    }
    product
}

#[test]
#[ignore = "takes minutes with all workgroups: cargo xtask rocm --libraries"]
fn what_is_written_of_a_large_product_is_right() {
    on_each_device("what_is_written_of_a_large_product_is_right", |context| {
        let stream = context.default_stream();
        let mut random = Random::new(4096);
        let mut matrix = || -> Vec<bf16> {
            let values = (0..SIDE * SIDE).map(|_| bf16::from_f64(random.signed()));
            values.collect()
        };
        let (left, right) = (matrix(), matrix());
        let [a, b] = [&left, &right].map(|values| stream.clone_htod(values).unwrap());
        let c = multiply(&stream, [SIDE; 3], &a, &b);
        let found = stream.clone_dtoh(&c).unwrap();
        let written: Vec<usize> = (0..found.len())
            .filter(|at| found[*at] != bf16::ZERO)
            .collect();
        assert!(
            written.len() >= COMPARED,
            "only {} elements are not 0",
            written.len()
        );
        for at in written.iter().step_by(written.len() / COMPARED) {
            let (column, row) = (at / SIDE, at % SIDE);
            let terms = left[row * SIDE..][..SIDE]
                .iter()
                .zip(&right[column * SIDE..]);
            let (mut sum, mut size) = (0.0, 0.0);
            for (left, right) in terms {
                let term = left.to_f64() * right.to_f64();
                (sum, size) = (sum + term, size + term.abs());
            }
            let far = (found[*at].to_f64() - sum).abs();
            // Sums of f32 in any order, and half a unit of bf16's last place.
            let limit = sum.abs() / 256.0 + SIDE as f64 * f64::from(f32::EPSILON) * size;
            assert!(
                far <= limit,
                "element {row}, {column} is {}, not {sum}",
                found[*at]
            );
        }
        println!("{} of {} elements are written", written.len(), found.len());
    });
}

/// Launches the product that the environment names, of zeros: its time does not depend on what it multiplies, and most
/// of its workgroups are not executed.
#[test]
#[ignore = "is timed by what counts its launches: cargo xtask rocm --libraries"]
fn a_product_of_zeros_has_zeros() {
    on_each_device("a_product_of_zeros_has_zeros", |context| {
        let stream = context.default_stream();
        let sides = std::env::var(TIMED_VARIABLE).unwrap_or("256,128,64".to_owned());
        let sides: Vec<usize> = sides.split(',').map(|side| side.parse().unwrap()).collect();
        let [m, n, k] = sides[..] else {
            panic!("{TIMED_VARIABLE}={sides:?}: not rows, columns and k");
        };
        let [a, b] = [m, n].map(|lines| stream.alloc_zeros::<bf16>(lines * k).unwrap());
        let c = multiply(&stream, [m, n, k], &a, &b);
        let found = stream.clone_dtoh(&c).unwrap();
        assert!(found.iter().all(|value| *value == bf16::ZERO));
    });
}
