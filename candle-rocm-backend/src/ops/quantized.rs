//! Products of quantised matrices with one vector, each of which makes the vector that the next one reads: the decoding of
//! one sequence in as few kernels as that of dense weights.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{bail, CudaDevice, CudaStorage, DType, Device, Result, Shape, Tensor};
use candle_rocm_kernels::{mmvq, CHAINED, MMVQ};

use super::activation::swiglu_packed;
use super::launch::{allocate, grid, int, launch, Arg};
use super::node::plain;
use super::norm::rms_norm;
use super::operands::{check_device, check_vector};
use crate::candle::address_of;

/// Elements of quantised vectors that lie together.
const TOGETHER: usize = mmvq::TOGETHER as usize;
/// Elements that share a scale.
const BLOCK: usize = mmvq::BLOCK as usize;

/// A vector as products of quantised matrices take it: signed bytes, with a scale for each 32 (GGUF's q8_1), on a GPU.
#[derive(Clone, Debug)]
pub struct QuantizedVector {
    bytes: Tensor,
    elements: usize,
}

impl QuantizedVector {
    /// `x`, f32 of one row or none: (..., k).
    ///
    /// # Errors
    /// Another dtype, several rows, or not on a GPU.
    pub fn of(x: &Tensor) -> Result<Self> {
        let elements = x.elem_count();
        let Device::Cuda(device) = x.device() else {
            bail!(
                "a quantised vector of {:?} is made on a GPU, not on {:?}",
                x.shape(),
                x.device().location()
            );
        };
        if x.dtype() != DType::F32 || x.dims().last() != Some(&elements) || elements == 0 {
            bail!(
                "a quantised vector of {:?} and {:?}: it must be one row of f32",
                x.shape(),
                x.dtype()
            );
        }
        let padded = elements.next_multiple_of(TOGETHER);
        let mut bytes = Self::memory(device, elements)?;
        let args = vec![
            Arg::Read(Some(x)),
            Arg::Write(&mut bytes),
            Arg::Int(int("a quantised vector", "elements", elements)?),
            Arg::Int(int("a quantised vector", "elements", padded)?),
            Arg::Long(padded),
        ];
        let config = grid(padded.div_ceil(mmvq::THREADS as usize), 1, mmvq::THREADS)?;
        // SAFETY: the kernel's arguments: a contiguous row, and memory for it and its padding.
        unsafe { launch(device, &MMVQ, "mmvq_quantize_q8_1_f32", config, args)? };
        Ok(Self::from_memory(bytes, elements))
    }

    /// Elements of the vector.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// What the bytes stand for, on the host.
    ///
    /// # Errors
    /// The GPU fails.
    pub fn values(&self) -> Result<Vec<f32>> {
        let bytes = self.bytes.to_vec1::<u8>()?;
        let all = bytes
            .chunks_exact(mmvq::TOGETHER_BYTES as usize)
            .flat_map(|group| {
                let (integers, scales) = group.split_at(TOGETHER);
                let scale = |at: usize| {
                    let at = at / BLOCK * 4;
                    half::f16::from_le_bytes([scales[at], scales[at + 1]]).to_f32()
                };
                let value = move |(at, &byte): (usize, &u8)| f32::from(byte as i8) * scale(at);
                integers.iter().enumerate().map(value).collect::<Vec<_>>()
            });
        Ok(all.take(self.elements).collect())
    }

    /// Memory for a vector that a kernel makes.
    pub(super) fn memory(device: &CudaDevice, elements: usize) -> Result<CudaStorage> {
        let bytes = elements.div_ceil(TOGETHER) * mmvq::TOGETHER_BYTES as usize;
        allocate(device, DType::U8, bytes)
    }

    /// Of what a kernel made.
    pub(super) fn from_memory(bytes: CudaStorage, elements: usize) -> Self {
        let count = elements.div_ceil(TOGETHER) * mmvq::TOGETHER_BYTES as usize;
        Self {
            bytes: plain(bytes, &Shape::from(count)),
            elements,
        }
    }
}

/// How kernels know which of their workgroups end last: counters, zero between launches, for launches that follow one
/// another, as on one stream.
#[derive(Clone, Debug)]
pub struct Ending(Tensor);

impl Ending {
    /// For vectors of up to `elements`, on `device`.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn new(elements: usize, device: &Device) -> Result<Self> {
        let counters = elements.div_ceil(BLOCK).max(1);
        Ok(Self(Tensor::zeros(counters, DType::U32, device)?))
    }

    fn check(&self, operator: &str, elements: usize, x: &QuantizedVector) -> Result<()> {
        check_device(operator, "the ending", &self.0, &x.bytes)?;
        let most = self.0.elem_count() * BLOCK;
        if elements > most {
            bail!("{operator}: an ending for {most} elements, and the vector made has {elements}");
        }
        Ok(())
    }
}

/// A norm by the root of the mean of squares, as [`rms_norm`] has it.
#[derive(Clone, Copy, Debug)]
pub struct RmsNorm<'a> {
    /// Its weight, a vector of f32.
    pub weight: &'a Tensor,
    /// What it adds to the mean of squares.
    pub epsilon: f64,
}

