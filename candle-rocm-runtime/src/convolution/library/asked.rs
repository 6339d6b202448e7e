//! A convolution as MIOpen is told of it, if it can be.

use std::ffi::c_int;

use candle_rocm_kernels::matmul::Dtype;

use crate::convolution::description::{Activation, Axis, Convolution, Epilogue, Strides};

/// `miopenHalf`, `miopenFloat` and `miopenBFloat16`; nothing of f64, for which it has no convolutions.
fn data_type(dtype: Dtype) -> Option<c_int> {
    match dtype {
        Dtype::F16 => Some(0),
        Dtype::F32 => Some(1),
        Dtype::BF16 => Some(5),
        Dtype::F64 | Dtype::I8 => None,
    }
}

/// Sizes and strides of a tensor.
#[derive(Debug, PartialEq)]
pub(super) struct Tensor {
    pub sizes: Vec<c_int>,
    pub strides: Vec<c_int>,
}

/// A convolution in MIOpen's terms.
#[derive(Debug, PartialEq)]
pub(super) struct Asked {
    pub dtype: c_int,
    /// Inputs, weights, outputs.
    pub tensors: [Tensor; 3],
    pub padding: Vec<c_int>,
    pub strides: Vec<c_int>,
    pub dilation: Vec<c_int>,
    pub groups: c_int,
    pub is_channels_last: bool,
}

/// Whether nothing follows the sums.
pub(super) fn is_plain(epilogue: &Epilogue) -> bool {
    epilogue.alpha == 1.0
        && epilogue.beta == 0.0
        && epilogue.bias.is_none()
        && epilogue.residual.is_none()
        && epilogue.activation == Activation::None
}

/// Whether a tensor's places lie so. Of what there is one of, no stride counts.
fn lies_as(
    strides: &Strides,
    packed: &Strides,
    [batch, channels]: [usize; 2],
    axes: [usize; 3],
) -> bool {
    let is_same = |count: usize, one: usize, other: usize| count <= 1 || one == other;
    is_same(batch, strides.batch, packed.batch)
        && is_same(channels, strides.channel, packed.channel)
        && (0..3).all(|i| is_same(axes[i], strides.axes[i], packed.axes[i]))
}

impl Asked {
    /// In its terms, if it takes such tensors: none empty, packed, all with channels first or all with channels last;
    /// as much padding behind the inputs as before them; taps in their order; a type that it has.
    pub fn of(of: &Convolution) -> Option<Self> {
        let is_symmetric = |axis: &Axis| {
            let padding = [axis.padding; 2];
            let whole = Axis::new(axis.input, axis.kernel, axis.stride, axis.dilation, padding);
            !axis.is_flipped && whole.output == axis.output
        };
        if !of.axes.iter().all(is_symmetric) {
            return None;
        }
        let of_group = of.in_channels / of.groups.max(1);
        let tensors = [
            (
                &of.inputs,
                [of.batch, of.in_channels],
                of.axes.map(|axis| axis.input),
            ),
            (
                &of.weights,
                [of.out_channels, of_group],
                of.axes.map(|axis| axis.kernel),
            ),
            (
                &of.outputs,
                [of.batch, of.out_channels],
                of.axes.map(|axis| axis.output),
            ),
        ];
        let orders: [fn(usize, [usize; 3]) -> Strides; 2] =
            [Strides::channels_first, Strides::channels_last];
        let order = orders.iter().position(|order| {
            tensors.iter().all(|(strides, outer, axes)| {
                lies_as(strides, &order(outer[1], *axes), *outer, *axes)
            })
        })?;
        let is_empty = |(_, outer, axes): &(_, [usize; 2], [usize; 3])| {
            outer.contains(&0) || axes.contains(&0)
        };
        if tensors.iter().any(is_empty) {
            return None;
        }
        // It has convolutions of two and three axes.
        let first = match of.axes[0] == Axis::NONE {
            true => 1,
            false => 0,
        };
        let tensor = |outer: [usize; 2], axes: [usize; 3]| -> Option<Tensor> {
            let packed = orders[order](outer[1], axes);
            let all = |outer: [usize; 2], axes: [usize; 3]| -> Option<Vec<c_int>> {
                let numbers = outer.into_iter().chain(axes[first..].iter().copied());
                numbers.map(|number| c_int::try_from(number).ok()).collect()
            };
            Some(Tensor {
                sizes: all(outer, axes)?,
                strides: all([packed.batch, packed.channel], packed.axes)?,
            })
        };
        let [inputs, weights, outputs] = tensors.map(|(_, outer, axes)| tensor(outer, axes));
        let of_axes = |f: fn(&Axis) -> usize| -> Option<Vec<c_int>> {
            let numbers = of.axes[first..].iter().map(f);
            numbers.map(|number| c_int::try_from(number).ok()).collect()
        };
        Some(Self {
            dtype: data_type(of.dtype)?,
            tensors: [inputs?, weights?, outputs?],
            padding: of_axes(|axis| axis.padding)?,
            strides: of_axes(|axis| axis.stride)?,
            dilation: of_axes(|axis| axis.dilation)?,
            groups: c_int::try_from(of.groups).ok()?,
            is_channels_last: order == 1,
        })
    }

