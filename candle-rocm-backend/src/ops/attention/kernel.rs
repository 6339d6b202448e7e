//! Launching attention's kernels.

use candle_core::{bail, CudaDevice, CudaStorage, Device, Error, Result, Storage, Tensor};
use candle_rocm_kernels::{attention, FORWARD};
use candle_rocm_runtime::{DeviceRepr, LaunchConfig, PushKernelArg as _};

use super::super::launch::{allocate, int, read, write};
use super::call::{Call, Sizes};

/// `AttentionTensor` of kernels/attention/problem.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Operand {
    at: u64,
    batch: u64,
    row: u32,
    head: u32,
}

/// `AttentionProblem` of kernels/attention/problem.cuh.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Problem {
    q: Operand,
    k: Operand,
    v: Operand,
    out: Operand,
    lse: u64,
    lse_batch: u64,
    lse_head: u64,
    mask: u64,
    mask_strides: [u64; 4],
    slopes: u64,
    slopes_batch: u64,
    starts_q: u64,
    starts_k: u64,
    pages: u64,
    pages_batch: u32,
    page_rows: u32,
    queries: u32,
    keys: u32,
    group: u32,
    key_heads: u32,
    elements: u32,
    left: i32,
    right: i32,
    scale: f32,
    softcap: f32,
    reserved: u32,
}

const _: () = assert!(size_of::<Problem>() as u64 == attention::PROBLEM_BYTES);

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Problem {}

