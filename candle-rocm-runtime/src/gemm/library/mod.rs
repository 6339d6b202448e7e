//! Matrix products by the vendor's library, found at run time: cuBLAS on NVIDIA GPUs, rocBLAS on AMD's.
//!
//! `CANDLE_ROCM_GEMM` says who multiplies: `own`, our kernels; `library`, the vendor's, which must then be there;
//! `auto`, the default, the vendor's where it is known to be a gain and can be loaded, else ours. A product that the
//! library does not support is ours in any case, and so is one of integers, or without a sum (k or alpha is 0). With
//! timings (see [`super::tune`]) `auto` loads the library wherever there is one, and takes the faster for each shape.
//!
//! A handle belongs to one stream at a time, so that the workspace behind it is used in that stream's order, and is
//! locked while a product is given to it. One whose stream or thread is gone waits for the next that needs one.

mod cublas;
mod rocblas;
mod vendor;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, RwLock};

use super::problem::GemmProblem;
use crate::base::dynamic_library::{Found, Search};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::{hipStream_t, STREAM_PER_THREAD};
use crate::device::Device;
use crate::pool::{RawEvent, StreamKey};
use crate::runtime::RuntimeKind;
use crate::stream::queue::Stream;
use vendor::{Failure, Handle, Status, Vendor};

/// The variable that says who multiplies matrices.
pub const GEMM_VARIABLE: &str = "CANDLE_ROCM_GEMM";

/// The variable that names the vendor's library to load, and the only place then looked at.
pub const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_BLAS_LIBRARY";

/// Who multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmChoice {
    /// Our own kernels.
    Own,
    /// The vendor's library; that there is none is an error.
    Library,
    /// The vendor's library on NVIDIA GPUs if it can be loaded, else our own kernels.
    Auto,
}

impl FromStr for GemmChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "own" => Ok(Self::Own),
            "library" => Ok(Self::Library),
            "auto" | "" => Ok(Self::Auto),
            _ => Err(Error::invalid(format!(
                "{GEMM_VARIABLE}={text}: the choices are own, library and auto"
            ))),
        }
    }
}

impl GemmChoice {
    /// What the environment asks for, read once.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn current() -> Result<Self> {
        static CHOICE: OnceLock<Result<GemmChoice>> = OnceLock::new();
        CHOICE
            .get_or_init(|| {
                std::env::var(GEMM_VARIABLE)
                    .unwrap_or_default()
                    .trim()
                    .parse()
            })
            .clone()
    }
}

/// The vendor's library on one GPU.
pub struct Library {
    vendor: Box<dyn Vendor>,
    /// Its name, version and path.
    description: String,
    /// Bytes of workspace of each handle.
    workspace: usize,
    /// Whether it multiplies where nothing was timed.
    is_default: bool,
    handles: RwLock<HashMap<StreamKey, Arc<Bound>, RandomState>>,
    /// Handles whose stream or thread is gone.
    idle: Mutex<Vec<Idle>>,
}

/// A handle that gives its products to one stream.
struct Bound {
    handle: Mutex<Handle>,
    workspace: u64,
}

struct Idle {
    bound: Bound,
    /// After the last work of its stream; none if that was the stream of a thread that has ended, which only the
    /// legacy default stream can name.
    last_work: Option<RawEvent>,
}

/// Further handles are destroyed, which waits for the GPU.
const MOST_IDLE: usize = 8;

