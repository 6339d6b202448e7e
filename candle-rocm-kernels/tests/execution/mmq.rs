//! Products of quantised matrices with matrices of activations in blocks of 128.
//!
//! Candle's CPU backend quantises the weights and gives their values; the activations' values follow from the blocks
//! that our kernel wrote. The product of the two in f64 is what the product's kernel must give but for the roundings
//! of its f32 sums; the blocks are held to the activations separately.

use crate::device::{Arg, Gpu};
use crate::on_each_gpu;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_rocm_kernels::gguf::FORMATS;
use candle_rocm_kernels::{mmq, MMQ, UPCAST};
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

const CHUNK: usize = mmq::CHUNK as usize;
const BLOCK: usize = mmq::BLOCK_BYTES as usize;

/// Candle's names of the formats, in the table's order.
const DTYPES: [GgmlDType; 10] = [
    GgmlDType::Q4_0,
    GgmlDType::Q4_1,
    GgmlDType::Q5_0,
    GgmlDType::Q5_1,
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

fn half(bytes: &[u8], index: usize) -> f64 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).to_f64()
}

/// The scale that a block has for one of its elements.
fn scale(block: &[u8], layout: &str, element: usize) -> f64 {
    match layout {
        "D4" => {
            let at = element / 32 * 4;
            f32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes")).into()
        }
        "DS4" => half(block, element / 32 * 2),
        _ => half(block, element / 64),
    }
}

/// What blocks of so many columns have for element `i` of one.
fn activation(blocks: &[u8], layout: &str, columns: usize, column: usize, i: usize) -> f64 {
    let block = &blocks[(i / CHUNK * columns + column) * BLOCK..][..BLOCK];
    scale(block, layout, i % CHUNK) * f64::from(block[16 + i % CHUNK] as i8)
}

/// A drawn matrix in a format: its blocks, and the values that they stand for.
fn quantised(numbers: &mut Random, dtype: GgmlDType, [rows, k]: [usize; 2]) -> (Vec<u8>, Vec<f32>) {
    let weights: Vec<f32> = (0..rows * k).map(|_| numbers.signed() as f32).collect();
    let weights = Tensor::from_vec(weights, (rows, k), &Device::Cpu).expect("a tensor");
    let weights = QTensor::quantize(&weights, dtype).expect("quantised");
    let values = weights
        .dequantize(&Device::Cpu)
        .and_then(|values| values.flatten_all()?.to_vec1())
        .expect("dequantised");
    (weights.data().expect("blocks").to_vec(), values)
}

/// Rows of `padded` elements, strides in elements, from a buffer.
struct Source<'a> {
    values: &'a [f32],
    columns: usize,
    rows: usize,
    stride: usize,
    ids: Option<&'a [i32]>,
    planes: [usize; 2],
    plane_strides: [usize; 2],
}

impl<'a> Source<'a> {
    /// A matrix whose rows follow each other.
    fn matrix(values: &'a [f32], columns: usize) -> Self {
        Source {
            values,
            columns,
            rows: values.len() / columns,
            stride: columns,
            ids: None,
            planes: [1, 1],
            plane_strides: [0, 0],
        }
    }

    fn quantize(&self, gpu: &Gpu, layout: &str, padded: usize) -> Vec<u8> {
        let chunks = padded.div_ceil(CHUNK);
        let plane_blocks = chunks.next_multiple_of(4) * self.rows;
        let planes = self.planes[0] * self.planes[1];
        let blocks = chunks * self.rows * planes;
        let ids = self.ids.map_or(Arg::Null, Arg::input);
        gpu.run::<u8>(
            &MMQ,
            &format!("mmq_quantize_q8_1_{layout}"),
            // Fewer threads than blocks now and then: the kernel goes on in steps of the grid.
            [blocks.div_ceil(8).min(3) as u32, 1, 1],
            [256, 1, 1],
            &[
                Arg::input(self.values),
                ids,
                Arg::output::<u8>(((planes - 1) * plane_blocks + chunks * self.rows) * BLOCK),
                Arg::N(self.columns),
                Arg::N(self.stride),
                Arg::N(self.plane_strides[1]),
                Arg::N(self.plane_strides[0]),
                Arg::N(chunks),
                Arg::N(self.rows),
                Arg::N(self.planes[1]),
                Arg::N(plane_blocks),
                Arg::N(blocks),
            ],
        )
    }
}

