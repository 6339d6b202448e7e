//! The runtime's files stand on floors, and import only what is on their own or below.

use std::path::Path;

use candle_rocm_testing::floors::{Floor, House};

/// From the lowest up.
const FLOORS: &[Floor<'static>] = &[
    ("base", &["base"]),
    ("runtime", &["runtime"]),
    ("device", &["device"]),
    ("order", &["order"]),
    ("pool", &["pool"]),
    ("stream", &["stream"]),
    ("memory", &["memory"]),
    ("kernels", &["kernels"]),
    ("gemm", &["gemm"]),
    ("quantized", &["quantized"]),
    ("graph", &["graph"]),
    ("random", &["random"]),
    ("blas", &["blas"]),
    ("rng", &["rng"]),
    ("foreign", &["foreign"]),
    ("blas_lt", &["blas_lt"]),
    ("driver_api", &["driver_api"]),
    ("raw_handles", &["raw_handles"]),
    ("linked", &["linked"]),
];

#[test]
fn files_import_only_from_their_floor_and_below_and_in_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    House::read(&root).unwrap().assert_floors(FLOORS);
}
