//! Operators on single elements: of one tensor, of two, choices, constants.

use candle_core::{DType, Result, Tensor, D};

use super::{any, input, name, List, LAYOUTS, LONG, SMALL_LAYOUTS};
use crate::case::Input;
use crate::numbers::{largest, smallest, Numbers, FLOATS, INTEGERS, WIDE_FLOATS};

type Unary = fn(&Tensor) -> Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Operators on floats; whether they take positive numbers only.
const UNARY: [(&str, Unary, bool); 26] = [
    ("exp", Tensor::exp, false),
    ("log", Tensor::log, true),
    ("sin", Tensor::sin, false),
    ("cos", Tensor::cos, false),
    ("tanh", Tensor::tanh, false),
    ("neg", Tensor::neg, false),
    ("recip", Tensor::recip, false),
    ("sqr", Tensor::sqr, false),
    ("sqrt", Tensor::sqrt, true),
    ("gelu", Tensor::gelu, false),
    ("gelu_erf", Tensor::gelu_erf, false),
    ("erf", Tensor::erf, false),
    ("silu", Tensor::silu, false),
    ("abs", Tensor::abs, false),
    ("ceil", Tensor::ceil, false),
    ("floor", Tensor::floor, false),
    ("round", Tensor::round, false),
    ("relu", Tensor::relu, false),
    ("sign", Tensor::sign, false),
    ("sigmoid", candle_nn::ops::sigmoid, false),
    ("elu", |x| x.elu(0.5), false),
    ("powf", |x| x.powf(1.5), true),
    ("affine", |x| x.affine(1.5, -0.25), false),
    ("copy", Tensor::force_contiguous, false),
    ("clamp", |x| x.clamp(-1.5, 2.0), false),
    ("hard_sigmoid", candle_nn::ops::hard_sigmoid, false),
];

/// Made of other operators: in one layout.
const COMPOSED: [(&str, Unary); 5] = [
    ("mish", candle_nn::ops::mish),
    ("leaky_relu", |x| candle_nn::ops::leaky_relu(x, 0.125)),
    ("selu", |x| candle_nn::ops::selu(x, 1.6733, 1.0507)),
    ("swiglu", |x| {
        candle_nn::ops::swiglu(&x.narrow(D::Minus1, 0, 10)?.contiguous()?)
    }),
    ("round_to", |x| x.round_to(1)),
];

const BINARY: [(&str, Binary); 6] = [
    ("add", Tensor::add),
    ("sub", Tensor::sub),
    ("mul", Tensor::mul),
    ("div", Tensor::div),
    ("minimum", |a, b| a.minimum(b)),
    ("maximum", |a, b| a.maximum(b)),
];

const COMPARISONS: [(&str, Binary); 6] = [
    ("eq", |a, b| a.eq(b)),
    ("ne", |a, b| a.ne(b)),
    ("lt", |a, b| a.lt(b)),
    ("le", |a, b| a.le(b)),
    ("gt", |a, b| a.gt(b)),
    ("ge", |a, b| a.ge(b)),
];

pub(super) fn add(list: &mut List) -> Result<()> {
    unary(list)?;
    binary(list)?;
    choices(list)?;
    special(list)?;
    constants(list)
}

