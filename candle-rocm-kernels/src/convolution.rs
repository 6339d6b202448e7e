//! What the kernels of [`CONVOLUTION`](crate::CONVOLUTION) are: their tiles and workgroups. The list is that of
//! `kernels/convolution/convolution_kernels.cuh`.
//!
//! A kernel's name is `convolution_<dtype>_<rows>x<columns>_<gather>`, by how operands are read ([`Gather`]);
//! `convolution_halo_<dtype>_<rows>x<columns>_<unit>_<together>` ([`HaloWeights`]) has 3 x 3 taps;
//! `convolution_sliced_<dtype>_<rows>x<columns>_masked` has [`SLICES`] times the wavefronts;
//! `convolution_lines_<dtype>_<rows>x<columns>_<taps>_<unit>` ([`LinesShape`]) makes gradients of weights;
//! `convolution_direct_<dtype>`, `convolution_depthwise_<dtype>_<taps>_<stride>` and
//! `convolution_depthwise_last_<dtype>_<taps>_<stride>`, `convolution_depthwise_data_<dtype>_<taps>_<stride>` and
//! `convolution_depthwise_weights_<dtype>_<taps>_<stride>` and `convolution_grouped_<dtype>_<taps>_<stride>` make no product, and `convolution_sum_<dtype>` adds up the splits of k.

use crate::by_architecture::Lists;
use crate::matmul::{Dtype, Tile};
use crate::processor::Processor;

/// The kernels of a type and a tile: a row of kernels/convolution/convolution_kernels.cuh.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    dtype: Dtype,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
    stage_bytes: u32,
}

impl Kernel {
    /// Its tile, made by so many slices.
    fn shape(&self, wavefront: u32, slices: u32) -> Shape {
        Shape::of(
            [self.rows, self.columns],
            slices * self.waves_m * self.waves_n * wavefront,
            slices * self.stage_bytes / self.dtype.bytes(),
        )
    }
}

/// A kernel that reads both operands by vectors of channels, likewise.
#[derive(Clone, Copy, Debug)]
struct Channels {
    dtype: Dtype,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
    stage_bytes: u32,
    stages: u32,
    lds_kib: u32,
}

/// A kernel for groups of one channel, or of few, likewise.
#[derive(Clone, Copy, Debug)]
struct Depthwise {
    dtype: Dtype,
    taps: u32,
    stride: u32,
}

/// A kernel of 3 x 3 taps, likewise.
#[derive(Clone, Copy, Debug)]
struct Halo {
    dtype: Dtype,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
    unit: u32,
}

/// A kernel of gradients of weights along lines, likewise.
#[derive(Clone, Copy, Debug)]
struct Lines {
    dtype: Dtype,
    rows: u32,
    columns: u32,
    waves_m: u32,
    waves_n: u32,
    stage_bytes: u32,
    taps: u32,
    unit: u32,
}

include!(concat!(env!("OUT_DIR"), "/convolution_kernels.rs"));

/// Lines that a work-item of the kernels for groups of one channel makes, of 16 bytes of neighbours each.
pub const DEPTHWISE_LINES: u32 = 4;

/// Whether a processor has a kernel for groups of one channel, `taps` x `taps` taps and places `stride` apart.
pub fn is_depthwise(processor: Processor, dtype: Dtype, taps: u32, stride: u32) -> bool {
    has(&DEPTHWISE, processor, [taps, stride], dtype)
}

fn has(
    list: &'static Lists<Depthwise>,
    processor: Processor,
    [taps, stride]: [u32; 2],
    dtype: Dtype,
) -> bool {
    let is_it =
        |kernel: &Depthwise| (kernel.dtype, kernel.taps, kernel.stride) == (dtype, taps, stride);
    list.of(processor).iter().any(is_it)
}

/// The name of that kernel.
pub fn depthwise_name(dtype: Dtype, taps: u32, stride: u32) -> String {
    format!("convolution_depthwise_{}_{taps}_{stride}", dtype.name())
}

