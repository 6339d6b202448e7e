//! Latencies and bandwidths of GPUs of RDNA, one row for each product that was measured.

use super::kinds::{pace, ArrayCache, LaunchCost, Level, Timing};
use crate::Gpu;

// Sources, for each field; docs/evidence/clock.md has them as a table.
// vector, scalar, double, branch, latencies of transcendental, conversion and multiply: LLVM's SISchedule.td, models
// GFX10SpeedModel, GFX11SpeedModel, GFX12SpeedModel (Write32Bit 5, WriteSALU 2, WriteTrans32 10, WriteFloatCvt 5,
// WriteIntMul 8, WriteDouble 22 or 38, WriteBranch 32). For how long they occupy a unit, and that transcendental ones
// have their own: Mesa, src/amd/compiler/aco_statistics.cpp, get_perf_info; of f64, AMD's peaks of RDNA 3 and 4 (a 32nd
// of f32).
// wave64_at_once: the same file, is_dual_issue_capable.
// bank_reads: LLVM 12, GCNRegBankReassign.cpp: a bank gives a register in a cycle, and a conflict costs a cycle unless
// operands were gathered before. On GFX11 the rules of VOPD ("RDNA3" instruction set manual, 7.6) name banks of each
// operand's place, so that a single instruction has no conflicts; GFX12 is taken to be alike.
// matrix_result, matrix_unit: Mesa counts a WMMA's cycles as the vector unit's; LLVM's GFX12SpeedModel has HWXDL apart.
// lds: LLVM and Mesa, 20 cycles: what compilers reckon with. lds_bytes_of_pair, address_lanes, l1_bytes: RDNA white
// paper, 32 banks and 128 bytes a cycle for a compute unit. 6900 XT: 23.3 TB/s at 2,555 MHz (gpu-benches, gpu-cache),
// 114 bytes a cycle.
// l1_latency, array.latency, l2.latency: RRZE-HPC/gpu-benches, gpu-latency/rx6900xt.txt, cycles; other GPUs are taken
// alike.
// array, l2 bandwidth, bytes a cycle: AMD's launch decks: Navi 21 2,048 and 2,048, Navi 31 6,144 and 3,072; the others
// have Navi 31's 512 for an array and 32 for a compute unit. gpu-l2-cache/rx6900xt.txt measured 88 % of that (4.6
// TB/s).
// l2_store_bytes: half of it, as on CDNA; nobody published it.
// infinity: 6900 XT, latency 165.4 ns and 1,950 GB/s (gpu-latency; gpu-l2-cache from 20 to 100 MB). 7900 XTX, 150.3 ns
// (Chips and Cheese, 2023-06-14, vector loads, high power state) and 5.3 TB/s (AMD's launch deck). 8060S and 9070 XT:
// its latency; 1,024 GB/s, as generally published, and Navi 21's 1,987, assumed.
// memory: 6900 XT, gpu-stream's kernel that only reads, 505 GB/s, and gpu-latency's first size beyond the Infinity
// Cache, 410 ns; larger ones take longer, at clocks that fall. 8060S: memtest's reads, 221 GB/s (ROCm/TheRock 5314).
// 7900 XTX and 9070 XT: the same share of the peak as the 6900 XT, 98.6 %, for want of another figure. Latency of those
// three: 245 ns more than their Infinity Cache, as on the 6900 XT.
// instructions: RDNA white paper, 32 KB of a work-group processor; lines, LLVM's AMDGPU.td (64 bytes, from GFX11 on
// 128).
// code_ahead: LLVM, SIISelLowering.cpp, getPrefLoopAlignment: the prefetcher reads two lines ahead.
// launch: 7900 XTX, R9700, 8060S: ROCm/legacy-rocm-build 6409; 6900 XT: gpu-benches, gpu-small-kernels, by the
// difference of sizes. Not looked up, but as generally published: white papers, launch decks, LLVM's lines of code and
// prefetcher.

/// RX 6900 XT.
const GFX1030: Timing = Timing {
    vector: 5,
    scalar: 2,
    transcendental: pace(4, 10),
    transcendental_unit: true,
    conversion: pace(1, 5),
    multiply: pace(4, 8),
    double: pace(16, 22),
    wave64_at_once: false,
    bank_reads: Some(1),
    branch: 32,
    matrix_result: 0,
    matrix_unit: false,
    lds: 20,
    lds_bytes_of_pair: 128,
    address_lanes: 32,
    l1_bytes: 128,
    l1_latency: 73,
    array: Some(ArrayCache {
        kib: 128,
        compute_units: 10,
        latency: 123,
        bytes: 256,
    }),
    l2: level(221, 4608),
    l2_store_bytes: 1024,
    infinity: Some(level(372, 1950)),
    memory: level(922, 505),
    instructions: [32 << 10, 64],
    instruction_sharers: 1,
    code_ahead: 2,
    misses: None,
    launch: launch(3300, 3200),
};

/// RX 7900 XTX.
const GFX1100: Timing = Timing {
    double: pace(32, 38),
    wave64_at_once: true,
    bank_reads: None,
    array: Some(ArrayCache {
        kib: 256,
        compute_units: 8,
        latency: 123,
        bytes: 512,
    }),
    l2: level(221, 7680),
    l2_store_bytes: 1536,
    infinity: Some(level(376, 5300)),
    memory: level(988, 947),
    instructions: [32 << 10, 128],
    launch: launch(3130, 2820),
    ..GFX1030
};

/// Radeon 8060S.
const GFX1151: Timing = Timing {
    array: Some(ArrayCache {
        kib: 256,
        compute_units: 20,
        latency: 123,
        bytes: 512,
    }),
    l2: level(221, 3712),
    l2_store_bytes: 640,
    infinity: Some(level(436, 1024)),
    memory: level(1146, 221),
    launch: launch(1840, 1750),
    ..GFX1100
};

/// RX 9070 XT.
const GFX1201: Timing = Timing {
    matrix_unit: true,
    array: None,
    l2: level(221, 6083),
    l2_store_bytes: 1024,
    infinity: Some(level(446, 1987)),
    memory: level(1174, 631),
    launch: launch(2570, 2150),
    ..GFX1100
};

const fn level(latency: u32, gigabytes_per_second: u32) -> Level {
    Level {
        latency,
        gigabytes_per_second,
    }
}

const fn launch(stream_ns: u32, graph_ns: u32) -> Option<LaunchCost> {
    Some(LaunchCost {
        stream_ns,
        graph_ns,
    })
}

/// A GPU's, if its product was measured.
pub(super) fn of(gpu: Gpu) -> Option<&'static Timing> {
    match gpu {
        Gpu::Gfx1030 => Some(&GFX1030),
        Gpu::Gfx1100 => Some(&GFX1100),
        Gpu::Gfx1151 => Some(&GFX1151),
        Gpu::Gfx1201 => Some(&GFX1201),
        _ => None,
    }
}
