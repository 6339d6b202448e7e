//! Tokens' rows at their experts, and back.

use candle_core::{bail, CudaDevice, DType, Device, Result, Tensor};
use candle_rocm_kernels::EXPERTS;

use crate::fp8::{cast_scattered, gathered, Fp8Matrix, ScaleFormat};
use crate::grouped::{number, RowGroups};
use crate::ops::launch::{allocate, element_grid, grid, int, launch, Arg, THREADS};
use crate::ops::node::{plain, result_of};
use crate::ops::operands::row_float;

/// Experts that the kernels for chunks of assignments know, and assignments from which on they take less time than those that
/// look through all assignments for each expert.
const MOST_CHUNKED: usize = 512;
const LEAST_CHUNKED: usize = 8192;
/// A chunk's assignments are a multiple of this; chunks, of which each workgroup adds up what all have, about so many.
const CHUNK: usize = 1024;
const CHUNKS: usize = 96;

/// Where the rows of tokens lie for their experts: those of an expert together, in the tokens' order, each expert's
/// beginning at a multiple of 128, as grouped products take them. Made and kept on the device; the host does not wait.
#[derive(Clone, Debug)]
pub struct Routing {
    groups: RowGroups,
    /// Of each assignment its row, or -1: i32 of (tokens, top).
    place: Tensor,
    /// Of each row its assignment, or -1: i32.
    source: Tensor,
    tokens: usize,
    top: usize,
}

impl Routing {
    /// For tokens whose experts are given, u32 of (tokens, top), among `experts`. A number of no expert has no row, and adds
    /// nothing.
    ///
    /// # Errors
    /// Another dtype or rank, or too many assignments for an i32.
    pub fn new(chosen: &Tensor, experts: usize) -> Result<Self> {
        let (tokens, top) = chosen.dims2()?;
        if chosen.dtype() != DType::U32 || top == 0 || experts == 0 {
            bail!(
                "moe::Routing: experts {:?} of {:?} among {experts}: they must be U32 of (tokens, top)",
                chosen.shape(),
                chosen.dtype()
            );
        }
        let assignments = tokens * top;
        // Each expert may leave a part of a block.
        let blocks = assignments / RowGroups::ALIGNMENT + experts.min(assignments);
        let rows = blocks * RowGroups::ALIGNMENT;
        int("moe::Routing", "rows", rows)?;
        let chosen = chosen.contiguous()?;
        let sizes = [rows, experts, assignments.div_ceil(experts)];
        let (numbers, starts, place, source) = match chosen.device() {
            Device::Cuda(device) if assignments > 0 => on_gpu(device, &chosen, experts, blocks)?,
            _ => on_host(&chosen, experts, blocks)?,
        };
        Ok(Self {
            groups: RowGroups::on_device(numbers, starts, sizes),
            place,
            source,
            tokens,
            top,
        })
    }

    /// Whose rows are whose, for grouped products.
    pub fn groups(&self) -> &RowGroups {
        &self.groups
    }

    /// The row of each assignment, -1 where it has none: i32 of (tokens, top).
    pub fn places(&self) -> &Tensor {
        &self.place
    }

    fn check(&self, name: &str, x: &Tensor, rows: usize) -> Result<usize> {
        let (count, columns) = x.dims2()?;
        if count != rows || !x.device().same_device(self.place.device()) {
            bail!(
                "{name}: x {:?} on {:?}: {rows} rows where the routing is",
                x.shape(),
                x.device().location()
            );
        }
        int(name, "columns", columns)?;
        row_float(name, x)?;
        Ok(columns)
    }

    /// The rows of x (tokens, columns) at their experts: (rows, columns), zeros where a row only fills up. With a gradient.
    ///
    /// # Errors
    /// Another shape, a dtype that is not f32, f16 or bf16, or another device.
    pub fn gather(&self, x: &Tensor) -> Result<Tensor> {
        const NAME: &str = "moe::Routing::gather";
        self.check(NAME, x, self.tokens)?;
        match x.device() {
            Device::Cuda(device) => self.scattered(NAME, device, x, None),
            _ => gathered(&x.contiguous()?, &self.source, self.top),
        }
    }

