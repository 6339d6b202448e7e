// Positions of elements that are not zero, and of those that differ from the one before.
//
// Positions are in order. The host (candle_rocm_backend::ops) reads how many there are.
#include "scan/positions.cuh"

#define POSITIONS(NAME, T)                                                                                        \
    ENTRY __launch_bounds__(SCAN_THREADS)                                                                         \
        positions_nonzero_##NAME(const T *__restrict__ source, uint32_t *__restrict__ positions, int64_t *words,  \
                                 uint32_t *__restrict__ found, uint32_t count, uint32_t of_group) {               \
        take_positions(count, positions, words, found, of_group,                                                  \
                       [=](uint32_t i) INLINED { return upcast(source[i]) != (compute_t<T>)0; });                 \
    }                                                                                                             \
    ENTRY __launch_bounds__(SCAN_THREADS)                                                                         \
        positions_changed_##NAME(const T *__restrict__ source, uint32_t *__restrict__ positions, int64_t *words,  \
                                 uint32_t *__restrict__ found, uint32_t count, uint32_t of_group) {               \
        take_positions(count, positions, words, found, of_group,                                                  \
                       [=](uint32_t i) INLINED { return i == 0 || upcast(source[i]) != upcast(source[i - 1]); }); \
    }
FOR_ALL(POSITIONS)
