//! Every kernel that Candle's host code launches exists for every embedded architecture, with the
//! parameters that the host passes, and no other does.
//!
//! The table was read from candle-core 0.11.1 `src/cuda_backend/mod.rs`, `src/sort.rs`,
//! `src/quantized/cuda.rs` and candle-nn 0.11.1 `src/ops.rs`, `src/rotary_emb.rs`.

mod support;

use candle_rocm_kernels as kernels;
use kernels::arguments::{
    Layout, ALL_REDUCE_PROBLEM, ATTEND_PROBLEM, ATTENTION_GRADIENTS, ATTENTION_PROBLEM, CAT_INPUTS,
    COMMUNICATION_PROBLEM, CONVOLUTION_PROBLEM, CROSS_ENTROPY_PROBLEM, DNN_POOLING, DNN_PROBLEM,
    FFT_PROBLEM, GEMM_PROBLEM, GROUPED_PROBLEM, GROUP_NORM_PROBLEM, LINALG_PROBLEM, MATMUL_PROBLEM,
    OPTIMIZER_STEP, SPARSE_PROBLEM,
};
use kernels::{dtypes, Module};
use std::collections::{BTreeMap, BTreeSet};

/// What kernels are made for, by the names in kernel names, with their bytes.
type Types = &'static [(&'static str, u64)];

/// Those of Candle's element types that `is_among` wants.
const fn count(is_among: &[bool; 3]) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < dtypes::ALL.len() {
        count += is_among[dtypes::ALL[i].kind as usize] as usize;
        i += 1;
    }
    count
}
const fn named<const N: usize>(is_among: &[bool; 3]) -> [(&'static str, u64); N] {
    let (mut types, mut count, mut i) = ([("", 0); N], 0, 0);
    while i < dtypes::ALL.len() {
        let dtype = dtypes::ALL[i];
        if is_among[dtype.kind as usize] {
            types[count] = (dtype.name, dtype.bytes);
            count += 1;
        }
        i += 1;
    }
    types
}
/// Of each of [`dtypes::Kind`], in its order, whether a kernel has them.
const EVERY: &[bool; 3] = &[true, true, true];
const LARGE: &[bool; 3] = &[true, true, false];
const REAL: &[bool; 3] = &[false, true, true];
const LARGE_REAL: &[bool; 3] = &[false, true, false];
const ALL: Types = &named::<{ count(EVERY) }>(EVERY);
/// `const_set` spells the last one differently.
const ALL_BUT_F8: Types = &named::<{ count(LARGE) }>(LARGE);
const FLOATS: Types = &named::<{ count(REAL) }>(REAL);
/// Those that candle-nn's softmax, norms and rotary embeddings accept.
const WIDE_FLOATS: Types = &named::<{ count(LARGE_REAL) }>(LARGE_REAL);

const BINARY: &[&str] = &[
    "badd_{t}",
    "bsub_{t}",
    "bmul_{t}",
    "bdiv_{t}",
    "bminimum_{t}",
    "bmaximum_{t}",
    "eq_{t}",
    "ne_{t}",
    "lt_{t}",
    "le_{t}",
    "gt_{t}",
    "ge_{t}",
];
const CAST: &[&str] = &[
    "cast_{t}_u8",
    "cast_{t}_u32",
    "cast_{t}_i16",
    "cast_{t}_i32",
    "cast_{t}_i64",
    "cast_{t}_bf16",
    "cast_{t}_f16",
    "cast_{t}_f32",
    "cast_{t}_f64",
    "cast_{t}_f8e4m3",
];
const UNARY: &[&str] = &[
    "uexp_{t}",
    "ulog_{t}",
    "usin_{t}",
    "ucos_{t}",
    "utanh_{t}",
    "uneg_{t}",
    "urecip_{t}",
    "usqr_{t}",
    "usqrt_{t}",
    "ugelu_{t}",
    "ugelu_erf_{t}",
    "uerf_{t}",
    "usilu_{t}",
    "uabs_{t}",
    "uceil_{t}",
    "ufloor_{t}",
    "uround_{t}",
    "urelu_{t}",
    "usign_{t}",
    "usigmoid_{t}",
];
const INDEX_SELECT: &[&str] = &["is_u8_{t}", "is_u32_{t}", "is_i64_{t}"];
const GATHER: &[&str] = &["gather_u8_{t}", "gather_u32_{t}", "gather_i64_{t}"];
const INDEX_ADD: &[&str] = &["ia_u8_{t}", "ia_u32_{t}", "ia_i64_{t}"];
const SCATTER: &[&str] = &[
    "s_u8_{t}",
    "s_u32_{t}",
    "s_i64_{t}",
    "sa_u8_{t}",
    "sa_u32_{t}",
    "sa_i64_{t}",
];
const FOLD: &[&str] = &[
    "fast_sum_{t}",
    "fast_sum_small_{t}",
    "fast_min_{t}",
    "fast_max_{t}",
    "fast_argmin_{t}",
    "fast_argmax_{t}",
];
const LONG_FOLD_SPLITS: &[&str] = &[
    "long_sum_splits_{t}",
    "long_min_splits_{t}",
    "long_max_splits_{t}",
];
const LONG_FOLD_FINISH: &[&str] = &[
    "long_sum_finish_{t}",
    "long_min_finish_{t}",
    "long_max_finish_{t}",
    "long_argmin_finish_{t}",
    "long_argmax_finish_{t}",
];

/// GGUF formats by the names in kernel names.
const QUANTS: &[(&str, u64)] = &[
    ("q4_0", 0),
    ("q4_1", 0),
    ("q5_0", 0),
    ("q5_1", 0),
    ("q8_0", 0),
    ("q2_K", 0),
    ("q3_K", 0),
    ("q4_K", 0),
    ("q5_K", 0),
    ("q6_K", 0),
];
const SMALL_QUANTS: &[(&str, u64)] = &[
    ("q4_0", 0),
    ("q4_1", 0),
    ("q5_0", 0),
    ("q5_1", 0),
    ("q8_0", 0),
];
/// The families below spell the K formats in their own ways.
const K_QUANTS: &[(&str, u64)] = &[
    ("q2_K", 0),
    ("q3_K", 0),
    ("q4_K", 0),
    ("q5_K", 0),
    ("q6_K", 0),
    ("q8_K", 0),
];
const DMMV_K: &[(&str, u64)] = &[
    ("q2_k", 0),
    ("q3_k", 0),
    ("q4_k", 0),
    ("q5_k", 0),
    ("q6_k", 0),
];
const MOE: &[(&str, u64)] = &[
    ("q2k", 0),
    ("q3k", 0),
    ("q4k", 0),
    ("q5k", 0),
    ("q6k", 0),
    ("q8_0", 0),
];
/// The formats as the modules of the C functions spell them.
const OWN_QUANTS: &[(&str, u64)] = &[
    ("q4_0", 0),
    ("q4_1", 0),
    ("q5_0", 0),
    ("q5_1", 0),
    ("q8_0", 0),
    ("q2_k", 0),
    ("q3_k", 0),
    ("q4_k", 0),
    ("q5_k", 0),
    ("q6_k", 0),
];
const MMVQ: &[&str] = &["mmvq_{t}_1", "mmvq_{t}_2", "mmvq_{t}_4", "mmvq_{t}_8"];
const ACTIVATION_SCALES: &[(&str, u64)] = &[("D4", 0), ("DS4", 0), ("D2S6", 0)];
const MOE_QUANTS: &[(&str, u64)] = &[
    ("q8_0", 0),
    ("q4_k", 0),
    ("q2_k", 0),
    ("q3_k", 0),
    ("q5_k", 0),
    ("q6_k", 0),
];
const MOE_QUANTISED: &[&str] = &[
    "moe_decode_{t}",
    "moe_prefill_{t}_f16",
    "moe_prefill_{t}_bf16",
];
const MASKED_SOFTMAX: &[&str] = &["masked_softmax_{t}", "flagged_softmax_{t}"];
const ACTIVATE: &[&str] = &[
    "activate_none_{t}",
    "activate_relu_{t}",
    "activate_silu_{t}",
    "activate_gelu_{t}",
    "activate_gelu_erf_{t}",
    "backward_relu_{t}",
    "backward_silu_{t}",
    "backward_gelu_{t}",
    "backward_gelu_erf_{t}",
];
const HALVES: &[(&str, u64)] = &[("f16", 2), ("bf16", 2)];
const POSITIONS: &[&str] = &["positions_nonzero_{t}", "positions_changed_{t}"];
/// Elements by their bits alone.
const BITS: &[(&str, u64)] = &[("8", 1), ("16", 2), ("32", 4), ("64", 8)];
const ROW_FLOATS: &[(&str, u64)] = &[("f32", 4), ("f16", 2), ("bf16", 2)];
const DEQUANTIZE: &[&str] = &["dequantize_block_{t}_f32", "dequantize_block_{t}_f16"];
const MUL_MAT_VEC: &[&str] = &[
    "mul_mat_vec_{t}_q8_1_cuda1",
    "mul_mat_vec_{t}_q8_1_cuda2",
    "mul_mat_vec_{t}_q8_1_cuda3",
    "mul_mat_vec_{t}_q8_1_cuda4",
    "mul_mat_vec_{t}_q8_1_cuda5",
    "mul_mat_vec_{t}_q8_1_cuda6",
    "mul_mat_vec_{t}_q8_1_cuda7",
    "mul_mat_vec_{t}_q8_1_cuda8",
];

/// Kernels with the same parameters.
struct Family {
    module: &'static Module,
    /// `{t}` stands for the element type.
    names: &'static [&'static str],
    types: &'static [(&'static str, u64)],
    /// One letter for each argument, in the host's order: `p` a pointer, `n` usize or i64, `i` u32 or i32,
    /// `f` f32, `d` f64, `b` bool, `t` an element by value.
    arguments: &'static str,
}

