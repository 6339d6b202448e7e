//! What can be said of the kernels' speed without a GPU: what the compiler made of them ([`listing`], [`loops`],
//! [`distances`]), with AMD's published latencies (`rocm_gpus`), and what the emulator counts when they run
//! ([`products`], [`attention`], [`rows`], [`decode`], [`quantized`], [`prompts`]).
//!
//! `cargo xtask kernel-report` writes [`page`], which has the formulas; with `--measured`, [`measured`] puts what AMD's
//! profiler measured beside it.

pub mod attention;
pub mod decode;
pub mod device;
pub mod distances;
pub mod kernels;
pub mod listing;
pub mod loops;
mod markdown;
pub mod measured;
pub mod page;
pub mod products;
pub mod prompts;
pub mod quantized;
pub mod rows;
pub mod scaled;
