//! Launching attention's kernels.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Device, Result, Shape, Tensor};
use candle_rocm_kernels::attention::{self, Pass};
use candle_rocm_kernels::{Module, ATTENTION_BACKWARD, ATTENTION_FORWARD};
use candle_rocm_runtime::{DeviceRepr, LaunchConfig};

use super::super::launch::{allocate, int, launch_with, with_addresses, write};
use super::call::{Call, Sizes};

candle_rocm_kernels::kernel_argument! { ATTENTION_TENSOR,
    /// `AttentionTensor` of kernels/attention/problem.cuh.
    #[derive(Clone, Copy, Default)]
    pub(super) struct Operand {
        pub at: u64,
        batch: u64,
        row: u32,
        head: u32,
    }
}

impl Operand {
    /// A tensor of (batch, rows, heads, elements), or of (rows, heads, elements), but for its address.
    pub fn of(name: &str, x: &Tensor) -> Result<Self> {
        let (batch, row, head) = match x.stride() {
            &[batch, row, head, _] => (batch, row, head),
            &[row, head, _] => (0, row, head),
            other => bail!("{name}: an operand has strides {other:?}"),
        };
        Ok(Self {
            at: 0,
            batch: batch as u64,
            row: int(name, "elements between rows", row)?,
            head: int(name, "elements between heads", head)?,
        })
    }

    /// A contiguous tensor of rows of heads of so many elements; `rows` of a batch, where there are batches.
    pub fn contiguous(name: &str, [rows, heads, elements]: [usize; 3]) -> Result<Self> {
        let row = heads * elements;
        Ok(Self {
            at: 0,
            batch: (rows * row) as u64,
            row: int(name, "elements between rows", row)?,
            head: int(name, "elements of a head", elements)?,
        })
    }
}

candle_rocm_kernels::kernel_argument! { ATTENTION_PROBLEM,
    /// `AttentionProblem` of kernels/attention/problem.cuh.
    #[derive(Clone, Copy, Default)]
    pub(super) struct Problem {
        q: Operand,
        k: Operand,
        v: Operand,
        pub out: Operand,
        pub lse: u64,
        lse_batch: u64,
        lse_head: u64,
        mask: u64,
        mask_batch: u64,
        mask_head: u64,
        mask_row: u64,
        mask_key: u64,
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
        dim: u32,
        left: i32,
        right: i32,
        scale: f32,
        softcap: f32,
        reserved: u32,
    }
}

// SAFETY: numbers, laid out by C's rules and without padding, as the kernel's parameter.
unsafe impl DeviceRepr for Problem {}

/// The operands of a call as kernels read them, which stay until these are launched.
pub(super) struct Operands {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    mask: Option<Tensor>,
    slopes: Option<Tensor>,
    starts_q: Option<Tensor>,
    starts_k: Option<Tensor>,
    pages: Option<Tensor>,
}

impl Operands {
    /// Tensors whose addresses a problem has.
    pub const COUNT: usize = 8;

    pub fn of(call: &Call) -> Result<Self> {
        let contiguous = |x: Option<&Tensor>| x.map(Tensor::contiguous).transpose();
        Ok(Self {
            q: readable(call.q)?,
            k: readable(call.k)?,
            v: readable(call.v)?,
            mask: match &call.options.mask {
                None => None,
                Some(mask) => Some(mask.broadcast_as(&call.scores()[..])?),
            },
            slopes: contiguous(call.options.alibi_slopes.as_ref())?,
            starts_q: contiguous(call.packed.map(|packed| packed.starts_q))?,
            starts_k: contiguous(call.packed.map(|packed| packed.starts_k))?,
            pages: contiguous(call.pages)?,
        })
    }

    /// In the order in which [`Problem::place`] takes their addresses.
    pub fn all(&self) -> [Option<&Tensor>; Self::COUNT] {
        [
            Some(&self.q),
            Some(&self.k),
            Some(&self.v),
            self.mask.as_ref(),
            self.slopes.as_ref(),
            self.starts_q.as_ref(),
            self.starts_k.as_ref(),
            self.pages.as_ref(),
        ]
    }

    /// Everything but addresses.
    pub fn problem(&self, call: &Call) -> Result<Problem> {
        let mut problem = problem(call, [&self.q, &self.k, &self.v])?;
        if let Some(mask) = &self.mask {
            let places = [
                &mut problem.mask_batch,
                &mut problem.mask_head,
                &mut problem.mask_row,
                &mut problem.mask_key,
            ];
            for (to, stride) in places.into_iter().zip(mask.stride()) {
                *to = *stride as u64;
            }
        }
        if self
            .slopes
            .as_ref()
            .is_some_and(|slopes| slopes.rank() == 2)
        {
            problem.slopes_batch = call.sizes.heads as u64;
        }
        Ok(problem)
    }
}

impl Problem {
    /// Sets the addresses of [`Operands::all`].
    pub fn place(
        &mut self,
        [q, k, v, mask, slopes, starts_q, starts_k, pages]: [u64; Operands::COUNT],
    ) {
        (self.q.at, self.k.at, self.v.at) = (q, k, v);
        (self.mask, self.slopes) = (mask, slopes);
        (self.starts_q, self.starts_k, self.pages) = (starts_q, starts_k, pages);
    }
}

