//! The kernels of module `quantized`, launched with the geometry of candle-core 0.11.1 `src/quantized/cuda.rs`:
//! those that Candle reaches, through Candle; the products that its faster paths have replaced, raw.

mod common;

use candle_core::cuda_backend::cudarc::driver::{CudaSlice, LaunchConfig, PushKernelArg as _};
use candle_core::cuda_backend::{kernels, WrapErr as _};
use candle_core::quantized::{cuda, GgmlDType, QMatMul, QTensor};
use candle_core::{CudaDevice, DType, Device, Module as _, Result, Tensor};
use common::{device, dot, normal, Random, Weights};

/// Formats with the names that the kernels' names have, and the mul_mat tile: columns and rows.
const FORMATS: [(GgmlDType, &str, u32, u32); 10] = [
    (GgmlDType::Q4_0, "q4_0", 64, 128),
    (GgmlDType::Q4_1, "q4_1", 64, 128),
    (GgmlDType::Q5_0, "q5_0", 128, 64),
    (GgmlDType::Q5_1, "q5_1", 128, 64),
    (GgmlDType::Q8_0, "q8_0", 128, 64),
    (GgmlDType::Q2K, "q2_K", 64, 128),
    (GgmlDType::Q3K, "q3_K", 128, 128),
    (GgmlDType::Q4K, "q4_K", 64, 128),
    (GgmlDType::Q5K, "q5_K", 64, 128),
    (GgmlDType::Q6K, "q6_K", 64, 64),
];

/// Relative to |w| |x| / sqrt(k): the activations' rounding to 8 bits, see `quantized_products.rs`.
const BOUND: f64 = 0.04;
/// Q4_0 of matrices of at most so many elements, as Candle's own tests have, subtracts eight times the sum of the
/// activations before they were rounded, as CUDA does: the roundings of nibbles that are not centred weigh more.
const CUDAS_BITS: usize = 1024;
const BOUND_OF_CUDAS: f64 = 0.08;

#[test]
fn blocks_are_dequantized() -> Result<()> {
    let device = device()?;
    let all = FORMATS.map(|(dtype, ..)| dtype);
    for dtype in all.into_iter().chain([GgmlDType::Q8K]) {
        for rows in [1, 3, 67] {
            let mut numbers = Random::new(rows);
            let columns = 256 * 3;
            let full = Tensor::from_vec(
                normal(&mut numbers, rows as usize * columns),
                (rows as usize, columns),
                &Device::Cpu,
            )?;
            let on_cpu = QTensor::quantize(&full, dtype)?.dequantize(&Device::Cpu)?;
            let on_device = QTensor::quantize_onto(&full, dtype, &device)?;
            let f32 = on_device.dequantize(&device)?;
            // Scale times integer, rounded once or twice; minima are subtracted from it.
            assert_near(&f32, &on_cpu, 1e-6, &format!("{dtype:?}"))?;
            let f16 = on_device.dequantize_f16(&device)?;
            assert_eq!(f16.dtype(), DType::F16);
            assert_near(&f16, &on_cpu, 1e-3, &format!("{dtype:?} in f16"))?;
        }
    }
    Ok(())
}

/// Both within `relative` of the larger tensor's largest number.
fn assert_near(found: &Tensor, expected: &Tensor, relative: f64, what: &str) -> Result<()> {
    let values = |tensor: &Tensor| {
        tensor
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F64)?
            .flatten_all()?
            .to_vec1::<f64>()
    };
    let (found, expected) = (values(found)?, values(expected)?);
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0f64, |a, b| a.max(b.abs()));
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert!(
            (found - expected).abs() <= relative * largest,
            "{what}: element {i} is {found}, not {expected}"
        );
    }
    Ok(())
}

#[test]
fn rows_are_looked_up() -> Result<()> {
    let device = device()?;
    let ids: Vec<u32> = vec![2, 0, 6, 6, 1];
    let on_device = Tensor::new(ids.as_slice(), &device)?;
    let all = FORMATS.map(|(dtype, ..)| dtype);
    for dtype in all
        .into_iter()
        .chain([GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16])
    {
        for columns in [256, 256 * 5] {
            let full = Tensor::from_vec(
                normal(&mut Random::new(7), 7 * columns),
                (7, columns),
                &Device::Cpu,
            )?;
            let expected = QTensor::quantize(&full, dtype)?
                .dequantize(&Device::Cpu)?
                .index_select(&Tensor::new(ids.as_slice(), &Device::Cpu)?, 0)?;
            let found = QTensor::quantize_onto(&full, dtype, &device)?.embedding(&on_device)?;
            assert_eq!(found.dims(), [ids.len(), columns]);
            assert_near(&found, &expected, 1e-6, &format!("{dtype:?} {columns}"))?;
            let none = Tensor::zeros(0, DType::U32, &device)?;
            let found = QTensor::quantize_onto(&full, dtype, &device)?.embedding(&none)?;
            assert_eq!(found.dims(), [0, columns]);
        }
    }
    Ok(())
}

