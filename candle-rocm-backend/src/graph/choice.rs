//! Whether steps are to be captured.

use candle_core::{Device, Error, Result, Tensor};
use candle_rocm_runtime::graph::{check, wish};

pub use wish::VARIABLE;

/// Whether steps on a device are to be captured. On a CPU they are not; on a GPU `CANDLE_ROCM_GRAPHS` says so, which by
/// default leaves it to whether the GPU's graphs are right: the first call for a card tries one. Sessions of
/// candle-rocm-transformers ask.
///
/// # Errors
/// The variable is neither `0` nor `1` nor `auto`.
pub fn are_on(device: &Device) -> Result<bool> {
    match device {
        Device::Cuda(gpu) => {
            check::are_on(gpu.cuda_stream().context().device()).map_err(Error::wrap)
        }
        _ => Ok(false),
    }
}

/// Why the graphs of a device are off, if they were found wrong: a sentence for its user.
pub fn why_off(device: &Device) -> Option<String> {
    let Device::Cuda(gpu) = device else {
        return None;
    };
    check::why_off(gpu.cuda_stream().context().device()).map(str::to_owned)
}

/// Whether the caller is to compare what its captured step computes with what the same calls compute one by one: once for
/// each card of a process, unless `CANDLE_ROCM_GRAPHS` says that graphs are right.
///
/// # Errors
/// The variable is neither `0` nor `1` nor `auto`.
pub fn is_to_be_compared(device: &Device) -> Result<bool> {
    match device {
        Device::Cuda(gpu) => {
            check::is_to_be_compared(gpu.cuda_stream().context().device()).map_err(Error::wrap)
        }
        _ => Ok(false),
    }
}

/// Whether two results in f32 have the same bits. If not, the graphs of their device are off from now on: one was computed
/// by a step that was captured from `what`, the other by the same calls one by one.
///
/// # Errors
/// A result cannot be read.
pub fn agree(what: &str, captured: &Tensor, one_by_one: &Tensor) -> Result<bool> {
    let bits = |result: &Tensor| -> Result<Vec<u32>> {
        let numbers = result.flatten_all()?.to_vec1::<f32>()?;
        Ok(numbers.into_iter().map(f32::to_bits).collect())
    };
    let equal = bits(captured)? == bits(one_by_one)?;
    if let (false, Device::Cuda(gpu)) = (equal, captured.device()) {
        let found = format!(
            "the graph of {what} computed other numbers than its kernels one by one, as ROCm/clr 279 reports of 7.2.0 to \
             7.2.3"
        );
        check::turn_off(gpu.cuda_stream().context().device(), found);
    }
    Ok(equal)
}
