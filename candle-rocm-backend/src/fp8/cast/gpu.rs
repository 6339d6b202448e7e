//! Casts by kernels.

use candle_core::{bail, CudaDevice, CudaStorage, DType, Result, Tensor, D};
use candle_rocm_kernels::launch_heuristics::MAX_GRID_YZ;
use candle_rocm_kernels::FP8;
use candle_rocm_runtime::LaunchConfig;

use super::request::{Cast, Source};
use crate::fp8::matrix::{Fp8Matrix, ScaleFormat, Share, BLOCK, OF_THREAD};
use crate::ops::launch::{
    allocate, allocate_zeros, batched, compute_units, grid, int, launch, work_grid, work_grid_of,
    Arg, THREADS, WORKGROUPS_PER_UNIT,
};
use crate::ops::node::plain;
use crate::ops::operands::row_float;

/// Work-items of a workgroup that casts 128 x 128.
const BLOCK_THREADS: u32 = 512;
/// Of casts per token: on an H200 they take 5 % less than with half as many, which each cast twice as much.
const GROUPS_WORKGROUPS_PER_UNIT: usize = 2 * WORKGROUPS_PER_UNIT;
/// Rows, and words of factors, that a workgroup of `fp8_spread` takes.
const SPREAD: [usize; 2] = [64, 32];

/// The cast matrix.
pub(super) fn cast(cast: &Cast, device: &CudaDevice, x: &Tensor) -> Result<Fp8Matrix> {
    let sizes = Sizes::of(cast, x)?;
    let Sizes {
        batch,
        rows,
        k,
        columns,
        pitch,
        ..
    } = sizes;
    // Of a row's last word some bytes are nobody's, and no kernel writes what is only there for the pitch. What is spread
    // to whole tiles of rows is all written.
    let spread = matches!(cast.source, Source::Scattered { .. }) && pitch == rows;
    let memory = if spread { allocate } else { allocate_zeros };
    let mut scales = memory(device, cast.factors_dtype(), batch * columns * pitch)?;
    let mut data = allocate(device, DType::F8E4M3, batch * rows * k)?;
    if batch * rows * k > 0 {
        let launches = Launches::new(cast, device, x, &sizes)?;
        let largest = launches.largest()?;
        let of_given = launches.elements(&mut data, &mut scales, largest.as_ref())?;
        if let Some(of_given) = &of_given {
            launches.spread(of_given, &mut scales)?;
        }
    }
    let mut shape = vec![columns, pitch];
    if cast.dims.len() == 3 {
        shape.insert(0, batch);
    }
    let scales = plain(scales, &shape.into()).narrow(D::Minus1, 0, sizes.of_rows)?;
    Ok(Fp8Matrix {
        data: plain(data, &cast.dims.into()),
        scales: scales.t()?,
        packed: cast.is_packed(),
        of_rows: cast.of_rows,
        of_k: cast.of_k,
    })
}

impl Cast<'_> {
    fn is_packed(&self) -> bool {
        self.format == ScaleFormat::PackedPowersOfTwo
    }

    /// Of factors, or of words of four.
    fn factors_dtype(&self) -> DType {
        match self.is_packed() {
            true => DType::U32,
            false => DType::F32,
        }
    }
}

/// Sizes of the result, and of its factors in memory.
struct Sizes {
    batch: usize,
    rows: usize,
    k: usize,
    /// Rows of x, of which others are made.
    given: usize,
    /// Factors of all rows, and of k.
    of_rows: usize,
    of_k: usize,
    /// Factors of k, or words of four. By rows: what products read together lies together, 16 bytes for each next one of these.
    columns: usize,
    /// Factors between one of these and the next.
    pitch: usize,
}

impl Sizes {
    fn of(cast: &Cast, x: &Tensor) -> Result<Self> {
        let (batch, rows, k) = match *cast.dims {
            [batch, rows, k] => (batch, rows, k),
            [rows, k] => (1, rows, k),
            _ => bail!("{}: {:?}", cast.name, cast.dims),
        };
        let (of_rows, of_k) = (cast.of_rows.factors(rows), cast.of_k.factors(k));
        Ok(Self {
            batch,
            rows,
            k,
            given: match cast.source {
                Source::Scattered { .. } => x.dims()[0],
                _ => rows,
            },
            of_rows,
            of_k,
            columns: match cast.is_packed() {
                true => of_k.div_ceil(4),
                false => of_k,
            },
            pitch: of_rows.next_multiple_of(4),
        })
    }
}

/// What the launches of a cast have in common.
struct Launches<'a> {
    cast: &'a Cast<'a>,
    device: &'a CudaDevice,
    x: &'a Tensor,
    sizes: &'a Sizes,
    /// The name of x's dtype.
    dtype: &'static str,
    /// Elements between rows of x.
    ld: usize,
    /// Rows of x.
    given: u32,
    /// Elements of a row.
    k: u32,
    /// Between `fp8_` and the dtype in the kernel's name.
    kind: &'static str,
    config: LaunchConfig,
}