/// Output channels of a group that a workgroup of the kernels for groups of few channels makes.
pub const GROUPED_COLUMNS: u32 = 8;

/// Whether a processor has a kernel for groups of few channels, likewise.
pub fn is_grouped(processor: Processor, dtype: Dtype, taps: u32, stride: u32) -> bool {
    has(&GROUPED, processor, [taps, stride], dtype)
}

/// The name of that kernel.
pub fn grouped_name(dtype: Dtype, taps: u32, stride: u32) -> String {
    format!("convolution_grouped_{}_{taps}_{stride}", dtype.name())
}

/// Places along x that a work-item of the kernels for groups of one channel makes where channels are neighbours in memory.
pub const DEPTHWISE_LAST_PLACES: u64 = 4;

/// Vectors of 16 bytes of channels that a workgroup of these makes at most.
pub const DEPTHWISE_LAST_VECTORS: u64 = 32;

/// The name of the kernel where channels are neighbours in memory; there is one wherever [`is_depthwise`] says so.
pub fn depthwise_last_name(dtype: Dtype, taps: u32, stride: u32) -> String {
    format!(
        "convolution_depthwise_last_{}_{taps}_{stride}",
        dtype.name()
    )
}

/// The name of the kernel of gradients of the data; there is one wherever [`is_depthwise`] says so and places are more than one
/// apart.
pub fn depthwise_data_name(dtype: Dtype, taps: u32, stride: u32) -> String {
    format!(
        "convolution_depthwise_data_{}_{taps}_{stride}",
        dtype.name()
    )
}

/// Lines that a work-item of it makes, beside padding.
pub fn depthwise_data_lines(stride: u32) -> u32 {
    2 * stride
}

/// The name of the kernel of gradients of weights; there is one wherever [`is_depthwise`] says so.
pub fn depthwise_weights_name(dtype: Dtype, taps: u32, stride: u32) -> String {
    format!(
        "convolution_depthwise_weights_{}_{taps}_{stride}",
        dtype.name()
    )
}

/// Work-items of a workgroup of the kernels without tiles.
pub const THREADS: u32 = 256;

/// Elements of a mask of taps: kernels with more compare coordinates.
pub const MOST_MASKED_TAPS: u64 = 31;

/// Bytes of an operand that kernels with tiles reach.
pub const MOST_BYTES: u64 = (1 << 32) - (1 << 8);

/// The number of ReLU that gives NaN of a NaN, beside those of [`activations`](crate::activations).
pub const RELU_OF_NAN: u32 = 5;

/// How results are written (kernels/convolution/problem.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Store {
    /// Neighbours are rows'.
    ElementsOfRows = 0,
    /// Neighbours are columns'.
    ElementsOfColumns = 1,
    /// 16 bytes of rows lie together.
    VectorsOfRows = 2,
    /// 16 bytes of columns lie together.
    VectorsOfColumns = 3,
}

/// What a workgroup makes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its part of the result.
    pub tile: Tile,
    /// Work-items.
    pub threads: u32,
    /// Elements of k in a K-block.
    pub depth: u32,
    /// K-blocks that are on their way while one is multiplied.
    pub prefetch: u32,
    /// Bytes of LDS that a launch has to ask for, beside what the kernel has of its own.
    pub dynamic_lds: u32,
}

impl Shape {
    /// One K-block is on its way, and all LDS is the kernel's own.
    fn of([rows, columns]: [u32; 2], threads: u32, depth: u32) -> Self {
        Self {
            tile: Tile { rows, columns },
            threads,
            depth,
            prefetch: 1,
            dynamic_lds: 0,
        }
    }
}

