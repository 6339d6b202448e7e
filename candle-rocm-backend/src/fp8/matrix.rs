//! A matrix of FP8 with its factors.

use candle_core::{bail, CudaDevice, DType, Device, Result, Tensor, D};
use candle_rocm_kernels::{FP8, FP8_WEIGHTS};
use float8::F8E4M3;

use crate::grouped::operand::{Operand, Scales};
use crate::ops::launch::{allocate, batched, int, launch, work_grid, Arg};
use crate::ops::node::plain;

/// Elements that share a factor along a dimension, where not one by one or all together.
pub const BLOCK: usize = 128;

/// Elements that a thread of a cast takes together.
pub(super) const OF_THREAD: usize = 16;

/// How elements of one dimension share factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// Each has its own.
    One,
    /// Each [`BLOCK`] that follow one another have one, the last fewer.
    Block,
    /// All have one.
    All,
}

impl Share {
    /// Factors of so many elements.
    pub fn factors(self, elements: usize) -> usize {
        match self {
            Share::One => elements,
            Share::Block => elements.div_ceil(BLOCK),
            Share::All => 1,
        }
    }

    /// The number of an element's factor.
    pub(super) fn place(self, element: usize) -> usize {
        match self {
            Share::One => element,
            Share::Block => element / BLOCK,
            Share::All => 0,
        }
    }
}

/// How factors are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFormat {
    /// largest / 448, in f32.
    F32,
    /// The next power of two that is not below, in f32.
    PowersOfTwo,
    /// The same as exponents of 8 bits (UE8M0: bias 127, 255 is NaN), four that follow one another along k in a word, the
    /// first lowest. Words of different rows lie together, as DeepGEMM takes them on Blackwell.
    PackedPowersOfTwo,
}

/// A matrix (rows, k), or a batch of them (batch, rows, k), of FP8: elements of OCP's e4m3, each times a factor that it
/// shares with others. No element is NaN or -0: what is not finite is in the factors.
#[derive(Clone, Debug)]
pub struct Fp8Matrix {
    /// F8E4M3.
    pub(super) data: Tensor,
    /// F32 of (batch, factors of rows, factors of k), or U32 words of four along k.
    pub(super) scales: Tensor,
    pub(super) packed: bool,
    pub(super) of_rows: Share,
    pub(super) of_k: Share,
}

impl Fp8Matrix {
    /// Of elements and factors that came from elsewhere, such as DeepSeek's weights: `data` (rows, k) or (batch, rows, k) in
    /// F8E4M3, `scales` f32 of a factor for each of what `of_rows` and `of_k` say, in the same order. Element (r, c) stands
    /// for data times scale.
    ///
    /// Both are copied: -0 becomes 0, and a NaN makes the factor NaN that it shares with others, so that every result that
    /// reads one of these is NaN. (On gfx942 the byte of -0 is NaN, and where bytes are widened none is.)
    ///
    /// # Errors
    /// Other dtypes, shapes that do not fit, different devices, or k whose elements have a factor each.
    pub fn new(data: &Tensor, scales: &Tensor, of_rows: Share, of_k: Share) -> Result<Self> {
        if data.dtype() != DType::F8E4M3 || scales.dtype() != DType::F32 {
            bail!(
                "Fp8Matrix: elements of {:?} and factors of {:?}: they must be F8E4M3 and F32",
                data.dtype(),
                scales.dtype()
            );
        }
        if !data.device().same_device(scales.device()) {
            bail!("Fp8Matrix: elements and factors are on different devices");
        }
        let mut expected = data.dims().to_vec();
        let [.., rows, k] = expected.as_mut_slice() else {
            bail!(
                "Fp8Matrix: elements of shape {:?} are no matrix",
                data.shape()
            );
        };
        (*rows, *k) = (of_rows.factors(*rows), of_k.factors(*k));
        if scales.dims() != expected || data.rank() > 3 || of_k == Share::One {
            bail!(
                "Fp8Matrix: elements {:?} with {of_rows:?} of rows and {of_k:?} of k need factors {expected:?}, not {:?} \
                 (k by blocks or as a whole, at most one dimension of a batch)",
                data.shape(),
                scales.shape()
            );
        }
        let mut matrix = Self {
            data: data.contiguous()?,
            scales: scales.contiguous()?.copy()?,
            packed: false,
            of_rows,
            of_k,
        };
        matrix.data = match data.device() {
            Device::Cuda(device) => matrix.prepared_on_gpu(device)?,
            _ => matrix.prepared_on_host()?,
        };
        Ok(matrix)
    }