/// Launches the kernel of a pass on each tile of so many rows of each head.
///
/// # Safety
/// The argument is the kernel's, and what it says is within the memory that it names.
pub(super) unsafe fn launch(
    call: &Call,
    device: &CudaDevice,
    pass: Pass,
    [rows, heads]: [usize; 2],
    argument: &impl DeviceRepr,
) -> Result<()> {
    let tile = tile(call, device, pass)?;
    let module = match pass {
        Pass::Forward => &ATTENTION_FORWARD,
        Pass::BackwardKeys | Pass::BackwardQueries => &ATTENTION_BACKWARD,
    };
    let kernel = attention::kernel_name(pass, call.q.dtype().as_str(), tile);
    let tiles = rows.div_ceil(tile.rows as usize) * tile.head_tiles as usize;
    // SAFETY: the caller's promise.
    unsafe {
        launch_grid(
            call,
            device,
            (module, &kernel),
            [heads, tiles],
            (tile.threads, tile.dynamic_lds),
            argument,
        )
    }
}

/// Launches a kernel on a grid of heads and tiles, and of the call's sequences, with so many threads and bytes of LDS that
/// it has to ask for.
///
/// # Safety
/// As [`launch`].
pub(super) unsafe fn launch_grid(
    call: &Call,
    device: &CudaDevice,
    (module, kernel): (&Module, &str),
    [heads, tiles]: [usize; 2],
    (threads, dynamic_lds): (u32, u32),
    argument: &impl DeviceRepr,
) -> Result<()> {
    let Call { name, sizes, .. } = call;
    let config = LaunchConfig {
        grid_dim: (
            int(name, "heads", heads)?,
            int(name, "tiles", tiles)?,
            int(name, "sequences", sizes.sequences)?,
        ),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: dynamic_lds,
    };
    // SAFETY: the caller's promise.
    unsafe { launch_with(device, module, kernel, config, argument) }
}

/// The GPU that a call is on.
pub(super) fn gpu<'a>(call: &Call<'a>) -> Result<&'a CudaDevice> {
    match call.q.device() {
        Device::Cuda(device) => Ok(device),
        _ => bail!("{}: q is not on a GPU", call.name),
    }
}

/// The result, laid out as a contiguous q; and, if it is wanted, for each head the logarithm of each query's sum of
/// weights, f32 of ([`lse_shape`]).
pub(super) fn attend(call: &Call, with_lse: bool) -> Result<(CudaStorage, Option<CudaStorage>)> {
    let device = gpu(call)?;
    let stream = device.cuda_stream();
    let operands = Operands::of(call)?;
    let mut problem = operands.problem(call)?;
    let mut result = allocate(device, call.q.dtype(), call.q.elem_count())?;
    let mut lse = match with_lse {
        true => Some(allocate(device, DType::F32, lse_shape(call).elem_count())?),
        false => None,
    };
    with_addresses(call.name, &stream, operands.all(), |addresses| {
        problem.place(addresses);
        let (address, _written) = write(&mut result, &stream)?;
        problem.out.at = address;
        let lse = lse.as_mut().map(|lse| write(lse, &stream)).transpose()?;
        problem.lse = lse.as_ref().map_or(0, |(address, _)| *address);
        let rows = [call.sizes.queries, call.sizes.heads];
        // SAFETY: tensors whose shapes were checked. What starts and pages say is the caller's promise, as
        // `attention_varlen` states.
        unsafe { launch(call, device, Pass::Forward, rows, &problem) }
    })?;
    Ok((result, lse))
}

/// (sequences, heads, queries), or, of packed sequences, (heads, rows).
pub(super) fn lse_shape(call: &Call) -> Shape {
    let Sizes {
        sequences,
        heads,
        queries,
        ..
    } = call.sizes;
    match call.packed {
        None => (sequences, heads, queries).into(),
        Some(_) => (heads, call.q.dims()[0]).into(),
    }
}

/// The kernel of a pass for the call's heads.
pub(super) fn tile(call: &Call, device: &CudaDevice, pass: Pass) -> Result<attention::Tile> {
    let Sizes { elements, .. } = call.sizes;
    let stream = device.cuda_stream();
    let info = stream.context().info();
    let tile = u32::try_from(elements).ok();
    match tile.and_then(|elements| attention::tile(info.processor, pass, elements)) {
        Some(tile) => Ok(tile),
        None => bail!(
            "{}: q of shape {:?} and {:?} has heads of {elements} elements, and the kernels{} for {} take multiples \
             of 8 up to {}: pad q, k and v with zeros and keep the scale, or use attention_composed",
            call.name,
            call.q.shape(),
            call.q.dtype(),
            if pass == Pass::Forward { "" } else { " of gradients" },
            info.arch,
            attention::tiles(info.processor, pass).last().map_or(0, |tile| tile.elements)
        ),
    }
}

/// The tensor, or a copy where a head's elements are not together, or not at multiples of 16 bytes, or where a tile's rows
/// are further apart than 32 bits of bytes.
pub(super) fn readable(x: &Tensor) -> Result<Tensor> {
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
        q: Operand::of(name, q)?,
        k: Operand::of(name, k)?,
        v: Operand::of(name, v)?,
        out: Operand::contiguous(name, [sizes.queries, sizes.heads, sizes.elements])?,
        lse_batch: (sizes.heads * sizes.queries) as u64,
        lse_head: match call.packed {
            None => sizes.queries as u64,
            Some(_) => call.q.dims()[0] as u64,
        },
        pages_batch: int(name, "pages", pages_batch)?,
        page_rows: int(name, "rows of a page", page_rows)?,
        queries,
        keys,
        group: int(name, "heads", sizes.heads / sizes.key_heads)?,
        key_heads: int(name, "heads", sizes.key_heads)?,
        dim: int(name, "elements", sizes.elements)?,
        left: reach(options.window_left),
        right: reach(call.right()),
        scale: call.scale(),
        softcap: options.softcap.unwrap_or(0.0),
        ..Problem::default()
    })
}
