//! Tensors of 2^32 elements and more, whose grids Candle computes in 32 bits: none runs nothing in silence.
//!
//! On the emulator the inputs are pages that nothing has written, which are zeros and take no memory, and of each launch
//! the first and the last workgroup are executed: what they write is looked at around the places where their strides meet.
//! That the workgroups between them do the like follows from the kernels' loops. On a GPU all of it is executed.

use anyhow::{ensure, Context as _, Result};
use candle_core::{DType, Device, Tensor, D};
use candle_rocm_backend::{runtime, DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_testing::process::alone;
use candle_rocm_tests::device;
use float8::F8E4M3;

/// A grid of no workgroup, one of a single workgroup, and a number beyond which both halves of 32 bits count.
const COUNTS: [usize; 3] = [1 << 32, (1 << 32) + 1024, 1 << 33];
/// Two workgroups of each launch, room for several tensors of 8 GiB, and no pool, so that memory is as it was allocated.
const EMULATOR: [(&str, &str); 3] = [
    ("ROCM_EMU_WORKGROUPS", "2"),
    ("ROCM_EMU_MEMORY", "40G"),
    ("CANDLE_ROCM_POOL", "0"),
];
/// Work-items of the largest grid of kernels that take single elements, for each compute unit (`launch_heuristics.rs`).
const THREADS_PER_UNIT: usize = 16 * 256;
/// Vectors that a work-item of an elementwise kernel has.
const VECTORS: usize = 4;
/// Elements of a vector of 16 bytes at most.
const WIDEST: usize = 16;
/// A GPU with less memory is left out.
const LEAST_MEMORY: usize = 36 << 30;

fn on_the_emulator() -> bool {
    std::env::var(runtime::RUNTIME_VARIABLE).map_or(true, |name| name == "emulator")
}

/// Those of [`COUNTS`] that are tried. Two workgroups of an emulated GPU with few compute units make so many elements that
/// the largest count takes a minute; those of one with many show it.
fn counts(device: &Device) -> &'static [usize] {
    let units = device.as_rocm_device().expect("a GPU").info().compute_units;
    match on_the_emulator() && units < 100 {
        true => &COUNTS[..2],
        false => &COUNTS,
    }
}

/// Runs `body` for each of [`counts`], in a process whose emulator executes two workgroups of each launch.
fn for_each_count(test: &str, body: fn(&Device, usize) -> Result<()>) {
    alone(test, &EMULATOR, || {
        let device = device().expect("a device");
        let gpu = device.as_rocm_device().expect("a GPU");
        let memory = gpu.info().total_memory;
        if !on_the_emulator() && memory < LEAST_MEMORY {
            println!("{} GiB of memory are too few", memory >> 30);
            return;
        }
        for &count in counts(&device) {
            body(&device, count).unwrap_or_else(|error| panic!("{count} elements: {error:#}"));
        }
    });
}

/// Zeros: on the emulator pages that nothing has written.
fn zeros(shape: impl Into<candle_core::Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    if on_the_emulator() {
        // SAFETY: every bit pattern is a number of the types used here, and the emulator's memory begins as zeros.
        return Ok(unsafe { Tensor::empty(shape, dtype, device) }?);
    }
    Ok(Tensor::zeros(shape, dtype, device)?)
}

/// One element as often as the shape wants it, in memory once.
fn repeated(value: u8, shape: impl Into<candle_core::Shape>, device: &Device) -> Result<Tensor> {
    Ok(Tensor::full(value, (), device)?.broadcast_as(shape)?)
}

/// Elements between two that the first work-item of the largest grid makes, whatever the vectors.
fn period(device: &Device) -> Result<usize> {
    let units = device.as_rocm_device()?.info().compute_units as usize;
    Ok(units * THREADS_PER_UNIT * WIDEST)
}

