// What decoding makes of a state's few columns in one launch each: their norm and a product with it, and where the
// product's rows are gates and what they are for, their activation.
#include "matmul/elements.cuh"
#include "matmul/skinny/normed.cuh"
#include "matmul/normed_kernels.cuh"

template <class T, int COLUMNS, bool GATED> struct NormedSkinny {
    using Atom = SkinnyAtom<T, COLUMNS, false>;
    using Product = SkinnyProduct<T, COLUMNS, false, Normed<T, Atom::B_VECTORS>, GATED>;

    static __device__ __forceinline__ void run(const T *x, const T *norm, const T *weight, const T *bias, T *result,
                                               uint32_t rows, uint32_t columns, uint32_t length, uint32_t activation,
                                               float epsilon, uint32_t log2_slice_k) {
        MatmulProblem p = product_of_columns(weight, x, result, rows, columns, length);
        p.bias = bias;
        p.activation = activation;
        Product product;
        product.input.weight = norm;
        product.input.epsilon = epsilon;
        product.run(p, B_ALONG_K, log2_slice_k);
    }
};

// result (columns, rows) = rms_norm(x (columns, length)) * weight (rows, length) transposed, then bias and activation;
// gated_skinny: weight is (2 rows, length), and the result activation(its first rows) * its last. `length` and all
// addresses are whole vectors of 16 bytes. A grid of workgroups that have so many rows with 2^log2_slice_k warps to
// each.
#define NORMED(NAME, TYPE, T, PRODUCT)                                                                         \
    ENTRY __launch_bounds__(256, (PRODUCT::Product::RESIDENT))                                                 \
        NAME##_##TYPE(const T *__restrict__ x, const T *__restrict__ norm, const T *__restrict__ weight,       \
                      const T *__restrict__ bias, T *__restrict__ result, uint32_t rows, uint32_t columns,     \
                      uint32_t length, uint32_t activation, float epsilon, uint32_t log2_slice_k) {            \
        PRODUCT::run(x, norm, weight, bias, result, rows, columns, length, activation, epsilon, log2_slice_k); \
    }
#define BOTH(TYPE, COLUMNS, BY, LANES, THREADS, ROWS, STEP)                                               \
    using Normed_##TYPE = NormedSkinny<element_##TYPE, COLUMNS, false>;                                   \
    using Gated_##TYPE = NormedSkinny<element_##TYPE, COLUMNS, true>;                                     \
    static_assert(Normed_##TYPE::Product::is_listed_as(BY, LANES, THREADS, ROWS, STEP, 0), "the list's"); \
    NORMED(normed_skinny, TYPE, element_##TYPE, Normed_##TYPE)                                            \
    NORMED(gated_skinny, TYPE, element_##TYPE, Gated_##TYPE)
LISTED(NORMED_KERNELS)(BOTH)
