// The NVIDIA side of portable.cuh: clang builtins, a few lines of PTX and CUDA's device library (libdevice). Compiled
// by `clang++ -x cuda --cuda-device-only -nogpuinc -nogpulib --offload-arch=sm_90` with libdevice's bitcode; no CUDA
// headers. Names mean what amd.cuh says.
#pragma once

// Lanes of a warp.
#define WAVEFRONT 32

// The largest workgroup a kernel is launched with. Without it 1024, as on AMD: the build and the module loader bound
// the registers of such kernels to 64. A second number is of workgroups that a multiprocessor shall have registers for.
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

// ------------------------------------------------------------------- indices

#define PORTABLE_INDEX(TYPE, NAME, REGISTER)                                                                 \
    struct TYPE {                                                                                            \
        __declspec(property(get = get_x)) uint32_t x;                                                        \
        __declspec(property(get = get_y)) uint32_t y;                                                        \
        __declspec(property(get = get_z)) uint32_t z;                                                        \
        static __device__ __forceinline__ uint32_t get_x() { return __nvvm_read_ptx_sreg_##REGISTER##_x(); } \
        static __device__ __forceinline__ uint32_t get_y() { return __nvvm_read_ptx_sreg_##REGISTER##_y(); } \
        static __device__ __forceinline__ uint32_t get_z() { return __nvvm_read_ptx_sreg_##REGISTER##_z(); } \
    };                                                                                                       \
    static constexpr TYPE NAME{};

PORTABLE_INDEX(ThreadIndex, threadIdx, tid)
PORTABLE_INDEX(BlockIndex, blockIdx, ctaid)
PORTABLE_INDEX(BlockSize, blockDim, ntid)
PORTABLE_INDEX(GridSize, gridDim, nctaid)
#undef PORTABLE_INDEX

// The barrier, __syncthreads(), is clang's own.

// --------------------------------------------------------------------- waves

__device__ __forceinline__ uint32_t wave_size() { return 32; }
__device__ __forceinline__ uint32_t lane_id() { return __nvvm_read_ptx_sreg_laneid(); }
__device__ __forceinline__ uint32_t uniform(uint32_t value) { return value; }
__device__ __forceinline__ float uniform(float value) { return value; }
// Addresses have no scalar part here that the compiler should keep apart.
template <class T> __device__ __forceinline__ void opt_barrier_uniform(const T *&) {}
__device__ __forceinline__ void opt_barrier_uniform(uint32_t &) {}
__device__ __forceinline__ void opt_barrier_value(uint32_t &) {}

// The value stays; the compiler knows nothing of it from here on. `zero` is 0, without the assembler knowing.
template <class T> __device__ __forceinline__ void opt_barrier_words(T &value, uint32_t zero) {
    words::each(value, [=](uint32_t &word) { asm("xor.b32 %0, %0, %1;" : "+r"(word) : "r"(zero)); });
}

namespace wave {
// The lanes of one's group of `width`: those that must be there for an exchange. Others may have ended.
__device__ __forceinline__ uint32_t group(uint32_t width) {
    uint32_t lanes = width >= 32 ? ~0u : (1u << width) - 1;
    return lanes << (lane_id() & ~(width - 1) & 31);
}

// The shuffles' last operand: segments of `width` lanes, and the lane to which the source is bounded.
__device__ __forceinline__ int32_t segments(uint32_t width, uint32_t bound) {
    return (int32_t)((32 - (width & 63)) << 8 | bound);
}
} // namespace wave

template <class T> __device__ __forceinline__ T shfl_xor(T value, uint32_t mask, uint32_t width) {
    uint32_t group = wave::group(width);
    return wave::move(
        value, [=](int32_t word) { return __nvvm_shfl_sync_bfly_i32(group, word, mask, wave::segments(width, 31)); });
}
template <class T> __device__ __forceinline__ T shfl_down(T value, uint32_t delta, uint32_t width) {
    uint32_t group = wave::group(width);
    return wave::move(
        value, [=](int32_t word) { return __nvvm_shfl_sync_down_i32(group, word, delta, wave::segments(width, 31)); });
}
template <class T> __device__ __forceinline__ T shfl_up(T value, uint32_t delta, uint32_t width) {
    uint32_t group = wave::group(width);
    return wave::move(
        value, [=](int32_t word) { return __nvvm_shfl_sync_up_i32(group, word, delta, wave::segments(width, 0)); });
}
template <class T> __device__ __forceinline__ T shfl(T value, uint32_t source, uint32_t width) {
    uint32_t group = wave::group(width);
    return wave::move(
        value, [=](int32_t word) { return __nvvm_shfl_sync_idx_i32(group, word, source, wave::segments(width, 31)); });
}
__device__ __forceinline__ uint64_t ballot(bool predicate) {
    uint32_t active;
    asm volatile("activemask.b32 %0;" : "=r"(active));
    return (uint32_t)__nvvm_vote_ballot_sync(active, predicate);
}

// --------------------------------------------------------------------- reads

// Reads of memory that nothing writes during the launch. Volatile, so that several stay together and are in flight at
// once: the compiler would put each beside the first use of its value.
namespace read_only {
template <class T> using Pointer = const __attribute__((address_space(1))) T *;
__device__ __forceinline__ void read(const uint8_t *from, uint8_t &to) {
    uint16_t wide;
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=h"(wide) : "l"((Pointer<uint8_t>)from));
    to = (uint8_t)wide;
}
__device__ __forceinline__ void read(const uint16_t *from, uint16_t &to) {
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(to) : "l"((Pointer<uint16_t>)from));
}
template <int N> struct Words {
    uint32_t w[N];
};
__device__ __forceinline__ void read(const void *from, Words<1> &to) {
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(to.w[0]) : "l"((Pointer<uint32_t>)from));
}
__device__ __forceinline__ void read(const void *from, Words<2> &to) {
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(to.w[0]), "=r"(to.w[1]) : "l"((Pointer<uint32_t>)from));
}
__device__ __forceinline__ void read(const void *from, Words<4> &to) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.w[0]), "=r"(to.w[1]), "=r"(to.w[2]), "=r"(to.w[3])
                 : "l"((Pointer<uint32_t>)from));
}
} // namespace read_only

