// The operators of candle_rocm_backend::ops and their gradients: bias, activation and residual, gated activations,
// masked softmax, log-softmax, norms of sums, rows that are split over several workgroups.
#include "elementwise/activate.cuh"
#include "norms/row_splits.cuh"

namespace norms {

// --------------------------------------------------------------------- rows
//
// A workgroup's y is the number of its rows, as of Candle's norms.

// Calls make(form, group, row) for a workgroup's rows. What holds several numbers for an element has room for so many
// fewer.
template <class Rows, class T, class F>
__device__ __forceinline__ void each_row(uint32_t columns, bool wide, F make) {
    for_rows_of<Rows::VECTORS, T, MOST_ELEMENTS<T> / Rows::NUMBERS>(blockDim.y, columns, wide, make);
}

// Whether a mask can be read in vectors of as many elements as T has.
template <class T, class M> __device__ __forceinline__ bool can_vectorise_mask(const M *mask, const MaskRows &rows) {
    if constexpr (is_same<M, NoMask>::value) return true;
    else return is_aligned(mask, sizeof(M) * VEC16<T>) && rows.divide_by(VEC16<T>);
}

// The logits of a row.
template <class T, class M> __device__ __forceinline__ Logits<T, M> logits(const T *src, const M *mask,
                                                                           const MaskRows &rows, size_t row,
                                                                           uint32_t columns, double scale) {
    if constexpr (is_same<M, NoMask>::value) return {src + row * columns, mask, (compute_t<T>)scale};
    else return {src + row * columns, mask + rows.offset(row), (compute_t<T>)scale};
}

template <class Rows, class T, class M>
__device__ __forceinline__ void masked_softmax(const T *src, T *dst, uint32_t columns, double scale, const M *mask,
                                               const MaskRows &rows) {
    constexpr bool MASKED = !is_same<M, NoMask>::value;
    bool wide = can_vectorise<T>(columns, src, dst) && can_vectorise_mask<T>(mask, rows);
    each_row<Rows, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        auto source = logits(src, mask, rows, row, columns, scale);
        softmax_row<decltype(form), false, MASKED>(source, dst + row * columns, columns, row_group);
    });
}

template <class T> __device__ __forceinline__ void log_softmax(const T *src, T *dst, uint32_t columns) {
    bool wide = can_vectorise<T>(columns, src, dst);
    each_row<RowsOf_log_softmax, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        size_t at = row * columns;
        softmax_row<decltype(form), true>(Plain<T>{src + at}, dst + at, columns, row_group);
    });
}

template <bool LOG, class T>
__device__ __forceinline__ void softmax_backward(const T *y, const T *dy, T *dx, uint32_t columns, double scale) {
    using Rows = typename conditional<LOG, RowsOf_backward_log_softmax, RowsOf_backward_softmax>::type;
    bool wide = can_vectorise<T>(columns, y, dy, dx);
    each_row<Rows, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        size_t at = row * columns;
        Two<T> source{y + at, dy + at};
        softmax_backward_row<decltype(form), LOG>(source, dx + at, columns, (compute_t<T>)scale, row_group);
    });
}

template <class T>
__device__ __forceinline__ void add_rmsnorm(const T *x, const T *residual, T *sum, T *dst, const T *alpha,
                                            uint32_t columns, float eps) {
    bool wide = can_vectorise<T>(columns, x, residual, sum, dst, alpha);
    each_row<RowsOf_add_rmsnorm, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        size_t at = row * columns;
        SumOf<T> source{x + at, residual + at, sum + at};
        rmsnorm_row<decltype(form)>(source, dst + at, alpha, columns, eps, row_group);
    });
}

