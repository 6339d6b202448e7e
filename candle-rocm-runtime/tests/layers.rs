//! The runtime's files stand in layers, and import only what is on their own or below.

use std::path::Path;

use candle_rocm_testing::layers::{House, Layer};

/// From the lowest up.
const LAYERS: &[Layer<'static>] = &[
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

#[test]
fn files_import_only_from_their_layer_and_below_and_in_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    House::read(&root).unwrap().assert_layers(LAYERS);
}