// A value of 1, 2, 4, 8 or 16 bytes, aligned to its size.
template <class V> __device__ __forceinline__ V read_global(const void *from) {
    if constexpr (sizeof(V) == 1) {
        uint8_t value;
        read_only::read((const uint8_t *)from, value);
        return __builtin_bit_cast(V, value);
    } else if constexpr (sizeof(V) == 2) {
        uint16_t value;
        read_only::read((const uint16_t *)from, value);
        return __builtin_bit_cast(V, value);
    } else {
        read_only::Words<sizeof(V) / 4> value;
        read_only::read(from, value);
        return __builtin_bit_cast(V, value);
    }
}

// ------------------------------------------------------------------- atomics

namespace device_atomic {
#define DEVICE_WORD(WORD, SUFFIX, CONSTRAINT)                                               \
    __device__ __forceinline__ WORD read(const WORD *at) {                                  \
        WORD value;                                                                         \
        asm volatile("ld.relaxed.gpu.global." SUFFIX " %0, [%1];"                           \
                     : "=" CONSTRAINT(value)                                                \
                     : "l"((const __attribute__((address_space(1))) WORD *)at)              \
                     : "memory");                                                           \
        return value;                                                                       \
    }                                                                                       \
    __device__ __forceinline__ void write(WORD *at, WORD value) {                           \
        asm volatile("st.relaxed.gpu.global." SUFFIX " [%0], %1;"                           \
                     :                                                                      \
                     : "l"((__attribute__((address_space(1))) WORD *)at), CONSTRAINT(value) \
                     : "memory");                                                           \
    }
DEVICE_WORD(int32_t, "s32", "r")
DEVICE_WORD(int64_t, "s64", "l")
#undef DEVICE_WORD
__device__ __forceinline__ int32_t add_one(int32_t *at) { return __nvvm_atom_add_gen_i(at, 1); }
} // namespace device_atomic

