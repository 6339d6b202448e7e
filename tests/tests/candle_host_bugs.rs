//! What docs/candle-host-bugs.md lists: the reason on CPU types, and what happens on the device.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Layout, Shape, Tensor};
use candle_rocm_tests::device;

/// One after the other: the last ends with a fault, after which a process cannot use its GPU.
#[test]
fn listed_bugs_are_as_listed() -> Result<()> {
    index_add_applies_a_start_offset_twice()?;
    conv1d_reads_weights_as_if_they_were_contiguous()?;
    gather_takes_the_sizes_after_the_dimension_from_the_source()?;
    reductions_divide_by_the_number_of_results()?;
    argument_sort_divides_by_the_number_of_columns()?;
    the_cpus_batched_product_mixes_up_rows()?;
    the_cpus_mean_of_integers_is_zero()?;
    the_cpus_resizing_to_the_same_size_ignores_the_layout()?;
    embedding_does_not_check_ids()
}

fn numbered(shape: impl Into<Shape>, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let count = shape.elem_count() as u32;
    Ok(Tensor::arange(0, count, device)?
        .to_dtype(DType::F32)?
        .reshape(shape)?)
}

/// What the device computes or says, be it by a panic.
fn outcome<T>(operator: impl FnOnce() -> candle_core::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(operator)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(match panic.downcast_ref::<&str>() {
            Some(text) => text.to_string(),
            None => format!("{:?}", panic.downcast_ref::<String>()),
        }),
    }
}

/// `CudaStorage::conv1d`, and the CPU's, copy weights that are not contiguous, then multiply by the original.
fn conv1d_reads_weights_as_if_they_were_contiguous() -> Result<()> {
    let gpu = device()?;
    let sums = |device: &Device, copy: bool| -> Result<Vec<f32>> {
        let images = numbered((1, 2, 2), device)?;
        let mut weights = numbered((2, 2, 1), device)?.transpose(0, 1)?;
        if copy {
            weights = weights.contiguous()?;
        }
        Ok(images
            .conv1d(&weights, 0, 1, 1, 1)?
            .flatten_all()?
            .to_vec1()?)
    };
    let right = [4.0, 6.0, 6.0, 10.0];
    for device in [Device::Cpu, gpu] {
        assert_eq!(sums(&device, true)?, right);
        // With the weights 0 1 2 3 in place of 0 2 1 3.
        assert_eq!(
            sums(&device, false)?,
            [2.0, 3.0, 6.0, 11.0],
            "Candle was mended: take conv1d off the list"
        );
    }
    Ok(())
}

/// `cuda_backend::Gather` passes the kernel the source's sizes after the dimension, where the indices' may be smaller.
fn gather_takes_the_sizes_after_the_dimension_from_the_source() -> Result<()> {
    let gpu = device()?;
    let gathered = |device: &Device| -> Result<Vec<Vec<f32>>> {
        let ids = Tensor::new(&[[0u32, 1], [1, 0]], device)?;
        Ok(numbered((2, 3), device)?.gather(&ids, 0)?.to_vec2()?)
    };
    assert_eq!(gathered(&Device::Cpu)?, [[0.0, 4.0], [3.0, 1.0]]);
    assert_eq!(
        gathered(&gpu)?,
        [[0.0, 4.0], [5.0, 0.0]],
        "Candle was mended: take gather off the list"
    );
    Ok(())
}

/// `cuda_backend::FastReduce` divides the number of elements by the number of results, which may be zero.
fn reductions_divide_by_the_number_of_results() -> Result<()> {
    let on_cpu = Tensor::zeros((0, 3), DType::F32, &Device::Cpu)?.sum(1)?;
    assert_eq!(on_cpu.dims(), [0]);
    let empty = Tensor::zeros((0, 3), DType::F32, &device()?)?;
    let error = outcome(|| empty.sum(1)).expect_err("Candle was mended: take sum off the list");
    assert!(error.contains("divide by zero"), "{error}");
    Ok(())
}

