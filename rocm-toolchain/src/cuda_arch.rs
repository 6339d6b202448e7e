//! The CUDA architecture for which other people's source is compiled.

use crate::error::{Error, Result};
use crate::variables;

/// `__CUDA_ARCH__` where nobody says otherwise: 8.0, the first that has everything which our headers under CUDA's names
/// have, and none of what Hopper added.
pub const DEFAULT: u32 = 800;

/// `__CUDA_ARCH__` as the environment says, or [`DEFAULT`].
///
/// # Errors
/// [`variables::CUDA_ARCH`] is no number.
pub fn of_environment() -> Result<u32> {
    let chosen = std::env::var(variables::CUDA_ARCH).unwrap_or_default();
    match chosen.trim() {
        "" => Ok(DEFAULT),
        number => number.parse().map_err(|_| Error::CudaArch {
            value: number.to_owned(),
            default: DEFAULT,
        }),
    }
}
