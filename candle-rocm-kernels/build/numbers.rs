//! Numbers that kernels and host must agree on: files of kernels have them, and this makes constants of them.

use std::path::Path;

use rocm_toolchain::headers::numbers;
use rocm_toolchain::Result;

use crate::save;

/// A module, a file, and those of its enums and constants that the host wants.
const NUMBERS: &[(&str, &str, &[&str])] = &[
    ("matmul", "matmul/matmul_problem.cuh", &["SplitKReduction"]),
    (
        "grouped",
        "matmul/grouped/problem.cuh",
        &[
            "ScaleFormat",
            "SCALE_DEPTH",
            "Grouping",
            "GROUP_COLUMNS",
            "GROUP_BITS",
            "ResultType",
        ],
    ),
    ("decode", "attention/decode_rows.cuh", &["MAX_SPLITS"]),
    (
        "mmq",
        "quantized/mmq_blocks.cuh",
        &["BLOCK_ELEMENTS", "BLOCK_BYTES"],
    ),
    ("mmq", "quantized/mmq.cu", &["THREADS", "ROWS"]),
    ("mmvq", "quantized/formats.cuh", &["CUDAS_BITS"]),
    ("mmvq", "quantized/mmvq.cuh", &["GROUP"]),
    ("mmvq", "quantized/mmvq.cu", &["Result", "THREADS"]),
    (
        "mmvq",
        "quantized/vectors.cuh",
        &["ACTIVATIONS", "ACTIVATION_BYTES"],
    ),
    ("chained", "quantized/quantized_chained.cu", &["THREADS"]),
    (
        "experts",
        "experts/rows.cuh",
        &["EXPERTS_ROWS", "EXPERTS_GROUP_BITS"],
    ),
    ("long_fold", "reduce/long_fold.cuh", &["MOST_COLUMNS"]),
    (
        "communication",
        "communication/problem.cuh",
        &[
            "ExchangeStep",
            "DOUBT_ALL",
            "ReduceOp",
            "COMMUNICATION_THREADS",
            "ALL_REDUCE_THREADS",
            "ALL_REDUCE_WORKGROUPS",
            "RING_PIECES",
            "RING_PACKETS",
            "NORMED_PIECES",
            "AREA_FLAGS",
        ],
    ),
    (
        "communication",
        "communication/exchange.cuh",
        &["UNIT_BYTES"],
    ),
    ("fft", "fft/fft.cuh", &["FftFlags"]),
];

/// Writes `numbers.rs` to `out`: a constant for each.
///
/// # Errors
/// A file cannot be read, or lacks one; or the result cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<()> {
    save(&out.join("numbers.rs"), &numbers::rust(kernels, NUMBERS)?)
}
