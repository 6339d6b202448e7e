//! One product as large as those whose times are published, on AMD's HIP with few of its workgroups executed
//! (`cargo xtask rocm --libraries`, which counts what they execute): what they wrote of the result is right.

mod common;

use candle_rocm_runtime::gemm::{self, GemmDtype, GemmProblem, Transpose};
use candle_rocm_runtime::{DevicePtr, DevicePtrMut};
use candle_rocm_testing::random::Random;
use common::on_each_device;
use half::bf16;

const SIDE: usize = 4096;
/// Elements that are compared.
const COMPARED: usize = 500;

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
        let mut c = stream.alloc_zeros::<bf16>(SIDE * SIDE).unwrap();
        {
            let (a, _a) = a.device_ptr(&stream);
            let (b, _b) = b.device_ptr(&stream);
            let (c, _c) = c.device_ptr_mut(&stream);
            // A linear layer's: both matrices have k together.
            let problem = GemmProblem {
                transa: Transpose::Yes,
                transb: Transpose::No,
                m: SIDE,
                n: SIDE,
                k: SIDE,
                alpha: 1.0,
                a,
                lda: SIDE,
                stride_a: 0,
                b,
                ldb: SIDE,
                stride_b: 0,
                beta: 0.0,
                c,
                ldc: SIDE,
                stride_c: 0,
                batch: 1,
                dtype: GemmDtype::BF16,
                compute: GemmDtype::BF16.compute(),
            };
            // SAFETY: the buffers hold the matrices, at these addresses.
            unsafe { gemm::gemm_strided_batched(&stream, &problem) }.unwrap();
        }
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
