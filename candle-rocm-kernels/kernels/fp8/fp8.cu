// Casts to FP8 with factors for what products of FP8 share them by: 128 of a row, 128 x 128, a row, or all. Matrices
// are the grid's z.
#include "fp8/cast.cuh"

#define MATRIX(T) const T *x, uint8_t *y, int64_t ld, uint32_t rows, uint32_t columns
#define SCALES void *values, int64_t matrix_step, int64_t row_step, int64_t k_step, uint32_t powers, uint32_t packed
#define SCALES_GIVEN \
    Fp8Scales { values, matrix_step, row_step, k_step, powers, packed }
#define CAST(NAME, TYPE, T, THREADS) ENTRY __launch_bounds__(THREADS) fp8_##NAME##_##TYPE(MATRIX(T), SCALES)

#define CASTS(TYPE, T)                                                                                                \
    CAST(groups, TYPE, T, 256) { fp8_groups(Fp8AsItIs(), Fp8Matrix<T>(x, y, ld, rows, columns), SCALES_GIVEN); }      \
    CAST(swiglu, TYPE, T, 256) { fp8_groups(Fp8Gated(), Fp8Matrix<T>(x, y, ld, rows, columns), SCALES_GIVEN); }       \
    CAST(blocks, TYPE, T, 512) { fp8_blocks(Fp8Matrix<T>(x, y, ld, rows, columns), SCALES_GIVEN); }                   \
    CAST(rows, TYPE, T, 256) { fp8_rows(Fp8Matrix<T>(x, y, ld, rows, columns), SCALES_GIVEN); }                       \
    /* Each token's row for its `top` experts, where `place` says; zeros in those of `all` rows that are nobody's. */ \
    /* Factors are by token, for fp8_spread. */                                                                       \
    ENTRY __launch_bounds__(256) fp8_scattered_##TYPE(MATRIX(T), SCALES, const int32_t *place, const int32_t *source, \
                                                      uint32_t top, uint32_t all) {                                   \
        Fp8Matrix<T> m(x, y, ld, rows, columns);                                                                      \
        fp8_groups(Fp8Scattered(place, top), m, SCALES_GIVEN);                                                        \
        fp8_nobodys(source, m, all);                                                                                  \
    }                                                                                                                 \
    /* The largest magnitude of all, whose bits largest[z] has, 0 before. */                                          \
    ENTRY __launch_bounds__(256)                                                                                      \
        fp8_largest_##TYPE(const T *x, uint32_t *largest, int64_t ld, uint32_t rows, uint32_t columns) {              \
        fp8_largest(Fp8Matrix<T>(x, nullptr, ld, rows, columns), largest + blockIdx.z);                               \
    }                                                                                                                 \
    ENTRY __launch_bounds__(256) fp8_all_##TYPE(MATRIX(T), SCALES, const uint32_t *largest) {                         \
        fp8_all(Fp8Matrix<T>(x, y, ld, rows, columns), SCALES_GIVEN, largest[blockIdx.z]);                            \
    }
CASTS(f32, float)
CASTS(f16, half_t)
CASTS(bf16, bf16_t)

ENTRY __launch_bounds__(256)
    fp8_spread(const uint32_t *tokens, const int32_t *source, SCALES, uint32_t top, uint32_t rows, uint32_t groups) {
    fp8_spread(tokens, source, SCALES_GIVEN, top, rows, groups);
}

// Bytes as they came from elsewhere, so that products need not look.
ENTRY __launch_bounds__(256) fp8_prepare(MATRIX(uint8_t), SCALES, uint32_t shift) {
    fp8_prepare(Fp8Matrix<uint8_t>(x, y, ld, rows, columns), SCALES_GIVEN, shift);
}
