// Shuffles, votes, matches and reductions of a warp.
#include "program.cuh"
#include <cuda_fp16.h>

PROGRAM(warp_place) {
    out[0] = threadIdx.x % warpSize;
    unsigned int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[1] = lane;
    out[2] = warpSize;
    out[3] = __activemask();
}
PROGRAM(shuffle) { out[0] = __shfl_sync(FULL, in[0], in[1] % LANES); }
PROGRAM(shuffle_width) { out[0] = __shfl_sync(FULL, in[0], in[1] % 4, 8); }
PROGRAM(shuffle_up) {
    out[0] = __shfl_up_sync(FULL, in[0], 3);
    out[1] = __shfl_up_sync(FULL, in[1], in[2] % 8, 8);
}
PROGRAM(shuffle_down) {
    unsigned int lane = threadIdx.x % 32, lanes = LANES;
    uint32_t moved = __shfl_down_sync(FULL, in[0], 5);
    // Beyond the block's last thread there is nothing to read.
    out[0] = lane + 5 < 32 && lane + 5 >= lanes ? 0 : moved;
    out[1] = __shfl_down_sync(FULL, in[1], in[2] % 4, 4);
}
PROGRAM(shuffle_xor) {
    out[0] = __shfl_xor_sync(FULL, in[0], 1);
    out[1] = __shfl_xor_sync(FULL, in[1], 2);
    out[2] = __shfl_xor_sync(FULL, in[2], 4);
}
PROGRAM(shuffle_xor_wide) {
    unsigned int lane = threadIdx.x % 32;
    for (int i = 0; i < 2; i++) {
        uint32_t moved = i == 0 ? __shfl_xor_sync(FULL, in[0], 8) : __shfl_xor_sync(FULL, in[1], 16);
        out[i] = (lane ^ (8u << i)) < LANES ? moved : 0;
    }
    out[2] = __shfl_xor_sync(FULL, in[2], in[3] % 4, 4);
}
PROGRAM(shuffle_types) {
    double pair = __hiloint2double((int)in[0], (int)in[1]);
    pair = __shfl_sync(FULL, pair, in[2] % LANES);
    out[0] = (uint32_t)__double2hiint(pair), out[1] = (uint32_t)__double2loint(pair);
    __half half = __ushort_as_half((unsigned short)in[3]);
    out[2] = __half_as_ushort(__shfl_xor_sync(FULL, half, 1));
    out[3] = (uint32_t)(__shfl_xor_sync(FULL, (long long)in[3] << 32 | in[2], 2) >> 16);
}
PROGRAM(ballot) {
    out[0] = __ballot_sync(FULL, in[0] & 1);
    // None but the lanes that the mask names may be there.
    if (0x0f0f0f0fu >> threadIdx.x % 32 & 1) out[1] = __ballot_sync(0x0f0f0f0fu, in[1] & 1);
}
PROGRAM(votes) {
    out[0] = __any_sync(FULL, in[0] % 40 == 0);
    out[1] = __all_sync(FULL, in[1] % 40 != 0);
    out[2] = __all_sync(FULL, 1);
    out[3] = __any_sync(FULL, 0);
}
PROGRAM(divergent_ballot) {
    if (in[0] & 1) out[0] = __ballot_sync(__activemask(), in[1] & 1), out[1] = __activemask();
    else out[0] = __ballot_sync(__activemask(), in[2] & 1), out[2] = __activemask();
}
PROGRAM(match_any) { out[0] = __match_any_sync(FULL, in[0] % 5); }
PROGRAM(match_all) {
    int all;
    // Lanes that are not there match nothing.
    unsigned int there = __activemask();
    out[0] = __match_all_sync(there, in[0] | 0xffffffffu, &all) == there, out[1] = (uint32_t)all;
    out[2] = __match_all_sync(there, threadIdx.x % 32, &all), out[3] = (uint32_t)all;
}
PROGRAM(reduce_add) { out[0] = __reduce_add_sync(FULL, in[0]); }
PROGRAM(reduce_extremes) {
    out[0] = __reduce_min_sync(FULL, in[0]), out[1] = __reduce_max_sync(FULL, in[0]);
    out[2] = (uint32_t)__reduce_min_sync(FULL, (int)in[0]), out[3] = (uint32_t)__reduce_max_sync(FULL, (int)in[0]);
}
PROGRAM(reduce_bits) {
    out[0] = __reduce_and_sync(FULL, in[0] | 0xffff), out[1] = __reduce_or_sync(FULL, in[1] & 0xff);
    out[2] = __reduce_xor_sync(FULL, in[2]);
}
// Each lane alone reads what its neighbour wrote, with nothing but the warp's barrier between.
PROGRAM(syncwarp) {
    __shared__ uint32_t shared[1024];
    shared[threadIdx.x] = in[0];
    __syncwarp();
    out[0] = shared[threadIdx.x ^ 1];
    __syncwarp();
    shared[threadIdx.x] = in[1];
    __syncwarp();
    out[1] = shared[threadIdx.x ^ 3];
}
// A warp that does more than the other of its wavefront.
PROGRAM(uneven_warps) {
    uint32_t value = in[0];
    for (unsigned int i = 0; i <= threadIdx.x / 32; i++) value += __shfl_xor_sync(FULL, value, 1);
    out[0] = value;
    if (threadIdx.x / 32 == 0) out[1] = __ballot_sync(FULL, in[1] & 1);
}