    /// All but the sizes, in words, for those who keep timings.
    pub fn kind(&self, of: &Convolution) -> String {
        let kernel: Vec<usize> = of.axes.iter().map(|axis| axis.kernel).collect();
        format!(
            "{:?} convolution {} kernel {kernel:?} stride {:?} dilation {:?} padding {:?} groups {} channels {}",
            of.operation,
            of.dtype.name(),
            self.strides,
            self.dilation,
            self.padding,
            self.groups,
            if self.is_channels_last { "last" } else { "first" },
        )
    }

    /// Rows, columns and depth of the convolution as a product, and 1.
    pub fn sizes(of: &Convolution) -> [usize; 4] {
        let product = |f: fn(&Axis) -> usize| of.axes.iter().map(f).product::<usize>();
        [
            of.batch * product(|axis| axis.output),
            of.out_channels,
            of.in_channels / of.groups.max(1) * product(|axis| axis.kernel),
            1,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convolution(axes: [Axis; 3]) -> Convolution {
        Convolution::contiguous(Dtype::F16, 2, [6, 4], 2, axes)
    }

    #[test]
    fn one_axis_is_two_and_three_are_three() {
        let x = Axis::new(10, 3, 2, 1, [1; 2]);
        let one = Asked::of(&convolution([Axis::NONE, Axis::NONE, x])).unwrap();
        let [inputs, weights, outputs] = &one.tensors;
        assert_eq!(inputs.sizes, [2, 6, 1, 10]);
        assert_eq!(inputs.strides, [60, 10, 10, 1]);
        assert_eq!(weights.sizes, [4, 3, 1, 3]);
        assert_eq!(outputs.sizes, [2, 4, 1, 5]);
        assert_eq!((one.padding, one.strides), (vec![0, 1], vec![1, 2]));
        let three = Asked::of(&convolution([x; 3])).unwrap();
        assert_eq!(three.tensors[0].sizes, [2, 6, 10, 10, 10]);
        assert_eq!((three.dilation, three.groups), (vec![1; 3], 2));
    }

    #[test]
    fn what_it_cannot_be_told_is_not_asked() {
        let axis = Axis::new(10, 3, 1, 1, [1; 2]);
        let plain = convolution([Axis::NONE, axis, axis]);
        assert!(Asked::of(&plain).is_some_and(|asked| !asked.is_channels_last));
        let wide = Convolution {
            dtype: Dtype::F64,
            ..plain
        };
        let lopsided = convolution([Axis::NONE, axis, Axis::new(10, 3, 1, 1, [1, 2])]);
        let flipped = convolution([
            Axis::NONE,
            axis,
            Axis {
                is_flipped: true,
                ..axis
            },
        ]);
        let mut gaps = plain;
        gaps.inputs.batch += 1;
        for of in [wide, lopsided, flipped, gaps] {
            assert_eq!(Asked::of(&of), None, "{of}");
        }
    }

    #[test]
    fn channels_may_be_last_in_all_tensors() {
        let axis = Axis::new(10, 3, 1, 1, [1; 2]);
        let mut of = convolution([Axis::NONE, axis, axis]);
        of.inputs = Strides::channels_last(6, [1, 10, 10]);
        of.weights = Strides::channels_last(3, [1, 3, 3]);
        assert_eq!(Asked::of(&of), None);
        of.outputs = Strides::channels_last(4, [1, 10, 10]);
        let asked = Asked::of(&of).unwrap();
        assert!(asked.is_channels_last);
        assert_eq!(asked.tensors[0].strides, [600, 1, 60, 6]);
    }
}
