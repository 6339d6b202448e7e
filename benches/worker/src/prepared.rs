//! An operator made ready, checked and timed.

use anyhow::{bail, Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_rocm_bench_protocol::{Case, DeviceTimes, Settings};

use crate::data::Block;
use crate::gpu::Gpu;
use crate::operator::{size_of, Maker, Operator, Run};
use crate::{operators, products};

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
        let operator = operators::make(&case.op, &maker(&gpu.block, false))?;
        let input_bytes = operator.inputs.iter().map(size_of).sum::<usize>();
        // Which of several equal values is the largest is open, and half floats are often equal.
        let open = case.op.starts_with("arg") && dtype.size_in_bytes() == 2;
        if input_bytes as u64 <= CHECKED_BYTES && !open {
            if gpu.cpu_block.is_none() {
                gpu.cpu_block = Some(Block::new(&Device::Cpu)?);
            }
            let block = gpu.cpu_block.as_ref().expect("just made");
            let truth = operators::make(&case.op, &maker(block, true))?;
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

/// The dtype of this name.
///
/// # Errors
/// There is none.
pub fn dtype(name: &str) -> Result<DType> {
    name.parse()
        .with_context(|| format!("no dtype is called {name}"))
}

/// Values spread over the result, as f64.
///
/// # Errors
/// Candle's; one of them is no number.
pub fn probe(result: &Tensor) -> Result<Vec<f64>> {
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