/// `sort::ArgSort` divides the number of elements by the number of columns.
fn argument_sort_divides_by_the_number_of_columns() -> Result<()> {
    let empty = Tensor::zeros((3, 0), DType::F32, &device()?)?;
    let error = outcome(|| empty.arg_sort_last_dim(true))
        .expect_err("Candle was mended: take arg_sort_last_dim off the list");
    assert!(error.contains("divide by zero"), "{error}");
    Ok(())
}

/// The CPU's product of a batch of transposed matrices with one matrix takes the batch for more rows. The device, which
/// the convolution reaches with the same layouts, is right.
fn the_cpus_batched_product_mixes_up_rows() -> Result<()> {
    let one_by_one = |device: &Device, from: usize, count: usize| -> Result<Vec<f32>> {
        let images = numbered((2, 2, 3), device)?.narrow(0, from, count)?;
        let weights = numbered((2, 1, 1), device)?;
        let sums = images.conv_transpose1d(&weights, 0, 0, 1, 1, 1)?;
        Ok(sums.flatten_all()?.to_vec1()?)
    };
    let cpu = &Device::Cpu;
    let right = [one_by_one(cpu, 0, 1)?, one_by_one(cpu, 1, 1)?].concat();
    assert_eq!(right, [3.0, 4.0, 5.0, 9.0, 10.0, 11.0]);
    assert_eq!(one_by_one(&device()?, 0, 2)?, right);
    assert_ne!(
        one_by_one(cpu, 0, 2)?,
        right,
        "Candle was mended: take conv_transpose1d off the list"
    );
    Ok(())
}

/// The CPU multiplies a window's sum by 1 / area as an integer.
fn the_cpus_mean_of_integers_is_zero() -> Result<()> {
    let mean = |device: &Device| -> Result<Vec<u32>> {
        let images = Tensor::new(&[3u32, 5, 6, 11], device)?.reshape((1, 1, 2, 2))?;
        Ok(images.avg_pool2d(2)?.flatten_all()?.to_vec1()?)
    };
    assert_eq!(mean(&device()?)?, [6]);
    assert_eq!(
        mean(&Device::Cpu)?,
        [0],
        "Candle was mended: take avg_pool2d off the list"
    );
    Ok(())
}

/// The CPU's `upsample_bilinear2d` to the size that is there returns the storage as it lies.
fn the_cpus_resizing_to_the_same_size_ignores_the_layout() -> Result<()> {
    let resized = |device: &Device| -> Result<Vec<f32>> {
        let turned = numbered((1, 1, 2, 2), device)?.transpose(2, 3)?;
        Ok(turned
            .upsample_bilinear2d(2, 2, false)?
            .flatten_all()?
            .to_vec1()?)
    };
    assert_eq!(resized(&device()?)?, [0.0, 2.0, 1.0, 3.0]);
    assert_eq!(
        resized(&Device::Cpu)?,
        [0.0, 1.0, 2.0, 3.0],
        "Candle was mended: take upsample_bilinear2d off the list"
    );
    Ok(())
}

#[test]
#[ignore = "does not end: a_conversion_that_does_not_end runs it in a process of its own"]
fn float_of_an_eight_bit_float() {
    use candle_core::WithDType;
    let one = std::hint::black_box(float8::F8E4M3::from_bits(0x38));
    println!("{}", WithDType::to_f64(one));
}

/// `<F8E4M3 as WithDType>::to_f64` calls itself: its body `v.to_f64()` means the trait's method, not float8's.
#[test]
fn a_conversion_that_does_not_end() -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "float_of_an_eight_bit_float", "--ignored"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // The test itself would take microseconds.
    std::thread::sleep(Duration::from_secs(2));
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    // Or it ends by overflowing the stack, if the compiler makes no loop of it.
    let returned = ended.is_some_and(|status| status.success());
    assert!(!returned, "Candle was mended: take F8E4M3 off the list");
    Ok(())
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
    let added = outcome(|| tensor.index_add(&ids, &source, 0));
    assert!(
        added.is_err(),
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
