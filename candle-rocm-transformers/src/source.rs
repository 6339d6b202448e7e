//! Where weights come from, of which a rank reads its part.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use candle_core::safetensors::MmapedSafetensors;
use candle_core::{bail, DType, Device, Result, Tensor};
use candle_nn::VarBuilder;

/// What is wanted of a tensor.
#[derive(Clone, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// Rows, which are contiguous.
    Rows(Range<usize>),
    /// Columns of a matrix.
    Columns(Range<usize>),
}

impl Part {
    /// The shape of this part of a tensor of another.
    pub fn shape(&self, whole: &[usize]) -> Vec<usize> {
        let mut shape = whole.to_vec();
        match (self, &mut shape[..]) {
            (Self::Rows(rows), [first, ..]) => *first = rows.len(),
            (Self::Columns(columns), [.., last]) => *last = columns.len(),
            _ => {}
        }
        shape
    }

    /// This part of a tensor; less than all of it in memory of its own.
    fn of(&self, whole: &Tensor) -> Result<Tensor> {
        let (dim, range) = match self {
            Self::Rows(rows) => (0, rows),
            Self::Columns(columns) => (whole.rank().saturating_sub(1), columns),
            Self::Whole => return Ok(whole.clone()),
        };
        if range.len() == whole.dim(dim)? {
            return Ok(whole.clone());
        }
        whole
            .narrow(dim, range.start, range.len())?
            .force_contiguous()
    }
}

/// Weights by name.
pub trait Source {
    /// A part of the tensor of this name, which as a whole has this shape.
    ///
    /// # Errors
    /// There is none, it has another shape, or there is no memory.
    fn get(&self, shape: &[usize], name: &str, part: &Part) -> Result<Tensor>;

    /// Whether there is a tensor of this name.
    fn contains(&self, name: &str) -> bool;

    /// Where the tensors come to.
    fn device(&self) -> &Device;
}

/// The whole of a tensor is read, and its part kept.
impl Source for VarBuilder<'_> {
    fn get(&self, shape: &[usize], name: &str, part: &Part) -> Result<Tensor> {
        part.of(&VarBuilder::get(self, shape, name)?)
    }

    fn contains(&self, name: &str) -> bool {
        self.contains_tensor(name)
    }

    fn device(&self) -> &Device {
        VarBuilder::device(self)
    }
}

/// Files of safetensors, of which a rank reads its part alone: the rest of them is neither read nor in memory.
pub struct Checkpoint {
    files: MmapedSafetensors,
    dtype: DType,
    device: Device,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({} tensors)", self.files.tensors().len())
    }
}

impl Checkpoint {
    /// Of these files. Tensors are converted to `dtype` before they travel to `device`.
    ///
    /// # Safety
    /// Nobody writes to the files while this lives: they are mapped.
    ///
    /// # Errors
    /// A file is missing, or no safetensors file.
    pub unsafe fn open<P: AsRef<Path>>(files: &[P], dtype: DType, device: &Device) -> Result<Self> {
        Ok(Self {
            // SAFETY: the caller's promise.
            files: unsafe { MmapedSafetensors::multi(files) }?,
            dtype,
            device: device.clone(),
        })
    }
}

impl Source for Checkpoint {
    fn get(&self, shape: &[usize], name: &str, part: &Part) -> Result<Tensor> {
        let view = self.files.get(name)?;
        if view.shape() != shape {
            bail!(
                "{name} has shape {:?}, and the configuration asks for {shape:?}",
                view.shape()
            );
        }
        let dtype = DType::try_from(view.dtype())?;
        let row = shape.get(1..).unwrap_or_default().iter().product::<usize>();
        let row_bytes = row * dtype.size_in_bytes();
        let bytes: Cow<[u8]> = match part {
            Part::Whole => view.data().into(),
            Part::Rows(rows) => view.data()[rows.start * row_bytes..rows.end * row_bytes].into(),
            Part::Columns(columns) => {
                let size = dtype.size_in_bytes();
                let own = columns.start * size..columns.end * size;
                let rows = view.data().chunks_exact(row_bytes);
                let mut all = Vec::with_capacity(rows.len() * own.len());
                rows.for_each(|row| all.extend_from_slice(&row[own.clone()]));
                all.into()
            }
        };
        let tensor = Tensor::from_raw_buffer(&bytes, dtype, &part.shape(shape), &Device::Cpu)?;
        tensor.to_dtype(self.dtype)?.to_device(&self.device)
    }

    fn contains(&self, name: &str) -> bool {
        self.files.get(name).is_ok()
    }

    fn device(&self) -> &Device {
        &self.device
    }
}
