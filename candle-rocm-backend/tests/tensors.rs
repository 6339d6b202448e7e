//! Candle's tensors on the GPU, emulated by default, against the same on the CPU: that the whole stack holds together.
//! The operators one by one are the business of Candle's own tests.

use candle_core::{DType, Device, IndexOp, Result, Tensor, D};
use candle_rocm_backend::{devices, DeviceExt as _, RocmDeviceExt as _, RuntimeKind};

mod common;

fn device() -> Device {
    common::device().expect("there is a GPU")
}

/// Runs `f` on both devices and compares, in the scale of the largest element.
fn check(what: &str, tolerance: f64, f: impl Fn(&Device) -> Result<Tensor>) {
    let value = |device: &Device| -> Result<(Vec<usize>, Vec<f64>)> {
        let tensor = f(device)?;
        assert_eq!(tensor.device().is_rocm(), device.is_rocm(), "{what}");
        let values = tensor
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F64)?
            .flatten_all()?
            .to_vec1()?;
        Ok((tensor.dims().to_vec(), values))
    };
    let expected = value(&Device::Cpu).unwrap_or_else(|error| panic!("{what} on the CPU: {error}"));
    let actual = value(&device()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(actual.0, expected.0, "{what}");
    let scale = expected.1.iter().fold(1f64, |m, x| m.max(x.abs()));
    for (i, (a, e)) in actual.1.iter().zip(&expected.1).enumerate() {
        assert!(
            (a - e).abs() <= tolerance * scale,
            "{what}: element {i} is {a}, expected {e}"
        );
    }
}

/// Distinct numbers between -1 and 1.
fn numbers(shape: &[usize], device: &Device) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n)
        .map(|i| ((i * 7919 % 1009) as f32 / 504.5) - 1.0)
        .collect();
    Tensor::from_vec(values, shape, device)
}

// f32 results differ from the CPU's by the order of summing: some units of 2^-24 for sums of hundreds.
const F32: f64 = 1e-5;

#[test]
fn arithmetic_contiguous_and_strided() {
    check("add", F32, |d| {
        numbers(&[17, 33], d)? + numbers(&[17, 33], d)?
    });
    check("strided add", F32, |d| {
        numbers(&[33, 17], d)?.t()? + numbers(&[17, 33], d)?
    });
    check("broadcast", F32, |d| {
        numbers(&[5, 1, 7], d)?.broadcast_mul(&numbers(&[3, 1], d)?)
    });
    check("affine", F32, |d| numbers(&[1001], d)?.affine(2.5, -1.0));
    check("narrow and contiguous", 0.0, |d| {
        numbers(&[9, 11], d)?.i((2..8, 3..10))?.t()?.contiguous()
    });
}

#[test]
fn functions_and_reductions() {
    check("exp", F32, |d| numbers(&[777], d)?.exp());
    check("gelu", F32, |d| numbers(&[777], d)?.gelu());
    check("sum", F32, |d| numbers(&[13, 257], d)?.sum(1));
    check("max", 0.0, |d| numbers(&[257, 13], d)?.max(0));
    check("argmin", 0.0, |d| numbers(&[19, 64], d)?.argmin(1));
    check("softmax", F32, |d| {
        candle_nn::ops::softmax_last_dim(&numbers(&[7, 130], d)?)
    });
}

#[test]
fn products_of_matrices() {
    for (batch, m, n, k) in [
        (1, 1, 64, 64),
        (1, 5, 7, 3),
        (3, 33, 17, 65),
        (2, 64, 64, 64),
    ] {
        check(&format!("{batch} x {m} x {n} x {k}"), F32, |d| {
            numbers(&[batch, m, k], d)?.matmul(&numbers(&[batch, k, n], d)?)
        });
        check(&format!("transposed {batch} x {m} x {n} x {k}"), F32, |d| {
            numbers(&[batch, m, k], d)?.matmul(&numbers(&[batch, n, k], d)?.t()?)
        });
    }
    for (dtype, tolerance) in [(DType::F16, 2e-3), (DType::BF16, 2e-2), (DType::F64, 1e-12)] {
        check(&format!("{dtype:?}"), tolerance, |d| {
            let a = numbers(&[20, 40], d)?.to_dtype(dtype)?;
            let b = numbers(&[40, 30], d)?.to_dtype(dtype)?;
            a.matmul(&b)
        });
    }
}

