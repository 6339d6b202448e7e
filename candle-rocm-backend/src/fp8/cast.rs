//! Casts to FP8.

use candle_core::{bail, CudaDevice, DType, Device, Result, Tensor, D};
use candle_rocm_kernels::FP8;
use float8::F8E4M3;

use super::matrix::{factor_of, Fp8Matrix, ScaleFormat, Share, BLOCK, OF_THREAD};
use crate::ops::launch::{
    allocate, allocate_zeros, batched, compute_units, grid, int, launch, work_grid, work_grid_of,
    Arg, THREADS, WORKGROUPS_PER_UNIT,
};
use crate::ops::node::plain;
use crate::ops::operands::row_float;

/// e4m3's largest number.
const LARGEST: f32 = 448.;
/// What a largest magnitude is taken as at least.
const LEAST_LARGEST: f32 = 1e-4;
/// Work-items of a workgroup that casts 128 x 128.
const BLOCK_THREADS: u32 = 512;
/// Of casts per token: on an H200 they take 5 % less than with half as many, which each cast twice as much.
const GROUPS_WORKGROUPS_PER_UNIT: usize = 2 * WORKGROUPS_PER_UNIT;
/// Rows, and words of factors, that a workgroup of `fp8_spread` takes.
const SPREAD: [usize; 2] = [64, 32];

/// Each 128 of a row by a factor of their own, as activations are cast: x is (rows, k) or (batch, rows, k) of f32, f16 or
/// bf16.
///
/// A factor is the largest magnitude (1e-4 at least) / 448, or as `format` says; elements are multiplied with its inverse and
/// rounded to nearest even. Where one is NaN or infinite, the factor is NaN and those that share it are 0.
///
/// # Errors
/// Another dtype or rank.
pub fn cast_per_token(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_token",
        x,
        Share::One,
        Share::Block,
        format,
        Source::AsItIs,
    )
}

/// Each 128 x 128 by a factor of their own, as weights are cast; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_token`].
pub fn cast_per_block(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_block",
        x,
        Share::Block,
        Share::Block,
        format,
        Source::AsItIs,
    )
}

/// Each row by a factor of its own; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_token`], and packed factors: there is nothing to pack.
pub fn cast_per_channel(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_channel",
        x,
        Share::One,
        Share::All,
        format,
        Source::AsItIs,
    )
}

/// Each matrix by one factor; the rest as [`cast_per_token`].
///
/// # Errors
/// As [`cast_per_channel`].
pub fn cast_per_tensor(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::cast_per_tensor",
        x,
        Share::All,
        Share::All,
        format,
        Source::AsItIs,
    )
}

/// silu(gate) * up, cast as by [`cast_per_token`], in one kernel: x is (rows, 2 k) or (batch, rows, 2 k), gates first. Computed
/// in f32 and rounded to x's dtype once before it is cast, as [`swiglu_packed`](crate::ops::swiglu_packed) does.
///
/// # Errors
/// As [`cast_per_token`], and an odd last dimension.
pub fn swiglu_cast_per_token(x: &Tensor, format: ScaleFormat) -> Result<Fp8Matrix> {
    cast(
        "fp8::swiglu_cast_per_token",
        x,
        Share::One,
        Share::Block,
        format,
        Source::Gated,
    )
}

/// Rows of x, each cast as by [`cast_per_token`] to `top` rows of the result that `place` (i32) names, none where it is
/// negative; where `source` is, the result's row is nobody's, and zeros.
pub(crate) fn cast_scattered(
    name: &'static str,
    x: &Tensor,
    [place, source]: [&Tensor; 2],
    top: usize,
    format: ScaleFormat,
) -> Result<Fp8Matrix> {
    let scattered = Source::Scattered { place, source, top };
    cast(name, x, Share::One, Share::Block, format, scattered)
}

/// What is cast of x.
#[derive(Clone, Copy)]
enum Source<'a> {
    AsItIs,
    Gated,
    Scattered {
        place: &'a Tensor,
        source: &'a Tensor,
        top: usize,
    },
}

