//! Sums and extrema over dimensions.

use crate::device::{Arg, Gpu};
use crate::elements::{assert_close, assert_same, for_all, for_floats, Element};
use crate::on_each_gpu;
use candle_rocm_kernels::REDUCE;
use candle_rocm_testing::random::Random;

/// A strided source with the reduced dimensions last: dimensions, strides, how many are reduced.
struct Case {
    dims: &'static [usize],
    strides: &'static [usize],
    reduced: usize,
}

const CASES: &[Case] = &[
    // Rows: one element, odd, a vector's multiple, more than a workgroup.
    Case {
        dims: &[3, 1],
        strides: &[1, 1],
        reduced: 1,
    },
    Case {
        dims: &[5, 7],
        strides: &[7, 1],
        reduced: 1,
    },
    Case {
        dims: &[2, 64],
        strides: &[64, 1],
        reduced: 1,
    },
    Case {
        dims: &[2, 2500],
        strides: &[2500, 1],
        reduced: 1,
    },
    // Columns, and all of a transposed matrix.
    Case {
        dims: &[7, 40],
        strides: &[1, 7],
        reduced: 1,
    },
    Case {
        dims: &[6, 35],
        strides: &[1, 6],
        reduced: 2,
    },
    // More columns than a workgroup takes at once, with dimensions of one element among them.
    Case {
        dims: &[1, 75, 1, 90],
        strides: &[9, 1, 5, 75],
        reduced: 2,
    },
    Case {
        dims: &[2, 40, 300],
        strides: &[12000, 1, 40],
        reduced: 1,
    },
    // The middle of three dimensions, then the outer two of three, broadcast along one.
    Case {
        dims: &[4, 3, 33],
        strides: &[99, 1, 3],
        reduced: 1,
    },
    Case {
        dims: &[5, 3, 21],
        strides: &[1, 105, 5],
        reduced: 2,
    },
    Case {
        dims: &[2, 1, 3, 20],
        strides: &[20, 0, 0, 1],
        reduced: 3,
    },
];

impl Case {
    fn split(&self) -> (usize, usize) {
        let (outer, inner) = self.dims.split_at(self.dims.len() - self.reduced);
        (outer.iter().product(), inner.iter().product())
    }

    /// The offset of an element of the reduced order.
    fn offset(&self, mut linear: usize) -> usize {
        let mut offset = 0;
        for (dim, stride) in self.dims.iter().zip(self.strides).rev() {
            offset += linear % dim * stride;
            linear /= dim;
        }
        offset
    }

    fn source<T: Element>(&self, numbers: &mut Random) -> Vec<T> {
        let count = (0..self.dims.iter().product())
            .map(|i| self.offset(i))
            .max()
            .unwrap_or(0)
            + 1;
        // Small whole numbers: sums are exact in every type that holds them, and extrema tie.
        (0..count)
            .map(|_| T::of((numbers.signed() * 4.0).round()))
            .collect()
    }

    fn info(&self) -> Vec<usize> {
        [self.dims, self.strides].concat()
    }
}

fn launch<T: Element, R: Element>(gpu: &Gpu, name: &str, case: &Case, source: &[T]) -> Vec<R> {
    let (outputs, reduced) = case.split();
    let small = name == "fast_sum_small";
    let (grid, block) = match small {
        true => (outputs.div_ceil(256), 256),
        false => (outputs, reduced.clamp(1, 1024).next_power_of_two()),
    };
    let numel = if small { outputs } else { outputs * reduced };
    gpu.run(
        &REDUCE,
        &format!("{name}_{}", T::NAME),
        [grid as u32, 1, 1],
        [block as u32, 1, 1],
        &[
            Arg::N(numel),
            Arg::N(reduced),
            Arg::N(case.dims.len()),
            Arg::sizes(&case.info()),
            Arg::input(source),
            Arg::output::<R>(outputs),
        ],
    )
}

