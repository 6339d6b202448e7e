//! Cross-entropy of the product of hidden states and weights, some rows of logits at a time.

use candle_core::{bail, CudaStorage, Device, Error, Result, Shape, Storage, Tensor};
use candle_rocm_runtime::gemm::{gemm_strided_batched, GemmProblem, Transpose};

use super::super::launch::{allocate, int, read, write, Arg};
use super::super::node::{plain, result_of};
use super::super::operands::{check_device, check_float, on_gpu};
use super::super::product::dtype_of;
use super::composed;
use super::kernel::{scaled, Logits, OfRows, Rows, Slope};
use super::options::{check, nothing, CrossEntropyOptions, Reduction};

const NAME: &str = "linear_cross_entropy";
/// Bytes of the logits that are in memory at once.
const CHUNK_BYTES: usize = 512 << 20;
/// What the rows of a chunk are a multiple of, if they are as many: products' largest tiles.
const CHUNK_MULTIPLE: usize = 256;

/// [`cross_entropy`](super::cross_entropy) of `hidden * weight^T`, whose logits are never all in memory.
///
/// `hidden` is (..., width) and `weight` (columns, width), as in Candle's `Linear`, both f16, bf16, f32 or f64; targets,
/// options and the result are those of `cross_entropy`. On a GPU the logits are made of `chunk` rows at a time, or of
/// as many as take 512 MiB, in the weights' dtype. With a mean or a sum the gradients of both operands are made in the
/// forward pass, where a gradient is wanted, and multiplied by the loss's own in the backward pass: three products a
/// chunk. Without a reduction the backward pass makes the logits anew. The weights' gradient is summed over chunks in
/// their dtype, in the chunks' order; f16 ones must not exceed 65,504 for a sum over all rows.
///
/// After Hsu et al.: "Liger Kernel: efficient Triton kernels for LLM training", 2024.
///
/// # Errors
/// As `cross_entropy`; a weight that is no matrix of the hidden states' width, dtype and device; chunks of no rows.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor, Var};
/// use candle_rocm_backend::ops::{linear_cross_entropy, CrossEntropyOptions};
///
/// let device = Device::new_cuda(0)?;
/// let hidden = Tensor::randn(0f32, 1., (5, 16), &device)?;
/// let weight = Var::randn(0f32, 1., (100, 16), &device)?;
/// let targets = Tensor::new(&[3u32, 99, 0, 41, 7], &device)?;
/// let options = CrossEntropyOptions::default();
/// let loss = linear_cross_entropy(&hidden, &weight, &targets, &options, None)?;
/// assert_eq!(loss.backward()?.get(&weight).expect("a gradient").dims(), [100, 16]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn linear_cross_entropy(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
    chunk: Option<usize>,
) -> Result<Tensor> {
    Ok(compute(hidden, weight, targets, options, chunk, false)?.0)
}

/// [`linear_cross_entropy`], and each row's `log(sum(e^logit))`, of the targets' shape, ignored rows' too. No gradient
/// goes through these.
///
/// # Errors
/// As [`linear_cross_entropy`].
pub fn linear_cross_entropy_with_lse(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
    chunk: Option<usize>,
) -> Result<(Tensor, Tensor)> {
    compute(hidden, weight, targets, options, chunk, true)
}

