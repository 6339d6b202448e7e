//! What docs/candle-host-bugs.md lists: the reason on CPU types, and what happens on the device.

use std::panic::{catch_unwind, AssertUnwindSafe};

use anyhow::Result;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Layout, Shape, Tensor};
use candle_rocm_tests::device;

/// One after the other: the second ends with a fault, after which a process cannot use its GPU.
#[test]
fn listed_bugs_are_as_listed() -> Result<()> {
    index_add_applies_a_start_offset_twice()?;
    embedding_does_not_check_ids()
}

/// `CudaStorage::index_add` makes an accumulator of the layout's shape, then takes its part at the layout's offsets.
fn index_add_applies_a_start_offset_twice() -> Result<()> {
    let layout = Layout::contiguous_with_offset(Shape::from((2, 3)), 3);
    let accumulator = layout.shape().elem_count();
    let (_, end) = layout
        .contiguous_offsets()
        .expect("the layout is contiguous");
    assert!(
        end > accumulator,
        "Candle was mended: take index_add off the list"
    );

    let gpu = device()?;
    let tensor = Tensor::zeros((3, 3), DType::F32, &gpu)?.narrow(0, 1, 2)?;
    let ids = Tensor::new(&[1u32], &gpu)?;
    let source = Tensor::ones((1, 3), DType::F32, &gpu)?;
    let added = catch_unwind(AssertUnwindSafe(|| tensor.index_add(&ids, &source, 0)));
    assert!(
        !matches!(added, Ok(Ok(_))),
        "Candle was mended: take index_add off the list"
    );
    // What to do instead, on the same device, which is as it was.
    let added = tensor.force_contiguous()?.index_add(&ids, &source, 0)?;
    assert_eq!(added.to_vec2::<f32>()?, [[0.0; 3], [1.0; 3]]);
    Ok(())
}

/// The device's `embedding` does not look at its ids; the CPU's does.
fn embedding_does_not_check_ids() -> Result<()> {
    let gpu = device()?;
    let full = Tensor::ones((2, 32), DType::F32, &Device::Cpu)?;
    let ids = [1u32, 1 << 20];
    let on_cpu = QTensor::quantize(&full, GgmlDType::Q8_0)?;
    let refused = on_cpu.embedding(&Tensor::new(&ids, &Device::Cpu)?);
    assert!(refused
        .expect_err("no such row")
        .to_string()
        .contains("out of range"));
    let on_gpu = QTensor::quantize_onto(&full, GgmlDType::Q8_0, &gpu)?;
    let rows = on_gpu
        .embedding(&Tensor::new(&ids, &gpu)?)
        .and_then(|rows| rows.to_vec2::<f32>());
    let error = rows.expect_err("the emulator sees the access").to_string();
    assert!(error.contains("get_rows_q8_0"), "{error}");
    Ok(())
}
