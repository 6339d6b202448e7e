//! index_select, gather, scatter, scatter_add and index_add.

use anyhow::{Context as _, Result};
use candle_core::{DType, Tensor};
use candle_rocm_tests::device;

use super::compare::{check_floats, check_integers};
use super::inputs::*;

/// The largest value of an index type marks a place without source: it reads as zero and is not written.
fn absent(dtype: DType) -> i64 {
    match dtype {
        DType::U8 => i64::from(u8::MAX),
        DType::U32 => i64::from(u32::MAX),
        _ => i64::MAX,
    }
}

/// Indices below `limit`, every 13th absent; many are equal.
fn indices(dtype: DType, seed: u64, limit: usize, dims: &[usize]) -> Result<Tensor> {
    let mut random = Random::new(seed);
    let count = dims.iter().product();
    let values: Vec<i64> = (0..count)
        .map(|i| {
            if i % 13 == 12 {
                absent(dtype)
            } else {
                random.below(limit) as i64
            }
        })
        .collect();
    Ok(from_integers(&values, dtype)?.reshape(dims)?)
}

/// What a tensor's elements are moved as: the number's place, so that the expected elements are picked by place.
struct Elements {
    dtype: DType,
    floats: Vec<f64>,
    integers: Vec<i64>,
}

impl Elements {
    fn of(tensor: &Tensor) -> Result<Elements> {
        let dtype = tensor.dtype();
        Ok(Elements {
            dtype,
            floats: if dtype.is_int() {
                Vec::new()
            } else {
                floats(tensor)?
            },
            integers: if dtype.is_int() {
                integers(tensor)?
            } else {
                Vec::new()
            },
        })
    }

    /// `into[at] = from[place]`; no place is zero.
    fn set(&mut self, at: usize, from: &Elements, place: Option<usize>) {
        if self.dtype.is_int() {
            self.integers[at] = place.map_or(0, |place| from.integers[place]);
        } else {
            self.floats[at] = place.map_or(0.0, |place| from.floats[place]);
        }
    }

    /// Rounded after each sum, as on the CPU.
    fn add(&mut self, at: usize, from: &Elements, place: usize) {
        if self.dtype.is_int() {
            let sum = self.integers[at].wrapping_add(from.integers[place]);
            self.integers[at] = wrap(sum, self.dtype);
        } else {
            let sum = self.floats[at] + from.floats[place];
            self.floats[at] = rounded(sum, self.dtype);
        }
    }

    fn zeros(dtype: DType, count: usize) -> Elements {
        Elements {
            dtype,
            floats: vec![0.0; count],
            integers: vec![0; count],
        }
    }

    fn check(&self, what: &str, found: &Tensor) -> Result<()> {
        if self.dtype.is_int() {
            check_integers(what, found, &self.integers)
        } else {
            check_floats(what, found, &self.floats, |_| 0.0)
        }
    }
}

/// Elements before, along and after a dimension.
fn around(dims: &[usize], dim: usize) -> (usize, usize, usize) {
    (
        dims[..dim].iter().product(),
        dims[dim],
        dims[dim + 1..].iter().product(),
    )
}

/// Each layout that Candle's operators by index take: contiguous, wherever it begins.
fn contiguous_layouts() -> impl Iterator<Item = (&'static str, Make)> {
    let names = [
        "transposed",
        "broadcast",
        "scalar, broadcast",
        "columns from an offset",
        "six dimensions, permuted",
        "long rows",
        "no dimensions",
    ];
    LAYOUTS
        .into_iter()
        .filter(move |(name, _)| !names.contains(name))
}

