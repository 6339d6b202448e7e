//! What estimated times of products are made of, in cycles of a compute unit, whoever plans them.
//!
//! Estimates rank plans, and a timing, where there is one, comes before them. Each constant says where it is from: *published* by
//! AMD; *by the clock*, the emulator's, of an MI300X, which is no measurement; *measured* on an H200; or *assumed*, which is
//! neither.

/// Bytes in a cycle of a compute unit from LDS. Published.
pub const LDS_RATE: f64 = 128.0;
/// Bytes in a cycle of a compute unit from the second-level cache: about the same on all GPUs of the table. Published.
pub const CACHE_RATE: f64 = 48.0;
/// A compute unit's share of the memory's bytes in a cycle: about the same on all GPUs of the table. Published.
pub const MEMORY_RATE: f64 = 8.0;
/// Cycles from a load to its use. A workgroup that is alone on its unit waits so long for each step. Assumed.
pub const LATENCY: f64 = 900.0;
/// Cycles of a workgroup before its first multiply-add and after its last. Assumed.
pub const ENDS: f64 = 2500.0;
/// Cycles of one more launch, after a product in tiles. By the clock.
pub const LAUNCH: f64 = 6500.0;
/// Cycles of one more launch, after a grouped product. Assumed, before the clock found [`LAUNCH`]; plans rest on it.
pub const GROUPED_LAUNCH: f64 = 6000.0;
/// How much of the shorter of two times shows that pass together. Assumed.
pub const NOT_HIDDEN: f64 = 0.3;

/// Cycles in which memory passes so many bytes to so many compute units.
pub fn memory_cycles(bytes: f64, units: f64) -> f64 {
    bytes / (MEMORY_RATE * units)
}

/// Cycles of two things that pass together.
pub fn overlapped(one: f64, other: f64) -> f64 {
    one.max(other) + NOT_HIDDEN * one.min(other)
}
