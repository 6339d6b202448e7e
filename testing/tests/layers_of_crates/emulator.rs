//! Layers of rocm-emulator's library and tool.

use candle_rocm_testing::layers::Layer;

/// From the lowest up.
pub const LIBRARY: &[Layer<'static>] = &[
    ("what goes wrong", &["trouble"]),
    ("instructions", &["isa"]),
    ("memory", &["memory", "fault"]),
    ("code objects", &["codeobject"]),
    (
        "exec: registers",
        &["exec::simd", "exec::wave", "exec::counters"],
    ),
    ("exec: scalar", &["exec::scalar"]),
    ("exec: vector", &["exec::valu"]),
    ("exec: memory", &["exec::memory"]),
    ("exec: program", &["exec::program"]),
    ("exec: check", &["exec::check"]),
    ("exec: watch", &["exec::watch"]),
    ("exec: clock", &["exec::clock"]),
    ("exec: services", &["exec::services"]),
    ("exec: run", &["exec::run"]),
    ("exec", &["exec"]),
    (
        "hip: words",
        &["hip::error", "hip::facts", "hip::settings", "hip::visible"],
    ),
    ("hip: devices", &["hip::state", "hip::handles", "hip::host"]),
    (
        "hip: memory",
        &["hip::host_memory", "hip::allocate", "hip::copy"],
    ),
    (
        "hip: kernels",
        &[
            "hip::module",
            "hip::registry",
            "hip::profile",
            "hip::launch",
        ],
    ),
    (
        "hip: work",
        &[
            "hip::operation",
            "hip::graph_faults",
            "hip::late",
            "hip::event",
            "hip::capture",
            "hip::graph",
            "hip::stream",
        ],
    ),
    ("hip: reset", &["hip::reset"]),
    ("hip: C interface", &["hip::abi"]),
    ("hip", &["hip"]),
];

/// The same of the tool.
pub const TOOL: &[Layer<'static>] = &[
    ("arguments", &["values", "args"]),
    ("code objects", &["source"]),
    ("commands", &["listing", "launch"]),
];
