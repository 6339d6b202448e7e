//! Weights with their output channels together, which a gradient of the data reads in vectors: in memory of its own.

use candle_rocm_kernels::convolution::{transpose_name, TRANSPOSE_THREADS, TRANSPOSE_TILE};
use candle_rocm_kernels::CONVOLUTION;

use super::arguments::ConvolutionArguments;
use super::description::{Convolution, Operation, Strides};
use crate::base::error::Result;
use crate::kernels::ready::{addresses_of, ReadyLaunch};
use crate::kernels::submit::LaunchConfig;
use crate::stream::queue::Stream;

/// A launch that transposes the weights of each group, output channels by all else.
#[derive(Debug)]
pub(super) struct Transpose {
    launch: ReadyLaunch,
    rows: u32,
    columns: u32,
    pitch: i64,
    /// Bytes of the result.
    pub bytes: u64,
}

impl Transpose {
    /// Whether it is a gradient of the data whose weights lie as Candle has them, with whole vectors of output channels.
    pub fn is_possible(of: &Convolution, vector: u64) -> bool {
        let [inputs, outputs] = of.of_group();
        let taps = of.axes.map(|axis| axis.kernel);
        let is_flipped = of.axes.iter().any(|axis| axis.is_flipped);
        let packed = Strides::channels_first(inputs, taps);
        let are_packed = (0..3).all(|i| taps[i] == 1 || of.weights.axes[i] == packed.axes[i])
            && (inputs == 1 || of.weights.channel == packed.channel);
        let are_whole = (outputs as u64).is_multiple_of(vector);
        let is_launched = (outputs as u32)
            .div_ceil(TRANSPOSE_TILE)
            .max(of.groups as u32)
            <= 65_535;
        of.operation == Operation::Data && !is_flipped && are_packed && are_whole && is_launched
    }

    /// Of a gradient of the data by tiles, if it is possible.
    pub fn of(stream: &Stream, of: &Convolution, vector: u64) -> Result<Option<Self>> {
        if !Self::is_possible(of, vector) {
            return Ok(None);
        }
        let [inputs, outputs] = of.of_group();
        let packed = Strides::channels_first(inputs, of.axes.map(|axis| axis.kernel));
        let (rows, columns) = (outputs as u32, packed.batch as u32);
        let tiles = |count: u32| count.div_ceil(TRANSPOSE_TILE);
        let config = LaunchConfig {
            grid_dim: (tiles(columns), tiles(rows), of.groups as u32),
            block_dim: (TRANSPOSE_THREADS.0, TRANSPOSE_THREADS.1, 1),
            shared_mem_bytes: 0,
        };
        let name = transpose_name(of.dtype);
        let elements = of.groups as u64 * u64::from(rows) * u64::from(columns);
        Ok(Some(Self {
            launch: ReadyLaunch::of(stream.context(), &CONVOLUTION, &name, config)?,
            rows,
            columns,
            pitch: of.weights.batch as i64,
            bytes: elements * u64::from(of.dtype.bytes()),
        }))
    }

    /// The convolution with its weights so.
    pub fn turned(of: &Convolution) -> Convolution {
        let [inputs, outputs] = of.of_group();
        let packed = Strides::channels_first(inputs, of.axes.map(|axis| axis.kernel));
        Convolution {
            weights: Strides {
                batch: 1,
                channel: packed.channel * outputs,
                axes: packed.axes.map(|stride| stride * outputs),
            },
            ..*of
        }
    }

    /// Sets where the groups' weights are.
    pub fn set_groups(&self, arguments: &mut ConvolutionArguments) {
        arguments.matrix_group = i64::from(self.rows) * i64::from(self.columns);
    }

    /// # Safety
    /// The addresses are those of the weights, and of as many bytes as this says.
    pub unsafe fn launch(&self, stream: &Stream, from: u64, to: u64) -> Result<()> {
        let mut arguments = addresses_of![from, to, self.rows, self.columns, self.pitch];
        // SAFETY: the kernel's parameters in order; the rest is the caller's promise.
        unsafe { self.launch.launch(stream, &mut arguments) }
    }
}
