//! Elements by index, reduced, sorted, summed along, found.

use candle_core::{DType, Result, Tensor, D};
use candle_rocm_backend::ops;
use parity::numbers::WIDE_FLOATS;

use crate::results::ladder::{any, indices, small, Kind, Ladders};

const EXACT: Kind = Kind {
    top: 32_771,
    least: 1,
    lawful: None,
    // Moved, or sums of small integers, which f32 holds.
    tolerance: Some([0., 0., 0.]),
};

const DTYPES: [DType; 5] = [DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64];

pub(super) fn indexing(ladders: &mut Ladders) {
    for dtype in DTYPES {
        let of = |name: &str| format!("{name} {}", dtype.as_str());
        let inputs = move |size: usize| {
            let rows = size.div_ceil(9);
            Ok(vec![
                small(dtype, 11, &[rows, 9])?,
                indices(rows, 12, &[rows])?,
                small(dtype, 13, &[rows, 9])?,
            ])
        };
        ladders.add(EXACT, of("index_select"), inputs, |x| {
            x[0].index_select(&x[1], 0)
        });
        // Each index once or several times: sums of at most some tens of small integers, exact in all dtypes.
        ladders.add(EXACT, of("index_add"), inputs, |x| {
            x[0].index_add(&x[1], &x[2], 0)
        });
        let inputs = move |size: usize| {
            let rows = size.div_ceil(9);
            Ok(vec![
                small(dtype, 14, &[rows, 9])?,
                indices(rows, 15, &[rows, 9])?,
                small(dtype, 16, &[rows, 9])?,
            ])
        };
        ladders.add(EXACT, of("gather"), inputs, |x| x[0].gather(&x[1], 0));
        ladders.add(EXACT, of("scatter_add"), inputs, |x| {
            x[0].scatter_add(&x[1], &x[2], 0)
        });
    }
}

pub(super) fn reduce(ladders: &mut Ladders) {
    for dtype in DTYPES {
        let mut add = |name: &str, run: fn(&Tensor) -> Result<Tensor>| {
            let name = format!("{name} {}", dtype.as_str());
            // Few long rows, which are split over workgroups.
            ladders.add(
                EXACT,
                name,
                move |size| Ok(vec![small(dtype, 17, &[3, size])?]),
                move |x| run(&x[0]),
            );
        };
        // Sums of 3 x 32,771 integers of -4 to 3 are below 2^24; of f16 and bf16 the last rounding is the only one.
        add("sum of rows", |x| x.sum(1));
        add("sum of columns", |x| x.t()?.contiguous()?.sum(0));
        add("max of rows", |x| x.max(1));
        add("argmax of rows", |x| x.argmax(D::Minus1));
    }
}

pub(super) fn sort(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::I64, DType::U8] {
        let mut add = |name: &str, run: fn(&Tensor) -> Result<Tensor>| {
            let name = format!("{name} {}", dtype.as_str());
            ladders.add(
                EXACT,
                name,
                move |size| Ok(vec![any(dtype, 18, &[2, size])?]),
                move |x| run(&x[0]),
            );
        };
        add("sort", |x| Ok(ops::sort(x, true)?.0));
        add("argsort, descending", |x| ops::argsort(x, false));
        add("topk", |x| Ok(ops::topk(x, x.dim(1)?.min(50), true)?.1));
    }
}

pub(super) fn scan(ladders: &mut Ladders) {
    for dtype in WIDE_FLOATS {
        // Sums on the way are beyond what f16 and bf16 hold exactly: one rounding each.
        let inputs = move |size: usize| Ok(vec![small(dtype, 19, &[2, size])?]);
        ladders.add(EXACT, format!("rows {}", dtype.as_str()), inputs, |x| {
            ops::cumsum(&x[0], 1)
        });
        let inputs = move |size: usize| Ok(vec![small(dtype, 20, &[size, 3])?]);
        ladders.add(EXACT, format!("columns {}", dtype.as_str()), inputs, |x| {
            ops::cumsum(&x[0], 0)
        });
    }
}

pub(super) fn positions(ladders: &mut Ladders) {
    for dtype in [DType::F32, DType::U8] {
        let inputs = move |size: usize| Ok(vec![small(dtype, 21, &[size])?]);
        ladders.add(EXACT, format!("nonzero {}", dtype.as_str()), inputs, |x| {
            ops::nonzero(&x[0])
        });
    }
    let inputs = move |size: usize| Ok(vec![indices(37, 22, &[size])?]);
    ladders.add(EXACT, "bincount u32", inputs, |x| ops::bincount(&x[0], 37));
}
