// Kernels with and without the waits that hardware needs, for exec_checks.rs: `..._bad` lacks what `..._good` has.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()

#if __GFX12__
#define LOAD "global_load_b32"
#define FLAT_LOAD "flat_load_b32"
#define STORE "global_store_b32"
#define LDS_LOAD "ds_load_b32"
#define LDS_STORE "ds_store_b32"
#define SCALAR_LOAD "s_load_b32"
#define WAIT_LOAD(n) "s_wait_loadcnt " #n "\n"
#define WAIT_LDS(n) "s_wait_dscnt " #n "\n"
#define WAIT_SCALAR(n) "s_wait_kmcnt " #n "\n"
#elif __GFX11__
#define LOAD "global_load_b32"
#define FLAT_LOAD "flat_load_b32"
#define STORE "global_store_b32"
#define LDS_LOAD "ds_load_b32"
#define LDS_STORE "ds_store_b32"
#define SCALAR_LOAD "s_load_b32"
#define WAIT_LOAD(n) "s_waitcnt vmcnt(" #n ")\n"
#define WAIT_LDS(n) "s_waitcnt lgkmcnt(" #n ")\n"
#define WAIT_SCALAR WAIT_LDS
#else
#define LOAD "global_load_dword"
#define FLAT_LOAD "flat_load_dword"
#define STORE "global_store_dword"
#define LDS_LOAD "ds_read_b32"
#define LDS_STORE "ds_write_b32"
#define SCALAR_LOAD "s_load_dword"
#define WAIT_LOAD(n) "s_waitcnt vmcnt(" #n ")\n"
#define WAIT_LDS(n) "s_waitcnt lgkmcnt(" #n ")\n"
#define WAIT_SCALAR WAIT_LDS
#endif
#define LINE "\n"

// A load of memory, used before or after its wait.
#define MEMORY(name, wait)                                                                     \
    KERNEL name(const unsigned *in, unsigned *out) {                                           \
        const unsigned *from = in + X;                                                         \
        unsigned loaded, used;                                                                 \
        asm volatile(LOAD " %0, %2, off" LINE wait "v_mov_b32 %1, %0" LINE WAIT_LOAD(0)       \
                     : "=&v"(loaded), "=&v"(used) : "v"(from));                                \
        out[X] = used;                                                                         \
    }
MEMORY(memory_bad, "")
MEMORY(memory_good, WAIT_LOAD(0))

// Of two loads the second one is used: a wait that leaves one outstanding is for the first.
#define SECOND(name, wait)                                                                                       \
    KERNEL name(const unsigned *in, unsigned *out) {                                                             \
        const unsigned *from = in + X;                                                                           \
        unsigned a, b, used;                                                                                     \
        asm volatile(LOAD " %0, %3, off" LINE LOAD " %1, %3, off offset:4" LINE wait "v_mov_b32 %2, %1" LINE \
                         WAIT_LOAD(0) : "=&v"(a), "=&v"(b), "=&v"(used) : "v"(from));                            \
        out[X] = used;                                                                                           \
    }
SECOND(second_bad, WAIT_LOAD(1))
SECOND(second_good, WAIT_LOAD(0))
#define FIRST(name, wait)                                                                                        \
    KERNEL name(const unsigned *in, unsigned *out) {                                                             \
        const unsigned *from = in + X;                                                                           \
        unsigned a, b, used;                                                                                     \
        asm volatile(LOAD " %0, %3, off" LINE LOAD " %1, %3, off offset:4" LINE wait "v_mov_b32 %2, %0" LINE \
                         WAIT_LOAD(0) : "=&v"(a), "=&v"(b), "=&v"(used) : "v"(from));                            \
        out[X] = used;                                                                                           \
    }
FIRST(first_good, WAIT_LOAD(1))

