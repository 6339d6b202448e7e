//! Sorting of the last dimension.

use candle_core::{DType, Result};

use super::{input, name, List};
use crate::numbers::{all_dtypes, Numbers};

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in all_dtypes() {
        for (rows, columns) in [(1, 1), (5, 2), (7, 31), (3, 64), (2, 127), (1, 1000)] {
            for ascending in [true, false] {
                let direction = if ascending { "up" } else { "down" };
                // As many different numbers as there are.
                let few = matches!(dtype, DType::U8 | DType::F8E4M3);
                let count = rows * columns;
                let what = format!("{} {rows} x {columns} {direction}", name(dtype));
                if !few || count <= 128 {
                    let numbers = input(&Numbers::different(dtype, 41, count), dtype, &[count])?;
                    list.add("arg_sort", &what, vec![numbers], move |x| {
                        let rows = x[0].reshape((rows, columns))?;
                        rows.arg_sort_last_dim(ascending)
                    });
                }
                // Of equal numbers, which comes first is not the same everywhere; the sorted numbers are.
                let ties = input(&Numbers::ties(dtype, 42, count), dtype, &[count])?;
                list.add("sort", &what, vec![ties.clone()], move |x| {
                    let rows = x[0].reshape((rows, columns))?;
                    Ok(rows.sort_last_dim(ascending)?.0)
                });
                list.add("arg_sort", format!("{what}, ties"), vec![ties], move |x| {
                    let rows = x[0].reshape((rows, columns))?;
                    rows.arg_sort_last_dim(ascending)
                });
            }
        }
    }
    Ok(())
}