const fn family(
    module: &'static Module,
    names: &'static [&'static str],
    types: &'static [(&'static str, u64)],
    arguments: &'static str,
) -> Family {
    Family {
        module,
        names,
        types,
        arguments,
    }
}

static CONTRACT: &[Family] = &[
    family(&kernels::AFFINE, &["affine_{t}"], ALL, "nnppptt"),
    family(&kernels::BINARY, BINARY, ALL, "nnpppp"),
    family(&kernels::CAST, CAST, ALL, "nnppp"),
    family(&kernels::CONV, &["conv1d_{t}"], ALL, "nnnnnpppp"),
    family(
        &kernels::CONV,
        &["conv2d_{t}", "conv_transpose1d_{t}"],
        ALL,
        "nnnnnnpppp",
    ),
    family(
        &kernels::CONV,
        &["conv_transpose2d_{t}"],
        ALL,
        "nnnnnnnpppp",
    ),
    family(&kernels::CONV, &["im2col1d_{t}"], ALL, "nnnnnnppp"),
    family(&kernels::CONV, &["im2col_{t}"], ALL, "nnnnnnnnppp"),
    family(&kernels::CONV, &["col2im1d_{t}"], ALL, "nnnnnnpp"),
    family(
        &kernels::CONV,
        &["max_pool2d_{t}", "avg_pool2d_{t}"],
        ALL,
        "nnnnnppp",
    ),
    family(&kernels::CONV, &["upsample_nearest2d_{t}"], ALL, "nnddppp"),
    family(
        &kernels::CONV,
        &["upsample_bilinear2d_{t}"],
        ALL,
        "nnbbdbdppp",
    ),
    family(&kernels::FILL, &["const_set_{t}"], ALL_BUT_F8, "nnptp"),
    family(
        &kernels::FILL,
        &["const_set_f8_{t}"],
        &[("e4m3", 1)],
        "nnptp",
    ),
    family(&kernels::FILL, &["copy2d_{t}"], ALL_BUT_F8, "ppiiii"),
    family(&kernels::INDEXING, INDEX_SELECT, ALL, "nnppppnnnn"),
    family(&kernels::INDEXING, GATHER, ALL, "npppnnnn"),
    family(&kernels::INDEXING, INDEX_ADD, ALL, "pnppnnnn"),
    family(&kernels::INDEXING, SCATTER, ALL, "pppnnnn"),
    family(&kernels::QUANTIZED, DEQUANTIZE, SMALL_QUANTS, "ppi"),
    family(&kernels::QUANTIZED, DEQUANTIZE, K_QUANTS, "pp"),
    family(&kernels::QUANTIZED, &["get_rows_{t}"], QUANTS, "pppnn"),
    family(&kernels::QUANTIZED, &["get_rows_{t}"], ROW_FLOATS, "pppnn"),
    family(
        &kernels::QUANTIZED,
        &["quantize_{t}"],
        &[("q8_1", 0)],
        "ppii",
    ),
    family(
        &kernels::QUANTIZED,
        &["dequantize_mul_mat_vec_{t}_cuda"],
        SMALL_QUANTS,
        "pppii",
    ),
    family(
        &kernels::QUANTIZED,
        &["dequantize_mul_mat_vec_{t}"],
        DMMV_K,
        "pppii",
    ),
    family(&kernels::QUANTIZED, MUL_MAT_VEC, QUANTS, "pppiiii"),
    family(&kernels::QUANTIZED, &["mul_mat_{t}"], QUANTS, "pppiiiii"),
    family(
        &kernels::QUANTIZED,
        &["indexed_moe_forward_{t}_q8_1"],
        MOE,
        "ppppiiiiii",
    ),
    family(&kernels::REDUCE, FOLD, ALL, "nnnppp"),
    // What the runtime launches instead of these for few long outputs (src/split_rows.rs).
    family(&kernels::REDUCE, LONG_FOLD_SPLITS, ALL, "nnppp"),
    family(&kernels::REDUCE, LONG_FOLD_FINISH, ALL, "nnpppp"),
    family(&kernels::REDUCE, &["softmax_{t}"], WIDE_FLOATS, "ppi"),
    family(&kernels::REDUCE, &["rmsnorm_{t}"], WIDE_FLOATS, "pppiif"),
    family(&kernels::REDUCE, &["layernorm_{t}"], WIDE_FLOATS, "ppppiif"),
    family(&kernels::REDUCE, &["rope_i_{t}"], WIDE_FLOATS, "ppppiii"),
    family(&kernels::REDUCE, &["rope_{t}"], WIDE_FLOATS, "ppppiiii"),
    family(
        &kernels::REDUCE,
        &["rope_thd_{t}"],
        WIDE_FLOATS,
        "ppppiiiii",
    ),
    family(
        &kernels::SORT,
        &["asort_asc_{t}", "asort_desc_{t}"],
        ALL,
        "ppii",
    ),
    // What the runtime launches instead of these, by the bits of an element (src/radix_sort.rs).
    family(
        &kernels::RADIX_SORT,
        &["radix_rows_{t}"],
        BITS,
        "ppppiiiini",
    ),
    family(&kernels::RADIX_SORT, &["radix_rank_{t}"], BITS, "ppppiiiin"),
    family(&kernels::RADIX_SORT, &["radix_count_{t}"], BITS, "ppiini"),
    family(
        &kernels::RADIX_SORT,
        &["radix_move_{t}"],
        BITS,
        "ppppppppiiniii",
    ),
    family(
        &kernels::RADIX_SORT,
        &["radix_select_{t}"],
        BITS,
        "ppiiiini",
    ),
    family(
        &kernels::RADIX_SORT,
        &["radix_take_{t}"],
        BITS,
        "pppppiiiin",
    ),
    family(
        &kernels::RADIX_SORT,
        &["radix_scan_{t}"],
        &[("tiles", 0)],
        "ppi",
    ),
    family(
        &kernels::RADIX_SORT,
        &["radix_scan_{t}"],
        &[("chunks", 0)],
        "pi",
    ),
    family(
        &kernels::TERNARY,
        &["where_u8_{t}", "where_u32_{t}", "where_i64_{t}"],
        ALL,
        "nnppppp",
    ),
    family(&kernels::UNARY, UNARY, FLOATS, "nnppp"),
    family(&kernels::UNARY, &["ucopy_{t}"], ALL, "nnppp"),
    family(
        &kernels::UNARY,
        &["uelu_{t}", "upowf_{t}"],
        FLOATS,
        "nnptpp",
    ),
    // What candle-kernels launches from its own C functions: the names and arguments are ours.
    family(&kernels::MMVQ, MMVQ, OWN_QUANTS, "pppiiiiiii"),
    family(
        &kernels::MMVQ,
        &["mmvq_{t}_cudas"],
        &[("q4_0", 0)],
        "pppiiiiiii",
    ),
    family(
        &kernels::MMVQ,
        &["mmvq_quantize_q8_1_{t}"],
        ROW_FLOATS,
        "ppiin",
    ),
    family(
        &kernels::MMQ,
        &["mmq_{t}_16", "mmq_{t}_64", "mmq_{t}_128"],
        OWN_QUANTS,
        "pppiiinnin",
    ),
    family(&kernels::MMQ, &["mmq_{t}"], &[("sum", 0)], "ppiinin"),
    family(
        &kernels::MMQ,
        &["mmq_quantize_q8_1_{t}"],
        ACTIVATION_SCALES,
        "pppnnnnnnnnn",
    ),
    family(&kernels::UPCAST, &["upcast_{t}"], OWN_QUANTS, "ppiin"),
    family(
        &kernels::UPCAST,
        &["upcast_blocks_{t}"],
        ACTIVATION_SCALES,
        "ppii",
    ),
    family(&kernels::MOE, &["moe_gemm_{t}"], HALVES, "ppppppiiiiin"),
    family(&kernels::MOE, MOE_QUANTISED, MOE_QUANTS, "ppppppiiiiin"),
    family(&kernels::MOE, &["moe_{t}"], &[("align", 0)], "pppppiiii"),
    family(&kernels::MOE, &["moe_{t}"], &[("align_sort", 0)], "pppiii"),
    // What candle_rocm_backend::ops launches.
    family(&kernels::CUMSUM, &["cumsum_rows_{t}"], ALL, "pppnniiiii"),
    family(
        &kernels::CUMSUM,
        &["cumsum_columns_{t}"],
        ALL,
        "pppnnniiiii",
    ),
    family(&kernels::POSITIONS, POSITIONS, ALL, "ppppii"),
    family(&kernels::HISTOGRAM, &["histogram_{t}"], ALL, "ppniiddd"),
    family(&kernels::DROPOUT, &["dropout_{t}"], WIDE_FLOATS, "ppnnid"),
    family(
        &kernels::CROSS_ENTROPY,
        &["cross_entropy_scale_{t}"],
        WIDE_FLOATS,
        "ppppn",
    ),
    family(
        &kernels::OPTIMIZERS,
        &["optimizer_squares_{t}"],
        ROW_FLOATS,
        "ppp",
    ),
    family(
        &kernels::OPTIMIZERS,
        &["optimizer_{t}_f32"],
        &[("clip", 0)],
        "ppnf",
    ),
    family(
        &kernels::QUANTIZED_CHAINED,
        &["chained_{t}"],
        OWN_QUANTS,
        "ppppiiiipfpp",
    ),
    family(
        &kernels::QUANTIZED_CHAINED,
        &["gated_{t}"],
        OWN_QUANTS,
        "pppppii",
    ),
    family(&kernels::EXPERTS, &["experts_{t}"], &[("count", 0)], "ppii"),
    family(
        &kernels::EXPERTS,
        &["experts_{t}"],
        &[("permute", 0)],
        "ppppppiii",
    ),
    family(
        &kernels::EXPERTS,
        &["experts_{t}"],
        &[("count_chunks", 0)],
        "ppiii",
    ),
    family(
        &kernels::EXPERTS,
        &["experts_{t}"],
        &[("permute_chunks", 0)],
        "ppppppiiii",
    ),
    family(
        &kernels::EXPERTS,
        &[
            "experts_gate_{t}",
            "experts_gate_quads_64_{t}",
            "experts_gate_quads_128_{t}",
            "experts_gate_quads_256_{t}",
            "experts_gate_quads_384_{t}",
            "experts_gate_quads_512_{t}",
        ],
        ROW_FLOATS,
        "ppppiiiiiiiif",
    ),
    family(
        &kernels::EXPERTS,
        &["experts_dots_{t}"],
        ROW_FLOATS,
        "ppppiii",
    ),
    family(
        &kernels::EXPERTS,
        &["experts_scatter_{t}"],
        ROW_FLOATS,
        "pppppiiii",
    ),
    family(
        &kernels::EXPERTS,
        &["experts_combine_{t}"],
        ROW_FLOATS,
        "pppppiii",
    ),
    family(
        &kernels::FP8,
        &[
            "fp8_groups_{t}",
            "fp8_swiglu_{t}",
            "fp8_blocks_{t}",
            "fp8_rows_{t}",
        ],
        ROW_FLOATS,
        "ppniipnnnii",
    ),
    family(
        &kernels::FP8,
        &["fp8_scattered_{t}"],
        ROW_FLOATS,
        "ppniipnnniippii",
    ),
    family(&kernels::FP8, &["fp8_{t}"], &[("spread", 0)], "pppnnniiiii"),
    family(&kernels::FP8, &["fp8_largest_{t}"], ROW_FLOATS, "ppnii"),
    family(&kernels::FP8, &["fp8_all_{t}"], ROW_FLOATS, "ppniipnnniip"),
    family(
        &kernels::FP8,
        &["fp8_{t}"],
        &[("prepare", 0)],
        "ppniipnnniii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["log_softmax_{t}"],
        WIDE_FLOATS,
        "ppi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["scaled_softmax_{t}"],
        WIDE_FLOATS,
        "ppid",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        MASKED_SOFTMAX,
        WIDE_FLOATS,
        "ppidpiinnn",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["backward_softmax_{t}"],
        WIDE_FLOATS,
        "pppid",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["backward_log_softmax_{t}"],
        WIDE_FLOATS,
        "pppi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["add_rmsnorm_{t}"],
        WIDE_FLOATS,
        "pppppif",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["add_layernorm_{t}"],
        WIDE_FLOATS,
        "ppppppif",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["backward_rmsnorm_{t}", "backward_layernorm_{t}"],
        WIDE_FLOATS,
        "pppppif",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["column_sums_{t}"],
        WIDE_FLOATS,
        "pppppnii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["column_finish_{t}"],
        WIDE_FLOATS,
        "ppii",
    ),
    // What the runtime launches instead of them, and of Candle's own, for few long rows (src/split_rows.rs).
    family(
        &kernels::FUSED_OPERATORS,
        &["long_softmax_splits_{t}"],
        WIDE_FLOATS,
        "ppiidi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["long_softmax_finish_{t}", "long_log_softmax_finish_{t}"],
        WIDE_FLOATS,
        "pppiidi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_masked_softmax_splits_{t}",
            "long_flagged_softmax_splits_{t}",
        ],
        WIDE_FLOATS,
        "ppiidipiinnn",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_masked_softmax_finish_{t}",
            "long_flagged_softmax_finish_{t}",
        ],
        WIDE_FLOATS,
        "pppiidipiinnn",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["long_rmsnorm_splits_{t}", "long_layernorm_splits_{t}"],
        WIDE_FLOATS,
        "ppiii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_add_rmsnorm_splits_{t}",
            "long_add_layernorm_splits_{t}",
        ],
        WIDE_FLOATS,
        "ppppiii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["long_rmsnorm_finish_{t}", "long_layernorm_finish_{t}"],
        WIDE_FLOATS,
        "pppppiifi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_backward_softmax_splits_{t}",
            "long_backward_log_softmax_splits_{t}",
        ],
        WIDE_FLOATS,
        "pppiii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_backward_softmax_finish_{t}",
            "long_backward_log_softmax_finish_{t}",
        ],
        WIDE_FLOATS,
        "ppppiidi",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_backward_rmsnorm_splits_{t}",
            "long_backward_layernorm_splits_{t}",
        ],
        WIDE_FLOATS,
        "ppppiii",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &[
            "long_backward_rmsnorm_finish_{t}",
            "long_backward_layernorm_finish_{t}",
        ],
        WIDE_FLOATS,
        "ppppppiifi",
    ),
    family(&kernels::FUSED_OPERATORS, ACTIVATE, WIDE_FLOATS, "ppppnn"),
    family(
        &kernels::FUSED_OPERATORS,
        &["swiglu_{t}"],
        WIDE_FLOATS,
        "pppnnn",
    ),
    family(
        &kernels::FUSED_OPERATORS,
        &["backward_swiglu_{t}"],
        WIDE_FLOATS,
        "pppppnnn",
    ),
];

