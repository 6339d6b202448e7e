// Sorts few short rows: each element's place is the number of elements that come before it, which its thread counts.
//
// Counting takes a comparison for each pair, but no pass waits for another: a workgroup reads a row's keys once, and
// writes the elements of its own part of the row.
#pragma once
#include "portable/lanes.cuh"
#include "sort/keys.cuh"

// Keys that a thread reads from LDS before it compares them: 128 bytes, or what divides a wavefront.
template <class U> constexpr uint32_t KEYS_AT_ONCE = min_of(32u, 128u / (uint32_t)sizeof(U));

// Arguments are those of sort_rows; `parts` workgroups share a row.
template <class U>
__device__ __forceinline__ void rank_rows(const U *__restrict__ source, const uint32_t *__restrict__ names,
                                          uint32_t *__restrict__ index, U *__restrict__ values, uint32_t count,
                                          uint32_t kept, uint32_t parts, SortKeys<U> keys) {
    constexpr uint32_t AT_ONCE = KEYS_AT_ONCE<U>, OF_VECTOR = 16 / sizeof(U), VECTORS = AT_ONCE / OF_VECTOR;
    typedef U Vector __attribute__((ext_vector_type(OF_VECTOR), may_alias));
    LDS_MEMORY U *lds = (LDS_MEMORY U *)sort_lds;
    size_t row = blockIdx.x / parts;
    const U *from = source + row * count;
    uint32_t padded = ceil_div(count, AT_ONCE) * AT_ONCE;
    // What stands behind the row comes before nothing.
    for (uint32_t c = threadIdx.x; c < padded; c += blockDim.x) lds[c] = c < count ? keys.of(from[c]) : (U) ~(U)0;
    lds_barrier();

    uint32_t column = blockIdx.x % parts * blockDim.x + threadIdx.x;
    if (column >= count) return;
    U own = lds[column];
    uint32_t before = 0;
    auto count_keys = [&](uint32_t first, uint32_t end, auto comes_before) INLINED {
        for (uint32_t c = first; c < end; c += AT_ONCE) {
            Vector read[VECTORS];
#pragma unroll
            for (uint32_t v = 0; v < VECTORS; v++) read[v] = ((const LDS_MEMORY Vector *)(lds + c))[v];
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++)
                before += comes_before(read[i / OF_VECTOR][i % OF_VECTOR], c + i) ? 1 : 0;
        }
    };
    // Equal elements stay in order, which only the wavefront's own columns need compare.
    uint32_t wave = uniform(column / WAVEFRONT * WAVEFRONT), end = min_of(wave + WAVEFRONT, padded);
    count_keys(0, wave, [&](U key, uint32_t) INLINED { return key <= own; });
    count_keys(wave, end, [&](U key, uint32_t c) INLINED { return key < own || (key == own && c < column); });
    count_keys(end, padded, [&](U key, uint32_t) INLINED { return key < own; });
    if (before >= kept) return;
    if (index != nullptr) index[row * kept + before] = names != nullptr ? names[row * count + column] : column;
    if (values != nullptr) values[row * kept + before] = from[column];
}
