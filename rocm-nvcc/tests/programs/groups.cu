// Cooperative groups, and cub's sums of a warp and a block. Blocks have 40 or 96 threads.
#include "program.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#if CUB_VERSION >= 300000
// Where NVIDIA has them since CUDA 13.
#include <cuda/functional>
namespace cub {
typedef cuda::maximum<> Max;
typedef cuda::minimum<> Min;
}
#endif
namespace cg = cooperative_groups;

PROGRAM(block_place) {
    cg::thread_block block = cg::this_thread_block();
    out[0] = block.thread_rank(), out[1] = block.size();
    out[2] = block.group_index().x, out[3] = block.group_dim().x;
    block.sync();
}
PROGRAM(grid_place) {
    cg::grid_group grid = cg::this_grid();
    out[0] = (uint32_t)grid.thread_rank(), out[1] = (uint32_t)grid.size();
    out[2] = (uint32_t)grid.block_rank(), out[3] = (uint32_t)grid.num_blocks();
}
PROGRAM(tile_place) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[0] = tile.thread_rank(), out[1] = tile.size(), out[2] = tile.meta_group_rank(), out[3] = tile.meta_group_size();
}
PROGRAM(tile_shuffles) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[0] = tile.shfl(in[0], 5), out[1] = tile.shfl_up(in[1], 2), out[2] = tile.shfl_down(in[2], 3);
    out[3] = tile.shfl_xor(in[3], 4);
}
PROGRAM(tile_votes) {
    auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    out[0] = (uint32_t)tile.any(in[0] % 4 == 0), out[1] = (uint32_t)tile.all(in[1] % 4 != 0);
    out[2] = tile.ballot(in[2] & 1), out[3] = tile.match_any(in[3] % 2);
}
PROGRAM(tile_reduce) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    out[0] = cg::reduce(tile, in[0], cg::plus<uint32_t>()), out[1] = cg::reduce(tile, in[1], cg::greater<uint32_t>());
    out[2] = cg::reduce(tile, in[2], cg::less<uint32_t>()), out[3] = cg::reduce(tile, in[3], cg::bit_xor<uint32_t>());
}
PROGRAM(tile_scan) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[0] = cg::inclusive_scan(tile, in[0]), out[1] = cg::exclusive_scan(tile, in[1]);
}
PROGRAM(coalesced) {
    if (in[0] % 3 == 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        out[0] = group.thread_rank() + 1, out[1] = group.size();
        out[2] = group.shfl(in[1], 0), out[3] = cg::reduce(group, in[2], cg::plus<uint32_t>());
    }
}
PROGRAM(coalesced_ballot) {
    if (in[0] % 3 != 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        out[0] = group.ballot(in[1] & 1), out[1] = group.shfl_up(in[2], 1);
    }
}
PROGRAM(cub_warp_reduce) {
    typedef cub::WarpReduce<uint32_t, 8> Reduce;
    __shared__ Reduce::TempStorage storage[128];
    uint32_t sum = Reduce(storage[threadIdx.x / 8]).Sum(in[0]);
    uint32_t most = Reduce(storage[threadIdx.x / 8]).Reduce(in[1], cub::Max());
    if (threadIdx.x % 8 == 0) out[0] = sum, out[1] = most;
}
PROGRAM(cub_warp_scan) {
    typedef cub::WarpScan<uint32_t, 8> Scan;
    __shared__ Scan::TempStorage storage[128];
    Scan(storage[threadIdx.x / 8]).InclusiveSum(in[0], out[0]);
    Scan(storage[threadIdx.x / 8]).ExclusiveSum(in[1], out[1], out[2]);
}
template <int THREADS> __device__ void block_reduce(const uint32_t (&in)[4], uint32_t (&out)[4]) {
    typedef cub::BlockReduce<uint32_t, THREADS> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    uint32_t sum = Reduce(storage).Sum(in[0]);
    __syncthreads();
    uint32_t least = Reduce(storage).Reduce(in[1], cub::Min());
    __syncthreads();
    uint32_t some = Reduce(storage).Sum(in[2], 37);
    if (threadIdx.x == 0) out[0] = sum, out[1] = least, out[2] = some;
}
PROGRAM(cub_block_reduce) {
    if (blockDim.x == 40) block_reduce<40>(in, out);
    else block_reduce<96>(in, out);
}
template <int THREADS> __device__ void block_scan(const uint32_t (&in)[4], uint32_t (&out)[4]) {
    typedef cub::BlockScan<uint32_t, THREADS> Scan;
    __shared__ typename Scan::TempStorage storage;
    Scan(storage).InclusiveSum(in[0], out[0]);
    __syncthreads();
    Scan(storage).ExclusiveSum(in[1], out[1], out[2]);
    __syncthreads();
    Scan(storage).InclusiveScan(in[3], out[3], cub::Max());
}
PROGRAM(cub_block_scan) {
    if (blockDim.x == 40) block_scan<40>(in, out);
    else block_scan<96>(in, out);
}
PROGRAM(block_votes) {
    out[0] = (uint32_t)__syncthreads_count(in[0] & 1), out[1] = (uint32_t)__syncthreads_or(in[1] % 64 == 0);
    out[2] = (uint32_t)__syncthreads_and(in[2] % 64 != 0), out[3] = (uint32_t)__syncthreads_and(1);
}
extern __shared__ uint32_t dynamic[];
PROGRAM(dynamic_shared) {
    dynamic[threadIdx.x] = in[0];
    __syncthreads();
    out[0] = dynamic[blockDim.x - 1 - threadIdx.x];
}
__constant__ uint32_t table[4] = {3, 1, 4, 1};
PROGRAM(constant_memory) { out[0] = table[in[0] % 4]; }