// What the LDS gives, used too early: found by reading in a published product.
#define LDS_USE(name, wait)                                                                    \
    KERNEL name(unsigned *out) {                                                               \
        __shared__ unsigned lds[64];                                                           \
        unsigned *place = lds + X;                                                             \
        unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned *)place; \
        unsigned loaded, used, value = X * 3;                                                  \
        asm volatile(LDS_STORE " %2, %3" LINE WAIT_LDS(0) LDS_LOAD " %0, %2" LINE wait         \
                     "v_mov_b32 %1, %0" LINE WAIT_LDS(0)                                       \
                     : "=&v"(loaded), "=&v"(used) : "v"(at), "v"(value) : "memory");           \
        out[X] = used;                                                                         \
    }
LDS_USE(lds_use_bad, "")
LDS_USE(lds_use_good, WAIT_LDS(0))

// A flat address of memory's, whose load the memory's counter tells, and one of the LDS', which the LDS' tells.
#define FLAT_MEMORY(name, wait)                                                                \
    KERNEL name(const unsigned *in, unsigned *out) {                                           \
        const unsigned *from = in + X;                                                         \
        unsigned loaded, used;                                                                 \
        asm volatile(FLAT_LOAD " %0, %2" LINE wait "v_mov_b32 %1, %0" LINE WAIT_LOAD(0) WAIT_LDS(0) \
                     : "=&v"(loaded), "=&v"(used) : "v"(from));                                \
        out[X] = used;                                                                         \
    }
FLAT_MEMORY(flat_memory_bad, WAIT_LDS(0))
FLAT_MEMORY(flat_memory_good, WAIT_LOAD(0))
#define FLAT_LDS(name, wait)                                                                   \
    KERNEL name(unsigned *out) {                                                               \
        __shared__ unsigned lds[64];                                                           \
        const unsigned *from = lds + X;                                                        \
        lds[X] = X;                                                                            \
        unsigned loaded, used;                                                                 \
        asm volatile(WAIT_LDS(0) FLAT_LOAD " %0, %2" LINE wait "v_mov_b32 %1, %0" LINE WAIT_LOAD(0) WAIT_LDS(0) \
                     : "=&v"(loaded), "=&v"(used) : "v"(from) : "memory");                     \
        out[X] = used;                                                                         \
    }
FLAT_LDS(flat_lds_bad, WAIT_LOAD(0))
FLAT_LDS(flat_lds_good, WAIT_LOAD(0) WAIT_LDS(0))

// Scalar loads complete in any order: a wait that leaves one says nothing of the other.
#define SCALAR(name, wait)                                                                                     \
    KERNEL name(const unsigned *in, unsigned *out) {                                                           \
        unsigned a, b, used;                                                                                   \
        asm volatile(SCALAR_LOAD " %0, %3, 0x0" LINE SCALAR_LOAD " %1, %3, 0x4" LINE wait "s_mov_b32 %2, %0" \
                     LINE WAIT_SCALAR(0) : "=&s"(a), "=&s"(b), "=&s"(used) : "s"(in));                         \
        out[X] = used;                                                                                         \
    }
SCALAR(scalar_bad, WAIT_SCALAR(1))
SCALAR(scalar_good, WAIT_SCALAR(0))

// A register that a load will write, written before it does.
#define OVERWRITTEN(name, wait)                                                                   \
    KERNEL name(const unsigned *in, unsigned *out) {                                              \
        const unsigned *from = in + X;                                                            \
        unsigned loaded;                                                                          \
        asm volatile(LOAD " %0, %1, off" LINE wait "v_mov_b32 %0, 5" LINE WAIT_LOAD(0) : "=&v"(loaded) : "v"(from)); \
        out[X] = loaded;                                                                          \
    }
OVERWRITTEN(overwritten_bad, "")
OVERWRITTEN(overwritten_good, WAIT_LOAD(0))