/// What the metadata says about an argument that the host passes as `letter`.
fn argument(letter: char, element_bytes: u64) -> (String, u64) {
    let (kind, bytes) = match letter {
        'p' => ("global_buffer", 8),
        'n' | 'd' => ("by_value", 8),
        'i' | 'f' => ("by_value", 4),
        'b' => ("by_value", 1),
        't' => ("by_value", element_bytes),
        other => panic!("no argument letter {other}"),
    };
    (kind.to_string(), bytes)
}

type Arguments = Vec<(String, u64)>;

/// The contract of one module: names and arguments.
fn expected(module: &Module) -> BTreeMap<String, Arguments> {
    let mut all = BTreeMap::new();
    for family in CONTRACT
        .iter()
        .filter(|family| family.module.index() == module.index())
    {
        for name in family.names {
            for &(name_of_type, bytes) in family.types {
                let launched = name.replace("{t}", name_of_type);
                let last = module.last_argument(&launched);
                if let Some(last) = last {
                    assert_eq!(last.given, family.arguments.len(), "{launched}");
                }
                let letters = family.arguments.chars();
                let arguments = letters
                    .chain(last.map(|_| 'i'))
                    .map(|letter| argument(letter, bytes))
                    .collect();
                let symbol = module.symbol(&launched).into_owned();
                let stands_for_others = symbol != launched;
                let earlier = all.insert(symbol, arguments);
                assert!(
                    earlier.is_none() || stands_for_others,
                    "{name} is in the contract twice"
                );
            }
        }
    }
    all
}

