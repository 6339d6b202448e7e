// What decoding makes of a state's few columns in one launch each: their norm and a product with it, and where the
// product's rows are gates and what they are for, their activation.
#include "matmul/few/normed.cuh"

// The least columns that kernels of a type are for, as candle_rocm_kernels::few lists them.
template <class T> struct Least {
    static constexpr int COLUMNS = 1;
};
#if defined(FEW_UNIT)
template <> struct Least<half_t> {
    static constexpr int COLUMNS = 16;
};
template <> struct Least<bf16_t> {
    static constexpr int COLUMNS = 16;
};
#elif defined(FEW_MMA)
template <> struct Least<half_t> {
    static constexpr int COLUMNS = 8;
};
template <> struct Least<bf16_t> {
    static constexpr int COLUMNS = 8;
};
#endif

template <class T, bool GATED> struct NormedGemv {
    static constexpr int COLUMNS = Least<T>::COLUMNS;
    using Unit = FewUnit<T, COLUMNS, false>;
    using Product = FewProduct<T, COLUMNS, false, Normed<T, Unit::B_VECTORS>, GATED>;

    static __device__ __forceinline__ void run(const T *x, const T *norm, const T *weight, const T *bias, T *result,
                                               uint32_t rows, uint32_t columns, uint32_t length, uint32_t activation,
                                               float epsilon, uint32_t sharing) {
        MatmulProblem p{};
        p.gemm.a = weight;
        p.gemm.b = x;
        p.gemm.c = result;
        p.gemm.lda = p.gemm.ldb = length;
        p.gemm.row_c = 1;
        p.gemm.ldc = rows;
        p.gemm.alpha = 1;
        p.gemm.m = rows;
        p.gemm.n = columns;
        p.gemm.k = p.part_k = length;
        p.bias = bias;
        p.activation = activation;
        p.batch = p.parts = 1;
        Product product;
        product.input.weight = norm;
        product.input.epsilon = epsilon;
        product.run(p, B_ALONG_K, sharing);
    }
};

// result (columns, rows) = rms_norm(x (columns, length)) * weight (rows, length) transposed, then bias and activation;
// gated_gemv: weight is (2 rows, length), and the result activation(its first rows) * its last. `length` and all
// addresses are whole vectors of 16 bytes. A grid of workgroups that have so many rows with 2^sharing teams to each.
#define NORMED(NAME, KIND, T, GATED)                                                                                   \
    ENTRY __launch_bounds__(256, (NormedGemv<T, GATED>::Product::RESIDENT))                                            \
        NAME##_##KIND(const T *__restrict__ x, const T *__restrict__ norm, const T *__restrict__ weight,               \
                      const T *__restrict__ bias, T *__restrict__ result, uint32_t rows, uint32_t columns,             \
                      uint32_t length, uint32_t activation, float epsilon, uint32_t sharing) {                         \
        NormedGemv<T, GATED>::run(x, norm, weight, bias, result, rows, columns, length, activation, epsilon, sharing); \
    }
#define BOTH(KIND, T)                   \
    NORMED(normed_gemv, KIND, T, false) \
    NORMED(gated_gemv, KIND, T, true)
BOTH(f16, half_t)
BOTH(bf16, bf16_t)
BOTH(f32, float)