#[test]
fn index_select() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 81)?;
        for (layout, make) in contiguous_layouts() {
            let [cpu, tensor] = pair(make, &long, &gpu)?;
            let from = Elements::of(&cpu)?;
            for dim in 0..cpu.rank() {
                let (left, size, right) = around(cpu.dims(), dim);
                if size == 0 {
                    continue;
                }
                for ids_dtype in INDICES {
                    let limit = size.min(250);
                    // Indices with gaps between them, too.
                    let ids = indices(ids_dtype, 82, limit, &[29, 3])?;
                    for (column, stride) in [(0, "contiguous"), (1, "with gaps")] {
                        let what = format!("index_select of {dtype:?}, {layout}, over {dim}, ids {ids_dtype:?} {stride}");
                        let ids = if column == 0 {
                            ids.flatten_all()?
                        } else {
                            ids.narrow(1, 1, 1)?.squeeze(1)?
                        };
                        let on_gpu = if column == 0 {
                            ids.to_device(&gpu)?
                        } else {
                            indices(ids_dtype, 82, limit, &[29, 3])?
                                .to_device(&gpu)?
                                .narrow(1, 1, 1)?
                                .squeeze(1)?
                        };
                        let found = tensor
                            .index_select(&on_gpu, dim)
                            .with_context(|| what.clone())?;
                        let ids = integers(&ids)?;
                        let mut expected = Elements::zeros(dtype, left * ids.len() * right);
                        for l in 0..left {
                            for (i, &id) in ids.iter().enumerate() {
                                for r in 0..right {
                                    let place = (id != absent(ids_dtype))
                                        .then(|| (l * size + id as usize) * right + r);
                                    expected.set((l * ids.len() + i) * right + r, &from, place);
                                }
                            }
                        }
                        expected.check(&what, &found)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Dimensions of what is indexed, of the indices (shorter or longer along `dim` only), and `dim`.
const SHAPES: [(&[usize], usize, usize); 9] = [
    (&[7], 5, 0),
    (&[5, 3], 9, 0),
    (&[5, 3], 2, 1),
    (&[4, 6, 5], 3, 0),
    (&[4, 6, 5], 11, 1),
    (&[4, 6, 5], 1, 2),
    (&[2, 3, 2, 3, 2, 4], 6, 3),
    (&[1, 1031], 77, 1),
    (&[3, 0], 4, 0),
];

/// More elements than a grid has threads: each thread has several on their way. By rows of indices, by columns, and from
/// where vectors are not aligned.
#[test]
fn long_gathers() -> Result<()> {
    let gpu = device()?;
    let (rows, columns) = (720, 644);
    for dtype in [DType::U8, DType::U32, DType::F64] {
        let long = many_numbers(dtype, 86, rows * columns + 1)?;
        for (dim, offset) in [(0, 0), (1, 0), (1, 1)] {
            let table = long.narrow(0, offset, rows * columns)?;
            let from = Elements::of(&table)?;
            let table = long.to_device(&gpu)?.narrow(0, offset, rows * columns)?;
            let table = table.reshape((rows, columns))?;
            for ids_dtype in INDICES {
                let ids = indices(ids_dtype, 87, 250, &[rows, columns])?;
                let found = table.gather(&ids.to_device(&gpu)?, dim)?;
                let mut expected = Elements::zeros(dtype, rows * columns);
                for (at, &id) in integers(&ids)?.iter().enumerate() {
                    let (row, column) = (at / columns, at % columns);
                    let place = (id != absent(ids_dtype)).then(|| match dim {
                        0 => id as usize * columns + column,
                        _ => row * columns + id as usize,
                    });
                    expected.set(at, &from, place);
                }
                let what = format!("gather of {dtype:?} at {offset}, ids {ids_dtype:?} over {dim}");
                expected.check(&what, &found)?;
            }
        }
    }
    Ok(())
}

/// As above; rows that are no vectors.
#[test]
fn long_selection() -> Result<()> {
    let gpu = device()?;
    let (rows, columns, selected) = (250, 131, 13_001);
    let long = many_numbers(DType::U8, 88, rows * columns)?;
    let from = Elements::of(&long)?;
    let ids = indices(DType::U32, 89, rows, &[selected])?;
    let table = long.to_device(&gpu)?.reshape((rows, columns))?;
    let found = table.index_select(&ids.to_device(&gpu)?, 0)?;
    let mut expected = Elements::zeros(DType::U8, selected * columns);
    for (i, &id) in integers(&ids)?.iter().enumerate() {
        for column in 0..columns {
            let place = (id != absent(DType::U32)).then(|| id as usize * columns + column);
            expected.set(i * columns + column, &from, place);
        }
    }
    expected.check("index_select of many rows", &found)
}

#[test]
fn gather_and_scatter() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 83)?;
        let other = numbers(dtype, 84)?;
        for (dims, along, dim) in SHAPES {
            let mut other_dims = dims.to_vec();
            other_dims[dim] = along;
            let count: usize = dims.iter().product();
            let other_count: usize = other_dims.iter().product();
            // From odd offsets.
            let table = long.narrow(0, 3, count)?.reshape(dims)?;
            let source = other
                .narrow(0, 5, other_count)?
                .reshape(other_dims.as_slice())?;
            let table_gpu = long.to_device(&gpu)?.narrow(0, 3, count)?.reshape(dims)?;
            let source_gpu = other.to_device(&gpu)?.narrow(0, 5, other_count)?;
            let source_gpu = source_gpu.reshape(other_dims.as_slice())?;
            let (left, size, right) = around(dims, dim);
            for ids_dtype in INDICES {
                let ids = indices(ids_dtype, 85, size.clamp(1, 250), &other_dims)?;
                let ids_gpu = ids.to_device(&gpu)?;
                let ids = integers(&ids)?;
                // For each index: its own place, and the place in the table that it names.
                let mut places = Vec::new();
                for l in 0..left {
                    for i in 0..along {
                        for r in 0..right {
                            let at = (l * along + i) * right + r;
                            let named = (ids[at] != absent(ids_dtype))
                                .then(|| (l * size + ids[at] as usize) * right + r);
                            places.push((at, named));
                        }
                    }
                }
                let what = format!("of {dtype:?} {dims:?}, {along} ids {ids_dtype:?} over {dim}");
                let mut gathered = Elements::zeros(dtype, other_count);
                let mut scattered = Elements::of(&table)?;
                let mut added = Elements::of(&table)?;
                let (from_table, from_source) = (Elements::of(&table)?, Elements::of(&source)?);
                for &(at, named) in &places {
                    gathered.set(at, &from_table, named);
                    if let Some(named) = named {
                        scattered.set(named, &from_source, Some(at));
                        added.add(named, &from_source, at);
                    }
                }
                gathered.check(&format!("gather {what}"), &table_gpu.gather(&ids_gpu, dim)?)?;
                let found = table_gpu.scatter(&ids_gpu, &source_gpu, dim)?;
                scattered.check(&format!("scatter {what}"), &found)?;
                let found = table_gpu.scatter_add(&ids_gpu, &source_gpu, dim)?;
                added.check(&format!("scatter_add {what}"), &found)?;
                let in_place = table_gpu.copy()?.force_contiguous()?;
                in_place.scatter_add_set(&ids_gpu, &source_gpu, dim)?;
                added.check(&format!("scatter_add_set {what}"), &in_place)?;
            }
        }
    }
    Ok(())
}

#[test]
fn index_add() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 86)?;
        for (dims, along, dim) in SHAPES {
            let mut source_dims = dims.to_vec();
            source_dims[dim] = along;
            let count: usize = dims.iter().product();
            let source_count: usize = source_dims.iter().product();
            let table = long.narrow(0, 0, count)?.reshape(dims)?;
            let source = long
                .narrow(0, 1, source_count)?
                .reshape(source_dims.as_slice())?;
            let (left, size, right) = around(dims, dim);
            for ids_dtype in INDICES {
                let ids = indices(ids_dtype, 87, size.clamp(1, 250), &[along])?;
                let found = table.to_device(&gpu)?.index_add(
                    &ids.to_device(&gpu)?,
                    &source.to_device(&gpu)?,
                    dim,
                )?;
                let (mut expected, from) = (Elements::of(&table)?, Elements::of(&source)?);
                for l in 0..left {
                    for (i, &id) in integers(&ids)?.iter().enumerate() {
                        for r in (0..right).filter(|_| id != absent(ids_dtype)) {
                            let at = (l * size + id as usize) * right + r;
                            expected.add(at, &from, (l * along + i) * right + r);
                        }
                    }
                }
                let what = format!(
                    "index_add of {dtype:?} {dims:?}, {along} ids {ids_dtype:?} over {dim}"
                );
                expected.check(&what, &found)?;
            }
        }
    }
    Ok(())
}

