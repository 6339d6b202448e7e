// The AMD side of portable.cuh: clang builtins and ROCm's device libraries.
#pragma once

// The generation of CDNA's matrix instructions (MFMA), 1 to 4; not defined where there are none.
#if defined(__gfx908__)
#define AMD_MFMA 1
#elif defined(__gfx90a__)
#define AMD_MFMA 2
#elif defined(__gfx942__) || defined(__gfx9_4_generic__)
#define AMD_MFMA 3
#elif defined(__gfx950__)
#define AMD_MFMA 4
#endif

// Lanes of a wavefront. (Clang had a macro for it, and from 22 on has not: a library may be compiled for both.)
#if defined(__GFX9__)
#define WAVEFRONT 64
#else
#define WAVEFRONT 32
#endif

// The largest workgroup a kernel is launched with. Without it clang assumes 1024, or what the build says (512 for Vega
// 20). A second number is for NVIDIA.
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads), launch_bounds(threads)))

// ------------------------------------------------------------------- indices

// The hidden kernel arguments of code object v5 (LLVM AMDGPU usage guide, "Code Object V5 Kernel
// Argument Metadata"): hidden_block_count_{x,y,z} are u32 at 0, hidden_group_size_{x,y,z} u16 at 12.
namespace hidden {
__device__ __forceinline__ uint32_t block_count(int axis) {
    typedef const __attribute__((address_space(4))) uint32_t *Pointer;
    return ((Pointer)__builtin_amdgcn_implicitarg_ptr())[axis];
}
__device__ __forceinline__ uint32_t group_size(int axis) {
    // Two at a time: not every scalar unit loads 16 bits.
    typedef const __attribute__((address_space(4))) uint32_t *Pointer;
    uint32_t two = ((Pointer)__builtin_amdgcn_implicitarg_ptr())[3 + axis / 2];
    return axis % 2 == 0 ? two & 0xffff : two >> 16;
}
} // namespace hidden

#define PORTABLE_INDEX(TYPE, NAME, X, Y, Z)                              \
    struct TYPE {                                                        \
        __declspec(property(get = get_x)) uint32_t x;                    \
        __declspec(property(get = get_y)) uint32_t y;                    \
        __declspec(property(get = get_z)) uint32_t z;                    \
        static __device__ __forceinline__ uint32_t get_x() { return X; } \
        static __device__ __forceinline__ uint32_t get_y() { return Y; } \
        static __device__ __forceinline__ uint32_t get_z() { return Z; } \
    };                                                                   \
    static constexpr TYPE NAME{};

PORTABLE_INDEX(ThreadIndex, threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
               __builtin_amdgcn_workitem_id_z())
PORTABLE_INDEX(BlockIndex, blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
               __builtin_amdgcn_workgroup_id_z())
PORTABLE_INDEX(BlockSize, blockDim, hidden::group_size(0), hidden::group_size(1), hidden::group_size(2))
PORTABLE_INDEX(GridSize, gridDim, hidden::block_count(0), hidden::block_count(1), hidden::block_count(2))
#undef PORTABLE_INDEX

// ------------------------------------------------------------------- barrier

// All waves of the workgroup arrive; their LDS and global writes are visible after it.
__device__ __forceinline__ void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// --------------------------------------------------------------------- waves

// Lanes in a wavefront: 32 or 64, a constant after optimisation.
__device__ __forceinline__ uint32_t wave_size() { return __builtin_amdgcn_wavefrontsize(); }

// This thread's lane in its wavefront.
__device__ __forceinline__ uint32_t lane_id() {
    return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}

// Values that the compiler knows nothing about from here on: an address or a number that all lanes share, a lane's
// number.
template <class T> __device__ __forceinline__ void opt_barrier_uniform(const T *&pointer) { asm("" : "+s"(pointer)); }
__device__ __forceinline__ void opt_barrier_uniform(uint32_t &value) { asm("" : "+s"(value)); }
__device__ __forceinline__ void opt_barrier_value(uint32_t &value) { asm("" : "+v"(value)); }

// The value stays; the compiler knows nothing of it from here on.
template <class T> __device__ __forceinline__ void opt_barrier_words(T &value, uint32_t) {
    words::each(value, [](uint32_t &word) { asm("" : "+v"(word)); });
}

// A value that all lanes share, in a scalar register.
__device__ __forceinline__ float uniform(float value) {
    return __builtin_bit_cast(float, __builtin_amdgcn_readfirstlane(__builtin_bit_cast(int, value)));
}
__device__ __forceinline__ uint32_t uniform(uint32_t value) {
    return (uint32_t)__builtin_amdgcn_readfirstlane((int)value);
}

