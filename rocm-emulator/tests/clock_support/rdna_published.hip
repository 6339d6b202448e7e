// What was measured on GPUs of RDNA: gpu-stream's kernels in our words, a copy, and loops of 256 instructions.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define WORKGROUP __builtin_amdgcn_workgroup_id_x()
typedef float four __attribute__((ext_vector_type(4)));

KERNEL init(double *a, const double *b, const double *c, const double *d) { a[WORKGROUP * 512 + X] = 0.25; }
KERNEL scale(double *a, const double *b, const double *c, const double *d) {
    unsigned i = WORKGROUP * 512 + X;
    a[i] = b[i] * 1.5;
}
KERNEL triad(double *a, const double *b, const double *c, const double *d) {
    unsigned i = WORKGROUP * 512 + X;
    a[i] = b[i] * d[i] + c[i];
}
KERNEL copy(four *a, const four *b, const four *c, const four *d) {
    unsigned i = WORKGROUP * 512 + X;
    a[i] = b[i];
}

#define EIGHT(code)                                                                                              \
    ".rept 32\n" code(8, 9) code(10, 11) code(12, 13) code(14, 15) code(16, 17) code(18, 19) code(20, 21) code(22, 23) \
    ".endr\n"
#define LOOP(NAME, BODY)                                                                                         \
    KERNEL NAME(unsigned *out, unsigned n) {                                                                     \
        asm volatile("s_mov_b32 s20, %0\n1:\n" BODY                                                              \
                     "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b" ::"s"(n)                  \
                     : "s20", "scc", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",  \
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",   \
                       "v29", "v30", "v31");                                                                        \
    }
#define FMA(x, y) "v_fma_f32 v" #x ", v4, v5, v6\n"
#define FMA64(x, y) "v_fma_f64 v[" #x ":" #y "], v[4:5], v[4:5], v[6:7]\n"
#define EXP(x, y) "v_exp_f32 v" #x ", v4\n"
LOOP(fma_f32, EIGHT(FMA))
LOOP(fma_f64, EIGHT(FMA64))
LOOP(exp_f32, EIGHT(EXP))
#if defined(__gfx1201__)
LOOP(wmma_bf16, ".rept 256\n v_wmma_f32_16x16x16_bf16 v[8:15], v[16:19], v[20:23], v[8:15]\n .endr\n")
#endif
