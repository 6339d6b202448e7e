//! Sparse matrices by vectors and by dense matrices.

mod formats;
mod kernel;
mod pattern;

use std::sync::Arc;

use candle_core::{bail, Result, Tensor};

use self::pattern::{Pattern, NAME};
use super::node::{plain, result_of};
use super::operands::{check_alike, check_float, empty, on_gpu, wide};

/// A sparse matrix: where its numbers are, and their values.
///
/// Values are f16, bf16, f32 or f64; f16 and bf16 are multiplied and summed in f32, and each result is rounded once. Indices
/// are u32 or i64. Where numbers are is checked when a matrix is made, for which the host waits; products wait for nothing.
/// A place that is stored twice counts twice. The same inputs give the same bits on one GPU.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// # use candle_core::{Device, Tensor};
/// use candle_rocm_backend::ops::sparse::SparseMatrix;
///
/// let device = Device::new_cuda(0)?;
/// // [[1, 0, 2], [0, 3, 0]]
/// let offsets = Tensor::new(&[0u32, 2, 3], &device)?;
/// let columns = Tensor::new(&[0u32, 2, 1], &device)?;
/// let values = Tensor::new(&[1f32, 2., 3.], &device)?;
/// let matrix = SparseMatrix::from_csr((2, 3), &offsets, &columns, &values)?;
/// let x = Tensor::new(&[10f32, 20., 30.], &device)?;
/// assert_eq!(matrix.matmul(&x)?.to_vec1::<f32>()?, [70., 60.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseMatrix {
    pattern: Arc<Pattern>,
    values: Tensor,
}

impl SparseMatrix {
    /// Compressed rows: those of row r are the numbers from `offsets[r]` to before `offsets[r + 1]`.
    ///
    /// `shape` is (rows, columns), `offsets` has rows + 1 numbers, `columns` and `values` as many as are stored.
    ///
    /// # Errors
    /// Other shapes, dtypes or devices, offsets that decrease or do not end at the number of values, or a column that the
    /// matrix does not have; each names the operator and what was found.
    pub fn from_csr(
        shape: (usize, usize),
        offsets: &Tensor,
        columns: &Tensor,
        values: &Tensor,
    ) -> Result<Self> {
        let pattern = Pattern::from_csr(shape, offsets, columns, values)?;
        Self::of(pattern, values)
    }

    /// Numbers with their rows and columns, in any order: numbers of a row are added up in the order in which they are.
    ///
    /// Those that are not sorted by rows are sorted once, on the device; `values` keep their order.
    ///
    /// # Errors
    /// As [`SparseMatrix::from_csr`], of rows too.
    pub fn from_coo(
        shape: (usize, usize),
        rows: &Tensor,
        columns: &Tensor,
        values: &Tensor,
    ) -> Result<Self> {
        let pattern = Pattern::from_coo(shape, rows, columns, values)?;
        Self::of(pattern, values)
    }

    /// As many numbers for each row: `columns` and `values` have shape (rows, width). A column of -1, or of u32::MAX, is
    /// padding, whose value is not used.
    ///
    /// # Errors
    /// As [`SparseMatrix::from_csr`].
    pub fn from_ell(shape: (usize, usize), columns: &Tensor, values: &Tensor) -> Result<Self> {
        let pattern = Pattern::from_ell(shape, columns, values)?;
        Self::of(pattern, values)
    }

    fn of(pattern: Pattern, values: &Tensor) -> Result<Self> {
        Ok(Self {
            pattern: Arc::new(pattern),
            values: values.clone(),
        })
    }

    /// The matrix with these values at the same places, which are not checked again.
    ///
    /// # Errors
    /// Values of another shape or device than those that it has, or that are no floats.
    pub fn with_values(&self, values: &Tensor) -> Result<Self> {
        check_float(NAME, values)?;
        if values.shape() != self.values.shape() {
            bail!(
                "{NAME}: values of shape {:?} for a matrix whose values have {:?}",
                values.shape(),
                self.values.shape()
            );
        }
        if !values.device().same_device(self.values.device()) {
            bail!(
                "{NAME}: values on {:?} for a matrix on {:?}: move them with to_device",
                values.device().location(),
                self.values.device().location()
            );
        }
        Ok(Self {
            pattern: self.pattern.clone(),
            values: values.clone(),
        })
    }

