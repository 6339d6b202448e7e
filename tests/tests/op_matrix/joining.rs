//! Operators that only move elements: copies out of every layout, cat, slices written and read, repeats, pads.

use anyhow::Result;
use candle_core::{Device, Tensor};
use candle_rocm_tests::device;

use super::compare::{check, Nearness};
use super::inputs::*;

type Move = fn(&Tensor) -> candle_core::Result<Tensor>;

/// On tensors with at least one dimension; the first one is where pieces are joined.
const MOVES: [(&str, Move); 12] = [
    ("cat along the first", |x| Tensor::cat(&[x, x, x], 0)),
    ("cat along the last", |x| Tensor::cat(&[x, x], x.rank() - 1)),
    ("stack", |x| Tensor::stack(&[x, x], 0)),
    ("stack last", |x| Tensor::stack(&[x, x], x.rank())),
    ("repeat", |x| {
        let mut times = vec![1; x.rank()];
        times[0] = 2;
        *times.last_mut().expect("a dimension") += 1;
        x.repeat(times)
    }),
    ("pad_with_zeros", |x| x.pad_with_zeros(x.rank() - 1, 2, 3)),
    // By index, which takes contiguous tensors only, on every backend.
    ("flip", |x| x.contiguous()?.flip(&[0])),
    ("roll", |x| x.roll(2, x.rank() - 1)),
    ("flatten", |x| x.flatten_all()?.force_contiguous()),
    ("transposed copy", |x| {
        x.transpose(0, x.rank() - 1)?.force_contiguous()
    }),
    ("slice_set in the middle", |x| {
        let mut dims = x.dims().to_vec();
        dims[0] += 5;
        let into = Tensor::zeros(dims, x.dtype(), x.device())?;
        into.slice_set(&x.contiguous()?, 0, 3)?;
        Ok(into)
    }),
    ("slice_set along the last", |x| {
        let last = x.rank() - 1;
        let mut dims = x.dims().to_vec();
        dims[last] += 3;
        let into = Tensor::zeros(dims, x.dtype(), x.device())?;
        into.slice_set(&x.contiguous()?, last, 1)?;
        Ok(into)
    }),
];

#[test]
fn elements_arrive() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 21)?;
        for (layout, make) in LAYOUTS {
            let [_, tensor] = pair(make, &long, &gpu)?;
            let what = format!("copy of {dtype:?}, {layout}");
            let input = [tensor.clone()];
            check(&what, &input, Nearness::Same, &|x| x[0].force_contiguous())?;
            if tensor.rank() == 0 {
                continue;
            }
            for (name, operator) in MOVES {
                // `flip` selects by index, which on every backend is refused on an empty dimension.
                if tensor.elem_count() == 0 && matches!(name, "flip" | "roll") {
                    continue;
                }
                let what = format!("{name} of {dtype:?}, {layout}");
                check(&what, &input, Nearness::Same, &|x| operator(&x[0]))?;
            }
        }
    }
    Ok(())
}

/// Tensors of different layouts and lengths in one.
#[test]
fn mixed_layouts_are_joined() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 22)?.to_device(&gpu)?;
        let inputs = [
            long.narrow(0, 7, 35)?.reshape((5, 7))?,
            long.narrow(0, 50, 21)?.reshape((7, 3))?.t()?,
            long.narrow(0, 100, 7)?
                .reshape((1, 7))?
                .broadcast_as((4, 7))?,
            long.narrow(0, 200, 0)?.reshape((0, 7))?,
            long.narrow(0, 300, 90)?.reshape((6, 15))?.narrow(1, 3, 7)?,
        ];
        let [a, b, c, d, e] = &inputs;
        for (name, parts, dim) in [
            (
                "rows",
                vec![a.clone(), b.t()?.narrow(0, 0, 7)?.t()?.clone(), c.clone()],
                0,
            ),
            (
                "with an empty one",
                vec![a.clone(), d.clone(), e.clone()],
                0,
            ),
            (
                "columns",
                vec![a.narrow(0, 0, 3)?, b.clone(), e.narrow(0, 1, 3)?],
                1,
            ),
        ] {
            let what = format!("cat of {dtype:?}, {name}");
            check(&what, &parts, Nearness::Same, &|x| Tensor::cat(x, dim))?;
        }
    }
    Ok(())
}

/// To the device and back, in every dtype, and from one device tensor to another.
#[test]
fn copies_between_devices() -> Result<()> {
    let gpu = device()?;
    for dtype in all_dtypes() {
        let long = numbers(dtype, 23)?;
        for (layout, make) in LAYOUTS {
            let [_, tensor] = pair(make, &long, &gpu)?;
            let what = format!("round trip of {dtype:?}, {layout}");
            check(&what, &[tensor], Nearness::Same, &|x| {
                x[0].to_device(&Device::Cpu)?.to_device(&gpu)
            })?;
        }
    }
    Ok(())
}
