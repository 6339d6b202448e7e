//! Elements moved: joined, repeated, padded, turned, written into slices.

use candle_core::{Result, Tensor};

use super::{any, name, Layout, List, LAYOUTS, LONG};
use crate::numbers::all_dtypes;

const MOVES: [(&str, Layout); 10] = [
    ("cat", |x| Tensor::cat(&[x, x, x], 0)),
    ("cat along the last", |x| Tensor::cat(&[x, x], x.rank() - 1)),
    ("stack", |x| Tensor::stack(&[x, x], x.rank())),
    ("repeat", |x| {
        let mut times = vec![1; x.rank()];
        times[0] = 2;
        x.repeat(times)
    }),
    ("pad_with_zeros", |x| x.pad_with_zeros(x.rank() - 1, 2, 3)),
    ("pad_with_same", |x| x.pad_with_same(0, 1, 2)),
    // By index, which takes contiguous tensors only.
    ("flip", |x| x.contiguous()?.flip(&[0])),
    ("roll", |x| x.roll(2, x.rank() - 1)),
    ("slice_set", |x| {
        let mut dims = x.dims().to_vec();
        *dims.last_mut().expect("a dimension") += 3;
        let into = Tensor::zeros(dims, x.dtype(), x.device())?;
        into.slice_set(&x.contiguous()?, x.rank() - 1, 1)?;
        Ok(into)
    }),
    ("slice_assign", |x| {
        let into = x.contiguous()?;
        let part = into.narrow(0, 1, 2)?.affine(1.0, 1.0)?;
        into.slice_scatter0(&part, 0)
    }),
];

pub(super) fn add(list: &mut List) -> Result<()> {
    for dtype in all_dtypes() {
        let inputs = vec![any(dtype, 21, &[LONG])?];
        for (operator, run) in MOVES {
            for (layout, make) in [LAYOUTS[0], LAYOUTS[2], LAYOUTS[3], LAYOUTS[4]] {
                let what = format!("{}, {layout}", name(dtype));
                list.add(operator, what, inputs.clone(), move |x| run(&make(&x[0])?));
            }
        }
        list.add(
            "cat",
            format!("{}, mixed layouts", name(dtype)),
            inputs,
            |x| {
                let parts = [
                    x[0].narrow(0, 7, 35)?.reshape((5, 7))?,
                    x[0].narrow(0, 50, 21)?.reshape((7, 3))?.t()?,
                    x[0].narrow(0, 90, 7)?
                        .reshape((1, 7))?
                        .broadcast_as((4, 7))?,
                    x[0].narrow(0, 0, 0)?.reshape((0, 7))?,
                    x[0].narrow(0, 100, 90)?.reshape((6, 15))?.narrow(1, 3, 7)?,
                ];
                Tensor::cat(&parts, 0)
            },
        );
    }
    Ok(())
}