/// Whether products with this matrix take a [`QuantizedVector`]: it is on a GPU, and in a format that has kernels for it.
pub fn takes_vectors(weight: &QTensor) -> bool {
    matches!(weight.device(), Device::Cuda(_)) && weight.rank() == 2 && format(weight).is_some()
}

/// The products of matrices (n, k), each with a bias of n where there is one, with the same vector of k: (1, n), one after
/// another where there are several.
///
/// # Errors
/// A format without a kernel, or shapes, dtypes or devices that do not fit.
pub fn quantized_linears(
    products: &[(&QTensor, Option<&Tensor>)],
    x: &QuantizedVector,
) -> Result<Tensor> {
    let device = cuda(x)?;
    let mut matrices = Vec::with_capacity(products.len());
    for (weight, bias) in products {
        let matrix = Matrix::of("quantized_linears", weight, x)?;
        if let Some(bias) = bias {
            check_addend("quantized_linears", "a bias", bias, matrix.rows, x)?;
        }
        matrices.push((matrix, *bias));
    }
    let rows = matrices.iter().map(|(matrix, _)| matrix.rows).sum();
    let mut result = allocate(device, DType::F32, rows)?;
    let mut first = 0;
    for (matrix, bias) in &matrices {
        matrix.product(device, x, *bias, (&mut result, first), None)?;
        first += matrix.rows;
    }
    Ok(plain(result, &Shape::from((1, rows))))
}

/// The product of a matrix (n, k) with a vector of k, added to `sum`, (1, n), and the vector that the norm of the result
/// is: what a layer hands on, in one launch where n is a multiple of 256.
///
/// # Errors
/// As [`quantized_linears`], and as [`rms_norm`].
pub fn quantized_add_norm(
    weight: &QTensor,
    x: &QuantizedVector,
    sum: &Tensor,
    norm: RmsNorm,
    ending: &Ending,
) -> Result<(Tensor, QuantizedVector)> {
    let device = cuda(x)?;
    let matrix = Matrix::of("quantized_add_norm", weight, x)?;
    check_addend("quantized_add_norm", "the sum", sum, matrix.rows, x)?;
    ending.check("quantized_add_norm", 1, x)?;
    let mut result = allocate(device, DType::F32, matrix.rows)?;
    let shape = Shape::from((1, matrix.rows));
    if !matrix.rows.is_multiple_of(TOGETHER) {
        matrix.product(device, x, Some(sum), (&mut result, 0), None)?;
        let result = plain(result, &shape);
        let normed = rms_norm(&result, norm.weight, norm.epsilon)?;
        return Ok((result, QuantizedVector::of(&normed)?));
    }
    check_vector("quantized_add_norm", "the norm", norm.weight, sum)?;
    let mut vector = QuantizedVector::memory(device, matrix.rows)?;
    let next = (norm, ending, &mut vector);
    matrix.product(device, x, Some(sum), (&mut result, 0), Some(next))?;
    let vector = QuantizedVector::from_memory(vector, matrix.rows);
    Ok((plain(result, &shape), vector))
}

/// silu(gate) * up as a vector of n, where gate and up are the products of the first and the second half of a matrix's rows,
/// (2 n, k), with a vector of k: in one launch where n is a multiple of 256.
///
/// # Errors
/// As [`quantized_linears`]; an odd number of rows; an ending for fewer than n elements.
pub fn quantized_swiglu(
    weight: &QTensor,
    x: &QuantizedVector,
    ending: &Ending,
) -> Result<QuantizedVector> {
    let device = cuda(x)?;
    let matrix = Matrix::of("quantized_swiglu", weight, x)?;
    let rows = matrix.rows / 2;
    ending.check("quantized_swiglu", rows, x)?;
    if matrix.rows % 2 != 0 || !rows.is_multiple_of(TOGETHER) {
        let both = quantized_linears(&[(weight, None)], x)?;
        return QuantizedVector::of(&swiglu_packed(&both)?);
    }
    let mut vector = QuantizedVector::memory(device, rows)?;
    let mut made = allocate(device, DType::F32, rows)?;
    let stream = device.cuda_stream();
    let (address, _guard) = address_of(weight, &stream)?;
    let args = vec![
        Arg::Long(address as usize),
        Arg::Read(Some(&x.bytes)),
        Arg::Write(&mut made),
        Arg::Read(Some(&ending.0)),
        Arg::Write(&mut vector),
        Arg::Int(matrix.int_columns()?),
        Arg::Int(int("quantized_swiglu", "rows", rows)?),
    ];
    let config = grid(rows / mmvq::GATED_ROWS as usize, 1, mmvq::THREADS)?;
    let kernel = format!("gated_{}", matrix.format.name);
    // SAFETY: the kernel's arguments: a matrix of 2 * rows by as many elements as the vector has, memory for `rows`, and a
    // counter for each scale of theirs.
    unsafe { launch(device, &CHAINED, &kernel, config, args)? };
    Ok(QuantizedVector::from_memory(vector, rows))
}

