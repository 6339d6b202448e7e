//! What models of time ask of a GPU.

/// A cache, or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Cycles from a load's issue to its data when nothing else is on its way.
    pub latency: u32,
    /// 10^9 bytes a second that all of the GPU's compute units together read from it.
    pub gigabytes_per_second: u32,
}

/// Cycles of a kind of vector instruction, of a wavefront of the SIMD's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// For which it occupies its unit.
    pub occupies: u32,
    /// Until an instruction can use its result.
    pub latency: u32,
}

/// The cache of a shader array, between the compute units' first level and the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayCache {
    /// KiB of it.
    pub kib: u32,
    /// Compute units that share it.
    pub compute_units: u32,
    /// Cycles from a load's issue to its data.
    pub latency: u32,
    /// Bytes that it gives in a cycle.
    pub bytes: u32,
}

/// What a launch of an empty kernel takes, in nanoseconds, where launches follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchCost {
    /// In a stream.
    pub stream_ns: u32,
    /// As a node of a graph.
    pub graph_ns: u32,
}

/// Latencies and bandwidths of a GPU. Cycles are of the engine clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a vector instruction to one that uses its result.
    pub vector: u32,
    /// From a scalar instruction to one that uses its result.
    pub scalar: u32,
    /// Transcendental instructions.
    pub transcendental: Pace,
    /// Whether transcendental instructions have a unit of their own, so that others are issued meanwhile.
    pub transcendental_unit: bool,
    /// Conversions between integers or f16 and f32.
    pub conversion: Pace,
    /// Products of integers of 32 bits.
    pub multiply: Pace,
    /// Arithmetic in f64.
    pub double: Pace,
    /// Whether 64 lanes of an instruction that can be dual-issued take as long as 32.
    pub wave64_at_once: bool,
    /// Registers that a SIMD reads in a cycle from each of its four banks, whatever the operand's place; `None` where no
    /// encoding conflicts.
    pub bank_reads: Option<u32>,
    /// From a branch that is taken to the next instruction.
    pub branch: u32,
    /// Beyond a matrix instruction's own cycles, until anything but the addend of another may read its result.
    pub matrix_result: u32,
    /// Whether vector instructions are issued while the matrix unit works.
    pub matrix_unit: bool,
    /// Of the LDS, beside the cycles in which it serves the instruction.
    pub lds: u32,
    /// Bytes that two SIMDs together get from the LDS in a cycle.
    pub lds_bytes_of_pair: u32,
    /// Lanes whose addresses the first-level cache takes in a cycle.
    pub address_lanes: u32,
    /// Bytes that the first-level cache gives, or takes, in a cycle.
    pub l1_bytes: u32,
    /// Latency of the first-level cache.
    pub l1_latency: u32,
    /// The cache of a shader array, where there is one.
    pub array: Option<ArrayCache>,
    /// Second-level cache.
    pub l2: Level,
    /// Bytes that all channels of one second-level cache store in a cycle.
    pub l2_store_bytes: u32,
    /// Infinity Cache, where there is one.
    pub infinity: Option<Level>,
    /// Memory, as read.
    pub memory: Level,
    /// Bytes of the instruction cache, and of a line of it.
    pub instructions: [u32; 2],
    /// Multiprocessors that share it.
    pub instruction_sharers: u32,
    /// Lines of code that are fetched ahead of the one that is executed.
    pub code_ahead: u32,
    /// Cache lines that a compute unit waits for at most, where that was found out.
    pub misses: Option<u32>,
    /// What a launch takes by itself, where that was published.
    pub launch: Option<LaunchCost>,
}

pub(super) const fn pace(occupies: u32, latency: u32) -> Pace {
    Pace { occupies, latency }
}
