//! Collectives of ours on several emulated GPUs, beside plain Rust: ranks as threads, in groups of one thread, and as processes.
//! AMD's RCCL under AMD's HIP likewise.

#[path = "../common/mod.rs"]
mod common;
mod elements;
mod exercise;
mod groups;
mod processes;
mod rccl;
mod rows;
mod threads;
