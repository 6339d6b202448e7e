// Groups of threads: a block, a warp and its tiles, the active lanes of a warp. A tile has up to 32 lanes, on every
// GPU. A whole grid has a size and a rank here; it cannot wait for itself, as only a cooperative launch could.
#pragma once
#include "cuda_runtime.h"

namespace cooperative_groups {

// What tiles and coalesced groups are made of: lanes of one warp, by a mask and by their rank among its bits.
namespace details {
__device__ __forceinline__ unsigned int rank_in(unsigned int mask) {
    return (unsigned int)__builtin_popcount(mask & ((1u << candle_rocm::lane()) - 1));
}
// The lane that has this rank.
__device__ __forceinline__ int lane_of(unsigned int mask, unsigned int rank) {
    return (int)__fns(mask, 0, (int)rank + 1);
}
} // namespace details

class thread_block {
public:
    __device__ void sync() const { __syncthreads(); }
    __device__ static unsigned int thread_rank() {
        return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    __device__ static unsigned int num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ static unsigned int size() { return num_threads(); }
    __device__ static dim3 group_index() { return blockIdx; }
    __device__ static dim3 thread_index() { return threadIdx; }
    __device__ static dim3 group_dim() { return blockDim; }
    __device__ static dim3 dim_threads() { return blockDim; }
};
__device__ __forceinline__ thread_block this_thread_block() { return {}; }

class grid_group {
public:
    __device__ static unsigned long long num_threads() {
        return (unsigned long long)num_blocks() * thread_block::num_threads();
    }
    __device__ static unsigned long long size() { return num_threads(); }
    __device__ static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    __device__ static unsigned long long block_rank() {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    __device__ static unsigned long long thread_rank() {
        return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
    }
    __device__ static dim3 group_dim() { return gridDim; }
    __device__ static dim3 block_index() { return blockIdx; }
    __device__ static bool is_valid() { return false; }
};
__device__ __forceinline__ grid_group this_grid() { return {}; }

template <unsigned int SIZE, class Parent = void> class thread_block_tile {
    static_assert(SIZE >= 1 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");

public:
    __device__ thread_block_tile() {}
    // A tile forgets what it is a part of.
    template <class Other> __device__ thread_block_tile(const thread_block_tile<SIZE, Other> &) {}
    // The tile's lanes in its warp.
    __device__ static unsigned int mask() {
        unsigned int ones = SIZE == 32 ? 0xffffffffu : (1u << (SIZE % 32)) - 1;
        return ones << (candle_rocm::lane() & ~(SIZE - 1));
    }
    __device__ void sync() const { __syncwarp(); }
    __device__ static unsigned int thread_rank() { return thread_block::thread_rank() & (SIZE - 1); }
    __device__ static constexpr unsigned int num_threads() { return SIZE; }
    __device__ static constexpr unsigned int size() { return SIZE; }
    __device__ static unsigned int meta_group_rank() { return thread_block::thread_rank() / SIZE; }
    __device__ static unsigned int meta_group_size() { return (thread_block::num_threads() + SIZE - 1) / SIZE; }
    template <class T> __device__ T shfl(T value, int rank) const { return __shfl_sync(mask(), value, rank, SIZE); }
    template <class T> __device__ T shfl_up(T value, unsigned int by) const {
        return __shfl_up_sync(mask(), value, by, SIZE);
    }
    template <class T> __device__ T shfl_down(T value, unsigned int by) const {
        return __shfl_down_sync(mask(), value, by, SIZE);
    }
    template <class T> __device__ T shfl_xor(T value, unsigned int by) const {
        return __shfl_xor_sync(mask(), value, (int)by, SIZE);
    }
    __device__ int any(int predicate) const { return __any_sync(mask(), predicate); }
    __device__ int all(int predicate) const { return __all_sync(mask(), predicate); }
    __device__ unsigned int ballot(int predicate) const {
        return __ballot_sync(mask(), predicate) >> (candle_rocm::lane() & ~(SIZE - 1));
    }
    template <class T> __device__ unsigned int match_any(T value) const {
        return __match_any_sync(mask(), value) >> (candle_rocm::lane() & ~(SIZE - 1));
    }
    template <class T> __device__ unsigned int match_all(T value, int &all) const {
        return __match_all_sync(mask(), value, &all) >> (candle_rocm::lane() & ~(SIZE - 1));
    }
};

// The lanes that were active where the group was made.
class coalesced_group {
    unsigned int lanes;

public:
    __device__ explicit coalesced_group(unsigned int lanes) : lanes(lanes) {}
    __device__ unsigned int mask() const { return lanes; }
    __device__ void sync() const { __syncwarp(lanes); }
    __device__ unsigned int thread_rank() const { return details::rank_in(lanes); }
    __device__ unsigned int num_threads() const { return (unsigned int)__popc(lanes); }
    __device__ unsigned int size() const { return num_threads(); }
    template <class T> __device__ T shfl(T value, int rank) const {
        return __shfl_sync(lanes, value, details::lane_of(lanes, (unsigned int)rank));
    }
    template <class T> __device__ T shfl_up(T value, unsigned int by) const {
        unsigned int rank = thread_rank();
        return shfl(value, (int)(rank >= by ? rank - by : rank));
    }
    template <class T> __device__ T shfl_down(T value, unsigned int by) const {
        unsigned int rank = thread_rank();
        return shfl(value, (int)(rank + by < num_threads() ? rank + by : rank));
    }
    __device__ int any(int predicate) const { return __any_sync(lanes, predicate); }
    __device__ int all(int predicate) const { return __all_sync(lanes, predicate); }
    // Bits by rank.
    __device__ unsigned int ballot(int predicate) const {
        unsigned int set = __ballot_sync(lanes, predicate), packed = 0, at = 0;
        for (unsigned int left = lanes; left != 0; left &= left - 1, at++)
            packed |= (set >> __builtin_ctz(left) & 1u) << at;
        return packed;
    }
};
__device__ __forceinline__ coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

template <unsigned int SIZE, class Parent> __device__ __forceinline__ thread_block_tile<SIZE, Parent> tiled_partition(
    const Parent &) {
    return {};
}
template <class Group> __device__ __forceinline__ void sync(const Group &group) { group.sync(); }

template <class T> struct plus {
    __device__ T operator()(T a, T b) const { return a + b; }
};
template <class T> struct less {
    __device__ T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T> struct greater {
    __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T> struct bit_and {
    __device__ T operator()(T a, T b) const { return a & b; }
};
template <class T> struct bit_or {
    __device__ T operator()(T a, T b) const { return a | b; }
};
template <class T> struct bit_xor {
    __device__ T operator()(T a, T b) const { return a ^ b; }
};

// Every thread gets the sum.
template <unsigned int SIZE, class Parent, class T, class F>
__device__ __forceinline__ T reduce(const thread_block_tile<SIZE, Parent> &tile, T value, F combine) {
#pragma unroll
    for (unsigned int by = SIZE / 2; by > 0; by /= 2) value = combine(value, tile.shfl_xor(value, by));
    return value;
}
template <class T, class F> __device__ __forceinline__ T reduce(const coalesced_group &group, T value, F combine) {
    return candle_rocm::reduce_lanes(group.mask(), value, combine);
}
// The sum of one's own and all values before it; and without one's own.
template <class Group, class T, class F> __device__ __forceinline__ T inclusive_scan(const Group &group, T value,
                                                                                     F combine) {
    for (unsigned int by = 1; by < group.size(); by *= 2) {
        T before = group.shfl_up(value, by);
        if (group.thread_rank() >= by) value = combine(before, value);
    }
    return value;
}
template <class Group, class T> __device__ __forceinline__ T inclusive_scan(const Group &group, T value) {
    return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class F> __device__ __forceinline__ T exclusive_scan(const Group &group, T value,
                                                                                     F combine) {
    T before = group.shfl_up(inclusive_scan(group, value, combine), 1);
    return group.thread_rank() == 0 ? T{} : before;
}
template <class Group, class T> __device__ __forceinline__ T exclusive_scan(const Group &group, T value) {
    return exclusive_scan(group, value, plus<T>());
}
} // namespace cooperative_groups
