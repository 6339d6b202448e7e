//! The operators: how to make the inputs of each, how to run it, and which bytes it must move.

use anyhow::{bail, Context, Result};
use candle_core::{DType, Device, Tensor, D};
use candle_nn::{ops, rotary_emb};
use candle_rocm_bench_protocol::{Case, DeviceTimes, Settings};

use crate::data::{Block, Range};
use crate::gpu::Gpu;
use crate::products;

/// An operator on its inputs.
pub type Run = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

/// An operator, its inputs, and what it costs at least.
pub struct Operator {
    /// What it works on.
    pub inputs: Vec<Tensor>,
    /// What it does.
    pub run: Run,
    /// Bytes that it must read and write; where `None`, all of its inputs and its result.
    pub bytes: Option<u64>,
    /// Multiplications and additions of a product, else 0.
    pub flops: u64,
}

impl Operator {
    /// One that reads its inputs once and writes its result once.
    pub fn new(
        inputs: impl Into<Vec<Tensor>>,
        run: impl Fn(&[Tensor]) -> candle_core::Result<Tensor> + 'static,
    ) -> Self {
        Self {
            inputs: inputs.into(),
            run: Box::new(move |inputs| Ok(run(inputs)?)),
            bytes: None,
            flops: 0,
        }
    }

    fn moving(self, bytes: usize) -> Self {
        Self {
            bytes: Some(bytes as u64),
            ..self
        }
    }
}

/// What makes an operator: the case, and a source of inputs on some device.
pub struct Maker<'a> {
    /// Random numbers on the device.
    pub block: &'a Block,
    /// The case's dtype.
    pub dtype: DType,
    /// The case's dimensions.
    pub dims: &'a [usize],
    /// Whether the inputs are then turned to f32, as the truth for a small case.
    pub promote: bool,
}

impl Maker<'_> {
    fn promoted(&self, x: Tensor) -> Result<Tensor> {
        Ok(if self.promote && x.dtype().is_float() {
            x.to_dtype(DType::F32)?
        } else {
            x
        })
    }

    /// Random numbers; the `seed`-th input has its own.
    pub fn values(&self, dims: &[usize], range: Range, seed: usize) -> Result<Tensor> {
        self.scaled(dims, range, seed, 1.)
    }

    /// Random numbers times `scale`.
    pub fn scaled(&self, dims: &[usize], range: Range, seed: usize, scale: f64) -> Result<Tensor> {
        let values = self
            .block
            .tensor(dims, self.dtype, range, seed * 54_321, scale)?;
        self.promoted(values)
    }

    /// Random numbers from -1 to 1, of the case's dimensions.
    fn main(&self) -> Result<Tensor> {
        self.values(self.dims, Range::Signed, 0)
    }

    /// The case's dimensions, of which it has `N`.
    ///
    /// # Errors
    /// It has another number of them.
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let dims = self.dims.try_into();
        dims.with_context(|| format!("{N} dimensions are needed, not {:?}", self.dims))
    }
}

fn size_of(x: &Tensor) -> usize {
    x.elem_count() * x.dtype().size_in_bytes()
}

type Unary = fn(&Tensor) -> candle_core::Result<Tensor>;
type Binary = fn(&Tensor, &Tensor) -> candle_core::Result<Tensor>;

