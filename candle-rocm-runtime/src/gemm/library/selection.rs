//! Which library multiplies on a GPU, if any.

use std::sync::Arc;

use super::handles::Library;
use super::search::find;
use super::{cublas, rocblas};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::gemm::choice::{timings_choose, GemmChoice, GEMM_VARIABLE, LIBRARY_VARIABLE};
use crate::order::key::StreamKey;
use crate::runtime::RuntimeKind;
use crate::stream::queue::Stream;

/// The library of each GPU, once chosen at its first matrix product.
static LIBRARIES: PerDevice<Result<Option<Library>>> = PerDevice::new();

/// The library that multiplies on this GPU; `None` if our own kernels do.
///
/// # Errors
/// The choice is senseless, or it is `library` and there is none.
pub(in crate::gemm) fn of(device: &Arc<Device>) -> Result<Option<&'static Library>> {
    LIBRARIES.get_or_try(device, || {
        let library = select(device);
        if let Ok(Some(_)) = library {
            device.streams().at_end(release_handle);
        }
        library
    })
}

/// A stream is about to be destroyed.
fn release_handle(device: &Arc<Device>, stream: StreamKey) -> Result<()> {
    if let Some(Ok(Some(library))) = LIBRARIES.get(device) {
        library.release(device, stream);
    }
    Ok(())
}

fn select(device: &Arc<Device>) -> Result<Option<Library>> {
    match (GemmChoice::current()?, device.runtime().kind()) {
        (GemmChoice::Own, _) => Ok(None),
        (GemmChoice::Library, _) => load(device, true).map(Some),
        (GemmChoice::Auto, RuntimeKind::Nvidia) => Ok(load(device, true)
            .inspect_err(|error| tracing::warn!(%error, "our own kernels multiply matrices"))
            .ok()),
        // Ours, until the two have been compared on this GPU.
        (GemmChoice::Auto, RuntimeKind::Amd | RuntimeKind::Emulator) if timings_choose()? => {
            Ok(load(device, false)
                .inspect_err(|error| tracing::debug!(%error, "our own kernels alone are timed"))
                .ok())
        }
        (GemmChoice::Auto, RuntimeKind::Amd | RuntimeKind::Emulator) => Ok(None),
    }
}

/// Makes the stream's handle before a capture, in which making it is forbidden.
pub(crate) fn prepare(stream: &Stream) -> Result<()> {
    if let Some(library) = of(stream.context().device())? {
        library.prepare(stream)?;
    }
    Ok(())
}

/// Who multiplies matrices on this stream's GPU, in words.
///
/// # Errors
/// As [`gemm_strided_batched`](crate::gemm::gemm_strided_batched), where the library cannot be had.
pub fn describe(stream: &Stream) -> Result<String> {
    Ok(match of(stream.context().device())? {
        Some(library) if library.is_default() => library.description().to_owned(),
        Some(library) => format!(
            "our own kernels, or where it was faster {}",
            library.description()
        ),
        None => "our own kernels".to_owned(),
    })
}

/// Loads the vendor's library for this GPU, whoever multiplies: its name, version and path.
///
/// # Errors
/// It cannot be loaded or used; the text says what was tried.
pub fn examine(device: &Arc<Device>) -> Result<String> {
    let library = load(device, false)?;
    Ok(library.description().to_owned())
}

/// Loads the library that this GPU's runtime goes with.
fn load(device: &Arc<Device>, is_default: bool) -> Result<Library> {
    let (vendor, path) = match device.runtime().kind() {
        RuntimeKind::Nvidia => find(&cublas::SEARCH, "cuBLAS", "CUDA_HOME"),
        RuntimeKind::Amd => find(&rocblas::SEARCH, "rocBLAS", "ROCM_PATH"),
        RuntimeKind::Emulator if rocblas::SEARCH.named().is_some() => {
            find(&rocblas::SEARCH, "rocBLAS", "ROCM_PATH")
        }
        RuntimeKind::Emulator => Err(Error::new(
            ErrorKind::Runtime,
            format!(
                "{GEMM_VARIABLE}=library: the emulated GPU has no library of matrix products. Use {GEMM_VARIABLE}=own, \
                 or name a library in {LIBRARY_VARIABLE}"
            ),
        )),
    }?;
    Library::new(device, vendor, &path, is_default)
}
