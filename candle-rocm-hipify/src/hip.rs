//! CUDA's names changed to HIP's, in source that stays as it is otherwise.
//!
//! Names alone are changed: headers, the runtime's functions and types, small floats, cub. What names do not tell stays for
//! a reader: inline PTX, and that a warp has 64 lanes on some GPUs in HIP.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Headers, and HIP's in their place.
const HEADERS: &[(&str, &str)] = &[
    ("cuda.h", "hip/hip_runtime.h"),
    ("cuda_runtime.h", "hip/hip_runtime.h"),
    ("cuda_runtime_api.h", "hip/hip_runtime_api.h"),
    ("device_launch_parameters.h", "hip/hip_runtime.h"),
    ("cuda_fp16.h", "hip/hip_fp16.h"),
    ("cuda_bf16.h", "hip/hip_bf16.h"),
    ("cuda_fp8.h", "hip/hip_fp8.h"),
    ("cooperative_groups.h", "hip/hip_cooperative_groups.h"),
    ("vector_types.h", "hip/hip_vector_types.h"),
    ("math_constants.h", "hip/hip_math_constants.h"),
    ("cub/cub.cuh", "hipcub/hipcub.hpp"),
    ("mma.h", "rocwmma/rocwmma.hpp"),
    ("cublas_v2.h", "hipblas/hipblas.h"),
    ("curand_kernel.h", "hiprand/hiprand_kernel.h"),
];

/// Names that are not CUDA's with `hip` in place of `cuda`.
const NAMES: &[(&str, &str)] = &[
    ("__nv_bfloat16", "__hip_bfloat16"),
    ("nv_bfloat16", "__hip_bfloat16"),
    ("__nv_bfloat162", "__hip_bfloat162"),
    ("nv_bfloat162", "__hip_bfloat162"),
    ("__nv_fp8_e4m3", "__hip_fp8_e4m3"),
    ("__nv_fp8_e5m2", "__hip_fp8_e5m2"),
    ("cub", "hipcub"),
    ("nvcuda", "rocwmma"),
    ("cudaMallocHost", "hipHostMalloc"),
    ("cudaHostAlloc", "hipHostMalloc"),
    ("cudaFreeHost", "hipHostFree"),
    ("cudaDeviceProp", "hipDeviceProp_t"),
    ("cudaDeviceAttr", "hipDeviceAttribute_t"),
    (
        "cudaDevAttrMultiProcessorCount",
        "hipDeviceAttributeMultiprocessorCount",
    ),
    ("cudaDevAttrWarpSize", "hipDeviceAttributeWarpSize"),
    (
        "cudaDevAttrMaxSharedMemoryPerBlock",
        "hipDeviceAttributeMaxSharedMemoryPerBlock",
    ),
    (
        "cudaDevAttrMaxSharedMemoryPerBlockOptin",
        "hipDeviceAttributeSharedMemPerBlockOptin",
    ),
    (
        "cudaDevAttrComputeCapabilityMajor",
        "hipDeviceAttributeComputeCapabilityMajor",
    ),
    (
        "cudaDevAttrComputeCapabilityMinor",
        "hipDeviceAttributeComputeCapabilityMinor",
    ),
    ("cudaErrorMemoryAllocation", "hipErrorOutOfMemory"),
    ("cudaErrorInitializationError", "hipErrorNotInitialized"),
    ("CUstream", "hipStream_t"),
    ("CUevent", "hipEvent_t"),
    ("CUmodule", "hipModule_t"),
    ("CUfunction", "hipFunction_t"),
    ("CUdeviceptr", "hipDeviceptr_t"),
    ("__CUDACC__", "__HIPCC__"),
];

/// Numbers, comments, text, includes and names, in this order of preference.
static PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let parts = concat!(
        r#"(?s)(?P<kept>\b\d[\w.']*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])+')"#,
        r#"|(?P<before>\#[ \t]*include[ \t]*)[<"](?P<header>[^>"\n]+)[>"]"#,
        r#"|\b(?P<name>[A-Za-z_]\w*)\b"#,
    );
    // Of constant text, which the tests compile.
    Regex::new(parts).unwrap_or_else(|error| unreachable!("{error}"))
});

/// HIP made of CUDA. Lines keep their numbers.
pub fn source(cuda: &str) -> String {
    let changed = PARTS.replace_all(cuda, |found: &Captures<'_>| {
        let whole = &found[0];
        if found.name("kept").is_some() {
            return whole.to_owned();
        }
        if let (Some(before), Some(header)) = (found.name("before"), found.name("header")) {
            let known = HEADERS.iter().find(|(cuda, _)| *cuda == header.as_str());
            return known.map_or_else(
                || whole.to_owned(),
                |(_, hip)| format!("{}<{hip}>", before.as_str()),
            );
        }
        name(whole)
    });
    changed.into_owned()
}

fn name(cuda: &str) -> String {
    if let Some((_, hip)) = NAMES.iter().find(|(known, _)| *known == cuda) {
        return (*hip).to_owned();
    }
    match cuda.strip_prefix("cuda") {
        // The runtime's: cudaMalloc and all others.
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_uppercase()) => format!("hip{rest}"),
        _ => cuda.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn names_change_and_the_rest_stays() {
        let cuda = "#include <cuda_runtime.h>\n# include \"own.cuh\"\n// cudaMalloc\n\
                    cudaStream_t s; nv_bfloat16 x; /* cudaFree\n */ cudaError_t e = cudaMallocHost(&p, 4);\n\
                    printf(\"cudaMalloc \\\" %d\", e); int cudagraph = 'c'; cub::BlockReduce<int, 32> r;\n";
        let hip = "#include <hip/hip_runtime.h>\n# include \"own.cuh\"\n// cudaMalloc\n\
                   hipStream_t s; __hip_bfloat16 x; /* cudaFree\n */ hipError_t e = hipHostMalloc(&p, 4);\n\
                   printf(\"cudaMalloc \\\" %d\", e); int cudagraph = 'c'; hipcub::BlockReduce<int, 32> r;\n";
        assert_eq!(source(cuda), hip);
    }

    #[test]
    fn digits_with_separators_are_no_text() {
        assert_eq!(
            source("int x = 1'000; cudaFree(p);"),
            "int x = 1'000; hipFree(p);"
        );
    }
}