/// Alone in using the switch: other tests of this program launch kernels by name.
#[test]
fn vectors_in_f32_are_multiplied() -> Result<()> {
    let device = device()?;
    cuda::set_force_dmmv(true);
    for (dtype, name, ..) in FORMATS {
        for (rows, columns) in [(1, 256), (37, 512), (3, 4096)] {
            let weights = Weights::new(dtype, rows, columns, &device)?;
            let x = normal(&mut Random::new(3), columns);
            let input = Tensor::from_vec(x.clone(), (1, columns), &device)?;
            let quantized = Weights::new(dtype, rows, columns, &device)?.quantized;
            let found: Vec<f32> = QMatMul::from_qtensor(quantized)?
                .forward(&input)?
                .flatten_all()?
                .to_vec1()?;
            for (row, &found) in found.iter().enumerate() {
                let row = weights.row(row);
                let size: f64 = row
                    .iter()
                    .zip(&x)
                    .map(|(&w, &x)| f64::from((w * x).abs()))
                    .sum();
                // Sums in f32 of `columns` / 32 terms by each lane.
                assert!(
                    (f64::from(found) - dot(row, &x)).abs() <= 1e-5 * size,
                    "{name} {rows} x {columns}"
                );
            }
        }
    }
    cuda::set_force_dmmv(false);
    Ok(())
}

/// A raw copy of the weights with the padding that Candle gives them.
struct Raw {
    weights: Weights,
    bytes: CudaSlice<u8>,
}

impl Raw {
    fn new(dtype: GgmlDType, rows: usize, columns: usize, device: &Device) -> Result<Self> {
        Self::of(Weights::new(dtype, rows, columns, device)?, device)
    }

    fn of(weights: Weights, device: &Device) -> Result<Self> {
        let dtype = weights.quantized.dtype();
        let mut bytes = weights.quantized.data()?.to_vec();
        bytes.resize(
            bytes.len() + 512 * dtype.type_size() / dtype.block_size(),
            0,
        );
        let bytes = device.as_cuda_device()?.clone_htod(&bytes)?;
        Ok(Self { weights, bytes })
    }
}

