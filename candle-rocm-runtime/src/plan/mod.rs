//! How launches are planned, whatever the family of kernels.
//!
//! A family is data: its tiles, what a workgroup of one reads and holds, how it divides K. What it has in common with others is
//! here, once:
//!
//! | what | where |
//! |---|---|
//! | a GPU's rates, registers and LDS | [`gpu`], of `rocm-gpus` |
//! | fitted figures, each with where it is from | [`rocm_gpus::costs`] |
//! | the time of a launch | `roofline` |
//! | splits of K, of keys, of rows | [`candle_rocm_kernels::split`] |
//! | plans that were made before, by GPU and problem | [`cache`] |
//! | memory for what splits leave | [`Workspace`](crate::Workspace); of sums that are reduced in the kernel, `gemm::split_k_workspace` |
//!
//! Products of quantised matrices with many vectors have the workspace of their caller in C, `tmp_fixup`, whose room bounds their
//! splits.
//!
//! Families and where their data is:
//!
//! | family | tiles | chosen by |
//! |---|---|---|
//! | matrix products, `matmul` and `gemm` | [`candle_rocm_kernels::matmul`], `gemm::kernel` | roofline (`gemm::cost`), or timings |
//! | skinny products | [`candle_rocm_kernels::skinny`] | thresholds, by what fills the GPU |
//! | grouped products, bf16 and FP8 | [`candle_rocm_kernels::grouped`] | roofline ([`grouped`]), or timings |
//! | quantised, many vectors | `quantized::strips` | roofline |
//! | quantised, up to eight vectors | [`candle_rocm_kernels::mmvq`] | thresholds |
//! | attention of few queries | [`candle_rocm_kernels::decode`] | what fills the GPU |
//! | few long rows | [`candle_rocm_kernels::split_rows`] | what fills the GPU |

pub mod cache;
pub mod gpu;
pub mod grouped;
pub(crate) mod roofline;