fn unary(list: &mut List) -> Result<()> {
    for dtype in FLOATS {
        let numbers = Numbers::any(dtype, 1, LONG);
        let positive = input(&numbers.clone().positive(), dtype, &[LONG])?;
        let numbers = input(&numbers, dtype, &[LONG])?;
        for (operator, run, takes_positive) in UNARY {
            let inputs = vec![if takes_positive { &positive } else { &numbers }.clone()];
            // 8-bit floats have no kernels on CUDA, two layouts of them will do.
            let layouts = if dtype == DType::F8E4M3 {
                &LAYOUTS[1..3]
            } else {
                &LAYOUTS[..5]
            };
            for &(layout, make) in layouts {
                let what = format!("{}, {layout}", name(dtype));
                list.add(operator, what, inputs.clone(), move |x| run(&make(&x[0])?));
            }
        }
        for (layout, make) in SMALL_LAYOUTS {
            for (operator, run, _) in [UNARY[0], UNARY[22], UNARY[23]] {
                let what = format!("{}, {layout}", name(dtype));
                let inputs = vec![numbers.clone()];
                list.add(operator, what, inputs, move |x| run(&make(&x[0])?));
            }
        }
    }
    for dtype in WIDE_FLOATS {
        for (operator, run) in COMPOSED {
            let mut inputs = vec![any(dtype, 2, &[5, 11])?];
            // Candle multiplies by numbers of f32 in selu, which it can in f32 only: so is the truth.
            if let ("selu", Input::Number(tensor)) = (operator, &inputs[0]) {
                if dtype != DType::F32 {
                    continue;
                }
                inputs = vec![Input::Fixed(tensor.clone())];
            }
            list.add(operator, name(dtype), inputs, move |x| run(&x[0]));
        }
    }
    for dtype in INTEGERS {
        for (layout, make) in LAYOUTS.into_iter().chain(SMALL_LAYOUTS) {
            let what = format!("{}, {layout}", name(dtype));
            let inputs = vec![any(dtype, 3, &[LONG])?];
            list.add("copy", &what, inputs.clone(), move |x| {
                make(&x[0])?.force_contiguous()
            });
            // Products of i64 wrap on the GPU; the CPU's checks for overflow end the process.
            let small = input(&Numbers::any(dtype, 3, LONG).smaller(3), dtype, &[LONG])?;
            list.add("affine", &what, vec![small], move |x| {
                make(&x[0])?.affine(3.0, 7.0)
            });
        }
    }
    Ok(())
}

/// Every third number of the second is the first's, so that comparisons have something to say; no zeros, because
/// integers cannot be divided by them.
fn sometimes_equal(dtype: DType, first: &Numbers) -> Numbers {
    fn mix<T: Copy>(first: &[T], second: &[T]) -> Vec<T> {
        let pairs = first.iter().zip(second).enumerate();
        pairs
            .map(|(i, (&a, &b))| if i % 3 == 0 { a } else { b })
            .collect()
    }
    let second = Numbers::any(dtype, 5, first.len());
    match (first, second) {
        (Numbers::Floats(a), Numbers::Floats(b)) => Numbers::Floats(mix(a, &b)),
        (Numbers::Integers(a), Numbers::Integers(b)) => Numbers::Integers(mix(a, &b)),
        (_, second) => second,
    }
    .without_zeros()
}

fn binary(list: &mut List) -> Result<()> {
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        // Short enough that neither sums nor products overflow in the truth's i64.
        let smaller = |numbers: Numbers| match dtype {
            DType::I64 => numbers.smaller(33),
            DType::U32 => numbers.smaller(1),
            _ => numbers,
        };
        let first = smaller(Numbers::any(dtype, 4, LONG));
        let second = sometimes_equal(dtype, &first);
        let second = smaller(second).without_zeros();
        let inputs = vec![
            input(&first, dtype, &[LONG])?,
            input(&second, dtype, &[LONG])?,
        ];
        let compares = !matches!(dtype, DType::I16 | DType::I32);
        let comparisons = COMPARISONS.iter().filter(|_| compares);
        for &(operator, run) in BINARY.iter().chain(comparisons) {
            let [contiguous, odd, transposed, broadcast, columns, _] = LAYOUTS;
            for (left, right) in [
                (odd, odd),
                (transposed, transposed),
                (contiguous, columns),
                (broadcast, contiguous),
            ] {
                // The transposed one is held to itself: the others have its sizes turned.
                let what = format!("{}, {} and {}", name(dtype), left.0, right.0);
                list.add(operator, what, inputs.clone(), move |x| {
                    run(&left.1(&x[0])?, &right.1(&x[1])?)
                });
            }
            let what = format!("{}, numbers and one number, broadcast", name(dtype));
            list.add(operator, what, inputs.clone(), move |x| {
                let left = x[0].narrow(0, 0, 21)?;
                run(&left, &x[1].narrow(0, 4, 1)?.broadcast_as(21)?)
            });
            let what = format!("{}, aligned", name(dtype));
            list.add(operator, what, inputs.clone(), move |x| {
                run(&x[0].narrow(0, 0, 256)?, &x[1].narrow(0, 0, 256)?)
            });
        }
    }
    Ok(())
}

