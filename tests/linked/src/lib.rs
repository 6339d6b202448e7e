//! What the library of `kernels/` has, which the build script made and this crate links.

use std::ffi::{c_char, c_int, c_void};

// The CUDA runtime's functions, which the library calls, are cudarc's; with the feature `nvidia` it has NVIDIA's inside.
use candle_core as _;
use candle_rocm_backend::RuntimeKind;

/// What the tests run on.
pub const RUNTIME: RuntimeKind = match cfg!(feature = "nvidia") {
    true => RuntimeKind::Nvidia,
    false => RuntimeKind::Emulator,
};

extern "C" {
    /// Multiplies floats by 3 and `odd`, or halves by 2 and `even`.
    pub fn launch_scale(
        x: *mut c_void,
        count: c_int,
        is_half: c_int,
        even: f32,
        odd: f32,
        stream: *mut c_void,
    ) -> c_int;
    /// Adds 1.
    pub fn launch_add(x: *mut c_void, count: c_int, stream: *mut c_void) -> c_int;
    /// The same, by blocks in clusters of so many.
    pub fn launch_add_in_clusters(
        x: *mut c_void,
        count: c_int,
        cluster: u32,
        stream: *mut c_void,
    ) -> c_int;
    /// Adds 100.
    pub fn launch_add_hundred(x: *mut c_void, count: c_int, stream: *mut c_void) -> c_int;
    /// Reverses up to 256 floats, in so many bytes of dynamic shared memory.
    pub fn launch_reverse(
        x: *mut c_void,
        count: c_int,
        shared: c_int,
        stream: *mut c_void,
    ) -> c_int;
    /// A launch that fails, and that nobody looks after.
    pub fn launch_too_large(x: *mut c_void, stream: *mut c_void);
    /// What an error is.
    pub fn error_text(error: c_int) -> *const c_char;
    /// The sum of each warp's lanes, for 64 threads.
    pub fn sums_of_lanes(host: *mut u32) -> c_int;
    /// Warp, compute capability, threads of a block, of a kernel's block, whether blocks fit.
    pub fn facts(out: *mut c_int) -> c_int;
    /// How many are odd, the sums before each, the places of the odd ones and their number.
    pub fn odd_ones(
        x: *mut c_void,
        count: c_int,
        odd: *mut c_void,
        sums: *mut c_void,
        places: *mut c_void,
        found: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
    /// Sorts keys of a type by these bits, with their values.
    pub fn sort_by_keys(
        kind: c_int,
        keys: *mut c_void,
        keys_out: *mut c_void,
        values: *mut c_void,
        values_out: *mut c_void,
        count: c_int,
        begin_bit: c_int,
        end_bit: c_int,
        descending: c_int,
        stream: *mut c_void,
    ) -> c_int;
    /// Sorts floats in two buffers, and says which has them.
    pub fn sort_in_buffers(
        keys: *mut c_void,
        others: *mut c_void,
        count: c_int,
        selector: *mut c_int,
        stream: *mut c_void,
    ) -> c_int;
    /// Sums before and with each, the greatest so far, and three numbers of all.
    pub fn scan_and_reduce(
        x: *mut c_void,
        before: *mut c_void,
        with: *mut c_void,
        greatest: *mut c_void,
        all: *mut c_void,
        count: c_int,
        stream: *mut c_void,
    ) -> c_int;
    /// Turns each run of three around.
    pub fn launch_mirror(
        x: *mut c_void,
        out: *mut c_void,
        count: c_int,
        stream: *mut c_void,
    ) -> c_int;
}
