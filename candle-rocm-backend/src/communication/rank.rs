//! A GPU among several, and what it exchanges of tensors.

use std::fmt;
use std::sync::Arc;

use candle_core::cuda_backend::CudaDType;
use candle_core::{
    bail, CudaDevice, CudaStorage, DType, Device, Error, Layout, Result, Shape, Storage, Tensor,
};
use candle_rocm_runtime::communication::{Comm, Id, NcclType, ReduceOp};
use candle_rocm_runtime::{DeviceRepr, Stream, View};

use crate::ops::node::plain;

/// One of several GPUs that compute one thing.
///
/// All ranks make the same calls, with tensors of one shape and dtype, in the same order; of messages, [`Rank::send`] and
/// [`Rank::recv`], two do, each its own. Calls return when their work is given to the device's stream, and steps that make
/// them can be captured ([`crate::graph`]). Every rank gets the same bits.
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
/// assert_eq!(alone.broadcast(Some(&x), 2, x.dtype(), 0)?.to_vec1::<f32>()?, [1., 2.]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Rank {
    pub(super) comm: Comm,
    pub(super) device: CudaDevice,
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.number(), self.ranks())
    }
}

/// What ranks exchange.
#[derive(Clone, Copy)]
enum Kind {
    Reduce(ReduceOp),
    Gather,
    Broadcast(i32),
    Send(i32),
    Recv(i32),
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
        let gpu = gpu_of("Rank::join", device, number, ranks)?;
        Self::on(gpu.cuda_stream(), gpu, number, ranks, id)
    }

    /// As [`Rank::join`], with a stream for the rank's calls beside `device`'s: what does not wait for a call's result runs at
    /// once with it. A call waits for what it is given, and work that is given its result waits for the call, by events; from
    /// now on the device notes one for each use of a tensor, which costs the host time. It is for training
    /// ([`Gradients`](super::Gradients)); steps that make such calls are not captured.
    ///
    /// # Errors
    /// As [`Rank::join`]; the device's tensors note no events (`disable_event_tracking`).
    pub fn join_beside(device: &Device, number: usize, ranks: usize, id: Id) -> Result<Self> {
        let gpu = gpu_of("Rank::join_beside", device, number, ranks)?;
        if !gpu.is_event_tracking() {
            bail!(
                "Rank::join_beside: the tensors of rank {number}'s device note no events, by which streams wait for each \
                 other: take Rank::join, or leave event tracking on"
            );
        }
        let stream = gpu.cuda_stream().fork().map_err(Error::wrap)?;
        Self::on(stream, gpu, number, ranks, id)
    }

    fn on(
        stream: Arc<Stream>,
        gpu: &CudaDevice,
        number: usize,
        ranks: usize,
        id: Id,
    ) -> Result<Self> {
        let comm = Comm::from_rank(stream, number, ranks, id);
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
        let kind = Kind::Reduce(op);
        self.received("all_reduce", kind, Some(x), x.dtype(), x.shape())
    }

    /// The ranks' tensors, one after another in a new first dimension, on all ranks. There is no gradient.
    ///
    /// # Errors
    /// As [`Rank::all_reduce`].
    pub fn all_gather(&self, x: &Tensor) -> Result<Tensor> {
        let shape = Shape::from([&[self.ranks()], x.dims()].concat());
        self.received("all_gather", Kind::Gather, Some(x), x.dtype(), &shape)
    }

    /// The tensor `x` of rank `root`, of this shape and dtype, on all ranks; the others give `None`. There is no gradient.
    ///
    /// # Errors
    /// As [`Rank::all_reduce`]; there is no rank `root`, or it gives nothing or a tensor of another shape or dtype.
    pub fn broadcast(
        &self,
        x: Option<&Tensor>,
        shape: impl Into<Shape>,
        dtype: DType,
        root: usize,
    ) -> Result<Tensor> {
        let (shape, kind) = (shape.into(), Kind::Broadcast(self.of("broadcast", root)?));
        let x = x.filter(|_| self.number() == root);
        let fits = |x: &Tensor| *x.shape() == shape && x.dtype() == dtype;
        if self.number() == root && !x.is_some_and(fits) {
            bail!(
                "broadcast: rank {root} gives {:?} where all expect {shape:?} of {dtype:?}",
                x.map(|x| (x.shape(), x.dtype()))
            );
        }
        self.received("broadcast", kind, x, dtype, &shape)
    }

    /// Sends `x` to another rank, which receives it by [`Rank::recv`] of the same shape and dtype. What is sent to a rank
    /// arrives in order. The device's later work may wait until the other rank receives.
    ///
    /// # Errors
    /// As [`Rank::all_reduce`]; there is no rank `to`, or it is this one.
    pub fn send(&self, x: &Tensor, to: usize) -> Result<()> {
        let kind = Kind::Send(self.another("send", to)?);
        self.exchange("send", kind, Some(x), x.dtype(), x.shape())?;
        Ok(())
    }

    /// What another rank sends by [`Rank::send`], of this shape and dtype. There is no gradient.
    ///
    /// # Errors
    /// As [`Rank::send`].
    pub fn recv(&self, shape: impl Into<Shape>, dtype: DType, from: usize) -> Result<Tensor> {
        let kind = Kind::Recv(self.another("recv", from)?);
        self.received("recv", kind, None, dtype, &shape.into())
    }

    /// The number of a rank that there is.
    fn of(&self, name: &str, rank: usize) -> Result<i32> {
        if rank >= self.ranks() {
            bail!(
                "{name}: there is no rank {rank}: the {} count from 0",
                self.ranks()
            );
        }
        Ok(rank as i32)
    }

    /// The number of another rank.
    fn another(&self, name: &str, rank: usize) -> Result<i32> {
        if rank == self.number() {
            bail!("{name}: rank {rank} is this one: messages are between two");
        }
        self.of(name, rank)
    }

    fn received(
        &self,
        name: &str,
        kind: Kind,
        x: Option<&Tensor>,
        dtype: DType,
        shape: &Shape,
    ) -> Result<Tensor> {
        match self.exchange(name, kind, x, dtype, shape)? {
            Some(result) => Ok(plain(result, shape)),
            None => Tensor::zeros(shape, dtype, &self.device()),
        }
    }

    /// That a tensor is on the rank's GPU.
    pub(super) fn check_device(&self, name: &str, x: &Tensor) -> Result<()> {
        if !x.device().same_device(&self.device()) {
            bail!(
                "{name}: x is on {:?}, and rank {} on {:?}: move it with to_device",
                x.device().location(),
                self.number(),
                self.device().location()
            );
        }
        Ok(())
    }

    /// What comes of this shape and dtype, if anything does, and `x` given for it.
    fn exchange(
        &self,
        name: &str,
        kind: Kind,
        x: Option<&Tensor>,
        dtype: DType,
        shape: &Shape,
    ) -> Result<Option<CudaStorage>> {
        if let Some(x) = x {
            self.check_device(name, x)?;
        }
        if shape.elem_count() == 0 {
            return Ok(None);
        }
        let x = x.map(Tensor::contiguous).transpose()?;
        let (x, count) = (x.as_ref(), shape.elem_count());
        let result = match dtype {
            DType::F16 => self.exchange_of::<half::f16>(kind, x, count),
            DType::BF16 => self.exchange_of::<half::bf16>(kind, x, count),
            DType::F32 => self.exchange_of::<f32>(kind, x, count),
            DType::F64 => self.exchange_of::<f64>(kind, x, count),
            DType::U8 => self.exchange_of::<u8>(kind, x, count),
            DType::U32 => self.exchange_of::<u32>(kind, x, count),
            DType::I32 => self.exchange_of::<i32>(kind, x, count),
            DType::I64 => self.exchange_of::<i64>(kind, x, count),
            other => {
                bail!("{name}: x of shape {shape:?} is {other:?}, which ranks do not exchange")
            }
        };
        result.map_err(|error| error.context(name.to_owned()))
    }

    fn exchange_of<T>(
        &self,
        kind: Kind,
        x: Option<&Tensor>,
        count: usize,
    ) -> Result<Option<CudaStorage>>
    where
        T: CudaDType + DeviceRepr + NcclType,
    {
        let held = x.map(Tensor::storage_and_layout);
        let from = match &held {
            Some((storage, layout)) => Some(view_of::<T>(storage, layout)?),
            None => None,
        };
        if let (Kind::Send(to), Some(from)) = (kind, &from) {
            self.comm.send(from, to).map_err(Error::wrap)?;
            return Ok(None);
        }
        // SAFETY: the call writes all of it.
        let to = unsafe { self.comm.stream().alloc::<T>(count) };
        let mut to = to.map_err(Error::wrap)?;
        let status = match (kind, &from) {
            (Kind::Reduce(op), Some(from)) => self.comm.all_reduce(from, &mut to, &op),
            (Kind::Gather, Some(from)) => self.comm.all_gather(from, &mut to),
            (Kind::Broadcast(root), from) => self.comm.broadcast(from.as_ref(), &mut to, root),
            (Kind::Recv(from), _) => self.comm.recv(&mut to, from),
            _ => bail!("no tensor is given"),
        };
        status.map_err(Error::wrap)?;
        let device = self.device.clone();
        Ok(Some(CudaStorage::wrap_cuda_slice(to, device)))
    }
}

/// The elements of a contiguous tensor in its memory.
pub(super) fn view_of<'a, T: CudaDType + DeviceRepr>(
    storage: &'a Storage,
    layout: &Layout,
) -> Result<View<'a, T>> {
    let Storage::Cuda(storage) = storage else {
        bail!("a tensor is not on a GPU");
    };
    let first = layout.start_offset();
    let own = first..first + layout.shape().elem_count();
    Ok(storage.as_cuda_slice::<T>()?.slice(own))
}

/// The GPU that a rank is to be on, for the function of this name.
fn gpu_of<'a>(
    name: &str,
    device: &'a Device,
    number: usize,
    ranks: usize,
) -> Result<&'a CudaDevice> {
    match device {
        Device::Cuda(gpu) => Ok(gpu),
        _ => bail!(
            "{name}: rank {number} of {ranks} is on {:?}, and ranks are GPUs",
            device.location()
        ),
    }
}
