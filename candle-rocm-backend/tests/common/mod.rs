//! What the tests share: the device, reproducible numbers, quantised weights, and what is compared in f64.
#![allow(dead_code)] // each test file uses its own part

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};

/// The GPU of the runtime that `CANDLE_ROCM_RUNTIME` names, or else the emulated one.
pub fn device() -> Result<Device> {
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none() {
        runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    }
    Device::new_rocm(0)
}

/// A tensor's elements, in order.
pub fn numbers(x: &Tensor) -> Result<Vec<f64>> {
    x.to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1()
}

/// Within `tolerance` of the expected number or of `scale`, whichever is larger.
pub fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, scale: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs().max(scale),
            "{what}: element {at} is {found}, expected {expected}"
        );
    }
}

/// Numbers near a normal distribution, the same in every run.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn uniform(&mut self) -> f32 {
        // Constants of Knuth's MMIX generator; the upper bits are good enough here.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Sums of four uniform numbers, variance 1.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        (0..count)
            .map(|_| ((0..4).map(|_| self.uniform()).sum::<f32>() - 2.0) * 3f32.sqrt())
            .collect()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.uniform() * limit as f32) as usize).min(limit - 1)
    }
}

/// A quantised matrix on the device and, from Candle's CPU backend, the values that it stands for.
pub struct Weights {
    pub quantized: QTensor,
    pub values: Vec<f32>,
    pub rows: usize,
    pub columns: usize,
}

impl Weights {
    pub fn new(dtype: GgmlDType, rows: usize, columns: usize, device: &Device) -> Result<Self> {
        let mut numbers = Numbers::new((rows * 31 + columns) as u64);
        let full = Tensor::from_vec(
            numbers.normal(rows * columns),
            (rows, columns),
            &Device::Cpu,
        )?;
        let quantized = QTensor::quantize(&full, dtype)?;
        let values = quantized
            .dequantize(&Device::Cpu)?
            .flatten_all()?
            .to_vec1()?;
        Ok(Self {
            quantized: QTensor::quantize_onto(&full, dtype, device)?,
            values,
            rows,
            columns,
        })
    }

    /// The row's numbers.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..][..self.columns]
    }
}

/// The product of two vectors in f64.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| f64::from(a) * f64::from(b))
        .sum()
}
