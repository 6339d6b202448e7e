//! Norms within skinny products, and gated products, of weights of the columns' type and of FP8, against plain Rust in f64.

mod common;

use candle_core::{DType, Device, Result, Tensor};
use candle_rocm_backend::fp8::{self, Fp8Matrix, ScaleFormat, Share};
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

/// What a case multiplies with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Weights of the columns' type.
    Dense,
    /// FP8 whose factors are of 128 x 128.
    Blocks,
    /// FP8 with one factor.
    All,
    /// FP8 with a factor for each row and 128 elements of it.
    Rows,
}

enum Weight {
    Dense(Tensor),
    Fp8(Fp8Matrix),
}

impl Weight {
    fn new(values: &Tensor, kind: Kind, dtype: DType) -> Result<Self> {
        Ok(match kind {
            Kind::Dense => Self::Dense(values.to_dtype(dtype)?),
            Kind::Blocks => Self::Fp8(fp8::cast_per_block(values, ScaleFormat::F32)?),
            Kind::Rows => Self::Fp8(fp8::cast_per_token(values, ScaleFormat::F32)?),
            Kind::All => Self::Fp8(fp8::cast_per_tensor(values, ScaleFormat::F32)?),
        })
    }

    /// What the weights stand for, of FP8 element times factor.
    fn numbers(&self) -> Result<Vec<f64>> {
        let matrix = match self {
            Self::Dense(weight) => return numbers(weight),
            Self::Fp8(matrix) => matrix,
        };
        let (_, k) = matrix.data().dims2()?;
        // By f32: Candle's conversion of F8E4M3 to f64 on the CPU does not end.
        let data = matrix
            .data()
            .to_device(&Device::Cpu)?
            .to_dtype(DType::F32)?;
        let scales = matrix
            .unpacked_scales()?
            .to_device(&Device::Cpu)?
            .to_vec2::<f32>()?;
        let place = |share: Share, at: usize| match share {
            Share::One => at,
            Share::Block => at / 128,
            Share::All => 0,
        };
        let [of_rows, of_k] = matrix.shares();
        let elements = data
            .flatten_all()?
            .to_vec1::<f32>()?
            .into_iter()
            .enumerate();
        Ok(elements
            .map(|(at, x)| {
                let factor = scales[place(of_rows, at / k)][place(of_k, at % k)];
                f64::from(x) * f64::from(factor)
            })
            .collect())
    }
}

struct Case {
    sizes: Sizes,
    x: Tensor,
    norm: Tensor,
    weight: Weight,
    bias: Option<Tensor>,
}

/// A product, and a bound of its error.
#[derive(Clone, Copy)]
struct Bounded {
    value: f64,
    error: f64,
}