#[test]
fn modules_hold_the_kernels_that_candle_launches() {
    assert!(
        !kernels::architectures().is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    let own = [
        &kernels::MMVQ,
        &kernels::MMQ,
        &kernels::UPCAST,
        &kernels::MOE,
        &kernels::FUSED_OPERATORS,
        &kernels::QUANTIZED_CHAINED,
        &kernels::EXPERTS,
        &kernels::FP8,
        &kernels::DROPOUT,
    ];
    let modules = kernels::ALL_IDS.map(|id| kernels::MODULES[id as usize]);
    for module in modules.into_iter().chain(own) {
        let expected = expected(module);
        for arch in kernels::architectures() {
            let code = module.code_object(arch).expect("an embedded architecture");
            let found = support::kernels(&code);
            for (name, arguments) in &expected {
                let kernel = found
                    .get(name)
                    .unwrap_or_else(|| panic!("{module:?} for {arch} has no {name}"));
                assert_eq!(
                    &kernel.arguments, arguments,
                    "arguments of {name} for {arch}"
                );
            }
            let extra: Vec<_> = found
                .keys()
                .filter(|name| !expected.contains_key(*name))
                .collect();
            assert!(
                extra.is_empty(),
                "{module:?} for {arch} has kernels that nobody launches: {extra:?}"
            );
        }
    }
}

/// The arguments that a pair gets where it replaces a kernel are the pair's, in number, kind and size; and all kernels that
/// are there to be launched so are.
#[test]
fn pairs_for_few_long_rows_take_what_they_get() {
    use kernels::split_rows::{SplitArgument, SplitRows};
    for arch in kernels::architectures() {
        let kernels_of = |module: &Module| {
            let code = module.code_object(arch).expect("an embedded architecture");
            support::kernels(&code)
        };
        let modules = [&kernels::REDUCE, &kernels::FUSED_OPERATORS];
        let kernels = modules.map(|module| (module.name(), kernels_of(module)));
        let names = kernels.iter().flat_map(|(_, kernels)| kernels.keys());
        let mut left: Vec<&str> = names.map(String::as_str).collect();
        left.retain(|name| name.starts_with("long_"));
        for (module, of_module) in &kernels {
            for (name, kernel) in of_module {
                let Some(split) = SplitRows::of(module, name) else {
                    continue;
                };
                let with_pair = kernels.iter().find(|(of, _)| *of == split.module.name());
                let (_, with_pair) = with_pair.expect("a module of rows");
                for &pointer in split.pointers {
                    assert_eq!(kernel.arguments[pointer], argument('p', 0), "{name}");
                }
                for (of, pair) in split.kernels.iter().zip(split.names(name)) {
                    let given: Vec<_> = of
                        .arguments
                        .iter()
                        .map(|of| match of {
                            SplitArgument::Given(number) => kernel.arguments[*number].clone(),
                            SplitArgument::Partial | SplitArgument::Null => argument('p', 0),
                            SplitArgument::Splits | SplitArgument::Wide => argument('i', 0),
                            SplitArgument::One => argument('d', 0),
                        })
                        .collect();
                    let taken = &with_pair[&pair].arguments;
                    assert_eq!(&given, taken, "{pair} instead of {name} for {arch}");
                    left.retain(|name| *name != pair);
                }
            }
        }
        assert!(left.is_empty(), "{arch}: nobody launches {left:?}");
    }
}

/// What geometries read of a launch are the kernels' arguments, in kind and size, no row has more threads than its
/// kernel's workgroup, and lists of geometries name no kernel that there is not.
#[test]
fn geometries_read_arguments_of_their_kernels() {
    use kernels::launch_heuristics::{named, untyped, LaunchHeuristic};
    use std::cell::RefCell;
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let mut kinds = BTreeSet::new();
        let mut left: Vec<_> = named().collect();
        for module in kernels::MODULES {
            let code = module.code_object(arch).expect("an embedded architecture");
            for (name, kernel) in support::kernels(&code) {
                left.retain(|of| *of != (module.name(), untyped(&name)));
                let heuristic = LaunchHeuristic::of(module.name(), &name);
                let read = RefCell::new(Vec::new());
                heuristic.told(0, |parameter| {
                    read.borrow_mut().push(parameter);
                    1
                });
                for parameter in read.into_inner() {
                    let kind = match heuristic.layout() == Some(parameter.number) {
                        true => "global_buffer",
                        false => "by_value",
                    };
                    let expected = (kind.to_string(), parameter.bytes as u64);
                    let found = kernel.arguments.get(parameter.number);
                    assert_eq!(found, Some(&expected), "{name} for {arch}: {parameter:?}");
                }
                if let LaunchHeuristic::Rows { held, .. } = heuristic {
                    let most = u64::from(held.threads);
                    assert!(kernel.max_workgroup <= most, "{name} for {arch}: {held:?}");
                }
                kinds.insert(
                    format!("{heuristic:?}")
                        .split(' ')
                        .next()
                        .map(str::to_string),
                );
            }
        }
        assert_eq!(kinds.len(), 6, "a geometry that no kernel has: {kinds:?}");
        assert!(left.is_empty(), "{arch} has none of {left:?}");
    }
}

