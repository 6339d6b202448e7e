// What a kernel says before it traps: which of Candle's operators, why, and where.
//
// A trap loses the GPU's memory, so a report is written to the host's. Each module with kernels that report has a
// variable of its own, which tells them where; the runtime sets it when it loads the module. Kernels' parameters,
// which are Candle's, have no room for it. Nothing here is read or kept in registers unless a check fails.
#pragma once
#include "portable/dtypes.cuh"
#include "portable/portable.cuh"

// Why a kernel traps: X(name, number). The build makes the constants of `candle_rocm_kernels::report` of this list.
#define FOR_REASONS(X) X(row_outside, 1) X(place_outside, 2) X(zero_divisor, 3)

enum Reason : uint32_t {
#define REASON(NAME, NUMBER) NAME = NUMBER,
    FOR_REASONS(REASON)
#undef REASON
};

// Up to eight characters of a text from `from` on, the first one lowest.
constexpr uint64_t letters(const char *text, int from = 0) {
    uint64_t packed = 0;
    for (int i = 0; text[i] != 0; i++)
        if (i >= from && i < from + 8) packed |= (uint64_t)(uint8_t)text[i] << 8 * (i - from);
    return packed;
}

// The name of one of Candle's operators, at most 16 characters.
struct Operation {
    uint64_t name[2];
    constexpr explicit Operation(const char *text) : name{letters(text), letters(text, 8)} {}
};

// The name of an integer type.
template <class T> struct dtype_letters;
#define DTYPE_LETTERS(NAME, T)                            \
    template <> struct dtype_letters<T> {                 \
        static constexpr uint64_t value = letters(#NAME); \
    };
FOR_INTEGERS(DTYPE_LETTERS)
#undef DTYPE_LETTERS

// In host memory. `candle_rocm_kernels::report::Report` has the same layout.
struct Report {
    uint64_t operation[2], dtype;
    int64_t index;
    uint64_t bound, position;
    uint32_t reason;
    // 1 once all others are there.
    uint32_t written;
};

// The module's variable: where to write (null: nobody reads), how many wanted to, and whether the first one has.
struct ReportVariable {
    Report *to;
    int32_t claims, written;
};
extern "C" {
__device__ ReportVariable candle_rocm_report;
}

// What was written before can be read by the host from here on; all lanes of the wavefront that get here have done what
// stands before it. (On NVIDIA's GPUs each thread has a program counter of its own.)
#if defined(__HIP__)
__device__ __forceinline__ void publish_to_host() { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
__device__ __forceinline__ void converge() { __builtin_amdgcn_wave_barrier(); }
#else
__device__ __forceinline__ void publish_to_host() { __nvvm_membar_sys(); }
__device__ __forceinline__ void converge() {}
#endif

// Ends the launch. The first work-item of the module that gets here writes what it refuses; the others wait for it,
// since a trap would end it before it has.
template <class T>
__device__ __forceinline__ void refuse(Operation operation, Reason reason, int64_t index, size_t bound,
                                       size_t position) {
    auto *to = (volatile __attribute__((address_space(1))) Report *)candle_rocm_report.to;
    if (to) {
        if (device_atomic::add_one(&candle_rocm_report.claims) == 0) {
            to->operation[0] = operation.name[0];
            to->operation[1] = operation.name[1];
            to->dtype = dtype_letters<T>::value;
            to->index = index;
            to->bound = bound;
            to->position = position;
            to->reason = reason;
            publish_to_host();
            to->written = 1;
            publish_to_host();
            device_atomic::write(&candle_rocm_report.written, 1);
        }
        // The first one's wavefront must not wait for it.
        converge();
        while (device_atomic::read(&candle_rocm_report.written) == 0) {}
    }
    __builtin_trap();
}