impl Library {
    /// Loads the library that this GPU's runtime goes with.
    fn load(device: &Arc<Device>, is_default: bool) -> Result<Self> {
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
        let mut library = Self {
            description: format!("{} ({path})", vendor.name()),
            workspace: vendor.workspace(&device.info().arch),
            vendor,
            is_default,
            handles: RwLock::default(),
            idle: Mutex::default(),
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
    pub(super) fn description(&self) -> &str {
        &self.description
    }

    /// Whether it multiplies where nothing was timed.
    pub(super) fn is_default(&self) -> bool {
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

    /// The handle of this stream. The GPU is current on this thread.
    fn bound(&self, stream: &Stream) -> Result<Arc<Bound>> {
        let key = stream.key();
        if let Some(bound) = self.handles.read().get(&key) {
            return Ok(bound.clone());
        }
        // Held while a handle is made, so that a stream gets no second one.
        let mut handles = self.handles.write();
        if let Some(bound) = handles.get(&key) {
            return Ok(bound.clone());
        }
        let device = stream.context().device();
        // A stream that is captured cannot wait for work outside of the capture.
        let idle = if device.pool().is_any_capturing() {
            None
        } else {
            self.idle.lock().pop()
        };
        let bound = match idle {
            Some(idle) => {
                let hip = device.hip();
                match idle.last_work {
                    Some(event) => event.wait_on(hip, stream.raw())?,
                    None => {
                        RawEvent::record(hip, std::ptr::null_mut())?.wait_on(hip, stream.raw())?
                    }
                }
                idle.bound
            }
            None => self.new_bound(device)?,
        };
        // SAFETY: the handle is not in use, and it lets go of the stream before that is destroyed.
        let status = unsafe {
            self.vendor.set_stream(
                &bound.handle.lock(),
                stream.raw(),
                bound.workspace as *mut c_void,
                self.workspace,
            )
        };
        if status != 0 {
            self.destroy(device, &bound);
            return Err(self
                .error(status)
                .context("setting the stream of matrix products"));
        }
        if key.is_per_thread() {
            note_thread_end(device.runtime().device(device.ordinal())?);
        }
        let bound = Arc::new(bound);
        handles.insert(key, bound.clone());
        Ok(bound)
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
    /// As [`super::gemm_strided_batched`].
    pub(super) unsafe fn gemm(&self, stream: &Stream, problem: &GemmProblem) -> Result<bool> {
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

    /// The stream is about to be destroyed, or its thread has ended: its handle waits for another.
    pub(crate) fn release(&self, device: &Device, key: StreamKey) {
        let Some(bound) = self.handles.write().remove(&key) else {
            return;
        };
        // A product that is being given to the handle right now would be one given to a dead stream.
        let Some(bound) = Arc::into_inner(bound) else {
            return;
        };
        if key.is_per_thread() {
            // A thread that ends calls the driver no more; the threads after it take the handles over.
            self.idle.lock().push(Idle {
                bound,
                last_work: None,
            });
            return;
        }
        let mut idle = self.idle.lock();
        if idle.len() < MOST_IDLE {
            if let Ok(event) = RawEvent::record(device.hip(), key.stream()) {
                idle.push(Idle {
                    bound,
                    last_work: Some(event),
                });
                return;
            }
        }
        drop(idle);
        self.destroy(device, &bound);
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Library({})", self.description)
    }
}

/// Loads a vendor's library. One that the user named may be the other vendor's: its functions tell.
fn find(search: &Search, what: &str, root: &str) -> Result<(Box<dyn Vendor>, String)> {
    let Found { library, path } = search.load().map_err(|tried| {
        Error::new(
            ErrorKind::Runtime,
            format!(
                "{what} was not found. Install it, or set {root} to where it is, or {LIBRARY_VARIABLE} to the library \
                 itself; {GEMM_VARIABLE}=own multiplies by our own kernels. Tried:\n{tried}"
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

/// The library that multiplies on this GPU; `None` if our own kernels do.
///
/// # Errors
/// The choice is senseless, or it is `library` and there is none.
pub(crate) fn of(device: &Arc<Device>) -> Result<Option<&Library>> {
    match device.gemm_library().get_or_init(|| select(device)) {
        Ok(library) => Ok(library.as_ref()),
        Err(error) => Err(error.clone()),
    }
}

fn select(device: &Arc<Device>) -> Result<Option<Library>> {
    match (GemmChoice::current()?, device.runtime().kind()) {
        (GemmChoice::Own, _) => Ok(None),
        (GemmChoice::Library, _) => Library::load(device, true).map(Some),
        (GemmChoice::Auto, RuntimeKind::Nvidia) => Ok(Library::load(device, true)
            .inspect_err(|error| tracing::warn!(%error, "our own kernels multiply matrices"))
            .ok()),
        // Ours, until the two have been compared on this GPU.
        (GemmChoice::Auto, RuntimeKind::Amd | RuntimeKind::Emulator) if super::tune::is_on()? => {
            Ok(Library::load(device, false)
                .inspect_err(|error| tracing::debug!(%error, "our own kernels alone are timed"))
                .ok())
        }
        (GemmChoice::Auto, RuntimeKind::Amd | RuntimeKind::Emulator) => Ok(None),
    }
}

/// Makes the stream's handle before a capture, in which making it is forbidden.
pub(crate) fn prepare(stream: &Stream) -> Result<()> {
    if let Some(library) = of(stream.context().device())? {
        library.bound(stream)?;
    }
    Ok(())
}

/// Who multiplies matrices on this stream's GPU, in words.
///
/// # Errors
/// As [`super::gemm_strided_batched`], where the library cannot be had.
pub fn describe(stream: &Stream) -> Result<String> {
    Ok(match of(stream.context().device())? {
        Some(library) if library.is_default => library.description.clone(),
        Some(library) => format!(
            "our own kernels, or where it was faster {}",
            library.description
        ),
        None => "our own kernels".to_owned(),
    })
}

thread_local! {
    /// The GPUs on which this thread's own stream has a handle.
    static THREADS_HANDLES: ThreadsHandles = const { ThreadsHandles(RefCell::new(Vec::new())) };
}

struct ThreadsHandles(RefCell<Vec<(&'static Arc<Device>, StreamKey)>>);

fn note_thread_end(device: &'static Arc<Device>) {
    let key = StreamKey::of(STREAM_PER_THREAD);
    // Where the thread is already ending, its handle stays with it.
    let _ = THREADS_HANDLES.try_with(|handles| handles.0.borrow_mut().push((device, key)));
}

impl Drop for ThreadsHandles {
    fn drop(&mut self) {
        for (device, key) in self.0.get_mut().drain(..) {
            if let Some(Ok(Some(library))) = device.gemm_library().get() {
                library.release(device, key);
            }
        }
    }
}

impl StreamKey {
    fn stream(self) -> hipStream_t {
        self.raw as hipStream_t
    }
}
