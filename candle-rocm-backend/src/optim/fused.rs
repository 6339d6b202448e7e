//! Steps by the kernels of module `optimizers`.

use std::cell::Cell;

use candle_core::{
    bail, CpuStorage, CudaDevice, CudaStorage, DType, Device, InplaceOp1, Layout, Result, Shape,
    Storage, Tensor,
};
use candle_rocm_kernels::OPTIMIZERS;
use candle_rocm_runtime::DeviceRepr;

use super::call::{Call, Stepped, Weight, CHUNK};
use crate::ops::launch::{allocate, grid, int, launch, launch_of, read, write, Arg, THREADS};
use crate::ops::node::plain;

/// The dtypes that kernels step, in the order of their launches.
const DTYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

candle_rocm_kernels::kernel_argument! { OPTIMIZER_TENSOR,
    /// `OptimizerTensor` of kernels/optimizers/tensors.cuh.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Row {
        weights: u64,
        gradient: u64,
        first: u64,
        second: u64,
        master: u64,
        count: u64,
        first_chunk: u32,
        scale: f32,
    }
}

candle_rocm_kernels::kernel_argument! { OPTIMIZER_STEP,
    /// `OptimizerStep` of kernels/optimizers/tensors.cuh.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        tensors: u64,
        owners: u64,
        clip: u64,
        seed: u64,
        rate: f32,
        kept: f32,
        decay: f32,
        beta1: f32,
        beta2: f32,
        epsilon: f32,
        scale1: f32,
        scale2: f32,
        step: u32,
        stochastic: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernels' parameter.
unsafe impl DeviceRepr for Step {}

impl Row {
    /// The words of the row in memory.
    fn words(&self) -> [i64; 7] {
        let last = u64::from(self.first_chunk) | u64::from(self.scale.to_bits()) << 32;
        [
            self.weights,
            self.gradient,
            self.first,
            self.second,
            self.master,
            self.count,
            last,
        ]
        .map(u64::cast_signed)
    }
}

/// The tables of the last step's launches, of each of [`DTYPES`], which are on the device already.
#[derive(Debug, Default)]
pub(super) struct Tables([Option<Table>; 3]);

#[derive(Debug)]
struct Table {
    rows: Vec<Row>,
    chunks: usize,
    tensors: Tensor,
    owners: Tensor,
}

impl Table {
    fn new(name: &str, rows: Vec<Row>, device: &Device) -> Result<Self> {
        let chunks_of = |row: &Row| (row.count as usize).div_ceil(CHUNK);
        let owners: Vec<u32> = (0..)
            .zip(&rows)
            .flat_map(|(number, row)| std::iter::repeat_n(number, chunks_of(row)))
            .collect();
        let chunks = owners.len();
        int(name, "workgroups", chunks)?;
        let words: Vec<i64> = rows.iter().flat_map(Row::words).collect();
        let count = words.len();
        Ok(Self {
            rows,
            chunks,
            tensors: Tensor::from_vec(words, count, device)?,
            owners: Tensor::from_vec(owners, chunks, device)?,
        })
    }
}

/// Steps the weights. The result is the gradients' norm if they are clipped.
pub(super) fn step(
    call: &Call,
    stepped: &[Stepped],
    tables: &mut Tables,
) -> Result<Option<Tensor>> {
    let Some(Device::Cuda(device)) = stepped.first().map(|(weight, _)| weight.var.device()) else {
        bail!("{}: the variables are not on a GPU", call.name);
    };
    for (dtype, table) in DTYPES.into_iter().zip(&mut tables.0) {
        let of_dtype = |(weight, _): &&Stepped| weight.var.dtype() == dtype;
        let rows = rows_of(stepped.iter().filter(of_dtype))?;
        if table.as_ref().is_none_or(|table| table.rows != rows) {
            let on = Device::Cuda(device.clone());
            *table = (!rows.is_empty())
                .then(|| Table::new(call.name, rows, &on))
                .transpose()?;
        }
    }
    let clip = match call.shared.max_norm {
        Some(most) => Some(clip(device, tables, most)?),
        None => None,
    };
    for (dtype, table) in DTYPES.into_iter().zip(&tables.0) {
        if let Some(table) = table {
            launch_step(call, device, dtype, table, clip.as_ref())?;
        }
    }
    // Whoever uses the memory on another stream waits for what was launched.
    for (weight, _) in stepped {
        for tensor in written(weight) {
            address_to_write(tensor)?;
        }
    }
    clip.map(|clip| clip.narrow(0, 1, 1)?.reshape(()))
        .transpose()
}

/// What a step writes of a weight.
fn written(weight: &Weight) -> impl Iterator<Item = &Tensor> {
    let var = std::iter::once(&weight.var);
    let all = var.chain(&weight.states).chain(&weight.master);
    all.map(candle_core::Var::as_tensor)
}

/// The table's rows.
fn rows_of<'a>(stepped: impl Iterator<Item = &'a Stepped<'a>>) -> Result<Vec<Row>> {
    let (mut rows, mut first_chunk) = (Vec::new(), 0);
    for (weight, gradient) in stepped {
        let count = weight.var.elem_count();
        let state = |number: usize| match weight.states.get(number) {
            Some(state) => address_to_write(state),
            None => Ok(0),
        };
        rows.push(Row {
            weights: address_to_write(&weight.var)?,
            gradient: address_to_read(gradient)?,
            first: state(0)?,
            second: state(1)?,
            master: match &weight.master {
                Some(master) => address_to_write(master)?,
                None => 0,
            },
            count: count as u64,
            first_chunk,
            scale: 1.0,
        });
        first_chunk += count.div_ceil(CHUNK) as u32;
    }
    Ok(rows)
}

