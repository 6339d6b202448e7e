//! The C functions of candle-kernels return nothing: what goes wrong in one is the error of the next call, and
//! names the function, the argument, and what it must be. Alone in its process: the error waits in the device for
//! the next call, whichever thread makes it.

mod common;

use candle_core::cuda_backend::kernels::ffi;
use candle_core::{DType, Device, Result, Tensor};
use common::device;
use std::ptr::{null, null_mut};

/// The error that waits, after which the device works on.
fn waiting_error(device: &Device) -> Result<String> {
    let error = Tensor::ones(3, DType::F32, device)
        .and_then(|ones| ones.to_vec1::<f32>())
        .expect_err("the last call failed");
    assert_eq!(
        Tensor::ones(3, DType::F32, device)?.to_vec1::<f32>()?,
        [1.0; 3]
    );
    Ok(error.to_string())
}

#[test]
fn a_mistake_is_the_error_of_the_next_call() -> Result<()> {
    let device = device()?;
    // What an error must mention, and the call. No pointer is followed: each call is refused.
    #[allow(clippy::type_complexity)]
    let mistakes: [(&[&str], &dyn Fn()); 8] = [
        (
            &["launch_mmvq_gguf_q4_0_f32_plain", "ncols_x", "33", "32"],
            // SAFETY: refused before a pointer is used.
            &|| unsafe {
                ffi::launch_mmvq_gguf_q4_0_f32_plain(
                    null(),
                    null(),
                    null_mut(),
                    33,
                    1,
                    2,
                    1,
                    1,
                    null_mut(),
                )
            },
        ),
        (
            &["launch_mmvq_gguf_q6_k_bf16_plain", "b_size", "9"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmvq_gguf_q6_k_bf16_plain(
                    null(),
                    null(),
                    null_mut(),
                    256,
                    1,
                    16,
                    1,
                    9,
                    null_mut(),
                )
            },
        ),
        (
            &["launch_mmvq_gguf_q8_0_f16_plain", "nrows_x", "-1"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmvq_gguf_q8_0_f16_plain(
                    null(),
                    null(),
                    null_mut(),
                    32,
                    -1,
                    1,
                    1,
                    1,
                    null_mut(),
                )
            },
        ),
        (
            &[
                "launch_mmvq_gguf_q4_1_f32_plain",
                "stride_col_dst",
                "4",
                "5",
            ],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmvq_gguf_q4_1_f32_plain(
                    null(),
                    null(),
                    null_mut(),
                    32,
                    5,
                    1,
                    4,
                    2,
                    null_mut(),
                )
            },
        ),
        (
            &["launch_mmvq_gguf_q5_1_f32_plain", "vx", "null"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmvq_gguf_q5_1_f32_plain(
                    null(),
                    null(),
                    null_mut(),
                    32,
                    1,
                    1,
                    1,
                    1,
                    null_mut(),
                )
            },
        ),
        (
            &["launch_mmvq_gguf_quantize_q8_1_f16", "kx_padded", "31"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmvq_gguf_quantize_q8_1_f16(null(), null_mut(), 31, 31, 1, null_mut())
            },
        ),
        (
            &["launch_mmq_gguf_q4_k", "ncols_x", "128", "256"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmq_gguf_q4_k(
                    null_mut(),
                    null(),
                    null(),
                    null_mut(),
                    128,
                    1,
                    9,
                    1,
                    1,
                    0,
                    0,
                    0,
                    0,
                    null_mut(),
                )
            },
        ),
        (
            &["launch_mmq_quantize_q8_1_D4", "ne0", "100"],
            // SAFETY: as above.
            &|| unsafe {
                ffi::launch_mmq_quantize_q8_1_D4(
                    null(),
                    null(),
                    null_mut(),
                    0,
                    128,
                    128,
                    0,
                    0,
                    100,
                    1,
                    1,
                    1,
                    null_mut(),
                )
            },
        ),
    ];
    for (parts, call) in mistakes {
        call();
        let error = waiting_error(&device)?;
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
    Ok(())
}
