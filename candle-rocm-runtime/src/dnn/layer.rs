//! Layers that make of each element, or of some elements together, others: what all of them tell their kernels.

use candle_rocm_kernels::matmul::Dtype;
use candle_rocm_kernels::order::Divisor;
use candle_rocm_kernels::DNN;

use super::descriptors::{dtype_of, DnnDataType, Shape};
use super::{invalid, unsupported};
use crate::base::dtype::DeviceRepr;
use crate::base::error::{DnnError, Error};
use crate::kernels::ready::ReadyLaunch;
use crate::kernels::submit::LaunchConfig;
use crate::stream::queue::Stream;

candle_rocm_kernels::kernel_argument! { DNN_DIRECTION,
    /// `DnnDirection` of kernels/dnn/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct DirectionArguments {
        pub count: Divisor,
        pub unused: u32,
        pub x: i64,
        pub y: i64,
    }
}

candle_rocm_kernels::kernel_argument! { DNN_PROBLEM,
    /// `DnnProblem` of kernels/dnn/problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct LayerArguments {
        pub x: u64,
        pub y: u64,
        pub indices: u64,
        pub alpha: f64,
        pub beta: f64,
        pub coefficient: f64,
        pub kept_0: DirectionArguments,
        pub kept_1: DirectionArguments,
        pub kept_2: DirectionArguments,
        pub kept_3: DirectionArguments,
        pub reduced_0: DirectionArguments,
        pub reduced_1: DirectionArguments,
        pub reduced_2: DirectionArguments,
        pub reduced_3: DirectionArguments,
        pub results: u32,
        pub reduced: u32,
        pub mode: u32,
        pub propagates_nan: u32,
        pub log2_lanes: u32,
        pub by_results: u32,
    }
}

// SAFETY: numbers, laid out by C's rules, as the kernel's parameter; the kernel reads no padding.
unsafe impl DeviceRepr for LayerArguments {}

/// Work-items of a workgroup of the kernels.
pub(super) const THREADS: u32 = 256;
/// Elements that kernels count.
const MOST: usize = (1 << 31) - 1;
/// Work-items for a compute unit, from which on more lanes for a result make nothing faster.
const THREADS_PER_UNIT: usize = 2048;
/// Lanes of a result at most where neighbours are results, of which 32 then read together.
const MOST_LANES_OF_COLUMNS: usize = 8;

/// Elements that follow one another: how many, and how far apart in x and in y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Direction {
    pub count: usize,
    pub x: usize,
    pub y: usize,
}

impl Direction {
    pub fn arguments(self) -> DirectionArguments {
        DirectionArguments {
            count: Divisor::new(self.count as u32),
            unused: 0,
            x: self.x as i64,
            y: self.y as i64,
        }
    }
}

/// Directions from the fastest on, those that one stride leads through as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directions(pub Vec<Direction>);

impl Directions {
    /// Of directions from the outermost on.
    pub fn of(from_outermost: &[Direction]) -> Self {
        let mut merged: Vec<Direction> = Vec::new();
        for next in from_outermost.iter().rev().filter(|next| next.count != 1) {
            match merged.last_mut() {
                Some(last) if (next.x, next.y) == (last.x * last.count, last.y * last.count) => {
                    last.count *= next.count;
                }
                _ => merged.push(*next),
            }
        }
        Self(merged)
    }

    /// In the order of memory, where theirs means nothing: neighbours of y, then of x, are the fastest.
    pub fn by_memory(mut directions: Vec<Direction>) -> Self {
        directions.sort_by_key(|direction| std::cmp::Reverse((direction.y, direction.x)));
        Self::of(&directions)
    }

    /// Elements along all of them; `None` beyond 64 bits.
    pub fn elements(&self) -> Option<usize> {
        let counts = self.0.iter().map(|direction| direction.count);
        counts.into_iter().try_fold(1_usize, usize::checked_mul)
    }

    /// Whether both tensors are packed, in the same order.
    pub fn is_packed(&self) -> bool {
        match self.0[..] {
            [] => true,
            [only] => (only.x, only.y) == (1, 1),
            _ => false,
        }
    }

    fn arguments(&self) -> Option<[DirectionArguments; 4]> {
        let one = Direction {
            count: 1,
            x: 0,
            y: 0,
        };
        let at = |i: usize| self.0.get(i).copied().unwrap_or(one).arguments();
        (self.0.len() <= 4).then(|| [0, 1, 2, 3].map(at))
    }
}

/// alpha and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factors {
    pub alpha: f64,
    pub beta: f64,
}

impl Factors {
    pub fn new<Y: DnnDataType>((alpha, beta): (Y, Y)) -> Self {
        Self {
            alpha: alpha.into_scaling_parameter().into(),
            beta: beta.into_scaling_parameter().into(),
        }
    }

    /// Whether the result is as it is computed.
    pub fn are_plain(self) -> bool {
        (self.alpha, self.beta) == (1.0, 0.0)
    }
}

/// The element type of x and y, which must be one.
pub(super) fn one_dtype<X: DnnDataType, Y: DnnDataType>(layer: &str) -> Result<Dtype, DnnError> {
    if X::DATA_TYPE != Y::DATA_TYPE {
        return Err(unsupported(format!(
            "no {layer} takes {:?} to {:?}: both must be the same",
            X::DATA_TYPE,
            Y::DATA_TYPE
        )));
    }
    dtype_of(X::DATA_TYPE, layer)
}