/// The tiles that a processor has for a type that read operands so, largest first.
///
/// f32 and f64 have them everywhere: matrix units multiply where they take these, else vector units. NVIDIA's GPUs before
/// compute capability 8.0 have none, and some after it no LDS for the largest.
pub fn shapes(processor: Processor, dtype: Dtype, gather: Gather) -> Vec<Shape> {
    let wavefront = processor.wavefront();
    if gather != Gather::Vectors {
        let kernels = of_type(&KERNELS, processor, dtype, |kernel| kernel.dtype);
        let shapes = kernels.map(|kernel| kernel.shape(wavefront, 1));
        return shapes.filter(|shape| is_made(shape.tile, gather)).collect();
    }
    let most = processor
        .multiprocessor()
        .map(|of| of.lds_bytes_of_workgroup);
    let kernels = of_type(&CHANNELS, processor, dtype, |kernel| kernel.dtype);
    let shapes = kernels.map(|kernel| Shape {
        prefetch: kernel.stages - 1,
        dynamic_lds: kernel.lds_kib << 10,
        ..Shape::of(
            [kernel.rows, kernel.columns],
            kernel.waves_m * kernel.waves_n * wavefront,
            kernel.stage_bytes / dtype.bytes(),
        )
    });
    shapes
        .filter(|shape| most.is_none_or(|most| shape.dynamic_lds <= most))
        .collect()
}

/// The kernels of a list that a processor has for a type.
fn of_type<T>(
    list: &'static Lists<T>,
    processor: Processor,
    dtype: Dtype,
    type_of: fn(&T) -> Dtype,
) -> impl Iterator<Item = &'static T> {
    let is_known = processor != Processor::Nvidia(None);
    let kernels = list.of(processor).iter();
    kernels.filter(move |kernel| is_known && type_of(kernel) == dtype)
}

/// Groups of wavefronts of the kernels in slices, each of which makes every so many-th K-block of a tile.
pub const SLICES: u32 = 2;

/// The tiles that a processor has in slices for a type, which read the image masked. All slices have `depth` elements of k together.
pub fn sliced_shapes(processor: Processor, dtype: Dtype) -> impl Iterator<Item = Shape> {
    let wavefront = processor.wavefront();
    let kernels = of_type(&SLICED, processor, dtype, |kernel| kernel.dtype);
    kernels.map(move |kernel| kernel.shape(wavefront, SLICES))
}

/// The name of the kernel of such a tile.
pub fn sliced_name(dtype: Dtype, tile: Tile) -> String {
    let Tile { rows, columns } = tile;
    format!(
        "convolution_sliced_{}_{rows}x{columns}_masked",
        dtype.name()
    )
}

/// Taps along each of two axes of the kernels that read each pixel once for a line of taps (kernels/convolution/halo.cuh).
pub const HALO_TAPS: u32 = 3;

/// Channels of a K-block of these, of which they take whole ones.
pub const HALO_CHANNELS: u32 = 16;

/// Pixels that these hold in LDS for a tile of so many rows, at most.
pub fn halo_places(rows: u32) -> u32 {
    HALO_TAPS * (rows + 16)
}

/// The tiles of these that a processor has for a type, largest first, and how many neighbours of a line they read at once.
pub fn halo_shapes(processor: Processor, dtype: Dtype) -> impl Iterator<Item = (Shape, u32)> {
    let wavefront = processor.wavefront();
    let kernels = of_type(&HALO, processor, dtype, |kernel| kernel.dtype);
    kernels.map(move |kernel| {
        let shape = Shape::of(
            [kernel.rows, kernel.columns],
            kernel.waves_m * kernel.waves_n * wavefront,
            HALO_CHANNELS * HALO_TAPS * HALO_TAPS,
        );
        (shape, kernel.unit)
    })
}

/// How weights lie in memory for these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HaloWeights {
    /// All taps of a channel together.
    Taps,
    /// Channels of a tap together.
    Channels,
}

