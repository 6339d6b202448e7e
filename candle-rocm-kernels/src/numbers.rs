//! Numbers that kernels and host must agree on, as files of kernels have them.

include!(concat!(env!("OUT_DIR"), "/numbers.rs"));