namespace wave {
// Any lane to any lane of the wave; the source is taken modulo the wave.
__device__ __forceinline__ int32_t read_lane(int32_t value, uint32_t source) {
    return __builtin_amdgcn_ds_bpermute((int)(source << 2), value);
}

// lane ^ mask. Constant masks below 32 need no address register: DPP quad_perm for 1 and 2,
// ds_swizzle (bit-mask mode, xor in bits 14:10, and-mask 0x1f) above.
__device__ __forceinline__ int32_t xor_lane(int32_t value, uint32_t mask) {
    if (__builtin_constant_p(mask)) {
        switch (mask) {
        case 1: return __builtin_amdgcn_mov_dpp(value, 0xb1, 0xf, 0xf, true);
        case 2: return __builtin_amdgcn_mov_dpp(value, 0x4e, 0xf, 0xf, true);
        case 4: return __builtin_amdgcn_ds_swizzle(value, 0x101f);
        case 8: return __builtin_amdgcn_ds_swizzle(value, 0x201f);
        case 16: return __builtin_amdgcn_ds_swizzle(value, 0x401f);
        }
    }
    return read_lane(value, lane_id() ^ mask);
}
} // namespace wave

// The shuffles take `width`: groups of so many consecutive lanes (a power of two, at most
// wave_size()) exchange among themselves. All lanes of the group must be active.

// The value of lane ^ mask (mask below width).
template <class T> __device__ __forceinline__ T shfl_xor(T value, uint32_t mask, uint32_t width) {
    (void)width;
    return wave::move(value, [=](int32_t word) { return wave::xor_lane(word, mask); });
}

// The value of lane + delta, or one's own where that leaves the group.
template <class T> __device__ __forceinline__ T shfl_down(T value, uint32_t delta, uint32_t width) {
    uint32_t lane = lane_id();
    uint32_t source = (lane & (width - 1)) + delta < width ? lane + delta : lane;
    return wave::move(value, [=](int32_t word) { return wave::read_lane(word, source); });
}

// The value of lane - delta, or one's own where that leaves the group.
template <class T> __device__ __forceinline__ T shfl_up(T value, uint32_t delta, uint32_t width) {
    uint32_t lane = lane_id();
    uint32_t source = (lane & (width - 1)) >= delta ? lane - delta : lane;
    return wave::move(value, [=](int32_t word) { return wave::read_lane(word, source); });
}

// The value of lane `source` (below width) of one's group.
template <class T> __device__ __forceinline__ T shfl(T value, uint32_t source, uint32_t width) {
    uint32_t lane = (lane_id() & ~(width - 1)) | (source & (width - 1));
    return wave::move(value, [=](int32_t word) { return wave::read_lane(word, lane); });
}

// One bit per lane of the wave for which the predicate holds; inactive lanes give 0.
__device__ __forceinline__ uint64_t ballot(bool predicate) {
#if WAVEFRONT == 64
    return __builtin_amdgcn_ballot_w64(predicate);
#else
    return __builtin_amdgcn_ballot_w32(predicate);
#endif
}

// --------------------------------------------------------------------- reads

// A value of 1, 2, 4, 8 or 16 bytes, aligned to its size, from memory that nothing writes during the launch. As one
// word or one vector of words, which the compiler does not split when it looks at the elements.
namespace read_only {
template <int BYTES> struct raw;
template <> struct raw<1> {
    typedef uint8_t type __attribute__((may_alias));
};
template <> struct raw<2> {
    typedef uint16_t type __attribute__((may_alias));
};
template <> struct raw<4> {
    typedef uint32_t type __attribute__((may_alias));
};
template <> struct raw<8> {
    typedef uint32_t type __attribute__((ext_vector_type(2), may_alias));
};
template <> struct raw<16> {
    typedef uint32_t type __attribute__((ext_vector_type(4), may_alias));
};
} // namespace read_only
template <class V> __device__ __forceinline__ V read_global(const void *from) {
    return __builtin_bit_cast(V, *(const typename read_only::raw<sizeof(V)>::type *)from);
}

// ------------------------------------------------------------------- atomics