#[test]
fn blocks_hold_the_activations() {
    on_each_gpu(|gpu| {
        let mut numbers = Random::new(5);
        let (columns, padded, stride) = (200, 300, 203);
        let values: Vec<f32> = (0..6 * 5 * stride)
            .map(|i| (numbers.signed() * 10f64.powi(i as i32 % 7 - 3)) as f32)
            .collect();
        let ids = [4i32, 0, 0, 2];
        for layout in ["D4", "DS4", "D2S6"] {
            let source = Source {
                values: &values,
                columns,
                rows: ids.len(),
                stride,
                ids: Some(&ids),
                planes: [3, 2],
                plane_strides: [2 * 5 * stride, 5 * stride],
            };
            let found = source.quantize(gpu, layout, padded);
            let group = if layout == "D2S6" { 64 } else { 32 };
            let at = |plane: usize, row: usize, column: usize| {
                if column < columns {
                    f64::from(values[plane * 5 * stride + ids[row] as usize * stride + column])
                } else {
                    0.0
                }
            };
            for plane in 0..6 {
                for row in 0..ids.len() {
                    for chunk in 0..3 {
                        let block = &found
                            [(plane * 4 * ids.len() + chunk * ids.len() + row) * BLOCK..][..BLOCK];
                        let value = |i: usize| at(plane, row, chunk * CHUNK + i);
                        for i in 0..CHUNK {
                            let start = i / group * group;
                            let largest = (start..start + group)
                                .map(|i| value(i).abs())
                                .fold(0.0, f64::max);
                            // Half a step of 1/127 of the largest, the scale's own rounding to f16 (2^-11), and where
                            // the scale is below f16's normal numbers, half their distance 127 times.
                            let bound =
                                largest * (0.5 / 127.0 + 1.0 / 2048.0) * 1.0001 + 127.0 * 3e-8;
                            let q = block[16 + i] as i8;
                            let found = scale(block, layout, i) * f64::from(q);
                            assert!(
                                (found - value(i)).abs() <= bound,
                                "{layout}, element {i} of chunk {chunk}, row {row}, plane {plane}: {found}, not {}",
                                value(i)
                            );
                        }
                        let (sums, elements, first, step) = match layout {
                            "D4" => (0, 0, 0, 0),
                            "DS4" => (4, 32, 1, 2),
                            _ => (6, 16, 2, 1),
                        };
                        for sum in 0..sums {
                            let elements = sum * elements..(sum + 1) * elements;
                            let expected: f64 = elements.clone().map(value).sum();
                            let size: f64 = elements.map(|i| value(i).abs()).sum();
                            let found = half(block, first + step * sum);
                            assert!(
                                (found - expected).abs() <= expected.abs() / 2048.0 + size * 1e-6 + 6e-8,
                                "{layout}, sum {sum} of chunk {chunk}, row {row}: {found}, not {expected}"
                            );
                        }
                    }
                }
            }
        }
    });
}

/// bf16 has eight significant bits, so half its last place is at most 2^-8 of a number; products and sums before that are f32's.
fn assert_upcast(what: &str, found: &[bf16], expected: impl Fn(usize) -> f64) {
    let largest = (0..found.len()).fold(0f64, |most, i| most.max(expected(i).abs()));
    for (i, found) in found.iter().enumerate() {
        let (found, expected) = (found.to_f64(), expected(i));
        let bound = expected.abs() / 256.0 + largest * 1e-6;
        assert!(
            (found - expected).abs() <= bound,
            "{what}, element {i}: {found}, not {expected}"
        );
    }
}

/// An odd number of pieces, whose neighbours store together, and more than the grid has threads; rows with bytes between them.
#[test]
fn matrices_become_bf16() {
    on_each_gpu(|gpu| {
        for (format, dtype) in FORMATS.into_iter().zip(DTYPES) {
            let (name, block) = (format.name, dtype.block_size());
            let (rows, k) = if block == 32 { (131, 288) } else { (37, 768) };
            let mut numbers = Random::new(k as u64);
            let (bytes, values) = quantised(&mut numbers, dtype, [rows, k]);
            let row_bytes = k / block * dtype.type_size();
            let between = vec![0xee; dtype.type_size()];
            let apart: Vec<u8> = bytes
                .chunks(row_bytes)
                .flat_map(|row| [row, &between].concat())
                .collect();
            let found: Vec<bf16> = gpu.run(
                &UPCAST,
                &format!("upcast_{name}"),
                [2, 1, 1],
                [256, 1, 1],
                &[
                    Arg::input(&apart),
                    Arg::output::<bf16>(rows * k),
                    Arg::I(k as i32),
                    Arg::I(rows as i32),
                    Arg::N(row_bytes + between.len()),
                ],
            );
            assert_upcast(name, &found, |i| values[i].into());
        }
    });
}

#[test]
fn activations_become_bf16() {
    on_each_gpu(|gpu| {
        let (columns, k) = (23, 288);
        let mut numbers = Random::new(8);
        let values: Vec<f32> = (0..columns * k).map(|_| numbers.signed() as f32).collect();
        let source = Source::matrix(&values, k);
        for layout in ["D4", "DS4", "D2S6"] {
            let blocks = source.quantize(gpu, layout, k);
            let found: Vec<bf16> = gpu.run(
                &UPCAST,
                &format!("upcast_blocks_{layout}"),
                [1, 1, 1],
                [256, 1, 1],
                &[
                    Arg::input(&blocks),
                    Arg::output::<bf16>(columns * k),
                    Arg::I(k as i32),
                    Arg::I(columns as i32),
                ],
            );
            assert_upcast(layout, &found, |i| {
                activation(&blocks, layout, columns, i / k, i % k)
            });
        }
    });
}

