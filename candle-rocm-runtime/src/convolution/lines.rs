//! Which gradients of weights the kernels take that read both operands along lines (kernels/convolution/lines.cuh), and what these
//! are told beside what all are.

use candle_rocm_kernels::convolution::{LinesShape, Store, LINE_CHUNK};

use super::arguments::{counted, ConvolutionArguments};

/// Whether a kernel takes a gradient of weights.
pub(super) fn takes(of: &ConvolutionArguments, kernel: &LinesShape) -> bool {
    let (z, y, x) = (&of.z, &of.y, &of.x);
    let outputs = x.taps.value;
    // Three taps around each place, or the one that is at it.
    let are_taps = x.rows.value == kernel.taps
        && match kernel.taps {
            1 => x.first == 0 && x.size as u32 >= outputs,
            _ => x.first == -1 && x.row_step == 1 && x.size as u32 == outputs,
        };
    let are_lines = [x.image, x.matrix, x.k_step.into()] == [1; 3] && of.rows_by_outer == 0;
    let distances = [
        outputs.into(),
        z.image,
        y.image,
        z.matrix,
        y.matrix,
        of.image_row,
        of.image_k,
        of.image_group,
        of.matrix_k,
        of.matrix_column,
        of.matrix_group,
    ];
    let unit = i64::from(kernel.unit);
    let are_units = distances.iter().all(|distance| distance % unit == 0)
        && [of.image, of.matrix]
            .iter()
            .all(|address| address.is_multiple_of(16));
    are_taps
        && are_lines
        && are_units
        && has_rows_together(of)
        && depth(of).is_some_and(|depth| depth < 1 << 31)
}

/// Whether neighbours of the result are rows.
fn has_rows_together(of: &ConvolutionArguments) -> bool {
    let mut stored = *of;
    stored.choose_store(LINE_CHUNK.into());
    [Store::ElementsOfRows, Store::VectorsOfRows]
        .map(|store| store as u32)
        .contains(&stored.store)
}

/// Places of k in whole chunks of each line.
pub(super) fn depth(of: &ConvolutionArguments) -> Option<u32> {
    let of_line = of.x.taps.value.checked_next_multiple_of(LINE_CHUNK)?;
    let lines = [of.y.taps, of.z.taps, of.k_outers];
    lines
        .iter()
        .try_fold(of_line, |all, count| all.checked_mul(count.value))
}

/// Tells them: a line's chunks are counted in place of its places, which those of fewer taps are still.
pub(super) fn tell(of: &mut ConvolutionArguments) {
    of.depth = depth(of).unwrap_or_default();
    of.x.taps = counted(of.x.taps.value.div_ceil(LINE_CHUNK) as usize);
}
