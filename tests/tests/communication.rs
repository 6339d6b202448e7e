//! A model in parts over GPUs as programs of Candle write it, Candle's example `llama_multiprocess` among them: an operator of
//! their own sums a layer's results over the ranks through `cudarc::nccl`.

use std::rc::Rc;

use anyhow::{ensure, Result};
use candle_core::backend::BackendStorage as _;
use candle_core::cuda_backend::cudarc::driver::DeviceRepr;
use candle_core::cuda_backend::cudarc::nccl::safe::{Comm, Id, NcclType, ReduceOp};
use candle_core::cuda_backend::CudaDType;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, DType, Device, Layout, Shape, Tensor};
use candle_rocm_backend::runtime;
use candle_rocm_testing::process::{alone, gpus_alike, GPUS};
use half::{bf16, f16};

/// The sum over all ranks.
struct SumOverRanks(Rc<Comm>);

// SAFETY: an operator stays on its rank's thread; Candle asks for both of all operators.
unsafe impl Send for SumOverRanks {}
// SAFETY: as above.
unsafe impl Sync for SumOverRanks {}

impl SumOverRanks {
    fn of<T>(&self, from: &CudaStorage, layout: &Layout) -> candle_core::Result<CudaStorage>
    where
        T: CudaDType + DeviceRepr + NcclType,
    {
        let (source, device) = (from.as_cuda_slice::<T>()?, from.device().clone());
        let Some((0, end)) = layout.contiguous_offsets() else {
            candle_core::bail!("a tensor that is not contiguous")
        };
        if end != source.len() {
            candle_core::bail!("a part of a tensor")
        }
        // SAFETY: the collective writes all of it.
        let mut to = unsafe { device.alloc::<T>(end) }?;
        self.0
            .all_reduce(source, &mut to, &ReduceOp::Sum)
            .map_err(candle_core::Error::debug)?;
        Ok(CudaStorage::wrap_cuda_slice(to, device))
    }
}

impl CustomOp1 for SumOverRanks {
    fn name(&self) -> &'static str {
        "sum-over-ranks"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        candle_core::bail!("ranks are GPUs")
    }

    fn cuda_fwd(
        &self,
        storage: &CudaStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CudaStorage, Shape)> {
        let sum = match storage.dtype() {
            DType::BF16 => self.of::<bf16>(storage, layout),
            DType::F16 => self.of::<f16>(storage, layout),
            DType::F32 => self.of::<f32>(storage, layout),
            dtype => candle_core::bail!("{dtype:?} is not summed over ranks"),
        }?;
        Ok((sum, layout.shape().clone()))
    }
}

/// This rank's columns of x and rows of w multiplied, summed over the ranks.
fn product_in_parts(rank: usize, world: usize, bytes: &[u8]) -> Result<()> {
    let device = Device::new_cuda(rank)?;
    // As it is read from the file that rank 0 wrote.
    let internal: Vec<_> = bytes.iter().map(|byte| *byte as i8).collect();
    let id = Id::uninit(internal[..].try_into()?);
    let stream = device.as_cuda_device()?.cuda_stream();
    let comm = Comm::from_rank(stream, rank, world, id).map_err(candle_core::Error::debug)?;
    let comm = Rc::new(comm);
    let (x, w) = inputs()?;
    let width = x.dim(1)? / world;
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let part = |t: &Tensor, dim| -> Result<Tensor> {
            let part = t.narrow(dim, rank * width, width)?.contiguous()?;
            Ok(part.to_dtype(dtype)?.to_device(&device)?)
        };
        let product = part(&x, 1)?.matmul(&part(&w, 0)?)?;
        let sum = product.apply_op1_no_bwd(&SumOverRanks(comm.clone()))?;
        let found = sum.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
        // Small whole numbers, whose products every dtype has.
        let difference = (found - x.matmul(&w)?)?.abs()?.max_all()?;
        ensure!(
            difference.to_scalar::<f32>()? == 0.0,
            "rank {rank}, {dtype:?}"
        );
    }
    Ok(())
}

fn inputs() -> Result<(Tensor, Tensor)> {
    let whole =
        |count: usize, at: usize| (0..count).map(|i| (i * at % 3) as f32).collect::<Vec<_>>();
    let x = Tensor::from_vec(whole(6 * 16, 5), (6, 16), &Device::Cpu)?;
    let w = Tensor::from_vec(whole(16 * 10, 7), (16, 10), &Device::Cpu)?;
    Ok((x, w))
}

#[test]
fn a_product_in_parts_over_two_gpus() {
    const TEST: &str = "a_product_in_parts_over_two_gpus";
    let gpus = gpus_alike(2);
    let variables = [(GPUS, gpus.as_str()), ("CANDLE_ROCM_COMM", "own")];
    alone(TEST, &variables, || {
        runtime::select(runtime::RuntimeKind::Emulator).unwrap();
        let id = Id::new().unwrap();
        let bytes: Vec<u8> = id.internal().iter().map(|byte| *byte as u8).collect();
        std::thread::scope(|scope| {
            for rank in 0..2 {
                let bytes = &bytes;
                scope.spawn(move || product_in_parts(rank, 2, bytes).unwrap());
            }
        });
    });
}
