// Products of FP8 weights with activations of 16 bits: of few columns as they are, with or without the columns' norm
// and a gate's activation, and weights upcast to the activations' type, for products of many.
#include "matmul/elements.cuh"
#include "matmul/skinny/streamed.cuh"
#include "matmul/weights_kernels.cuh"

// What a launch is told beside its columns and their results.
struct WeightOperands {
    const f8e4m3_t *weight;
    WeightFactors factors;
    uint32_t rows;
    uint32_t columns;
    uint32_t length;
    uint32_t log2_slice_k;
};

template <class T, int COLUMNS, bool NORMS, bool GATED> struct WeightSkinny {
    using Atom = typename AtomOf<f8e4m3_t, T, COLUMNS, false, NORMS>::Atom;
    static constexpr uint32_t STORED = GATED ? Atom::ROW_LANES * Atom::TILES / 2 : 0;
    template <class Base> using Scaled = ScaledWeights<Base, T, STORED>;
    template <bool, class = void> struct Input {
        using Type = Scaled<AsItIs>;
    };
    template <class Unused> struct Input<true, Unused> {
        using Type = Scaled<Normed<T, Atom::B_VECTORS>>;
    };
    using Product = SkinnyProduct<T, COLUMNS, false, typename Input<NORMS>::Type, GATED, f8e4m3_t>;

    static __device__ __forceinline__ void run(const T *x, const T *norm, const WeightOperands &w, const T *bias,
                                               const T *residual, T *result, float epsilon) {
        MatmulProblem p = product_of_columns((const void *)w.weight, x, result, w.rows, w.columns, w.length);
        p.bias = bias;
        p.residual = residual;
        p.ld_residual = w.rows;
        p.activation = GATED ? ACTIVATION_silu : ACTIVATION_none;
        Product product;
        product.input.factors = w.factors;
        if constexpr (NORMS) {
            product.input.weight = norm;
            product.input.epsilon = epsilon;
        }
        product.run(p, B_ALONG_K, w.log2_slice_k);
    }
};

#define WEIGHTS                                                                                                 \
    const f8e4m3_t *__restrict__ weight, const float *__restrict__ factors, uint32_t row_step, uint32_t k_step, \
        uint32_t row_shift, uint32_t rows, uint32_t columns, uint32_t length, uint32_t log2_slice_k
#define OPERANDS \
    WeightOperands { weight, {factors, row_step, k_step, row_shift}, rows, columns, length, log2_slice_k }
#define BOUNDS(PRODUCT) __launch_bounds__(256, (PRODUCT::Product::RESIDENT))

// result (columns, rows) = x (columns, length) * weight (rows, length) transposed, then bias and residual (columns,
// rows), both of which may be null. normed_fp8: x is rms_norm(x) * norm, and there is no residual; gated_fp8: weight is
// (2 rows, length), and the result silu(its first rows) * its last. `length` and all addresses are whole vectors of 16
// bytes, those of factors aside. A grid of workgroups that have so many rows with 2^log2_slice_k warps to each.
#define LISTS(PRODUCT, BY, LANES, THREADS, ROWS, STEP) \
    static_assert(PRODUCT::Product::is_listed_as(BY, LANES, THREADS, ROWS, STEP, 0), "the list's");
#define LINEAR(TYPE, COLUMNS, BY, LANES, THREADS, ROWS, STEP)                                                     \
    using Linear_##TYPE = WeightSkinny<element_##TYPE, COLUMNS, false, false>;                                    \
    LISTS(Linear_##TYPE, BY, LANES, THREADS, ROWS, STEP)                                                          \
    ENTRY BOUNDS(Linear_##TYPE)                                                                                   \
        linear_fp8_##TYPE(const element_##TYPE *__restrict__ x, WEIGHTS, const element_##TYPE *__restrict__ bias, \
                          const element_##TYPE *__restrict__ residual, element_##TYPE *__restrict__ result) {     \
        Linear_##TYPE::run(x, nullptr, OPERANDS, bias, residual, result, 0);                                      \
    }
#define NORMED(TYPE, COLUMNS, BY, LANES, THREADS, ROWS, STEP)                                                          \
    using Normed_##TYPE = WeightSkinny<element_##TYPE, COLUMNS, true, false>;                                          \
    using Gated_##TYPE = WeightSkinny<element_##TYPE, COLUMNS, true, true>;                                            \
    LISTS(Normed_##TYPE, BY, LANES, THREADS, ROWS, STEP)                                                               \
    ENTRY BOUNDS(Normed_##TYPE) normed_fp8_##TYPE(                                                                     \
        const element_##TYPE *__restrict__ x, const element_##TYPE *__restrict__ norm, float epsilon, WEIGHTS,         \
        const element_##TYPE *__restrict__ bias, element_##TYPE *__restrict__ result) {                                \
        Normed_##TYPE::run(x, norm, OPERANDS, bias, nullptr, result, epsilon);                                         \
    }                                                                                                                  \
    ENTRY BOUNDS(Gated_##TYPE)                                                                                         \
        gated_fp8_##TYPE(const element_##TYPE *__restrict__ x, const element_##TYPE *__restrict__ norm, float epsilon, \
                         WEIGHTS, element_##TYPE *__restrict__ result) {                                               \
        Gated_##TYPE::run(x, norm, OPERANDS, nullptr, nullptr, result, epsilon);                                       \
    }

// result (rows, length) = weight, upcast. A thread has 16 elements of a row at a time; any length.
template <class T>
__device__ __forceinline__ void upcast_weights(const f8e4m3_t *weight, const WeightFactors &factors, T *result,
                                               uint32_t rows, uint32_t length) {
    constexpr uint32_t V = 16, STORE = VEC16<T>;
    uint32_t of_row = (length + V - 1) / V;
    uint64_t total = (uint64_t)rows * of_row;
    bool fits_32 = total >> 32 == 0, whole = length % V == 0;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint32_t row = (uint32_t)divide(i, of_row, fits_32), k = (uint32_t)(i - (uint64_t)row * of_row) * V;
        uint64_t at = (uint64_t)row * length + k;
        float factor = factors.values[(row >> factors.row_shift) * factors.row_step + k / 128 * factors.k_step];
        if (whole) {
            Words4 bytes = read_global<Words4>(weight + at);
#pragma unroll
            for (uint32_t first = 0; first < V; first += STORE) {
                vec<T, STORE> to;
#pragma unroll
                for (uint32_t e = 0; e < STORE; e++) {
                    f8e4m3_t x;
                    x.bits = (uint8_t)(bytes[(first + e) / 4] >> (first + e) % 4 * 8);
                    to[e] = round_to<T>((float)x * factor);
                }
                *(vec<T, STORE> *)(result + at + first) = to;
            }
        } else {
            for (uint32_t e = 0; e < min_of(V, length - k); e++)
                result[at + e] = round_to<T>((float)weight[at + e] * factor);
        }
    }
}
#define UPCAST(TYPE, T)                                                                                                \
    ENTRY upcast_fp8_##TYPE(const f8e4m3_t *__restrict__ weight, const float *__restrict__ factors, uint32_t row_step, \
                            uint32_t k_step, uint32_t row_shift, T *__restrict__ result, uint32_t rows,                \
                            uint32_t length) {                                                                         \
        upcast_weights<T>(weight, {factors, row_step, k_step, row_shift}, result, rows, length);                       \
    }