fn sums<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(1);
    for case in CASES {
        let source: Vec<T> = case.source(&mut numbers);
        let (outputs, reduced) = case.split();
        let element = |linear: usize| source[case.offset(linear)].number();
        let expected: Vec<f64> = (0..outputs)
            .map(|o| (o * reduced..(o + 1) * reduced).map(element).sum())
            .collect();
        for name in ["fast_sum", "fast_sum_small"] {
            let found: Vec<T> = launch(gpu, name, case, &source);
            if T::EPSILON == 0.0 {
                // Integers wrap.
                let wrapped: Vec<T> = expected.iter().map(|&sum| wrap(sum)).collect();
                assert_same(&found, &wrapped, name);
            } else {
                // f8's largest value is 448; sums beyond saturate, as conversion does.
                let limited: Vec<f64> = expected.iter().map(|&sum| T::of(sum).number()).collect();
                assert_close(&found, &limited, T::EPSILON, 0.0, name);
            }
        }
    }
}

/// An integer sum in the element's own bits.
fn wrap<T: Element>(sum: f64) -> T {
    T::get(&(sum as i64).to_le_bytes()[..T::BYTES])
}

#[test]
fn sums_match() {
    on_each_gpu(|gpu| {
        for_all!(sums, gpu);
    });
}

#[test]
fn sums_of_nothing_are_zero() {
    on_each_gpu(|gpu| {
        let case = Case {
            dims: &[3, 0],
            strides: &[0, 1],
            reduced: 1,
        };
        let found: Vec<f32> = launch(gpu, "fast_sum_small", &case, &[0f32]);
        assert_eq!(found, [0.0; 3]);
    });
}

/// The first element that none beats; comparisons with NaN are false, as in Candle's CPU backend.
fn extremum<T: Element>(row: &[T], beats: fn(&T, &T) -> bool) -> usize {
    let mut best = 0;
    for (at, value) in row.iter().enumerate() {
        if beats(value, &row[best]) {
            best = at;
        }
    }
    best
}

fn check_extrema<T: Element>(gpu: &Gpu, case: &Case, source: &[T]) {
    let (outputs, reduced) = case.split();
    type Beats<T> = fn(&T, &T) -> bool;
    let orders: [(&str, &str, Beats<T>); 2] = [
        ("fast_min", "fast_argmin", |a, b| a < b),
        ("fast_max", "fast_argmax", |a, b| a > b),
    ];
    for (value_kernel, index_kernel, beats) in orders {
        let (mut values, mut indices) = (Vec::new(), Vec::new());
        for output in 0..outputs {
            let row: Vec<T> = (0..reduced)
                .map(|i| source[case.offset(output * reduced + i)])
                .collect();
            let best = extremum(&row, beats);
            values.push(row[best]);
            indices.push(best as u32);
        }
        assert_same(
            &launch::<T, T>(gpu, value_kernel, case, source),
            &values,
            value_kernel,
        );
        assert_same(
            &launch::<T, u32>(gpu, index_kernel, case, source),
            &indices,
            index_kernel,
        );
    }
}

fn extrema<T: Element>(gpu: &Gpu) {
    let mut numbers = Random::new(2);
    for case in CASES {
        let source: Vec<T> = case.source(&mut numbers);
        check_extrema(gpu, case, &source);
    }
}

#[test]
fn extrema_are_the_first_of_equals() {
    on_each_gpu(|gpu| {
        for_all!(extrema, gpu);
    });
}

fn extrema_with_nan<T: Element>(gpu: &Gpu) {
    let case = Case {
        dims: &[4, 70],
        strides: &[70, 1],
        reduced: 1,
    };
    let mut source: Vec<T> = case.source(&mut Random::new(3));
    // First in a row, in the middle, everywhere; and a row of infinities of the losing sign.
    source[0] = T::of(f64::NAN);
    source[70 + 35] = T::of(f64::NAN);
    source[140..210].fill(T::of(f64::NAN));
    source[210..].fill(T::of(f64::NEG_INFINITY));
    check_extrema(gpu, &case, &source);
}

#[test]
fn nan_wins_only_in_first_place() {
    on_each_gpu(|gpu| {
        for_floats!(extrema_with_nan, gpu);
    });
}
