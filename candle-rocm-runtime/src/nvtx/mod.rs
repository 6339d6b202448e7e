//! NVTX as cudarc 0.19.10 has it: ranges and marks with names, for [`profile`](crate::profile)'s trace, for AMD's profiler by
//! roctx, and for NVIDIA's in the `nvidia` runtime. Neither roctx nor the trace has categories, colours and payloads: a
//! category is told in front of the name, a payload behind it, and a colour to nobody.
//!
//! ```
//! use candle_rocm_runtime::nvtx;
//!
//! let range = nvtx::scoped_range("prompt");
//! nvtx::mark("first token");
//! drop(range);
//! ```

pub mod result;
mod safe;

pub use safe::{mark, name_category, scoped_range, Event, Payload, Range};
