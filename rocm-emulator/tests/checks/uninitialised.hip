// Kernels that use what nothing wrote, and kernels that only carry it along, for exec_checks.rs. `in` holds 64 elements
// of which the first 32 were written.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
typedef unsigned short ushort;

KERNEL sum_good(const unsigned *in, unsigned *out) { out[X % 32] = in[X % 32] + 1; }
KERNEL sum_bad(const unsigned *in, unsigned *out) { out[X] = in[X] + 1; }
// Padding is copied, and computed with where nobody stores it.
KERNEL copy_good(const unsigned *in, unsigned *out) { out[X] = in[X]; }
KERNEL masked_good(const unsigned *in, unsigned *out) { out[X] = X < 32 ? in[X] + 1 : 0; }
KERNEL halves_good(const ushort *in, unsigned *out) { out[X] = in[X]; }
KERNEL chosen_good(const unsigned *in, unsigned *out) {
    unsigned value = in[X] * 3;
    asm volatile("" : "+v"(value));
    out[X] = X < 32 ? value : 1;
}
KERNEL branch_bad(const int *in, int *out) { if (in[X] > 1000) out[X] = 1; }
KERNEL uniform_branch_bad(const int *in, int *out) { if (in[40] > 1000) out[X] = 1; }
KERNEL address_bad(const unsigned *in, unsigned *out) { out[in[X] & 63] = 1; }
KERNEL atomic_bad(unsigned *in) { __hip_atomic_fetch_add(in + X, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
KERNEL lds_bad(unsigned *out) {
    __shared__ unsigned lds[64];
    if (X < 32) lds[X] = X;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[X] = lds[63 - X] * 5;
}
KERNEL lds_good(unsigned *out) {
    __shared__ unsigned lds[64];
    lds[X] = X;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[X] = lds[63 - X] * 5;
}
KERNEL register_bad(unsigned *out) {
    unsigned value;
    asm volatile("v_mul_lo_u32 %0, v77, 3" : "=v"(value) : : "v77");
    out[X] = value;
}
KERNEL scratch_bad(unsigned *out, unsigned at) {
    volatile unsigned local[16];
    local[at & 3] = X;
    out[X] = local[(at + 8) & 15] * 3;
}
KERNEL scratch_good(unsigned *out, unsigned at) {
    volatile unsigned local[16];
    for (unsigned i = 0; i < 16; i++) local[i] = i;
    local[at & 3] = X;
    out[X] = local[(at + 8) & 15] * 3;
}