/// Of one tensor of any dimensions.
const UNARY: &[(&str, Range, Unary)] = {
    use Range::{Positive, Signed};
    &[
        ("copy", Signed, |x| x.copy()),
        ("exp", Signed, |x| x.exp()),
        ("log", Positive, |x| x.log()),
        ("sin", Signed, |x| x.sin()),
        ("cos", Signed, |x| x.cos()),
        ("tanh", Signed, |x| x.tanh()),
        ("abs", Signed, |x| x.abs()),
        ("neg", Signed, |x| x.neg()),
        ("recip", Positive, |x| x.recip()),
        ("sqr", Signed, |x| x.sqr()),
        ("sqrt", Positive, |x| x.sqrt()),
        ("gelu", Signed, |x| x.gelu()),
        ("gelu_erf", Signed, |x| x.gelu_erf()),
        ("erf", Signed, |x| x.erf()),
        ("silu", Signed, |x| x.silu()),
        ("relu", Signed, |x| x.relu()),
        ("sigmoid", Signed, ops::sigmoid),
        ("floor", Signed, |x| x.floor()),
        ("round", Signed, |x| x.round()),
        ("elu", Signed, |x| x.elu(1.5)),
        ("powf", Positive, |x| x.powf(1.5)),
        ("affine", Signed, |x| x.affine(1.5, 0.25)),
        ("cast_f16", Signed, |x| x.to_dtype(DType::F16)),
        ("cast_bf16", Signed, |x| x.to_dtype(DType::BF16)),
        ("cast_f32", Signed, |x| x.to_dtype(DType::F32)),
        ("cast_f64", Signed, |x| x.to_dtype(DType::F64)),
        ("cast_u8", Positive, |x| x.to_dtype(DType::U8)),
        ("sum_last", Signed, |x| x.sum(D::Minus1)),
        ("max_last", Signed, |x| x.max(D::Minus1)),
        ("argmax_last", Signed, |x| x.argmax(D::Minus1)),
        ("sum_first", Signed, |x| x.sum(0)),
        ("max_first", Signed, |x| x.max(0)),
        ("argmax_first", Signed, |x| x.argmax(0)),
        ("sum_all", Signed, |x| x.sum_all()),
        ("softmax", Signed, ops::softmax_last_dim),
        ("sort", Signed, |x| Ok(x.sort_last_dim(true)?.0)),
        ("argsort", Signed, |x| x.arg_sort_last_dim(true)),
        ("transpose", Signed, |x| x.t()?.contiguous()),
        ("exp_transposed", Signed, |x| x.t()?.exp()),
        // (batch, sequence, head, width) to (batch, head, sequence, width), as before attention.
        ("swap_middle", Signed, |x| x.transpose(1, 2)?.contiguous()),
        ("avg_pool2d", Signed, |x| x.avg_pool2d(2)),
        ("max_pool2d", Signed, |x| x.max_pool2d(2)),
        ("upsample_nearest2d", Signed, |x| {
            let (_, _, h, w) = x.dims4()?;
            x.upsample_nearest2d(2 * h, 2 * w)
        }),
        ("upsample_bilinear2d", Signed, |x| {
            let (_, _, h, w) = x.dims4()?;
            x.upsample_bilinear2d(2 * h, 2 * w, false)
        }),
    ]
};