    /// Tokens' rows at their experts, times the assignments' weights where there are any.
    fn scattered(
        &self,
        name: &'static str,
        device: &CudaDevice,
        x: &Tensor,
        weights: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (rows, columns) = (self.groups.rows(), x.dims()[1]);
        let x = &x.contiguous()?;
        let mut result = allocate(device, x.dtype(), rows * columns)?;
        if rows * columns > 0 {
            let args = vec![
                Arg::Read(Some(x)),
                Arg::Read(Some(&self.place)),
                Arg::Read(Some(&self.source)),
                Arg::Read(weights),
                Arg::Write(&mut result),
                Arg::Int(self.tokens as u32),
                Arg::Int(columns as u32),
                Arg::Int(self.top as u32),
                Arg::Int(rows as u32),
            ];
            let kernel = format!("experts_scatter_{}", row_float(name, x)?);
            let config = element_grid(device, self.tokens * columns, x.dtype())?;
            // SAFETY: the kernel's arguments: tokens' rows, places within the room for all rows, and whose each of those is.
            unsafe { launch(device, &EXPERTS, &kernel, config, args)? };
        }
        let routing = self.clone();
        let backward = move |_: &[&Tensor], _: &Tensor, gradient: &Tensor| {
            Ok(vec![Some(routing.combined(name, gradient, None, None)?)])
        };
        result_of(
            name,
            &[x],
            result,
            &(rows, columns).into(),
            Box::new(backward),
        )
    }

    /// The same, cast to FP8 as by [`cast_per_token`](crate::fp8::cast_per_token), in one kernel.
    ///
    /// # Errors
    /// As [`Routing::gather`].
    pub fn gather_cast(&self, x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
        const NAME: &str = "moe::Routing::gather_cast";
        self.check(NAME, x, self.tokens)?;
        cast_scattered(NAME, x, [&self.place, &self.source], self.top, format)
    }

    /// Each token's sum over its experts of their row of x (rows, columns) times its weight, f32 of (tokens, top), or 1, and
    /// of `addend` (tokens, columns) where there is one, such as what shared experts made: (tokens, columns), summed in f32 in
    /// the experts' order and rounded once. With gradients of x, the weights and the addend.
    ///
    /// # Errors
    /// As [`Routing::gather`]; weights or an addend of another shape, dtype or device.
    pub fn combine(
        &self,
        x: &Tensor,
        weights: Option<&Tensor>,
        addend: Option<&Tensor>,
    ) -> Result<Tensor> {
        const NAME: &str = "moe::Routing::combine";
        let columns = self.check(NAME, x, self.groups.rows())?;
        if let Some(weights) = weights
            && (weights.dims() != [self.tokens, self.top] || weights.dtype() != DType::F32)
        {
            bail!(
                "{NAME}: weights {:?} of {:?}: they must be F32 of ({}, {})",
                weights.shape(),
                weights.dtype(),
                self.tokens,
                self.top
            );
        }
        if let Some(addend) = addend
            && (addend.dims() != [self.tokens, columns] || addend.dtype() != x.dtype())
        {
            bail!(
                "{NAME}: what is added is {:?} of {:?}",
                addend.shape(),
                addend.dtype()
            );
        }
        self.combined(NAME, x, weights, addend)
    }

