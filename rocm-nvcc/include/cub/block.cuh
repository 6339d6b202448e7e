// cub's sums within a warp and a block: WarpReduce, WarpScan, BlockReduce, BlockScan. Warps have 32 lanes.
#pragma once
#include "cuda_runtime.h"

namespace cub {
struct Sum {
    template <class T> __device__ T operator()(const T &a, const T &b) const { return a + b; }
};
struct Max {
    template <class T> __device__ T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};
struct Min {
    template <class T> __device__ T operator()(const T &a, const T &b) const { return b < a ? b : a; }
};
enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    K key;
    V value;
};
struct ArgMax {
    template <class K, class V>
    __device__ KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class K, class V>
    __device__ KeyValuePair<K, V> operator()(const KeyValuePair<K, V> &a, const KeyValuePair<K, V> &b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

// Among THREADS consecutive lanes, a power of two. Results are those of the first lane, in the lanes' order.
template <class T, int THREADS = 32> class WarpReduce {
    static_assert(THREADS >= 1 && THREADS <= 32 && (THREADS & (THREADS - 1)) == 0, "a power of two up to 32");

public:
    struct TempStorage {};
    __device__ __forceinline__ explicit WarpReduce(TempStorage &) {}
    template <class F> __device__ __forceinline__ T Reduce(T value, F combine, int valid = THREADS) {
        int rank = (int)candle_rocm::lane() & (THREADS - 1);
        for (int by = 1; by < THREADS; by *= 2) {
            T after = __shfl_down_sync(0xffffffffu, value, (unsigned int)by, THREADS);
            if (rank + by < valid) value = combine(value, after);
        }
        return value;
    }
    __device__ __forceinline__ T Sum(T value, int valid = THREADS) { return Reduce(value, cub::Sum(), valid); }
};

template <class T, int THREADS = 32> class WarpScan {
    static_assert(THREADS >= 1 && THREADS <= 32 && (THREADS & (THREADS - 1)) == 0, "a power of two up to 32");

public:
    struct TempStorage {};
    __device__ __forceinline__ explicit WarpScan(TempStorage &) {}
    template <class F> __device__ __forceinline__ void InclusiveScan(T value, T &result, F combine) {
        int rank = (int)candle_rocm::lane() & (THREADS - 1);
        for (int by = 1; by < THREADS; by *= 2) {
            T before = __shfl_up_sync(0xffffffffu, value, (unsigned int)by, THREADS);
            if (rank >= by) value = combine(before, value);
        }
        result = value;
    }
    template <class F> __device__ __forceinline__ void InclusiveScan(T value, T &result, F combine, T &all) {
        InclusiveScan(value, result, combine);
        all = __shfl_sync(0xffffffffu, result, THREADS - 1, THREADS);
    }
    template <class F> __device__ __forceinline__ void ExclusiveScan(T value, T &result, T first, F combine) {
        T inclusive;
        InclusiveScan(value, inclusive, combine);
        T before = __shfl_up_sync(0xffffffffu, inclusive, 1u, THREADS);
        result = ((int)candle_rocm::lane() & (THREADS - 1)) == 0 ? first : combine(first, before);
    }
    __device__ __forceinline__ void InclusiveSum(T value, T &result) { InclusiveScan(value, result, cub::Sum()); }
    __device__ __forceinline__ void InclusiveSum(T value, T &result, T &all) {
        InclusiveScan(value, result, cub::Sum(), all);
    }
    __device__ __forceinline__ void ExclusiveSum(T value, T &result) { ExclusiveScan(value, result, T(0), cub::Sum()); }
    __device__ __forceinline__ void ExclusiveSum(T value, T &result, T &all) {
        T inclusive;
        InclusiveScan(value, inclusive, cub::Sum(), all);
        ExclusiveSum(value, result);
    }
};

// Shared by the two below: a block's warps scan, then its first thread adds up what they have, in their order.
namespace details {
template <class T, int THREADS> struct Totals {
    static constexpr int WARPS = (THREADS + 31) / 32;
    // Bytes, as T may have a constructor, and shared memory has none.
    alignas(T) unsigned char bytes[(WARPS + 1) * sizeof(T)];
    __device__ __forceinline__ T &of(int warp) { return ((T *)bytes)[warp]; }
    __device__ __forceinline__ T &all() { return of(WARPS); }
};
template <int X, int Y, int Z> __device__ __forceinline__ int rank() {
    return (int)((threadIdx.z * Y + threadIdx.y) * X + threadIdx.x);
}
} // namespace details

// Results are the first thread's. The number of threads need be no multiple of 32.
template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1,
          int = 0> class BlockReduce {
    static constexpr int THREADS = X * Y * Z;

public:
    struct TempStorage : details::Totals<T, THREADS> {};
    TempStorage &storage;
    __device__ __forceinline__ explicit BlockReduce(TempStorage &storage) : storage(storage) {}
    template <class F> __device__ __forceinline__ T Reduce(T value, F combine, int valid = THREADS) {
        int rank = details::rank<X, Y, Z>(), warp = rank / 32, lane = rank % 32;
        for (int by = 1; by < 32; by *= 2) {
            T after = __shfl_down_sync(0xffffffffu, value, (unsigned int)by);
            if (lane + by < 32 && rank + by < valid) value = combine(value, after);
        }
        if (lane == 0) storage.of(warp) = value;
        __syncthreads();
        if (rank == 0)
            for (int w = 1; w * 32 < valid; w++) value = combine(value, storage.of(w));
        return value;
    }
    template <class F, int ITEMS> __device__ __forceinline__ T Reduce(T (&values)[ITEMS], F combine) {
        T value = values[0];
#pragma unroll
        for (int i = 1; i < ITEMS; i++) value = combine(value, values[i]);
        return Reduce(value, combine);
    }
    __device__ __forceinline__ T Sum(T value, int valid = THREADS) { return Reduce(value, cub::Sum(), valid); }
    template <int ITEMS> __device__ __forceinline__ T Sum(T (&values)[ITEMS]) { return Reduce(values, cub::Sum()); }
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
    static constexpr int THREADS = X * Y * Z;

public:
    struct TempStorage : details::Totals<T, THREADS> {};
    TempStorage &storage;
    __device__ __forceinline__ explicit BlockScan(TempStorage &storage) : storage(storage) {}

private:
    // Each thread's sum with all before it in its warp, that of all warps before (where there are any), and of the
    // block.
    template <class F> struct Found {
        T in_warp, before_in_warp, before;
        bool first_lane, first_warp;
    };
    template <class F> __device__ __forceinline__ Found<F> find(T value, F combine, T &all) {
        int rank = details::rank<X, Y, Z>(), warp = rank / 32, lane = rank % 32;
        for (int by = 1; by < 32; by *= 2) {
            T earlier = __shfl_up_sync(0xffffffffu, value, (unsigned int)by);
            if (lane >= by) value = combine(earlier, value);
        }
        T before_in_warp = __shfl_up_sync(0xffffffffu, value, 1u);
        if (lane == 31 || rank == THREADS - 1) storage.of(warp) = value;
        __syncthreads();
        T before = storage.of(0);
        for (int w = 1; w < warp; w++) before = combine(before, storage.of(w));
        all = storage.of(0);
        for (int w = 1; w < storage.WARPS; w++) all = combine(all, storage.of(w));
        return {value, before_in_warp, before, lane == 0, warp == 0};
    }

public:
    template <class F> __device__ __forceinline__ void InclusiveScan(T value, T &result, F combine, T &all) {
        Found<F> found = find(value, combine, all);
        result = found.first_warp ? found.in_warp : combine(found.before, found.in_warp);
    }
    template <class F> __device__ __forceinline__ void InclusiveScan(T value, T &result, F combine) {
        T all;
        InclusiveScan(value, result, combine, all);
    }
    template <class F> __device__ __forceinline__ void ExclusiveScan(T value, T &result, T first, F combine, T &all) {
        Found<F> found = find(value, combine, all);
        T sum = first;
        if (!found.first_warp) sum = combine(sum, found.before);
        if (!found.first_lane) sum = combine(sum, found.before_in_warp);
        result = sum;
    }
    template <class F> __device__ __forceinline__ void ExclusiveScan(T value, T &result, T first, F combine) {
        T all;
        ExclusiveScan(value, result, first, combine, all);
    }
    __device__ __forceinline__ void InclusiveSum(T value, T &result, T &all) {
        InclusiveScan(value, result, cub::Sum(), all);
    }
    __device__ __forceinline__ void InclusiveSum(T value, T &result) { InclusiveScan(value, result, cub::Sum()); }
    __device__ __forceinline__ void ExclusiveSum(T value, T &result, T &all) {
        ExclusiveScan(value, result, T(0), cub::Sum(), all);
    }
    __device__ __forceinline__ void ExclusiveSum(T value, T &result) { ExclusiveScan(value, result, T(0), cub::Sum()); }
    // Several values a thread, one after the other.
    template <int ITEMS> __device__ __forceinline__ void InclusiveSum(T (&values)[ITEMS], T (&results)[ITEMS]) {
        T own = values[0];
        for (int i = 1; i < ITEMS; i++) own = own + values[i];
        T sum;
        ExclusiveSum(own, sum);
        for (int i = 0; i < ITEMS; i++) results[i] = sum = sum + values[i];
    }
    template <int ITEMS> __device__ __forceinline__ void ExclusiveSum(T (&values)[ITEMS], T (&results)[ITEMS]) {
        T own = values[0];
        for (int i = 1; i < ITEMS; i++) own = own + values[i];
        T sum;
        ExclusiveSum(own, sum);
        for (int i = 0; i < ITEMS; i++) {
            T value = values[i];
            results[i] = sum;
            sum = sum + value;
        }
    }
};
} // namespace cub
