//! Products with weights, dense, FP8 or in formats of GGUF.

use candle_core::quantized::{QMatMul, QStorage, QTensor};
use candle_core::{bail, DType, Device, Module, Result, Tensor};
use candle_rocm_backend::fp8::{self, Fp8Matrix, ScaleFormat};
use candle_rocm_backend::ops::{self, Activation};

/// Rows up to which a sum waits for the next product to norm it: those of decoding.
const FEW_ROWS: usize = 16;

/// Rows from which products of FP8 weights widen them, where no matrix unit multiplies FP8 as it is: the product in 16 bits is
/// then so much faster that it pays for writing and reading them. (One H200, 8B: 1,024 rows.)
const WIDENING_ROWS: usize = 256;

/// A product with weights of shape (n, k), transposed, as Candle's `Linear`, and a bias of n where there is one.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor>,
}

#[derive(Clone, Debug)]
enum Weight {
    /// Of the activations' dtype.
    Dense(Tensor),
    /// FP8 with a factor for each 128 x 128; activations are as they are, or cast by 128 of a row ([`takes_as_is`]).
    Fp8(Fp8Matrix),
    /// In a format of GGUF; activations are f32.
    Quantized(QMatMul),
}

impl Linear {
    /// One product in place of several with the same input: their results stand one after another.
    ///
    /// # Errors
    /// No weights, or of different k; the device has not the memory.
    pub fn dense(weights: &[Tensor]) -> Result<Self> {
        let weight = Weight::Dense(together(weights)?);
        Ok(Self { weight, bias: None })
    }

    /// The same with biases, a vector for each of the weights, where there are any.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn with_biases(self, biases: &[Tensor]) -> Result<Self> {
        let bias = match biases {
            [] => None,
            some => Some(together(some)?),
        };
        Ok(Self { bias, ..self })
    }

    /// As [`Linear::dense`] of quantised weights on `device`, which must have one format. One that is there already stays where it is;
    /// others travel once, together.
    ///
    /// # Errors
    /// As [`Linear::dense`]; several formats.
    pub fn quantized(mut weights: Vec<QTensor>, device: &Device) -> Result<Self> {
        if weights.len() == 1 {
            if let Some(one) = weights.pop_if(|one| one.device().same_device(device)) {
                return Self::of(one);
            }
        }
        let [first, rest @ ..] = &weights[..] else {
            bail!("a product needs weights");
        };
        let (mut rows, columns) = first.shape().dims2()?;
        let mut bytes = first.data()?;
        for weight in rest {
            let (more, k) = weight.shape().dims2()?;
            if k != columns || weight.dtype() != first.dtype() {
                bail!(
                    "quantised weights of {:?} and {:?}, and of {:?} and {:?}, are not one product's: they need one format \
                     and one k",
                    first.shape(),
                    first.dtype(),
                    weight.shape(),
                    weight.dtype()
                );
            }
            bytes.to_mut().extend_from_slice(&weight.data()?);
            rows += more;
        }
        let storage = QStorage::from_data(bytes, device, first.dtype())?;
        Self::of(QTensor::new(storage, (rows, columns))?)
    }

    /// The same with dense weights in FP8, each 128 x 128 with a factor of their own; half the bytes of 16 bits.
    ///
    /// # Errors
    /// The weights are quantised already, or the device has not the memory.
    pub fn to_fp8(&self) -> Result<Self> {
        let Weight::Dense(weight) = &self.weight else {
            bail!("Linear::to_fp8: these weights are quantised already: load them in 16 bits");
        };
        let weight = Weight::Fp8(fp8::cast_per_block(weight, ScaleFormat::F32)?);
        let bias = self.bias.clone();
        Ok(Self { weight, bias })
    }

    fn of(weight: QTensor) -> Result<Self> {
        let weight = Weight::Quantized(QMatMul::from_qtensor(weight)?);
        Ok(Self { weight, bias: None })
    }

    /// Whether the weights are in a format of GGUF.
    pub(crate) fn is_quantised(&self) -> bool {
        matches!(self.weight, Weight::Quantized(_))
    }

    /// The quantised weights and the bias, if products with a [`ops::Q8_1Activations`] are there for them.
    pub(crate) fn of_vectors(&self) -> Option<(&QTensor, Option<&Tensor>)> {
        match &self.weight {
            Weight::Quantized(QMatMul::QTensor(weight)) if ops::takes_vectors(weight) => {
                Some((weight, self.bias.as_ref()))
            }
            _ => None,
        }
    }

    /// x (rows, k) times the weights, and the bias added: (rows, n).
    ///
    /// # Errors
    /// Shapes, dtypes or devices do not fit, or a launch fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match (&self.weight, &self.bias) {
            (Weight::Dense(weight), None) => x.matmul(&weight.t()?),
            (Weight::Dense(weight), bias) => {
                ops::linear(x, weight, bias.as_ref(), Activation::None, None)
            }
            (Weight::Fp8(weight), bias) => self.fp8_product(x, weight, bias.as_ref(), None),
            (Weight::Quantized(weight), _) => self.biased(weight.forward(x)?),
        }
    }

    /// A product with FP8 weights, and `residual` added.
    fn fp8_product(
        &self,
        x: &Tensor,
        weight: &Fp8Matrix,
        bias: Option<&Tensor>,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        if takes_as_is(x)? {
            return fp8::linear(x, weight, bias, residual);
        }
        let x_in_fp8 = fp8::cast_per_token(x, ScaleFormat::F32)?;
        self.product_of_cast(&x_in_fp8, weight, residual, x.dtype())
    }

    /// The same of activations in FP8.
    fn product_of_cast(
        &self,
        x: &Fp8Matrix,
        weight: &Fp8Matrix,
        residual: Option<&Tensor>,
        dtype: DType,
    ) -> Result<Tensor> {
        self.biased(fp8::gemm_nt(x, weight, residual, dtype)?)
    }

    fn biased(&self, product: Tensor) -> Result<Tensor> {
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

/// What a gated layer hands to its last product: activated, or gates and what they are for, one after another in each row.
#[derive(Debug)]
pub(crate) enum Gated {
    Activated(Tensor),
    Packed(Tensor),
}

impl Gated {
    fn activated(self) -> Result<Tensor> {
        match self {
            Self::Activated(x) => Ok(x),
            Self::Packed(packed) => ops::swiglu_packed(&packed),
        }
    }
}

/// What layers hand on, (rows, hidden): what they added up, and its norm where it came with the sum.
#[derive(Debug)]
pub(crate) struct State {
    pub x: Tensor,
    pub normed: Option<Tensor>,
}

/// The norm that a product's input goes through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm<'a> {
    pub weight: &'a Tensor,
    pub epsilon: f64,
}