/// A format by its name in the kernels' names, and the elements of its blocks.
#[derive(Clone, Copy)]
struct Format {
    name: &'static str,
    block: u32,
}

fn format(weight: &QTensor) -> Option<Format> {
    let (name, block) = match weight.dtype() {
        GgmlDType::Q4_0 => ("q4_0", 32),
        GgmlDType::Q4_1 => ("q4_1", 32),
        GgmlDType::Q5_0 => ("q5_0", 32),
        GgmlDType::Q5_1 => ("q5_1", 32),
        GgmlDType::Q8_0 => ("q8_0", 32),
        GgmlDType::Q2K => ("q2_k", 256),
        GgmlDType::Q3K => ("q3_k", 256),
        GgmlDType::Q4K => ("q4_k", 256),
        GgmlDType::Q5K => ("q5_k", 256),
        GgmlDType::Q6K => ("q6_k", 256),
        _ => return None,
    };
    Some(Format { name, block })
}

/// A matrix that products with the vector take.
struct Matrix<'a> {
    operator: &'static str,
    weight: &'a QTensor,
    format: Format,
    rows: usize,
    columns: usize,
}

impl<'a> Matrix<'a> {
    fn of(operator: &'static str, weight: &'a QTensor, x: &QuantizedVector) -> Result<Self> {
        let Some(format) = format(weight) else {
            bail!(
                "{operator}: there is no kernel for {:?}: dequantise it",
                weight.dtype()
            );
        };
        if !weight.device().same_device(x.bytes.device()) {
            bail!(
                "{operator}: the matrix is on {:?}, and the vector on {:?}",
                weight.device().location(),
                x.bytes.device().location()
            );
        }
        let (rows, columns) = weight.shape().dims2()?;
        if columns != x.elements || rows == 0 {
            bail!(
                "{operator}: a matrix of {:?} and a vector of {} elements",
                weight.shape(),
                x.elements
            );
        }
        Ok(Self {
            operator,
            weight,
            format,
            rows,
            columns,
        })
    }

    fn int_columns(&self) -> Result<u32> {
        int(self.operator, "columns", self.columns)
    }

    /// The product and what is added to it, from element `first` of the result on, and the next vector, if one is wanted.
    fn product(
        &self,
        device: &CudaDevice,
        x: &QuantizedVector,
        addend: Option<&Tensor>,
        (result, first): (&mut CudaStorage, usize),
        next: Option<(RmsNorm, &Ending, &mut CudaStorage)>,
    ) -> Result<()> {
        let stream = device.cuda_stream();
        let info = stream.context().info();
        let (rows, columns) = (int(self.operator, "rows", self.rows)?, self.int_columns()?);
        let thread_rows = mmvq::thread_rows(self.format.block, 1);
        let units = (info.compute_units, info.wavefront_size);
        let row_threads = mmvq::row_threads(units, rows, thread_rows, columns / mmvq::BLOCK, 1);
        let of_workgroup = mmvq::CHAINED_THREADS / row_threads * thread_rows;
        let (address, _guard) = address_of(self.weight, &stream)?;
        let mut args = vec![
            Arg::Long(address as usize),
            Arg::Read(Some(&x.bytes)),
            Arg::Read(addend),
            Arg::Write(result),
            Arg::Int(int(self.operator, "results", first)?),
            Arg::Int(columns),
            Arg::Int(rows),
            Arg::Int(row_threads),
        ];
        match next {
            Some((norm, Ending(counter), vector)) => args.extend([
                Arg::Read(Some(norm.weight)),
                Arg::Float(norm.epsilon as f32),
                Arg::Read(Some(counter)),
                Arg::Write(vector),
            ]),
            None => args.extend([Arg::Null, Arg::Float(0.), Arg::Null, Arg::Null]),
        }
        let config = grid(
            rows.div_ceil(of_workgroup) as usize,
            1,
            mmvq::CHAINED_THREADS,
        )?;
        let kernel = format!("chained_{}", self.format.name);
        // SAFETY: the kernel's arguments, whose shapes were checked: the matrix, a vector of its columns, and as many addends
        // and results as it has rows.
        unsafe { launch(device, &CHAINED, &kernel, config, args) }
    }
}

fn cuda(x: &QuantizedVector) -> Result<&CudaDevice> {
    match x.bytes.device() {
        Device::Cuda(device) => Ok(device),
        other => bail!("a quantised vector on {:?}", other.location()),
    }
}

fn check_addend(
    operator: &str,
    name: &str,
    addend: &Tensor,
    rows: usize,
    x: &QuantizedVector,
) -> Result<()> {
    check_device(operator, name, addend, &x.bytes)?;
    let fits = addend.elem_count() == rows && addend.dims().last() == Some(&rows);
    if !fits || addend.dtype() != DType::F32 || !addend.is_contiguous() {
        bail!(
            "{operator}: {name} has shape {:?} and {:?}, and must be one contiguous row of {rows} of F32",
            addend.shape(),
            addend.dtype()
        );
    }
    Ok(())
}