/// Of two tensors of the same dimensions.
const BINARY: &[(&str, Binary)] = &[
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("div", |x, y| x / y),
    ("minimum", |x, y| x.minimum(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("lt", |x, y| x.lt(y)),
    ("eq", |x, y| x.eq(y)),
    ("cat_first", |x, y| Tensor::cat(&[x, y], 0)),
    ("cat_last", |x, y| Tensor::cat(&[x, y], D::Minus1)),
    ("add_transposed", |x, y| x.t()? + y.t()?),
];

type Make = fn(&Maker) -> Result<Operator>;

/// With inputs of their own.
const OTHERS: &[(&str, Make)] = &[
    ("add_row", |m| {
        let [_, columns] = m.dims()?;
        let row = m.values(&[columns], Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, row], |x| {
            x[0].broadcast_add(&x[1])
        }))
    }),
    ("mul_column", |m| {
        let [rows, _] = m.dims()?;
        let column = m.values(&[rows, 1], Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, column], |x| {
            x[0].broadcast_mul(&x[1])
        }))
    }),
    ("narrow", |m| {
        let [rows, columns] = m.dims()?;
        let wide = m.values(&[rows, 2 * columns], Range::Signed, 0)?;
        let half = wide.narrow(1, columns, columns)?;
        Ok(Operator::new([half], |x| x[0].contiguous()))
    }),
    ("where", |m| {
        let condition = m.block.indices(m.dims, 2, 7)?.to_dtype(DType::U8)?;
        let other = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([condition, m.main()?, other], |x| {
            x[0].where_cond(&x[1], &x[2])
        }))
    }),
    ("fill", |m| {
        let like = m.main()?;
        let bytes = size_of(&like);
        Ok(Operator::new([like], |x| x[0].ones_like()).moving(bytes))
    }),
    ("zeros", |m| {
        let like = m.main()?;
        let bytes = size_of(&like);
        Ok(Operator::new([like], |x| x[0].zeros_like()).moving(bytes))
    }),
    ("index_select", |m| {
        let [rows, _] = m.dims()?;
        let ids = m.block.indices(rows, rows, 3)?;
        Ok(Operator::new([m.main()?, ids], |x| {
            x[0].index_select(&x[1], 0)
        }))
    }),
    ("index_add", |m| {
        let [rows, _] = m.dims()?;
        let ids = m.block.indices(rows, rows, 3)?;
        let source = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, ids, source], |x| {
            x[0].index_add(&x[1], &x[2], 0)
        }))
    }),
    ("gather", |m| {
        let [_, columns] = m.dims()?;
        let ids = m.block.indices(m.dims, columns, 3)?;
        Ok(Operator::new([m.main()?, ids], |x| {
            x[0].gather(&x[1], D::Minus1)
        }))
    }),
    ("scatter_add", |m| {
        let [_, columns] = m.dims()?;
        let ids = m.block.indices(m.dims, columns, 3)?;
        let source = m.values(m.dims, Range::Signed, 1)?;
        Ok(Operator::new([m.main()?, ids, source], |x| {
            x[0].scatter_add(&x[1], &x[2], D::Minus1)
        }))
    }),
    ("layer_norm", |m| {
        let width = *m.dims.last().context("no dimensions")?;
        let alpha = m.values(&[width], Range::Positive, 1)?;
        let beta = m.values(&[width], Range::Signed, 2)?;
        Ok(Operator::new([m.main()?, alpha, beta], |x| {
            ops::layer_norm(&x[0], &x[1], &x[2], 1e-5)
        }))
    }),
    ("rms_norm", |m| {
        let width = *m.dims.last().context("no dimensions")?;
        let alpha = m.values(&[width], Range::Positive, 1)?;
        Ok(Operator::new([m.main()?, alpha], |x| {
            ops::rms_norm(&x[0], &x[1], 1e-5)
        }))
    }),
    ("rope", |m| {
        let [_, _, sequence, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope)
    }),
    ("rope_i", |m| {
        let [_, _, sequence, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope_i)
    }),
    ("rope_thd", |m| {
        let [_, sequence, _, _] = m.dims()?;
        rope(m, sequence, rotary_emb::rope_thd)
    }),
    ("conv1d", |m| {
        let [batch, channels, length] = m.dims()?;
        let kernel = m.values(&[channels, channels, 3], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| x[0].conv1d(&x[1], 1, 1, 1, 1));
        Ok(Operator {
            flops: (2 * batch * length * channels * channels * 3) as u64,
            ..conv
        })
    }),
    ("conv2d", |m| {
        let [batch, channels, height, width] = m.dims()?;
        let kernel = m.values(&[channels, channels, 3, 3], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| x[0].conv2d(&x[1], 1, 1, 1, 1));
        Ok(Operator {
            flops: (2 * batch * height * width * channels * channels * 9) as u64,
            ..conv
        })
    }),
    ("conv_transpose2d", |m| {
        let [batch, channels, height, width] = m.dims()?;
        let kernel = m.values(&[channels, channels, 2, 2], Range::Signed, 1)?;
        let conv = Operator::new([m.main()?, kernel], |x| {
            x[0].conv_transpose2d(&x[1], 0, 0, 2, 1)
        });
        Ok(Operator {
            flops: (2 * batch * height * width * channels * channels * 4) as u64,
            ..conv
        })
    }),
    ("matmul", products::matmul),
    // The second matrix is stored with its columns as rows, as a linear layer's weights are.
    ("linear", products::linear),
];

fn rope(
    m: &Maker,
    sequence: usize,
    run: fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>,
) -> Result<Operator> {
    let half = m.dims.last().context("no dimensions")? / 2;
    let cos = m.values(&[sequence, half], Range::Signed, 1)?;
    let sin = m.values(&[sequence, half], Range::Signed, 2)?;
    Ok(Operator::new([m.main()?, cos, sin], move |x| {
        run(&x[0], &x[1], &x[2])
    }))
}