#[test]
fn modules_stand_in_candles_order() {
    for (index, id) in kernels::ALL_IDS.into_iter().enumerate() {
        assert_eq!(id as usize, index);
        assert_eq!(kernels::MODULES[index].index(), index);
        assert_eq!(
            kernels::MODULES[index].name(),
            format!("{id:?}").to_lowercase()
        );
    }
}

#[test]
fn unknown_architectures_are_refused_with_the_embedded_ones() {
    let error = kernels::AFFINE
        .code_object("gfx803")
        .expect_err("gfx803 is not embedded")
        .to_string();
    for part in ["affine", "gfx803", "CANDLE_ROCM_ARCHS"]
        .iter()
        .chain(kernels::architectures())
    {
        assert!(error.contains(part), "{error:?} does not mention {part}");
    }
}

#[test]
fn target_features_in_an_architecture_are_ignored() {
    let arch = kernels::architectures()[0];
    let plain = kernels::FILL.code_object(arch).expect("embedded");
    let featured = kernels::FILL
        .code_object(&format!("{arch}:sramecc+:xnack-"))
        .expect("the same");
    assert_eq!(plain, featured);
}

/// The kernels in code for NVIDIA's GPUs: entries of PTX, or sections of machine code.
fn nvidia_kernels(code: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(code);
    let name = |rest: &str| -> String {
        let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        rest.chars().take_while(is_part).collect()
    };
    let after = |mark: &'static str| text.split(mark).skip(1).map(name).collect::<Vec<_>>();
    [".entry ", ".text."].into_iter().flat_map(after).collect()
}

