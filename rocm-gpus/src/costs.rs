//! What estimates of kernels' times are made of, beside the rates of a [`Unit`](crate::Unit): each figure with where it is
//! from. Estimates rank plans. A timing, where there is one, comes before them.

use std::fmt;

/// Where a figure is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// AMD publishes it, or it follows from what AMD publishes.
    Published,
    /// Fitted to the emulator's clock of an MI300X, which is no measurement.
    Clock,
    /// Fitted to times that were measured on an NVIDIA H200. No AMD GPU was timed.
    MeasuredH200,
    /// None of these.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Published => "published",
            Self::Clock => "by the clock, of an MI300X",
            Self::MeasuredH200 => "measured, on an H200",
            Self::Assumed => "assumed",
        })
    }
}

/// A figure of the estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// How it is called here.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: &'static str,
    /// Where it is from.
    pub origin: Origin,
}

macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident $value:literal $unit:literal, $origin:ident;)*) => {
        $(
            $(#[doc = $doc])+
            pub const $name: Cost = Cost {
                name: stringify!($name),
                value: $value,
                unit: $unit,
                origin: Origin::$origin,
            };
        )*
        /// All of them but those of [`GROUPED`], [`GROUPED_BY_ROWS`] and [`QUANTIZED`].
        pub const ALL: &[Cost] = &[$($name),*];
    };
}

