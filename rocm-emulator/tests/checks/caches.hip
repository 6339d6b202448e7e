// Kernels that hand memory over with and without what keeps caches alike, for exec_caches.rs.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()

#define AT(p, scope) __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##scope)
#define PUT(p, value, scope) __hip_atomic_store(p, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##scope)
#define FENCE(order, scope) __builtin_amdgcn_fence(__ATOMIC_##order, scope)
// Keeps the compiler from moving accesses, and tells the hardware nothing.
#define NOTHING asm volatile("" : : : "memory")

static __device__ __attribute__((always_inline)) void sync() {
    FENCE(RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    FENCE(ACQUIRE, "workgroup");
}

// Workgroup 0, which has read the data before, waits for a flag that workgroup 1 sets behind the data.
#define MESSAGE(name, stored, released, flagged, polled, acquired, read)           \
    KERNEL name(unsigned *data, unsigned *flag, unsigned *out) {                   \
        if (GROUP == 1) {                                                          \
            PUT(data + X, X + 1, stored);                                          \
            NOTHING;                                                               \
            released;                                                              \
            if (X == 0) PUT(flag, 1, flagged);                                     \
            return;                                                                \
        }                                                                          \
        unsigned before = AT(data + X, WAVEFRONT);                                 \
        NOTHING;                                                                   \
        unsigned word;                                                             \
        do word = AT(flag, polled);                                                \
        while (word == 0);                                                         \
        NOTHING;                                                                   \
        acquired;                                                                  \
        out[X] = before * 1000 + AT(data + X, read);                               \
    }
#define RELEASED FENCE(RELEASE, "agent")
#define ACQUIRED FENCE(ACQUIRE, "agent")
MESSAGE(message, WAVEFRONT, RELEASED, AGENT, AGENT, ACQUIRED, WAVEFRONT)
MESSAGE(message_of_words, AGENT, NOTHING, AGENT, AGENT, NOTHING, AGENT)
MESSAGE(message_of_the_system, WAVEFRONT, FENCE(RELEASE, ""), SYSTEM, SYSTEM, FENCE(ACQUIRE, ""), WAVEFRONT)
MESSAGE(polled_in_the_wavefront, WAVEFRONT, RELEASED, AGENT, WAVEFRONT, ACQUIRED, WAVEFRONT)
MESSAGE(polled_in_the_workgroup, WAVEFRONT, RELEASED, AGENT, WORKGROUP, ACQUIRED, WAVEFRONT)
MESSAGE(not_acquired, WAVEFRONT, RELEASED, AGENT, AGENT, NOTHING, WAVEFRONT)
MESSAGE(acquired_in_the_workgroup, WAVEFRONT, RELEASED, AGENT, AGENT, FENCE(ACQUIRE, "workgroup"), WAVEFRONT)
MESSAGE(not_released, WAVEFRONT, NOTHING, AGENT, AGENT, ACQUIRED, WAVEFRONT)
MESSAGE(not_released_read_past, WAVEFRONT, NOTHING, AGENT, AGENT, NOTHING, AGENT)
MESSAGE(released_in_the_workgroup, WAVEFRONT, FENCE(RELEASE, "workgroup"), AGENT, AGENT, ACQUIRED, WAVEFRONT)
MESSAGE(flagged_in_the_workgroup, WAVEFRONT, RELEASED, WORKGROUP, AGENT, ACQUIRED, WAVEFRONT)
MESSAGE(words_in_the_workgroup, WORKGROUP, NOTHING, AGENT, AGENT, NOTHING, AGENT)
MESSAGE(words_read_in_the_wavefront, AGENT, NOTHING, AGENT, AGENT, NOTHING, WAVEFRONT)
MESSAGE(words_read_in_the_workgroup, AGENT, NOTHING, AGENT, AGENT, NOTHING, WORKGROUP)

// The last workgroup to come adds up what all wrote; a counter tells which.
#define TICKET(name, published, observed)                                                         \
    KERNEL name(unsigned *count, unsigned *parts, unsigned *out, unsigned groups) {               \
        __shared__ unsigned ticket;                                                               \
        parts[GROUP * 128 + X] = X;                                                               \
        published;                                                                                \
        sync();                                                                                   \
        if (X == 0) ticket = __hip_atomic_fetch_add(count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
        sync();                                                                                   \
        if (ticket + 1 != groups) return;                                                         \
        observed;                                                                                 \
        unsigned sum = 0;                                                                         \
        for (unsigned group = 0; group < groups; group++) sum += parts[group * 128 + X];          \
        out[X] = sum;                                                                             \
    }
TICKET(ticket, RELEASED, ACQUIRED)
TICKET(ticket_not_published, NOTHING, ACQUIRED)
TICKET(ticket_not_observed, RELEASED, NOTHING)

// A barrier of all workgroups between rounds; in each, a workgroup adds one to what its neighbour had.
#define ROUNDS(name, released, acquired)                                                                     \
    KERNEL name(unsigned *arrived, unsigned *from, unsigned *to, unsigned groups) {                          \
        for (unsigned round = 0; round < 3; round++) {                                                       \
            unsigned next = GROUP + 1 == groups ? 0 : GROUP + 1;                                             \
            to[GROUP * 128 + X] = from[next * 128 + 127 - X] + 1;                                            \
            released;                                                                                        \
            sync();                                                                                          \
            if (X == 0) {                                                                                    \
                __hip_atomic_fetch_add(arrived, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);              \
                while (AT(arrived, AGENT) < (round + 1) * groups) NOTHING;                                   \
            }                                                                                                \
            sync();                                                                                          \
            acquired;                                                                                        \
            unsigned *other = from;                                                                          \
            from = to;                                                                                       \
            to = other;                                                                                      \
        }                                                                                                    \
    }
ROUNDS(rounds, RELEASED, ACQUIRED)
ROUNDS(rounds_not_released, NOTHING, ACQUIRED)
ROUNDS(rounds_not_acquired, RELEASED, NOTHING)

// Wavefronts of a workgroup, which in WGP mode have two first levels.
#define EXCHANGE(name, between)                     \
    KERNEL name(unsigned *out) {                    \
        unsigned before = AT(out + 127 - X, WAVEFRONT); \
        sync();                                     \
        PUT(out + X, X + 1 + before, WAVEFRONT);    \
        NOTHING;                                    \
        between;                                    \
        NOTHING;                                    \
        unsigned got = AT(out + 127 - X, WAVEFRONT); \
        out[128 + X] = got;                         \
    }
EXCHANGE(exchange, sync())
EXCHANGE(exchange_by_barrier_alone, __builtin_amdgcn_s_barrier())

// Scalar loads of what the same wavefront has stored.
#if __GFX12__
#define STORED "s_wait_storecnt 0x0\n\t"
#define LOADED "s_load_b32 %0, %1, 0x0\n\ts_wait_kmcnt 0x0"
#elif __GFX11__
#define STORED "s_waitcnt_vscnt null, 0x0\n\t"
#define LOADED "s_load_b32 %0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)"
#elif __GFX10__
#define STORED "s_waitcnt_vscnt null, 0x0\n\t"
#define LOADED "s_load_dword %0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)"
#else
#define STORED "s_waitcnt vmcnt(0)\n\t"
#define LOADED "s_load_dword %0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)"
#endif
#define SCALAR(name, between)                                                       \
    KERNEL name(unsigned *data, unsigned *out) {                                    \
        unsigned before, after;                                                     \
        asm volatile(LOADED : "=s"(before) : "s"(data) : "memory");                 \
        data[X] = X + 5;                                                            \
        asm volatile(STORED between LOADED : "=&s"(after) : "s"(data) : "memory");  \
        out[X] = before * 1000 + after;                                             \
    }
SCALAR(scalar, "s_dcache_inv\n\t")
SCALAR(scalar_not_emptied, "")

// Atomics for the device and for the workgroup alone.
KERNEL count(unsigned *counter) { __hip_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
KERNEL count_in_the_workgroup(unsigned *counter) {
    __hip_atomic_fetch_add(counter, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

// Every other byte of a line is another workgroup's; what each reads beside its own was there before.
KERNEL neighbours(unsigned char *bytes, const unsigned *inputs, unsigned *out) {
    bytes[2 * X + GROUP] = X + GROUP;
    bytes[128 + 4 * X + GROUP] = GROUP + 1;
    NOTHING;
    out[GROUP * 64 + X] = bytes[2 * X + GROUP] + bytes[128 + 4 * X + 3] + inputs[2 * X];
}

// A loop of compare-and-swap begins with what it may find in a cache.
KERNEL compare_and_swap(unsigned *sum) {
    for (unsigned round = 0; round < 20; round++)
        for (unsigned lane = 0; lane < 4; lane++) {
            if (X != lane) continue;
            unsigned old = AT(sum, WAVEFRONT);
            while (!__hip_atomic_compare_exchange_strong(sum, &old, old + 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                         __HIP_MEMORY_SCOPE_AGENT)) {}
        }
}
// One that relies on what it finds.
KERNEL read_of_a_sum(unsigned *sum, unsigned *flag, unsigned *out) {
    if (GROUP == 1) {
        if (X != 0) return;
        __hip_atomic_fetch_add(sum, 7, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        PUT(flag, 1, AGENT);
        return;
    }
    while (AT(flag, AGENT) == 0) NOTHING;
    out[X] = AT(sum, WAVEFRONT);
}

// Nothing that the check takes for an order: atomics of several lanes tell nothing.
KERNEL unordered(unsigned *data, unsigned *flags, unsigned *out) {
    if (GROUP == 1) {
        PUT(data + X, X + 1, WAVEFRONT);
        NOTHING;
        __hip_atomic_fetch_add(flags + X, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        return;
    }
    unsigned before = AT(data + X, WAVEFRONT);
    NOTHING;
    // Adds 0, which the compiler does not know.
    while (__hip_atomic_fetch_add(flags + X, GROUP, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) NOTHING;
    NOTHING;
    out[X] = before * 1000 + AT(data + X, WAVEFRONT);
}
