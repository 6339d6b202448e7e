// Loops of instructions for the tests of the model of time; those of a GPU that lacks them are empty.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define WORKGROUP __builtin_amdgcn_workgroup_id_x()
#define TIMES(n, code) ".rept " #n "\n" code "\n.endr\n"
#if defined(__gfx1201__)
#define WAIT_LDS "s_wait_dscnt 0\n"
#define WAIT_LOADS "s_wait_loadcnt 0\n"
#define WAIT_STORES "s_wait_storecnt 0\n"
#define BARRIER "s_barrier_signal -1\n s_barrier_wait -1\n"
#else
#define WAIT_LDS "s_waitcnt lgkmcnt(0)\n"
#define WAIT_LOADS "s_waitcnt vmcnt(0)\n"
#define WAIT_STORES "s_waitcnt_vscnt null, 0x0\n"
#define BARRIER "s_barrier\n"
#endif
typedef float four __attribute__((ext_vector_type(4)));

#define USES                                                                                                       \
    "s20", "s21", "scc", "v1", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31",   \
        "memory"
#define LOOP(NAME, BODY)                                                                          \
    KERNEL NAME(unsigned *out, unsigned n) {                                                      \
        unsigned wave = __builtin_amdgcn_readfirstlane(X / __builtin_amdgcn_wavefrontsize());     \
        asm volatile("s_mov_b32 s20, %0\n1:\n" BODY                                               \
                     "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b"            \
                     :: "s"(n), "s"(wave), "v"(out) : USES);                                      \
    }
// Results in two banks, so that sources in the two others make three operands of three banks.
#define EIGHT(code, after)                                                                                     \
    code "v10, v4, " after("v10") "\n" code "v11, v4, " after("v11") "\n" code "v14, v4, " after("v14") "\n"     \
    code "v15, v4, " after("v15") "\n" code "v18, v4, " after("v18") "\n" code "v19, v4, " after("v19") "\n"     \
    code "v22, v4, " after("v22") "\n" code "v23, v4, " after("v23") "\n"
#define TWO(sum) "v5"
#define THREE(sum) "v5, " sum

// What one wavefront does, or all others do.
#define ONLY(number, label, code) "s_cmp_eq_u32 %1, " number "\n s_cbranch_scc0 " label "f\n" code label ":\n"
#define ALL_BUT(number, label, code) "s_cmp_eq_u32 %1, " number "\n s_cbranch_scc1 " label "f\n" code label ":\n"

LOOP(empty, "")
LOOP(adds, TIMES(64, "v_add_nc_u32 v1, v1, v1"))
LOOP(adds_apart, TIMES(8, EIGHT("v_add_nc_u32 ", TWO)))
LOOP(sums, TIMES(64, "v_fmac_f32 v1, v4, v5"))
LOOP(scalars, TIMES(64, "s_add_u32 s21, s21, s21"))
LOOP(exps, TIMES(64, "v_exp_f32 v1, v1"))
LOOP(exps_apart, TIMES(64, "v_exp_f32 v1, v4"))
LOOP(exps_and_adds, TIMES(64, "v_exp_f32 v1, v4\n v_add_nc_u32 v8, v4, v5\n v_add_nc_u32 v9, v4, v5\n"
                              "v_add_nc_u32 v10, v4, v5"))
LOOP(products, TIMES(8, EIGHT("v_mul_lo_u32 ", TWO)))
LOOP(doubles, TIMES(16, "v_fma_f64 v[8:9], v[4:5], v[6:7], v[10:11]"))
LOOP(fmas, TIMES(32, EIGHT("v_fma_f32 ", THREE)))
LOOP(banks_apart, TIMES(64, "v_fma_f32 v8, v4, v5, v6"))
LOOP(one_bank, TIMES(64, "v_fma_f32 v9, v4, v8, v12"))
#if !defined(__gfx1030__)
// Sources of each place, and sums, in different banks.
#define DUAL(x, y) "v_dual_fmac_f32 v" #x ", v4, v6 :: v_dual_fmac_f32 v" #y ", v5, v7\n"
#if __AMDGCN_WAVEFRONT_SIZE__ == 32
LOOP(dual_fmas, TIMES(32, DUAL(8, 9) DUAL(10, 11) DUAL(12, 13) DUAL(14, 15) DUAL(16, 17) DUAL(18, 19) DUAL(20, 21)
                              DUAL(22, 23)))
