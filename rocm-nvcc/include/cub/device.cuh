// cub's algorithms on whole arrays, for host code: DeviceReduce, DeviceScan, DeviceSelect. Each block has a part of the
// array: what parts come to is found first, then what stands before each, then the results. So sums have one order.
#pragma once
#include "cub/block.cuh"

namespace cub {
// Values made as they are read.
template <class Value, class F, class In, class Offset = ptrdiff_t> class TransformInputIterator {
    In values;
    F change;

public:
    typedef Value value_type;
    __host__ __device__ TransformInputIterator(In values, F change) : values(values), change(change) {}
    __host__ __device__ Value operator[](Offset at) const { return change(values[at]); }
};
template <class Value, class Offset = ptrdiff_t> class CountingInputIterator {
    Value first;

public:
    typedef Value value_type;
    __host__ __device__ explicit CountingInputIterator(Value first) : first(first) {}
    __host__ __device__ Value operator[](Offset at) const { return first + (Value)at; }
};

namespace details {
constexpr int THREADS = 256, LAST_THREADS = 1024;
// Four tiles for each block, until there are more blocks than any GPU runs at once.
constexpr size_t MOST_PARTS = 512, LEAST_OF_PART = 4 * THREADS;
template <class T> struct pointed;
template <class T> struct pointed<T *> {
    typedef T type;
};

// An array in parts of whole tiles.
struct Parts {
    size_t count, each;
    unsigned int blocks;
    explicit Parts(size_t count) : count(count) {
        size_t fewest = (count + MOST_PARTS - 1) / MOST_PARTS;
        each = (fewest + LEAST_OF_PART - 1) / LEAST_OF_PART * LEAST_OF_PART;
        if (each == 0) each = LEAST_OF_PART;
        blocks = (unsigned int)((count + each - 1) / each);
        if (blocks == 0) blocks = 1;
    }
};
__device__ __forceinline__ size_t end_of_part(size_t count, size_t each) {
    size_t end = (blockIdx.x + (size_t)1) * each;
    return end < count ? end : count;
}

// What each part comes to. Of no values at all it is `first`, and with `has_first` that goes before each.
template <int SIZE, class In, class T, class F>
__global__ void __launch_bounds__(SIZE)
    reduce(In in, T *out, size_t count, size_t each, F combine, T first, bool has_first) {
    typedef BlockReduce<T, SIZE> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    size_t begin = blockIdx.x * each, end = end_of_part(count, each), length = begin < end ? end - begin : 0;
    T mine = T();
    int used = (int)(length < (size_t)SIZE ? length : (size_t)SIZE);
    for (size_t i = threadIdx.x; i < length; i += SIZE) {
        mine = i == threadIdx.x ? T(in[begin + i]) : combine(mine, T(in[begin + i]));
    }
    T all = Reduce(storage).Reduce(mine, combine, used);
    if (threadIdx.x != 0) return;
    if (length == 0) out[blockIdx.x] = first;
    else out[blockIdx.x] = has_first ? combine(first, all) : all;
}

// Each value's sum with those before it, or of those before it. `before` has what stands before each part.
template <int SIZE, bool INCLUSIVE, class In, class Out, class T, class F>
__global__ void __launch_bounds__(SIZE)
    scan(In in, Out out, size_t count, size_t each, const T *before, F combine, T first, bool has_first) {
    typedef BlockScan<T, SIZE> Scan;
    __shared__ typename Scan::TempStorage storage;
    size_t end = end_of_part(count, each);
    bool any = has_first || blockIdx.x != 0;
    T sum = blockIdx.x != 0 ? before[blockIdx.x] : first;
    for (size_t begin = blockIdx.x * each; begin < end; begin += SIZE) {
        size_t at = begin + threadIdx.x;
        // What is behind the end comes after all that is written.
        T value = at < end ? T(in[at]) : T(), result, all;
        if (INCLUSIVE) {
            Scan(storage).InclusiveScan(value, result, combine, all);
            if (any) result = combine(sum, result);
        } else {
            Scan(storage).ExclusiveScan(value, result, sum, combine, all);
        }
        if (at < end) out[at] = result;
        sum = any ? combine(sum, all) : all;
        any = true;
        __syncthreads();
    }
}

template <class In, class Flags, class Out>
__global__ void __launch_bounds__(THREADS)
    flagged(In in, Flags flags, Out out, size_t count, size_t each, const size_t *before) {
    typedef BlockScan<unsigned int, THREADS> Scan;
    __shared__ typename Scan::TempStorage storage;
    size_t end = end_of_part(count, each), found = before[blockIdx.x];
    for (size_t begin = blockIdx.x * each; begin < end; begin += THREADS) {
        size_t at = begin + threadIdx.x;
        bool taken = at < end && flags[at];
        unsigned int rank, all;
        Scan(storage).ExclusiveSum(taken ? 1u : 0u, rank, all);
        if (taken) out[found + rank] = in[at];
        found += all;
        __syncthreads();
    }
}
template <class Count> __global__ void store_count(const size_t *from, Count *to) { *to = (Count)*from; }
template <class Flags> struct Taken {
    Flags flags;
    __host__ __device__ size_t operator[](size_t at) const { return flags[at] ? 1 : 0; }
};

// Callers ask for the size of a workspace first, and pass one then; true if there is nothing more to do, as that was
// asked or the workspace is too small. No caller expects to need none.
inline bool asks_for_size(void *workspace, size_t &bytes, size_t needed, cudaError_t &answer) {
    answer = workspace != nullptr && bytes < needed ? cudaErrorInvalidValue : cudaSuccess;
    if (workspace == nullptr) bytes = needed != 0 ? needed : 1;
    return workspace == nullptr || answer != cudaSuccess;
}
// Sums and what stands before each part, one more than there are parts.
template <class T> size_t scan_bytes(const Parts &parts) { return (2 * (size_t)parts.blocks + 1) * sizeof(T); }

// Leaves in `places` + blocks + 1 what stands before each part; the last place behind has all.
template <class In, class T, class F>
const T *find_before(In in, const Parts &parts, T *places, F combine, T first, bool has_first, cudaStream_t stream) {
    T *before = places + parts.blocks;
    reduce<THREADS><<<parts.blocks, THREADS, 0, stream>>>(in, places, parts.count, parts.each, combine, first, false);
    scan<LAST_THREADS, true><<<1, LAST_THREADS, 0, stream>>>((const T *)places, before + 1, (size_t)parts.blocks,
                                                             (size_t)parts.blocks, (const T *)nullptr, combine, first,
                                                             has_first);
    return before;
}

template <bool INCLUSIVE, class In, class Out, class T, class F>
cudaError_t scan_all(void *workspace, size_t &bytes, In in, Out out, size_t count, F combine, T first, bool has_first,
                     cudaStream_t stream) {
    Parts parts(count);
    cudaError_t answer;
    if (asks_for_size(workspace, bytes, scan_bytes<T>(parts), answer)) return answer;
    if (count == 0) return cudaSuccess;
    const T *before = nullptr;
    if (parts.blocks > 1) before = find_before(in, parts, (T *)workspace, combine, first, has_first, stream);
    scan<THREADS, INCLUSIVE>
        <<<parts.blocks, THREADS, 0, stream>>>(in, out, count, parts.each, before, combine, first, has_first);
    return cudaPeekAtLastError();
}
template <class In, class Out, class T, class F>
cudaError_t reduce_all(void *workspace, size_t &bytes, In in, Out out, size_t count, F combine, T first, bool has_first,
                       cudaStream_t stream) {
    Parts parts(count);
    cudaError_t answer;
    if (asks_for_size(workspace, bytes, parts.blocks * sizeof(T), answer)) return answer;
    if (parts.blocks == 1) {
        reduce<THREADS><<<1, THREADS, 0, stream>>>(in, out, count, parts.each, combine, first, has_first);
        return cudaPeekAtLastError();
    }
    T *places = (T *)workspace;
    size_t blocks = parts.blocks;
    reduce<THREADS><<<parts.blocks, THREADS, 0, stream>>>(in, places, count, parts.each, combine, first, false);
    reduce<LAST_THREADS>
        <<<1, LAST_THREADS, 0, stream>>>((const T *)places, out, blocks, blocks, combine, first, has_first);
    return cudaPeekAtLastError();
}
} // namespace details

struct DeviceReduce {
    template <class In, class Out, class F, class T>
    static cudaError_t Reduce(void *workspace, size_t &bytes, In in, Out out, size_t count, F combine, T first,
                              cudaStream_t stream = 0) {
        typedef typename details::pointed<Out>::type Value;
        return details::reduce_all(workspace, bytes, in, out, count, combine, Value(first), true, stream);
    }
    template <class In, class Out>
    static cudaError_t Sum(void *workspace, size_t &bytes, In in, Out out, size_t count, cudaStream_t stream = 0) {
        return Reduce(workspace, bytes, in, out, count, cub::Sum(), 0, stream);
    }
    template <class In, class Out>
    static cudaError_t Max(void *workspace, size_t &bytes, In in, Out out, size_t count, cudaStream_t stream = 0) {
        typedef typename details::pointed<Out>::type Value;
        return details::reduce_all(workspace, bytes, in, out, count, cub::Max(), Value(), false, stream);
    }
    template <class In, class Out>
    static cudaError_t Min(void *workspace, size_t &bytes, In in, Out out, size_t count, cudaStream_t stream = 0) {
        typedef typename details::pointed<Out>::type Value;
        return details::reduce_all(workspace, bytes, in, out, count, cub::Min(), Value(), false, stream);
    }
};
struct DeviceScan {
    template <class In, class T>
    static cudaError_t ExclusiveSum(void *workspace, size_t &bytes, In in, T *out, size_t count,
                                    cudaStream_t stream = 0) {
        return details::scan_all<false>(workspace, bytes, in, out, count, cub::Sum(), T(0), true, stream);
    }
    template <class In, class T>
    static cudaError_t InclusiveSum(void *workspace, size_t &bytes, In in, T *out, size_t count,
                                    cudaStream_t stream = 0) {
        return details::scan_all<true>(workspace, bytes, in, out, count, cub::Sum(), T(0), false, stream);
    }
    template <class In, class T, class F, class First>
    static cudaError_t ExclusiveScan(void *workspace, size_t &bytes, In in, T *out, F combine, First first,
                                     size_t count, cudaStream_t stream = 0) {
        return details::scan_all<false>(workspace, bytes, in, out, count, combine, T(first), true, stream);
    }
    template <class In, class T, class F>
    static cudaError_t InclusiveScan(void *workspace, size_t &bytes, In in, T *out, F combine, size_t count,
                                     cudaStream_t stream = 0) {
        return details::scan_all<true>(workspace, bytes, in, out, count, combine, T(), false, stream);
    }
};
struct DeviceSelect {
    // Those whose flags are set, in their order, and how many they are.
    template <class In, class Flags, class Out, class Count>
    static cudaError_t Flagged(void *workspace, size_t &bytes, In in, Flags flags, Out out, Count *selected,
                               size_t count, cudaStream_t stream = 0) {
        details::Parts parts(count);
        cudaError_t answer;
        if (details::asks_for_size(workspace, bytes, details::scan_bytes<size_t>(parts), answer)) return answer;
        details::Taken<Flags> taken = {flags};
        size_t *places = (size_t *)workspace;
        // The first part has nothing before it.
        cudaError_t error = cudaMemsetAsync(places + parts.blocks, 0, sizeof(size_t), stream);
        if (error != cudaSuccess) return error;
        const size_t *before = details::find_before(taken, parts, places, cub::Sum(), (size_t)0, true, stream);
        details::flagged<<<parts.blocks, details::THREADS, 0, stream>>>(in, flags, out, count, parts.each, before);
        details::store_count<<<1, 1, 0, stream>>>(before + parts.blocks, selected);
        return cudaPeekAtLastError();
    }
};
} // namespace cub
