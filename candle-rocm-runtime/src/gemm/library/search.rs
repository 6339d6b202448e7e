//! Loading a vendor's library, whichever vendor's it is.

use super::vendor::Vendor;
use super::{cublas, rocblas};
use crate::base::dynamic_library::{Found, Search};
use crate::base::error::{Error, ErrorKind, Result};
use crate::gemm::choice::{GEMM_VARIABLE, LIBRARY_VARIABLE};

/// Loads a vendor's library. One that the user named may be the other vendor's: its functions tell.
pub(super) fn find(search: &Search, what: &str, root: &str) -> Result<(Box<dyn Vendor>, String)> {
    let Found { library, path } = search.load().map_err(|tried| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{what} was not found. Install it, or set {root} to where it is, or {LIBRARY_VARIABLE} to the library \
                 itself; {GEMM_VARIABLE}=own multiplies by our own kernels. {tried}"
            ),
        )
    })?;
    let vendor: Result<Box<dyn Vendor>, _> = match cublas::Cublas::of(library) {
        Ok(cublas) => Ok(Box::new(cublas)),
        Err(no_cublas) => match rocblas::Rocblas::of(library) {
            Ok(rocblas) => Ok(Box::new(rocblas)),
            Err(no_rocblas) => Err(Error::new(
                ErrorKind::Runtime,
                format!(
                    "{path} is no library of matrix products that candle-rocm can use: it has neither {no_cublas} of \
                     cuBLAS (11 or later) nor {no_rocblas} of rocBLAS; {GEMM_VARIABLE}=own multiplies by our own kernels"
                ),
            )),
        },
    };
    Ok((vendor?, path))
}
