//! What the tests share: the device, reproducible numbers, quantised weights, and what is compared in f64.
#![allow(dead_code)] // each test file uses its own part

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::{runtime, DeviceExt as _, RuntimeKind};
pub use candle_rocm_testing::random::Random;

/// All that Candle's tensors have on a GPU.
pub const DTYPES: [DType; 10] = [
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

/// The GPU of the runtime that `CANDLE_ROCM_RUNTIME` names, or else the emulated one.
pub fn device() -> Result<Device> {
    if std::env::var_os("CANDLE_ROCM_RUNTIME").is_none() {
        runtime::select(RuntimeKind::Emulator).expect("the emulator starts");
    }
    Device::new_rocm(0)
}

/// A tensor's elements, in order.
pub fn numbers(x: &Tensor) -> Result<Vec<f64>> {
    let mut x = x.to_device(&Device::Cpu)?;
    if x.dtype() == DType::F8E4M3 {
        // Candle's own conversion of these to f64 does not end (docs/user/candle-host-bugs.md).
        x = x.to_dtype(DType::F32)?;
    }
    x.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// Numbers near a normal distribution of variance 1.
pub fn normal(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.normal() as f32).collect()
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
        let mut random = Random::new((rows * 31 + columns) as u64);
        let full = normal(&mut random, rows * columns);
        let full = Tensor::from_vec(full, (rows, columns), &Device::Cpu)?;
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