    /// Elements as products take them, and NaN in the factors of those that are.
    fn prepared_on_gpu(&self, device: &CudaDevice) -> Result<Tensor> {
        let (batch, rows, k) = self.sizes();
        let mut data = allocate(device, DType::F8E4M3, self.data.elem_count())?;
        if self.data.elem_count() > 0 {
            let [matrix_step, row_step, k_step] = self.scale_steps();
            let args = vec![
                Arg::Read(Some(&self.data)),
                Arg::Write(&mut data),
                Arg::Long(k),
                Arg::Int(int("Fp8Matrix", "rows", rows)?),
                Arg::Int(int("Fp8Matrix", "elements of k", k)?),
                // The copy of the factors: nobody else has it yet.
                Arg::Read(Some(&self.scales)),
                Arg::Long(matrix_step),
                Arg::Long(row_step),
                Arg::Long(k_step),
                Arg::Int(0),
                Arg::Int(0),
                Arg::Int(self.row_shift()),
            ];
            let config = work_grid(device, rows * k.div_ceil(OF_THREAD))?;
            let config = batched("Fp8Matrix", config, batch)?;
            // SAFETY: the kernel's arguments: as many bytes as elements, and a factor for each of what shares one.
            unsafe { launch(device, &FP8, "fp8_prepare", config, args)? };
        }
        Ok(plain(data, self.data.shape()))
    }

    /// The same on the host.
    fn prepared_on_host(&mut self) -> Result<Tensor> {
        let (_, rows, k) = self.sizes();
        let mut scales = self.scales.flatten_all()?.to_vec1::<f32>()?;
        let mut data = self.data.flatten_all()?.to_vec1::<F8E4M3>()?;
        for (at, x) in data.iter_mut().enumerate() {
            if x.is_nan() {
                scales[factor_of(at, [rows, k], [self.of_rows, self.of_k])] = f32::NAN;
            }
            if x.is_nan() || x.to_bits() == 0x80 {
                *x = F8E4M3::from_bits(0);
            }
        }
        self.scales = Tensor::from_vec(scales, self.scales.shape(), self.scales.device())?;
        Tensor::from_vec(data, self.data.shape(), self.data.device())
    }

    /// Matrices, rows and elements of k.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        match *self.data.dims() {
            [batch, rows, k] => (batch, rows, k),
            [rows, k] => (1, rows, k),
            _ => unreachable!("checked where it was made"),
        }
    }

    fn row_shift(&self) -> u32 {
        match self.of_rows {
            Share::Block => BLOCK.ilog2(),
            Share::One | Share::All => 0,
        }
    }

    /// Factors or words between matrices, rows and blocks of k.
    fn scale_steps(&self) -> [usize; 3] {
        let [matrix, row, k] = match *self.scales.stride() {
            [matrix, row, k] => [matrix, row, k],
            [row, k] => [0, row, k],
            _ => unreachable!("checked where it was made"),
        };
        let shared = |share: Share, step: usize| if share == Share::All { 0 } else { step };
        [matrix, shared(self.of_rows, row), shared(self.of_k, k)]
    }

    /// As kernels of products take it.
    pub(super) fn operand(&self, name: &str) -> Result<Operand> {
        if self.of_k == Share::One {
            bail!("{name}: a product along a dimension whose elements have a factor each: take the other (`t`)");
        }
        let mut operand = Operand::of(&self.data, name)?;
        operand.scales = Some(Scales {
            values: self.scales.clone(),
            steps: self.scale_steps(),
            row_shift: self.row_shift(),
            packed: self.packed,
        });
        Ok(operand)
    }

    /// The matrices' transposes: rows and k change places, nothing is copied.
    ///
    /// # Errors
    /// Factors that are packed along k.
    pub fn t(&self) -> Result<Self> {
        if self.packed {
            bail!("Fp8Matrix: factors that are packed along k have no transpose");
        }
        Ok(Self {
            data: self.data.t()?,
            scales: self.scales.t()?,
            packed: false,
            of_rows: self.of_k,
            of_k: self.of_rows,
        })
    }

    /// The elements: F8E4M3 of (rows, k) or (batch, rows, k).
    pub fn data(&self) -> &Tensor {
        &self.data
    }

    /// The factors: F32 of those of rows by those of k, or U32 words with four of k each; those of casts lie by rows.
    pub fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// How rows and k share factors.
    pub fn shares(&self) -> [Share; 2] {
        [self.of_rows, self.of_k]
    }

    /// The factors as f32, of (batch,) factors of rows, factors of k.
    ///
    /// # Errors
    /// The device fails.
    pub fn unpacked_scales(&self) -> Result<Tensor> {
        if !self.packed {
            return Ok(self.scales.clone());
        }
        let (_, _, k) = self.sizes();
        let words = self.scales.to_device(&Device::Cpu)?.contiguous()?;
        let mut dims = words.dims().to_vec();
        let factors: Vec<f32> = words
            .flatten_all()?
            .to_vec1::<u32>()?
            .into_iter()
            .flat_map(u32::to_le_bytes)
            .map(power)
            .collect();
        if let Some(last) = dims.last_mut() {
            *last *= 4;
        }
        Tensor::from_vec(factors, dims, &Device::Cpu)?
            .narrow(D::Minus1, 0, self.of_k.factors(k))?
            .to_device(self.data.device())
    }

    /// What the matrix stands for, in `dtype`, computed in f32.
    ///
    /// # Errors
    /// The device fails.
    pub fn dequantize(&self, dtype: DType) -> Result<Tensor> {
        if let Some(widened) = self.widened(dtype)? {
            return Ok(widened);
        }
        let (_, rows, k) = self.sizes();
        let rank = self.data.rank();
        let scales = self.unpacked_scales()?.contiguous()?;
        let scales = expanded(&scales, rank - 2, self.of_rows, rows)?;
        let scales = expanded(&scales, rank - 1, self.of_k, k)?;
        self.data
            .contiguous()?
            .to_dtype(DType::F32)?
            .mul(&scales)?
            .to_dtype(dtype)
    }
}

