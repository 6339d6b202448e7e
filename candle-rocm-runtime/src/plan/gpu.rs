//! What plans know of a GPU: what AMD publishes (`rocm-gpus` has it), and the order of tiles that its caches ask for.

use candle_rocm_kernels::nvidia::Multiprocessor;
use candle_rocm_kernels::order::TileOrder;
use candle_rocm_kernels::Processor;
use rocm_gpus::{costs, CodeTarget, Rates};

use crate::device::info::DeviceInfo;

/// The GPU that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its entry in the tables of GPUs.
    pub processor: Processor,
    /// Compute units, as HIP counts them (workgroup processors on RDNA).
    pub compute_units: u32,
}

impl From<&DeviceInfo> for Gpu {
    fn from(info: &DeviceInfo) -> Self {
        Self {
            processor: info.processor,
            compute_units: info.compute_units,
        }
    }
}

/// A compute unit of an architecture (a workgroup processor of RDNA).
pub(crate) struct ComputeUnit {
    /// Of the matrix units, or dot products where there are none.
    pub(crate) matrix: Rates,
    /// Of the vector units, on operands widened to the type of the sums.
    pub(crate) vector: Rates,
    /// 32-bit registers of all its lanes.
    pub(crate) registers: u64,
    /// Work-items that it holds at most.
    pub(crate) threads: u64,
    /// Work-items of a wavefront.
    pub(crate) wavefront: u64,
    /// Bytes of LDS.
    pub(crate) lds: u64,
    /// Of what lanes read of LDS, how much counts at [`costs::LDS_RATE`].
    pub(crate) shown_lds_reads: f64,
    /// Compute units that share a second-level cache, where a GPU has several of those.
    units_of_xcd: Option<u32>,
}

impl From<rocm_gpus::Gpu> for ComputeUnit {
    fn from(gpu: rocm_gpus::Gpu) -> Self {
        let unit = gpu.unit();
        Self {
            matrix: unit.matrix,
            vector: unit.vector,
            registers: (unit.simds * gpu.facts().vgprs * unit.wavefront).into(),
            threads: unit.threads().into(),
            wavefront: unit.wavefront.into(),
            lds: unit.lds_bytes.into(),
            shown_lds_reads: match unit.compute_units {
                1 => costs::LDS_READS_SHARED.value,
                _ => costs::LDS_READS_OF_PAIR.value,
            },
            units_of_xcd: gpu.multiprocessors_of_xcd(),
        }
    }
}

impl ComputeUnit {
    /// One compute unit of a workgroup processor.
    pub(crate) fn half(self) -> Self {
        let half = |rates: Rates| Rates {
            f16: rates.f16 / 2,
            bf16: rates.bf16 / 2,
            i8: rates.i8 / 2,
            f32: rates.f32 / 2,
            f64: rates.f64 / 2,
        };
        Self {
            matrix: half(self.matrix),
            vector: half(self.vector),
            registers: self.registers / 2,
            threads: self.threads / 2,
            lds: self.lds / 2,
            shown_lds_reads: 2.0 * self.shown_lds_reads,
            ..self
        }
    }
}

/// Any that the table of GPUs lacks, and what NVIDIA's multiprocessors have in common.
const OTHER: ComputeUnit = ComputeUnit {
    matrix: Rates {
        f16: 128,
        bf16: 128,
        i8: 128,
        f32: 128,
        f64: 64,
    },
    vector: Rates {
        f16: 128,
        bf16: 128,
        i8: 128,
        f32: 128,
        f64: 64,
    },
    registers: 64 << 10,
    threads: 2048,
    wavefront: 32,
    lds: 128 << 10,
    shown_lds_reads: costs::LDS_READS_SHARED.value,
    units_of_xcd: None,
};

impl From<Multiprocessor> for ComputeUnit {
    fn from(unit: Multiprocessor) -> Self {
        Self {
            matrix: unit.matrix,
            lds: u64::from(unit.lds_bytes_of_workgroup) + RESERVED_LDS,
            ..OTHER
        }
    }
}

/// Bytes of LDS that NVIDIA's GPUs take of each workgroup's for themselves.
pub(crate) const RESERVED_LDS: u64 = 1024;

impl Gpu {
    pub(crate) fn unit(&self) -> ComputeUnit {
        match self.processor {
            Processor::Amd(CodeTarget::Gpu(gpu)) => gpu.into(),
            Processor::Nvidia(Some(unit)) => unit.into(),
            Processor::Amd(CodeTarget::Generic(_))
            | Processor::Nvidia(None)
            | Processor::Unknown => OTHER,
        }
    }

    pub(crate) fn units(&self) -> u64 {
        self.compute_units.max(1).into()
    }

    /// Second-level caches, over which workgroups are dealt out in turn.
    pub(crate) fn xcds(&self) -> u32 {
        match self.unit().units_of_xcd {
            None => 1,
            // Several XCDs have a few units switched off.
            Some(units) => (self.compute_units + units / 2).div_euclid(units).max(1),
        }
    }

    /// The order of tiles of so many rows and columns, of which C has so many, less than 2^31 in all, if `concurrent` workgroups
    /// run at once.
    pub fn order(&self, tile: [u32; 2], tiles: [u64; 2], concurrent: u64) -> TileOrder {
        let (group, xcds) = self.grouped(tile, tiles, concurrent);
        TileOrder::new(tiles.map(|tiles| tiles as u32), group, xcds)
    }

    /// What that is made of: how many tiles of rows are gone through together, and over how many second-level caches they are
    /// dealt out.
    pub(crate) fn grouped(
        &self,
        tile: [u32; 2],
        [tiles_m, tiles_n]: [u64; 2],
        concurrent: u64,
    ) -> (u32, u32) {
        // Workgroups that share a cache read the fewest operands if what they cover is square.
        let xcds = self.xcds();
        let sharing = (concurrent / u64::from(xcds)).max(1) as f64;
        let square = (sharing * f64::from(tile[1]) / f64::from(tile[0])).sqrt();
        let group = (square.round() as u64).clamp(1, tiles_m.max(1));
        let xcds = match tiles_m.saturating_mul(tiles_n) {
            // Each would get one or two, wherever they lie.
            tiles if tiles < 2 * u64::from(xcds) => 1,
            _ => xcds,
        };
        (group as u32, xcds)
    }
}