/// The products on matrix units: which kernels there are depends on the architecture.
#[test]
fn matmul_has_the_kernels_of_its_table() {
    use kernels::matmul::{exists, kernel_name, Dtype, TILES};
    let problem = vec![by_value(&MATMUL_PROBLEM)];
    for arch in kernels::architectures() {
        let processor = kernels::Processor::of(arch);
        let mut expected = BTreeMap::new();
        for dtype in Dtype::ALL {
            let tiles = TILES
                .into_iter()
                .filter(|&tile| exists(processor, dtype, tile));
            for (count, tile) in tiles.enumerate() {
                if count == 0 {
                    expected.insert(format!("matmul_sum_{}", dtype.name()), 256);
                }
                for ops in 0..4 {
                    let name = kernel_name(dtype, tile, [ops & 2 != 0, ops & 1 != 0]);
                    let threads = kernels::matmul::threads(processor, tile);
                    expected.insert(name, u64::from(threads));
                }
            }
        }
        let code = kernels::MATMUL
            .code_object(arch)
            .expect("an embedded architecture");
        if !arch.starts_with("gfx") {
            let found = nvidia_kernels(&code);
            // Some NVIDIA GPUs have too little LDS for the largest tiles, whose kernels are there all the same.
            let missing: Vec<_> = expected
                .keys()
                .filter(|name| !found.contains(*name))
                .collect();
            assert!(missing.is_empty(), "{arch} lacks {missing:?}");
            continue;
        }
        let found = support::kernels(&code);
        for kernel in found.values() {
            assert_eq!(kernel.arguments, problem, "{} for {arch}", kernel.name);
        }
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|(name, kernel)| (name, kernel.max_workgroup))
            .collect();
        assert_eq!(found, expected, "kernels and their workgroups for {arch}");
    }
}

/// What the metadata says about an argument that is this struct.
fn by_value(layout: &Layout) -> (String, u64) {
    ("by_value".to_string(), layout.bytes as u64)
}

/// A module has these kernels with their workgroups, for each architecture, and each takes this struct.
fn holds_kernels(
    module: &kernels::Module,
    argument: &Layout,
    expected: impl Fn(&str) -> BTreeMap<String, u64>,
) {
    let problem = vec![by_value(argument)];
    for arch in kernels::architectures() {
        let expected = expected(arch);
        let code = module.code_object(arch).expect("an embedded architecture");
        if !arch.starts_with("gfx") {
            assert_eq!(nvidia_kernels(&code), expected.into_keys().collect());
            continue;
        }
        let found = support::kernels(&code);
        for kernel in found.values() {
            assert_eq!(kernel.arguments, problem, "{} for {arch}", kernel.name);
        }
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|(name, kernel)| (name, kernel.max_workgroup))
            .collect();
        assert_eq!(found, expected, "kernels and their workgroups for {arch}");
    }
}

