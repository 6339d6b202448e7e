//! Products of quantised matrices with one vector, each of which makes the vector that the next one reads: the decoding of
//! one sequence in as few kernels as that of dense weights.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{bail, CudaDevice, CudaStorage, DType, Device, Error, Result, Shape, Tensor};
use candle_rocm_kernels::gguf::{self, Format};
use candle_rocm_kernels::mmvq;
use candle_rocm_runtime::quantized::{chained, quantize_vectors, FloatType, Vectors};

use super::activation::swiglu_packed;
use super::launch::{allocate, check_contiguous, int, with_addresses, write};
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
pub struct Q8_1Activations {
    bytes: Tensor,
    elements: usize,
}

impl Q8_1Activations {
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
        check_contiguous("mmvq_quantize_q8_1_f32", x)?;
        let [kx, kx_padded] = [
            int("a quantised vector", "elements", elements)?,
            int("a quantised vector", "elements", padded)?,
        ];
        let stream = device.cuda_stream();
        let (vy, written) = write(&mut bytes, &stream)?;
        with_addresses("a quantised vector", &stream, [Some(x)], |[x]| {
            let vectors = Vectors {
                x,
                vy,
                kx: kx.into(),
                kx_padded: kx_padded.into(),
                num_rows: 1,
            };
            // SAFETY: a contiguous row, and memory for it and its padding.
            unsafe { quantize_vectors(&stream, FloatType::F32, &vectors) }.map_err(Error::wrap)
        })?;
        drop(written);
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
pub struct CompletionCounters(Tensor);

impl CompletionCounters {
    /// For vectors of up to `elements`, on `device`.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn new(elements: usize, device: &Device) -> Result<Self> {
        let counters = elements.div_ceil(BLOCK).max(1);
        Ok(Self(Tensor::zeros(counters, DType::U32, device)?))
    }

    fn check(&self, operator: &str, elements: usize, x: &Q8_1Activations) -> Result<()> {
        check_device(operator, "the completion counters", &self.0, &x.bytes)?;
        let most = self.0.elem_count() * BLOCK;
        if elements > most {
            bail!("{operator}: completion counters for {most} elements, and the vector made has {elements}");
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

/// Whether products with this matrix take a [`Q8_1Activations`]: it is on a GPU, and in a format that has kernels for it.
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
    x: &Q8_1Activations,
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
    x: &Q8_1Activations,
    sum: &Tensor,
    norm: RmsNorm,
    completion: &CompletionCounters,
) -> Result<(Tensor, Q8_1Activations)> {
    let device = cuda(x)?;
    let matrix = Matrix::of("quantized_add_norm", weight, x)?;
    check_addend("quantized_add_norm", "the sum", sum, matrix.rows, x)?;
    completion.check("quantized_add_norm", 1, x)?;
    let mut result = allocate(device, DType::F32, matrix.rows)?;
    let shape = Shape::from((1, matrix.rows));
    if !matrix.rows.is_multiple_of(TOGETHER) {
        matrix.product(device, x, Some(sum), (&mut result, 0), None)?;
        let result = plain(result, &shape);
        let normed = rms_norm(&result, norm.weight, norm.epsilon)?;
        return Ok((result, Q8_1Activations::of(&normed)?));
    }
    check_vector("quantized_add_norm", "the norm", norm.weight, sum)?;
    let mut vector = Q8_1Activations::memory(device, matrix.rows)?;
    let next = (norm, completion, &mut vector);
    matrix.product(device, x, Some(sum), (&mut result, 0), Some(next))?;
    let vector = Q8_1Activations::from_memory(vector, matrix.rows);
    Ok((plain(result, &shape), vector))
}

/// silu(gate) * up as a vector of n, where gate and up are the products of the first and the second half of a matrix's rows,
/// (2 n, k), with a vector of k: in one launch where n is a multiple of 256.
///
/// # Errors
/// As [`quantized_linears`]; an odd number of rows; completion counters for fewer than n elements.
pub fn quantized_swiglu(
    weight: &QTensor,
    x: &Q8_1Activations,
    completion: &CompletionCounters,
) -> Result<Q8_1Activations> {
    let device = cuda(x)?;
    let matrix = Matrix::of("quantized_swiglu", weight, x)?;
    let rows = matrix.rows / 2;
    completion.check("quantized_swiglu", rows, x)?;
    if matrix.rows % 2 != 0 || !rows.is_multiple_of(TOGETHER) {
        let both = quantized_linears(&[(weight, None)], x)?;
        return Q8_1Activations::of(&swiglu_packed(&both)?);
    }
    let mut vector = Q8_1Activations::memory(device, rows)?;
    let mut made = allocate(device, DType::F32, rows)?;
    let stream = device.cuda_stream();
    let (address, _guard) = address_of(weight, &stream)?;
    let (to_made, _made) = write(&mut made, &stream)?;
    let (to_vector, written) = write(&mut vector, &stream)?;
    let operands = [Some(&x.bytes), Some(&completion.0)];
    with_addresses("quantized_swiglu", &stream, operands, |[x, counters]| {
        let matrix = matrix.at(address, x)?;
        // SAFETY: a matrix of 2 * rows by as many elements as the vector has, memory for `rows`, and a counter for each
        // scale of theirs.
        unsafe { chained::multiply_gated(&stream, &matrix, to_made, counters, to_vector) }
            .map_err(Error::wrap)
    })?;
    drop(written);
    Ok(Q8_1Activations::from_memory(vector, rows))
}

/// The format as kernels have it, if they do.
fn format(weight: &QTensor) -> Option<&'static Format> {
    Some(match weight.dtype() {
        GgmlDType::Q4_0 => &gguf::Q4_0,
        GgmlDType::Q4_1 => &gguf::Q4_1,
        GgmlDType::Q5_0 => &gguf::Q5_0,
        GgmlDType::Q5_1 => &gguf::Q5_1,
        GgmlDType::Q8_0 => &gguf::Q8_0,
        GgmlDType::Q2K => &gguf::Q2_K,
        GgmlDType::Q3K => &gguf::Q3_K,
        GgmlDType::Q4K => &gguf::Q4_K,
        GgmlDType::Q5K => &gguf::Q5_K,
        GgmlDType::Q6K => &gguf::Q6_K,
        _ => return None,
    })
}

/// A matrix that products with the vector take.
struct Matrix<'a> {
    operator: &'static str,
    weight: &'a QTensor,
    format: &'static Format,
    rows: usize,
    columns: usize,
}

