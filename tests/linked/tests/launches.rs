//! Kernels that linked C++ launches, on Candle's tensors and streams.

use std::ffi::{c_int, c_void, CStr};

use candle_core::cuda_backend::cudarc::driver::DevicePtr;
use candle_core::{Device, Result, Storage, Tensor};
use candle_rocm_backend::{runtime, RocmDeviceExt};
use candle_rocm_linked::*;
use half::f16;

fn device() -> Device {
    runtime::select(RUNTIME).expect("the runtime starts");
    Device::new_cuda(0).expect("it has a GPU")
}

/// Calls a launcher with a tensor's memory and the stream of its device.
fn launch<T: candle_core::cuda_backend::CudaDType>(
    tensor: &Tensor,
    launcher: impl FnOnce(*mut c_void, *mut c_void) -> c_int,
) -> c_int {
    let (storage, _) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        panic!("a tensor of the GPU");
    };
    let stream = storage.device.cuda_stream();
    let (memory, _guard) = storage.as_cuda_slice::<T>().unwrap().device_ptr(&stream);
    launcher(memory as *mut c_void, stream.cu_stream())
}

fn numbers(count: u16, device: &Device) -> Tensor {
    let numbers: Vec<f32> = (0..count).map(f32::from).collect();
    Tensor::new(numbers, device).unwrap()
}

#[test]
fn templates_and_variables() -> Result<()> {
    let device = device();
    // No multiple of a warp, nor of the block.
    let x = numbers(1001, &device);
    // SAFETY: 1001 floats, and a stream of the device.
    let error = launch::<f32>(&x, |x, stream| unsafe {
        launch_scale(x, 1001, 0, 9.0, 0.5, stream)
    });
    assert_eq!(error, 0);
    let expected: Vec<f32> = (0..1001u16).map(|x| f32::from(x) * 1.5).collect();
    assert_eq!(x.to_vec1::<f32>()?, expected);
    let x = numbers(50, &device).to_dtype(candle_core::DType::F16)?;
    // SAFETY: 50 halves, and a stream of the device.
    let error = launch::<f16>(&x, |x, stream| unsafe {
        launch_scale(x, 50, 1, 2.0, 9.0, stream)
    });
    assert_eq!(error, 0);
    let expected: Vec<f16> = (0..50u8)
        .map(|x| f16::from_f32(f32::from(x) * 4.0))
        .collect();
    assert_eq!(x.to_vec1::<f16>()?, expected);
    Ok(())
}

#[test]
fn kernels_of_one_name_in_two_files_between_candles_own() -> Result<()> {
    let device = device();
    // Candle's kernels before and after, in the order of its stream.
    let x = (numbers(70, &device) * 2.0)?;
    // SAFETY: 70 floats, and a stream of the device.
    let errors = launch::<f32>(&x, |x, stream| unsafe {
        launch_add(x, 70, stream) + launch_add_hundred(x, 70, stream)
    });
    assert_eq!(errors, 0);
    let y = (x * 0.5)?;
    let expected: Vec<f32> = (0..70u8).map(|x| f32::from(x) + 50.5).collect();
    assert_eq!(y.to_vec1::<f32>()?, expected);
    Ok(())
}

#[test]
fn dynamic_shared_memory_and_its_limit() -> Result<()> {
    let device = device();
    let x = numbers(200, &device);
    let reverse = |shared| {
        // SAFETY: 200 floats, and a stream of the device.
        launch::<f32>(&x, |x, stream| unsafe {
            launch_reverse(x, 200, shared, stream)
        })
    };
    assert_eq!(reverse(800), 0);
    let expected: Vec<f32> = (0..200u8).rev().map(f32::from).collect();
    assert_eq!(x.to_vec1::<f32>()?, expected);
    let error = reverse(1 << 20);
    assert_ne!(error, 0);
    // NVIDIA's CUDA runtime has its own words.
    if cfg!(feature = "nvidia") {
        return Ok(());
    }
    // SAFETY: the text is a C string that stays.
    let text = unsafe { CStr::from_ptr(error_text(error)) };
    let text = text.to_str().expect("UTF-8");
    assert!(
        text.contains("reverse") && text.contains("1048576 bytes of dynamic LDS"),
        "{text}"
    );
    Ok(())
}

#[test]
#[cfg_attr(feature = "nvidia", ignore = "some of NVIDIA's GPUs have clusters")]
fn blocks_in_clusters_are_not_there() -> Result<()> {
    let device = device();
    let x = numbers(100, &device);
    let add = |cluster| {
        // SAFETY: 100 floats, and a stream of the device.
        launch::<f32>(&x, |x, stream| unsafe {
            launch_add_in_clusters(x, 100, cluster, stream)
        })
    };
    assert_eq!(add(1), 0);
    let not_supported = 801;
    assert_eq!(add(2), not_supported);
    let expected: Vec<f32> = (1..101u8).map(f32::from).collect();
    assert_eq!(x.to_vec1::<f32>()?, expected);
    Ok(())
}

