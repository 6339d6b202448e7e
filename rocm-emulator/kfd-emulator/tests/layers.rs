//! The library's files stand in layers, and import only what is on their own or below, in no circle.

use std::path::Path;

use candle_rocm_testing::layers::{House, Layer};

/// From the lowest up.
const LIBRARY: &[Layer<'static>] = &[
    ("words", &["abi", "clock", "ending", "file"]),
    ("host memory", &["host_ranges"]),
    ("counts", &["counts"]),
    ("gpu", &["gpu"]),
    ("objects", &["topology", "events", "buffers"]),
    ("queues", &["queue"]),
    ("commands", &["driver"]),
    ("libdrm", &["render"]),
    ("functions", &["interpose"]),
];

#[test]
fn library_stands_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    House::read(&root).unwrap().assert_layers(LIBRARY);
}
