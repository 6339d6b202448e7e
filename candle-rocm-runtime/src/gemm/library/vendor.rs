//! What a vendor's library of matrix products is to us: a few functions, under one signature for all vendors.

use std::ffi::{c_int, c_void};

use crate::dynamic_library;
use crate::gemm::GemmProblem;
use crate::hip::types::hipStream_t;

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

/// The functions of a vendor's library.
pub trait Vendor: Send + Sync {
    /// The library's name, for messages.
    fn name(&self) -> &'static str;

    /// A handle on the current GPU.
    fn create(&self) -> Result<Handle, Status>;

    /// Destroys a handle; waits for its work.
    ///
    /// # Safety
    /// The handle is this library's, and not used afterwards.
    unsafe fn destroy(&self, handle: &Handle);

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
        workspace: *mut c_void,
        bytes: usize,
    ) -> Status;

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

/// Looks up a function by its C name; the error is that name.
///
/// # Safety
/// `F` is the type of the C function that has this name, as a function pointer.
pub(super) unsafe fn function<F: Copy>(
    library: &'static libloading::Library,
    name: &'static str,
) -> Result<F, &'static str> {
    const { assert!(std::mem::size_of::<F>() == std::mem::size_of::<*mut c_void>()) };
    let pointer = dynamic_library::symbol(library, name).ok_or(name)?;
    // SAFETY: a function pointer by the caller's promise, which has the size of an address.
    Ok(unsafe { std::mem::transmute_copy(&pointer) })
}

/// A factor in the type that the library reads it in.
#[repr(C, align(8))]
pub(super) union Scalar {
    half: half::f16,
    single: f32,
    double: f64,
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

    pub fn as_ptr(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }
}
