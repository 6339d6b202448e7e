// out = condition ? on_true : on_false.
//
// `info` always comes, even for contiguous tensors: dimensions, then the strides of the condition,
// of on_true and of on_false.
#include "elementwise/elementwise.cuh"
#include "portable/sizes.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(Mapped, 4, 2)

// These stand once for each size of element.
#define MOVES(X) X(where)

// Whether the strides are those of a contiguous tensor; a dimension of one element has any stride.
__device__ __forceinline__ bool is_contiguous(size_t num_dims, const size_t *dims, const size_t *strides) {
    size_t expected = 1;
    for (size_t d = num_dims; d-- > 0;) {
        if (dims[d] != 1 && strides[d] != expected) return false;
        expected *= dims[d];
    }
    return true;
}

template <class C, class T>
__device__ __forceinline__ void where(size_t numel, size_t num_dims, const size_t *__restrict__ info,
                                      const C *__restrict__ condition, const T *__restrict__ on_true,
                                      const T *__restrict__ on_false, T *__restrict__ out) {
    bool contiguous = true;
    for (int k = 1; k <= 3; k++) contiguous = contiguous && is_contiguous(num_dims, info, info + k * num_dims);
    auto choose = [](C c, T t, T f) {
        return c != 0 ? t : f;
    };
    map(numel, num_dims, contiguous ? nullptr : info, choose, out, condition, on_true, on_false);
}

#define WHERE(C_NAME, C, NAME, T)                                                                 \
    ENTRY where_##C_NAME##_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, \
                                  const C *__restrict__ condition, const T *__restrict__ on_true, \
                                  const T *__restrict__ on_false, T *__restrict__ out) {          \
        where(numel, num_dims, info, condition, on_true, on_false, out);                          \
    }
#define WHERE_ALL(NAME, T) FOR_INDICES(WHERE, NAME, T)
FOR_SIZES(WHERE_ALL)