// A write of the LDS, a barrier, and another wavefront's read: the barrier alone does not wait for the write.
KERNEL barrier_bad(unsigned *out) {
    __shared__ unsigned lds[128];
    unsigned at = X * 4, value = X * 7;
    // The argument is there before: the wait for it would be one for the write.
    asm volatile("" : "+s"(out) : : "memory");
    // In assembly, as compilers wait of themselves for some GPUs.
    asm volatile(LDS_STORE " %0, %1" : : "v"(at), "v"(value) : "memory");
    __builtin_amdgcn_s_barrier();
    out[X] = lds[127 - X];
    lds[X] = 0;
}
KERNEL barrier_good(unsigned *out) {
    __shared__ unsigned lds[128];
    lds[X] = X * 7;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    out[X] = lds[127 - X];
}
// The write belongs to the next barrier, and nobody reads before that.
KERNEL barrier_later_good(unsigned *out) {
    __shared__ unsigned lds[128];
    unsigned at = X * 4, value = X * 7;
    asm volatile(LDS_STORE " %0, %1" : : "v"(at), "v"(value) : "memory");
    __builtin_amdgcn_s_barrier();
    asm volatile(WAIT_LDS(0) : : : "memory");
    __builtin_amdgcn_s_barrier();
    out[X] = lds[127 - X];
    lds[X] = 0;
}

// Wait states.
#if __gfx90a__ || __gfx942__
#define LANE_NUMBER(name, wait)                                                                \
    KERNEL name(const unsigned *in, unsigned *out) {                                           \
        unsigned base, used, value = in[X], which = in[0];                                     \
        asm volatile("v_readfirstlane_b32 %0, %2" LINE wait "v_readlane_b32 %1, %3, %0" LINE "s_nop 1" \
                     : "=&s"(base), "=&s"(used) : "v"(which), "v"(value));                     \
        out[X] = used;                                                                         \
    }
LANE_NUMBER(lane_number_bad, "s_nop 2\n")
LANE_NUMBER(lane_number_good, "s_nop 3\n")
// The value that v_writelane writes is no lane's number.
KERNEL lane_value_good(const unsigned *in, unsigned *out) {
    unsigned value = in[X], written = value;
    asm volatile("v_readfirstlane_b32 s40, %1" LINE "s_nop 1\n"
                 "v_writelane_b32 %0, s40, 3" : "+v"(written) : "v"(value) : "s40");
    out[X] = written;
}
#define SADDR(name, wait)                                                                          \
    KERNEL name(const unsigned *in, unsigned *out) {                                               \
        unsigned long base;                                                                        \
        unsigned low = (unsigned)(unsigned long)in, high = (unsigned)((unsigned long)in >> 32);    \
        unsigned at = X * 4, loaded;                                                               \
        asm volatile("v_readfirstlane_b32 s40, %1" LINE "v_readfirstlane_b32 s41, %2" LINE wait    \
                     LOAD " %0, %3, s[40:41]" LINE WAIT_LOAD(0)                                    \
                     : "=&v"(loaded) : "v"(low), "v"(high), "v"(at) : "s40", "s41");               \
        out[X] = loaded;                                                                           \
    }
SADDR(base_bad, "s_nop 3\n")
SADDR(base_good, "s_nop 4\n")
#define DPP(name, wait)                                                                            \
    KERNEL name(const unsigned *in, unsigned *out) {                                               \
        unsigned a, b, value = in[X];                                                              \
        asm volatile("v_mov_b32 %0, %2" LINE wait "v_mov_b32_dpp %1, %0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf" \
                     : "=&v"(a), "=&v"(b) : "v"(value));                                           \
        out[X] = b;                                                                                \
    }
DPP(dpp_bad, "s_nop 0\n")
DPP(dpp_good, "s_nop 1\n")
#if __gfx90a__
#define KIND "f32"
#define ENOUGH "s_nop 10\n"
#define TOO_FEW "s_nop 9\n"
#else
#define KIND "_f32"
#define ENOUGH "s_nop 9\n"
#define TOO_FEW "s_nop 8\n"
#endif
#define PRODUCT(name, wait)                                                                \
    KERNEL name(const float *in, float *out) {                                                  \
        float value = in[X], sum;                                                               \
        asm volatile("s_nop 4" LINE "v_mfma_f32_16x16x4" KIND " v[40:43], %1, %1, 0" LINE wait  \
                     "v_add_f32 %0, v43, v43" LINE "s_nop 15"                                   \
                     : "=&v"(sum) : "v"(value) : "v40", "v41", "v42", "v43");                   \
        out[X] = sum;                                                                           \
    }