impl State {
    /// The results of products with the norm, one after another in each row.
    pub(crate) fn products(&self, norm: Norm, products: &[Linear]) -> Result<Tensor> {
        match (&self.normed, products) {
            (Some(normed), _) => together_of(products, normed),
            (None, [one]) => one.of_normed(&self.x, norm),
            (None, _) => together_of(
                products,
                &ops::rms_norm(&self.x, norm.weight, norm.epsilon)?,
            ),
        }
    }

    /// The state `x` that another stage made, whose last product was of this kind: normed where that would have come with
    /// the sum, so that a pipeline computes what one GPU does.
    pub(crate) fn of_stage(x: Tensor, last: &Linear, norm: Norm) -> Result<Self> {
        let Norm { weight, epsilon } = norm;
        let normed = match last.sums_with_norm(&x)? {
            true => Some(ops::rms_norm(&x, weight, epsilon)?),
            false => None,
        };
        Ok(Self { x, normed })
    }

    /// The sum of `x` and a product, and its `next` norm, if there is one here.
    pub(crate) fn of_sum(x: &Tensor, product: &Tensor, next: Option<Norm>) -> Result<Self> {
        let Some(Norm { weight, epsilon }) = next else {
            let x = (product + x)?;
            return Ok(Self { x, normed: None });
        };
        let (x, normed) = ops::add_rms_norm(product, x, weight, epsilon)?;
        Ok(Self {
            x,
            normed: Some(normed),
        })
    }

    /// SwiGLU of such products, of gates and of what they are for, as far as it is one kernel with them.
    pub(crate) fn gated(&self, norm: Norm, products: &[Linear]) -> Result<Gated> {
        Ok(match (&self.normed, products) {
            (
                None,
                [Linear {
                    weight: Weight::Dense(weight),
                    bias: None,
                }],
            ) => {
                let Norm {
                    weight: of_norm,
                    epsilon,
                } = norm;
                Gated::Activated(ops::normed_swiglu(&self.x, of_norm, epsilon, weight)?)
            }
            (
                None,
                [Linear {
                    weight: Weight::Fp8(weight),
                    bias: None,
                }],
            ) if is_few(&self.x)? => {
                let Norm {
                    weight: of_norm,
                    epsilon,
                } = norm;
                Gated::Activated(fp8::normed_swiglu(&self.x, of_norm, epsilon, weight)?)
            }
            _ => Gated::Packed(self.products(norm, products)?),
        })
    }
}