template <class T>
__device__ __forceinline__ void add_layernorm(const T *x, const T *residual, T *sum, T *dst, const T *alpha,
                                              const T *beta, uint32_t columns, float eps) {
    bool wide = can_vectorise<T>(columns, x, residual, sum, dst, alpha, beta);
    each_row<RowsOf_add_layernorm, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        size_t at = row * columns;
        SumOf<T> source{x + at, residual + at, sum + at};
        layernorm_row<decltype(form)>(source, dst + at, alpha, Plain<T>{beta}, columns, eps, row_group);
    });
}

template <bool RMS, class T>
__device__ __forceinline__ void norm_backward(const T *x, const T *dy, const T *alpha, T *dx, compute_t<T> *stats,
                                              uint32_t columns, float eps) {
    using Rows = typename conditional<RMS, RowsOf_backward_rmsnorm, RowsOf_backward_layernorm>::type;
    bool wide = can_vectorise<T>(columns, x, dy, alpha, dx);
    each_row<Rows, T>(columns, wide, [&](auto form, const RowGroup &row_group, size_t row) INLINED {
        size_t at = row * columns;
        compute_t<T> *of_row = stats == nullptr ? stats : stats + 2 * row;
        norm_backward_row<decltype(form), RMS>(Two<T>{x + at, dy + at}, alpha, dx + at, of_row, columns, eps,
                                               row_group);
    });
}

// The last six parameters are the mask and its MaskRows.
#define MASKED_SOFTMAX(KERNEL, NAME, T, M)                                                                             \
    ENTRY KERNEL##_##NAME(const T *__restrict__ src, T *__restrict__ dst, uint32_t columns, double scale,              \
                          const M *__restrict__ mask, uint32_t middle, uint32_t inner, size_t stride0, size_t stride1, \
                          size_t stride2) {                                                                            \
        MaskRows rows{middle, inner, {stride0, stride1, stride2}};                                                     \
        masked_softmax<RowsOf_##KERNEL>(src, dst, columns, scale, mask, rows);                                         \
    }
#define SOFTMAXES(NAME, T)                                                                                        \
    ENTRY log_softmax_##NAME(const T *__restrict__ src, T *__restrict__ dst, uint32_t columns) {                  \
        log_softmax(src, dst, columns);                                                                           \
    }                                                                                                             \
    ENTRY scaled_softmax_##NAME(const T *__restrict__ src, T *__restrict__ dst, uint32_t columns, double scale) { \
        masked_softmax<RowsOf_scaled_softmax, T, NoMask>(src, dst, columns, scale, nullptr, MaskRows{});          \
    }                                                                                                             \
    MASKED_SOFTMAX(masked_softmax, NAME, T, T)                                                                    \
    MASKED_SOFTMAX(flagged_softmax, NAME, T, uint8_t)                                                             \
    ENTRY __launch_bounds__(RowsOf_backward_softmax::THREADS) backward_softmax_##NAME(                            \
        const T *__restrict__ y, const T *__restrict__ dy, T *__restrict__ dx, uint32_t columns, double scale) {  \
        softmax_backward<false>(y, dy, dx, columns, scale);                                                       \
    }                                                                                                             \
    ENTRY __launch_bounds__(RowsOf_backward_log_softmax::THREADS) backward_log_softmax_##NAME(                    \
        const T *__restrict__ y, const T *__restrict__ dy, T *__restrict__ dx, uint32_t columns) {                \
        softmax_backward<true>(y, dy, dx, columns, 1.0);                                                          \
    }
FOR_WIDE_FLOATS(SOFTMAXES)

