//! A product by the library, and what follows it by our own kernel.

use super::handles::Library;
use crate::base::enqueued;
use crate::base::error::Result;
use crate::gemm::epilogue::Epilogue;
use crate::gemm::pass::finish_problem;
use crate::gemm::problem::GemmProblem;
use crate::profile::{self, Work};
use crate::stream::queue::Stream;

/// The product by the library and the epilogue after it; false if the library does not support it.
///
/// # Safety
/// As [`gemm_with_epilogue`](crate::gemm::gemm_with_epilogue).
pub(in crate::gemm) unsafe fn multiply_by(
    library: &'static Library,
    stream: &Stream,
    problem: &GemmProblem,
    epilogue: &Epilogue,
) -> Result<bool> {
    // SAFETY: the caller's promise.
    let give = || unsafe { library.gemm(stream, problem) };
    let work = || Work::Product {
        library: library.vendor_name(),
    };
    let supported = profile::timed(stream, work, give)?;
    if supported {
        enqueued::note(|noted| noted.library_products += 1);
    }
    if supported && !epilogue.is_none() {
        // SAFETY: as above.
        unsafe { finish_problem(stream, problem, epilogue) }?;
    }
    Ok(supported)
}
