//! Candle's launches of transposed convolutions, which are gradients of the data.

use std::ffi::c_void;

use candle_rocm_kernels::convolution::Transposed;

use super::description::{Axis, Convolution, Epilogue, Operands, Operation, Strides};
use super::launch::convolve;
use super::plan::MOST_MATRICES;
use crate::base::error::Result;
use crate::stream::queue::Stream;

/// A launch of Candle's: what its kernel's arguments say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Launch {
    /// Along each axis.
    outputs: [usize; 2],
    stride: usize,
    padding: usize,
    dilation: usize,
    operands: Operands,
}

impl Launch {
    /// # Safety
    /// The arguments are Candle's, in number, order and type, each of which points to a live value.
    unsafe fn read(of: &Transposed, given: &[*mut c_void]) -> Self {
        // SAFETY: all arguments are numbers or addresses of eight bytes.
        let word = |at: usize| unsafe { given[at].cast::<u64>().read() };
        let size = |at: usize| word(at) as usize;
        // The number of elements, then width and height of the outputs, or their length alone; the output padding is in these.
        let after = of.axes + 1;
        let outputs = match of.axes {
            1 => [1, size(1)],
            _ => [size(2), size(1)],
        };
        Self {
            outputs,
            stride: size(after),
            padding: size(after + 1),
            dilation: size(after + 3),
            operands: Operands {
                outputs: word(after + 5),
                weights: word(after + 6),
                inputs: word(after + 7),
            },
        }
    }

    /// As a gradient of the data, by the words that describe its tensors: dimensions and strides of what it takes and of the
    /// weights, each a batch, channels and axes. `None` if they describe something else.
    fn convolution(&self, of: &Transposed, words: &[usize]) -> Option<Convolution> {
        let rank = of.axes + 2;
        if words.len() != 4 * rank {
            return None;
        }
        let [dims, strides, weights, weight_strides] =
            [0, 1, 2, 3].map(|i| &words[i * rank..(i + 1) * rank]);
        if dims[1] != weights[0] {
            return None;
        }
        // Axes that are not there come first.
        let at = |numbers: &[usize], axis: usize, absent: usize| {
            let skipped = 3 - of.axes;
            axis.checked_sub(skipped)
                .map_or(absent, |axis| numbers[axis + 2])
        };
        let lying = |strides: &[usize]| Strides {
            batch: strides[0],
            channel: strides[1],
            axes: [0, 1, 2].map(|axis| at(strides, axis, 0)),
        };
        let axes = [0, 1, 2].map(|axis| match axis + of.axes {
            0..3 => Axis::NONE,
            _ => Axis {
                input: self.outputs[axis - 1],
                kernel: at(weights, axis, 1),
                output: at(dims, axis, 1),
                stride: self.stride,
                dilation: self.dilation,
                padding: self.padding,
                is_flipped: false,
            },
        });
        Some(Convolution {
            operation: Operation::Data,
            dtype: of.dtype,
            batch: dims[0],
            groups: 1,
            in_channels: weights[1],
            out_channels: dims[1],
            axes,
            inputs: Strides::channels_first(weights[1], axes.map(|axis| axis.input)),
            weights: lying(weight_strides),
            outputs: lying(strides),
        })
    }
}

/// Launches the kernels of convolutions instead of Candle's; `None` where they do not serve.
///
/// # Safety
/// `given` are the arguments of Candle's kernel, in number, order and type, each of which points to a live value; `words` are the
/// parameters that they name.
#[cold]
pub(crate) unsafe fn replace(
    of: &Transposed,
    stream: &Stream,
    words: &[usize],
    given: &[*mut c_void],
) -> Option<Result<()>> {
    // SAFETY: the caller's promise.
    let launch = unsafe { Launch::read(of, given) };
    let convolution = launch.convolution(of, words)?;
    convolution.check().ok()?;
    // A launch has a third dimension of so many phases of the strides.
    let phases = (launch.stride as u64).checked_pow(of.axes as u32)?;
    if phases > MOST_MATRICES {
        return None;
    }
    // SAFETY: the caller's promise: the tensors are what the parameters say.
    Some(unsafe { convolve(stream, &convolution, &launch.operands, &Epilogue::default()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_rocm_kernels::matmul::Dtype;

    fn read(of: &Transposed, words: &[u64]) -> Launch {
        let given: Vec<*mut c_void> = words
            .iter()
            .map(|word| std::ptr::from_ref(word).cast_mut().cast())
            .collect();
        // SAFETY: each points to a word.
        unsafe { Launch::read(of, &given) }
    }

    #[test]
    fn arguments_are_candles() {
        let of = Transposed {
            dtype: Dtype::F32,
            axes: 2,
        };
        // Elements, width, height, stride, padding, output padding, dilation, parameters, source, weights, result.
        let launch = read(&of, &[0, 7, 5, 2, 1, 1, 3, 100, 200, 300, 400]);
        assert_eq!(launch.outputs, [5, 7]);
        assert_eq!((launch.stride, launch.padding, launch.dilation), (2, 1, 3));
        let Operands {
            inputs,
            weights,
            outputs,
        } = launch.operands;
        assert_eq!([outputs, weights, inputs], [200, 300, 400]);
        let words = [2, 4, 3, 5, 60, 15, 5, 1, 4, 6, 3, 2, 36, 6, 2, 1];
        let convolution = launch.convolution(&of, &words).unwrap();
        assert_eq!((convolution.in_channels, convolution.out_channels), (6, 4));
        assert_eq!(convolution.axes[0], Axis::NONE);
        let [_, y, x] = convolution.axes;
        assert_eq!((y.input, y.output, y.kernel), (5, 3, 3));
        assert_eq!((x.input, x.output, x.kernel), (7, 5, 2));
        assert_eq!(convolution.weights.axes, [0, 2, 1]);
        assert_eq!(convolution.outputs.batch, 60);
        assert_eq!(launch.convolution(&of, &words[1..]), None);
        let of = Transposed { axes: 1, ..of };
        let launch = read(&of, &[0, 7, 2, 1, 0, 3, 100, 200, 300, 400]);
        assert_eq!((launch.outputs, launch.dilation), ([1, 7], 3));
        let words = [2, 4, 5, 20, 5, 1, 4, 6, 3, 18, 3, 1];
        let convolution = launch.convolution(&of, &words).unwrap();
        assert_eq!(convolution.axes[..2], [Axis::NONE; 2]);
        assert_eq!(convolution.axes[2].kernel, 3);
    }
}