    fn combined(
        &self,
        name: &'static str,
        x: &Tensor,
        weights: Option<&Tensor>,
        addend: Option<&Tensor>,
    ) -> Result<Tensor> {
        let columns = x.dims()[1];
        let contiguous = |x: Option<&Tensor>| x.map(Tensor::contiguous).transpose();
        let (x, weights, addend) = (x.contiguous()?, contiguous(weights)?, contiguous(addend)?);
        let Device::Cuda(device) = x.device() else {
            return self.combined_on_host(&x, weights.as_ref(), addend.as_ref());
        };
        let mut result = allocate(device, x.dtype(), self.tokens * columns)?;
        if self.tokens * columns > 0 {
            let args = vec![
                Arg::Read(Some(&x)),
                Arg::Read(Some(&self.place)),
                Arg::Read(weights.as_ref()),
                Arg::Read(addend.as_ref()),
                Arg::Write(&mut result),
                Arg::Int(self.tokens as u32),
                Arg::Int(columns as u32),
                Arg::Int(self.top as u32),
            ];
            let kernel = format!("experts_combine_{}", row_float(name, &x)?);
            let config = element_grid(device, self.tokens * columns, x.dtype())?;
            // SAFETY: the kernel's arguments: a row of x for each place, and room for all tokens.
            unsafe { launch(device, &EXPERTS, &kernel, config, args)? };
        }
        let shape = (self.tokens, columns).into();
        let (routing, has_weights, has_addend) =
            (self.clone(), weights.is_some(), addend.is_some());
        let operands: Vec<&Tensor> = [Some(&x), weights.as_ref(), addend.as_ref()]
            .into_iter()
            .flatten()
            .collect();
        let backward = move |operands: &[&Tensor], _: &Tensor, gradient: &Tensor| {
            let weights = has_weights.then(|| operands[1].detach());
            let Device::Cuda(device) = gradient.device() else {
                bail!("{name}: a gradient that is not on the GPU");
            };
            let of_x = routing.scattered(name, device, gradient, weights.as_ref())?;
            let mut gradients = vec![Some(of_x)];
            if has_weights {
                gradients.push(Some(routing.dots(name, &operands[0].detach(), gradient)?));
            }
            if has_addend {
                gradients.push(Some(gradient.clone()));
            }
            Ok(gradients)
        };
        result_of(name, &operands, result, &shape, Box::new(backward))
    }

    /// The products of each assignment's row and of its token's gradient.
    fn dots(&self, name: &str, x: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        let (assignments, columns) = (self.tokens * self.top, x.dims()[1]);
        let (x, gradient) = (x.contiguous()?, gradient.contiguous()?);
        let Device::Cuda(device) = x.device() else {
            bail!("{name}: the gradient of a kernel on the CPU");
        };
        let mut result = allocate(device, DType::F32, assignments)?;
        if assignments > 0 {
            let args = vec![
                Arg::Read(Some(&x)),
                Arg::Read(Some(&self.place)),
                Arg::Read(Some(&gradient)),
                Arg::Write(&mut result),
                Arg::Int(assignments as u32),
                Arg::Int(columns as u32),
                Arg::Int(self.top as u32),
            ];
            let kernel = format!("experts_dots_{}", row_float(name, &x)?);
            let workgroups = assignments.div_ceil(THREADS as usize / 32).min(1 << 16);
            // SAFETY: the kernel's arguments: a row of x for each place, a token's gradient, and room for each assignment.
            unsafe {
                launch(
                    device,
                    &EXPERTS,
                    &kernel,
                    grid(workgroups, 1, THREADS)?,
                    args,
                )?
            };
        }
        Ok(plain(result, &(self.tokens, self.top).into()))
    }

    /// The same by Candle's own operators.
    fn combined_on_host(
        &self,
        x: &Tensor,
        weights: Option<&Tensor>,
        addend: Option<&Tensor>,
    ) -> Result<Tensor> {
        let columns = x.dims()[1];
        let rows = gathered(&x.to_dtype(DType::F32)?, &self.place.flatten_all()?, 1)?;
        let rows = rows.reshape((self.tokens, self.top, columns))?;
        let rows = match weights {
            Some(weights) => rows.broadcast_mul(&weights.unsqueeze(2)?)?,
            None => rows,
        };
        let sum = rows.sum(1)?;
        match addend {
            Some(addend) => (sum + addend.to_dtype(DType::F32)?)?.to_dtype(x.dtype()),
            None => sum.to_dtype(x.dtype()),
        }
    }
}

/// Numbers, starts, places and sources.
type Made = (Tensor, Tensor, Tensor, Tensor);

