// Indices of a type that the host names when it launches. Candle's kernels have the type in their names; here a kernel
// stands once for all three.
#pragma once
#include "portable/dtypes.cuh"
#include "portable/report.cuh"

// No place.
constexpr size_t NONE = ~(size_t)0;

// Types of indices, by the exponents of their sizes. `src/symbols.rs` has the same numbers.
enum IndexType : uint32_t { INDEX_U8 = 0, INDEX_U32 = 2, INDEX_I64 = 3 };

// A place without source, which each type writes as its largest value.
constexpr int64_t ABSENT = 0x7fffffffffffffff;

__device__ __forceinline__ bool is_absent(int64_t index) { return index == ABSENT; }

// Whether an index is none of a dimension of `size`.
__device__ __forceinline__ bool is_outside(int64_t index, size_t size) {
    // A negative index is a huge unsigned one.
    return (uint64_t)index >= (uint64_t)size;
}

class Indices {
    const char *at;
    uint32_t type;

    template <class I> static constexpr __device__ I absent_of() { return sizeof(I) == 8 ? (I)ABSENT : (I)-1; }
    template <class I> static __device__ __forceinline__ int64_t value_of(I index) {
        if constexpr (sizeof(I) == 8) return index;
        else return index == absent_of<I>() ? ABSENT : (int64_t)index;
    }
    // All are on their way before the first is used.
    template <class I, int N>
    __device__ __forceinline__ void read_as(int64_t (&index)[N], const size_t (&place)[N]) const {
        I found[N];
#pragma unroll
        for (int s = 0; s < N; s++) {
            found[s] = absent_of<I>();
            if (place[s] != NONE) found[s] = ((const I *)at)[place[s]];
        }
#pragma unroll
        for (int s = 0; s < N; s++) index[s] = value_of(found[s]);
    }
    template <class I, int N>
    __device__ __forceinline__ void read_neighbours_as(int64_t (&index)[N], size_t first) const {
        auto found = load_vec<vec<I, N>>((const I *)at + first);
#pragma unroll
        for (int s = 0; s < N; s++) index[s] = value_of(found[s]);
    }

public:
    __device__ __forceinline__ Indices(const void *at, uint32_t type) : at((const char *)at), type(type) {}

    // Those from number `first` on.
    __device__ __forceinline__ Indices from(size_t first) const { return {at + (first << type), type}; }

    // Whether N neighbours, of which the first has a number that N divides, can be read at once.
    template <int N> __device__ __forceinline__ bool are_aligned() const { return is_aligned(at, (size_t)N << type); }

    // The indices at N places, absent where that is NONE.
    template <int N> __device__ __forceinline__ void read(int64_t (&index)[N], const size_t (&place)[N]) const {
        switch (type) {
        case INDEX_U8: return read_as<uint8_t>(index, place);
        case INDEX_U32: return read_as<uint32_t>(index, place);
        default: return read_as<int64_t>(index, place);
        }
    }
    // N neighbours, which are aligned.
    template <int N> __device__ __forceinline__ void read_neighbours(int64_t (&index)[N], size_t first) const {
        switch (type) {
        case INDEX_U8: return read_neighbours_as<uint8_t>(index, first);
        case INDEX_U32: return read_neighbours_as<uint32_t>(index, first);
        default: return read_neighbours_as<int64_t>(index, first);
        }
    }

    // Ends the launch: the index at `place` is none of a dimension of `size`. The report calls it `position`.
    __device__ __forceinline__ void refuse(Operation operation, Reason reason, size_t place, size_t size,
                                           size_t position) const {
        int64_t index[1];
        read<1>(index, {place});
        switch (type) {
        case INDEX_U8: return ::refuse<uint8_t>(operation, reason, index[0], size, position);
        case INDEX_U32: return ::refuse<uint32_t>(operation, reason, index[0], size, position);
        default: return ::refuse<int64_t>(operation, reason, index[0], size, position);
        }
    }
};
