// cub's BlockLoad and BlockStore: a run of values of memory, so many of them for each thread, in the threads' order.
// The ways to do it that cub offers move the same values; here each thread moves its own.
#pragma once
#include "cuda_runtime.h"

namespace cub {
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT,
    BLOCK_LOAD_STRIPED,
    BLOCK_LOAD_VECTORIZE,
    BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT,
    BLOCK_STORE_STRIPED,
    BLOCK_STORE_VECTORIZE,
    BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
namespace details {
// Where the thread's value `item` is: in a striped arrangement the threads take turns.
template <int X, int ITEMS, int Y, int Z, bool STRIPED> __device__ __forceinline__ int place(int item) {
    int thread = (int)(threadIdx.x + X * (threadIdx.y + Y * threadIdx.z));
    return STRIPED ? item * X * Y * Z + thread : thread * ITEMS + item;
}
} // namespace details

template <class T, int X, int ITEMS, BlockLoadAlgorithm HOW = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1> class BlockLoad {
    static __device__ __forceinline__ int place(int item) {
        return details::place < X, ITEMS, Y, Z, HOW == BLOCK_LOAD_STRIPED > (item);
    }

public:
    struct TempStorage {};
    __device__ __forceinline__ BlockLoad() {}
    __device__ __forceinline__ explicit BlockLoad(TempStorage &) {}
    template <class In> __device__ __forceinline__ void Load(In from, T (&items)[ITEMS]) {
#pragma unroll
        for (int item = 0; item < ITEMS; item++) items[item] = from[place(item)];
    }
    template <class In> __device__ __forceinline__ void Load(In from, T (&items)[ITEMS], int valid) {
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
            if (place(item) < valid) items[item] = from[place(item)];
        }
    }
    template <class In, class Other>
    __device__ __forceinline__ void Load(In from, T (&items)[ITEMS], int valid, Other other) {
#pragma unroll
        for (int item = 0; item < ITEMS; item++) items[item] = place(item) < valid ? T(from[place(item)]) : T(other);
    }
};

template <class T, int X, int ITEMS, BlockStoreAlgorithm HOW = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
class BlockStore {
    static __device__ __forceinline__ int place(int item) {
        return details::place < X, ITEMS, Y, Z, HOW == BLOCK_STORE_STRIPED > (item);
    }

public:
    struct TempStorage {};
    __device__ __forceinline__ BlockStore() {}
    __device__ __forceinline__ explicit BlockStore(TempStorage &) {}
    template <class Out> __device__ __forceinline__ void Store(Out to, T (&items)[ITEMS]) {
#pragma unroll
        for (int item = 0; item < ITEMS; item++) to[place(item)] = items[item];
    }
    template <class Out> __device__ __forceinline__ void Store(Out to, T (&items)[ITEMS], int valid) {
#pragma unroll
        for (int item = 0; item < ITEMS; item++) {
            if (place(item) < valid) to[place(item)] = items[item];
        }
    }
};
} // namespace cub
