// Two loops whose work is known exactly: the emulator's own speed is measured on them.
#define __global__ __attribute__((global))

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
