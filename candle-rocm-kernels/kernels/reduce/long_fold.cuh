// Sums and extrema of few long outputs, each shared by several workgroups, in two launches of one grid: (segments,
// outputs).
//
// The first launch leaves a state for each segment of an output, the second combines them in the order of the segments:
//
//   found[output * (gridDim.x << MOST_COLUMNS) + segment]
//
// Where neighbouring outputs are neighbours in memory, a workgroup takes 32 vectors of them at once. The workgroups of
// these outputs are then as many segments of each.
#pragma once
#include "reduce/fold.cuh"

// Outputs that a workgroup makes at most, as an exponent of 2: 32 vectors of the widest. The runtime's memory for the
// segments has room for as many states for each workgroup.
constexpr uint32_t COLUMN_VECTORS = 5, MOST_COLUMNS = 7;

// Neighbouring outputs whose elements a thread reads at once: 8 bytes of them.
template <class T> constexpr uint32_t LONG_NEIGHBOURS = sizeof(T) == 2 ? 4 : sizeof(T) == 4 ? 2 : 1;

// Which outputs a workgroup makes, and which segment of their elements.
struct LongSegment {
    // Outputs that are read together, and outputs of a workgroup, as exponents of 2; the first one; how many there are;
    // and the segment.
    uint32_t neighbours = 0, columns = 0, first, outputs, segment, segments;

    template <class T>
    __device__ __forceinline__ LongSegment(const Split &split, uint32_t threads, const T *__restrict__ src) {
        static_assert(COLUMN_VECTORS + LONG_NEIGHBOURS<T> / 2 <= MOST_COLUMNS, "room for its states");
        if (split.side_by_side() && threads >= log2_of(wave_size())) {
            // A workgroup's outputs are whole vectors of them: the last ones, too, as all outputs are.
            neighbours = split.neighbours<LONG_NEIGHBOURS<T>>(src) ? LONG_NEIGHBOURS<T> / 2
                         : split.neighbours<NEIGHBOURS<T>>(src)    ? NEIGHBOURS<T> / 2
                                                                   : 0;
            columns = min_of(exponent_from(gridDim.y), COLUMN_VECTORS + neighbours);
        }
        first = blockIdx.y >> columns << columns;
        outputs = min_of(gridDim.y - first, 1u << columns);
        segment = blockIdx.x * outputs + (blockIdx.y - first);
        segments = gridDim.x * outputs;
    }

    // Its elements of each output, in whole lines of 128 bytes.
    template <class T> __device__ __forceinline__ Stretch of(uint32_t reduced) const {
        constexpr uint32_t LINE = 128 / sizeof(T);
        uint32_t lines = reduced / LINE + 1, of_segment = (lines + segments - 1) / segments * LINE;
        uint32_t begin = (uint32_t)min_of((uint64_t)segment * of_segment, (uint64_t)reduced);
        return {begin, min_of(of_segment, reduced - begin)};
    }

    // How many states the first launch leaves for an output.
    static __device__ __forceinline__ size_t room() { return (size_t)gridDim.x << MOST_COLUMNS; }
};

// Leaves the states of a segment, of each of OUTPUTS neighbouring outputs by their vectors of elements.
template <class Fold, uint32_t OUTPUTS, class T>
__device__ __forceinline__ void fold_segment(const Split &split, const LongSegment &own, Stretch stretch,
                                             uint32_t num_dims, const size_t *dims, const size_t *strides,
                                             const T *__restrict__ src, typename Fold::State *__restrict__ found) {
    constexpr uint32_t LOG_OUTPUTS = OUTPUTS / 2;
    using Combined = typename conditional<OUTPUTS == 1, Fold, Neighbours<Fold, OUTPUTS>>::type;
    using Elements = typename conditional<OUTPUTS == 1, T, vec<T, OUTPUTS>>::type;
    __shared__ FoldValues<typename Combined::State> lds;
    uint32_t threads = log2_of(blockDim.x), zero = num_dims >> 31;
    RowGroups shared{threads, 0, own.columns - LOG_OUTPUTS};
    Seat seat(threadIdx.x, shared);
    // Columns beyond the last output make that once more, and leave nothing.
    uint32_t column = seat.column * OUTPUTS;
    size_t o = own.first + min_of(column, own.outputs - OUTPUTS);
    const auto *row = (const Elements *)(src + split.kept.offset(o, dims, strides));
    typename Combined::State state;
    if constexpr (OUTPUTS == 1) {
        state =
            fold_stretch<Fold>(row, split.inner, stretch, seat.group, threads - shared.columns, zero, dims, strides);
    } else {
        state = Combined::start();
        size_t stride = split.inner.stride / OUTPUTS;
        fold_strided<Combined>(state, row + stretch.first * stride, stride, stretch, seat.group,
                               threads - shared.columns, zero);
    }
    state = fold_group<Combined>(state, shared, seat, false, lds);
    if (seat.group != 0 || column >= own.outputs) return;
    if constexpr (OUTPUTS == 1) {
        found[o * LongSegment::room() + own.segment] = state;
    } else {
#pragma unroll
        for (uint32_t k = 0; k < OUTPUTS; k++) found[(o + k) * LongSegment::room() + own.segment] = state.of[k];
    }
}

// The first launch: `found` gets a state for each segment of each output.
template <class Fold, class T>
__device__ __forceinline__ void fold_segments(size_t of_each, size_t num_dims, const size_t *__restrict__ info,
                                              const T *__restrict__ src, typename Fold::State *__restrict__ found) {
    constexpr uint32_t MOST = LONG_NEIGHBOURS<T>, FEWER = NEIGHBOURS<T>;
    const size_t *dims = info, *strides = info + num_dims;
    uint32_t reduced = (uint32_t)of_each, of_dims = (uint32_t)num_dims;
    Split split(reduced, num_dims, dims, strides);
    LongSegment own(split, log2_of(blockDim.x), src);
    Stretch stretch = own.of<T>(reduced);
    if (own.neighbours == 0) return fold_segment<Fold, 1>(split, own, stretch, of_dims, dims, strides, src, found);
    if (FEWER > 1 && FEWER != MOST && own.neighbours == FEWER / 2)
        return fold_segment<Fold, FEWER>(split, own, stretch, of_dims, dims, strides, src, found);
    fold_segment<Fold, MOST>(split, own, stretch, of_dims, dims, strides, src, found);
}

// The second launch: the output of each y, by the workgroup whose x is 0.
template <class Fold, class T, class Out>
__device__ __forceinline__ void fold_finish(size_t of_each, size_t num_dims, const size_t *__restrict__ info,
                                            const T *__restrict__ src, Out *__restrict__ dst,
                                            const typename Fold::State *__restrict__ found) {
    __shared__ FoldValues<typename Fold::State> lds;
    if (blockIdx.x != 0) return;
    const size_t *dims = info, *strides = info + num_dims;
    uint32_t threads = log2_of(blockDim.x), o = blockIdx.y;
    Split split((uint32_t)of_each, num_dims, dims, strides);
    LongSegment own(split, threads, src);
    const auto *of_output = found + o * LongSegment::room();
    auto state = Fold::start();
    for (uint32_t i = threadIdx.x; i < own.segments; i += blockDim.x) state = Fold::both(state, of_output[i]);
    RowGroups shared{threads, 0, 0};
    state = fold_group<Fold>(state, shared, Seat(threadIdx.x, shared), false, lds);
    if (threadIdx.x == 0) dst[o] = Fold::finish(state, src[split.kept.offset(o, dims, strides)]);
}