UPCAST(f16, half_t)
UPCAST(bf16, bf16_t)
UPCAST(f32, float)

// streamed_<kind>_fp8: what <kind>_fp8 makes, of a column alone, by a grid of any number of workgroups, with LDS for
// the stages and a column of f16 of whole rounds. `columns` and `log2_slice_k` are not looked at.
#if defined(LDS_COPIES)
template <class T, bool NORMS, bool GATED>
__device__ __forceinline__ void stream(const T *x, const T *norm, const WeightOperands &w, const T *bias,
                                       const T *residual, T *result, float epsilon) {
    MatmulProblem p = product_of_columns((const void *)w.weight, x, result, w.rows, 1, w.length);
    p.bias = bias;
    p.residual = residual;
    p.ld_residual = w.rows;
    p.activation = GATED ? ACTIVATION_silu : ACTIVATION_none;
    StreamedColumn<T, NORMS, GATED>(w.weight, w.factors, w.rows, w.length).run(p, x, norm, epsilon);
}
#endif
#define STREAM_BOUNDS(TYPE, NORMS, GATED) \
    __launch_bounds__(256, (StreamedColumn<element_##TYPE, NORMS, GATED>::RESIDENT))
#define STREAM_LISTS(TYPE, NORMS, GATED, ROWS, ROUND, LDS_KIB, RESIDENT, MOST)                                      \
    static_assert(StreamedColumn<element_##TYPE, NORMS, GATED>::is_listed_as(ROWS, ROUND, LDS_KIB, RESIDENT, MOST), \
                  "the list's");
#define STREAM(TYPE, ROWS, GATED_ROWS, ROUND, LDS_KIB, RESIDENT, MOST, NORMED_MOST)                              \
    STREAM_LISTS(TYPE, false, false, ROWS, ROUND, LDS_KIB, RESIDENT, MOST)                                       \
    STREAM_LISTS(TYPE, true, false, ROWS, ROUND, LDS_KIB, RESIDENT, NORMED_MOST)                                 \
    STREAM_LISTS(TYPE, true, true, GATED_ROWS, ROUND, LDS_KIB, RESIDENT, NORMED_MOST)                            \
    ENTRY STREAM_BOUNDS(TYPE, false, false) streamed_linear_fp8_##TYPE(                                          \
        const element_##TYPE *__restrict__ x, WEIGHTS, const element_##TYPE *__restrict__ bias,                  \
        const element_##TYPE *__restrict__ residual, element_##TYPE *__restrict__ result) {                      \
        stream<element_##TYPE, false, false>(x, nullptr, OPERANDS, bias, residual, result, 0);                   \
    }                                                                                                            \
    ENTRY STREAM_BOUNDS(TYPE, true, false) streamed_normed_fp8_##TYPE(                                           \
        const element_##TYPE *__restrict__ x, const element_##TYPE *__restrict__ norm, float epsilon, WEIGHTS,   \
        const element_##TYPE *__restrict__ bias, element_##TYPE *__restrict__ result) {                          \
        stream<element_##TYPE, true, false>(x, norm, OPERANDS, bias, nullptr, result, epsilon);                  \
    }                                                                                                            \
    ENTRY STREAM_BOUNDS(TYPE, true, true)                                                                        \
        streamed_gated_fp8_##TYPE(const element_##TYPE *__restrict__ x, const element_##TYPE *__restrict__ norm, \
                                  float epsilon, WEIGHTS, element_##TYPE *__restrict__ result) {                 \
        stream<element_##TYPE, true, true>(x, norm, OPERANDS, nullptr, nullptr, result, epsilon);                \
    }
LISTED(WEIGHT_KERNELS)(LINEAR, NORMED, STREAM)
