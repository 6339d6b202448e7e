// CUDA's atomic functions, in its three scopes. They order nothing else, as in CUDA.
#pragma once
#include "candle_rocm/warp.h"

namespace candle_rocm {
// What AMD GPUs have no instruction for: the new value is computed until nobody came between. V is an integer of T's
// size.
template <int SCOPE, class V, class T, class F> __device__ __forceinline__ T atomic_update(T *at, F next) {
    V *word = (V *)at;
    V old = __hip_atomic_load(word, __ATOMIC_RELAXED, SCOPE), assumed;
    do {
        assumed = old;
        V wanted = bits<V>(next(bits<T>(assumed)));
        __hip_atomic_compare_exchange_strong(word, &old, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);
    } while (old != assumed);
    return bits<T>(old);
}
// The same for 16 bits, within the word that holds them.
template <int SCOPE, class T, class F> __device__ __forceinline__ T atomic_update_half(T *at, F next) {
    unsigned int *word = (unsigned int *)((uintptr_t)at & ~(uintptr_t)3);
    unsigned int shift = ((uintptr_t)at & 2) * 8;
    unsigned int old = __hip_atomic_load(word, __ATOMIC_RELAXED, SCOPE), assumed;
    do {
        assumed = old;
        unsigned short wanted = bits<unsigned short>(next(bits<T>((unsigned short)(assumed >> shift))));
        unsigned int whole = (assumed & ~(0xffffu << shift)) | ((unsigned int)wanted << shift);
        __hip_atomic_compare_exchange_strong(word, &old, whole, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);
    } while (old != assumed);
    return bits<T>((unsigned short)(old >> shift));
}
} // namespace candle_rocm

#define CANDLE_ROCM_ATOMIC(NAME, OP, T)                                                      \
    CANDLE_ROCM_DEVICE T atomic##NAME(T *at, T value) {                                      \
        return __hip_atomic_##OP(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);     \
    }                                                                                        \
    CANDLE_ROCM_DEVICE T atomic##NAME##_block(T *at, T value) {                              \
        return __hip_atomic_##OP(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); \
    }                                                                                        \
    CANDLE_ROCM_DEVICE T atomic##NAME##_system(T *at, T value) {                             \
        return __hip_atomic_##OP(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);    \
    }
#define CANDLE_ROCM_ATOMIC_INTEGER(NAME, OP)   \
    CANDLE_ROCM_ATOMIC(NAME, OP, int)          \
    CANDLE_ROCM_ATOMIC(NAME, OP, unsigned int) \
    CANDLE_ROCM_ATOMIC(NAME, OP, unsigned long long)
CANDLE_ROCM_ATOMIC_INTEGER(Add, fetch_add)
CANDLE_ROCM_ATOMIC(Add, fetch_add, float)
CANDLE_ROCM_ATOMIC(Add, fetch_add, double)
CANDLE_ROCM_ATOMIC_INTEGER(Exch, exchange)
CANDLE_ROCM_ATOMIC(Exch, exchange, float)
CANDLE_ROCM_ATOMIC_INTEGER(Min, fetch_min)
CANDLE_ROCM_ATOMIC(Min, fetch_min, long long)
CANDLE_ROCM_ATOMIC_INTEGER(Max, fetch_max)
CANDLE_ROCM_ATOMIC(Max, fetch_max, long long)
CANDLE_ROCM_ATOMIC_INTEGER(And, fetch_and)
CANDLE_ROCM_ATOMIC_INTEGER(Or, fetch_or)
CANDLE_ROCM_ATOMIC_INTEGER(Xor, fetch_xor)
#undef CANDLE_ROCM_ATOMIC_INTEGER
#undef CANDLE_ROCM_ATOMIC

#define CANDLE_ROCM_ATOMIC_SCOPED(SUFFIX, SCOPE)                                                                    \
    CANDLE_ROCM_DEVICE int atomicSub##SUFFIX(int *at, int value) {                                                  \
        return __hip_atomic_fetch_add(at, (int)(0u - (unsigned int)value), __ATOMIC_RELAXED, SCOPE);                \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned int atomicSub##SUFFIX(unsigned int *at, unsigned int value) {                       \
        return __hip_atomic_fetch_add(at, 0u - value, __ATOMIC_RELAXED, SCOPE);                                     \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned int atomicInc##SUFFIX(unsigned int *at, unsigned int last) {                        \
        return candle_rocm::atomic_update<SCOPE, unsigned int>(                                                     \
            at, [=](unsigned int old) { return old >= last ? 0u : old + 1; });                                      \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned int atomicDec##SUFFIX(unsigned int *at, unsigned int last) {                        \
        return candle_rocm::atomic_update<SCOPE, unsigned int>(                                                     \
            at, [=](unsigned int old) { return old == 0 || old > last ? last : old - 1; });                         \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE int atomicCAS##SUFFIX(int *at, int compare, int value) {                                     \
        __hip_atomic_compare_exchange_strong(at, &compare, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);       \
        return compare;                                                                                             \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned int atomicCAS##SUFFIX(unsigned int *at, unsigned int compare, unsigned int value) { \
        __hip_atomic_compare_exchange_strong(at, &compare, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);       \
        return compare;                                                                                             \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned long long atomicCAS##SUFFIX(unsigned long long *at, unsigned long long compare,     \
                                                            unsigned long long value) {                             \
        __hip_atomic_compare_exchange_strong(at, &compare, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED, SCOPE);       \
        return compare;                                                                                             \
    }                                                                                                               \
    CANDLE_ROCM_DEVICE unsigned short atomicCAS##SUFFIX(unsigned short *at, unsigned short compare,                 \
                                                        unsigned short value) {                                     \
        return candle_rocm::atomic_update_half<SCOPE>(                                                              \
            at, [=](unsigned short old) { return old == compare ? value : old; });                                  \
    }
CANDLE_ROCM_ATOMIC_SCOPED(, __HIP_MEMORY_SCOPE_AGENT)
CANDLE_ROCM_ATOMIC_SCOPED(_block, __HIP_MEMORY_SCOPE_WORKGROUP)
CANDLE_ROCM_ATOMIC_SCOPED(_system, __HIP_MEMORY_SCOPE_SYSTEM)
#undef CANDLE_ROCM_ATOMIC_SCOPED
