// Products of a quantised matrix's rows with few vectors (vectors.cuh): what a thread makes of them, and how it is
// added.
#pragma once
#include "quantized/formats.cuh"
#include "portable/streams.cuh"
#include "quantized/vectors.cuh"

namespace quantized {

constexpr uint32_t GROUP = 32;

// The halves of the activations that a piece of a row is multiplied with, and their scales and sums.
struct Activations {
    vec<uint32_t, 4> qs[2];
    uint32_t ds[2];

    // Those of piece i.
    template <class Q> __device__ __forceinline__ void load(const uint8_t *__restrict__ y, uint32_t i) {
        const uint8_t *group = y + (size_t)(i / 8) * ACTIVATION_BYTES;
#pragma unroll
        for (int s = 0; s < 2; s++) {
            uint32_t sixteen = Q::sixteen(i % 8, s);
            qs[s] = *(const vec<uint32_t, 4> *)(group + 16 * sixteen);
            ds[s] = *(const uint32_t *)(group + ACTIVATIONS + sixteen / 2 * 4);
        }
    }
};

// Whether a thread's next weights are on their way while it multiplies. On NVIDIA's GPUs more wavefronts, in the
// registers that this takes, hide more; RESIDENT says how many workgroups a multiprocessor is to have registers for.
#if defined(__HIP__)
constexpr bool PREFETCH = true;
#define RESIDENT(THREADS, COUNT) __launch_bounds__(THREADS)
#else
constexpr bool PREFETCH = false;
#define RESIDENT(THREADS, COUNT) __launch_bounds__(THREADS, COUNT)
#endif

// Piece i of each row.
template <class Q, int R>
__device__ __forceinline__ void load_pieces(typename Q::Raw (&raw)[R], const uint8_t *const (&rows)[R], uint32_t i) {
#pragma unroll
    for (int r = 0; r < R; r++) raw[r] = load_piece<Q>(rows[r], i);
}

// Adds to `sums` the products of R rows' pieces `thread`, thread + threads, ... of `pieces` with as many vectors, of
// which the last stands in for those that are not there.
template <class Q, int R, int VECTORS>
__device__ __forceinline__ void accumulate(const uint8_t *const (&weights)[R], const uint8_t *__restrict__ y,
                                           size_t vector_bytes, uint32_t vectors, uint32_t pieces, uint32_t thread,
                                           uint32_t threads, float (&sums)[R * VECTORS]) {
    // One vector's are asked for with the weights that they are multiplied with.
    constexpr bool BESIDE = PREFETCH && VECTORS == 1;
    typename Q::Raw raw[R];
    Activations beside;
    uint32_t i = thread;
    auto load = [&]() INLINED {
        load_pieces<Q>(raw, weights, i);
        if (BESIDE) beside.load<Q>(y, i);
        // All are on their way before one is waited for.
        if (PREFETCH) opt_barrier_schedule();
    };
    if (PREFETCH && i < pieces) load();
    while (i < pieces) {
        if (!PREFETCH) load();
        Piece piece[R];
#pragma unroll
        for (int r = 0; r < R; r++) piece[r] = Q::piece(raw[r], i % (Q::ELEMENTS / 32));
        Activations of_first = beside;
        uint32_t now = i;
        i += threads;
        if (PREFETCH && i < pieces) load();
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
            Activations of;
            if (BESIDE) of = of_first;
            else of.load<Q>(y + min_of((uint32_t)v, vectors - 1) * vector_bytes, now);
            vec<uint32_t, 2> scale[2];
            scales_and_sums<Q>(of.qs, of.ds, scale);
#pragma unroll
            for (int r = 0; r < R; r++)
                sums[r * VECTORS + v] = multiply_piece<Q>(piece[r], of.qs, scale, sums[r * VECTORS + v]);
        }
    }
}

// Adds each of N values, a power of two, over 2 * WIDTH lanes; of 32, a lane gets the sum of value lane / (32 / N).
template <uint32_t WIDTH = 16, int N> __device__ __forceinline__ float group_sums(const float (&values)[N]) {
    if constexpr (WIDTH == 0) {
        return values[0];
    } else if constexpr (N == 1) {
        float sums[1] = {values[0] + shfl_xor(values[0], WIDTH, GROUP)};
        return group_sums<WIDTH / 2>(sums);
    } else {
        bool upper = lane_id() & WIDTH;
        float sums[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; i++) {
            float low = values[i], high = values[i + N / 2];
            sums[i] = (upper ? high : low) + shfl_xor(upper ? low : high, WIDTH, GROUP);
        }
        return group_sums<WIDTH / 2>(sums);
    }
}

} // namespace quantized