// ---------------------------------------------------------------------- math

typedef _Float16 half_t;

// The upper half of an f32, rounded to nearest, ties to even; a NaN becomes 0x7fff.
__device__ __forceinline__ uint16_t bf16_bits(float value) {
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
// Of two, the first in the lower half.
__device__ __forceinline__ uint32_t bf16_bits(float first, float second) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}

#define PORTABLE_LIBDEVICE_1(F, NAME)                                                          \
    extern "C" __device__ __attribute__((const)) float __nv_##NAME##f(float);                  \
    extern "C" __device__ __attribute__((const)) double __nv_##NAME(double);                   \
    namespace math {                                                                           \
    __device__ __forceinline__ float F(float x) { return __nv_##NAME##f(x); }                  \
    __device__ __forceinline__ double F(double x) { return __nv_##NAME(x); }                   \
    __device__ __forceinline__ half_t F(half_t x) { return (half_t)__nv_##NAME##f((float)x); } \
    }
#define PORTABLE_LIBDEVICE_2(F)                                                        \
    extern "C" __device__ __attribute__((const)) float __nv_##F##f(float, float);      \
    extern "C" __device__ __attribute__((const)) double __nv_##F(double, double);      \
    namespace math {                                                                   \
    __device__ __forceinline__ float F(float x, float y) { return __nv_##F##f(x, y); } \
    __device__ __forceinline__ double F(double x, double y) { return __nv_##F(x, y); } \
    }
PORTABLE_LIBDEVICE_1(exp, exp)
PORTABLE_LIBDEVICE_1(exp2, exp2)
PORTABLE_LIBDEVICE_1(log, log)
PORTABLE_LIBDEVICE_1(log2, log2)
PORTABLE_LIBDEVICE_1(log1p, log1p)
PORTABLE_LIBDEVICE_1(sin, sin)
PORTABLE_LIBDEVICE_1(cos, cos)
PORTABLE_LIBDEVICE_1(tanh, tanh)
PORTABLE_LIBDEVICE_1(erf, erf)
PORTABLE_LIBDEVICE_1(erfc, erfc)
PORTABLE_LIBDEVICE_1(ncdf, normcdf)
// As every compiler's `round` away from zero: NVPTX has no instruction for it.
PORTABLE_LIBDEVICE_1(round, round)
PORTABLE_LIBDEVICE_2(pow)
#undef PORTABLE_LIBDEVICE_1
#undef PORTABLE_LIBDEVICE_2

namespace math {
PORTABLE_BUILTIN(sqrt, __nvvm_sqrt_rn_f, __nvvm_sqrt_rn_d)

// 1 / x and 1 / sqrt(x) within a unit in the last place, for results that are no subnormal numbers.
__device__ __forceinline__ float fast_recip(float x) { return __nvvm_rcp_approx_ftz_f(x); }
__device__ __forceinline__ float fast_rsqrt(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
// log2(x) within 2^-22, of the result or of 1 where x is near that; of subnormal numbers as of 0.
__device__ __forceinline__ float fast_log2(float x) { return __nvvm_lg2_approx_ftz_f(x); }
// 2^x within two units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float fast_exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
__device__ __forceinline__ float rsqrt(float x) { return 1.0f / __nvvm_sqrt_rn_f(x); }
__device__ __forceinline__ double rsqrt(double x) { return 1.0 / __nvvm_sqrt_rn_d(x); }
} // namespace math

__device__ __forceinline__ int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
    int32_t sum;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
