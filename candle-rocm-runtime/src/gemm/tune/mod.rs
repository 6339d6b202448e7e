//! Choosing plans by timing them, for those who ask for it.
//!
//! With `CANDLE_ROCM_GEMM_TUNE=1`, the first product of a shape runs with each plan that may be worth a try, and by the
//! vendor's library where that is loaded, on a copy of C. The fastest computes that shape from then on, in this process
//! and, through a file, in later ones. `CANDLE_ROCM_GEMM_TUNE=use` takes what the file has and times nothing, so that
//! the sums of a program have the same order in each run. Nothing is timed while a graph is captured: the default plan
//! computes those products, unless the shape is known.
//!
//! The file is `CANDLE_ROCM_GEMM_TUNE_FILE`, else `candle-rocm/gemm.tsv` in `$XDG_CACHE_HOME` or `~/.cache`. Its lines
//! hold for one GPU, driver, library and build of the kernels. Shapes share a line if their sizes differ by less than
//! an eighth, so that a growing context does not time each of its lengths.

mod results;
mod shape;
mod timing;
pub(super) mod tuner;

pub use super::choice::TUNE_VARIABLE;
pub use results::{results_path, FILE_VARIABLE};
pub use tuner::{choices, fastest_of, Work};
