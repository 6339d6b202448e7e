//! Layers of rocm-toolchain.

use candle_rocm_testing::layers::Layer;

/// From the lowest up.
pub const LAYERS: &[Layer<'static>] = &[
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