#[test]
#[cfg_attr(
    feature = "nvidia",
    ignore = "NVIDIA's CUDA runtime, which launches there, tells us nothing"
)]
fn an_error_that_nobody_asks_for_is_the_next_calls() -> Result<()> {
    let device = device();
    let x = numbers(4, &device);
    launch::<f32>(&x, |x, stream| {
        // SAFETY: it is refused; the stream is the device's.
        unsafe { launch_too_large(x, stream) };
        0
    });
    let error = x.to_vec1::<f32>().expect_err("the launch failed");
    let text = error.to_string();
    assert!(text.contains("reverse") && text.contains("2048"), "{text}");
    assert_eq!(x.to_vec1::<f32>()?, [0., 1., 2., 3.]);
    Ok(())
}

#[test]
fn streams_and_memory_of_its_own() {
    device();
    let mut sums = [0; 64];
    // SAFETY: 64 words.
    assert_eq!(unsafe { sums_of_lanes(sums.as_mut_ptr()) }, 0);
    let first: u32 = (0..32).sum();
    let second: u32 = (32..64).sum();
    assert_eq!(sums[..32], [first; 32]);
    assert_eq!(sums[32..], [second; 32]);
}

#[test]
fn facts_about_the_gpu_are_those_of_the_compiled_code() {
    let device = device();
    let mut known = [0; 5];
    // SAFETY: five numbers.
    assert_eq!(unsafe { facts(known.as_mut_ptr()) }, 0);
    let arch = &device.as_cuda_device().unwrap().info().arch;
    let capability = arch
        .strip_prefix("sm_")
        .map_or(80, |capability| capability.parse().expect("a number"));
    assert_eq!(known[..2], [32, capability]);
    assert!(
        known[2] >= 1024 && known[3] >= 256 && known[3] <= known[2],
        "{known:?}"
    );
    assert_eq!(known[4], 1);
}

/// The address of a tensor's memory.
fn address<T: candle_core::cuda_backend::CudaDType>(tensor: &Tensor) -> *mut c_void {
    let mut address = std::ptr::null_mut();
    launch::<T>(tensor, |memory, _| {
        address = memory;
        0
    });
    address
}

#[test]
fn algorithms_on_whole_arrays() -> Result<()> {
    let device = device();
    // More than the block that does the work has threads, and no multiple of them; and fewer than a warp.
    for count in [2500u16, 19] {
        let x = numbers(count, &device);
        let odd = Tensor::zeros(1, candle_core::DType::U32, &device)?;
        let places = Tensor::zeros(usize::from(count), candle_core::DType::U32, &device)?;
        let sums = x.zeros_like()?;
        let found = odd.zeros_like()?;
        let (odd_at, places_at) = (address::<u32>(&odd), address::<u32>(&places));
        let (sums_at, found_at) = (address::<f32>(&sums), address::<u32>(&found));
        // SAFETY: the arrays have as many values, and the stream is the device's.
        let error = launch::<f32>(&x, |x, stream| unsafe {
            odd_ones(
                x,
                count.into(),
                odd_at,
                sums_at,
                places_at,
                found_at,
                stream,
            )
        });
        assert_eq!(error, 0);
        let half = u32::from(count / 2);
        assert_eq!(odd.to_vec1::<u32>()?, [half]);
        assert_eq!(found.to_vec1::<u32>()?, [half]);
        let expected: Vec<u32> = (0..half).map(|i| 2 * i + 1).collect();
        assert_eq!(places.to_vec1::<u32>()?[..expected.len()], expected);
        let expected: Vec<f32> = (0..u32::from(count))
            .map(|i| (i * i.saturating_sub(1) / 2) as f32)
            .collect();
        assert_eq!(sums.to_vec1::<f32>()?, expected);
    }
    Ok(())
}

#[test]
fn runs_loaded_and_stored_by_blocks() -> Result<()> {
    let device = device();
    let x = numbers(200, &device);
    let out = x.zeros_like()?;
    let out_at = address::<f32>(&out);
    // SAFETY: both have 200 values, and the stream is the device's.
    let error = launch::<f32>(&x, |x, stream| unsafe {
        launch_mirror(x, out_at, 200, stream)
    });
    assert_eq!(error, 0);
    let expected: Vec<f32> = (0..200i16)
        .map(|i| match i / 3 * 3 + 2 - i % 3 {
            from if from < 200 => f32::from(from),
            _ => -1.0,
        })
        .collect();
    assert_eq!(out.to_vec1::<f32>()?, expected);
    Ok(())
}
