//! HIP's status codes, and an error that carries one with an account of what went wrong.

use std::ffi::CStr;
use std::fmt;

/// A failed HIP call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HipError {
    /// The status that the C function returns.
    pub code: Code,
    /// What went wrong, where HIP's own text does not tell.
    pub message: Option<String>,
}

impl HipError {
    /// A status with an account.
    pub fn new(code: Code, message: impl Into<String>) -> HipError {
        HipError {
            code,
            message: Some(message.into()),
        }
    }
}

impl From<Code> for HipError {
    fn from(code: Code) -> HipError {
        HipError {
            code,
            message: None,
        }
    }
}

impl fmt::Display for HipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code.name().to_string_lossy())?;
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for HipError {}

/// What the functions of this module give.
pub type Result<T = ()> = std::result::Result<T, HipError>;

macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// `hipError_t`, the failures that the emulator knows to name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        #[repr(u32)]
        pub enum Code { $($variant = $number,)* }

        /// (number, name, text) of each status, success first.
        const CODES: &[(u32, &CStr, &CStr)] = &[
            (0, c"hipSuccess", c"no error"),
            $(($number, $name, $text),)*
        ];
    };
}

codes! {
    InvalidValue = 1, c"hipErrorInvalidValue", c"invalid argument";
    OutOfMemory = 2, c"hipErrorOutOfMemory", c"out of memory";
    NotInitialized = 3, c"hipErrorNotInitialized", c"initialization error";
    Deinitialized = 4, c"hipErrorDeinitialized", c"driver shutting down";
    ProfilerDisabled = 5, c"hipErrorProfilerDisabled", c"profiler disabled while using external profiling tool";
    ProfilerNotInitialized = 6, c"hipErrorProfilerNotInitialized", c"profiler is not initialized";
    ProfilerAlreadyStarted = 7, c"hipErrorProfilerAlreadyStarted", c"profiler already started";
    ProfilerAlreadyStopped = 8, c"hipErrorProfilerAlreadyStopped", c"profiler already stopped";
    InvalidConfiguration = 9, c"hipErrorInvalidConfiguration", c"invalid configuration argument";
    InvalidPitchValue = 12, c"hipErrorInvalidPitchValue", c"invalid pitch argument";
    InvalidSymbol = 13, c"hipErrorInvalidSymbol", c"invalid device symbol";
    InvalidDevicePointer = 17, c"hipErrorInvalidDevicePointer", c"invalid device pointer";
    InvalidMemcpyDirection = 21, c"hipErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy";
    InsufficientDriver = 35, c"hipErrorInsufficientDriver", c"driver version is insufficient for runtime version";
    MissingConfiguration = 52, c"hipErrorMissingConfiguration", c"__global__ function call is not configured";
    PriorLaunchFailure = 53, c"hipErrorPriorLaunchFailure", c"unspecified launch failure in prior launch";
    InvalidDeviceFunction = 98, c"hipErrorInvalidDeviceFunction", c"invalid device function";
    NoDevice = 100, c"hipErrorNoDevice", c"no ROCm-capable device is detected";
    InvalidDevice = 101, c"hipErrorInvalidDevice", c"invalid device ordinal";
    InvalidImage = 200, c"hipErrorInvalidImage", c"device kernel image is invalid";
    InvalidContext = 201, c"hipErrorInvalidContext", c"invalid device context";
    ContextAlreadyCurrent = 202, c"hipErrorContextAlreadyCurrent", c"context is already current context";
    MapFailed = 205, c"hipErrorMapFailed", c"mapping of buffer object failed";
    UnmapFailed = 206, c"hipErrorUnmapFailed", c"unmapping of buffer object failed";
    ArrayIsMapped = 207, c"hipErrorArrayIsMapped", c"array is mapped";
    AlreadyMapped = 208, c"hipErrorAlreadyMapped", c"resource already mapped";
    NoBinaryForGpu = 209, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device";
    AlreadyAcquired = 210, c"hipErrorAlreadyAcquired", c"resource already acquired";
    NotMapped = 211, c"hipErrorNotMapped", c"resource not mapped";
    NotMappedAsArray = 212, c"hipErrorNotMappedAsArray", c"resource not mapped as array";
    NotMappedAsPointer = 213, c"hipErrorNotMappedAsPointer", c"resource not mapped as pointer";
    EccNotCorrectable = 214, c"hipErrorECCNotCorrectable", c"uncorrectable ECC error encountered";
    UnsupportedLimit = 215, c"hipErrorUnsupportedLimit", c"limit is not supported on this architecture";
    ContextAlreadyInUse = 216, c"hipErrorContextAlreadyInUse", c"exclusive-thread device already in use by a different thread";
    PeerAccessUnsupported = 217, c"hipErrorPeerAccessUnsupported", c"peer access is not supported between these two devices";
    InvalidKernelFile = 218, c"hipErrorInvalidKernelFile", c"invalid kernel file";
    InvalidGraphicsContext = 219, c"hipErrorInvalidGraphicsContext", c"invalid OpenGL or DirectX context";
    InvalidSource = 300, c"hipErrorInvalidSource", c"device kernel image is invalid";
    FileNotFound = 301, c"hipErrorFileNotFound", c"file not found";
    SharedObjectSymbolNotFound = 302, c"hipErrorSharedObjectSymbolNotFound", c"shared object symbol not found";
    SharedObjectInitFailed = 303, c"hipErrorSharedObjectInitFailed", c"shared object initialization failed";
    OperatingSystem = 304, c"hipErrorOperatingSystem", c"OS call failed or operation not supported on this OS";
    InvalidHandle = 400, c"hipErrorInvalidHandle", c"invalid resource handle";
    IllegalState = 401, c"hipErrorIllegalState", c"the operation cannot be performed in the present state";
    NotFound = 500, c"hipErrorNotFound", c"named symbol not found";
    NotReady = 600, c"hipErrorNotReady", c"device not ready";
    IllegalAddress = 700, c"hipErrorIllegalAddress", c"an illegal memory access was encountered";
    LaunchOutOfResources = 701, c"hipErrorLaunchOutOfResources", c"too many resources requested for launch";
    LaunchTimeOut = 702, c"hipErrorLaunchTimeOut", c"the launch timed out and was terminated";
    PeerAccessAlreadyEnabled = 704, c"hipErrorPeerAccessAlreadyEnabled", c"peer access is already enabled";
    PeerAccessNotEnabled = 705, c"hipErrorPeerAccessNotEnabled", c"peer access has not been enabled";
    SetOnActiveProcess = 708, c"hipErrorSetOnActiveProcess", c"cannot set while device is active in this process";
    ContextIsDestroyed = 709, c"hipErrorContextIsDestroyed", c"context is destroyed";
    Assert = 710, c"hipErrorAssert", c"device-side assert triggered";
    HostMemoryAlreadyRegistered = 712, c"hipErrorHostMemoryAlreadyRegistered", c"part or all of the requested memory range is already mapped";
    HostMemoryNotRegistered = 713, c"hipErrorHostMemoryNotRegistered", c"pointer does not correspond to a registered memory region";
    LaunchFailure = 719, c"hipErrorLaunchFailure", c"unspecified launch failure";
    CooperativeLaunchTooLarge = 720, c"hipErrorCooperativeLaunchTooLarge", c"too many blocks in cooperative launch";
    NotSupported = 801, c"hipErrorNotSupported", c"operation not supported";
    StreamCaptureUnsupported = 900, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing";
    StreamCaptureInvalidated = 901, c"hipErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture";
    StreamCaptureMerge = 902, c"hipErrorStreamCaptureMerge", c"operation would result in a merge of separate capture sequences";
    StreamCaptureUnmatched = 903, c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began";
    StreamCaptureUnjoined = 904, c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work";
    StreamCaptureIsolation = 905, c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream";
    StreamCaptureImplicit = 906, c"hipErrorStreamCaptureImplicit", c"operation would make the legacy stream depend on a capturing blocking stream";
    CapturedEvent = 907, c"hipErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream";
    StreamCaptureWrongThread = 908, c"hipErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread";
    GraphExecUpdateFailure = 910, c"hipErrorGraphExecUpdateFailure", c"the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    Unknown = 999, c"hipErrorUnknown", c"unknown error";
    RuntimeMemory = 1052, c"hipErrorRuntimeMemory", c"runtime memory call returned error";
    RuntimeOther = 1053, c"hipErrorRuntimeOther", c"runtime call other than memory returned error";
}

impl Code {
    /// HIP's name, such as `hipErrorInvalidValue`.
    pub fn name(self) -> &'static CStr {
        name(self as u32)
    }
}

fn row(number: u32) -> Option<&'static (u32, &'static CStr, &'static CStr)> {
    CODES.iter().find(|row| row.0 == number)
}

/// The name of a status number; `hipErrorUnknown` for a number without one.
pub fn name(number: u32) -> &'static CStr {
    row(number).map_or(c"hipErrorUnknown", |row| row.1)
}

/// The text of a status number.
pub fn text(number: u32) -> &'static CStr {
    row(number).map_or(c"unknown error", |row| row.2)
}

/// Whether the number is one that HIP defines.
pub fn is_known(number: u32) -> bool {
    row(number).is_some()
}