costs! {
    /// What a compute unit gets from LDS.
    LDS_RATE 128.0 "bytes a cycle", Published;
    /// What counts of the bytes that lanes read of a compute unit's LDS: those that read the same words are served at once.
    LDS_READS_SHARED 0.25 "of the bytes", Assumed;
    /// [`LDS_READS_SHARED`] of RDNA's pairs of compute units: each gives lanes [`LDS_RATE`], whatever they share (RDNA white
    /// paper).
    LDS_READS_OF_PAIR 0.5 "of the bytes", Published;
    /// What a compute unit gets from the second-level cache: about the same on all GPUs of the table.
    CACHE_RATE 48.0 "bytes a cycle", Published;
    /// A compute unit's share of the memory's bandwidth: about the same on all GPUs of the table.
    MEMORY_RATE 8.0 "bytes a cycle", Published;
    /// Elements or vectors that a compute unit gathers, each by an instruction of its lane, with their way to LDS.
    ELEMENT_RATE 5.0 "a cycle", MeasuredH200;
    /// From a load of a convolution's K-block to its use: of a workgroup that is alone, by most of the layers that were timed.
    GATHER_LATENCY 1600.0 "cycles", MeasuredH200;
    /// From a load to its use. A workgroup that is alone on its compute unit waits so long for each step.
    LATENCY 900.0 "cycles", Assumed;
    /// Of a workgroup before its first multiply-add and after its last.
    ENDS 2500.0 "cycles", Assumed;
    /// One more launch, after a product in tiles.
    LAUNCH 6500.0 "cycles", Clock;
    /// One more launch, after a grouped product: assumed before the clock found [`LAUNCH`], and plans rest on it.
    GROUPED_LAUNCH 6000.0 "cycles", Assumed;
    /// How much of the shorter of two overlapped times shows.
    NOT_HIDDEN 0.3 "of the shorter time", Assumed;
    /// [`NOT_HIDDEN`] within a step whose instructions are scheduled so that matrix instructions hide the rest, where a SIMD has
    /// two wavefronts or more.
    NOT_HIDDEN_SCHEDULED 0.08 "of the shorter time", Clock;
    /// What several second-level caches read of operands, beside what each reads alone, as a share of what memory would pass: an
    /// Infinity Cache has it.
    READ_AGAIN 0.7 "of memory's time", Assumed;
    /// Beside [`ENDS`], for each element of a tile of whole cache lines, from the sums to C.
    END_OF_ELEMENT 0.2 "cycles an element", Clock;
    /// How much of the time shows in which workgroups write partial sums: others multiply meanwhile. Plans rank alike from here
    /// to 0.5, of LLaMA's layers with 128 to 1,024 tokens.
    SHOWN_OF_PARTIAL_SUMS 0.25 "of memory's time", Clock;
    /// In-kernel split-K reduction: until the last split's workgroups have the partial sums.
    IN_KERNEL_REDUCTION 2000.0 "cycles", Clock;
    /// In-kernel split-K reduction: for each element of a tile, of the first other split, whose code waits as well.
    IN_KERNEL_REDUCTION_OF_ELEMENT 0.5 "cycles an element", Clock;
    /// In-kernel split-K reduction: for each element of a tile, of each further split.
    IN_KERNEL_REDUCTION_OF_FURTHER_SPLIT 0.1 "cycles an element", Clock;
    /// For which the first workgroups of a tile of whole cache lines wait for its code, which is longer than the others': alike
    /// from 6,000 to 8,000.
    FIRST_CODE 7000.0 "cycles", Clock;
    /// Most partial sums that a tile's workgroup reduces in the kernel; a launch of its own shares more of them out. On an H200
    /// both take as long with six splits of 64 x 64 and with three of 128 x 128; by the clock with eight and four.
    MAX_REDUCED_IN_KERNEL 20480.0 "elements", MeasuredH200;
    /// The launch that adds up partial sums of quantised matrices' products.
    QUANTIZED_SUM 4.5 "microseconds", MeasuredH200;
    /// Beside [`QUANTIZED_SUM`], for a million partial sums.
    QUANTIZED_SUM_MILLION 1.7 "microseconds", MeasuredH200;
    /// Skinny products: elements of k of a warp, if matrix instructions multiply, below which no more warps share rows.
    SKINNY_SLICE 512.0 "elements", MeasuredH200;
    /// Skinny products: elements of k of a warp, at least, in a workgroup of twice as many warps.
    SKINNY_SLICE_OF_DOUBLED 128.0 "elements", MeasuredH200;
    /// Skinny products: fewest steps of each warp in a split of k.
    SKINNY_STEPS_OF_SPLIT 2.0 "steps", MeasuredH200;
    /// Skinny products: workgroups that fill a compute unit, until which more warps share rows.
    SKINNY_FILLING 1.5 "workgroups a compute unit", MeasuredH200;
    /// [`SKINNY_FILLING`] of small workgroups for at most eight columns, which share a compute unit.
    SKINNY_FILLING_SMALL 2.0 "workgroups a compute unit", MeasuredH200;
    /// [`SKINNY_FILLING`] where B is as much to read as A.
    SKINNY_FILLING_READS_B 1.0 "workgroups a compute unit", MeasuredH200;
    /// [`SKINNY_FILLING`] of products that norm their columns first, which each workgroup does.
    SKINNY_FILLING_NORMED 1.25 "workgroups a compute unit", MeasuredH200;
    /// Skinny products by lines that are transposed in LDS: most workgroups, all of which run at once.
    SKINNY_AT_ONCE 2.0 "workgroups a compute unit", MeasuredH200;
    /// Skinny products in splits of k: workgroups, where rows are long and few warps share them.
    SKINNY_SPLITS_OF_LONG_ROWS 3.0 "workgroups a compute unit", MeasuredH200;
    /// Skinny products in splits of k: workgroups.
    SKINNY_SPLITS 2.0 "workgroups a compute unit", MeasuredH200;
    /// Skinny products in splits of k: workgroups that take a compute unit, or all of memory's way to it, for themselves.
    SKINNY_SPLITS_ALONE 1.0 "workgroups a compute unit", MeasuredH200;
    /// Skinny products whose next step's vectors are on their way: compute units for each workgroup, up to which enough are busy
    /// without splits of k.
    SKINNY_BUSY_BY_PREFETCH 5.0 "compute units a workgroup", Clock;
    /// Quantised matrices times few vectors: rows, below which all threads of a workgroup make them together.
    MMVQ_FEW_ROWS 2048.0 "rows", MeasuredH200;
    /// Quantised matrices times few vectors: rows, from which the fewest threads make them, of up to four vectors.
    MMVQ_MANY_ROWS 8192.0 "rows", MeasuredH200;
    /// Quantised matrices times few vectors: blocks of 32 elements of a row for each thread of the fewest, from which there are
    /// twice as many.
    MMVQ_STEPS 4.0 "blocks a thread", MeasuredH200;
    /// Keys that are worth a group of lanes that holds a row of them at a time, in attention of few queries.
    ATTEND_KEYS_OF_GROUP 4.0 "keys", Assumed;
    /// Workgroups of each compute unit that keys are shared out to, by groups of lanes, in attention of few queries.
    ATTEND_WORKGROUPS 2.0 "workgroups a compute unit", MeasuredH200;
    /// The shortest row that several workgroups share where rows are few: they read it twice.
    LONG_ROW 131072.0 "bytes", MeasuredH200;
    /// The least part of such a row.
    PART_OF_ROW 16384.0 "bytes", MeasuredH200;
    /// Workgroups of each compute unit that share long rows, where they read them twice.
    WORKGROUPS_OF_ROWS_READ_TWICE 2.0 "workgroups a compute unit", MeasuredH200;
    /// Workgroups of each compute unit that share long rows, where they read them once.
    WORKGROUPS_OF_ROWS_READ_ONCE 8.0 "workgroups a compute unit", MeasuredH200;
    /// Of long rows that are read once: beside so much a second launch for all of them costs little.
    MANY_LONG_ROWS 67108864.0 "bytes", Assumed;
}