/// Attention's kernels are those of their tables, with the workgroups and the argument that the host gives them.
#[test]
fn attention_has_the_kernels_of_its_tables() {
    use kernels::attention::{delta_name, kernel_name, tiles, Pass, DELTA_THREADS};
    let of_passes = |arch: &str, passes: &[Pass]| -> BTreeMap<String, u64> {
        let mut of = BTreeMap::new();
        for dtype in ["f16", "bf16"] {
            for &pass in passes {
                for tile in tiles(kernels::Processor::of(arch), pass) {
                    of.insert(kernel_name(pass, dtype, tile), u64::from(tile.threads));
                }
            }
        }
        of
    };
    holds_kernels(&kernels::ATTENTION_FORWARD, &ATTENTION_PROBLEM, |arch| {
        of_passes(arch, &[Pass::Forward])
    });
    holds_kernels(&kernels::ATTENTION_BACKWARD, &ATTENTION_GRADIENTS, |arch| {
        let mut of = of_passes(arch, &[Pass::BackwardKeys, Pass::BackwardQueries]);
        of.extend(["f16", "bf16"].map(|dtype| (delta_name(dtype), u64::from(DELTA_THREADS))));
        of
    });
}

/// Decoding's attention: the kernels of its list, of each type, take its struct.
#[test]
fn decode_has_the_kernels_of_its_list() {
    use kernels::decode::{Kernel, ATTEND_TYPES, THREADS};
    let names = |(elements, queries): (u32, u32)| {
        let prefix = format!("attend_{elements}_{queries}_");
        let named = move |dtype: &&str| format!("{prefix}{dtype}");
        ATTEND_TYPES.iter().map(named).collect::<Vec<_>>()
    };
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let processor = kernels::Processor::of(arch);
        let listed: BTreeSet<String> = Kernel::listed(processor).flat_map(names).collect();
        let code = kernels::ATTENTION_DECODE
            .code_object(arch)
            .expect("an embedded architecture");
        let mut found = support::kernels(&code);
        found.retain(|name, _| name.starts_with("attend_"));
        for (name, kernel) in &found {
            assert_eq!(
                kernel.arguments,
                [by_value(&ATTEND_PROBLEM)],
                "{name} for {arch}"
            );
            assert_eq!(
                kernel.max_workgroup,
                u64::from(THREADS),
                "{name} for {arch}"
            );
        }
        let found: BTreeSet<String> = found.into_keys().collect();
        assert_eq!(found, listed, "kernels for {arch}");
    }
}

/// Kernels of these names, `{t}` standing for the types, of which each takes this struct.
struct WithStruct {
    module: &'static Module,
    argument: &'static Layout,
    names: &'static [&'static str],
    types: Types,
}

const fn with_struct(
    module: &'static Module,
    argument: &'static Layout,
    names: &'static [&'static str],
    types: Types,
) -> WithStruct {
    WithStruct {
        module,
        argument,
        names,
        types,
    }
}

const SOLVED: Types = &[("f32", 4), ("f64", 8)];
const INDEX: Types = &[("u32", 4)];
const CAT_UNITS: Types = &[("8", 1), ("16", 2), ("32", 4), ("64", 8), ("128", 16)];

static WITH_STRUCT: &[WithStruct] = &[
    with_struct(
        &kernels::CROSS_ENTROPY,
        &CROSS_ENTROPY_PROBLEM,
        &[
            "cross_entropy_rows_{t}",
            "cross_entropy_finish_{t}",
            "cross_entropy_backward_{t}",
        ],
        WIDE_FLOATS,
    ),
    with_struct(
        &kernels::CROSS_ENTROPY,
        &CROSS_ENTROPY_PROBLEM,
        &["cross_entropy_sum_{t}"],
        SOLVED,
    ),
    with_struct(
        &kernels::OPTIMIZERS,
        &OPTIMIZER_STEP,
        &[
            "optimizer_adamw_{t}",
            "optimizer_sgd_{t}",
            "optimizer_lion_{t}",
        ],
        ROW_FLOATS,
    ),
    with_struct(
        &kernels::GROUP_NORM,
        &GROUP_NORM_PROBLEM,
        &[
            "group_norm_{t}",
            "group_norm_moments_{t}",
            "group_norm_sums_{t}",
            "group_norm_gradient_{t}",
        ],
        ROW_FLOATS,
    ),
    with_struct(&kernels::CAT, &CAT_INPUTS, &["cat_{t}"], CAT_UNITS),
    with_struct(
        &kernels::SPARSE,
        &SPARSE_PROBLEM,
        &[
            "sparse_vector_{t}",
            "sparse_matrix_{t}",
            "sparse_sampled_{t}",
        ],
        WIDE_FLOATS,
    ),
    with_struct(
        &kernels::SPARSE,
        &SPARSE_PROBLEM,
        &["sparse_offsets_{t}", "sparse_transposed_{t}"],
        INDEX,
    ),
    with_struct(
        &kernels::LINALG,
        &LINALG_PROBLEM,
        &[
            "linalg_lu_{t}",
            "linalg_cholesky_{t}",
            "linalg_triangular_{t}",
        ],
        SOLVED,
    ),
    with_struct(&kernels::FFT, &FFT_PROBLEM, &["fft_step_{t}"], SOLVED),
];

/// Kernels that take a struct, beside those of the contract.
#[test]
fn kernels_take_their_structs() {
    for of in WITH_STRUCT {
        let module = of.module;
        let mut expected = expected(module);
        for of in WITH_STRUCT {
            if of.module.index() != module.index() {
                continue;
            }
            let names = of.names.iter().flat_map(|name| {
                let typed = move |(dtype, _): &(&str, u64)| name.replace("{t}", dtype);
                of.types.iter().map(typed)
            });
            expected.extend(names.map(|name| (name, vec![by_value(of.argument)])));
        }
        let gpus = kernels::architectures().iter();
        for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
            let code = module.code_object(arch).expect("an embedded architecture");
            let found: BTreeMap<_, _> = support::kernels(&code)
                .into_iter()
                .map(|(name, kernel)| (name, kernel.arguments))
                .collect();
            assert_eq!(found, expected, "{module:?} for {arch}");
        }
    }
}

/// Grouped products: which tiles and columns there are depends on the architecture.
#[test]
fn grouped_has_the_kernels_of_its_table() {
    holds_kernels(&kernels::GROUPED, &GROUPED_PROBLEM, |arch| {
        let listed = kernels::grouped::kernels(kernels::Processor::of(arch)).into_iter();
        listed
            .map(|(name, threads)| (name, threads.into()))
            .collect()
    });
}

