//! What ran on the GPUs, and for how long: kernels, copies, fills, products by a library and whole graphs, each between two
//! events of its stream.
//!
//! Any program has a table at its end with `CANDLE_ROCM_PROFILE=1`, and a trace for <https://ui.perfetto.dev> with
//! `CANDLE_ROCM_TRACE=trace.json`. From within, [`start`] and [`stop`] give the table of what lies between them:
//!
//! ```
//! use candle_rocm_runtime::{profile, runtime, Context, RuntimeKind};
//!
//! runtime::select(RuntimeKind::Emulator)?;
//! let stream = Context::new(0)?.default_stream();
//! profile::start();
//! let x = stream.clone_htod(&[1u8, 2, 3])?;
//! let report = profile::stop();
//! assert_eq!((report.rows[0].name.as_str(), report.rows[0].count), ("copy from the host", 1));
//! println!("{report}");
//! # drop(x);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`range`] and [`mark`] name parts of a program in that trace, and in AMD's and NVIDIA's own profilers.
//!
//! An event costs the GPU a microsecond or two between kernels that would follow each other at once, and the host a call: a
//! profiled program is slower than it is, its kernels are not. Kernels that are captured into a graph have no events; the graph
//! has. Off, all of this costs a launch one load.

mod at_exit;
pub(crate) mod marks;
mod range;
mod recorder;
mod report;
mod settings;
mod switch;
mod trace;
mod work;

pub use range::{mark, range, range_with, Range};
pub use report::{Report, Row};

pub(crate) use switch::timed;
pub(crate) use work::Work;

/// Begins to record what all threads give to GPUs. What was recorded before is forgotten, but for the trace and the table of
/// `CANDLE_ROCM_TRACE` and `CANDLE_ROCM_PROFILE`, which go on.
pub fn start() {
    switch::set(true);
    recorder::begin_section();
}

/// Ends what [`start`] began, waits for what was recorded, and returns its table. Empty where nothing was started.
pub fn stop() -> Report {
    let (report, goes_on) = recorder::end_section();
    switch::set(goes_on);
    report
}
