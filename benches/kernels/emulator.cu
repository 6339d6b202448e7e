// Two loops whose work is known exactly, on which the emulator's own speed is measured, and two small kernels for what its
// checks cost.
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))

/// `rounds` dependent chains of eight f32 FMAs a lane.
extern "C" __global__ void fma_loop(float* out, float a, float b, unsigned rounds) {
    float x[8];
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = __builtin_amdgcn_workitem_id_x() + i;
    for (unsigned r = 0; r < rounds; r++) {
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = __builtin_fmaf(x[i], a, b);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += x[i];
    out[__builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x()] = sum;
}

typedef unsigned uint4v __attribute__((ext_vector_type(4)));

/// Each workgroup of 256 copies `rounds` pieces of 4 KiB, 16 bytes a lane.
extern "C" __global__ void copy_loop(const uint4v* in, uint4v* out, unsigned rounds) {
    unsigned at = __builtin_amdgcn_workgroup_id_x() * rounds * 256 + __builtin_amdgcn_workitem_id_x();
    for (unsigned r = 0; r < rounds; r++, at += 256) out[at] = in[at];
}

static __device__ __attribute__((always_inline)) void sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

/// The sum of each workgroup's 256 elements, in LDS.
extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ int part[256];
    unsigned x = __builtin_amdgcn_workitem_id_x();
    part[x] = in[__builtin_amdgcn_workgroup_id_x() * 256 + x];
    sync();
    for (unsigned step = 128; step; step /= 2) {
        if (x < step) part[x] += part[x + step];
        sync();
    }
    if (x == 0) out[__builtin_amdgcn_workgroup_id_x()] = part[0];
}

/// An element a lane.
extern "C" __global__ void add(const float* a, const float* b, float* out) {
    unsigned i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    out[i] = a[i] + b[i];
}