#[test]
fn a_nan_stays_and_zeros_are_zero() {
    on_each_gpu(|gpu| {
        for layout in ["D4", "DS4", "D2S6"] {
            let mut values = vec![0f32; 2 * CHUNK];
            values[CHUNK + 5] = f32::NAN;
            let source = Source::matrix(&values, CHUNK);
            let found = source.quantize(gpu, layout, CHUNK);
            assert!(found[16..BLOCK].iter().all(|&q| q == 0), "{layout}");
            assert_eq!(scale(&found, layout, 0), 0.0, "{layout}");
            assert!(scale(&found[BLOCK..], layout, 5).is_nan(), "{layout}");
        }
    });
}

/// One product of `rows` x `k` weights with `columns` activations, `part` elements of k at a time, against f64.
fn product(gpu: &Gpu, format: usize, [rows, k, columns]: [usize; 3], tile: usize, part: usize) {
    let (name, layout) = (FORMATS[format].name, FORMATS[format].scales.name());
    let dtype = DTYPES[format];
    let mut numbers = Random::new((rows * 31 + k + columns) as u64);
    let (bytes, values) = quantised(&mut numbers, dtype, [rows, k]);
    let activations: Vec<f32> = (0..columns * k).map(|_| numbers.signed() as f32).collect();
    let source = Source::matrix(&activations, k);
    // No more blocks than k needs: the product must not read one past them.
    let blocks = source.quantize(gpu, layout, k);
    // A column of results is longer than the rows; what lies between stays.
    let dst_rows = rows + 3;
    let marker = -77.5f32;
    let output = vec![marker; columns * dst_rows];
    let parts = k.div_ceil(part);
    let (target, target_rows) = match parts {
        1 => (output.clone(), dst_rows),
        _ => (vec![marker; parts * columns * rows], rows),
    };
    let mut found: Vec<f32> = gpu.run(
        &MMQ,
        &format!("mmq_{name}_{tile}"),
        [
            rows.div_ceil(64) as u32,
            columns.div_ceil(tile).min(2) as u32,
            parts as u32,
        ],
        [256, 1, 1],
        &[
            Arg::input(&bytes),
            Arg::input(&blocks),
            Arg::in_out(&target),
            Arg::I(k as i32),
            Arg::I(rows as i32),
            Arg::I(columns as i32),
            Arg::N(bytes.len() / rows),
            Arg::N(target_rows),
            Arg::I(part as i32),
            Arg::N(columns * rows),
        ],
    );
    if parts > 1 {
        found = gpu.run(
            &MMQ,
            "mmq_sum",
            [2, 1, 1],
            [256, 1, 1],
            &[
                Arg::input(&found),
                Arg::in_out(&output),
                Arg::I(rows as i32),
                Arg::I(columns as i32),
                Arg::N(dst_rows),
                Arg::I(parts as i32),
                Arg::N(columns * rows),
            ],
        );
    }
    for column in 0..columns {
        let activations: Vec<f64> = (0..k)
            .map(|i| activation(&blocks, layout, columns, column, i))
            .collect();
        for row in 0..dst_rows {
            let found = f64::from(found[column * dst_rows + row]);
            if row >= rows {
                assert_eq!(found, f64::from(marker), "{name}: past row {rows}");
                continue;
            }
            let terms = (0..k).map(|i| f64::from(values[row * k + i]) * activations[i]);
            let (expected, size) = terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            });
            // Integer sums are exact; scale and minimum are products of f16 and integers rounded to f32, and k / 16
            // sums follow, each with an error of 2^-24 of what it adds up. In formats with a minimum the two parts
            // are up to a few times as large as their difference.
            let bound = size * 2f64.powi(-24) * (16.0 + (k / 16) as f64) + 1e-9;
            assert!(
                (found - expected).abs() <= bound,
                "{name} {rows} x {k}, {columns} columns: ({row}, {column}) is {found}, not {expected} +- {bound}"
            );
        }
    }
}

#[test]
fn products_are_exact_but_for_f32_sums() {
    on_each_gpu(|gpu| {
        for (format, dtype) in DTYPES.iter().enumerate() {
            let block = dtype.block_size();
            // Several tiles of rows and columns, neither full; k within a chunk and past it.
            let whole = |rows, blocks, columns, tile| {
                product(
                    gpu,
                    format,
                    [rows, blocks * block, columns],
                    tile,
                    blocks * block,
                )
            };
            whole(65, 1, 9, 16);
            whole(7, 3, 17, 16);
            whole(67, 5, 129, 64);
            whole(1, 1, 64, 64);
            whole(131, 2, 130, 128);
            // In parts of k; the last is shorter.
            product(gpu, format, [67, 512 + block, 17], 16, 256);
            product(gpu, format, [65, 1024 + block, 65], 64, 512);
            product(gpu, format, [3, 768, 129], 128, 512);
        }
    });
}