impl Case {
    fn new(
        sizes: Sizes,
        kind: Kind,
        dtype: DType,
        with_bias: bool,
        device: &Device,
    ) -> Result<Self> {
        let Sizes { count, n, k } = sizes;
        let mut random = Random::new((count * 7 + n * 31 + k) as u64);
        let mut drawn = |shape: &[usize], scale: f32| -> Result<Tensor> {
            let values = normal(&mut random, shape.iter().product());
            let values = values.into_iter().map(|x| x * scale).collect();
            Tensor::from_vec(values, shape, &Device::Cpu)?.to_device(device)
        };
        Ok(Self {
            sizes,
            x: drawn(&[count, k], 3.)?.to_dtype(dtype)?,
            norm: drawn(&[k], 1.)?.to_dtype(dtype)?,
            weight: Weight::new(&drawn(&[n, k], 1. / (k as f32).sqrt())?, kind, dtype)?,
            bias: with_bias
                .then(|| drawn(&[n], 1.)?.to_dtype(dtype))
                .transpose()?,
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

    /// The products, before they are rounded: each of what is normed is rounded once, as is each weight of FP8 that is
    /// widened, and sums in f32 (f64) lose a few roundings of theirs.
    fn products(&self, is_normed: bool) -> Result<Vec<Bounded>> {
        let Sizes { count, n, k } = self.sizes;
        let (x, norm, weight) = (
            numbers(&self.x)?,
            numbers(&self.norm)?,
            self.weight.numbers()?,
        );
        let bias = self.bias.as_ref().map(numbers).transpose()?;
        let of_sums = if self.x.dtype() == DType::F64 {
            2f64.powi(-53)
        } else {
            2f64.powi(-24)
        };
        let roundings = match (&self.weight, is_normed) {
            (Weight::Dense(_), normed) => f64::from(u8::from(normed)),
            (Weight::Fp8(_), normed) => 1. + f64::from(u8::from(normed)),
        };
        // Factors of FP8 are f32.
        let of_sums = if matches!(self.weight, Weight::Fp8(_)) {
            2f64.powi(-24)
        } else {
            of_sums
        };
        let mut all = Vec::with_capacity(count * n);
        for row in x.chunks(k.max(1)).take(count) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / k as f64;
            let scale = 1. / (mean + EPSILON).sqrt();
            let normed: Vec<f64> = match is_normed {
                true => row.iter().zip(&norm).map(|(x, w)| x * scale * w).collect(),
                false => row.to_vec(),
            };
            for (n, of_weight) in weight.chunks(k).enumerate() {
                let terms = normed.iter().zip(of_weight).map(|(x, w)| x * w);
                let (value, sizes) = terms.fold((0., 0.), |(sum, sizes), term| {
                    (sum + term, sizes + term.abs())
                });
                let steps = 8. + (k as f64).sqrt();
                all.push(Bounded {
                    value: value + bias.as_ref().map_or(0., |bias| bias[n]),
                    error: sizes * (roundings * self.rounding() + of_sums * steps),
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
        let Self { x, norm, .. } = self;
        let result = match &self.weight {
            Weight::Dense(weight) => normed_linear(x, norm, EPSILON, weight, bias)?,
            Weight::Fp8(weight) => fp8::normed_linear(x, norm, EPSILON, weight, bias)?,
        };
        self.assert(&result, &self.products(true)?, "normed_linear")
    }

    /// FP8 weights and columns as they are, with a residual.
    fn plain(&self) -> Result<()> {
        let Weight::Fp8(weight) = &self.weight else {
            return Ok(());
        };
        let Sizes { count, n, .. } = self.sizes;
        let residual = (0..count * n).map(|at| (at % 13) as f32 - 6.).collect();
        let residual = Tensor::from_vec(residual, (count, n), &Device::Cpu)?
            .to_dtype(self.x.dtype())?
            .to_device(self.x.device())?;
        let bias = self.bias.as_ref();
        let result = fp8::linear(&self.x, weight, bias, Some(&residual))?;
        let mut expected = self.products(false)?;
        for (product, residual) in expected.iter_mut().zip(numbers(&residual)?) {
            // Where products are rounded before the sum.
            product.error += 2. * self.rounding() * product.value.abs();
            product.value += residual;
        }
        self.assert(&result, &expected, "fp8::linear")
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
        let products = self.products(true)?;
        let expected: Vec<Bounded> = products.chunks(self.sizes.n).flat_map(of_row).collect();
        let Self { x, norm, .. } = self;
        let result = match &self.weight {
            Weight::Dense(weight) => normed_swiglu(x, norm, EPSILON, weight)?,
            Weight::Fp8(weight) => fp8::normed_swiglu(x, norm, EPSILON, weight)?,
        };
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
                let kind = Kind::Dense;
                Case::new(sizes, kind, dtype, n_case % 2 == 1, &device)?.linear()?;
                if n % 2 == 0 {
                    Case::new(sizes, kind, dtype, false, &device)?.swiglu()?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn weights_in_fp8_are_multiplied_by_columns_as_they_are() -> Result<()> {
    // Rows that end within a block of factors, gates whose others begin within one and between two; k of a vector, of
    // less than a block, of blocks and a part; columns beyond what is held in LDS, as many as a kernel takes, and more.
    let sizes = [
        (1, 7, 16),
        (1, 96, 112),
        (1, 160, 400),
        (2, 352, 1040),
        (1, 32, 4112),
        (1, 36, 5648),
        (8, 130, 512),
        (17, 64, 144),
        (1, 300, 130),
    ];
    for device in [Device::Cpu, common::device()?] {
        for (n_case, (count, n, k)) in sizes.into_iter().enumerate() {
            for dtype in [DType::F16, DType::BF16, DType::F32] {
                for kind in [Kind::Blocks, Kind::All, Kind::Rows] {
                    let sizes = Sizes { count, n, k };
                    let case = Case::new(sizes, kind, dtype, n_case % 2 == 1, &device)?;
                    case.linear()?;
                    case.plain()?;
                    if n % 2 == 0 {
                        Case::new(sizes, kind, dtype, false, &device)?.swiglu()?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn weights_that_do_not_fit_are_errors_with_names() -> Result<()> {
    let device = common::device()?;
    let sizes = Sizes {
        count: 1,
        n: 32,
        k: 64,
    };
    let case = Case::new(sizes, Kind::Blocks, DType::BF16, false, &device)?;
    let Weight::Fp8(weight) = &case.weight else {
        unreachable!("a case of FP8");
    };
    let x = case.x.narrow(1, 0, 48)?;
    let error = fp8::linear(&x, weight, None, None).unwrap_err().to_string();
    assert!(error.contains("linear: x of shape [1, 48]"), "{error}");
    let batch = Tensor::ones((2, 32, 64), DType::F32, &device)?;
    let batch = fp8::cast_per_block(&batch, ScaleFormat::F32)?;
    let error = fp8::linear(&case.x, &batch, None, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("one matrix"), "{error}");
    Ok(())
}

#[test]
fn one_row_of_fp8_weights_is_one_launch() -> Result<()> {
    let device = common::device()?;
    for dtype in [DType::F16, DType::BF16] {
        let sizes = Sizes {
            count: 1,
            n: 64,
            k: 256,
        };
        let case = Case::new(sizes, Kind::Blocks, dtype, false, &device)?;
        let (done, noted) = recorded(|| {
            case.linear()?;
            case.swiglu()
        });
        done?;
        let expected = ["normed_fp8", "gated_fp8"].map(|kind| format!("{kind}_{}", dtype.as_str()));
        let found: Vec<_> = noted
            .kernels
            .iter()
            .filter(|name| name.contains("fp8"))
            .collect();
        assert_eq!(found, expected.iter().collect::<Vec<_>>());
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
        let case = Case::new(sizes, Kind::Dense, dtype, false, &device)?;
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