fn compute(
    hidden: &Tensor,
    weight: &Tensor,
    targets: &Tensor,
    options: &CrossEntropyOptions,
    chunk: Option<usize>,
    every_lse: bool,
) -> Result<(Tensor, Tensor)> {
    check_float(NAME, hidden)?;
    let (Some((&width, rows)), &[columns, of_weight]) = (hidden.dims().split_last(), weight.dims())
    else {
        return mismatch(hidden, weight);
    };
    if width != of_weight || hidden.dtype() != weight.dtype() {
        return mismatch(hidden, weight);
    }
    check_device(NAME, "the weight", weight, hidden)?;
    check(NAME, "hidden states", hidden, rows, targets, options)?;
    if chunk == Some(0) {
        bail!("{NAME}: chunks of no rows: give 1 or more, or None");
    }
    let count = targets.elem_count();
    if count == 0 {
        return nothing(hidden, targets, options);
    }
    if columns == 0 || width == 0 {
        bail!(
            "{NAME}: a weight of shape {:?} has no elements",
            weight.shape()
        );
    }
    if !on_gpu(hidden) {
        let logits = hidden.reshape((count, width))?.matmul(&weight.t()?)?;
        let mut dims = rows.to_vec();
        dims.push(columns);
        let (total, lse) = composed::cross_entropy(NAME, &logits.reshape(dims)?, targets, options)?;
        return Ok((total, lse.detach()));
    }
    let of_row = columns * hidden.dtype().size_in_bytes();
    let fit = CHUNK_BYTES / of_row;
    let fit = if fit > CHUNK_MULTIPLE {
        fit - fit % CHUNK_MULTIPLE
    } else {
        fit
    };
    let linear = Linear {
        hidden: hidden.detach().reshape((count, width))?.contiguous()?,
        weight: weight.detach().contiguous()?,
        targets: targets.detach().contiguous()?,
        options: *options,
        chunk: chunk.unwrap_or(fit).clamp(1, count),
        every_lse,
    };
    linear.results(hidden, weight)
}

fn mismatch<T>(hidden: &Tensor, weight: &Tensor) -> Result<T> {
    bail!(
        "{NAME}: hidden states of shape {:?} and {:?}, and a weight of shape {:?} and {:?}: they must be (..., width) \
         and (columns, width), of one dtype",
        hidden.shape(),
        hidden.dtype(),
        weight.shape(),
        weight.dtype()
    )
}

/// Operands without their graph.
struct Linear {
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    options: CrossEntropyOptions,
    /// Rows of logits in memory.
    chunk: usize,
    every_lse: bool,
}

/// Gradients as they are made, chunk by chunk, of hidden states and weight.
struct Gradients {
    hidden: Option<Vec<Tensor>>,
    weight: Option<CudaStorage>,
}

impl Linear {
    fn results(self, hidden: &Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        let wanted = [hidden.track_op(), weight.track_op()];
        let shape = self.targets.shape().clone();
        let rows = self.rows()?;
        let mut of_rows = OfRows::new(&rows)?;
        if self.options.reduction == Reduction::None {
            self.each_chunk(|logits| rows.forward(logits, &mut of_rows))?;
            let lse = plain(of_rows.lse, &shape);
            let (kept, total) = (lse.clone(), of_rows.losses);
            let backward = move |operands: &[&Tensor], _: &Tensor, slope: &Tensor| {
                let wanted = [operands[0].track_op(), operands[1].track_op()];
                self.gradients_anew(&kept, slope, wanted, operands[0].shape())
            };
            let total = result_of(NAME, &[hidden, weight], total, &shape, Box::new(backward))?;
            return Ok((total, lse));
        }
        let plain_slope = Slope {
            of: None,
            scale: None,
            of_lse: false,
        };
        let mut gradients = self.no_gradients(&rows, wanted)?;
        self.each_chunk(|logits| {
            rows.forward(logits, &mut of_rows)?;
            if wanted.contains(&true) {
                rows.backward(logits, Arg::Left(&of_rows.lse), &plain_slope, None)?;
                self.add_gradients(logits, &mut gradients)?;
            }
            Ok(())
        })?;
        let [total, scale] = rows.total(&of_rows.losses)?;
        let scale = plain(scale, &Shape::from(1));
        let made = gradients.tensors(&self, hidden.shape())?;
        let backward = move |_: &[&Tensor], _: &Tensor, slope: &Tensor| {
            let of = |made: &Option<Tensor>| made.as_ref().map(|made| scaled(made, slope, &scale));
            made.iter().map(|made| of(made).transpose()).collect()
        };
        let scalar = Shape::from(());
        let total = result_of(NAME, &[hidden, weight], total, &scalar, Box::new(backward))?;
        Ok((total, plain(of_rows.lse, &shape)))
    }

