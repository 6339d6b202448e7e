//! What this release has no kernel for is an error that names it, never a result. Alone in its process: the
//! error waits in the device for the next call, whichever thread makes it.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{Device, Module as _, Result, Tensor};
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};

#[test]
fn a_missing_kernel_is_an_error_of_the_next_call() -> Result<()> {
    runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    let device = Device::new_rocm(0)?;
    let product = || -> Result<Vec<f32>> {
        let weight = Tensor::ones((32, 256), candle_core::DType::F32, &device)?;
        let weight = QTensor::quantize(&weight, GgmlDType::Q4_0)?;
        let input = Tensor::ones((1, 256), candle_core::DType::F32, &device)?;
        let product = QMatMul::from_qtensor(weight)?.forward(&input)?;
        product.flatten_all()?.to_vec1()
    };
    let error = product().expect_err("quantised products have no kernels in this release");
    assert!(
        error.to_string().contains("launch_mmvq_gguf_quantize_q8_1"),
        "{error}"
    );
    assert!(error.to_string().contains("not in this release"), "{error}");
    // The error was taken by the call that returned it: the device works on.
    assert_eq!(
        Tensor::ones(3, candle_core::DType::F32, &device)?.to_vec1::<f32>()?,
        [1.0; 3]
    );
    Ok(())
}