#[test]
fn conversions_and_indexing() {
    for dtype in [
        DType::U8,
        DType::U32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F64,
    ] {
        check(&format!("to {dtype:?}"), 0.0, |d| {
            numbers(&[300], d)?
                .abs()?
                .affine(10.0, 0.0)?
                .to_dtype(dtype)
        });
    }
    check("index_select", 0.0, |d| {
        let ids = Tensor::new(&[4u32, 0, 4, 2], d)?;
        numbers(&[5, 9], d)?.index_select(&ids, 0)
    });
    check("where", 0.0, |d| {
        let condition = numbers(&[40], d)?.ge(0f32)?;
        condition.where_cond(&numbers(&[40], d)?, &Tensor::zeros(40, DType::F32, d)?)
    });
    check("cat", 0.0, |d| {
        Tensor::cat(&[numbers(&[3, 4], d)?, numbers(&[3, 5], d)?], D::Minus1)
    });
}

#[test]
fn empty_tensors() {
    check("empty add", 0.0, |d| {
        numbers(&[0, 3], d)? + numbers(&[0, 3], d)?
    });
    check("empty exp", 0.0, |d| numbers(&[0], d)?.exp());
    check("zeros of nothing", 0.0, |d| {
        Tensor::zeros((2, 0), DType::F32, d)
    });
}

#[test]
fn random_tensors_follow_the_seed() {
    let device = device();
    let draw = || -> Result<Vec<f32>> {
        device.set_seed(42)?;
        let uniform = Tensor::rand(0f32, 1., 1001, &device)?;
        let normal = Tensor::randn(3f32, 2., 1001, &device)?;
        Tensor::cat(&[uniform, normal], 0)?.to_vec1()
    };
    let first = draw().unwrap();
    assert_eq!(first, draw().unwrap());
    let mean = |x: &[f32]| x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
    // Four standard errors of the mean of 1001 numbers: 0.29 / 31.6 and 2 / 31.6 each.
    assert!((mean(&first[..1001]) - 0.5).abs() < 0.037);
    assert!((mean(&first[1001..]) - 3.0).abs() < 0.26);
    assert!(first[..1001].iter().all(|x| (0.0..=1.0).contains(x)));
}

#[test]
fn gradients_flow() {
    let loss_and_gradient = |d: &Device| -> Result<(f32, Vec<f32>)> {
        let w = candle_core::Var::from_tensor(&numbers(&[6, 4], d)?)?;
        let x = numbers(&[5, 6], d)?;
        let loss = x.matmul(&w)?.sqr()?.mean_all()?;
        let gradient = loss.backward()?.get(&w).cloned();
        let gradient = gradient.ok_or_else(|| candle_core::Error::msg("no gradient"))?;
        Ok((loss.to_scalar()?, gradient.flatten_all()?.to_vec1()?))
    };
    let (cpu, gpu) = (
        loss_and_gradient(&Device::Cpu).unwrap(),
        loss_and_gradient(&device()).unwrap(),
    );
    assert!((cpu.0 - gpu.0).abs() < 1e-5);
    for (a, b) in cpu.1.iter().zip(&gpu.1) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn the_device_describes_itself() {
    let device = device();
    assert!(device.is_rocm());
    let gpu = device.as_rocm_device().unwrap();
    let (kind, arch) = (gpu.runtime_kind(), &gpu.info().arch);
    let family = match kind {
        RuntimeKind::Nvidia => "sm_",
        _ => "gfx",
    };
    assert!(arch.starts_with(family), "{kind:?}: {arch}");
    assert_eq!(devices().unwrap()[0], gpu.info());
    let (free, total) = gpu.memory().unwrap();
    assert!(free <= total && total == gpu.info().total_memory);
    let before = gpu.pool_statistics().allocations;
    let tensor = Tensor::zeros(100, DType::F32, &device).unwrap();
    assert!(gpu.pool_statistics().allocations > before);
    gpu.release_cached_memory().unwrap();
    assert_eq!(tensor.to_vec1::<f32>().unwrap(), [0.0; 100]);
    assert!(Device::Cpu.as_rocm_device().is_err());
    assert!(!Device::Cpu.is_rocm());
}
