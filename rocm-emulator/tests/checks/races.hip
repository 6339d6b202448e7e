// Kernels with and without what orders wavefronts, for exec_checks.rs.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()

static __device__ __attribute__((always_inline)) void sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Keeps the compiler from moving accesses, and tells the hardware nothing.
#define NOTHING asm volatile("" : : : "memory")

// 128 items: two wavefronts at least exchange what they have.
#define EXCHANGE(name, first, second)            \
    KERNEL name(unsigned *out) {                 \
        __shared__ unsigned lds[128];   \
        lds[X] = X;                              \
        first;                                   \
        unsigned got = lds[127 - X];             \
        second;                                  \
        lds[X] = got + 1;                        \
        NOTHING;                                 \
        out[X] = lds[X];                         \
    }
EXCHANGE(exchange_good, sync(), sync())
EXCHANGE(exchange_unread_bad, NOTHING, sync())
EXCHANGE(exchange_overwritten_bad, sync(), NOTHING)

// Neighbours in one dword, of different wavefronts, do not touch each other.
KERNEL bytes_good(unsigned char *out) {
    __shared__ unsigned char lds[128];
    lds[(X % 2) * 64 + X / 2] = X;
    sync();
    out[X] = lds[X];
}

// All wavefronts store to the same place of the LDS: different values, and the same one.
#define SLOT(name, value)                        \
    KERNEL name(unsigned *out) {                 \
        __shared__ unsigned slot;                \
        *(volatile unsigned *)&slot = value;     \
        sync();                                  \
        out[X] = slot;                           \
    }
SLOT(same_slot_bad, X)
SLOT(same_slot_value_good, 7)

// Through memory, within a workgroup.
#define MEMORY(name, between)                    \
    KERNEL name(unsigned *out) {                 \
        out[X] = X;                              \
        between;                                 \
        out[128 + X] = out[127 - X];             \
    }
MEMORY(memory_good, sync())
MEMORY(memory_bad, NOTHING)

// Two workgroups write the same element: different values, and the same one.
KERNEL same_element_bad(unsigned *out) { if (X == 0) out[0] = GROUP; }
KERNEL same_value_good(unsigned *out) { if (X == 0) out[0] = 7; }
KERNEL atomic_good(unsigned *out) { __hip_atomic_fetch_add(out, X, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
KERNEL atomic_and_store_bad(unsigned *out) {
    if (GROUP == 0) __hip_atomic_fetch_add(out, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    else if (X == 0) *out = 5;
}

// The last workgroup to come adds up what all wrote; a counter tells which.
#define TICKET(name, counted)                                                                     \
    KERNEL name(unsigned *count, unsigned *parts, unsigned *out, unsigned groups) {               \
        __shared__ unsigned ticket;                                                               \
        parts[GROUP * 128 + X] = X;                                                               \
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");                                        \
        sync();                                                                                   \
        if (X == 0) ticket = counted;                                                             \
        sync();                                                                                   \
        if (ticket + 1 != groups) return;                                                         \
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");                                        \
        unsigned sum = 0;                                                                         \
        for (unsigned group = 0; group < groups; group++) sum += parts[group * 128 + X];          \
        out[X] = sum;                                                                             \
    }
TICKET(ticket_good, __hip_atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT))
TICKET(ticket_bad, GROUP)

// One workgroup leaves a word for each work-item of the next, which waits for its own, and puts back what was there.
#define IN_KERNEL_REDUCTION(name, taken)                                                                                \
    KERNEL name(unsigned *words, unsigned *out) {                                                            \
        if (GROUP == 0) {                                                                                    \
            __hip_atomic_store(words + X, X + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                \
            return;                                                                                          \
        }                                                                                                    \
        unsigned word;                                                                                       \
        do word = taken;                                                                                     \
        while (word == 0);                                                                                   \
        __hip_atomic_store(words + X, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                        \
        out[X] = word;                                                                                       \
    }
IN_KERNEL_REDUCTION(handover_good, __hip_atomic_load(words + X, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT))
IN_KERNEL_REDUCTION(handover_bad, X + 1)

#if __GFX12__
// Between arriving at the barrier and waiting for it, nothing is ordered.
KERNEL split_bad(unsigned *out) {
    __shared__ unsigned lds[128];
    lds[X] = X;
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1" : : : "memory");
    unsigned got = lds[127 - X];
    asm volatile("s_barrier_wait -1" : : : "memory");
    out[X] = got;
}
KERNEL split_good(unsigned *out) {
    __shared__ unsigned lds[128];
    lds[X] = X;
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1" : : : "memory");
    out[128 + X] = X;
    asm volatile("s_barrier_wait -1" : : : "memory");
    out[X] = lds[127 - X];
}
#endif