fn cast(
    name: &'static str,
    x: &Tensor,
    of_rows: Share,
    of_k: Share,
    format: ScaleFormat,
    source: Source,
) -> Result<Fp8Matrix> {
    row_float(name, x)?;
    if !matches!(x.rank(), 2 | 3) {
        bail!(
            "{name}: x of {:?} has not two dimensions or three",
            x.shape()
        );
    }
    let packed = format == ScaleFormat::PackedPowersOfTwo;
    if packed && of_k == Share::All {
        bail!("{name}: one factor of k is not packed: ask for PowersOfTwo");
    }
    let mut dims = x.dims().to_vec();
    let last = dims.len() - 1;
    match source {
        Source::AsItIs => {}
        Source::Gated if !dims[last].is_multiple_of(2) => {
            bail!("{name}: x of {:?} has no two halves", x.shape())
        }
        Source::Gated => dims[last] /= 2,
        Source::Scattered { source, .. } => dims[0] = source.elem_count(),
    }
    let x = x.contiguous()?;
    let Device::Cuda(device) = x.device() else {
        let x = match source {
            Source::AsItIs => x,
            Source::Gated => crate::ops::swiglu_packed(&x)?,
            Source::Scattered { source, top, .. } => gathered(&x, source, top)?,
        };
        return on_host(&x, of_rows, of_k, format);
    };
    let cast = Cast {
        name,
        dims: &dims,
        of_rows,
        of_k,
        format,
        source,
    };
    cast.on_gpu(device, &x)
}

/// A cast on the GPU.
struct Cast<'a> {
    name: &'static str,
    /// Of the result.
    dims: &'a [usize],
    of_rows: Share,
    of_k: Share,
    format: ScaleFormat,
    source: Source<'a>,
}

