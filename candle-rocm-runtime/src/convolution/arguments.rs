//! The kernels' parameters: a convolution as a product of rows, columns and k.

use candle_rocm_kernels::convolution::{Gather, Store, MOST_MASKED_TAPS};
use candle_rocm_kernels::order::{Divisor, TileOrder};

use super::description::{Axis, Convolution, Epilogue, Operands, Operation, Strides};
use crate::base::dtype::DeviceRepr;

candle_rocm_kernels::kernel_argument! { CONVOLUTION_AXIS,
    /// `ConvolutionAxis` of kernels/convolution/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[allow(missing_docs)]
    pub struct AxisArguments {
        pub size: i32,
        pub row_step: i32,
        pub k_step: i32,
        pub first: i32,
        pub image: i64,
        pub matrix: i64,
        pub tap: i64,
        pub result: i64,
        pub place: i64,
        pub rows: Divisor,
        pub rows_less: Divisor,
        pub taps: Divisor,
        pub taps_less: Divisor,
        pub rows_rest: u32,
        pub taps_rest: u32,
        pub phases: Divisor,
        pub tap_phases: Divisor,
        pub dilation: u32,
        pub shift: u32,
    }
}

candle_rocm_kernels::kernel_argument! { CONVOLUTION_PROBLEM,
    /// `ConvolutionProblem` of kernels/convolution/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    #[allow(missing_docs)]
    pub struct ConvolutionArguments {
        pub image: u64,
        pub matrix: u64,
        pub result: u64,
        pub addend: u64,
        pub bias: u64,
        pub residual: u64,
        pub partial: u64,
        pub alpha: f64,
        pub beta: f64,
        pub z: AxisArguments,
        pub y: AxisArguments,
        pub x: AxisArguments,
        pub image_row: i64,
        pub image_k: i64,
        pub matrix_k: i64,
        pub result_row: i64,
        pub matrix_column: i64,
        pub result_column: i64,
        pub image_group: i64,
        pub matrix_group: i64,
        pub result_group: i64,
        pub groups: Divisor,
        pub row_outers: Divisor,
        pub k_outers: Divisor,
        pub rows_by_outer: u32,
        pub k_by_outer: u32,
        pub rows: u32,
        pub columns: u32,
        pub depth: u32,
        pub splits: u32,
        pub k_per_split: u32,
        pub store: u32,
        pub activation: u32,
        pub order: TileOrder,
    }
}

// SAFETY: numbers, laid out by C's rules, as the kernel's parameter; the kernel reads no padding.
unsafe impl DeviceRepr for ConvolutionArguments {}