// Memory that other waves change by atomics is read and written past the caches of the compute unit.
namespace device_atomic {
template <class Word> __device__ __forceinline__ Word read(const Word *at) {
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class Word> __device__ __forceinline__ void write(Word *at, Word value) {
    __hip_atomic_store(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ __forceinline__ int32_t add_one(int32_t *at) {
    return __hip_atomic_fetch_add(at, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
} // namespace device_atomic

// ---------------------------------------------------------------------- math

typedef _Float16 half_t;

// An f32 whose upper half is rounded to nearest, ties to even; a NaN becomes 0x7fc0.
__device__ __forceinline__ uint32_t rounded_to_bf16(float value) {
    uint32_t u = __builtin_bit_cast(uint32_t, value), rounded = u + 0x7fffu + ((u >> 16) & 1u);
    return value != value ? 0x7fc00000u : rounded;
}
__device__ __forceinline__ uint16_t bf16_bits(float value) { return (uint16_t)(rounded_to_bf16(value) >> 16); }
// Of two, the first in the lower half. Neither is shifted.
__device__ __forceinline__ uint32_t bf16_bits(float first, float second) {
    return __builtin_amdgcn_perm(rounded_to_bf16(second), rounded_to_bf16(first), 0x07060302);
}

// ocml, the mathematics of ROCm's device libraries.
#define PORTABLE_OCML_1(F)                                                                       \
    extern "C" __device__ __attribute__((const)) float __ocml_##F##_f32(float);                  \
    extern "C" __device__ __attribute__((const)) double __ocml_##F##_f64(double);                \
    namespace math {                                                                             \
    __device__ __forceinline__ float F(float x) { return __ocml_##F##_f32(x); }                  \
    __device__ __forceinline__ double F(double x) { return __ocml_##F##_f64(x); }                \
    __device__ __forceinline__ half_t F(half_t x) { return (half_t)__ocml_##F##_f32((float)x); } \
    }
#define PORTABLE_OCML_2(F)                                                                     \
    extern "C" __device__ __attribute__((const)) float __ocml_##F##_f32(float, float);         \
    extern "C" __device__ __attribute__((const)) double __ocml_##F##_f64(double, double);      \
    namespace math {                                                                           \
    __device__ __forceinline__ float F(float x, float y) { return __ocml_##F##_f32(x, y); }    \
    __device__ __forceinline__ double F(double x, double y) { return __ocml_##F##_f64(x, y); } \
    }
PORTABLE_OCML_1(exp)
PORTABLE_OCML_1(exp2)
PORTABLE_OCML_1(log)
PORTABLE_OCML_1(log2)
PORTABLE_OCML_1(log1p)
PORTABLE_OCML_1(sin)
PORTABLE_OCML_1(cos)
PORTABLE_OCML_1(tanh)
PORTABLE_OCML_1(erf)
PORTABLE_OCML_1(erfc)
PORTABLE_OCML_1(ncdf)
PORTABLE_OCML_2(pow)
#undef PORTABLE_OCML_1
#undef PORTABLE_OCML_2

namespace math {
// Halves away from zero, as Rust's `round`.
PORTABLE_BUILTIN(round, __builtin_roundf, __builtin_round)
// Correctly rounded: -fhip-fp32-correctly-rounded-divide-sqrt is clang's default for HIP.
PORTABLE_BUILTIN(sqrt, __builtin_sqrtf, __builtin_sqrt)

// 1 / x and 1 / sqrt(x) within a unit in the last place, for results that are no subnormal numbers.
__device__ __forceinline__ float fast_recip(float x) { return __builtin_amdgcn_rcpf(x); }
__device__ __forceinline__ float fast_rsqrt(float x) { return __builtin_amdgcn_rsqf(x); }
// log2(x) within 2^-22, of the result or of 1 where x is near that; of subnormal numbers as of 0.
__device__ __forceinline__ float fast_log2(float x) { return __builtin_amdgcn_logf(x); }
// 2^x within two units in the last place; results below 2^-126 are 0.
__device__ __forceinline__ float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
__device__ __forceinline__ float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
__device__ __forceinline__ double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
} // namespace math

// c + the dot product of four signed bytes with four: one instruction on every GPU since Vega 20.
__device__ __forceinline__ int32_t dot4(uint32_t a, uint32_t b, int32_t c) {
#if __has_builtin(__builtin_amdgcn_sudot4) && (defined(__GFX11__) || defined(__GFX12__))
    return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
#elif defined(__gfx906__) || defined(AMD_MFMA) || defined(__gfx1011__) || defined(__gfx1012__) || \
    (defined(__GFX10__) && !defined(__gfx1010__) && !defined(__gfx1013__))
    return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#else
#pragma unroll
    for (int i = 0; i < 32; i += 8) c += (int32_t)(int8_t)(a >> i) * (int32_t)(int8_t)(b >> i);
    return c;
#endif
}
