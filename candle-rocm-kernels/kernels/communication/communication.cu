// Collectives over GPUs, in steps of one rank: data to its slots, and from the ranks' slots, or their reduction.
//
// Each of a collective's steps is a launch on the rank's own stream. Ranks wait for each other in the kernels alone.
#include "communication/add_norm.cuh"
#include "communication/pieces.cuh"
#include "portable/dtypes.cuh"

// NCCL's element types: X(name, type).
#define FOR_COMMUNICATED(X) \
    X(i8, int8_t)           \
    X(u8, uint8_t)          \
    X(i32, int32_t)         \
    X(u32, uint32_t)        \
    X(i64, int64_t)         \
    X(u64, uint64_t)        \
    FOR_WIDE_FLOATS(X)

// Memory to this rank's slot: the next message.
ENTRY __launch_bounds__(COMMUNICATION_THREADS) communication_publish(CommunicationProblem p) {
    uint32_t message = last_message(p) + 1;
    if (!wait_for(p, message)) return;
    char *slot = slot_of(p, p.sender, message);
    for (uint32_t row = 0; row < p.rows; row++) {
        uint64_t begin = row * p.memory_stride;
        copy_bytes(slot + row * p.slot_stride, (const char *)p.from + begin, bytes_of_row(p, begin));
    }
    end_message(p, message);
}

// Senders' slots to memory, a row of each from the first on.
ENTRY __launch_bounds__(COMMUNICATION_THREADS) communication_gather(CommunicationProblem p) {
    uint32_t message = last_message(p) + p.ends_message;
    if (!wait_for(p, message)) return;
    for (uint32_t row = 0; row < p.rows; row++) {
        uint64_t begin = row * p.memory_stride;
        const char *slot = slot_of(p, p.sender + row, message) + p.offset;
        copy_bytes((char *)p.to + begin, slot, bytes_of_row(p, begin));
    }
    if (p.ends_message) end_message(p, message);
}

#define REDUCTIONS(NAME, T)                                                                              \
    ENTRY __launch_bounds__(COMMUNICATION_THREADS) communication_reduce_##NAME(CommunicationProblem p) { \
        reduce_slots<T>(p);                                                                              \
    }                                                                                                    \
    ENTRY __launch_bounds__(ALL_REDUCE_THREADS) communication_packets_##NAME(AllReduceProblem p) {       \
        all_reduce_packets<T>(p);                                                                        \
    }                                                                                                    \
    ENTRY __launch_bounds__(ALL_REDUCE_THREADS) communication_pieces_##NAME(AllReduceProblem p) {        \
        all_reduce_pieces<T>(p);                                                                         \
    }
FOR_COMMUNICATED(REDUCTIONS)

// All-reduces with what follows them in a model.
#define ADD_NORMS(NAME, T)                                                                                    \
    ENTRY __launch_bounds__(ALL_REDUCE_THREADS) communication_add_norm_##NAME(                                \
        AllReduceProblem p, const T *residual, T *normed, const T *weight, uint32_t columns, float epsilon) { \
        all_reduce_add_norm<T>(p, {residual, normed, weight, columns, epsilon});                              \
    }
ADD_NORMS(f16, half_t)
ADD_NORMS(bf16, bf16_t)
ADD_NORMS(f32, float)
