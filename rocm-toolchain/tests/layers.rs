//! The files stand in layers, and import only what is on their own or below.

use std::path::Path;

use candle_rocm_testing::layers::{House, Layer};

/// From the lowest up.
const LAYERS: &[Layer<'static>] = &[
    (
        "what the machine and the environment say",
        &[
            "variables",
            "installations",
            "topology",
            "lock",
            "stand_ins",
        ],
    ),
    ("what is said", &["notice", "error"]),
    ("what a user has", &["user_cache", "cuda_arch", "text"]),
    ("NVIDIA's compilers", &["nvidia"]),
    ("clang", &["toolchain"]),
    ("targets", &["architectures"]),
    (
        "parts of a build",
        &["headers", "workers", "key", "unpacked"],
    ),
    ("what is kept", &["cache"]),
    ("a kernel file", &["compile"]),
    ("a kernel for a shape", &["specialised"]),
];

#[test]
fn files_import_only_from_their_layer_and_below_and_in_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    House::read(&root).unwrap().assert_layers(LAYERS);
}