PRODUCT(product_bad, TOO_FEW)
PRODUCT(product_good, ENOUGH)
#endif
#if __gfx942__
#define TRANSCENDENTAL(name, wait)                                                              \
    KERNEL name(const float *in, float *out) {                                                  \
        float value = in[X], a, b;                                                              \
        asm volatile("v_exp_f32 %0, %2" LINE wait "v_add_f32 %1, %0, %0" : "=&v"(a), "=&v"(b) : "v"(value)); \
        out[X] = b;                                                                             \
    }
TRANSCENDENTAL(transcendental_bad, "")
TRANSCENDENTAL(transcendental_good, "s_nop 0\n")
#define SCALAR_VALUE(name, wait)                                                                \
    KERNEL name(const unsigned *in, unsigned *out) {                                            \
        unsigned value = in[X], sum;                                                            \
        asm volatile("v_readfirstlane_b32 s40, %1" LINE wait "v_add_u32 %0, s40, %1"            \
                     : "=&v"(sum) : "v"(value) : "s40");                                        \
        out[X] = sum;                                                                           \
    }
SCALAR_VALUE(scalar_value_bad, "s_nop 0\n")
SCALAR_VALUE(scalar_value_good, "s_nop 1\n")
// A mask and a carry are there at once.
KERNEL mask_good(const unsigned *in, unsigned *out) {
    unsigned value = in[X], chosen;
    asm volatile("v_cmp_gt_u32 s[40:41], %1, 2" LINE "v_cndmask_b32 %0, %1, 0, s[40:41]" LINE
                 "v_add_co_u32 %0, vcc, %0, %1" LINE "v_addc_co_u32 %0, vcc, %0, 0, vcc"
                 : "=&v"(chosen) : "v"(value) : "s40", "s41", "vcc");
    out[X] = chosen;
}
#elif __GFX11__
#define TRANSCENDENTAL(name, wait)                                                              \
    KERNEL name(const float *in, float *out) {                                                  \
        float value = in[X], a, b;                                                              \
        asm volatile("v_exp_f32 %0, %2" LINE wait "v_add_f32 %1, %0, %0" : "=&v"(a), "=&v"(b) : "v"(value)); \
        out[X] = b;                                                                             \
    }
TRANSCENDENTAL(transcendental_bad, "")
TRANSCENDENTAL(transcendental_good, "s_waitcnt_depctr 0xfff\n")
#endif
#if __GFX11__
#define FACTORS "v[40:47], v[40:47]"
#else
#define FACTORS "v[40:43], v[40:43]"
#endif
#if __GFX11__ || __GFX12__
// The second product multiplies the first one's result.
#define CHAIN(name, wait)                                                                                    \
    KERNEL name(float *out) {                                                                                \
        float first = 0;                                                                                     \
        asm volatile("v_wmma_f32_16x16x16_f16 v[32:39], " FACTORS ", 0" LINE wait                            \
                     "v_wmma_f32_16x16x16_f16 v[48:55], " NEXT ", 0" LINE "v_nop" LINE "v_mov_b32 %0, v48"   \
                     : "+v"(first) : : "v32", "v33", "v34", "v35", "v36", "v37", "v38", "v39", "v40", "v41", \
                       "v42", "v43", "v44", "v45", "v46", "v47", "v48", "v49", "v50", "v51", "v52", "v53",   \
                       "v54", "v55");                                                                        \
        out[X] = first;                                                                                      \
    }
#if __GFX11__
#define NEXT "v[32:39], v[32:39]"
#else
#define NEXT "v[32:35], v[32:35]"
#endif
CHAIN(chain_bad, "")
CHAIN(chain_good, "v_nop\n")
#endif