fn choices(list: &mut List) -> Result<()> {
    for condition in [DType::U8, DType::U32, DType::I64] {
        let chooses = Numbers::ties(DType::U8, 6, LONG).tensor(DType::U8, &[LONG])?;
        let chooses = chooses.ge(4u8)?.to_dtype(condition)?;
        for dtype in FLOATS.into_iter().chain(INTEGERS) {
            let inputs = vec![
                Input::Fixed(chooses.clone()),
                any(dtype, 7, &[LONG])?,
                any(dtype, 8, &[LONG])?,
            ];
            for (layout, make) in [LAYOUTS[0], LAYOUTS[1], LAYOUTS[5]] {
                let what = format!("{} {}, {layout}", name(condition), name(dtype));
                list.add("where_cond", what, inputs.clone(), move |x| {
                    make(&x[0])?.where_cond(&make(&x[1])?, &make(&x[2])?)
                });
            }
            let what = format!("{} {}, broadcast and not", name(condition), name(dtype));
            list.add("where_cond", what, inputs, |x| {
                let [_, _, _, broadcast, columns, _] = LAYOUTS;
                let choose = broadcast.1(&x[0])?;
                choose.where_cond(&columns.1(&x[1])?, &LAYOUTS[0].1(&x[2])?)
            });
        }
    }
    Ok(())
}

/// NaN, infinities, both zeros, the largest and the smallest numbers.
fn special_numbers(dtype: DType) -> Vec<f64> {
    let least = smallest(dtype);
    let mut all = vec![f64::NAN, 0.0, 1.0, f64::INFINITY, largest(dtype), least];
    all.extend([0.5, 2.5, 1e-3]);
    all.extend(all.clone().into_iter().map(|number| -number));
    all
}

fn special(list: &mut List) -> Result<()> {
    for dtype in WIDE_FLOATS {
        let all = special_numbers(dtype);
        let count = all.len();
        let inputs = vec![input(&Numbers::Floats(all.clone()), dtype, &[count])?];
        for (operator, run, _) in UNARY {
            let what = format!("{}, special", name(dtype));
            list.add(operator, what, inputs.clone(), move |x| run(&x[0]));
        }
        let pairs = (0..count * count).map(|i| (all[i / count], all[i % count]));
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let first = input(&Numbers::Floats(first), dtype, &[count * count])?;
        let second = input(&Numbers::Floats(second), dtype, &[count * count])?;
        for (operator, run) in BINARY.into_iter().chain(COMPARISONS) {
            let inputs = vec![first.clone(), second.clone()];
            let what = format!("{}, special", name(dtype));
            list.add(operator, what, inputs, move |x| run(&x[0], &x[1]));
        }
    }
    Ok(())
}

fn constants(list: &mut List) -> Result<()> {
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        for count in [1, 63, 1025] {
            let like = || any(dtype, 9, &[1]).map(|like| vec![like]);
            let what = format!("{}, {count}", name(dtype));
            list.add("zeros", &what, like()?, move |x| {
                Tensor::zeros(count, x[0].dtype(), x[0].device())
            });
            list.add("ones", &what, like()?, move |x| {
                Tensor::ones(count, x[0].dtype(), x[0].device())
            });
        }
        for (layout, make) in [LAYOUTS[0], LAYOUTS[1], LAYOUTS[4], LAYOUTS[5]] {
            let inputs = vec![any(dtype, 10, &[LONG])?];
            let what = format!("{}, {layout}", name(dtype));
            // The whole buffer is the result: what lies beside the view must stay.
            list.add("one_set", &what, inputs.clone(), move |x| {
                let all = x[0].copy()?;
                make(&all)?.one_set()?;
                Ok(all)
            });
        }
    }
    for dtype in [DType::F32, DType::F64, DType::I64, DType::U32, DType::U8] {
        let inputs = vec![any(dtype, 9, &[1])?];
        let truth = |x: &[Tensor]| {
            Tensor::arange(0i64, 77, x[0].device())?
                .affine(2.0, 3.0)?
                .to_dtype(x[0].dtype())
        };
        list.add("arange", name(dtype), inputs, move |x| match dtype {
            DType::F32 => Tensor::arange_step(3f32, 157., 2., x[0].device()),
            DType::F64 => Tensor::arange_step(3f64, 157., 2., x[0].device()),
            DType::U32 => Tensor::arange_step(3u32, 157, 2, x[0].device()),
            DType::U8 => Tensor::arange_step(3u8, 157, 2, x[0].device()),
            _ => Tensor::arange_step(3i64, 157, 2, x[0].device()),
        })
        .truth_by(truth);
    }
    Ok(())
}