/// Convolutions: which tiles there are depends on the architecture. Those that transpose weights take no convolution.
#[test]
fn convolution_has_the_kernels_of_its_table() {
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let listed = kernels::convolution::kernels(kernels::Processor::of(arch)).into_iter();
        let listed: BTreeMap<String, u64> = listed
            .map(|(name, threads)| (name, threads.into()))
            .collect();
        let code = kernels::CONVOLUTION
            .code_object(arch)
            .expect("an embedded architecture");
        let mut found = support::kernels(&code);
        found.retain(|name, _| !name.starts_with("convolution_transpose_"));
        for (name, kernel) in &found {
            let problem = [by_value(&CONVOLUTION_PROBLEM)];
            assert_eq!(kernel.arguments, problem, "{name} for {arch}");
        }
        let found: BTreeMap<_, _> = found
            .into_iter()
            .map(|(name, kernel)| (name, kernel.max_workgroup))
            .collect();
        assert_eq!(found, listed, "kernels and their workgroups for {arch}");
    }
}

/// cuDNN's layers: each type has all of them.
#[test]
fn dnn_has_every_layer_of_every_float() {
    let layers = ["activation", "pooling", "reduction", "softmax"];
    let name = |layer: &str, dtype: &str| format!("dnn_{layer}_{dtype}");
    let expected: BTreeSet<String> = layers
        .iter()
        .flat_map(|layer| WIDE_FLOATS.iter().map(move |(dtype, _)| name(layer, dtype)))
        .collect();
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let code = kernels::DNN
            .code_object(arch)
            .expect("an embedded architecture");
        let found = support::kernels(&code);
        for (name, kernel) in &found {
            let problem = match name.starts_with("dnn_pooling_") {
                true => &DNN_POOLING,
                false => &DNN_PROBLEM,
            };
            assert_eq!(kernel.arguments, [by_value(problem)], "{name} for {arch}");
            assert_eq!(kernel.max_workgroup, 256, "{name} for {arch}");
        }
        let found: BTreeSet<String> = found.into_keys().collect();
        assert_eq!(found, expected, "kernels for {arch}");
    }
}

/// Collectives: NCCL's types have reductions, and those of models' states all-reduces with a norm.
#[test]
fn communication_has_a_reduction_of_every_type() {
    let dtypes = [
        "i8", "u8", "i32", "u32", "i64", "u64", "bf16", "f16", "f32", "f64",
    ];
    let by_boxes = ["packets", "pieces"];
    let reductions = ["reduce"]
        .into_iter()
        .chain(by_boxes)
        .flat_map(|what| dtypes.map(|dtype| format!("communication_{what}_{dtype}")));
    let others = ["communication_publish", "communication_gather"].map(String::from);
    let norms = ["f16", "bf16", "f32"].map(|dtype| format!("communication_add_norm_{dtype}"));
    let expected: BTreeSet<String> = reductions.chain(others).chain(norms).collect();
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let code = kernels::COMMUNICATION
            .code_object(arch)
            .expect("an embedded architecture");
        let found = support::kernels(&code);
        for (name, kernel) in &found {
            let is_norm = name.contains("add_norm");
            let is_by_boxes = is_norm || by_boxes.iter().any(|what| name.contains(what));
            let (problem, work_items) = match is_by_boxes {
                true => (&ALL_REDUCE_PROBLEM, 512),
                false => (&COMMUNICATION_PROBLEM, 256),
            };
            // Residual, norms, weight, elements of a row, epsilon.
            let more = if is_norm { "pppif" } else { "" };
            let more = more.chars().map(|letter| argument(letter, 0));
            let expected: Vec<_> = [by_value(problem)].into_iter().chain(more).collect();
            assert_eq!(kernel.arguments, expected, "{name} for {arch}");
            assert_eq!(kernel.max_workgroup, work_items, "{name} for {arch}");
        }
        let found: BTreeSet<String> = found.into_keys().collect();
        assert_eq!(found, expected, "kernels for {arch}");
    }
}

/// The products by vector units: which skinny kernels there are depends on the architecture.
#[test]
fn gemm_has_the_kernels_of_its_tables() {
    use kernels::{gemm, matmul::Dtype, skinny};
    let gpus = kernels::architectures().iter();
    for arch in gpus.filter(|arch| arch.starts_with("gfx")) {
        let processor = kernels::Processor::of(arch);
        // Names, and workgroups and arguments.
        let mut expected = BTreeMap::new();
        let two_numbers = [argument('i', 0), argument('i', 0)];
        for dtype in Dtype::ALL {
            let name = dtype.name();
            for (form, rows_together) in [("n", true), ("t", false)] {
                for &columns in skinny::columns(processor, dtype, rows_together) {
                    let shape = skinny::shape(processor, dtype, columns, rows_together);
                    let threads = shape.threads(shape.max_log2_slice_k(u64::MAX));
                    let arguments = [&[by_value(&MATMUL_PROBLEM)], &two_numbers[..]].concat();
                    let name = format!("skinny_{form}_{name}_n{columns}");
                    expected.insert(name, (threads, arguments));
                }
            }
            if dtype == Dtype::I8 {
                continue;
            }
            for tile in gemm::tiles(processor, dtype) {
                for ops in ["nn", "nt", "tn", "tt"] {
                    let name = format!("gemm_{name}_{}x{}_{ops}", tile.rows, tile.columns);
                    expected.insert(name, (tile.threads, vec![by_value(&GEMM_PROBLEM)]));
                }
            }
            let sum = [by_value(&MATMUL_PROBLEM), argument('i', 0)];
            expected.insert(format!("gemm_sum_{name}"), (skinny::THREADS, sum.to_vec()));
            let epilogue = (skinny::THREADS, vec![by_value(&MATMUL_PROBLEM)]);
            expected.insert(format!("gemm_epilogue_{name}"), epilogue);
        }
        let code = kernels::GEMM
            .code_object(arch)
            .expect("an embedded architecture");
        let found = support::kernels(&code).into_iter();
        let found: BTreeMap<_, _> = found
            .map(|(name, kernel)| (name, (kernel.max_workgroup as u32, kernel.arguments)))
            .collect();
        assert_eq!(found, expected, "kernels for {arch}");
    }
}