#define NORMS(NAME, T)                                                                                                 \
    ENTRY add_rmsnorm_##NAME(const T *__restrict__ x, const T *__restrict__ residual, T *__restrict__ sum,             \
                             T *__restrict__ dst, const T *__restrict__ alpha, uint32_t columns, float eps) {          \
        add_rmsnorm(x, residual, sum, dst, alpha, columns, eps);                                                       \
    }                                                                                                                  \
    ENTRY add_layernorm_##NAME(const T *__restrict__ x, const T *__restrict__ residual, T *__restrict__ sum,           \
                               T *__restrict__ dst, const T *__restrict__ alpha, const T *__restrict__ beta,           \
                               uint32_t columns, float eps) {                                                          \
        add_layernorm(x, residual, sum, dst, alpha, beta, columns, eps);                                               \
    }                                                                                                                  \
    ENTRY __launch_bounds__(RowsOf_backward_rmsnorm::THREADS)                                                          \
        backward_rmsnorm_##NAME(const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ alpha,        \
                                T *__restrict__ dx, compute_t<T> *__restrict__ stats, uint32_t columns, float eps) {   \
        norm_backward<true>(x, dy, alpha, dx, stats, columns, eps);                                                    \
    }                                                                                                                  \
    ENTRY __launch_bounds__(RowsOf_backward_layernorm::THREADS)                                                        \
        backward_layernorm_##NAME(const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ alpha,      \
                                  T *__restrict__ dx, compute_t<T> *__restrict__ stats, uint32_t columns, float eps) { \
        norm_backward<false>(x, dy, alpha, dx, stats, columns, eps);                                                   \
    }                                                                                                                  \
    ENTRY __launch_bounds__(256)                                                                                       \
        column_sums_##NAME(const T *__restrict__ dy, const T *__restrict__ x, const compute_t<T> *__restrict__ stats,  \
                           compute_t<T> *__restrict__ by_x, compute_t<T> *__restrict__ plain, size_t rows,             \
                           uint32_t columns, uint32_t slab) {                                                          \
        if (can_vectorise<T>(columns, dy, x)) column_sums<VEC16<T>>(dy, x, stats, by_x, plain, rows, columns, slab);   \
        else column_sums<1>(dy, x, stats, by_x, plain, rows, columns, slab);                                           \
    }                                                                                                                  \
    /* Adds up the slabs' sums, in their order. */                                                                     \
    ENTRY column_finish_##NAME(const compute_t<T> *__restrict__ sums, T *__restrict__ dst, uint32_t slabs,             \
                               uint32_t columns) {                                                                     \
        for (size_t i = global_thread(); i < columns; i += global_threads()) {                                         \
            compute_t<T> sum = 0;                                                                                      \
            for (size_t s = 0; s < slabs; s++) sum += sums[s * columns + i];                                           \
            dst[i] = round_to<T>(sum);                                                                                 \
        }                                                                                                              \
    }
FOR_WIDE_FLOATS(NORMS)

// ------------------------------------------------------------ rows in splits

// The first launch and the second must cut rows alike, of pointers that only one of them has: the caller says whether
// all can be read in vectors, `wide`.
template <class T, class F> __device__ __forceinline__ void by_width(bool wide, F make) {
    if (wide) make(Constant<VEC16<T>>());
    else make(Constant<1>());
}

template <class T, class M>
__device__ __forceinline__ void softmax_splits(const T *src, PartialOf<T> *__restrict__ partial, uint32_t columns,
                                               uint32_t splits, double scale, bool wide, const M *mask,
                                               const MaskRows &rows) {
    by_width<T>(wide && can_vectorise_mask<T>(mask, rows), [&](auto width) INLINED {
        auto source = logits(src, mask, rows, blockIdx.y, columns, scale);
        softmax_split<width.value, T>(source, partial, columns, splits);
    });
}
template <bool LOG, class T, class M>
__device__ __forceinline__ void softmax_finish(const T *src, const PartialOf<T> *__restrict__ partial, T *dst,
                                               uint32_t columns, uint32_t splits, double scale, bool wide,
                                               const M *mask, const MaskRows &rows) {
    constexpr bool MASKED = !is_same<M, NoMask>::value;
    by_width<T>(wide && can_vectorise_mask<T>(mask, rows), [&](auto width) INLINED {
        auto source = logits(src, mask, rows, blockIdx.y, columns, scale);
        T *to = dst + (size_t)blockIdx.y * columns;
        softmax_split_finish<width.value, LOG, MASKED, T>(source, partial, to, columns, splits);
    });
}
template <bool LOG, class T>
__device__ __forceinline__ void softmax_backward_splits(const T *y, const T *dy, compute_t<T> *partial,
                                                        uint32_t columns, uint32_t splits, bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    by_width<T>(wide, [&](auto width) INLINED {
        softmax_backward_split<width.value, LOG>(Two<T>{y + at, dy + at}, partial, columns, splits);
    });
}
template <bool LOG, class T>
__device__ __forceinline__ void softmax_backward_finish(const T *y, const T *dy, const compute_t<T> *partial, T *dx,
                                                        uint32_t columns, uint32_t splits, double scale, bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    by_width<T>(wide, [&](auto width) INLINED {
        Two<T> source{y + at, dy + at};
        softmax_backward_split_finish<width.value, LOG>(source, partial, dx + at, columns, splits, (compute_t<T>)scale);
    });
}