/// A divisor, which counts 0 as well.
pub(super) fn counted(value: usize) -> Divisor {
    Divisor {
        value: value as u32,
        ..Divisor::new(value as u32)
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}

impl AxisArguments {
    /// Rows are places of outputs, k has taps.
    fn forward(axis: &Axis, [image, matrix, result]: [usize; 3]) -> Self {
        let (step, first) = taps(axis);
        Self {
            size: axis.input as i32,
            row_step: axis.stride as i32,
            k_step: step,
            first,
            image: image as i64,
            matrix: matrix as i64,
            result: result as i64,
            ..Self::one_phase([axis.output, axis.kernel])
        }
    }

    /// Rows are taps, k has places of outputs.
    fn weights(axis: &Axis, [image, matrix, result]: [usize; 3]) -> Self {
        let (step, first) = taps(axis);
        Self {
            size: axis.input as i32,
            row_step: step,
            k_step: axis.stride as i32,
            first,
            image: image as i64,
            matrix: matrix as i64,
            result: result as i64,
            ..Self::one_phase([axis.kernel, axis.output])
        }
    }

    fn one_phase([rows, taps]: [usize; 2]) -> Self {
        Self {
            rows: counted(rows),
            rows_less: counted(rows),
            taps: counted(taps),
            taps_less: counted(taps),
            phases: Divisor::new(1),
            tap_phases: Divisor::new(1),
            ..Self::default()
        }
    }

    /// Rows are places of inputs, k has taps: place i and tap t meet the output (i + padding - t * dilation) / stride, if that
    /// is whole.
    fn data(axis: &Axis, [image, matrix, result]: [usize; 3]) -> Self {
        let (dilation, padding) = (axis.dilation, axis.padding);
        // Taps that are turned round are read from the last one on.
        let matrix = match axis.is_flipped {
            false => matrix as i64,
            true => -(matrix as i64),
        };
        let common = greatest_common_divisor(axis.stride, dilation);
        let tap_phases = axis.stride / common;
        let (ceil, floor) = (usize::div_ceil as fn(usize, usize) -> usize, |a, b| a / b);
        Self {
            size: axis.output as i32,
            row_step: 1,
            k_step: -((dilation / common) as i32),
            first: (1 + padding / axis.stride) as i32,
            image: image as i64,
            matrix: matrix * tap_phases as i64,
            tap: matrix,
            result: (result * axis.stride) as i64,
            place: result as i64,
            rows: counted(ceil(axis.input, axis.stride)),
            rows_less: counted(floor(axis.input, axis.stride)),
            taps: counted(ceil(axis.kernel, tap_phases)),
            taps_less: counted(floor(axis.kernel, tap_phases)),
            rows_rest: (axis.input % axis.stride) as u32,
            taps_rest: (axis.kernel % tap_phases) as u32,
            phases: Divisor::new(axis.stride as u32),
            tap_phases: Divisor::new(tap_phases as u32),
            dilation: dilation as u32,
            shift: (axis.stride - padding % axis.stride) as u32,
        }
    }

    /// Places of rows of all phases.
    pub(super) fn places(&self) -> u64 {
        let phases = u64::from(self.phases.value);
        u64::from(self.rows_less.value) * phases + u64::from(self.rows_rest)
    }

    /// Zeros before the places of a gradient of the data.
    pub(super) fn zeros_before(&self) -> u64 {
        let first = u64::try_from(self.first).unwrap_or_default();
        (first * u64::from(self.phases.value)).saturating_sub(self.shift.into())
    }

    /// Rows and taps of the largest phase.
    fn most(&self) -> [u64; 2] {
        let of = |rest, more: Divisor, less: Divisor| match rest {
            0 => less.value.into(),
            _ => u64::from(more.value),
        };
        [
            of(self.rows_rest, self.rows, self.rows_less),
            of(self.taps_rest, self.taps, self.taps_less),
        ]
    }
}

/// What a tap adds to a place, and where the first place's first tap is.
fn taps(axis: &Axis) -> (i32, i32) {
    let (dilation, padding) = (axis.dilation as i32, axis.padding as i32);
    match axis.is_flipped {
        false => (dilation, -padding),
        true => (-dilation, (axis.kernel as i32 - 1) * dilation - padding),
    }
}

/// One direction in which a tensor's elements follow one another: how many, and how far apart.
#[derive(Clone, Copy)]
struct Direction(u64, i64);

impl Direction {
    /// That of an axis; phases have different numbers of elements, so that nothing follows them.
    fn varying(count: Divisor, stride: i64, phases: Divisor) -> Self {
        let continues = phases.value == 1;
        Self(count.value.into(), if continues { stride } else { -stride })
    }
}

/// Whether `vector` elements along these directions, of which the first is the fastest, always lie together at a multiple of
/// their bytes, if all `other` distances are such.
fn are_together(directions: &[Direction], others: &[i64], vector: u64) -> bool {
    let mut run = 1_u64;
    let mut rest = directions.iter().filter(|Direction(count, _)| *count != 1);
    let breaks = loop {
        match rest.next() {
            Some(Direction(count, stride)) if *stride == run as i64 => run *= count,
            other => break other,
        }
    };
    let is_whole = |stride: &i64| stride.unsigned_abs().is_multiple_of(vector);
    let outer = breaks.into_iter().chain(rest);
    run.is_multiple_of(vector)
        && outer
            .into_iter()
            .all(|Direction(_, stride)| is_whole(stride))
        && others.iter().all(is_whole)
}

/// An address, which vectors begin at.
fn is_aligned(address: u64) -> bool {
    address.is_multiple_of(16)
}

/// How far into the weights the first tap of a gradient of the data is: the last one along axes that are flipped.
fn flipped_bytes(of: &Convolution) -> u64 {
    if of.operation != Operation::Data {
        return 0;
    }
    let last = |i: usize| match of.axes[i].is_flipped {
        true => of.axes[i].kernel.saturating_sub(1) * of.weights.axes[i],
        false => 0,
    };
    let elements: usize = (0..3).map(last).sum();
    elements as u64 * u64::from(of.dtype.bytes())
}

/// Two distances in elements.
type Pair = [usize; 2];

/// Of image, matrix and result: elements between outer numbers of rows and of k, of k and columns, of rows and columns;
/// and between the groups of each.
fn distances(
    of: &Convolution,
    [image, matrix, result]: [&Strides; 3],
) -> (Pair, Pair, Pair, [usize; 3]) {
    let [inputs, outputs] = of.of_group();
    match of.operation {
        Operation::Forward => (
            [image.batch, image.channel],
            [matrix.channel, matrix.batch],
            [result.batch, result.channel],
            [
                inputs * image.channel,
                outputs * matrix.batch,
                outputs * result.channel,
            ],
        ),
        Operation::Data => (
            [image.batch, image.channel],
            [matrix.batch, matrix.channel],
            [result.batch, result.channel],
            [
                outputs * image.channel,
                outputs * matrix.batch,
                inputs * result.channel,
            ],
        ),
        Operation::Weights => (
            [image.channel, image.batch],
            [matrix.batch, matrix.channel],
            [result.channel, result.batch],
            [
                inputs * image.channel,
                outputs * matrix.channel,
                outputs * result.batch,
            ],
        ),
    }
}

impl ConvolutionArguments {
    /// A checked convolution, without tiles and with k in one split.
    pub(super) fn new(of: &Convolution, operands: &Operands, epilogue: &Epilogue) -> Self {
        let [inputs, outputs] = of.of_group();
        let (x, w, y) = (&of.inputs, &of.weights, &of.outputs);
        let Operands {
            inputs: at_x,
            weights: at_w,
            outputs: at_y,
        } = *operands;
        type Make = fn(&Axis, [usize; 3]) -> AxisArguments;
        let (make, tensors, addresses, outers, columns): (Make, _, _, _, _) = match of.operation {
            Operation::Forward => (
                AxisArguments::forward,
                [x, w, y],
                [at_x, at_w, at_y],
                [of.batch, inputs],
                outputs,
            ),
            Operation::Data => (
                AxisArguments::data,
                [y, w, x],
                [at_y, at_w, at_x],
                [of.batch, outputs],
                inputs,
            ),
            Operation::Weights => (
                AxisArguments::weights,
                [x, y, w],
                [at_x, at_y, at_w],
                [inputs, of.batch],
                outputs,
            ),
        };
        let [z, y_axis, x_axis] =
            [0, 1, 2].map(|i| make(&of.axes[i], tensors.map(|tensor| tensor.axes[i])));
        let (rows_k, matrix_kc, result_rc, groups) = distances(of, tensors);
        let most = [z.most(), y_axis.most(), x_axis.most()];
        let product = |i: usize| most.iter().map(|most| most[i]).product::<u64>();
        let mut arguments = Self {
            image: addresses[0],
            matrix: addresses[1],
            result: addresses[2],
            addend: epilogue.addend.unwrap_or(addresses[2]),
            bias: epilogue.bias.unwrap_or(0),
            residual: epilogue.residual.unwrap_or(0),
            partial: 0,
            alpha: epilogue.alpha,
            beta: epilogue.beta,
            z,
            y: y_axis,
            x: x_axis,
            image_row: rows_k[0] as i64,
            image_k: rows_k[1] as i64,
            matrix_k: matrix_kc[0] as i64,
            result_row: result_rc[0] as i64,
            matrix_column: matrix_kc[1] as i64,
            result_column: result_rc[1] as i64,
            image_group: groups[0] as i64,
            matrix_group: groups[1] as i64,
            result_group: groups[2] as i64,
            groups: counted(of.groups),
            row_outers: counted(outers[0]),
            k_outers: counted(outers[1]),
            rows_by_outer: 0,
            k_by_outer: 0,
            rows: (outers[0] as u64 * product(0)) as u32,
            columns: columns as u32,
            depth: (outers[1] as u64 * product(1)) as u32,
            splits: 1,
            k_per_split: 0,
            store: Store::ElementsOfRows as u32,
            activation: epilogue.activation.number(),
            order: TileOrder::default(),
        };
        // Lanes of rows shall have neighbours in memory.
        let is_weights = of.operation == Operation::Weights;
        arguments.rows_by_outer = u32::from(is_weights && arguments.image_row == 1);
        arguments.matrix += flipped_bytes(of);
        arguments
    }

    /// The axes from the fastest on.
    fn axes(&self) -> [&AxisArguments; 3] {
        [&self.x, &self.y, &self.z]
    }

    fn phases(&self) -> u64 {
        let phases = self.axes().map(|axis| u64::from(axis.phases.value));
        phases.into_iter().product()
    }

    /// Groups of all phases: the grid's third dimension.
    pub(super) fn matrices(&self) -> u64 {
        self.phases() * u64::from(self.groups.value)
    }

    /// The directions of k, or of rows, of a tensor, by their order.
    fn directions(
        &self,
        outer: Direction,
        by_outer: bool,
        of_axis: impl Fn(&AxisArguments) -> Direction,
    ) -> [Direction; 4] {
        let [x, y, z] = self.axes().map(of_axis);
        match by_outer {
            true => [outer, x, y, z],
            false => [x, y, z, outer],
        }
    }

    /// Chooses the order of k, for vectors of so many elements, and how operands are read.
    pub(super) fn choose_gather(&mut self, vector: u64) -> Gather {
        let outers = self.k_outers.value.into();
        let of_image = |arguments: &Self| {
            let directions = [Direction(outers, arguments.image_k)];
            let axes = arguments.axes().into_iter().filter(|axis| axis.size != 1);
            let mut others: Vec<i64> = axes.map(|axis| axis.image).collect();
            others.extend([arguments.image_row, arguments.image_group]);
            // A whole vector is at one tap.
            outers % vector == 0
                && is_aligned(arguments.image)
                && are_together(&directions, &others, vector)
        };
        let of_matrix = |arguments: &Self, by_outer| {
            let outer = Direction(outers, arguments.matrix_k);
            let directions = arguments.directions(outer, by_outer, |axis| {
                Direction::varying(axis.taps, axis.matrix, axis.tap_phases)
            });
            let steps = arguments.axes().map(|axis| match axis.tap_phases.value {
                1 => 0,
                _ => axis.tap,
            });
            let others = [arguments.matrix_column, arguments.matrix_group];
            let others = [&steps[..], &others].concat();
            is_aligned(arguments.matrix) && are_together(&directions, &others, vector)
        };
        let has_image = of_image(self);
        if !has_image && self.is_along_k() {
            self.k_by_outer = false.into();
            return Gather::AlongK;
        }
        // Else the order in which the matrix has vectors, or in which the image's channels are neighbours.
        let by_outer =
            has_image || (of_matrix(self, true) && (self.image_k == 1 || !of_matrix(self, false)));
        self.k_by_outer = by_outer.into();
        match (of_matrix(self, by_outer), has_image) {
            (false, _) => Gather::Elements,
            (true, true) => Gather::Vectors,
            _ if self.most_taps() <= MOST_MASKED_TAPS => Gather::Masked,
            _ => Gather::Compared,
        }
    }

    /// Whether neighbours of the image are along k more than along rows, as places are of a gradient of weights.
    fn is_along_k(&self) -> bool {
        let x = &self.x;
        let along_k = x.image == 1 && x.taps.value > x.rows.value;
        along_k && x.k_step.abs() <= 2 && self.most_taps() > MOST_MASKED_TAPS
    }

    /// Taps of the largest phase.
    fn most_taps(&self) -> u64 {
        self.axes().map(|axis| axis.most()[1]).iter().product()
    }

    /// Whether neighbours of the result are columns, or groups.
    fn has_channels_last(&self) -> bool {
        let columns = self.columns > 1 && self.result_column == 1;
        columns || (self.columns == 1 && self.groups.value > 1 && self.result_group == 1)
    }

    /// Chooses how results are written, in vectors of so many elements if they lie together.
    pub(super) fn choose_store(&mut self, vector: u64) {
        let outer = Direction(self.row_outers.value.into(), self.result_row);
        let directions = self.directions(outer, self.rows_by_outer != 0, |axis| {
            Direction::varying(axis.rows, axis.result, axis.phases)
        });
        let places = self.axes().map(|axis| match axis.phases.value {
            1 => 0,
            _ => axis.place,
        });
        let is_aligned = [self.result, self.addend, self.residual]
            .into_iter()
            .all(is_aligned);
        let of = |others: &[i64]| [&places[..], others].concat();
        let of_rows = of(&[self.result_column, self.result_group]);
        let has_rows = is_aligned && are_together(&directions, &of_rows, vector);
        let column = [Direction(self.columns.into(), self.result_column)];
        let mut of_columns = of(&[self.result_row, self.result_group]);
        of_columns.extend(self.axes().map(|axis| axis.result));
        let has_columns = is_aligned && are_together(&column, &of_columns, vector);
        let store = match (has_rows, has_columns) {
            (true, _) => Store::VectorsOfRows,
            (_, true) => Store::VectorsOfColumns,
            _ if self.has_channels_last() => Store::ElementsOfColumns,
            _ => Store::ElementsOfRows,
        };
        self.store = store as u32;
    }
}