fn make(op: &str, maker: &Maker) -> Result<Operator> {
    if let Some(&(_, range, run)) = UNARY.iter().find(|(name, ..)| *name == op) {
        let x = maker.values(maker.dims, range, 0)?;
        return Ok(Operator::new([x], move |x| run(&x[0])));
    }
    if let Some(&(_, run)) = BINARY.iter().find(|(name, _)| *name == op) {
        let x = maker.main()?;
        let y = maker.values(maker.dims, Range::Positive, 1)?;
        return Ok(Operator::new([x, y], move |x| run(&x[0], &x[1])));
    }
    let Some((_, make)) = OTHERS.iter().find(|(name, _)| *name == op) else {
        bail!("no operator is called {op}");
    };
    make(maker)
}

/// An operator ready to be timed.
pub struct Prepared {
    /// Equal inputs in different places, to take turns.
    sets: Vec<Vec<Tensor>>,
    run: Run,
    bytes: u64,
    flops: u64,
    probe: Vec<f64>,
    wrong: Option<String>,
    repeats: usize,
    host_us: f64,
}

/// The most sets of inputs.
const MOST_SETS: usize = 64;
/// The most values of a result that are answered.
const PROBE: usize = 64;
/// Cases of at most so many bytes are checked against the CPU.
const CHECKED_BYTES: u64 = 256 << 10;

/// Makes the inputs, runs the operator once, and checks its result if the case is small.
///
/// # Errors
/// There is no such operator or dtype; Candle's; the result has a NaN or an infinity.
pub fn prepare(gpu: &mut Gpu, case: &Case, settings: &Settings) -> Result<Prepared> {
    let mut wrong = None;
    let operator = if let Some(operator) = products::quantized(gpu, case, settings)? {
        operator
    } else {
        let dtype = dtype(&case.dtype)?;
        let maker = |block, promote| Maker {
            block,
            dtype,
            dims: &case.dims,
            promote,
        };
        let operator = make(&case.op, &maker(&gpu.block, false))?;
        let input_bytes = operator.inputs.iter().map(size_of).sum::<usize>();
        // Which of several equal values is the largest is open, and half floats are often equal.
        let open = case.op.starts_with("arg") && dtype.size_in_bytes() == 2;
        if input_bytes as u64 <= CHECKED_BYTES && !open {
            if gpu.cpu_block.is_none() {
                gpu.cpu_block = Some(Block::new(&Device::Cpu)?);
            }
            let block = gpu.cpu_block.as_ref().expect("just made");
            let truth = make(&case.op, &maker(block, true))?;
            wrong = mistake(dtype, &operator, &truth)?;
        }
        operator
    };
    let result = (operator.run)(&operator.inputs)?;
    let moved = operator.inputs.iter().map(size_of).sum::<usize>() + size_of(&result);
    let probe = probe(&result)?;
    drop(result);

    let set_bytes = operator.inputs.iter().map(size_of).sum::<usize>().max(1);
    let copies = settings
        .rotate_bytes
        .div_ceil(set_bytes)
        .clamp(1, MOST_SETS)
        - 1;
    let mut sets = Vec::with_capacity(copies + 1);
    for _ in 0..copies {
        let copy = operator.inputs.iter().map(Tensor::copy);
        sets.push(copy.collect::<candle_core::Result<Vec<_>>>()?);
    }
    sets.push(operator.inputs);
    let mut prepared = Prepared {
        sets,
        run: operator.run,
        bytes: operator.bytes.unwrap_or(moved as u64),
        flops: operator.flops,
        probe,
        wrong,
        repeats: 1,
        host_us: 0.,
    };
    prepared.choose_repeats(gpu, settings)?;
    Ok(prepared)
}