#define MASKED_SPLITS(KIND, NAME, T, M)                                                                                \
    ENTRY __launch_bounds__(256)                                                                                       \
        long_##KIND##_splits_##NAME(const T *__restrict__ src, PartialOf<T> *__restrict__ partial, uint32_t columns,   \
                                    uint32_t splits, double scale, uint32_t wide, const M *__restrict__ mask,          \
                                    uint32_t middle, uint32_t inner, size_t stride0, size_t stride1, size_t stride2) { \
        softmax_splits(src, partial, columns, splits, scale, wide != 0, mask,                                          \
                       MaskRows{middle, inner, {stride0, stride1, stride2}});                                          \
    }                                                                                                                  \
    ENTRY __launch_bounds__(256) long_##KIND##_finish_##NAME(                                                          \
        const T *__restrict__ src, const PartialOf<T> *__restrict__ partial, T *__restrict__ dst, uint32_t columns,    \
        uint32_t splits, double scale, uint32_t wide, const M *__restrict__ mask, uint32_t middle, uint32_t inner,     \
        size_t stride0, size_t stride1, size_t stride2) {                                                              \
        softmax_finish<false>(src, partial, dst, columns, splits, scale, wide != 0, mask,                              \
                              MaskRows{middle, inner, {stride0, stride1, stride2}});                                   \
    }
#define SOFTMAX_FINISH(KIND, LOG, NAME, T)                                                                          \
    ENTRY __launch_bounds__(256) long_##KIND##_finish_##NAME(                                                       \
        const T *__restrict__ src, const PartialOf<T> *__restrict__ partial, T *__restrict__ dst, uint32_t columns, \
        uint32_t splits, double scale, uint32_t wide) {                                                             \
        softmax_finish<LOG, T, NoMask>(src, partial, dst, columns, splits, scale, wide != 0, nullptr, MaskRows{});  \
    }                                                                                                               \
    ENTRY __launch_bounds__(256) long_backward_##KIND##_splits_##NAME(                                              \
        const T *__restrict__ y, const T *__restrict__ dy, compute_t<T> *__restrict__ partial, uint32_t columns,    \
        uint32_t splits, uint32_t wide) {                                                                           \
        softmax_backward_splits<LOG>(y, dy, partial, columns, splits, wide != 0);                                   \
    }                                                                                                               \
    ENTRY __launch_bounds__(256) long_backward_##KIND##_finish_##NAME(                                              \
        const T *__restrict__ y, const T *__restrict__ dy, const compute_t<T> *__restrict__ partial,                \
        T *__restrict__ dx, uint32_t columns, uint32_t splits, double scale, uint32_t wide) {                       \
        softmax_backward_finish<LOG>(y, dy, partial, dx, columns, splits, scale, wide != 0);                        \
    }
