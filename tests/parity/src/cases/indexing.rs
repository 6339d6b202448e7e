//! Elements picked and placed by index.

use candle_core::{DType, Result, Tensor};

use super::{any, name, List};
use crate::case::Input;
use crate::numbers::{all_dtypes, Numbers, Random, INDICES};

/// Indices below `limit`, every 13th the largest of the dtype: a place without source, which reads as zero and is not
/// written.
fn indices(dtype: DType, seed: u64, limit: usize, dims: &[usize]) -> Result<Input> {
    let mut random = Random::new(seed);
    let absent = match dtype {
        DType::U8 => i64::from(u8::MAX),
        DType::U32 => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    let each = |i| match i % 13 {
        12 => absent,
        _ => random.below(limit) as i64,
    };
    let all = (0..dims.iter().product()).map(each).collect();
    Ok(Input::Fixed(Numbers::Integers(all).tensor(dtype, dims)?))
}

/// Sizes of what is indexed, of the indices along a dimension, and that dimension.
const SHAPES: [(&[usize], usize, usize); 5] = [
    (&[7], 5, 0),
    (&[5, 3], 9, 0),
    (&[4, 6, 5], 11, 1),
    (&[4, 6, 5], 3, 2),
    (&[1, 231], 77, 1),
];

type ByIndex = fn(&Tensor, &Tensor, &Tensor, usize) -> Result<Tensor>;

/// Table, indices as long as the source, source, dimension.
const BY_INDEX: [(&str, ByIndex); 4] = [
    ("gather", |table, ids, _, dim| table.gather(ids, dim)),
    ("scatter", |table, ids, source, dim| {
        table.scatter(ids, source, dim)
    }),
    ("scatter_add", |table, ids, source, dim| {
        table.scatter_add(ids, source, dim)
    }),
    ("scatter_add_set", |table, ids, source, dim| {
        let table = table.copy()?;
        table.scatter_add_set(ids, source, dim)?;
        Ok(table)
    }),
];

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in all_dtypes() {
        for (dims, along, dim) in SHAPES {
            let mut source_dims = dims.to_vec();
            source_dims[dim] = along;
            for ids_dtype in INDICES {
                let what = format!(
                    "{} {dims:?}, {along} {} over {dim}",
                    name(dtype),
                    name(ids_dtype)
                );
                let table = any(dtype, 83, dims)?;
                let source = any(dtype, 84, &source_dims)?;
                let ids = indices(ids_dtype, 85, dims[dim], &source_dims)?;
                for (operator, run) in BY_INDEX {
                    let inputs = vec![table.clone(), ids.clone(), source.clone()];
                    // On CUDA, who wins of two that write to one place is not said: indices are different there.
                    if operator == "scatter" {
                        continue;
                    }
                    list.add(operator, &what, inputs, move |x| {
                        run(&x[0], &x[1], &x[2], dim)
                    });
                }
                let ids = indices(ids_dtype, 86, dims[dim], &[along])?;
                let inputs = vec![table.clone(), ids.clone(), source];
                list.add("index_add", &what, inputs, move |x| {
                    x[0].index_add(&x[1], &x[2], dim)
                });
                list.add("index_select", &what, vec![table.clone(), ids], move |x| {
                    x[0].index_select(&x[1], dim)
                });
                // Indices with gaps between them, a table from an odd offset.
                if dims.len() == 3 {
                    let inputs = vec![any(dtype, 87, &[121])?, indices(ids_dtype, 88, 4, &[9, 3])?];
                    let what = format!("{what}, with gaps");
                    list.add("index_select", what, inputs, move |x| {
                        let table = x[0].narrow(0, 1, 120)?.reshape((4, 6, 5))?;
                        table.index_select(&x[1].narrow(1, 1, 1)?.squeeze(1)?, 0)
                    });
                }
            }
        }
        scatter(list, dtype)?;
        let ids = Numbers::Integers((0..23).map(|i| i * i % 17).collect());
        let ids = Input::Fixed(ids.tensor(DType::U32, &[23])?);
        let inputs = vec![any(dtype, 90, &[17, 9])?, ids];
        list.add("embedding", name(dtype), inputs, |x| x[0].embedding(&x[1]));
    }
    Ok(())
}

/// To places that are named once.
fn scatter(list: &mut List, dtype: DType) -> Result<()> {
    let (rows, columns, along) = (6, 5, 4);
    for ids_dtype in INDICES {
        let places = (0..along * columns).map(|i| ((i / columns + i) % rows) as i64);
        let ids = Numbers::Integers(places.collect()).tensor(ids_dtype, &[along, columns])?;
        let inputs = vec![
            any(dtype, 91, &[rows, columns])?,
            Input::Fixed(ids),
            any(dtype, 92, &[along, columns])?,
        ];
        let what = format!("{} {}", name(dtype), name(ids_dtype));
        list.add("scatter", what, inputs, |x| x[0].scatter(&x[1], &x[2], 0));
    }
    Ok(())
}
