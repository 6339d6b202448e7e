//! A vendor's library on one GPU, and its handles.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::vendor::{Failure, Handle, Status, Vendor};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::gemm::problem::GemmProblem;
use crate::order::key::StreamKey;
use crate::stream::per_stream::PerStream;
use crate::stream::queue::Stream;

/// The vendor's library on one GPU.
pub struct Library {
    vendor: Box<dyn Vendor>,
    /// Its name, version and path.
    description: String,
    /// Bytes of workspace of each handle.
    workspace: usize,
    /// Whether it multiplies where nothing was timed.
    is_default: bool,
    handles: PerStream<Bound>,
}

/// A handle that gives its products to one stream.
struct Bound {
    handle: Mutex<Handle>,
    workspace: u64,
}

/// Further handles without a stream are destroyed, which waits for the GPU.
const MOST_IDLE: usize = 8;

impl Library {
    /// Whose it is.
    pub(super) fn vendor_name(&self) -> &'static str {
        self.vendor.name()
    }

    /// A vendor's library that was found at `path`, for this GPU.
    pub(super) fn new(
        device: &Arc<Device>,
        vendor: Box<dyn Vendor>,
        path: &str,
        is_default: bool,
    ) -> Result<Self> {
        let mut library = Self {
            description: format!("{} ({path})", vendor.name()),
            workspace: vendor.workspace(&device.info().arch),
            vendor,
            is_default,
            handles: PerStream::new(MOST_IDLE),
        };
        // A library that loads may still be too new for the driver, which its first handle tells.
        device.bind()?;
        let handle = library.create(device)?;
        // SAFETY: just created.
        if let Some(version) = unsafe { library.vendor.version(&handle) } {
            library.description = format!("{} {version} ({path})", library.vendor.name());
        }
        // SAFETY: created here and used by nobody.
        unsafe { library.vendor.handles().destroy(&handle) };
        tracing::debug!(library = library.description, "matrix products");
        Ok(library)
    }

    /// Its name, version and path.
    pub(in crate::gemm) fn description(&self) -> &str {
        &self.description
    }

    /// Whether it multiplies where nothing was timed.
    pub(in crate::gemm) fn is_default(&self) -> bool {
        self.is_default
    }

    /// A handle, if need be after giving the pool's cache back.
    fn create(&self, device: &Arc<Device>) -> Result<Handle> {
        let pool = device.pool();
        let create = || device.hip().relaxed(|| self.vendor.handles().create());
        create()
            .or_else(|_| {
                pool.flush()?;
                create().map_err(|status| self.error(status))
            })
            .map_err(|error| error.context("creating a handle for matrix products"))
    }

    fn error(&self, status: Status) -> Error {
        let (failure, name) = self.vendor.failure(status);
        let kind = match failure {
            Failure::NotSupported => ErrorKind::Unsupported,
            Failure::OutOfMemory => ErrorKind::OutOfMemory,
            Failure::Other => ErrorKind::Library,
        };
        Error::new(kind, format!("{}: {name} ({status})", self.description))
    }

    /// Makes the handle of this stream. The GPU is current on this thread.
    pub(super) fn prepare(&'static self, stream: &Stream) -> Result<()> {
        self.bound(stream).map(drop)
    }

    /// The handle of this stream. The GPU is current on this thread.
    fn bound(&'static self, stream: &Stream) -> Result<Arc<Bound>> {
        let device = stream.context().device();
        let set_stream = |bound: Bound| {
            // SAFETY: the handle is not in use, and it lets go of the stream before that is destroyed.
            let status = unsafe {
                self.vendor.set_stream(
                    &bound.handle.lock(),
                    stream.raw(),
                    bound.workspace as *mut c_void,
                    self.workspace,
                )
            };
            if status == 0 {
                return Ok(bound);
            }
            self.destroy(device, &bound);
            Err(self
                .error(status)
                .context("setting the stream of matrix products"))
        };
        self.handles
            .get_or_make(stream, || self.new_bound(device), set_stream)
    }

    /// A new handle with its workspace.
    fn new_bound(&self, device: &Arc<Device>) -> Result<Bound> {
        let bound = Bound {
            handle: Mutex::new(self.create(device)?),
            workspace: 0,
        };
        if self.workspace == 0 {
            return Ok(bound);
        }
        match device.pool().allocate_apart(self.workspace) {
            Ok(workspace) => Ok(Bound { workspace, ..bound }),
            Err(error) => {
                self.destroy(device, &bound);
                Err(error.context("the workspace of matrix products"))
            }
        }
    }

    /// Destroys a handle that nobody uses any more, after waiting for its work.
    fn destroy(&self, device: &Device, bound: &Bound) {
        // SAFETY: this library's handle, by the caller's word unused.
        unsafe { self.vendor.handles().destroy(&bound.handle.lock()) };
        if let (Some(pool), false) = (device.existing_pool(), bound.workspace == 0) {
            if let Err(error) = pool.free_apart(bound.workspace) {
                device.sticky().set(error);
            }
        }
    }

    /// Gives the products to the stream; false if the library does not support them.
    ///
    /// # Safety
    /// As [`gemm_strided_batched`](crate::gemm::gemm_strided_batched).
    pub(super) unsafe fn gemm(
        &'static self,
        stream: &Stream,
        problem: &GemmProblem,
    ) -> Result<bool> {
        stream.enter()?;
        let bound = self.bound(stream)?;
        let handle = bound.handle.lock();
        // SAFETY: the caller's promise; the handle is this library's and gives to this stream.
        let status = unsafe { self.vendor.gemm(&handle, problem) };
        if status == 0 {
            return Ok(true);
        }
        match self.vendor.failure(status) {
            (Failure::NotSupported, name) => {
                tracing::debug!(%problem, name, "not a product of the library's: computed by our own kernels");
                Ok(false)
            }
            _ => Err(self.error(status)),
        }
    }

    /// The stream is about to be destroyed: its handle waits for another.
    pub(super) fn release(&self, device: &Device, key: StreamKey) {
        if let Some(bound) = self.handles.release(device, key) {
            self.destroy(device, &bound);
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({})", self.description)
    }
}
