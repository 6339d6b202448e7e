//! Layers of candle-rocm-backend.

use candle_rocm_testing::layers::Layer;

/// From the lowest up.
pub const LAYERS: &[Layer<'static>] = &[
    ("Candle's versions", &["candle"]),
    ("random numbers on the host", &["philox"]),
    (
        "tensors and launches",
        &["ops::operands", "ops::node", "ops::launch"],
    ),
    ("what ranks exchange", &["communication::rank"]),
    ("operators of rows", &["ops::norm", "ops::softmax"]),
    ("what is asked of attention", &["ops::attention::call"]),
    (
        "ways of attention",
        &["ops::attention::composed", "ops::attention::kernel"],
    ),
    ("attention's gradients", &["ops::attention::gradient"]),
    ("attention", &["ops::attention"]),
    ("activations", &["ops::activation"]),
    ("products", &["ops::product"]),
    ("linear layers", &["ops::linear"]),
    ("what is asked of convolutions", &["ops::conv::call"]),
    (
        "ways of convolutions",
        &["ops::conv::composed", "ops::conv::kernel"],
    ),
    ("convolutions", &["ops::conv"]),
    (
        "caches of keys and values",
        &[
            "ops::kv_cache::heads",
            "ops::kv_cache::memory",
            "ops::kv_cache::scores",
        ],
    ),
    (
        "what is written to caches",
        &["ops::kv_cache::append", "ops::kv_cache::checks"],
    ),
    ("operators", &["ops"]),
    ("gradients over ranks", &["communication::gradients"]),
    ("communication", &["communication"]),
    ("optimisers", &["optim"]),
    ("attention to caches", &["ops::kv_cache::attend"]),
    ("steps", &["ops::kv_cache::step"]),
    ("kernels compiled for shapes", &["specialised"]),
    ("whose rows are whose", &["grouped::groups"]),
    ("what grouped products read", &["grouped::operand"]),
    (
        "ways of grouped products",
        &["grouped::problem", "grouped::composed"],
    ),
    ("kernels of grouped products", &["grouped::kernel"]),
    ("grouped products", &["grouped"]),
    ("matrices of FP8", &["fp8::matrix"]),
    ("what is cast to FP8", &["fp8::cast::request"]),
    ("ways to cast", &["fp8::cast::gpu", "fp8::cast::host"]),
    ("casts and products of FP8", &["fp8::cast", "fp8::product"]),
    ("FP8", &["fp8"]),
    ("parts of mixtures", &["moe::gate", "moe::routing"]),
    ("mixtures of experts", &["moe"]),
    ("what rocm-rs is lent", &["rocm_rs"]),
    ("what stays in place", &["graph::input"]),
    ("whether steps are captured", &["graph::choice"]),
    ("captures", &["graph::step"]),
    ("graphs", &["graph"]),
    ("a report's lines", &["doctor::report"]),
    ("where to look", &["doctor::place"]),
    (
        "what to look at",
        &[
            "doctor::machine",
            "doctor::permissions",
            "doctor::runtime",
            "doctor::kernels",
            "doctor::caches",
        ],
    ),
    ("doctor", &["doctor"]),
];
