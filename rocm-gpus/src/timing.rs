//! How long things take, for models of time.

mod kinds;
mod rdna;

use kinds::pace;
pub use kinds::{ArrayCache, LaunchCost, Level, Pace, Timing};

use crate::{Architecture, Gpu};

// Sources, for each field; docs/evidence/clock.md has them as a table.
// vector to double, branch: LLVM's SISchedule.td, models SIDPFullSpeedModel and SIDPGFX940FullSpeedModel, whose numbers
// are quarters of cycles: Write32Bit 1, WriteTrans32 and WriteFloatCvt 4, WriteIntMul and WriteDouble 1, WriteBranch 8.
// matrix_result: AMD's instruction set manuals, "Required software inserted wait states": passes + 3 wait states of 4.
// lds: measured on an MI308X, tingqli/pyhip, docs/mem_latency.md (52 cycles for ds_read_b32, 64 for ds_read_b128, whose
// service takes 4 and 16). lds_bytes_of_pair: the same, and ROCm Compute Profiler's "Pipeline descriptions".
// Latencies of caches and memory: measured, RRZE-HPC/gpu-benches, gpu-latency/mi300x.txt and mi210.txt (medians; memory
// as at 800 MB, which includes misses of the TLB).
// l1_bytes: the same, gpu-cache (38.8 TB/s and 10.6 TB/s: 61 and 60 bytes a cycle and CU), peak as AMD states it.
// l2 bandwidth: channels times 128 bytes a cycle: 16 channels for each of CDNA3's eight (AMD's CDNA 3 white paper), 32
// of CDNA2 (ROCm Compute Profiler, "L2 cache"). l2_store_bytes: 64 bytes a channel (CDNA 3 white paper).
// infinity: read bandwidth measured, gpu-benches, gpu-cache/mi300x.txt, from 25 to 107 MB (6.66 to 7.09 TB/s).
// memory: *read* kernel of gpu-benches, gpu-stream/mi300x.txt and mi210.txt, all threads (4,199 and 1,370 GB/s). Copies
// are not what it was taken from.
// instructions: 64 KB shared by two CUs (CDNA 3 white paper), 32 KB (ROCm Compute Profiler, "Shader engine").
// misses: 25 bytes a cycle and CU from memory however much is asked for, measured on an MI355X (a sweep of bandwidth over
// workgroups, in a public repository whose name is not known here), over CDNA3's latency.
// launch: RRZE-HPC/gpu-benches, gpu-small-kernels (mi210), by the difference of sizes; nobody published CDNA 3's.
// Not looked up, but as generally published: what the white papers say, and the size of CDNA2's instruction cache.

const CDNA2: Timing = Timing {
    vector: 4,
    scalar: 4,
    transcendental: pace(16, 16),
    transcendental_unit: false,
    conversion: pace(16, 16),
    multiply: pace(4, 4),
    double: pace(4, 4),
    wave64_at_once: true,
    bank_reads: None,
    branch: 32,
    matrix_result: 12,
    matrix_unit: true,
    lds: 48,
    lds_bytes_of_pair: 64,
    address_lanes: 16,
    l1_bytes: 64,
    l1_latency: 129,
    array: None,
    l2: Level {
        latency: 250,
        gigabytes_per_second: 6963,
    },
    l2_store_bytes: 32 * 64,
    infinity: None,
    memory: Level {
        latency: 688,
        gigabytes_per_second: 1370,
    },
    instructions: [32 << 10, 64],
    instruction_sharers: 2,
    code_ahead: 0,
    misses: None,
    launch: Some(LaunchCost {
        stream_ns: 2050,
        graph_ns: 2050,
    }),
};

const CDNA3: Timing = Timing {
    l1_latency: 118,
    l2: Level {
        latency: 213,
        gigabytes_per_second: 34406,
    },
    l2_store_bytes: 16 * 64,
    infinity: Some(Level {
        latency: 456,
        gigabytes_per_second: 6900,
    }),
    memory: Level {
        latency: 882,
        gigabytes_per_second: 4199,
    },
    instructions: [64 << 10, 128],
    misses: Some(172),
    launch: None,
    ..CDNA2
};

impl Gpu {
    /// How long things take; `None` where too little of that was published.
    pub fn timing(self) -> Option<&'static Timing> {
        match self.architecture() {
            Architecture::Cdna2 => Some(&CDNA2),
            Architecture::Cdna3 => Some(&CDNA3),
            _ => rdna::of(self),
        }
    }
}

/// What a GPU keeps up under dense products of random numbers, as AMD measured it: power lets it run no faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sustained {
    /// The product, without its brand.
    pub product: &'static str,
    /// What is multiplied: `bf16`, `f16` or `f8e4m3`.
    pub elements: &'static str,
    /// 10^12 operations a second ("max-achievable FLOPs").
    pub teraflops: u32,
    /// The engine clock meanwhile, the median of the slowest XCD.
    pub clock_mhz: u32,
}

/// The highest engine clock of all of them, in MHz.
const HIGHEST_MHZ: f64 = 2100.0;

/// AMD, "Measuring Max-Achievable FLOPs, Part 2" (ROCm blogs, February 2025), table 1: hipBLASLt on warm GPUs of 750 and
/// 1,000 W, tensors in turns that no cache holds. 2,100 MHz: AMD's data sheets.
pub const SUSTAINED: [Sustained; 6] = [
    sustained("MI300X", "f16", 654, 1115),
    sustained("MI300X", "bf16", 708, 1207),
    sustained("MI300X", "f8e4m3", 1273, 1230),
    sustained("MI325X", "f16", 794, 1354),
    sustained("MI325X", "bf16", 843, 1447),
    sustained("MI325X", "f8e4m3", 1519, 1464),
];

const fn sustained(
    product: &'static str,
    elements: &'static str,
    teraflops: u32,
    clock_mhz: u32,
) -> Sustained {
    Sustained {
        product,
        elements,
        teraflops,
        clock_mhz,
    }
}

impl Sustained {
    /// That of a product, with or without its brand, and its elements.
    pub fn of(product: &str, elements: &str) -> Option<&'static Sustained> {
        SUSTAINED
            .iter()
            .find(|one| product.ends_with(one.product) && one.elements == elements)
    }

    /// Microseconds that a kernel takes if it is repeated, which would make so many operations in `at_highest` of them at the
    /// highest engine clock. The clock is taken to fall in proportion to the operations of a cycle, from the highest one at none
    /// to the measured one at what was measured, and everything to slow down with it, memory as well.
    pub fn microseconds(&self, operations: f64, at_highest: f64) -> f64 {
        let clock = f64::from(self.clock_mhz);
        let of_cycle = operations / at_highest / HIGHEST_MHZ;
        let load = of_cycle / (1e6 * f64::from(self.teraflops) / clock);
        at_highest * HIGHEST_MHZ / (HIGHEST_MHZ - (HIGHEST_MHZ - clock) * load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_the_highest_without_operations_and_the_measured_one_with_those_that_were_measured(
    ) {
        for sustained in SUSTAINED {
            let (measured, clock) = (
                f64::from(sustained.teraflops),
                f64::from(sustained.clock_mhz),
            );
            // Of 10 us what the kernel that was measured would make at the highest clock.
            let operations = 10.0 * 1e6 * measured * HIGHEST_MHZ / clock;
            assert_eq!(sustained.microseconds(0.0, 10.0), 10.0);
            let teraflops = operations / sustained.microseconds(operations, 10.0) / 1e6;
            assert!((teraflops - measured).abs() < 1e-9 * measured);
        }
    }
}