    fn rows(&self) -> Result<Rows<'_>> {
        let Device::Cuda(device) = self.hidden.device() else {
            bail!("{NAME}: the hidden states are not on a GPU");
        };
        Ok(Rows {
            device,
            dtype: self.hidden.dtype(),
            columns: int(NAME, "columns", self.weight.dim(0)?)?,
            targets: &self.targets,
            options: &self.options,
            every_lse: self.every_lse,
        })
    }

    /// Makes the logits of each chunk.
    fn each_chunk(&self, mut f: impl FnMut(&Logits) -> Result<()>) -> Result<()> {
        let (count, columns) = (self.hidden.dim(0)?, self.weight.dim(0)?);
        for first_row in (0..count).step_by(self.chunk) {
            let rows = self.chunk.min(count - first_row);
            let of = self
                .hidden
                .narrow(0, first_row, rows)?
                .matmul(&self.weight.t()?)?;
            f(&Logits {
                of: &of,
                stride: columns,
                rows,
                first_row,
            })?;
        }
        Ok(())
    }

    fn no_gradients(&self, rows: &Rows, [hidden, weight]: [bool; 2]) -> Result<Gradients> {
        let room = || allocate(rows.device, rows.dtype, self.weight.elem_count());
        Ok(Gradients {
            hidden: hidden.then(Vec::new),
            weight: weight.then(room).transpose()?,
        })
    }

    /// Adds what the gradient of some logits makes.
    fn add_gradients(&self, logits: &Logits, to: &mut Gradients) -> Result<()> {
        if let Some(hidden) = &mut to.hidden {
            hidden.push(logits.of.matmul(&self.weight)?);
        }
        match &mut to.weight {
            Some(weight) => self.add_to_weight(logits, weight),
            None => Ok(()),
        }
    }

    /// Adds the transpose of the logits' gradient, times hidden states, to what the chunks before have made.
    fn add_to_weight(&self, logits: &Logits, to: &mut CudaStorage) -> Result<()> {
        let (dtype, bytes) = (self.hidden.dtype(), self.hidden.dtype().size_in_bytes());
        let Some(dtype) = dtype_of(dtype) else {
            bail!("{NAME}: no product of {dtype:?}");
        };
        let stream = to.device.cuda_stream();
        let (columns, width) = self.weight.dims2()?;
        let (of_logits, _) = logits.of.storage_and_layout();
        let (of_hidden, layout) = self.hidden.storage_and_layout();
        let (Storage::Cuda(of_logits), Storage::Cuda(of_hidden)) = (&*of_logits, &*of_hidden)
        else {
            bail!("{NAME}: an operand is not on the GPU");
        };
        let (a, _a) = read(of_hidden, &stream)?;
        let (b, _b) = read(of_logits, &stream)?;
        let (c, _c) = write(to, &stream)?;
        let first = layout.start_offset() + logits.first_row * width;
        // To products' kernels they are column-major matrices, and the result is the transpose.
        let mut problem = GemmProblem::packed(
            dtype,
            [Transpose::No, Transpose::Yes],
            [width, columns, logits.rows],
            [a + (first * bytes) as u64, b, c],
        );
        problem.beta = if logits.first_row == 0 { 0.0 } else { 1.0 };
        // SAFETY: contiguous matrices of the operands' shapes, and a result of its own; the guards keep their memory
        // until the work is given to the stream.
        unsafe { gemm_strided_batched(&stream, &problem) }.map_err(Error::wrap)
    }

    /// Both gradients where each row's loss has a gradient of its own.
    fn gradients_anew(
        &self,
        lse: &Tensor,
        slope: &Tensor,
        wanted: [bool; 2],
        shape: &Shape,
    ) -> Result<Vec<Option<Tensor>>> {
        let rows = self.rows()?;
        let slope = Slope {
            of: Some(slope),
            scale: None,
            of_lse: false,
        };
        let mut gradients = self.no_gradients(&rows, wanted)?;
        self.each_chunk(|logits| {
            rows.backward(logits, Arg::Read(Some(lse)), &slope, None)?;
            self.add_gradients(logits, &mut gradients)
        })?;
        gradients.tensors(self, shape)
    }
}

impl Gradients {
    /// The gradients as tensors, of hidden states of this shape.
    fn tensors(self, of: &Linear, shape: &Shape) -> Result<Vec<Option<Tensor>>> {
        let hidden = self
            .hidden
            .map(|chunks| Tensor::cat(&chunks, 0)?.reshape(shape))
            .transpose()?;
        let weight = self.weight.map(|weight| plain(weight, of.weight.shape()));
        Ok(vec![hidden, weight])
    }
}