impl<'a> Matrix<'a> {
    fn of(operator: &'static str, weight: &'a QTensor, x: &Q8_1Activations) -> Result<Self> {
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

    /// The matrix at this address and the vector at that, as the runtime has them.
    fn at(&self, address: u64, vector: u64) -> Result<chained::Matrix> {
        Ok(chained::Matrix {
            format: self.format,
            address,
            rows: int(self.operator, "rows", self.rows)?,
            columns: int(self.operator, "columns", self.columns)?,
            vector,
        })
    }

    /// The product and what is added to it, from element `first` of the result on, and the next vector, if one is wanted.
    fn product(
        &self,
        device: &CudaDevice,
        x: &Q8_1Activations,
        addend: Option<&Tensor>,
        (result, first): (&mut CudaStorage, usize),
        next: Option<(RmsNorm, &CompletionCounters, &mut CudaStorage)>,
    ) -> Result<()> {
        let stream = device.cuda_stream();
        let first = int(self.operator, "results", first)?;
        let (address, _guard) = address_of(self.weight, &stream)?;
        let (result, _written) = write(result, &stream)?;
        let (norm, made) = match next {
            Some((norm, completion, vector)) => {
                let kernel = format_args!("chained_{}", self.format.name);
                check_contiguous(kernel, norm.weight)?;
                (Some((norm, completion)), Some(write(vector, &stream)?))
            }
            None => (None, None),
        };
        let operands = [
            Some(&x.bytes),
            addend,
            norm.map(|(norm, _)| norm.weight),
            norm.map(|(_, CompletionCounters(counter))| counter),
        ];
        with_addresses(self.operator, &stream, operands, |addresses| {
            let [x, addend, weight, counter] = addresses;
            let next = norm
                .zip(made.as_ref())
                .map(|((norm, _), (vector, _))| chained::Next {
                    norm: weight,
                    epsilon: norm.epsilon as f32,
                    counter,
                    vector: *vector,
                });
            let matrix = self.at(address, x)?;
            // SAFETY: shapes were checked: the matrix, a vector of its columns, and as many addends and results as it has
            // rows.
            unsafe { chained::multiply(&stream, &matrix, addend, (result, first), next) }
                .map_err(Error::wrap)
        })
    }
}

fn cuda(x: &Q8_1Activations) -> Result<&CudaDevice> {
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
    x: &Q8_1Activations,
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

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{DType, Device, Tensor};

    use super::{format, gguf};

    /// Candle's blocks are those of the kernels' table, and each format of the table is one of Candle's.
    #[test]
    fn blocks_are_candles() {
        let zeros = Tensor::zeros((1, 256), DType::F32, &Device::Cpu).unwrap();
        let formats = [
            GgmlDType::Q4_0,
            GgmlDType::Q4_1,
            GgmlDType::Q5_0,
            GgmlDType::Q5_1,
            GgmlDType::Q8_0,
            GgmlDType::Q2K,
            GgmlDType::Q3K,
            GgmlDType::Q4K,
            GgmlDType::Q5K,
            GgmlDType::Q6K,
        ];
        let found = formats.map(|dtype| {
            let format = *format(&QTensor::quantize(&zeros, dtype).unwrap()).unwrap();
            assert_eq!(dtype.block_size(), format.elements as usize, "{dtype:?}");
            assert_eq!(dtype.type_size(), format.bytes as usize, "{dtype:?}");
            let name = format!("{dtype:?}").replace('_', "").to_lowercase();
            assert_eq!(name, format.name.replace('_', ""));
            format
        });
        assert_eq!(found, gguf::FORMATS);
    }
}