/// The result, laid out as a contiguous q.
pub(super) fn attend(call: &Call) -> Result<CudaStorage> {
    let Call { name, sizes, .. } = call;
    let Device::Cuda(device) = call.q.device() else {
        bail!("{name}: q is not on a GPU");
    };
    let tile = tile(call, device)?;
    let [q, k, v] = [readable(call.q)?, readable(call.k)?, readable(call.v)?];
    let mut result = allocate(device, call.q.dtype(), call.q.elem_count())?;
    let mut problem = problem(call, [&q, &k, &v])?;
    let mask = match &call.options.mask {
        None => None,
        Some(mask) => Some(mask.broadcast_as(&call.scores()[..])?),
    };
    if let Some(mask) = &mask {
        for (to, stride) in problem.mask_strides.iter_mut().zip(mask.stride()) {
            *to = *stride as u64;
        }
    }
    let slopes = call.options.alibi_slopes.as_ref();
    let slopes = slopes.map(Tensor::contiguous).transpose()?;
    if slopes.as_ref().is_some_and(|slopes| slopes.rank() == 2) {
        problem.slopes_batch = sizes.heads as u64;
    }
    let starts = |which: fn(&super::Packed) -> Tensor| {
        let starts = call.packed.as_ref().map(which);
        starts.map(|starts| starts.contiguous()).transpose()
    };
    let (starts_q, starts_k) = (
        starts(|p| p.starts_q.clone())?,
        starts(|p| p.starts_k.clone())?,
    );
    let pages = call.pages.map(Tensor::contiguous).transpose()?;

    let stream = device.cuda_stream();
    let addresses: [(&mut u64, Option<&Tensor>); 8] = [
        (&mut problem.q.at, Some(&q)),
        (&mut problem.k.at, Some(&k)),
        (&mut problem.v.at, Some(&v)),
        (&mut problem.mask, mask.as_ref()),
        (&mut problem.slopes, slopes.as_ref()),
        (&mut problem.starts_q, starts_q.as_ref()),
        (&mut problem.starts_k, starts_k.as_ref()),
        (&mut problem.pages, pages.as_ref()),
    ];
    let mut places = Vec::new();
    let mut guards = Vec::new();
    for (to, tensor) in addresses {
        let Some(tensor) = tensor else { continue };
        let first = tensor.layout().start_offset() * tensor.dtype().size_in_bytes();
        places.push((to, first as u64));
        guards.push(tensor.storage_and_layout().0);
    }
    let mut uses = Vec::new();
    for ((to, first), storage) in places.into_iter().zip(&guards) {
        let Storage::Cuda(storage) = &**storage else {
            bail!("{name}: an operand is not on the GPU, as q is");
        };
        let (address, used) = read(storage, &stream)?;
        *to = address + first;
        uses.push(used);
    }
    let (address, written) = write(&mut result, &stream)?;
    problem.out.at = address;
    uses.push(written);

    let dtype = call.q.dtype().as_str();
    let kernel = attention::kernel_name(dtype, tile);
    let context = stream.context();
    let function = context.kernel(&FORWARD, &kernel).map_err(Error::wrap)?;
    let tiles = sizes.queries.div_ceil(tile.queries as usize) * tile.parts as usize;
    let config = LaunchConfig {
        grid_dim: (
            int(name, "heads", sizes.heads)?,
            int(name, "tiles", tiles)?,
            int(name, "sequences", sizes.sequences)?,
        ),
        block_dim: (tile.threads, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut builder = stream.launch_builder(&function);
    builder.arg(&problem);
    // SAFETY: the kernel's one argument, of tensors whose shapes were checked; the guards keep their memory until the
    // launch is given to the stream. What starts and pages say is the caller's promise, as `attention_varlen` states.
    unsafe { builder.launch(config) }.map_err(Error::wrap)?;
    drop(uses);
    Ok(result)
}

/// The kernel for the call's heads.
fn tile(call: &Call, device: &CudaDevice) -> Result<attention::Tile> {
    let Sizes { elements, .. } = call.sizes;
    let stream = device.cuda_stream();
    let arch = &stream.context().info().arch;
    let tile = u32::try_from(elements).ok();
    match tile.and_then(|elements| attention::tile(arch, elements)) {
        Some(tile) => Ok(tile),
        None => bail!(
            "{}: q of shape {:?} and {:?} has heads of {elements} elements, and the kernels for {arch} take multiples of \
             8 up to {}: pad q, k and v with zeros and keep the scale, or use attention_composed",
            call.name,
            call.q.shape(),
            call.q.dtype(),
            attention::tiles(arch).last().map_or(0, |tile| tile.elements)
        ),
    }
}

/// The tensor, or a copy where a head's elements are not together, or not at multiples of 16 bytes, or where a tile's rows
/// are further apart than 32 bits of bytes.
fn readable(x: &Tensor) -> Result<Tensor> {
    let layout = x.layout();
    let (last, others) = match layout.stride().split_last() {
        Some((last, others)) => (*last, others),
        None => bail!("attention: a scalar has no heads"),
    };
    let fits = |stride: &usize| stride.is_multiple_of(8) && u32::try_from(stride * 128).is_ok();
    let row_and_head = &others[others.len().saturating_sub(2)..];
    let aligned = layout.start_offset().is_multiple_of(8)
        && row_and_head.iter().all(fits)
        && others.iter().all(|stride| stride.is_multiple_of(8));
    if last == 1 && aligned {
        Ok(x.clone())
    } else {
        x.force_contiguous()
    }
}

/// Everything but addresses, mask and slopes.
fn problem(call: &Call, [q, k, v]: [&Tensor; 3]) -> Result<Problem> {
    let Call {
        name,
        sizes,
        options,
        ..
    } = call;
    let strides = |x: &Tensor| -> Result<Operand> {
        let (batch, row, head) = match x.stride() {
            &[batch, row, head, _] => (batch, row, head),
            &[row, head, _] => (0, row, head),
            other => bail!("{name}: an operand has strides {other:?}"),
        };
        Ok(Operand {
            at: 0,
            batch: batch as u64,
            row: int(name, "elements between rows", row)?,
            head: int(name, "elements between heads", head)?,
        })
    };
    let row = sizes.heads * sizes.elements;
    let queries = int(name, "queries", sizes.queries)?;
    let keys = int(name, "keys", sizes.keys)?;
    // A window as wide as all rows hides nothing.
    let reach = |reach: Option<usize>| match reach {
        Some(reach) if reach < sizes.queries + sizes.keys => i32::try_from(reach).unwrap_or(-1),
        _ => -1,
    };
    let (pages_batch, page_rows) = match call.pages {
        Some(pages) => (pages.dim(1)?, k.dim(1)?),
        None => (0, 0),
    };
    Ok(Problem {
        q: strides(q)?,
        k: strides(k)?,
        v: strides(v)?,
        out: Operand {
            at: 0,
            batch: (sizes.queries * row) as u64,
            row: int(name, "elements between rows", row)?,
            head: int(name, "elements of a head", sizes.elements)?,
        },
        pages_batch: int(name, "pages", pages_batch)?,
        page_rows: int(name, "rows of a page", page_rows)?,
        queries,
        keys,
        group: int(name, "heads", sizes.heads / sizes.key_heads)?,
        key_heads: int(name, "heads", sizes.key_heads)?,
        elements: int(name, "elements", sizes.elements)?,
        left: reach(options.window_left),
        right: reach(call.right()),
        scale: call.scale(),
        softcap: options.softcap.unwrap_or(0.0),
        ..Problem::default()
    })
}