#define SOFTMAX_SPLITS(NAME, T)                                                                                     \
    ENTRY __launch_bounds__(256)                                                                                    \
        long_softmax_splits_##NAME(const T *__restrict__ src, PartialOf<T> *__restrict__ partial, uint32_t columns, \
                                   uint32_t splits, double scale, uint32_t wide) {                                  \
        softmax_splits<T, NoMask>(src, partial, columns, splits, scale, wide != 0, nullptr, MaskRows{});            \
    }                                                                                                               \
    SOFTMAX_FINISH(softmax, false, NAME, T)                                                                         \
    SOFTMAX_FINISH(log_softmax, true, NAME, T)                                                                      \
    MASKED_SPLITS(masked_softmax, NAME, T, T)                                                                       \
    MASKED_SPLITS(flagged_softmax, NAME, T, uint8_t)
FOR_WIDE_FLOATS(SOFTMAX_SPLITS)

template <bool RMS, class T>
__device__ __forceinline__ void norm_splits(const T *src, PartialOf<T> *__restrict__ partial, uint32_t columns,
                                            uint32_t splits, bool wide) {
    by_width<T>(wide, [&](auto width) INLINED {
        Plain<T> source{src + (size_t)blockIdx.y * columns};
        norm_split<width.value, RMS, T>(source, partial, columns, splits);
    });
}
template <bool RMS, class T>
__device__ __forceinline__ void add_norm_splits(const T *x, const T *residual, T *sum,
                                                PartialOf<T> *__restrict__ partial, uint32_t columns, uint32_t splits,
                                                bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    by_width<T>(wide, [&](auto width) INLINED {
        SumOf<T> source{x + at, residual + at, sum + at};
        norm_split<width.value, RMS, T>(source, partial, columns, splits);
    });
}
template <bool RMS, class T>
__device__ __forceinline__ void norm_finish(const T *src, const PartialOf<T> *__restrict__ partial, T *dst,
                                            const T *alpha, const T *beta, uint32_t columns, uint32_t splits, float eps,
                                            bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    by_width<T>(wide, [&](auto width) INLINED {
        norm_split_finish<width.value, RMS>(src + at, partial, dst + at, alpha, beta, columns, splits, eps);
    });
}
template <bool RMS, class T>
__device__ __forceinline__ void norm_backward_splits(const T *x, const T *dy, const T *alpha,
                                                     PartialOfGradient<compute_t<T>> *partial, uint32_t columns,
                                                     uint32_t splits, bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    by_width<T>(wide, [&](auto width) INLINED {
        norm_backward_split<width.value, RMS>(Two<T>{x + at, dy + at}, alpha, partial, columns, splits);
    });
}
template <bool RMS, class T>
__device__ __forceinline__ void norm_backward_finish(const T *x, const T *dy, const T *alpha,
                                                     const PartialOfGradient<compute_t<T>> *partial, T *dx,
                                                     compute_t<T> *stats, uint32_t columns, uint32_t splits, float eps,
                                                     bool wide) {
    size_t at = (size_t)blockIdx.y * columns;
    compute_t<T> *of_row = stats == nullptr ? stats : stats + 2 * (size_t)blockIdx.y;
    by_width<T>(wide, [&](auto width) INLINED {
        Two<T> source{x + at, dy + at};
        norm_backward_split_finish<width.value, RMS>(source, alpha, partial, dx + at, of_row, columns, splits, eps);
    });
}

