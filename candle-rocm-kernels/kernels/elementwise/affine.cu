// out = in * mul + add, each operation rounded to the element type, as on the CPU.
#include "elementwise/elementwise.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY) EVERY(Mapped, 4, 2)

#define AFFINE(NAME, T)                                                                                           \
    ENTRY affine_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, const T *__restrict__ in, \
                        T *__restrict__ out, T mul, T add) {                                                      \
        map(                                                                                                      \
            numel, num_dims, info,                                                                                \
            [=](T x) {                                                                                            \
                T product = round_to<T>((compute_t<T>)(upcast(x) * upcast(mul)));                                 \
                return round_to<T>((compute_t<T>)(upcast(product) + upcast(add)));                                \
            },                                                                                                    \
            out, in);                                                                                             \
    }
FOR_ALL(AFFINE)