impl Cast<'_> {
    fn on_gpu(&self, device: &CudaDevice, x: &Tensor) -> Result<Fp8Matrix> {
        let (batch, rows, k) = match *self.dims {
            [batch, rows, k] => (batch, rows, k),
            [rows, k] => (1, rows, k),
            _ => bail!("{}: {:?}", self.name, self.dims),
        };
        let packed = self.format == ScaleFormat::PackedPowersOfTwo;
        let of_k = self.of_k.factors(k);
        // By rows: what products read together lies together, 16 bytes for each next block of k or word of four.
        let (of_rows, columns) = (
            self.of_rows.factors(rows),
            if packed { of_k.div_ceil(4) } else { of_k },
        );
        let pitch = of_rows.next_multiple_of(4);
        let dtype = if packed { DType::U32 } else { DType::F32 };
        // Of a row's last word some bytes are nobody's, and no kernel writes what is only there for the pitch. What is spread
        // to whole tiles of rows is all written.
        let spread = matches!(self.source, Source::Scattered { .. }) && pitch == rows;
        let memory = if spread { allocate } else { allocate_zeros };
        let mut scales = memory(device, dtype, batch * columns * pitch)?;
        let mut data = allocate(device, DType::F8E4M3, batch * rows * k)?;
        if batch * rows * k > 0 {
            let name = row_float(self.name, x)?;
            let ld = if matches!(self.source, Source::Gated) {
                2 * k
            } else {
                k
            };
            // Of x, of which others are made.
            let given = match self.source {
                Source::Scattered { .. } => x.dims()[0],
                _ => rows,
            };
            let (rows_int, k_int) = (
                int(self.name, "rows", given)?,
                int(self.name, "elements of k", k)?,
            );
            let vectors = |of_row: usize| given * of_row / OF_THREAD;
            let of_groups = vectors(k.next_multiple_of(BLOCK));
            let most_rows = compute_units(device) * WORKGROUPS_PER_UNIT;
            let (kind, config) = match (self.source, self.of_rows, self.of_k) {
                (Source::Gated, ..) => ("swiglu", work_grid(device, of_groups)?),
                (Source::Scattered { .. }, ..) => ("scattered", work_grid(device, of_groups)?),
                (_, Share::One, Share::Block) => (
                    "groups",
                    work_grid_of(device, of_groups, GROUPS_WORKGROUPS_PER_UNIT)?,
                ),
                (_, Share::Block, _) => ("blocks", grid(of_k, of_rows, BLOCK_THREADS)?),
                (_, Share::One, _) => ("rows", grid(rows.clamp(1, most_rows), 1, THREADS)?),
                (_, Share::All, _) => (
                    "all",
                    work_grid(device, vectors(k.next_multiple_of(OF_THREAD)))?,
                ),
            };
            let config = batched(self.name, config, batch)?;
            if config.grid_dim.1 > 65_535 {
                bail!(
                    "{}: {rows} rows are more than a launch can have blocks for",
                    self.name
                );
            }
            let mut largest = None;
            if kind == "all" {
                let mut found = allocate_zeros(device, DType::U32, batch)?;
                let args = vec![
                    Arg::Read(Some(x)),
                    Arg::Write(&mut found),
                    Arg::Long(ld),
                    Arg::Int(rows_int),
                    Arg::Int(k_int),
                ];
                // SAFETY: the kernel's arguments: matrices of rows by k, and a number for each.
                unsafe { launch(device, &FP8, &format!("fp8_largest_{name}"), config, args)? };
                largest = Some(found);
            }
            let formats = || {
                [
                    Arg::Int((self.format != ScaleFormat::F32).into()),
                    Arg::Int(packed.into()),
                ]
            };
            // Of what is scattered, factors are made once for each of x's rows, and spread then.
            let mut of_given = match self.source {
                Source::Scattered { .. } => Some(allocate_zeros(device, dtype, given * columns)?),
                _ => None,
            };
            let (row_step, k_step) = match of_given {
                Some(_) => (columns, 1),
                None => (1, pitch),
            };
            let mut args = vec![
                Arg::Read(Some(x)),
                Arg::Write(&mut data),
                Arg::Long(ld),
                Arg::Int(rows_int),
                Arg::Int(k_int),
                Arg::Write(of_given.as_mut().unwrap_or(&mut scales)),
                Arg::Long(columns * pitch),
                Arg::Long(row_step),
                Arg::Long(k_step),
            ];
            args.extend(formats());
            if let Some(largest) = &largest {
                args.push(Arg::Left(largest));
            }
            if let Source::Scattered { place, source, top } = self.source {
                args.extend([
                    Arg::Read(Some(place)),
                    Arg::Read(Some(source)),
                    Arg::Int(int(self.name, "experts", top)?),
                    Arg::Int(int(self.name, "rows", rows)?),
                ]);
            }
            // SAFETY: the kernel's arguments: matrices of rows by k, memory for as many bytes, and for each factor.
            unsafe { launch(device, &FP8, &format!("fp8_{kind}_{name}"), config, args)? };
            if let (Source::Scattered { source, top, .. }, Some(of_given)) =
                (self.source, &of_given)
            {
                let mut args = vec![
                    Arg::Left(of_given),
                    Arg::Read(Some(source)),
                    Arg::Write(&mut scales),
                    Arg::Long(0),
                    Arg::Long(1),
                    Arg::Long(pitch),
                ];
                args.extend(formats());
                args.extend([
                    Arg::Int(int(self.name, "experts", top)?),
                    Arg::Int(int(self.name, "rows", rows)?),
                    Arg::Int(int(self.name, "factors", of_k)?),
                ]);
                let [of_tile, words] = SPREAD;
                let config = grid(rows.div_ceil(of_tile), columns.div_ceil(words), THREADS)?;
                // SAFETY: the kernel's arguments: factors of x's rows, whose numbers `source` has, and memory for each row's.
                unsafe { launch(device, &FP8, "fp8_spread", config, args)? };
            }
        }
        let mut shape = vec![columns, pitch];
        if self.dims.len() == 3 {
            shape.insert(0, batch);
        }
        let scales = plain(scales, &shape.into()).narrow(D::Minus1, 0, of_rows)?;
        Ok(Fp8Matrix {
            data: plain(data, &self.dims.into()),
            scales: scales.t()?,
            packed,
            of_rows: self.of_rows,
            of_k: self.of_k,
        })
    }
}