fn on_gpu(device: &CudaDevice, chosen: &Tensor, experts: usize, blocks: usize) -> Result<Made> {
    let (tokens, top) = chosen.dims2()?;
    let assignments = tokens * top;
    // By chunks, a workgroup each; or a workgroup for each expert, and one for what is left.
    let chunk = (experts <= MOST_CHUNKED && assignments >= LEAST_CHUNKED)
        .then(|| CHUNK * assignments.div_ceil(CHUNK * CHUNKS));
    let (names, counted, placed) = match chunk {
        Some(chunk) => {
            let chunks = assignments.div_ceil(chunk);
            (
                ["experts_count_chunks", "experts_permute_chunks"],
                chunks,
                chunks,
            )
        }
        None => (["experts_count", "experts_permute"], experts, experts + 1),
    };
    let of_each = if chunk.is_some() { experts } else { 1 };
    let mut counts = allocate(device, DType::I32, counted * of_each)?;
    let mut args = vec![
        Arg::Read(Some(chosen)),
        Arg::Write(&mut counts),
        Arg::Int(int("moe::Routing", "assignments", assignments)?),
        Arg::Int(experts as u32),
    ];
    args.extend(chunk.map(|chunk| Arg::Int(chunk as u32)));
    let config = grid(counted, 1, THREADS)?;
    // SAFETY: the kernel's arguments, and a count for each workgroup's expert, or for each expert of its chunk.
    unsafe { launch(device, &EXPERTS, names[0], config, args)? };
    let mut starts = allocate(device, DType::I32, experts + 1)?;
    let mut numbers = allocate(device, DType::I32, blocks)?;
    let mut place = allocate(device, DType::I32, assignments)?;
    let mut source = allocate(device, DType::I32, blocks * RowGroups::ALIGNMENT)?;
    let mut args = vec![
        Arg::Read(Some(chosen)),
        Arg::Left(&counts),
        Arg::Write(&mut starts),
        Arg::Write(&mut numbers),
        Arg::Write(&mut place),
        Arg::Write(&mut source),
        Arg::Int(assignments as u32),
        Arg::Int(experts as u32),
        Arg::Int(blocks as u32),
    ];
    args.extend(chunk.map(|chunk| Arg::Int(chunk as u32)));
    let config = grid(placed, 1, THREADS)?;
    // SAFETY: the kernel's arguments: as many workgroups as counted, or one more, with room for what each of them writes.
    unsafe { launch(device, &EXPERTS, names[1], config, args)? };
    Ok((
        plain(numbers, &blocks.into()),
        plain(starts, &(experts + 1).into()),
        plain(place, &(tokens, top).into()),
        plain(source, &(blocks * RowGroups::ALIGNMENT).into()),
    ))
}

/// The same in plain Rust.
fn on_host(chosen: &Tensor, experts: usize, blocks: usize) -> Result<Made> {
    let (device, all) = (chosen.device(), chosen.flatten_all()?.to_vec1::<u32>()?);
    let (mut numbers, mut starts) = (Vec::new(), vec![0]);
    let (mut place, mut source) = (vec![-1; all.len()], Vec::new());
    for expert in 0..experts {
        let mut rows = 0usize;
        for (assignment, _) in all
            .iter()
            .enumerate()
            .filter(|&(_, &of)| of as usize == expert)
        {
            place[assignment] = source.len() as i32;
            source.push(assignment as i32);
            rows += 1;
        }
        let full = source.len().next_multiple_of(RowGroups::ALIGNMENT);
        source.resize(full, -1);
        numbers.extend(
            (0..rows.div_ceil(RowGroups::ALIGNMENT))
                .map(|block| number(expert, rows - block * RowGroups::ALIGNMENT)),
        );
        starts.push(source.len() as i32);
    }
    numbers.resize(blocks.max(1), -1);
    source.resize(blocks * RowGroups::ALIGNMENT, -1);
    Ok((
        Tensor::new(numbers, device)?,
        Tensor::new(starts, device)?,
        Tensor::from_vec(place, chosen.shape(), device)?,
        Tensor::from_vec(source, blocks * RowGroups::ALIGNMENT, device)?,
    ))
}
