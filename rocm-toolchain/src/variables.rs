//! The variables of the environment that choose compilers, targets and folders.

/// A comma-separated list of processors and generic targets, `native` for the processors of this machine, or `default`.
pub const ARCHS: &str = "CANDLE_ROCM_ARCHS";
/// Leaves the kernels out of a build, and needs no compiler for them: for checks and documentation.
pub const SKIP_KERNELS: &str = "CANDLE_ROCM_SKIP_KERNELS";
/// Names the compiler to use, instead of the search.
pub const CLANG: &str = "CANDLE_ROCM_CLANG";
/// Names the folder with `ocml.bc`, instead of the search.
pub const DEVICE_LIBS: &str = "CANDLE_ROCM_DEVICE_LIBS";
/// Where ROCm is installed, as ROCm's own tools understand them.
pub const ROCM: [&str; 2] = ["ROCM_PATH", "HIP_PATH"];
/// The Python environment that is active, in which AMD's wheels may be.
pub const VIRTUAL_ENV: &str = "VIRTUAL_ENV";
/// Names libdevice's file, instead of the search.
pub const LIBDEVICE: &str = "CANDLE_ROCM_LIBDEVICE";
/// Where CUDA is installed, as other builds understand them.
pub const CUDA: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// Names the folder of compiled kernels, instead of the one in the user's cache.
pub const KERNEL_CACHE: &str = "CANDLE_ROCM_KERNEL_CACHE";
/// How large that folder may grow, such as `500MiB`.
pub const KERNEL_CACHE_SIZE: &str = "CANDLE_ROCM_KERNEL_CACHE_SIZE";
/// Names another `__CUDA_ARCH__` for other people's CUDA, such as `700`.
pub const CUDA_ARCH: &str = "CANDLE_ROCM_CUDA_ARCH";

/// Those on which compiled kernels of this project depend, for `cargo::rerun-if-env-changed`.
pub fn of_kernels() -> impl Iterator<Item = &'static str> {
    let own = [
        SKIP_KERNELS,
        KERNEL_CACHE,
        KERNEL_CACHE_SIZE,
        ARCHS,
        CLANG,
        DEVICE_LIBS,
        LIBDEVICE,
    ];
    own.into_iter().chain(ROCM).chain([VIRTUAL_ENV]).chain(CUDA)
}

/// Whether [`SKIP_KERNELS`] asks for a build without kernels.
pub fn skip_kernels() -> bool {
    std::env::var(SKIP_KERNELS).is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
}
