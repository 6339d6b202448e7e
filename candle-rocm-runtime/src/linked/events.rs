//! GPUs, streams and events under the CUDA runtime's names.

use std::ffi::{c_int, c_uint};

use super::errors::returned;
use super::same::same;
use crate::base::hip::calls::optional;
use crate::base::hip::types::{
    hipEvent_t, hipStream_t, CAPTURE_STATUS_NONE, HIP_ERROR_NOT_READY, STREAM_DEFAULT,
};
use crate::runtime;

same! {
    cudaSetDevice => hipSetDevice(device: c_int);
    cudaGetDevice => hipGetDevice(device: *mut c_int);
    cudaGetDeviceCount => hipGetDeviceCount(count: *mut c_int);
    cudaDeviceSynchronize => hipDeviceSynchronize();
    cudaStreamCreate => hipStreamCreateWithFlags(stream: *mut hipStream_t) + STREAM_DEFAULT;
    cudaStreamCreateWithFlags => hipStreamCreateWithFlags(stream: *mut hipStream_t, flags: c_uint);
    cudaStreamDestroy => hipStreamDestroy(stream: hipStream_t);
    cudaStreamSynchronize => hipStreamSynchronize(stream: hipStream_t);
    cudaStreamWaitEvent => hipStreamWaitEvent(stream: hipStream_t, event: hipEvent_t, flags: c_uint);
    cudaEventCreate => hipEventCreateWithFlags(event: *mut hipEvent_t) + 0;
    cudaEventCreateWithFlags => hipEventCreateWithFlags(event: *mut hipEvent_t, flags: c_uint);
    cudaEventRecord => hipEventRecord(event: hipEvent_t, stream: hipStream_t);
    cudaEventSynchronize => hipEventSynchronize(event: hipEvent_t);
    cudaEventElapsedTime => hipEventElapsedTime(milliseconds: *mut f32, start: hipEvent_t, end: hipEvent_t);
    cudaEventDestroy => hipEventDestroy(event: hipEvent_t);
}

/// `cudaEventQuery`: work that is not finished is no error that anybody else should hear of.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaEventQuery(event: hipEvent_t) -> c_int {
    let asked = runtime::current().map(|runtime| {
        let hip = runtime.hip();
        // SAFETY: the caller's promise.
        (hip, unsafe { (hip.hipEventQuery)(event) })
    });
    match asked {
        Ok((_, HIP_ERROR_NOT_READY)) => HIP_ERROR_NOT_READY as c_int,
        Ok((hip, status)) => returned("cudaEventQuery", hip.check(status, || "hipEventQuery")),
        Err(error) => returned("cudaEventQuery", Err(error)),
    }
}

/// `cudaStreamIsCapturing`: CUDA's numbers for the states are HIP's.
///
/// # Safety
/// As CUDA's.
#[no_mangle]
pub unsafe extern "C" fn cudaStreamIsCapturing(stream: hipStream_t, status: *mut c_uint) -> c_int {
    let ask = || {
        let hip = runtime::current()?.hip();
        let mut state = CAPTURE_STATUS_NONE;
        let query = optional!(hip, hipStreamIsCapturing)?;
        // SAFETY: the caller's promise; the output is writable.
        let answer = unsafe { query(stream, &mut state) };
        hip.check(answer, || "hipStreamIsCapturing")?;
        // SAFETY: the caller's promise.
        unsafe { *status = state };
        Ok(())
    };
    returned("cudaStreamIsCapturing", ask())
}
