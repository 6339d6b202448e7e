// Atomics: results are what lies in memory afterwards, in words that the programs name.
#include "program.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

PROGRAM(atomic_integers) {
    atomicAdd(memory, in[0]), atomicAdd((int *)memory + 1, (int)in[1]), atomicSub(memory + 2, in[2]);
    atomicAdd((unsigned long long *)memory + 2, (unsigned long long)in[3] << 4);
}
PROGRAM(atomic_extremes) {
    atomicMax(memory, in[0]), atomicMax((int *)memory + 1, (int)in[1]), atomicMin(memory + 2, ~in[2]);
    atomicMin((long long *)memory + 2, -(long long)in[3] * 3);
}
PROGRAM(atomic_bits) {
    atomicOr(memory, in[0] & 0xff0), atomicXor(memory + 1, in[1]), atomicAnd(memory + 2, in[2] | 0xff);
    atomicOr((unsigned long long *)memory + 2, (unsigned long long)(in[3] & 0xf) << 40);
}
// Small whole numbers, so that every order has one sum.
PROGRAM(atomic_floats) {
    atomicAdd((float *)memory, (float)(in[0] % 16)), atomicAdd((double *)memory + 1, (double)(in[1] % 1024) * 0.5);
}
PROGRAM(atomic_halves) {
    atomicAdd((__half *)memory, __float2half((float)(in[0] % 4))), atomicAdd((__half *)memory + 1, __float2half(1.0f));
    atomicAdd((__half2 *)memory + 1, __floats2half2_rn((float)(in[1] % 4), 2.0f));
}
PROGRAM(atomic_bfloats) {
    atomicAdd((__nv_bfloat16 *)memory + 1, __float2bfloat16(1.0f));
    atomicAdd((__nv_bfloat162 *)memory + 1, __floats2bfloat162_rn(0.5f, -1.0f));
}
PROGRAM(atomic_wrap) { atomicInc(memory, 10), atomicDec(memory + 1, 10); }
PROGRAM(atomic_exchange) {
    // All write the same value; the last one's predecessor is somebody's.
    atomicExch(memory, 77u), atomicExch((float *)memory + 1, 1.5f),
        atomicExch((unsigned long long *)memory + 1, 1ull << 33);
}
PROGRAM(atomic_cas) {
    // A sum by hand, in 32, 64 and 16 bits.
    unsigned int old = memory[0], assumed;
    do {
        assumed = old;
        old = atomicCAS(memory, assumed, assumed + in[0]);
    } while (old != assumed);
    unsigned long long *wide = (unsigned long long *)memory + 1, old_wide = *wide, assumed_wide;
    do {
        assumed_wide = old_wide;
        old_wide = atomicCAS(wide, assumed_wide, assumed_wide + in[1] * 5ull);
    } while (old_wide != assumed_wide);
    unsigned short *narrow = (unsigned short *)memory + 9, old_narrow = *narrow, assumed_narrow;
    do {
        assumed_narrow = old_narrow;
        old_narrow = atomicCAS(narrow, assumed_narrow, (unsigned short)(assumed_narrow + in[2]));
    } while (old_narrow != assumed_narrow);
}
PROGRAM(atomic_shared) {
    __shared__ unsigned int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd_block(&sum, in[0]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd_system(memory, sum);
    __threadfence();
}
// The block that ends last adds up what all have left.
PROGRAM(last_block) {
    __shared__ bool last;
    volatile uint32_t *parts = memory + 16;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = in[0];
        __threadfence();
        last = atomicInc(memory, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        uint32_t sum = 0;
        for (unsigned int i = 0; i < gridDim.x; i++) sum += parts[i];
        memory[1] = sum;
    }
}
