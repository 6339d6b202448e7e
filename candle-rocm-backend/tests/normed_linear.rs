//! Norms within skinny products, and gated products, against plain Rust in f64.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::graph::recorded;
use candle_rocm_backend::ops::{normed_linear, normed_swiglu};
use candle_rocm_testing::activations::silu;
use common::{normal, numbers, Random};

/// Which f32 has, as kernels take it.
const EPSILON: f64 = 1. / 131_072.;

/// Rows of x, of the weight, and elements of both.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    count: usize,
    n: usize,
    k: usize,
}

struct Case {
    sizes: Sizes,
    x: Tensor,
    norm: Tensor,
    weight: Tensor,
    bias: Option<Tensor>,
}

/// A product, and a bound of its error.
#[derive(Clone, Copy)]
struct Bounded {
    value: f64,
    error: f64,
}

impl Case {
    fn new(sizes: Sizes, dtype: DType, with_bias: bool, device: &Device) -> Result<Self> {
        let Sizes { count, n, k } = sizes;
        let mut random = Random::new((count * 7 + n * 31 + k) as u64);
        let mut drawn = |shape: &[usize], scale: f32| -> Result<Tensor> {
            let values = normal(&mut random, shape.iter().product());
            let values = values.into_iter().map(|x| x * scale).collect();
            Tensor::from_vec(values, shape, &Device::Cpu)?
                .to_dtype(dtype)?
                .to_device(device)
        };
        Ok(Self {
            sizes,
            x: drawn(&[count, k], 3.)?,
            norm: drawn(&[k], 1.)?,
            weight: drawn(&[n, k], 1. / (k as f32).sqrt())?,
            bias: with_bias.then(|| drawn(&[n], 1.)).transpose()?,
        })
    }

    /// Half the distance from 1 to the next number.
    fn rounding(&self) -> f64 {
        match self.x.dtype() {
            DType::F16 => 2f64.powi(-11),
            DType::BF16 => 2f64.powi(-8),
            DType::F32 => 2f64.powi(-24),
            _ => 2f64.powi(-53),
        }
    }

    /// The products, before they are rounded: each of what is normed is rounded once, and sums in f32 (f64) lose a few
    /// roundings of theirs.
    fn products(&self) -> Result<Vec<Bounded>> {
        let Sizes { count, n, k } = self.sizes;
        let (x, norm, weight) = (
            numbers(&self.x)?,
            numbers(&self.norm)?,
            numbers(&self.weight)?,
        );
        let bias = self.bias.as_ref().map(numbers).transpose()?;
        let of_sums = if self.x.dtype() == DType::F64 {
            2f64.powi(-53)
        } else {
            2f64.powi(-24)
        };
        let mut all = Vec::with_capacity(count * n);
        for row in x.chunks(k.max(1)).take(count) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / k as f64;
            let scale = 1. / (mean + EPSILON).sqrt();
            let normed: Vec<f64> = row.iter().zip(&norm).map(|(x, w)| x * scale * w).collect();
            for (n, of_weight) in weight.chunks(k).enumerate() {
                let terms = normed.iter().zip(of_weight).map(|(x, w)| x * w);
                let (value, sizes) = terms.fold((0., 0.), |(sum, sizes), term| {
                    (sum + term, sizes + term.abs())
                });
                let steps = 8. + (k as f64).sqrt();
                all.push(Bounded {
                    value: value + bias.as_ref().map_or(0., |bias| bias[n]),
                    error: sizes * (self.rounding() + of_sums * steps),
                });
            }
        }
        Ok(all)
    }

    fn assert(&self, result: &Tensor, expected: &[Bounded], what: &str) -> Result<()> {
        let n = expected.len() / self.sizes.count;
        assert_eq!(result.dims(), [self.sizes.count, n]);
        for (at, (&found, Bounded { value, error })) in
            numbers(result)?.iter().zip(expected).enumerate()
        {
            let error = error + 2. * self.rounding() * value.abs() + f64::MIN_POSITIVE;
            assert!(
                (found - value).abs() <= error,
                "{what} of {:?} and {:?}, element {at}: {found} for {value}, {error} allowed",
                self.sizes,
                self.x.dtype()
            );
        }
        Ok(())
    }

    fn linear(&self) -> Result<()> {
        let bias = self.bias.as_ref();
        let result = normed_linear(&self.x, &self.norm, EPSILON, &self.weight, bias)?;
        self.assert(&result, &self.products()?, "normed_linear")
    }

    fn swiglu(&self) -> Result<()> {
        let half = self.sizes.n / 2;
        let rounding = self.rounding();
        let of_row = |row: &[Bounded]| -> Vec<Bounded> {
            let (gates, ups) = row.split_at(half);
            let pairs = gates.iter().zip(ups);
            let gated = pairs.map(|(gate, up)| {
                // Operators one by one round each product. silu's slope is at most 1.1.
                let gate_error = gate.error + rounding * gate.value.abs();
                let up_error = up.error + rounding * up.value.abs();
                let (g, u) = (silu(gate.value), up.value);
                Bounded {
                    value: g * u,
                    error: 1.1 * gate_error * (u.abs() + up_error)
                        + (g.abs() + 1.1 * gate_error) * up_error
                        + 8. * 2f64.powi(-24) * (g * u).abs(),
                }
            });
            gated.collect()
        };
        let products = self.products()?;
        let expected: Vec<Bounded> = products.chunks(self.sizes.n).flat_map(of_row).collect();
        let result = normed_swiglu(&self.x, &self.norm, EPSILON, &self.weight)?;
        self.assert(&result, &expected, "normed_swiglu")
    }
}

#[test]
fn norms_within_products_are_right() -> Result<()> {
    // Rows that fill no workgroup, one that does, several; k of a vector, of less than a step, of a step and a half, of
    // more than what is held of x; as much of 16 bits as LDS is given for, and more; rows of x up to 16 and beyond.
    let sizes = [
        (1, 1, 8),
        (1, 7, 64),
        (1, 100, 520),
        (2, 33, 1032),
        (1, 18, 4104),
        (1, 18, 5632),
        (1, 17, 5640),
        (3, 64, 256),
        (8, 20, 512),
        (16, 34, 136),
        (17, 6, 64),
        (1, 300, 128),
    ];
    for device in [Device::Cpu, common::device()?] {
        for (n_case, (count, n, k)) in sizes.into_iter().enumerate() {
            for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
                let sizes = Sizes { count, n, k };
                Case::new(sizes, dtype, n_case % 2 == 1, &device)?.linear()?;
                if n % 2 == 0 {
                    Case::new(sizes, dtype, false, &device)?.swiglu()?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn one_row_is_one_launch() -> Result<()> {
    let device = common::device()?;
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let sizes = Sizes {
            count: 1,
            n: 64,
            k: 256,
        };
        let case = Case::new(sizes, dtype, false, &device)?;
        let (done, noted) = recorded(|| {
            case.linear()?;
            case.swiglu()
        });
        done?;
        let expected =
            ["normed_skinny", "gated_skinny"].map(|kind| format!("{kind}_{}", dtype.as_str()));
        assert_eq!(noted.kernels, expected);
    }
    Ok(())
}