#if defined(__gfx1201__)
#define WMMA "v_wmma_f32_16x16x16_f16 v[8:15], v[16:19], v[20:23], v[8:15]\n"
#define SMALL "v_wmma_i32_16x16x16_iu4 v[8:15], v16, v20, v[8:15]\n"
#else
#define WMMA "v_wmma_f32_16x16x16_f16 v[8:15], v[16:23], v[24:31], v[8:15]\n"
#define SMALL "v_wmma_i32_16x16x16_iu4 v[8:15], v[16:17], v[20:21], v[8:15]\n"
#endif
LOOP(wmmas, TIMES(32, WMMA))
LOOP(small_wmmas, TIMES(32, SMALL))
// The first wavefront multiplies, the fifth, on the same SIMD, adds; the others do nothing.
LOOP(wmmas_beside_adds, ONLY("0", "2", TIMES(32, WMMA))
     ONLY("4", "3", TIMES(32, EIGHT("v_add_nc_u32 ", TWO))) BARRIER)
#endif
LOOP(hinted, TIMES(64, "v_add_nc_u32 v1, v1, v1\n s_delay_alu instid0(VALU_DEP_1)"))
LOOP(hinted_apart, TIMES(8, EIGHT("s_delay_alu instid0(VALU_DEP_4)\n v_add_nc_u32 ", TWO)))
#endif
#if defined(__gfx1201__)
#define ADDS TIMES(128, "v_add_nc_u32 v1, v1, v1")
LOOP(late, ONLY("0", "2", ADDS) BARRIER ALL_BUT("0", "3", ADDS) BARRIER)
LOOP(late_split, ONLY("0", "2", ADDS) "s_barrier_signal -1\n" ALL_BUT("0", "3", ADDS) "s_barrier_wait -1\n" BARRIER)
#endif

#define READS(NAME, BODY)                                                                                       \
    KERNEL NAME(unsigned *out, unsigned n, unsigned stride) {                                                   \
        __shared__ unsigned lds[16384];                                                                         \
        if (stride == ~0u) lds[X] = out[X];                                                                     \
        unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned *)lds + X * stride;  \
        asm volatile("s_mov_b32 s20, %0\n1:\n" BODY                                                             \
                     "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b"                          \
                     :: "s"(n), "v"(at) : USES);                                                                \
    }
READS(one_by_one, TIMES(32, "ds_read_b32 v4, %1\n " WAIT_LDS))
READS(together, TIMES(32, "ds_read_b32 v4, %1") WAIT_LDS)

#define LOAD_AND_STORE "global_load_dword v4, %2, off\n" WAIT_LOADS "global_store_dword %2, v5, off offset:1024\n"
LOOP(waits_for_loads, LOAD_AND_STORE)
LOOP(waits_for_stores, LOAD_AND_STORE WAIT_STORES)

// Each loads the address of the next, 64 in a round.
KERNEL chase(const unsigned long *from, unsigned n) {
    asm volatile("s_mov_b32 s20, %1\n1:\n" TIMES(64, "global_load_dwordx2 %0, %0, off\n" WAIT_LOADS)
                 "s_sub_u32 s20, s20, 1\n s_cmp_lg_u32 s20, 0\n s_cbranch_scc1 1b"
                 : "+v"(from) : "s"(n) : USES);
}

KERNEL copy(const four *from, four *to) {
    unsigned i = WORKGROUP * 256 + X;
    to[i] = from[i];
}