/// The same of an elementwise kernel, whose grid grows with the elements.
fn elementwise_period(device: &Device, count: usize) -> Result<usize> {
    let workgroup = 256 * WIDEST;
    let workgroups = count.div_ceil(VECTORS * workgroup);
    Ok(period(device)?.max(workgroups * workgroup))
}

/// The elements from `first` on.
fn part(tensor: &Tensor, first: usize, count: usize) -> Result<Vec<u8>> {
    let flat = tensor.flatten_all()?;
    let part = flat.narrow(0, first, count)?.force_contiguous()?;
    // The bits of the one other type of a byte.
    if part.dtype() == DType::F8E4M3 {
        let bits = part.to_vec1::<F8E4M3>()?.into_iter();
        return Ok(bits.map(|x| x.to_bits()).collect());
    }
    Ok(part.to_vec1()?)
}

/// The tensor's elements are this one, where the first and the last workgroup of an elementwise kernel write them.
fn ensure_all_are(what: &str, tensor: &Tensor, value: u8) -> Result<()> {
    let period = elementwise_period(tensor.device(), tensor.elem_count())?;
    ensure_are(what, tensor, value, period)
}

/// The tensor's elements are this one, where the first and the last workgroup write them: the first, and those around
/// whole periods before and after 2^32 elements and at the end.
fn ensure_are(what: &str, tensor: &Tensor, value: u8, period: usize) -> Result<()> {
    let count = tensor.elem_count();
    let whole = [
        (1usize << 31) / period,
        (1 << 32) / period,
        (count - 1) / period,
    ];
    let whole = whole.map(|periods| periods * period);
    ensure!(
        part(tensor, 0, 2)? == [value; 2],
        "{what}: the first elements"
    );
    for place in whole.into_iter().chain([whole[1] + period]) {
        if place < count {
            let found = part(tensor, place - 1, 2)?;
            ensure!(
                found == [value; 2],
                "{what}: {found:?} before and at element {place}"
            );
        }
    }
    Ok(())
}

/// The refusal of a launch names the kernel and the count.
fn ensure_refused(result: candle_core::Result<Tensor>, kernel: &str, count: usize) -> Result<()> {
    let error = result.and_then(|tensor| tensor.device().synchronize());
    let error = error.err().context("it is not refused")?.to_string();
    ensure!(
        error.contains(kernel) && error.contains(&count.to_string()),
        "{error}"
    );
    Ok(())
}

#[test]
fn fills() {
    for_each_count("fills", |device, count| {
        ensure_all_are("ones", &Tensor::ones(count, DType::U8, device)?, 1)?;
        let turned = zeros((1024, count / 1024), DType::U8, device)?.t()?;
        turned.one_set()?;
        let period = elementwise_period(device, count)?;
        for place in [0, (count - 1) / period * period] {
            // The first of a row of 1024, whose rows are the memory's columns.
            let found = part(&turned.t()?, place / 1024, 1)?;
            ensure!(found == [1], "element {place} of a transposed tensor");
        }
        Ok(())
    });
}

#[test]
fn elementwise_operators() {
    for_each_count("elementwise_operators", |device, count| {
        let zero = zeros(count, DType::U8, device)?;
        ensure_all_are("affine", &zero.affine(1., 3.)?, 3)?;
        ensure_all_are("eq", &zero.eq(&zero)?, 1)?;
        let five = repeated(5, count, device)?;
        ensure_all_are("a sum with what is repeated", &zero.add(&five)?, 5)?;
        ensure_all_are("where", &zero.where_cond(&zero, &five)?, 5)?;
        ensure_all_are("a copy of what is repeated", &five.contiguous()?, 5)?;
        let cast = five.to_dtype(DType::F8E4M3)?;
        ensure_all_are("a cast", &cast, F8E4M3::from_f32(5.).to_bits())?;
        drop(cast);
        let one = zeros(count, DType::F8E4M3, device)?.exp()?;
        ensure_all_are("exp", &one, F8E4M3::from_f32(1.).to_bits())
    });
}

