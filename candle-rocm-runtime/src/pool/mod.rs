//! The memory pool of a GPU: allocating and freeing in stream order, mostly without calling the driver.
//!
//! `hipMalloc` and `hipFree` wait for the whole device, and Candle allocates each result. The pool keeps
//! what is freed and gives it out again:
//!
//! - Memory comes from the driver in *segments*, which are cut into *blocks*. A request takes the
//!   smallest free block that fits (its own stream's first); what is left over becomes a block again, and
//!   free neighbours are joined. Requests below 1 MiB share segments of 8 MiB, those below 16 MiB of 32 to 64 MiB;
//!   larger ones get segments of their size (`segments`).
//! - Segments in which nothing is in use go back to the driver at a synchronisation, and before the driver is asked
//!   for more than an eighth beyond what is in use (`release`). Physical pages are not mapped anew in their place: HIP's
//!   virtual memory takes a file descriptor for each piece, of which a process has 1,024, and several of its releases
//!   refuse or lose mappings (ROCm issues rocm-systems 2516 and 10604, legacy-rocm-build 6603).
//! - A freed block carries the stream it was freed on. On that stream it can be used at once: the stream
//!   runs in order. Another stream is first made to wait for that stream. So a program with one stream
//!   calls the driver neither to allocate, nor to free, nor to order.
//! - Small blocks freed last are kept as they are, by stream and size: an operator's result mostly takes the place
//!   of one freed just before.
//! - Freed parameters of kernels keep their words, so that they need not be copied again (see `parameters`).
//! - While a stream is being captured into a graph, what is freed is kept aside and belongs to the graph
//!   until the graph is destroyed, because each launch of the graph uses those addresses again. Within
//!   the capture the same stream may reuse them: the graph keeps that order. What other streams free meanwhile is
//!   kept as well, since the graph may name it, and reused by nobody.
//! - If the driver has no memory left, the cache is given back after waiting for the device, and the
//!   request is tried once more. Then the error says what is in use.
//!
//! `CANDLE_ROCM_POOL=0` turns all of that off: each allocation is a `hipMalloc`, each free a `hipFree`.
//! On the emulator the pool is off unless `CANDLE_ROCM_POOL=1` asks for it. There, each allocation is to be its own, of
//! its exact size and with nothing mapped beside it, so that an access one element past its end, or after its freeing,
//! is caught; and `hipMalloc` costs little.

pub(crate) mod allocator;
mod blocks;
pub(crate) mod captures;
mod driver;
pub(crate) mod known_parameters;
mod origin;
mod parameters;
mod recent;
mod release;
mod segments;
pub(crate) mod statistics;

pub use crate::order::key::StreamKey;
pub use allocator::{Pool, POOL_VARIABLE};
pub use release::THRESHOLD_VARIABLE;
pub use statistics::PoolStatistics;

#[cfg(test)]
#[cfg(feature = "emulator")]
mod tests;