impl<'a> Launches<'a> {
    fn new(
        cast: &'a Cast<'a>,
        device: &'a CudaDevice,
        x: &'a Tensor,
        sizes: &'a Sizes,
    ) -> Result<Self> {
        let dtype = row_float(cast.name, x)?;
        let given = int(cast.name, "rows", sizes.given)?;
        let k = int(cast.name, "elements of k", sizes.k)?;
        let (kind, config) = kind_and_grid(cast, device, sizes)?;
        let config = batched(cast.name, config, sizes.batch)?;
        if config.grid_dim.1 > MAX_GRID_YZ {
            bail!(
                "{}: {} rows are more than a launch can have blocks for",
                cast.name,
                sizes.rows
            );
        }
        Ok(Self {
            cast,
            device,
            x,
            sizes,
            dtype,
            ld: match cast.source {
                Source::Gated => 2 * sizes.k,
                _ => sizes.k,
            },
            given,
            k,
            kind,
            config,
        })
    }

    /// Whether factors are powers of two, and whether they are packed.
    fn formats(&self) -> [Arg<'a>; 2] {
        [
            Arg::Int((self.cast.format != ScaleFormat::F32).into()),
            Arg::Int(self.cast.is_packed().into()),
        ]
    }

    /// The largest magnitude of each matrix, where all of it shares a factor.
    fn largest(&self) -> Result<Option<CudaStorage>> {
        if self.kind != "all" {
            return Ok(None);
        }
        let mut found = allocate_zeros(self.device, DType::U32, self.sizes.batch)?;
        let args = vec![
            Arg::Read(Some(self.x)),
            Arg::Write(&mut found),
            Arg::Long(self.ld),
            Arg::Int(self.given),
            Arg::Int(self.k),
        ];
        let kernel = format!("fp8_largest_{}", self.dtype);
        // SAFETY: the kernel's arguments: matrices of rows by k, and a number for each.
        unsafe { launch(self.device, &FP8, &kernel, self.config, args)? };
        Ok(Some(found))
    }

    /// Casts elements, and makes their factors. Of what is scattered, factors are made once for each of x's rows, and returned:
    /// they must be spread yet.
    fn elements(
        &self,
        data: &mut CudaStorage,
        scales: &mut CudaStorage,
        largest: Option<&CudaStorage>,
    ) -> Result<Option<CudaStorage>> {
        let Sizes {
            rows,
            given,
            columns,
            pitch,
            ..
        } = *self.sizes;
        let mut of_given = match self.cast.source {
            Source::Scattered { .. } => Some(allocate_zeros(
                self.device,
                self.cast.factors_dtype(),
                given * columns,
            )?),
            _ => None,
        };
        let (row_step, k_step) = match of_given {
            Some(_) => (columns, 1),
            None => (1, pitch),
        };
        let mut args = vec![
            Arg::Read(Some(self.x)),
            Arg::Write(data),
            Arg::Long(self.ld),
            Arg::Int(self.given),
            Arg::Int(self.k),
            Arg::Write(of_given.as_mut().unwrap_or(scales)),
            Arg::Long(columns * pitch),
            Arg::Long(row_step),
            Arg::Long(k_step),
        ];
        args.extend(self.formats());
        args.extend(largest.map(Arg::Left));
        if let Source::Scattered { place, source, top } = self.cast.source {
            args.extend([
                Arg::Read(Some(place)),
                Arg::Read(Some(source)),
                Arg::Int(int(self.cast.name, "experts", top)?),
                Arg::Int(int(self.cast.name, "rows", rows)?),
            ]);
        }
        let kernel = format!("fp8_{}_{}", self.kind, self.dtype);
        // SAFETY: the kernel's arguments: matrices of rows by k, memory for as many bytes, and for each factor.
        unsafe { launch(self.device, &FP8, &kernel, self.config, args)? };
        Ok(of_given)
    }

    /// Gives each row of the result the factors of the row of x that it is.
    fn spread(&self, of_given: &CudaStorage, scales: &mut CudaStorage) -> Result<()> {
        let Source::Scattered { source, top, .. } = self.cast.source else {
            return Ok(());
        };
        let sizes = self.sizes;
        let mut args = vec![
            Arg::Left(of_given),
            Arg::Read(Some(source)),
            Arg::Write(scales),
            Arg::Long(0),
            Arg::Long(1),
            Arg::Long(sizes.pitch),
        ];
        args.extend(self.formats());
        args.extend([
            Arg::Int(int(self.cast.name, "experts", top)?),
            Arg::Int(int(self.cast.name, "rows", sizes.rows)?),
            Arg::Int(int(self.cast.name, "factors", sizes.of_k)?),
        ]);
        let [of_tile, words] = SPREAD;
        let config = grid(
            sizes.rows.div_ceil(of_tile),
            sizes.columns.div_ceil(words),
            THREADS,
        )?;
        // SAFETY: the kernel's arguments: factors of x's rows, whose numbers `source` has, and memory for each row's.
        unsafe { launch(self.device, &FP8, "fp8_spread", config, args) }
    }
}

/// What a cast's kernel is called between `fp8_` and the dtype, and its grid for one matrix.
fn kind_and_grid(
    cast: &Cast,
    device: &CudaDevice,
    sizes: &Sizes,
) -> Result<(&'static str, LaunchConfig)> {
    let &Sizes {
        rows,
        k,
        given,
        of_rows,
        of_k,
        ..
    } = sizes;
    let vectors = |of_row: usize| given * of_row / OF_THREAD;
    let of_groups = vectors(k.next_multiple_of(BLOCK));
    let most_rows = compute_units(device) * WORKGROUPS_PER_UNIT;
    Ok(match (cast.source, cast.of_rows, cast.of_k) {
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
    })
}
