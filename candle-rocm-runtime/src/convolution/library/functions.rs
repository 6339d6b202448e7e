//! MIOpen's functions, under the names and types of its C header.

use std::ffi::{c_char, c_int, c_void, CStr};

use libloading::Library;

use crate::base::dynamic_library::function;
use crate::base::hip::types::hipStream_t;
use crate::convolution::description::Operation;

/// A handle or a description.
pub(super) type Raw = *mut c_void;

/// `miopenStatus_t`; 0 is success.
pub(super) type Status = c_int;

/// `miopenStatusAllocFailed`.
pub(super) const ALLOC_FAILED: Status = 4;
/// `miopenStatusBadParm`, `miopenStatusNotImplemented` and `miopenStatusUnsupportedOp`: no such convolution is there.
pub(super) const NOT_THERE: [Status; 3] = [3, 6, 8];

/// `miopenConvAlgoPerf_t`: an algorithm that was found.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Found {
    pub algorithm: c_int,
    pub milliseconds: f32,
    pub workspace: usize,
}

pub(super) type Create = unsafe extern "C" fn(*mut Raw) -> Status;
pub(super) type Destroy = unsafe extern "C" fn(Raw) -> Status;
type SetStream = unsafe extern "C" fn(Raw, hipStream_t) -> Status;
type Version = unsafe extern "C" fn(*mut usize, *mut usize, *mut usize) -> Status;
type ErrorName = unsafe extern "C" fn(Status) -> *const c_char;
type SetTensor = unsafe extern "C" fn(Raw, c_int, c_int, *const c_int, *const c_int) -> Status;
type SetConvolution =
    unsafe extern "C" fn(Raw, c_int, *const c_int, *const c_int, *const c_int, c_int) -> Status;
type SetGroups = unsafe extern "C" fn(Raw, c_int) -> Status;
/// Handle, two operands, convolution, result.
type Workspace = unsafe extern "C" fn(Raw, Raw, Raw, Raw, Raw, *mut usize) -> Status;
/// Handle, two operands and their addresses, convolution, result and its address, how many algorithms are wanted, how
/// many were found, those, workspace, whether all are tried.
type Find = unsafe extern "C" fn(
    Raw,
    Raw,
    u64,
    Raw,
    u64,
    Raw,
    Raw,
    u64,
    c_int,
    *mut c_int,
    *mut Found,
    u64,
    usize,
    bool,
) -> Status;
/// Handle, alpha, two operands and their addresses, convolution, algorithm, beta, result and its address, workspace.
type Convolve = unsafe extern "C" fn(
    Raw,
    *const f32,
    Raw,
    u64,
    Raw,
    u64,
    Raw,
    c_int,
    *const f32,
    Raw,
    u64,
    u64,
    usize,
) -> Status;

/// The functions of an operation.
pub(super) struct OfOperation {
    pub workspace: Workspace,
    pub find: Find,
    pub convolve: Convolve,
}

/// MIOpen's functions.
pub(super) struct Functions {
    pub create: Create,
    pub set_stream: SetStream,
    version: Version,
    error_name: ErrorName,
    pub create_tensor: Create,
    pub set_tensor: SetTensor,
    pub destroy_tensor: Destroy,
    pub create_convolution: Create,
    pub set_convolution: SetConvolution,
    pub set_groups: SetGroups,
    pub destroy_convolution: Destroy,
    forward: OfOperation,
    data: OfOperation,
    weights: OfOperation,
}

impl Functions {
    /// The functions of a library, or the name of one that it lacks.
    pub fn of(library: &'static Library) -> Result<Self, &'static str> {
        // SAFETY: the types are those that MIOpen's header gives for these names.
        unsafe {
            Ok(Self {
                create: function(library, "miopenCreate")?,
                set_stream: function(library, "miopenSetStream")?,
                version: function(library, "miopenGetVersion")?,
                error_name: function(library, "miopenGetErrorString")?,
                create_tensor: function(library, "miopenCreateTensorDescriptor")?,
                set_tensor: function(library, "miopenSetTensorDescriptor")?,
                destroy_tensor: function(library, "miopenDestroyTensorDescriptor")?,
                create_convolution: function(library, "miopenCreateConvolutionDescriptor")?,
                set_convolution: function(library, "miopenInitConvolutionNdDescriptor")?,
                set_groups: function(library, "miopenSetConvolutionGroupCount")?,
                destroy_convolution: function(library, "miopenDestroyConvolutionDescriptor")?,
                forward: OfOperation {
                    workspace: function(library, "miopenConvolutionForwardGetWorkSpaceSize")?,
                    find: function(library, "miopenFindConvolutionForwardAlgorithm")?,
                    convolve: function(library, "miopenConvolutionForward")?,
                },
                data: OfOperation {
                    workspace: function(library, "miopenConvolutionBackwardDataGetWorkSpaceSize")?,
                    find: function(library, "miopenFindConvolutionBackwardDataAlgorithm")?,
                    convolve: function(library, "miopenConvolutionBackwardData")?,
                },
                weights: OfOperation {
                    workspace: function(
                        library,
                        "miopenConvolutionBackwardWeightsGetWorkSpaceSize",
                    )?,
                    find: function(library, "miopenFindConvolutionBackwardWeightsAlgorithm")?,
                    convolve: function(library, "miopenConvolutionBackwardWeights")?,
                },
            })
        }
    }

    /// Those of an operation.
    pub fn of_operation(&self, operation: Operation) -> &OfOperation {
        match operation {
            Operation::Forward => &self.forward,
            Operation::Data => &self.data,
            Operation::Weights => &self.weights,
        }
    }

    /// `3.4.0`, or nothing where the library does not tell.
    pub fn version(&self) -> Option<String> {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: the outputs are writable.
        let status = unsafe { (self.version)(&mut major, &mut minor, &mut patch) };
        (status == 0).then(|| format!("{major}.{minor}.{patch}"))
    }

    /// The library's name for a status.
    pub fn name_of(&self, status: Status) -> String {
        // SAFETY: any number is a status to it.
        let name = unsafe { (self.error_name)(status) };
        if name.is_null() {
            return "an unknown status".to_owned();
        }
        // SAFETY: a text of the library's, which stays.
        let name = unsafe { CStr::from_ptr(name) };
        name.to_string_lossy().into_owned()
    }
}
