//! Sums and extrema over each dimension and over several, and what is made of them.

use candle_core::{DType, Result, Tensor, D};

use super::{input, name, Layout, List, LAYOUTS, LONG};
use crate::case::Input;
use crate::numbers::{all_dtypes, Numbers, WIDE_FLOATS};

type Reduce = fn(&Tensor, usize) -> Result<Tensor>;

const OVER_ONE: [(&str, Reduce); 5] = [
    ("sum", |x, dim| x.sum(dim)),
    ("min", |x, dim| x.min(dim)),
    ("max", |x, dim| x.max_keepdim(dim)),
    ("argmin", |x, dim| x.argmin(dim)),
    ("argmax", |x, dim| x.argmax_keepdim(dim)),
];

/// Numbers of which no two are equal, so that an extremum has one place. There are not as many of 8 bits.
fn different(dtype: DType, seed: u64, count: usize) -> Numbers {
    match dtype {
        DType::U8 | DType::F8E4M3 => Numbers::any(dtype, seed, count),
        _ => Numbers::different(dtype, seed, count),
    }
}

pub(super) fn add(list: &mut List) -> Result<()> {
    let layouts: [(&str, Layout, usize); 4] = [
        ("contiguous", LAYOUTS[0].1, 3),
        ("transposed", LAYOUTS[2].1, 3),
        ("columns from an offset", LAYOUTS[4].1, 3),
        ("five dimensions permuted", LAYOUTS[5].1, 5),
    ];
    for dtype in all_dtypes() {
        // Sums of i64 stay in range: the CPU's checks for overflow end the process.
        let any = Numbers::any(dtype, 11, LONG).smaller(if dtype == DType::I64 { 20 } else { 0 });
        let any = input(&any, dtype, &[LONG])?;
        let picked = input(&different(dtype, 12, LONG), dtype, &[LONG])?;
        for (operator, run) in OVER_ONE {
            let input = if operator == "sum" { &any } else { &picked };
            if matches!(dtype, DType::U8 | DType::F8E4M3) && operator.starts_with("arg") {
                // The first of equals is in cases of ties.
                continue;
            }
            for (layout, make, rank) in layouts {
                for dim in 0..rank {
                    let what = format!("{}, {layout}, over dimension {dim}", name(dtype));
                    list.add(operator, what, vec![input.clone()], move |x| {
                        run(&make(&x[0])?, dim)
                    });
                }
            }
        }
        let inputs = vec![any];
        for (what, run) in [
            ("all", (|x| x.sum_all()) as Layout),
            ("dimensions 0 and 2", |x| x.sum((0, 2))),
            ("dimensions 2 and 1", |x| x.sum_keepdim((2, 1))),
        ] {
            for (layout, make, _) in &layouts[..3] {
                let make = *make;
                let what = format!("{}, {layout}, over {what}", name(dtype));
                list.add("sum", what, inputs.clone(), move |x| run(&make(&x[0])?));
            }
        }
        long_rows(list, dtype)?;
        ties(list, dtype)?;
    }
    composed(list)?;
    special(list)
}

/// Longer than a workgroup.
fn long_rows(list: &mut List, dtype: DType) -> Result<()> {
    let sizes = [2, 2051];
    // 8-bit sums saturate.
    let any = match dtype {
        DType::F8E4M3 => return Ok(()),
        DType::I64 => Numbers::any(dtype, 13, 4102).smaller(20),
        _ => Numbers::any(dtype, 13, 4102),
    };
    let any = input(&any, dtype, &sizes)?;
    let picked = input(&different(dtype, 14, 4102), dtype, &sizes)?;
    for (operator, run) in OVER_ONE {
        let input = if operator == "sum" { &any } else { &picked };
        if dtype == DType::U8 && operator.starts_with("arg") {
            continue;
        }
        for dim in 0..2 {
            let what = format!("{}, 2 x 2051, over dimension {dim}", name(dtype));
            list.add(operator, what, vec![input.clone()], move |x| {
                run(&x[0], dim)
            });
        }
    }
    Ok(())
}

/// Many equal numbers: the extremum itself, and the first of its places.
fn ties(list: &mut List, dtype: DType) -> Result<()> {
    let inputs = vec![input(&Numbers::ties(dtype, 15, 7 * 45), dtype, &[7, 45])?];
    for (operator, run) in &OVER_ONE[1..] {
        let run = *run;
        let what = format!("{}, ties", name(dtype));
        list.add(operator, what, inputs.clone(), move |x| run(&x[0], 1));
    }
    Ok(())
}

fn composed(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        let inputs = vec![super::any(dtype, 16, &[5, 33])?];
        for (operator, run) in [
            ("mean", (|x| x.mean_keepdim(1)) as Layout),
            ("mean_all", |x| x.mean_all()),
            ("var", |x| x.var(D::Minus1)),
            ("log_sum_exp", |x| x.log_sum_exp(1)),
            ("norm", |x| x.flatten_all()?.norm()),
            ("cumsum", |x| x.cumsum(1)),
            ("dot", |x| x.get(0)?.dot(&x.get(1)?)),
        ] {
            list.add(operator, name(dtype), inputs.clone(), move |x| run(&x[0]));
        }
    }
    Ok(())
}

/// NaN and infinities among numbers.
fn special(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        let columns = 517;
        let Numbers::Floats(mut all) = Numbers::different(dtype, 17, 6 * columns) else {
            continue;
        };
        for (row, place) in [(0, 0), (1, 300), (2, columns - 1), (3, 5), (3, 6)] {
            all[row * columns + place] = f64::NAN;
        }
        all[4 * columns..5 * columns].fill(f64::NAN);
        all[5 * columns + 100] = f64::NEG_INFINITY;
        all[5 * columns + 101] = f64::INFINITY;
        let input = Input::Number(Numbers::Floats(all).tensor(dtype, &[6, columns])?);
        for (operator, run) in OVER_ONE {
            for (what, row) in [
                ("a NaN first", 0),
                ("a NaN inside", 1),
                ("a NaN last", 2),
                ("two NaNs", 3),
                ("NaNs only", 4),
                ("infinities", 5),
            ] {
                // The sum of the two infinities is a NaN, too.
                let what = format!("{}, {what}", name(dtype));
                list.add(operator, what, vec![input.clone()], move |x| {
                    run(&x[0].narrow(0, row, 1)?, 1)
                });
            }
        }
    }
    Ok(())
}