/// The directions of two tensors of one shape, from the outermost on.
pub(super) fn of_one_shape(layer: &str, x: &Shape, y: &Shape) -> Result<Vec<Direction>, DnnError> {
    if x.dims != y.dims {
        return Err(invalid(format!(
            "{layer} of x {:?} to y {:?}: the dimensions must be the same",
            x.dims, y.dims
        )));
    }
    let all = x.dims.iter().zip(&x.strides).zip(&y.strides);
    Ok(all
        .map(|((&count, &x), &y)| Direction { count, x, y })
        .collect())
}

impl LayerArguments {
    /// Of elements that are kept, and of those of each result.
    pub fn new(
        layer: &str,
        kept: &Directions,
        reduced: &Directions,
        factors: Factors,
        units: usize,
    ) -> Result<Self, DnnError> {
        let counted = |directions: &Directions| {
            directions
                .elements()
                .filter(|elements| *elements <= MOST)
                .ok_or_else(|| {
                    unsupported(format!(
                        "{layer} of {directions:?}: kernels count 2^31 - 1 elements at most; split the batch"
                    ))
                })
        };
        let (results, of_each) = (counted(kept)?, counted(reduced)?);
        let (Some(k), Some(r)) = (kept.arguments(), reduced.arguments()) else {
            return Err(unsupported(format!(
                "{layer} of {kept:?} by {reduced:?}: kernels go by four strides of each; make the tensor contiguous"
            )));
        };
        let are_columns = reduced.0.first().is_none_or(|first| first.x != 1)
            && kept.0.first().is_some_and(|first| first.x == 1);
        let wanted = match are_columns {
            true => (units * THREADS_PER_UNIT / results.max(1)).clamp(1, MOST_LANES_OF_COLUMNS),
            false => of_each.clamp(1, THREADS as usize),
        };
        let lanes = wanted.min(of_each.max(1)).next_power_of_two();
        Ok(Self {
            alpha: factors.alpha,
            beta: factors.beta,
            kept_0: k[0],
            kept_1: k[1],
            kept_2: k[2],
            kept_3: k[3],
            reduced_0: r[0],
            reduced_1: r[1],
            reduced_2: r[2],
            reduced_3: r[3],
            results: results as u32,
            reduced: of_each as u32,
            log2_lanes: lanes.ilog2(),
            by_results: are_columns.into(),
            ..Self::default()
        })
    }

    /// Workgroups that make all results at once.
    pub fn workgroups(&self) -> u64 {
        u64::from(self.results).div_ceil(u64::from(THREADS >> self.log2_lanes))
    }
}

/// Launches a kernel of `dnn` that goes on in steps of its grid, if there is something to do.
///
/// # Safety
/// The argument is the kernel's, and names device memory of what it describes.
pub(super) unsafe fn launch(
    stream: &Stream,
    layer: &str,
    dtype: Dtype,
    workgroups: u64,
    arguments: &impl DeviceRepr,
) -> Result<(), DnnError> {
    const PER_UNIT: u64 = 16;
    if workgroups == 0 {
        return Ok(());
    }
    let units = u64::from(stream.context().device().info().compute_units.max(1));
    let config = LaunchConfig {
        grid_dim: (workgroups.min(units * PER_UNIT) as u32, 1, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: 0,
    };
    let name = format!("dnn_{layer}_{}", dtype.name());
    let give = || -> Result<(), Error> {
        let ready = ReadyLaunch::of(stream.context(), &DNN, &name, config)?;
        // SAFETY: the caller's promise.
        unsafe { ready.launch_with(stream, arguments) }
    };
    Ok(give()?)
}

/// Compute units of a stream's GPU.
pub(super) fn units(stream: &Stream) -> usize {
    stream.context().device().info().compute_units.max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(count: usize, x: usize, y: usize) -> Direction {
        Direction { count, x, y }
    }

    #[test]
    fn what_one_stride_leads_through_is_one_direction() {
        let packed = [
            direction(2, 12, 12),
            direction(3, 4, 4),
            direction(1, 9, 7),
            direction(4, 1, 1),
        ];
        assert_eq!(Directions::of(&packed).0, [direction(24, 1, 1)]);
        let channels_last = vec![direction(2, 12, 12), direction(3, 1, 1), direction(4, 3, 3)];
        let merged = Directions::by_memory(channels_last.clone());
        assert!(merged.is_packed());
        assert_eq!(merged.elements(), Some(24));
        assert_eq!(Directions::of(&channels_last).0.len(), 3);
        assert!(!Directions::of(&[direction(4, 1, 2)]).is_packed());
    }

    /// Neighbours among work-items are neighbours in memory.
    #[test]
    fn lanes_are_neighbours() {
        let plain = Factors {
            alpha: 1.0,
            beta: 0.0,
        };
        let of = |kept: &[Direction], reduced: &[Direction]| {
            let (kept, reduced) = (Directions::of(kept), Directions::of(reduced));
            LayerArguments::new("a layer", &kept, &reduced, plain, 4).unwrap()
        };
        let rows = of(&[direction(10, 100, 1)], &[direction(100, 1, 0)]);
        assert_eq!((rows.by_results, rows.log2_lanes), (0, 7));
        assert_eq!(rows.workgroups(), 5);
        let columns = of(&[direction(1 << 20, 1, 1)], &[direction(100, 1 << 20, 0)]);
        assert_eq!((columns.by_results, columns.log2_lanes), (1, 0));
        let few = of(&[direction(64, 1, 1)], &[direction(100, 64, 0)]);
        assert_eq!((few.by_results, few.log2_lanes), (1, 3));
    }
}