/// Q8_1 blocks of vectors, by kernel `quantize_q8_1`, and the padded length.
fn quantize(x: &[f32], columns: usize, device: &CudaDevice) -> Result<(CudaSlice<u8>, usize)> {
    let vectors = x.len() / columns;
    let padded = columns.next_multiple_of(512);
    let source = device.clone_htod(x)?;
    let blocks = device.alloc_zeros::<u8>(vectors * padded / 32 * 36)?;
    let function = device.get_or_load_func("quantize_q8_1", &kernels::QUANTIZED)?;
    let mut builder = function.builder();
    let (columns, padded_i32) = (columns as i32, padded as i32);
    builder
        .arg(&source)
        .arg(&blocks)
        .arg(&columns)
        .arg(&padded_i32);
    let config = LaunchConfig {
        grid_dim: (padded.div_ceil(256) as u32, vectors as u32, 1),
        block_dim: (256, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: the kernel's arguments; the buffers hold `vectors` rows of so many elements and blocks.
    unsafe { builder.launch(config) }.w()?;
    Ok((blocks, padded))
}

fn check(what: &str, weights: &Weights, x: &[f32], found: &[f32]) {
    let small = weights.rows * weights.columns <= CUDAS_BITS;
    let bound = match weights.quantized.dtype() {
        GgmlDType::Q4_0 if small => BOUND_OF_CUDAS,
        _ => BOUND,
    };
    let norm = |vector: &[f32]| dot(vector, vector).sqrt();
    for (vector, results) in x.chunks(weights.columns).zip(found.chunks(weights.rows)) {
        let scale = norm(vector) / (weights.columns as f64).sqrt();
        for (row, &result) in results.iter().enumerate() {
            let row = weights.row(row);
            let error = (f64::from(result) - dot(row, vector)).abs() / (norm(row) * scale);
            assert!(error <= bound, "{what}: relative error {error}");
        }
    }
}

impl Raw {
    /// The products with up to eight vectors, by kernels `mul_mat_vec_*`.
    fn times_vectors(&self, name: &str, x: &[f32], cuda: &CudaDevice) -> Result<Vec<f32>> {
        let (rows, columns) = (self.weights.rows, self.weights.columns);
        let vectors = x.len() / columns;
        let (workgroups, wide) = match vectors {
            1 => (rows as u32, 4),
            2..=4 => (rows.div_ceil(2) as u32, 4),
            _ => (rows.div_ceil(2) as u32, 2),
        };
        let kernel = format!("mul_mat_vec_{name}_q8_1_cuda{vectors}");
        let (grid, block) = ((workgroups, 1, 1), (32, wide, 1));
        self.launch(&kernel, &[columns, rows], grid, block, x, cuda)
    }

    /// The products with any number of vectors, by kernels `mul_mat_*`, which make tiles of columns and rows.
    fn times_matrix(
        &self,
        name: &str,
        [tile_columns, tile_rows]: [u32; 2],
        x: &[f32],
        cuda: &CudaDevice,
    ) -> Result<Vec<f32>> {
        let (rows, columns) = (self.weights.rows, self.weights.columns);
        let vectors = x.len() / columns;
        let grid = (
            (rows as u32).div_ceil(tile_rows),
            (vectors as u32).div_ceil(tile_columns),
            1,
        );
        let sizes = [columns, rows, vectors];
        self.launch(
            &format!("mul_mat_{name}"),
            &sizes,
            grid,
            (32, 4, 1),
            x,
            cuda,
        )
    }

    /// A kernel's result; its last arguments are `sizes`, the vectors' padded length and the result's rows.
    fn launch(
        &self,
        kernel: &str,
        sizes: &[usize],
        grid_dim: (u32, u32, u32),
        block_dim: (u32, u32, u32),
        x: &[f32],
        cuda: &CudaDevice,
    ) -> Result<Vec<f32>> {
        let (rows, columns) = (self.weights.rows, self.weights.columns);
        let (blocks, padded) = quantize(x, columns, cuda)?;
        let found = cuda.alloc_zeros::<f32>(rows * (x.len() / columns))?;
        let function = cuda.get_or_load_func(kernel, &kernels::QUANTIZED)?;
        let sizes: Vec<i32> = sizes
            .iter()
            .chain(&[padded, rows])
            .map(|&size| size as i32)
            .collect();
        let mut builder = function.builder();
        builder.arg(&self.bytes).arg(&blocks).arg(&found);
        sizes.iter().for_each(|size| {
            builder.arg(size);
        });
        let config = LaunchConfig {
            grid_dim,
            block_dim,
            shared_mem_bytes: 0,
        };
        // SAFETY: the kernel's arguments, buffers of the sizes that they say.
        unsafe { builder.launch(config) }.w()?;
        cuda.clone_dtoh(&found)
    }
}

#[test]
fn vectors_in_q8_1_are_multiplied() -> Result<()> {
    let device = device()?;
    let cuda = device.as_cuda_device()?;
    for (dtype, name, ..) in FORMATS {
        for (rows, columns) in [(1, 256), (13, 768), (5, 5120)] {
            let raw = Raw::new(dtype, rows, columns, &device)?;
            for vectors in 1..=8 {
                let x = normal(&mut Random::new(vectors as u64), vectors * columns);
                let found = raw.times_vectors(name, &x, cuda)?;
                let what = format!("{name} {rows} x {columns}, {vectors} vectors");
                check(&what, &raw.weights, &x, &found);
            }
        }
    }
    Ok(())
}

#[test]
fn matrices_in_q8_1_are_multiplied() -> Result<()> {
    let device = device()?;
    let cuda = device.as_cuda_device()?;
    for (dtype, name, tile_columns, tile_rows) in FORMATS {
        for (rows, columns, vectors) in [(1, 256, 1), (131, 512, 67), (64, 1024, 129)] {
            let raw = Raw::new(dtype, rows, columns, &device)?;
            let x = normal(&mut Random::new(9), vectors * columns);
            let found = raw.times_matrix(name, [tile_columns, tile_rows], &x, cuda)?;
            let what = format!("{name} {rows} x {columns}, {vectors} vectors");
            check(&what, &raw.weights, &x, &found);
        }
    }
    Ok(())
}

/// What candle-core's own tests expect on CUDA of 0, 1, 2, ... times themselves, by each way to a product: of 256 numbers
/// and of four rows, by kernels, of four rows with three vectors by Candle. (Their names are `cuda_mmv_q8_1`,
/// `cuda_mm_q8_1` and `quantized_matmul`.)
#[test]
fn small_matrices_of_q4_0_have_cudas_numbers() -> Result<()> {
    let device = device()?;
    let cuda = device.as_cuda_device()?;
    let ramp = |rows: usize, columns: usize, step: f32| -> Result<(Weights, Vec<f32>)> {
        let all: Vec<f32> = (0..rows * columns).map(|i| i as f32 * step).collect();
        let full = Tensor::from_vec(all.clone(), (rows, columns), &Device::Cpu)?;
        let weights = Weights {
            quantized: QTensor::quantize_onto(&full, GgmlDType::Q4_0, &device)?,
            values: all.clone(),
            rows,
            columns,
        };
        Ok((weights, all))
    };
    let (weights, x) = ramp(1, 256, 1.0)?;
    let found = Raw::of(weights, &device)?.times_vectors("q4_0", &x, cuda)?;
    assert_eq!(found, [5561664.5]);

    let (weights, x) = ramp(4, 256, 0.25)?;
    let found = Raw::of(weights, &device)?.times_matrix("q4_0", [64, 128], &x, cuda)?;
    let expected = [
        (0, 347604.0),
        (1, 888153.06),
        (4, 869780.7),
        (5, 2483145.0),
        (11, 9407368.0),
        (14, 9470856.0),
        (15, 13138824.0),
    ];
    for (at, expected) in expected {
        assert_eq!(found[at], expected, "element {at}");
    }

    let (weights, _) = ramp(4, 64, 1.0)?;
    let x = Tensor::arange(0f32, 192.0, &device)?.reshape((3, 64))?;
    let found = QMatMul::from_qtensor(weights.quantized)?.forward(&x)?;
    assert_eq!(
        found.round()?.to_vec2::<f32>()?,
        [
            [84866.0, 214045.0, 344676.0, 473707.0],
            [213425.0, 604313.0, 1000431.0, 1387960.0],
            [342030.0, 994630.0, 1656248.0, 2302250.0]
        ]
    );
    Ok(())
}

#[test]
fn experts_are_indexed() -> Result<()> {
    let device = device()?;
    let (experts, rows, columns, batch, topk) = (5, 11, 512, 3, 2);
    let ids: Vec<u32> = vec![4, 0, 1, 1, 3, 4];
    let on_device = Tensor::from_vec(ids.clone(), (batch, topk), &device)?;
    for dtype in [
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ] {
        let weights = Weights::new(dtype, experts * rows, columns, &device)?;
        let full = Tensor::from_vec(
            normal(
                &mut Random::new((experts * rows * 31 + columns) as u64),
                experts * rows * columns,
            ),
            (experts, rows, columns),
            &Device::Cpu,
        )?;
        let quantized = QTensor::quantize_onto(&full, dtype, &device)?;
        for inputs in [1, topk] {
            let x = normal(&mut Random::new(2), batch * inputs * columns);
            let input = Tensor::from_vec(x.clone(), (batch, inputs, columns), &device)?;
            let found = quantized.indexed_moe_forward(&input, &on_device)?;
            assert_eq!(found.dims(), [batch, topk, rows]);
            let found: Vec<f32> = found.flatten_all()?.to_vec1()?;
            for (slot, results) in found.chunks(rows).enumerate() {
                let vector = slot / topk * inputs + if inputs == 1 { 0 } else { slot % topk };
                let vector = &x[vector * columns..][..columns];
                let scale = (dot(vector, vector) / columns as f64).sqrt();
                for (row, &result) in results.iter().enumerate() {
                    let row = weights.row(ids[slot] as usize * rows + row);
                    let error = (f64::from(result) - dot(row, vector)).abs()
                        / (dot(row, row).sqrt() * scale);
                    assert!(error <= BOUND, "{dtype:?}: relative error {error}");
                }
            }
        }
    }
    Ok(())
}

/// A grid has at most 65,535 workgroups along the dimension of tokens.
#[test]
fn experts_of_more_tokens_than_a_grid_has_workgroups() -> Result<()> {
    let device = device()?;
    let (experts, columns, tokens) = (3, 32, 65_536 + 7);
    let full = Tensor::from_vec(
        normal(&mut Random::new(5), experts * columns),
        (experts, 1, columns),
        &Device::Cpu,
    )?;
    let quantized = QTensor::quantize_onto(&full, GgmlDType::Q8_0, &device)?;
    // What q8_1 holds exactly.
    let input = Tensor::full(127f32, (tokens, 1, columns), &device)?;
    let ids: Vec<u32> = (0..tokens as u32)
        .map(|token| token % experts as u32)
        .collect();
    let ids_on_device = Tensor::from_vec(ids.clone(), (tokens, 1), &device)?;
    let found = quantized.indexed_moe_forward(&input, &ids_on_device)?;
    let found: Vec<f32> = found.flatten_all()?.to_vec1()?;
    let of_expert = |expert: u32| found[expert as usize];
    let rows: Vec<Vec<f32>> = quantized.dequantize(&Device::Cpu)?.squeeze(1)?.to_vec2()?;
    for (expert, row) in (0..).zip(&rows) {
        let expected: f32 = row.iter().sum();
        let found = of_expert(expert) / 127.0;
        assert!((found - expected).abs() < 1e-3, "expert {expert}");
    }
    for (token, (&found, &expert)) in found.iter().zip(&ids).enumerate() {
        assert_eq!(
            found.to_bits(),
            of_expert(expert).to_bits(),
            "token {token}"
        );
    }
    Ok(())
}