    /// The values, in the order in which they were given.
    pub fn values(&self) -> &Tensor {
        &self.values
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.pattern.rows, self.pattern.inner)
    }

    /// The product with a vector of as many elements as there are columns, or with a matrix of as many rows.
    ///
    /// `dense` has the values' dtype and any strides. The result has a row for each of the matrix'. There are gradients of
    /// values and of `dense`; for the latter the first backward pass sorts the stored numbers by columns, once.
    ///
    /// # Errors
    /// Another shape, dtype or device, no memory, or a failed launch; each names the operator and what was found.
    pub fn matmul(&self, dense: &Tensor) -> Result<Tensor> {
        check_alike(NAME, "the values", &self.values, dense)?;
        let (rows, inner) = self.shape();
        let shape = match *dense.dims() {
            [count] if count == inner => vec![rows],
            [count, across] if count == inner => vec![rows, across],
            _ => bail!(
                "{NAME}: a matrix of {rows} x {inner} by x of shape {:?}: x needs {inner} rows, and one or two dimensions",
                dense.shape()
            ),
        };
        if shape.contains(&0) || dense.elem_count() == 0 || self.values.elem_count() == 0 {
            return empty(dense, &shape.into());
        }
        if !on_gpu(dense) {
            return self.composed(dense, &shape);
        }
        let (values, dense) = (self.values.contiguous()?, dense.contiguous()?);
        let result = self.pattern.product(&values, &dense)?;
        let pattern = self.pattern.clone();
        let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
            let [values, dense] = operands else {
                bail!("{NAME}: the graph has lost its operands");
            };
            let of_values = match values.track_op() {
                true => Some(pattern.sampled(gradient, dense)?),
                false => None,
            };
            let of_dense = match dense.track_op() {
                true => Some(pattern.transposed()?.product(values, gradient)?),
                false => None,
            };
            Ok(vec![
                of_values.map(|gradient| plain(gradient, values.shape())),
                of_dense.map(|gradient| plain(gradient, dense.shape())),
            ])
        };
        result_of(
            NAME,
            &[&values, &dense],
            result,
            &shape.into(),
            Box::new(backward),
        )
    }

    /// The same of Candle's operators: products of stored numbers and dense rows, added to the rows of the result.
    fn composed(&self, dense: &Tensor, shape: &[usize]) -> Result<Tensor> {
        let pattern = &*self.pattern;
        let across = dense.elem_count() / pattern.inner;
        let mut values = wide(&self.values)?.flatten_all()?;
        if let Some(places) = &pattern.places {
            values = values.index_select(places, 0)?;
        }
        let is_there = pattern.columns.ne(u32::MAX)?;
        let columns = is_there.where_cond(&pattern.columns, &pattern.columns.zeros_like()?)?;
        // What padding stands beside may be no number: neither results nor gradients have it.
        let values = is_there.where_cond(&values, &values.zeros_like()?)?;
        let dense = wide(dense)?.reshape((pattern.inner, across))?;
        let dense = dense.index_select(&columns, 0)?;
        let products = dense.broadcast_mul(&values.unsqueeze(1)?)?;
        let is_there = is_there.unsqueeze(1)?.broadcast_as(products.shape())?;
        let products = is_there.where_cond(&products, &products.zeros_like()?)?;
        let rows = Tensor::new(pattern.rows_on_host()?, dense.device())?;
        let result = Tensor::zeros((pattern.rows, across), products.dtype(), dense.device())?;
        let result = result.index_add(&rows, &products, 0)?;
        result.reshape(shape)?.to_dtype(self.values.dtype())
    }
}
