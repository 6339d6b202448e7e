// Dropout whose mask is never in memory: the gradient draws it anew from the seed.
//
// Whether element i is dropped depends on (seed, i) alone, whatever the grid: a block of Philox's words has 16 bits for
// each of eight elements. candle_rocm_backend::ops draws the same on the CPU.
#include "portable/dtypes.cuh"
#include "random/philox.cuh"
#include "rows/float_vector.cuh"

constexpr int DROPOUT_ELEMENTS = 8;

// Elements whose 16 bits are below `threshold` become 0; the others are multiplied by `scale`.
template <class T>
__device__ __forceinline__ void drop(const T *__restrict__ x, T *__restrict__ y, size_t count, uint64_t seed,
                                     uint32_t threshold, double scale) {
    using C = compute_t<T>;
    constexpr int N = DROPOUT_ELEMENTS, W = VEC16<T>;
    bool aligned = is_aligned(x, 16) && is_aligned(y, 16);
    for (size_t block = global_thread(); block * N < count; block += global_threads()) {
        const T *from = x + block * N;
        T *to = y + block * N;
        uint32_t some = (uint32_t)min_of(count - block * N, (size_t)N);
        bool wide = aligned && some == N;
        Held<T, N> held;
        if (wide) held.load(from);
        else held.load(from, some, false);
        Words4 words = philox(seed, Kind::Dropout, block);
#pragma unroll
        for (int i = 0; i < N / W; i++) {
            vec<T, W> elements = bit_cast<vec<T, W>>(held.words[i]);
#pragma unroll
            for (int k = 0; k < W; k++) {
                int e = i * W + k;
                bool dropped = (words.w[e / 2] >> 16 * (e % 2) & 0xffff) < threshold;
                elements[k] = dropped ? round_to<T>((C)0) : round_to<T>(upcast(elements[k]) * (C)scale);
            }
            held.words[i] = bit_cast<typename Held<T, N>::Words>(elements);
        }
        held.store(to, some, wide);
    }
}

#define DROPOUT(NAME, T)                                                                                  \
    ENTRY __launch_bounds__(256) dropout_##NAME(const T *__restrict__ x, T *__restrict__ y, size_t count, \
                                                uint64_t seed, uint32_t threshold, double scale) {        \
        drop(x, y, count, seed, threshold, scale);                                                        \
    }
FOR_WIDE_FLOATS(DROPOUT)
