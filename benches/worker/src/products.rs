//! Products of matrices, plain and quantised.

use std::cell::Cell;

use anyhow::{Context, Result};
use candle_core::quantized::ggml_file::qtensor_from_ggml;
use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use candle_rocm_bench_protocol::{Case, Settings};

use crate::data::Range;
use crate::gpu::Gpu;
use crate::operator::{Maker, Operator};

/// `(batch,) m x k` by `(batch,) k x n`; the dimensions of the case are `[batch, m, n, k]`.
pub fn matmul(m: &Maker) -> Result<Operator> {
    let [batch, rows, columns, depth] = m.dims()?;
    product(m, &[batch, rows, depth], &[batch, depth, columns], |x| {
        x[0].matmul(&x[1])
    })
}

/// As [`matmul`], with the second matrix stored as `n x k`.
pub fn linear(m: &Maker) -> Result<Operator> {
    let [batch, rows, columns, depth] = m.dims()?;
    product(m, &[batch, rows, depth], &[batch, columns, depth], |x| {
        x[0].matmul(&x[1].t()?)
    })
}

fn product(
    m: &Maker,
    left: &[usize; 3],
    right: &[usize; 3],
    run: impl Fn(&[Tensor]) -> candle_core::Result<Tensor> + 'static,
) -> Result<Operator> {
    // A single product has no batch dimension, as in a model.
    let dims = |dims: &[usize; 3]| dims[usize::from(dims[0] == 1)..].to_vec();
    let [batch, rows, columns, depth] = m.dims()?;
    let x = m.values(&dims(left), Range::Signed, 0)?;
    let y = m.values(&dims(right), Range::Signed, 1)?;
    let operator = Operator::new([x, y], run);
    Ok(Operator {
        flops: 2 * (batch * rows * columns * depth) as u64,
        ..operator
    })
}

const FORMATS: &[(&str, GgmlDType)] = &[
    ("q4_0", GgmlDType::Q4_0),
    ("q4_1", GgmlDType::Q4_1),
    ("q5_0", GgmlDType::Q5_0),
    ("q5_1", GgmlDType::Q5_1),
    ("q8_0", GgmlDType::Q8_0),
    ("q2_K", GgmlDType::Q2K),
    ("q3_K", GgmlDType::Q3K),
    ("q4_K", GgmlDType::Q4K),
    ("q5_K", GgmlDType::Q5K),
    ("q6_K", GgmlDType::Q6K),
];

/// Random blocks of the format, quantised on the CPU from values between -1 and 1.
pub fn blocks(format: GgmlDType) -> Result<Vec<u8>> {
    // A prime, so that rows differ.
    const BLOCKS: usize = 1021;
    let block = crate::data::Block::new(&Device::Cpu)?;
    let shape = (BLOCKS, format.block_size());
    let values = block.tensor(shape, DType::F32, Range::Signed, 0, 1.)?;
    Ok(QTensor::quantize(&values, format)?.data()?.into_owned())
}

/// Quantised matrices of random numbers, equal but in different places.
fn weights(
    gpu: &mut Gpu,
    format: GgmlDType,
    (rows, columns): (usize, usize),
    most_bytes: usize,
) -> Result<Vec<QTensor>> {
    if let std::collections::hash_map::Entry::Vacant(entry) = gpu.quantized.entry(format) {
        entry.insert(blocks(format)?);
    }
    let blocks = &gpu.quantized[&format];
    let bytes = rows * columns / format.block_size() * format.type_size();
    let mut data = blocks.repeat(bytes.div_ceil(blocks.len()));
    data.truncate(bytes);
    let copies = most_bytes.div_ceil(bytes).clamp(1, 16);
    let matrix = |_| qtensor_from_ggml(format, &data, vec![rows, columns], &gpu.device);
    Ok((0..copies)
        .map(matrix)
        .collect::<candle_core::Result<_>>()?)
}

/// The operators on quantised weights: `qmatmul`, `batch x k` f32 by `n x k` quantised, whose dimensions are
/// `[1, batch, n, k]`, and `dequantize` of an `n x k` matrix.
///
/// # Errors
/// No format has this name, the dimensions are not as above, or do not suit the format.
pub fn quantized(gpu: &mut Gpu, case: &Case, settings: &Settings) -> Result<Option<Operator>> {
    let format = || {
        let format = FORMATS.iter().find(|(name, _)| *name == case.dtype);
        let format = format.with_context(|| format!("no format is called {}", case.dtype));
        format.map(|(_, format)| *format)
    };
    match (case.op.as_str(), case.dims.as_slice()) {
        ("qmatmul", &[1, batch, rows, columns]) => {
            let format = format()?;
            let matrices = weights(gpu, format, (rows, columns), settings.rotate_bytes)?;
            let bytes = matrices[0].storage_size_in_bytes();
            let matrices = matrices.into_iter().map(QMatMul::from_qtensor);
            let matrices = matrices.collect::<candle_core::Result<Vec<_>>>()?;
            let x = gpu
                .block
                .tensor((batch, columns), DType::F32, Range::Signed, 1, 1.)?;
            let turn = Cell::new(0);
            let operator = Operator::new([x], move |x| {
                turn.set((turn.get() + 1) % matrices.len());
                matrices[turn.get()].forward(&x[0])
            });
            Ok(Some(Operator {
                bytes: Some((bytes + 4 * batch * (rows + columns)) as u64),
                flops: 2 * (batch * rows * columns) as u64,
                ..operator
            }))
        }
        ("dequantize", &[rows, columns]) => {
            let weights = weights(gpu, format()?, (rows, columns), 0)?.remove(0);
            let bytes = weights.storage_size_in_bytes() + 4 * rows * columns;
            let device = gpu.device.clone();
            Ok(Some(Operator {
                bytes: Some(bytes as u64),
                ..Operator::new([], move |_| weights.dequantize(&device))
            }))
        }
        _ => Ok(None),
    }
}
