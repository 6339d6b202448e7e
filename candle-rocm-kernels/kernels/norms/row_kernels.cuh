// Kernels that are launched with a workgroup's rows as one of its dimensions, whatever grid is asked for: reduce.cu and
// fused_operators.cu take their constants from this list, and the build the table that
// candle_rocm_kernels::launch_heuristics reads.
//
//   X(module, kernel, axis, length, vectors, numbers, threads)
//
// <kernel>_<type> has the number of a workgroup's rows as its x or y, the threads of a row as the other, and a row's
// elements as its argument of number `length`. A thread holds so many vectors of 16 bytes of a row at most (where they
// are exactly as many for each; of others four), and so many numbers for each element; a workgroup has so many threads
// at most.
#pragma once

#define FOR_ROW_KERNELS(X)                                    \
    X(reduce, softmax, x, 2, 8, 1, 1024)                      \
    X(reduce, rmsnorm, y, 3, 8, 1, 1024)                      \
    X(reduce, layernorm, y, 4, 4, 1, 1024)                    \
    X(fused_operators, log_softmax, y, 2, 4, 1, 1024)         \
    X(fused_operators, scaled_softmax, y, 2, 4, 2, 1024)      \
    X(fused_operators, masked_softmax, y, 2, 4, 2, 1024)      \
    X(fused_operators, flagged_softmax, y, 2, 4, 2, 1024)     \
    X(fused_operators, backward_softmax, y, 3, 4, 2, 512)     \
    X(fused_operators, backward_log_softmax, y, 3, 4, 2, 512) \
    X(fused_operators, add_rmsnorm, y, 5, 4, 2, 1024)         \
    X(fused_operators, add_layernorm, y, 6, 4, 2, 1024)       \
    X(fused_operators, backward_rmsnorm, y, 5, 4, 2, 512)     \
    X(fused_operators, backward_layernorm, y, 5, 4, 2, 512)

// Their constants: RowsOf_softmax::VECTORS.
#define ROWS_OF(MODULE, KERNEL, AXIS, LENGTH, VECTORS_, NUMBERS_, THREADS_)              \
    struct RowsOf_##KERNEL {                                                             \
        static constexpr int VECTORS = VECTORS_, NUMBERS = NUMBERS_, THREADS = THREADS_; \
    };
FOR_ROW_KERNELS(ROWS_OF)
#undef ROWS_OF
