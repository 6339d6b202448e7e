//! Where files of a user are kept between builds and runs.

use std::path::PathBuf;

pub use crate::variables::KERNEL_CACHE as KERNELS_VARIABLE;

/// This project's folder in the user's cache: `candle-rocm` in `$XDG_CACHE_HOME` or `~/.cache`. None where the user has
/// no home.
pub fn folder() -> Option<PathBuf> {
    dirs::cache_dir().map(|cache| cache.join("candle-rocm"))
}

/// Where compiled kernels are kept unless [`KERNELS_VARIABLE`] names another folder.
pub fn kernels() -> Option<PathBuf> {
    folder().map(|folder| folder.join("kernels"))
}