/// More rows, and more elements of a workgroup's share, than 65,535.
#[test]
fn many_rows() -> Result<()> {
    let gpu = device()?;
    let rows = 70_001;
    let table = many_numbers(DType::BF16, 88, 1000 * 4)?.reshape((1000, 4))?;
    let ids = indices(DType::U32, 89, 1000, &[rows])?;
    let found = table
        .to_device(&gpu)?
        .index_select(&ids.to_device(&gpu)?, 0)?;
    let from = Elements::of(&table)?;
    let mut expected = Elements::zeros(DType::BF16, rows * 4);
    for (i, id) in integers(&ids)?.into_iter().enumerate() {
        for r in 0..4 {
            let place = (id != absent(DType::U32)).then(|| id as usize * 4 + r);
            expected.set(i * 4 + r, &from, place);
        }
    }
    expected.check("index_select of 70,001 rows", &found)?;
    // And sums of them all: 70 of each on average, each rounded to bf16's neighbours.
    let ones = Tensor::ones((rows, 1), DType::F32, &gpu)?;
    let counts =
        Tensor::zeros((1000, 1), DType::F32, &gpu)?.index_add(&ids.to_device(&gpu)?, &ones, 0)?;
    let mut expected = vec![0.0; 1000];
    for id in integers(&ids)?
        .into_iter()
        .filter(|&id| id != absent(DType::U32))
    {
        expected[id as usize] += 1.0;
    }
    check_floats("index_add of 70,001 ones", &counts, &expected, |_| {
        rounding(DType::F32)
    })
}
