//! What a vendor's library of matrix products is to us: a few functions, under one signature for all vendors.

use std::ffi::{c_int, c_void};

pub(super) use crate::base::dynamic_library::function;
use crate::base::hip::types::hipStream_t;
use crate::gemm::problem::GemmProblem;

/// A library's handle: its state on one GPU, tied to a stream.
#[derive(Debug)]
pub struct Handle(pub *mut c_void);

// SAFETY: both vendors let any thread use a handle, one at a time.
unsafe impl Send for Handle {}

/// What a function of the library answered; 0 is success.
pub type Status = c_int;

/// What a failure means to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The library has no such product: our own kernels compute it.
    NotSupported,
    /// The device has no memory left.
    OutOfMemory,
    /// Anything else.
    Other,
}

/// What all libraries do with handles, under signatures that all have.
pub(super) struct Handles {
    create: unsafe extern "C" fn(*mut *mut c_void) -> Status,
    destroy: unsafe extern "C" fn(*mut c_void) -> Status,
    set_stream: unsafe extern "C" fn(*mut c_void, hipStream_t) -> Status,
}

impl Handles {
    /// The functions of these names; the error is one that the library lacks.
    ///
    /// # Safety
    /// The functions that have these names make a handle, destroy it and set its stream, and return a status.
    pub unsafe fn of(
        library: &'static libloading::Library,
        [create, destroy, set_stream]: [&'static str; 3],
    ) -> Result<Self, &'static str> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Self {
                create: function(library, create)?,
                destroy: function(library, destroy)?,
                set_stream: function(library, set_stream)?,
            })
        }
    }

    /// A handle on the current GPU.
    pub fn create(&self) -> Result<Handle, Status> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the output is writable.
        match unsafe { (self.create)(&mut handle) } {
            0 => Ok(Handle(handle)),
            status => Err(status),
        }
    }

    /// Destroys a handle; waits for its work.
    ///
    /// # Safety
    /// The handle is this library's, and not used afterwards.
    pub unsafe fn destroy(&self, handle: &Handle) {
        // SAFETY: the caller's promise. A failure leaves nothing to do.
        unsafe { (self.destroy)(handle.0) };
    }

    /// Gives further products to `stream`.
    ///
    /// # Safety
    /// The handle is this library's; the stream is alive as long as products are given to it.
    pub unsafe fn set_stream(&self, handle: &Handle, stream: hipStream_t) -> Status {
        // SAFETY: the caller's promise.
        unsafe { (self.set_stream)(handle.0, stream) }
    }
}

/// The functions of a vendor's library.
pub(super) trait Vendor: Send + Sync {
    /// The library's name, for messages.
    fn name(&self) -> &'static str;

    /// Its handles.
    fn handles(&self) -> &Handles;

    /// The library's version, if it tells.
    ///
    /// # Safety
    /// The handle is this library's.
    unsafe fn version(&self, handle: &Handle) -> Option<String>;

    /// Gives further products to `stream`, with `bytes` of device memory at `workspace` to work in if the
    /// vendor takes any.
    ///
    /// # Safety
    /// The handle is this library's; stream and workspace are alive as long as products are given to them.
    unsafe fn set_stream(
        &self,
        handle: &Handle,
        stream: hipStream_t,
        _workspace: *mut c_void,
        _bytes: usize,
    ) -> Status {
        // SAFETY: the caller's promise.
        unsafe { self.handles().set_stream(handle, stream) }
    }

    /// Bytes of workspace that a handle should have on this architecture; 0 if the library brings its own.
    fn workspace(&self, arch: &str) -> usize;

    /// Gives the products to the handle's stream.
    ///
    /// # Safety
    /// The handle is this library's, and the addresses are those of the matrices that `problem` describes.
    unsafe fn gemm(&self, handle: &Handle, problem: &GemmProblem) -> Status;

    /// What the failure means, and the vendor's name for it.
    fn failure(&self, status: Status) -> (Failure, &'static str);
}

/// A factor in the type that the library reads it in.
#[repr(C, align(8))]
pub(super) union Scalar {
    half: half::f16,
    single: f32,
    double: f64,
    whole: i32,
}

impl Scalar {
    pub fn half(value: f64) -> Self {
        Self {
            half: half::f16::from_f64(value),
        }
    }

    pub fn single(value: f64) -> Self {
        Self {
            single: value as f32,
        }
    }

    pub fn double(value: f64) -> Self {
        Self { double: value }
    }

    pub fn whole(value: f64) -> Self {
        Self {
            whole: value as i32,
        }
    }

    pub fn as_ptr(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}