/// How workgroups of a family of grouped products get on, by columns of their tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupedPace {
    /// Cycles of a workgroup before its first multiply-add and after its last.
    pub ends: f64,
    /// Workgroups that keep a compute unit busy, of tiles of 128, 64 and 32 columns: one that is alone waits for memory most of
    /// the time.
    pub resident: [u64; 3],
    /// What a step takes of these, as multiples of the time at the unit's rate.
    pub steps: [f64; 3],
    /// Where that is from.
    pub origin: Origin,
}

/// Grouped products.
pub const GROUPED: GroupedPace = GroupedPace {
    ends: ENDS.value,
    resident: [2, 3, 3],
    steps: [1.0; 3],
    origin: Origin::Assumed,
};
/// Grouped products on NVIDIA's GPUs where both operands have k contiguous: tiles of 64 and 32 columns have a schedule of their
/// own there. Of 24 products in FP8 and bf16 with 24 to 4,096 rows, to which it was fitted, this finds the fastest tile of 23.
pub const GROUPED_BY_ROWS: GroupedPace = GroupedPace {
    ends: 4000.0,
    resident: [2, 3, 2],
    steps: [1.5, 1.0, 1.8],
    origin: Origin::MeasuredH200,
};

/// How workgroups of products of quantised matrices with many vectors get on, by columns of their tiles: microseconds of a step
/// of 256 elements of k, of q4_k. What counts is how they compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantizedPace {
    /// Columns of the tile.
    pub columns: u32,
    /// Workgroups that a compute unit holds.
    pub resident: u64,
    /// Of one workgroup that is alone on a compute unit.
    pub alone: f64,
    /// Of each further one.
    pub more: f64,
    /// Where that is from.
    pub origin: Origin,
}

/// The tiles, narrowest first; fitted to some hundred products.
pub const QUANTIZED: [QuantizedPace; 3] = [
    quantized(16, 2, 1.6, 0.5),
    quantized(64, 2, 2.65, 1.6),
    quantized(128, 1, 6.4, 0.0),
];

const fn quantized(columns: u32, resident: u64, alone: f64, more: f64) -> QuantizedPace {
    QuantizedPace {
        columns,
        resident,
        alone,
        more,
        origin: Origin::MeasuredH200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure's name is its constant's, so that a list of them can be looked up here.
    #[test]
    fn figures_are_told_apart_and_positive() {
        let names: std::collections::BTreeSet<&str> = ALL.iter().map(|cost| cost.name).collect();
        assert_eq!(names.len(), ALL.len());
        for cost in ALL {
            assert!(cost.value > 0.0 && !cost.unit.is_empty(), "{cost:?}");
            // A share is one.
            assert!(
                cost.value < 1.0 || !cost.unit.starts_with("of "),
                "{cost:?}"
            );
        }
    }
}