/// The rows that are named, by Candle's own operators.
pub(crate) fn gathered(x: &Tensor, source: &Tensor, share: usize) -> Result<Tensor> {
    let source = source.to_dtype(DType::I64)?.to_vec1::<i64>()?;
    let zeros = Tensor::zeros((1, x.dims()[1]), x.dtype(), x.device())?;
    // A row of zeros after the others, for those of nobody.
    let nobody = x.dims()[0] as u32;
    let rows: Vec<u32> = source
        .iter()
        .map(|&from| u32::try_from(from).map_or(nobody, |from| from / share.max(1) as u32))
        .collect();
    let rows = Tensor::new(rows, x.device())?;
    Tensor::cat(&[x, &zeros], 0)?.index_select(&rows, 0)
}

/// The same in plain Rust.
fn on_host(
    x: &Tensor,
    share_rows: Share,
    share_k: Share,
    format: ScaleFormat,
) -> Result<Fp8Matrix> {
    let (batch, rows, k) = match *x.dims() {
        [batch, rows, k] => (batch, rows, k),
        _ => (1, x.dims()[0], x.dims()[1]),
    };
    let values = x.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
    let (of_rows, of_k) = (share_rows.factors(rows), share_k.factors(k));
    let of = |at: usize| factor_of(at, [rows, k], [share_rows, share_k]);
    let mut largest = vec![0f32; batch * of_rows * of_k];
    for (at, x) in values.iter().enumerate() {
        let most = &mut largest[of(at)];
        // A NaN stays.
        if x.abs() > *most || !x.is_finite() {
            *most = if x.is_finite() && !most.is_nan() {
                x.abs()
            } else {
                f32::NAN
            };
        }
    }
    let scales: Vec<(f32, f32)> = largest
        .into_iter()
        .map(|largest| scale(largest, format))
        .collect();
    let data = values.iter().enumerate().map(|(at, x)| {
        let (_, inverse) = scales[of(at)];
        let y = if inverse == 0. { 0. } else { x * inverse };
        let y = F8E4M3::from_f32(y);
        if y.to_bits() == 0x80 {
            F8E4M3::from_bits(0)
        } else {
            y
        }
    });
    let data = Tensor::from_vec(data.collect::<Vec<_>>(), x.shape(), x.device())?;
    let factors: Vec<f32> = scales.into_iter().map(|(scale, _)| scale).collect();
    let mut shape = vec![of_rows, of_k];
    if x.rank() == 3 {
        shape.insert(0, batch);
    }
    let mut matrix = Fp8Matrix {
        data,
        scales: Tensor::from_vec(factors, shape.clone(), x.device())?,
        packed: false,
        of_rows: share_rows,
        of_k: share_k,
    };
    if format == ScaleFormat::PackedPowersOfTwo {
        let bytes: Vec<u8> = matrix
            .scales
            .pad_with_zeros(D::Minus1, 0, of_k.next_multiple_of(4) - of_k)?
            .flatten_all()?
            .to_vec1::<f32>()?
            .into_iter()
            .map(|scale| (scale.to_bits() >> 23) as u8)
            .collect();
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect();
        if let Some(last) = shape.last_mut() {
            *last = of_k.div_ceil(4);
        }
        matrix.scales = Tensor::from_vec(words, shape, x.device())?;
        matrix.packed = true;
    }
    Ok(matrix)
}

/// A factor and its inverse.
fn scale(largest: f32, format: ScaleFormat) -> (f32, f32) {
    if largest.is_nan() {
        return (f32::NAN, 0.);
    }
    let largest = largest.max(LEAST_LARGEST);
    let scale = largest / LARGEST;
    if format == ScaleFormat::F32 {
        return (scale, LARGEST / largest);
    }
    let exponent = (scale.to_bits() + 0x7f_ffff) >> 23;
    (
        f32::from_bits(exponent << 23),
        f32::from_bits((254 - exponent) << 23),
    )
}
