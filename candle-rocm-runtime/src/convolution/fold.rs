//! Convolutions whose taps along x are neighbours of both operands, as those of patches are, with these as channels: so they are
//! read in vectors.

use candle_rocm_kernels::convolution::Gather;

use super::arguments::ConvolutionArguments;
use super::description::{Axis, Convolution, Epilogue, Operands, Operation, Strides};

/// What makes the convolution's result with taps along x in place of channels, if that can be read in vectors and the
/// convolution cannot.
pub(super) fn folded(of: &Convolution, operands: &Operands) -> Option<Convolution> {
    let vector = u64::from(16 / of.dtype.bytes());
    let gather = |of: &Convolution| {
        ConvolutionArguments::new(of, operands, &Epilogue::default()).choose_gather(vector)
    };
    let x = &of.axes[2];
    // No window begins before the image or ends behind it.
    let are_inside = x.padding == 0
        && x.output.saturating_sub(1).saturating_mul(x.stride) + x.kernel <= x.input
        && x.output > 0;
    let is_plain = x.dilation == 1 && !x.is_flipped && x.kernel > 1;
    if of.operation != Operation::Forward || of.groups != 1 || !are_inside || !is_plain {
        return None;
    }
    if gather(of) == Gather::Vectors {
        return None;
    }
    [taps_and_channels(of), taps(of)]
        .into_iter()
        .flatten()
        .find(|folded| gather(folded) == Gather::Vectors)
}

/// An axis of so many places that follow one another, each of which meets one.
fn places(count: usize) -> Axis {
    Axis {
        input: count,
        output: count,
        ..Axis::NONE
    }
}

/// Channels last: those of a line of taps follow one another.
fn taps_and_channels(of: &Convolution) -> Option<Convolution> {
    let channels = of.in_channels;
    let follow =
        |strides: &Strides| (strides.channel == 1 || channels == 1) && strides.axes[2] == channels;
    if !follow(&of.inputs) || !follow(&of.weights) {
        return None;
    }
    let x = of.axes[2];
    let mut folded = *of;
    folded.in_channels = channels.checked_mul(x.kernel)?;
    folded.axes[2] = places(x.output);
    folded.inputs.channel = 1;
    folded.weights.channel = 1;
    folded.inputs.axes[2] = x.stride.checked_mul(channels)?;
    Some(folded)
}

/// Channels first: taps of a line follow one another, and channels are taps of an axis that is not there.
fn taps(of: &Convolution) -> Option<Convolution> {
    let [z, _, x] = of.axes;
    let follow = |strides: &Strides| strides.axes[2] == 1;
    if z != Axis::NONE || !follow(&of.inputs) || !follow(&of.weights) {
        return None;
    }
    let mut folded = *of;
    folded.in_channels = x.kernel;
    folded.axes[0] = Axis {
        input: of.in_channels,
        kernel: of.in_channels,
        ..Axis::NONE
    };
    folded.axes[2] = places(x.output);
    for strides in [&mut folded.inputs, &mut folded.weights] {
        strides.axes[0] = strides.channel;
        strides.channel = 1;
    }
    folded.inputs.axes[2] = x.stride;
    Some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_rocm_kernels::matmul::Dtype;

    const THERE: Operands = Operands {
        inputs: 256,
        weights: 256,
        outputs: 256,
    };

    fn patches(kernel: usize, padding: usize) -> Convolution {
        let axis = Axis::new(64, kernel, kernel, 1, [padding; 2]);
        Convolution::contiguous(Dtype::F16, 2, [3, 24], 1, [Axis::NONE, axis, axis])
    }

    #[test]
    fn patches_are_channels() {
        let of = patches(16, 0);
        let first = folded(&of, &THERE).unwrap();
        assert_eq!((first.in_channels, first.inputs.channel), (16, 1));
        assert_eq!(first.axes.map(|axis| axis.kernel), [3, 16, 1]);
        assert_eq!(first.axes.map(|axis| axis.output), [1, 4, 4]);
        assert_eq!(first.inputs.axes, [64 * 64, 64, 16]);
        assert_eq!(first.weights.axes[..2], [256, 16]);
        let last = Convolution {
            inputs: Strides::channels_last(3, [1, 64, 64]),
            weights: Strides::channels_last(3, [1, 16, 16]),
            ..of
        };
        let last = folded(&last, &THERE).unwrap();
        assert_eq!((last.in_channels, last.inputs.axes[2]), (48, 48));
        assert_eq!(last.axes.map(|axis| axis.kernel), [1, 16, 1]);
    }

    /// Padding, lines of less than vectors, channels that are read in vectors already, and addresses between vectors.
    #[test]
    fn others_are_not() {
        assert_eq!(folded(&patches(16, 8), &THERE), None);
        assert_eq!(folded(&patches(4, 0), &THERE), None);
        let axis = Axis::new(8, 8, 8, 1, [0; 2]);
        let axes = [Axis::NONE, axis, axis];
        let mut of = Convolution::contiguous(Dtype::F16, 2, [8, 24], 1, axes);
        assert!(folded(&of, &THERE).is_some());
        let between = Operands {
            inputs: 258,
            ..THERE
        };
        assert_eq!(folded(&of, &between), None);
        of.inputs = Strides::channels_last(8, [1, 8, 8]);
        of.weights = Strides::channels_last(8, [1, 8, 8]);
        assert_eq!(folded(&of, &THERE), None);
    }
}
