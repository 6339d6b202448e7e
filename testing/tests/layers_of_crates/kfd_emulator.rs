//! Layers of kfd-emulator.

use candle_rocm_testing::layers::Layer;

/// From the lowest up.
pub const LAYERS: &[Layer<'static>] = &[
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