/// The name of such a kernel.
pub fn halo_name(dtype: Dtype, tile: Tile, unit: u32, weights: HaloWeights) -> String {
    let together = match weights {
        HaloWeights::Taps => "taps",
        HaloWeights::Channels => "channels",
    };
    let Tile { rows, columns } = tile;
    format!(
        "convolution_halo_{}_{rows}x{columns}_{unit}_{together}",
        dtype.name()
    )
}

/// Places of outputs that the kernels of gradients of weights along lines count together: a line has whole chunks of them.
pub const LINE_CHUNK: u32 = 8;

/// A kernel of gradients of weights that reads both operands along lines (kernels/convolution/lines.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesShape {
    /// What a workgroup makes.
    pub shape: Shape,
    /// Taps of a line, which share what is read.
    pub taps: u32,
    /// Neighbours that are read at once.
    pub unit: u32,
}

/// Those that a processor has for a type.
pub fn lines_shapes(processor: Processor, dtype: Dtype) -> impl Iterator<Item = LinesShape> {
    let wavefront = processor.wavefront();
    let kernels = of_type(&LINES, processor, dtype, |kernel| kernel.dtype);
    kernels.map(move |kernel| LinesShape {
        shape: Shape::of(
            [kernel.rows, kernel.columns],
            kernel.waves_m * kernel.waves_n * wavefront,
            kernel.stage_bytes / dtype.bytes(),
        ),
        taps: kernel.taps,
        unit: kernel.unit,
    })
}

/// The name of such a kernel.
pub fn lines_name(dtype: Dtype, kernel: &LinesShape) -> String {
    let Tile { rows, columns } = kernel.shape.tile;
    format!(
        "convolution_lines_{}_{rows}x{columns}_{}_{}",
        dtype.name(),
        kernel.taps,
        kernel.unit
    )
}

/// How operands are read (kernels/convolution/operands.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gather {
    /// The image element by element, with a bit for each of at most [`MOST_MASKED_TAPS`] taps.
    Masked,
    /// The image element by element, by comparing coordinates.
    Compared,
    /// Both operands by 16 bytes, of channels that are neighbours.
    Vectors,
    /// Both operands element by element, rows side by side.
    Elements,
    /// Both operands element by element, elements of k side by side.
    AlongK,
}

impl Gather {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Masked,
        Self::Compared,
        Self::Vectors,
        Self::Elements,
        Self::AlongK,
    ];
}

/// Whether tiles are made so: those of 128 rows are for no more taps than a mask has bits.
fn is_made(tile: Tile, gather: Gather) -> bool {
    gather != Gather::Compared || tile.rows <= 64
}

/// The name of the kernel of a tile.
pub fn kernel_name(dtype: Dtype, tile: Tile, gather: Gather) -> String {
    let gathered = match gather {
        Gather::Masked => "masked",
        Gather::Compared => "compared",
        Gather::Vectors => "vectors",
        Gather::Elements => "elements",
        Gather::AlongK => "along_k",
    };
    let Tile { rows, columns } = tile;
    format!("convolution_{}_{rows}x{columns}_{gathered}", dtype.name())
}

/// The name of the kernel that makes no product.
pub fn direct_name(dtype: Dtype) -> String {
    format!("convolution_direct_{}", dtype.name())
}

/// The name of the kernel that puts the output channels of weights together, whose workgroups are [`TRANSPOSE_THREADS`].
pub fn transpose_name(dtype: Dtype) -> String {
    format!("convolution_transpose_{}", 8 * dtype.bytes())
}

/// Work-items of its workgroups, each of which turns a tile of [`TRANSPOSE_TILE`] x [`TRANSPOSE_TILE`].
pub const TRANSPOSE_THREADS: (u32, u32) = (32, 8);

/// Rows and columns of a tile of it.
pub const TRANSPOSE_TILE: u32 = 32;

/// The name of the kernel that adds up the splits of k.
pub fn sum_name(dtype: Dtype) -> String {
    format!("convolution_sum_{}", dtype.name())
}

