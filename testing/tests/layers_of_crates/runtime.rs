//! Layers of candle-rocm-runtime.

use candle_rocm_testing::layers::Layer;

/// From the lowest up.
pub const LAYERS: &[Layer<'static>] = &[
    ("base", &["base"]),
    ("runtime", &["runtime"]),
    ("device", &["device"]),
    ("what all plans are made of", &["plan"]),
    ("order", &["order"]),
    ("pool", &["pool"]),
    ("stream", &["stream"]),
    ("profile", &["profile"]),
    ("nvtx", &["nvtx"]),
    ("memory", &["memory"]),
    ("kernels", &["kernels"]),
    ("problems", &["gemm::problem", "gemm::choice"]),
    ("what follows products", &["gemm::epilogue"]),
    ("products as kernels see them", &["gemm::product"]),
    ("how long plans take", &["gemm::cost"]),
    (
        "plans",
        &["gemm::kernel", "gemm::split_k_workspace", "gemm::plan"],
    ),
    (
        "plans by kind of kernel",
        &["gemm::candidates::skinny", "gemm::candidates::matrix"],
    ),
    ("plans for a problem", &["gemm::candidates"]),
    ("gemm", &["gemm"]),
    ("convolution", &["convolution"]),
    (
        "launches, which products and convolutions replace",
        &["kernels::launch"],
    ),
    ("quantized", &["quantized"]),
    ("graph", &["graph"]),
    ("random", &["random"]),
    ("blas", &["blas"]),
    ("rng", &["rng"]),
    ("foreign", &["foreign"]),
    ("communication", &["communication"]),
    ("blas_lt", &["blas_lt"]),
    ("dnn", &["dnn"]),
    ("driver_api", &["driver_api"]),
    ("raw_handles", &["raw_handles"]),
    ("linked", &["linked"]),
];