/// Sets as many elements as `values` has, from a multiple of 4 on.
fn poke(tensor: &Tensor, place: usize, values: &[u8]) -> Result<()> {
    let values = Tensor::from_slice(values, (values.len() / 4, 4), tensor.device())?;
    let rows = tensor.reshape((tensor.elem_count() / 4, 4))?;
    Ok(rows.slice_set(&values, 0, place / 4)?)
}

#[test]
fn indexing() {
    for_each_count("indexing", |device, count| {
        let (rows, columns) = (count / 1024, 1024);
        let table = Tensor::full(4u8, (2, columns), device)?;
        let ids = zeros(rows, DType::U32, device)?;
        // The first and the last workgroup of these do not write what lies before the places of `ensure_all_are`.
        let selected = table.index_select(&ids, 0)?;
        ensure!(part(&selected, 0, 2)? == [4; 2], "index_select");
        drop(selected);
        let ids = zeros((rows, columns), DType::U8, device)?;
        let gathered = table.gather(&ids, 0)?;
        ensure!(part(&gathered, 0, 2)? == [4; 2], "gather");
        drop(gathered);
        // A workgroup of these has 32 columns, whose updates all go to one row: the last ones are read near 2^32.
        let of_workgroup = [6; 32];
        let (updates, columns) = (256, count / 256);
        let source = zeros((updates, columns), DType::U8, device)?;
        let column = (columns - 1) / period(device)? * period(device)?;
        poke(&source, (updates - 1) * columns + column, &of_workgroup)?;
        let ids = ids.reshape((updates, columns))?;
        for adds in [false, true] {
            let result = zeros((1, columns), DType::U8, device)?;
            match adds {
                false => result.scatter_set(&ids, &source, 0)?,
                true => result.scatter_add_set(&ids, &source, 0)?,
            }
            let found = part(&result, column, of_workgroup.len())?;
            ensure!(
                found == of_workgroup,
                "scatter, adding {adds}, at {column}: {found:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn pooling_and_upsampling() {
    for_each_count("pooling_and_upsampling", |device, count| {
        let images = |side: usize| repeated(6, (1, count / 1024, side, side), device);
        let period = period(device)?;
        ensure_are("max_pool2d", &images(64)?.max_pool2d(2)?, 6, period)?;
        ensure_are("avg_pool2d", &images(64)?.avg_pool2d(2)?, 6, period)?;
        let upsampled = images(16)?.upsample_nearest2d(32, 32)?;
        ensure_are("upsample_nearest2d", &upsampled, 6, period)?;
        let images = images(32)?.transpose(0, 1)?;
        let weights = Tensor::ones((1, 1, 1, 1), DType::U8, device)?;
        let found = images.conv_transpose2d(&weights, 0, 0, 1, 1)?;
        ensure_are("conv_transpose2d", &found, 6, period)
    });
}

#[test]
fn reductions() {
    for_each_count("reductions", |device, count| {
        let pairs = repeated(3, (count, 2), device)?;
        let period = period(device)?;
        ensure_are("sums of two", &pairs.sum(D::Minus1)?, 6, period)?;
        ensure_are("the largest of two", &pairs.max(D::Minus1)?, 3, period)?;
        let largest = pairs.narrow(1, 0, 1)?.max(D::Minus1)?;
        ensure_are("the largest of one", &largest, 3, period)?;
        // So many elements make fewer outputs.
        let rows = repeated(1, (count / 64, 64), device)?;
        ensure!(part(&rows.sum(D::Minus1)?, 0, 1)? == [64], "a sum of 64");
        // An output of so many elements is more than the kernels count.
        ensure_refused(repeated(1, count, device)?.sum(0), "fast_sum_u8", count)?;
        ensure_refused(repeated(1, count, device)?.max(0), "fast_max_u8", count)?;
        ensure_refused(
            repeated(1, count, device)?.argmax(0),
            "fast_argmax_u8",
            count,
        )
    });
}