/// The names of the kernels that a processor has for convolutions as such, with the work-items of their workgroups.
pub fn kernels(processor: Processor) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        all.push((direct_name(dtype), THREADS));
        all.push((sum_name(dtype), THREADS));
        for gather in Gather::ALL {
            let shapes = shapes(processor, dtype, gather).into_iter();
            all.extend(shapes.map(|of| (kernel_name(dtype, of.tile, gather), of.threads)));
        }
        for (shape, unit) in halo_shapes(processor, dtype) {
            let names = [HaloWeights::Taps, HaloWeights::Channels]
                .map(|weights| halo_name(dtype, shape.tile, unit, weights));
            all.extend(names.map(|name| (name, shape.threads)));
        }
        let sliced = sliced_shapes(processor, dtype);
        all.extend(sliced.map(|shape| (sliced_name(dtype, shape.tile), shape.threads)));
        let lines = lines_shapes(processor, dtype);
        all.extend(lines.map(|of| (lines_name(dtype, &of), of.shape.threads)));
    }
    let depthwise = DEPTHWISE.of(processor).iter();
    let named = |of: &Depthwise| {
        let Depthwise {
            dtype,
            taps,
            stride,
        } = *of;
        let everywhere = [depthwise_name, depthwise_last_name, depthwise_weights_name];
        let of_strides = (stride > 1).then(|| depthwise_data_name(dtype, taps, stride));
        let names = everywhere.map(|name| name(dtype, taps, stride));
        names.into_iter().chain(of_strides)
    };
    let depthwise = depthwise.flat_map(named);
    all.extend(depthwise.map(|name| (name, THREADS)));
    let grouped = GROUPED.of(processor).iter();
    all.extend(grouped.map(|of| (grouped_name(of.dtype, of.taps, of.stride), THREADS)));
    all
}

/// What replaces a kernel of Candle's: a transposed convolution of its dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transposed {
    /// The dtype.
    pub dtype: Dtype,
    /// One or two axes.
    pub axes: usize,
}

impl Transposed {
    /// That of a kernel of an embedded module, both by name; `None` for kernels that are never replaced.
    pub fn of(module: &str, kernel: &str) -> Option<Self> {
        let rest = kernel.strip_prefix("conv_transpose")?;
        let (axes, name) = rest.split_once("d_").filter(|_| module == "conv")?;
        let axes = match axes {
            "1" => 1,
            "2" => 2,
            _ => return None,
        };
        let dtypes = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
        let dtype = dtypes.into_iter().find(|dtype| dtype.name() == name)?;
        Some(Self { dtype, axes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A split of k is whole K-blocks, and each type has a tile.
    #[test]
    fn all_types_have_tiles_of_whole_blocks() {
        for name in ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201", "sm_90"] {
            for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
                for gather in Gather::ALL {
                    let shapes = shapes(Processor::of(name), dtype, gather);
                    assert!(!shapes.is_empty(), "{name} {dtype:?} {gather:?}");
                    let is_whole = |shape: &Shape| dtype.depth() % shape.depth == 0;
                    assert!(shapes.iter().all(is_whole), "{name} {shapes:?}");
                }
            }
        }
    }

    #[test]
    fn transposed_convolutions_of_floats_are_replaced() {
        let of = |kernel| Transposed::of("conv", kernel).map(|of| (of.dtype, of.axes));
        assert_eq!(of("conv_transpose1d_bf16"), Some((Dtype::BF16, 1)));
        assert_eq!(of("conv_transpose2d_f64"), Some((Dtype::F64, 2)));
        for kernel in ["conv_transpose2d_u8", "conv2d_f32", "conv_transpose3d_f32"] {
            assert_eq!(of(kernel), None);
        }
        assert_eq!(Transposed::of("elsewhere", "conv_transpose2d_f32"), None);
    }
}