impl Linear {
    fn of_normed(&self, x: &Tensor, norm: Norm) -> Result<Tensor> {
        let Norm { weight, epsilon } = norm;
        match &self.weight {
            Weight::Dense(of_product) => {
                ops::normed_linear(x, weight, epsilon, of_product, self.bias.as_ref())
            }
            Weight::Fp8(of_product) if is_few(x)? => {
                fp8::normed_linear(x, weight, epsilon, of_product, self.bias.as_ref())
            }
            Weight::Fp8(_) | Weight::Quantized(_) => {
                self.forward(&ops::rms_norm(x, weight, epsilon)?)
            }
        }
    }

    /// x + the product with what a gated layer has, as [`Linear::add_to`].
    pub(crate) fn add_gated_to(
        &self,
        x: &Tensor,
        gated: Gated,
        next: Option<Norm>,
    ) -> Result<State> {
        match self.product_of_packed(&gated, Some(x))? {
            Some(x) => Ok(State { x, normed: None }),
            None => self.add_to(x, &gated.activated()?, next),
        }
    }

    /// The product with what a gated layer has.
    pub(crate) fn of_gated(&self, gated: Gated) -> Result<Tensor> {
        match self.product_of_packed(&gated, None)? {
            Some(product) => Ok(product),
            None => self.forward(&gated.activated()?),
        }
    }

    /// The product with gates and what they are for, where they are activated while they are cast to FP8.
    fn product_of_packed(
        &self,
        gated: &Gated,
        residual: Option<&Tensor>,
    ) -> Result<Option<Tensor>> {
        let (Weight::Fp8(weight), Gated::Packed(packed)) = (&self.weight, gated) else {
            return Ok(None);
        };
        if takes_as_is(packed)? {
            return Ok(None);
        }
        let input = fp8::swiglu_cast_per_token(packed, ScaleFormat::F32)?;
        let product = self.product_of_cast(&input, weight, residual, packed.dtype())?;
        Ok(Some(product))
    }

    /// Whether the product after a sum over ranks of these rows norms it in its own launch, as there are few.
    pub(crate) fn leaves_norm(&self, rows: &Tensor) -> bool {
        let few = rows.dims().first().is_some_and(|rows| *rows <= FEW_ROWS);
        few && !self.is_quantised()
    }

    /// Whether a sum of these rows and the product comes with the next norm.
    fn sums_with_norm(&self, x: &Tensor) -> Result<bool> {
        Ok(match &self.weight {
            Weight::Dense(_) => x.dim(0)? > FEW_ROWS,
            Weight::Fp8(_) => false,
            Weight::Quantized(_) => true,
        })
    }

    /// x + the product with `input`. Of few rows the sum is made by the product, and the next one norms it; of more, and of
    /// quantised weights, the sum and the `next` norm are one launch.
    pub(crate) fn add_to(&self, x: &Tensor, input: &Tensor, next: Option<Norm>) -> Result<State> {
        match &self.weight {
            Weight::Dense(weight) if !self.sums_with_norm(x)? => {
                let bias = self.bias.as_ref();
                Ok(State {
                    x: ops::linear(input, weight, bias, Activation::None, Some(x))?,
                    normed: None,
                })
            }
            Weight::Fp8(weight) => Ok(State {
                x: self.fp8_product(input, weight, self.bias.as_ref(), Some(x))?,
                normed: None,
            }),
            _ => State::of_sum(x, &self.forward(input)?, next),
        }
    }
}

/// Whether FP8 weights multiply these rows as they are, in one launch.
fn is_few(x: &Tensor) -> Result<bool> {
    Ok(x.dim(0)? <= fp8::most_rows(x.device(), x.dtype()))
}

/// Whether these rows are not cast to FP8: they are few, or so many that weights are widened.
fn takes_as_is(x: &Tensor) -> Result<bool> {
    let widens = !x.device().is_cpu() && !fp8::is_native(x.device());
    Ok(is_few(x)? || (widens && x.dim(0)? >= WIDENING_ROWS))
}

/// The results of products with the same input, one after another in each row.
fn together_of(products: &[Linear], x: &Tensor) -> Result<Tensor> {
    match products {
        [one] => one.forward(x),
        several => {
            let results: Vec<Tensor> = several
                .iter()
                .map(|product| product.forward(x))
                .collect::<Result<_>>()?;
            Tensor::cat(&results, 1)
        }
    }
}

/// One after another in their first dimension, contiguous.
fn together(parts: &[Tensor]) -> Result<Tensor> {
    match parts {
        [one] => one.contiguous(),
        several => Tensor::cat(several, 0),
    }
}
