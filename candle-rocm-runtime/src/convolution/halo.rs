//! Which convolutions the kernels of 3 x 3 taps take that read each pixel once for a line of taps (kernels/convolution/halo.cuh).

use candle_rocm_kernels::convolution::{halo_places, HaloWeights, HALO_CHANNELS, HALO_TAPS};

use super::arguments::{AxisArguments, ConvolutionArguments};

/// How far taps are from the place under them.
fn reach(axis: &AxisArguments) -> u64 {
    // A gradient of the data begins before its first turn.
    let first = i64::from(axis.first) - i64::from(axis.shift / axis.phases.value.max(1));
    let last = first + i64::from(HALO_TAPS - 1) * i64::from(axis.k_step);
    first.unsigned_abs().max(last.unsigned_abs())
}

/// Whether they take it with tiles of so many rows and `unit` neighbours at once, whatever its weights.
pub(super) fn takes(of: &ConvolutionArguments, rows: u32, unit: u32) -> bool {
    let (z, y, x) = (&of.z, &of.y, &of.x);
    let are_taps = [z.taps.value, y.taps.value, x.taps.value] == [1, HALO_TAPS, HALO_TAPS];
    let is_one_phase = [x, y, z].iter().all(|axis| axis.phases.value == 1);
    let is_along_x = x.row_step == 1 && x.image == 1 && x.rows.value == x.size as u32;
    let distances = [
        x.size.into(),
        z.image,
        y.image,
        of.image_k,
        of.image_row,
        of.image_group,
    ];
    let are_units = distances
        .iter()
        .all(|distance| distance % i64::from(unit) == 0)
        && of.image.is_multiple_of(16);
    let channels = of.k_outers.value;
    are_taps
        && is_one_phase
        && is_along_x
        && are_units
        && of.rows_by_outer == 0
        && channels > 0
        && channels.is_multiple_of(HALO_CHANNELS)
        && fits(of, rows.into(), unit.into())
}

/// Whether what a tile of so many rows meets fits their LDS: its lines with their neighbours, or what each line of taps meets.
fn fits(of: &ConvolutionArguments, rows: u64, unit: u64) -> bool {
    let (y, x) = (&of.y, &of.x);
    let most = u64::from(halo_places(rows as u32));
    let (beside, above) = (reach(x).next_multiple_of(unit), reach(y));
    let (line, lines) = (u64::from(x.rows.value), u64::from(y.rows.value));
    let crossed = |length: u64| (rows + length - 2) / length;
    let (width, height) = (line + beside, lines + above);
    let apart = rows + (crossed(line) + 2) * beside + 2;
    let whole = apart + (crossed(line * lines) + 2) * above * width;
    let is_whole = y.row_step == 1 && y.size as u32 == y.rows.value && whole <= most;
    let planes = u64::from(of.row_outers.value) * u64::from(of.z.rows.value);
    let all = planes.saturating_mul(height).saturating_mul(width);
    all < 1 << 30 && (is_whole || apart <= most / u64::from(HALO_TAPS))
}

/// How its weights lie as they are, if the kernels take them so.
pub(super) fn weights(of: &ConvolutionArguments) -> Option<HaloWeights> {
    let (y, x) = (&of.y, &of.x);
    let is_whole = |distance: &i64| distance % 8 == 0;
    let are_vectors =
        of.matrix.is_multiple_of(16) && [of.matrix_column, of.matrix_group].iter().all(is_whole);
    let taps = i64::from(HALO_TAPS);
    let steps = [of.matrix_k, y.matrix, x.matrix];
    if are_vectors && steps == [taps * taps, taps, 1] {
        return Some(HaloWeights::Taps);
    }
    let are_together =
        of.matrix_k == 1 && steps[1..].iter().all(|step| *step > 0 && is_whole(step));
    (are_vectors && are_together).then_some(HaloWeights::Channels)
}