#define NORM_SPLITS(KIND, RMS, NAME, T)                                                                              \
    ENTRY __launch_bounds__(256)                                                                                     \
        long_##KIND##_splits_##NAME(const T *__restrict__ src, PartialOf<T> *__restrict__ partial, uint32_t columns, \
                                    uint32_t splits, uint32_t wide) {                                                \
        norm_splits<RMS>(src, partial, columns, splits, wide != 0);                                                  \
    }                                                                                                                \
    ENTRY __launch_bounds__(256) long_add_##KIND##_splits_##NAME(                                                    \
        const T *__restrict__ x, const T *__restrict__ residual, T *__restrict__ sum,                                \
        PartialOf<T> *__restrict__ partial, uint32_t columns, uint32_t splits, uint32_t wide) {                      \
        add_norm_splits<RMS>(x, residual, sum, partial, columns, splits, wide != 0);                                 \
    }                                                                                                                \
    ENTRY __launch_bounds__(256)                                                                                     \
        long_##KIND##_finish_##NAME(const T *__restrict__ src, const PartialOf<T> *__restrict__ partial,             \
                                    T *__restrict__ dst, const T *__restrict__ alpha, const T *__restrict__ beta,    \
                                    uint32_t columns, uint32_t splits, float eps, uint32_t wide) {                   \
        norm_finish<RMS>(src, partial, dst, alpha, beta, columns, splits, eps, wide != 0);                           \
    }                                                                                                                \
    ENTRY __launch_bounds__(256) long_backward_##KIND##_splits_##NAME(                                               \
        const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ alpha,                              \
        PartialOfGradient<compute_t<T>> *__restrict__ partial, uint32_t columns, uint32_t splits, uint32_t wide) {   \
        norm_backward_splits<RMS>(x, dy, alpha, partial, columns, splits, wide != 0);                                \
    }                                                                                                                \
    ENTRY __launch_bounds__(256) long_backward_##KIND##_finish_##NAME(                                               \
        const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ alpha,                              \
        const PartialOfGradient<compute_t<T>> *__restrict__ partial, T *__restrict__ dx,                             \
        compute_t<T> *__restrict__ stats, uint32_t columns, uint32_t splits, float eps, uint32_t wide) {             \
        norm_backward_finish<RMS>(x, dy, alpha, partial, dx, stats, columns, splits, eps, wide != 0);                \
    }
#define BOTH_NORM_SPLITS(NAME, T) NORM_SPLITS(rmsnorm, true, NAME, T) NORM_SPLITS(layernorm, false, NAME, T)
FOR_WIDE_FLOATS(BOTH_NORM_SPLITS)

#define ACTIVATE(KERNEL, F, NUMBER, NAME, T)                                                           \
    ENTRY activate_##KERNEL##_##NAME(const T *__restrict__ x, const T *__restrict__ bias,              \
                                     const T *__restrict__ residual, T *__restrict__ out, size_t rows, \
                                     size_t columns) {                                                 \
        activate<F>(x, bias, residual, out, rows, columns);                                            \
    }
#define ACTIVATE_BACKWARD(KERNEL, F, NUMBER, NAME, T)                                                               \
    ENTRY backward_##KERNEL##_##NAME(const T *__restrict__ x, const T *__restrict__ bias, const T *__restrict__ dy, \
                                     T *__restrict__ dx, size_t rows, size_t columns) {                             \
        activate_backward<F>(x, bias, dy, dx, rows, columns);                                                       \
    }
#define WITH_SLOPE(KERNEL, F, NUMBER, NAME, T) \
    ACTIVATE(KERNEL, F, NUMBER, NAME, T) ACTIVATE_BACKWARD(KERNEL, F, NUMBER, NAME, T)
#define ELEMENTS(NAME, T)                                                                                        \
    ACTIVATE(none, Identity, 0, NAME, T)                                                                         \
    FOR_CURVES(WITH_SLOPE, NAME, T)                                                                              \
    ENTRY swiglu_##NAME(const T *__restrict__ gate, const T *__restrict__ up, T *__restrict__ out, size_t rows,  \
                        size_t columns, size_t stride) {                                                         \
        swiglu(gate, up, out, rows, columns, stride);                                                            \
    }                                                                                                            \
    ENTRY backward_swiglu_##NAME(const T *__restrict__ gate, const T *__restrict__ up, const T *__restrict__ dy, \
                                 T *__restrict__ dgate, T *__restrict__ dup, size_t rows, size_t columns,        \
                                 size_t stride) {                                                                \
        swiglu_backward(gate, up, dy, dgate, dup, rows, columns, stride);                                        \
    }
FOR_WIDE_FLOATS(ELEMENTS)

} // namespace norms
