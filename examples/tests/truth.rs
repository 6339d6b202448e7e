//! The shipped models against what PyTorch recorded of them, on the CPU and, with the feature `rocm`, on the
//! GPU that `CANDLE_ROCM_RUNTIME` names or else the emulated one.

mod common;

use anyhow::Result;
use candle_core::DType;
use candle_rocm_examples::{device::Choice, gpt2, llama};

use common::{check_half_precision, check_truth, open};

/// Texts that are generated to their end.
const ALL: usize = 10;
/// A GPU runs the same kernels for each token of each text: two of them on an emulated one take a minute less.
#[cfg(feature = "rocm")]
const SOME: usize = 2;

#[test]
fn llama_matches_pytorch_on_the_cpu() -> Result<()> {
    check_truth("llama-stories", llama::load, &open(Choice::Cpu)?, ALL)
}

#[test]
fn gpt2_matches_pytorch_on_the_cpu() -> Result<()> {
    check_truth("gpt2-sums", gpt2::load, &open(Choice::Cpu)?, ALL)
}

#[test]
fn llama_in_half_precision_is_close_on_the_cpu() -> Result<()> {
    check_half_precision(
        "llama-stories",
        llama::load,
        &open(Choice::Cpu)?,
        DType::F16,
    )?;
    check_half_precision(
        "llama-stories",
        llama::load,
        &open(Choice::Cpu)?,
        DType::BF16,
    )
}

#[test]
fn gpt2_in_half_precision_is_close_on_the_cpu() -> Result<()> {
    check_half_precision("gpt2-sums", gpt2::load, &open(Choice::Cpu)?, DType::F16)?;
    check_half_precision("gpt2-sums", gpt2::load, &open(Choice::Cpu)?, DType::BF16)
}

#[cfg(feature = "rocm")]
mod rocm {
    use super::*;

    #[test]
    fn llama_matches_pytorch() -> Result<()> {
        check_truth("llama-stories", llama::load, &open(Choice::Rocm)?, SOME)
    }

    #[test]
    fn gpt2_matches_pytorch() -> Result<()> {
        check_truth("gpt2-sums", gpt2::load, &open(Choice::Rocm)?, SOME)
    }

    #[test]
    fn llama_in_half_precision_is_close() -> Result<()> {
        check_half_precision(
            "llama-stories",
            llama::load,
            &open(Choice::Rocm)?,
            DType::F16,
        )?;
        check_half_precision(
            "llama-stories",
            llama::load,
            &open(Choice::Rocm)?,
            DType::BF16,
        )
    }

    #[test]
    fn gpt2_in_half_precision_is_close() -> Result<()> {
        check_half_precision("gpt2-sums", gpt2::load, &open(Choice::Rocm)?, DType::F16)?;
        check_half_precision("gpt2-sums", gpt2::load, &open(Choice::Rocm)?, DType::BF16)
    }
}