impl Prepared {
    /// Finds how often the operator must run for a figure, and what enqueueing it costs.
    fn choose_repeats(&mut self, gpu: &mut Gpu, settings: &Settings) -> Result<()> {
        if settings.max_repeats <= 1 {
            return Ok(());
        }
        self.repeats = 2;
        // The first time includes loading what is loaded lazily, and is thrown away.
        self.span(gpu, settings, 0.)?;
        let first = self.span(gpu, settings, 1000.)?;
        let wanted = (settings.span_us / first.device_us.max(0.1)).ceil() as usize;
        self.repeats = wanted.clamp(1, settings.max_repeats);
        self.host_us = first.host_us;
        if self.repeats > 2 {
            let second = self.span(gpu, settings, 1.5 * first.host_us * self.repeats as f64)?;
            let wanted = (settings.span_us / second.device_us.max(0.1)).ceil() as usize;
            self.repeats = wanted.clamp(1, settings.max_repeats);
            self.host_us = second.host_us;
        }
        Ok(())
    }

    fn span(&self, gpu: &mut Gpu, settings: &Settings, busy_us: f64) -> Result<crate::gpu::Span> {
        gpu.time(settings, self.repeats, busy_us, &mut |i| {
            (self.run)(&self.sets[i % self.sets.len()]).map(drop)
        })
    }

    /// Times it.
    ///
    /// # Errors
    /// Candle's.
    pub fn measure(&mut self, gpu: &mut Gpu, settings: &Settings) -> Result<DeviceTimes> {
        const PATIENCE: usize = 4;
        let mut times = DeviceTimes {
            bytes: self.bytes,
            flops: self.flops,
            probe: self.probe.clone(),
            wrong: self.wrong.clone(),
            ..DeviceTimes::default()
        };
        for _ in 0..settings.samples {
            let mut busy_us = 200. + 1.3 * self.host_us * self.repeats as f64;
            for attempt in 1..=PATIENCE {
                let span = self.span(gpu, settings, busy_us)?;
                if !span.starved || attempt == PATIENCE {
                    times.starved |= span.starved;
                    times.samples_us.push(span.device_us);
                    break;
                }
                busy_us *= 2.;
            }
        }
        Ok(times)
    }
}

fn dtype(name: &str) -> Result<DType> {
    name.parse()
        .with_context(|| format!("no dtype is called {name}"))
}

/// Values spread over the result, as f64.
fn probe(result: &Tensor) -> Result<Vec<f64>> {
    let flat = result.flatten_all()?;
    let count = flat.elem_count();
    let take = count.min(PROBE);
    let places: Vec<u32> = (0..take).map(|i| (i * count / take) as u32).collect();
    let chosen = flat.index_select(&Tensor::new(places, result.device())?, 0)?;
    let values: Vec<f64> = chosen
        .to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .to_vec1()?;
    // JSON has none either.
    if let Some(odd) = values.iter().find(|x| !x.is_finite()) {
        bail!("the result has a {odd}");
    }
    Ok(values)
}

/// How far a value may be from the truth, relative to the larger of it and 1: a few units in the last place of the
/// dtype, times what a sum over the rows of a small case may add up to.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-6,
        DType::F16 => 1e-2,
        DType::BF16 => 6e-2,
        _ => 1e-4,
    }
}

/// The first value that is not the truth.
fn mistake(dtype: DType, operator: &Operator, truth: &Operator) -> Result<Option<String>> {
    let flat = |operator: &Operator| -> Result<Vec<f64>> {
        let result = (operator.run)(&operator.inputs)?.to_device(&Device::Cpu)?;
        Ok(result.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
    };
    let (got, want) = (flat(operator)?, flat(truth)?);
    if got.len() != want.len() {
        return Ok(Some(format!("{} values, not {}", got.len(), want.len())));
    }
    let tolerance = tolerance(dtype);
    // A NaN is not near either.
    let far = |(got, want): (&f64, &f64)| {
        let near = (got - want).abs() <= tolerance * want.abs().max(1.);
        !near
    };
    let first = got.iter().zip(&want).position(far);
    Ok(first.map(|i| format!("value {i} is {}, on the CPU {}", got[i], want[i])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_operators_have_the_same_name() {
        let unary = UNARY.iter().map(|(name, ..)| *name);
        let binary = BINARY.iter().map(|(name, _)| *name);
        let others = OTHERS.iter().map(|(name, _)| *name);
        let mut seen = std::collections::HashSet::new();
        for name in unary.chain(binary).chain(others) {
            assert!(seen.insert(name), "{name}");
        }
    }
}