/// What gradients are multiplied by, and their norm.
fn clip(device: &CudaDevice, tables: &Tables, most: f64) -> Result<Tensor> {
    let chunks: usize = tables.0.iter().flatten().map(|table| table.chunks).sum();
    let sums = plain(allocate(device, DType::F32, chunks)?, &Shape::from(chunks));
    let mut first = 0;
    for (dtype, table) in DTYPES.into_iter().zip(&tables.0) {
        let Some(table) = table else { continue };
        let args = vec![
            Arg::Read(Some(&table.tensors)),
            Arg::Read(Some(&table.owners)),
            Arg::ReadFrom(&sums, first),
        ];
        let kernel = format!("optimizer_squares_{}", dtype.as_str());
        let config = grid(table.chunks, 1, THREADS)?;
        // SAFETY: the kernel's arguments; each workgroup leaves a sum, and rows name gradients that live.
        unsafe { launch(device, &OPTIMIZERS, &kernel, config, args) }?;
        first += table.chunks;
    }
    let mut clip = allocate(device, DType::F32, 2)?;
    let args = vec![
        Arg::Read(Some(&sums)),
        Arg::Write(&mut clip),
        Arg::Long(chunks),
        Arg::Float(most as f32),
    ];
    let config = grid(1, 1, 1024)?;
    // SAFETY: the kernel's arguments; it writes two numbers.
    unsafe { launch(device, &OPTIMIZERS, "optimizer_clip_f32", config, args) }?;
    Ok(plain(clip, &Shape::from(2)))
}

fn launch_step(
    call: &Call,
    device: &CudaDevice,
    dtype: DType,
    table: &Table,
    clip: Option<&Tensor>,
) -> Result<()> {
    let numbers = &call.numbers;
    let memory = [
        Arg::Read(Some(&table.tensors)),
        Arg::Read(Some(&table.owners)),
        Arg::Read(clip),
    ];
    let stochastic =
        dtype == DType::BF16 && call.shared.stochastic.is_some() && !call.shared.masters;
    let argument = |[tensors, owners, clip]: [u64; 3]| Step {
        tensors,
        owners,
        clip,
        seed: call.shared.stochastic.unwrap_or_default(),
        rate: numbers.rate as f32,
        kept: numbers.kept as f32,
        decay: numbers.decay as f32,
        beta1: numbers.beta1 as f32,
        beta2: numbers.beta2 as f32,
        epsilon: numbers.epsilon as f32,
        scale1: numbers.scale1 as f32,
        scale2: numbers.scale2 as f32,
        step: call.step,
        stochastic: u32::from(stochastic),
    };
    let kernel = format!("optimizer_{}_{}", call.rule.kernel(), dtype.as_str());
    let config = grid(table.chunks, 1, THREADS)?;
    // SAFETY: the kernel's argument; the table's rows name memory that lives, of as many elements as they say.
    unsafe { launch_of(device, &OPTIMIZERS, &kernel, config, memory, argument) }
}

/// The address of a tensor that a launch on its device's stream reads.
fn address_to_read(tensor: &Tensor) -> Result<u64> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        bail!("optim: a gradient is not on the GPU, as its variable is");
    };
    let stream = storage.device.cuda_stream();
    let (address, _used) = read(storage, &stream)?;
    Ok(address + (layout.start_offset() * tensor.dtype().size_in_bytes()) as u64)
}

/// The address of a tensor that a launch on its device's stream writes: the stream waits for whoever uses it now, and
/// others that ask later for what is on the stream then.
fn address_to_write(tensor: &Tensor) -> Result<u64> {
    let address = Address(Cell::new(0));
    tensor.inplace_op1(&address)?;
    Ok(address.0.get())
}

struct Address(Cell<u64>);

impl InplaceOp1 for Address {
    fn name(&self) -> &'static str {
        "address"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> Result<()> {
        bail!("optim: weights on the CPU are stepped by Candle's operators")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        let stream = storage.device.cuda_stream();
        let bytes = storage_bytes(storage) * layout.start_offset();
        let (address, _used) = write(storage, &stream)?;
        self.0.set(address + bytes as u64);
        Ok(())
    }
}

/// Bytes of an element.
fn storage_bytes(storage: &CudaStorage) -> usize {
    use candle_core::backend::BackendStorage as _;
    storage.dtype().size_in_bytes()
}
