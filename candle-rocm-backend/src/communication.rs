//! What the ranks of a program exchange of tensors: each rank is a GPU, in a thread or a process of its own.
//!
//! Over AMD's RCCL, or collectives of our own, as `CANDLE_ROCM_COMM` says (docs/user/communication.md).

use std::fmt;

use candle_core::backend::BackendStorage as _;
use candle_core::cuda_backend::CudaDType;
use candle_core::{
    bail, CudaDevice, CudaStorage, DType, Device, Error, Result, Shape, Storage, Tensor,
};
use candle_rocm_runtime::communication::{Comm, NcclType};
use candle_rocm_runtime::DeviceRepr;

use crate::ops::node::plain;

pub use candle_rocm_runtime::communication::{Id, ReduceOp};

/// One of several GPUs that compute one thing.
///
/// All ranks make the same calls, with tensors of one shape and dtype, in the same order. Calls return when their work is
/// given to the device's stream, and steps that make them can be captured ([`crate::graph`]). Every rank gets the same bits.
///
/// ```
/// # use candle_rocm_backend::{runtime, RuntimeKind};
/// # runtime::select(RuntimeKind::Emulator)?;
/// use candle_core::{Device, Tensor};
/// use candle_rocm_backend::communication::{Id, Rank, ReduceOp};
///
/// let device = Device::new_cuda(0)?;
/// let alone = Rank::join(&device, 0, 1, Rank::new_id()?)?;
/// let x = Tensor::new(&[1f32, 2.], &device)?;
/// assert_eq!(alone.all_reduce(&x, ReduceOp::Sum)?.to_vec1::<f32>()?, [1., 2.]);
/// assert_eq!(alone.all_gather(&x)?.dims(), [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rank {
    comm: Comm,
    device: CudaDevice,
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.number(), self.ranks())
    }
}

/// What a collective gives each rank.
#[derive(Clone, Copy)]
enum Kind {
    Reduce(ReduceOp),
    Gather,
}

impl Rank {
    /// An identifier, which one rank makes and all [`Rank::join`] with.
    ///
    /// # Errors
    /// A library of collectives is asked for and does not load.
    pub fn new_id() -> Result<Id> {
        Id::new().map_err(Error::wrap)
    }

    /// Rank `number` of `ranks`, on a GPU that no other has; its calls go to `device`'s stream. Waits until all have come.
    ///
    /// # Errors
    /// `device` is no GPU, there is no such rank, it comes twice, another does not come in time or ends (which the error names),
    /// two have one GPU, or there is no memory.
    pub fn join(device: &Device, number: usize, ranks: usize, id: Id) -> Result<Self> {
        let Device::Cuda(gpu) = device else {
            bail!(
                "Rank::join: rank {number} of {ranks} is on {:?}, and ranks are GPUs",
                device.location()
            );
        };
        let comm = Comm::from_rank(gpu.cuda_stream(), number, ranks, id);
        Ok(Self {
            comm: comm.map_err(Error::wrap)?,
            device: gpu.clone(),
        })
    }

    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.comm.rank()
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.comm.world_size()
    }

    /// Whose collectives these are, in words.
    pub fn provider(&self) -> &str {
        self.comm.provider()
    }

    /// Its GPU.
    pub fn device(&self) -> Device {
        Device::Cuda(self.device.clone())
    }

    /// The ranks' tensors reduced, element by element, on all ranks. Sums of f16 and bf16 are made in f32, in the order of
    /// ranks, and rounded once. There is no gradient.
    ///
    /// # Errors
    /// `x` is on another device, or none of f16, bf16, f32, f64, u8, u32, i32 and i64; or a rank is gone, which the error names.
    pub fn all_reduce(&self, x: &Tensor, op: ReduceOp) -> Result<Tensor> {
        self.collective("all_reduce", x, Kind::Reduce(op), x.shape().clone())
    }

    /// The ranks' tensors, one after another in a new first dimension, on all ranks. There is no gradient.
    ///
    /// # Errors
    /// As [`Rank::all_reduce`].
    pub fn all_gather(&self, x: &Tensor) -> Result<Tensor> {
        let dims = [&[self.ranks()], x.dims()].concat();
        self.collective("all_gather", x, Kind::Gather, dims.into())
    }

    fn collective(&self, name: &str, x: &Tensor, kind: Kind, shape: Shape) -> Result<Tensor> {
        if !x.device().same_device(&self.device()) {
            bail!(
                "{name}: x is on {:?}, and rank {} on {:?}: move it with to_device",
                x.device().location(),
                self.number(),
                self.device().location()
            );
        }
        if x.elem_count() == 0 {
            return Tensor::zeros(shape, x.dtype(), x.device());
        }
        let x = x.contiguous()?;
        let result = match x.dtype() {
            DType::F16 => self.of::<half::f16>(&x, kind, &shape),
            DType::BF16 => self.of::<half::bf16>(&x, kind, &shape),
            DType::F32 => self.of::<f32>(&x, kind, &shape),
            DType::F64 => self.of::<f64>(&x, kind, &shape),
            DType::U8 => self.of::<u8>(&x, kind, &shape),
            DType::U32 => self.of::<u32>(&x, kind, &shape),
            DType::I32 => self.of::<i32>(&x, kind, &shape),
            DType::I64 => self.of::<i64>(&x, kind, &shape),
            other => bail!(
                "{name}: x of shape {:?} is {other:?}, which ranks do not exchange",
                x.shape()
            ),
        };
        let result = result.map_err(|error| error.context(name.to_owned()))?;
        Ok(plain(result, &shape))
    }

    fn of<T>(&self, x: &Tensor, kind: Kind, shape: &Shape) -> Result<CudaStorage>
    where
        T: CudaDType + DeviceRepr + NcclType,
    {
        let (storage, layout) = x.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            bail!("x is not on a GPU");
        };
        let first = layout.start_offset();
        let from = storage
            .as_cuda_slice::<T>()?
            .slice(first..first + x.elem_count());
        // SAFETY: the collective writes all of it.
        let mut to = unsafe { storage.device().alloc::<T>(shape.elem_count()) }?;
        let status = match kind {
            Kind::Reduce(op) => self.comm.all_reduce(&from, &mut to, &op),
            Kind::Gather => self.comm.all_gather(&from, &mut to),
        };
        status.map_err(Error::wrap)?;
        Ok(CudaStorage::wrap_cuda_slice(to, storage.device().clone()))
    }
}