/// Factors of a matrix of weights as kernels take them: between rows that share none, between blocks of k, and the rows that
/// share one as the power of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightFactors {
    pub row_step: u32,
    pub k_step: u32,
    pub row_shift: u32,
}

impl Fp8Matrix {
    /// Contiguous elements of one matrix whose factors are f32 of blocks or of all: those of its rows and k, or None.
    pub(super) fn weight_factors(&self) -> Option<WeightFactors> {
        let [_, row_step, k_step] = self.scale_steps();
        let blocks = |share| matches!(share, Share::Block | Share::All);
        let whole = self.data.rank() == 2 && self.data.is_contiguous() && !self.packed;
        (whole && blocks(self.of_k)).then_some(())?;
        Some(WeightFactors {
            row_step: u32::try_from(row_step).ok()?,
            k_step: u32::try_from(k_step).ok()?,
            row_shift: self.row_shift(),
        })
    }

    /// [`Fp8Matrix::dequantize`] in one launch, where there is a kernel for it.
    fn widened(&self, dtype: DType) -> Result<Option<Tensor>> {
        let (_, rows, k) = self.sizes();
        let float = matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
        let (Device::Cuda(device), Some(factors), true) =
            (self.data.device(), self.weight_factors(), float)
        else {
            return Ok(None);
        };
        let whole = self.data.layout().start_offset().is_multiple_of(OF_THREAD);
        if !whole || rows * k == 0 {
            return Ok(None);
        }
        let mut result = allocate(device, dtype, rows * k)?;
        let args = vec![
            Arg::Read(Some(&self.data)),
            Arg::Within(&self.scales),
            Arg::Int(factors.row_step),
            Arg::Int(factors.k_step),
            Arg::Int(factors.row_shift),
            Arg::Write(&mut result),
            Arg::Int(int("Fp8Matrix::dequantize", "rows", rows)?),
            Arg::Int(int("Fp8Matrix::dequantize", "elements of k", k)?),
        ];
        let config = work_grid(device, rows * k.div_ceil(OF_THREAD))?;
        let kernel = format!("upcast_fp8_{}", dtype.as_str());
        // SAFETY: the kernel's arguments: as many elements as results, and a factor for each of what shares one.
        unsafe { launch(device, &FP8_WEIGHTS, &kernel, config, args)? };
        Ok(Some(plain(result, self.data.shape())))
    }
}

/// The number of an element's factor among all that follow one another, of matrices (rows, k) that do so.
pub(super) fn factor_of(at: usize, [rows, k]: [usize; 2], [of_rows, of_k]: [Share; 2]) -> usize {
    let (matrix, row) = (at / (rows * k), at / k % rows);
    let row = matrix * of_rows.factors(rows) + of_rows.place(row);
    row * of_k.factors(k) + of_k.place(at % k)
}

/// Factors for each element of a dimension.
fn expanded(scales: &Tensor, dim: usize, share: Share, elements: usize) -> Result<Tensor> {
    let mut dims = scales.dims().to_vec();
    match share {
        Share::One => Ok(scales.clone()),
        Share::All => {
            dims[dim] = elements;
            scales.broadcast_as(dims)?.contiguous()
        }
        Share::Block => {
            let mut apart = dims.clone();
            apart.insert(dim + 1, BLOCK);
            dims[dim] *= BLOCK;
            scales
                .unsqueeze(dim + 1)?
                .broadcast_as(apart)?
                .reshape(dims)?
                .narrow(dim, 0, elements)?
                .contiguous()
        }
    }
}

/// The number that an exponent of 8 bits stands for.
fn power(exponent: u8) -> f32 {
    match exponent {
        255 => f32::NAN,
        // Denormal.
        0 => f32::from_bits(0x0040_0000),
        _ => f32::from_bits(u32::from(exponent) << 23),
    }
}
