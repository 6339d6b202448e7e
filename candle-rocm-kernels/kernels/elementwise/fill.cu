// Constants, and copies of two-dimensional blocks.
#include "elementwise/elementwise.cuh"

// How these are launched: launch_heuristics.rs says what the words mean.
#define LAUNCHES(X, EVERY)      \
    EVERY(AnyGrid, 4, Sizes, 0) \
    X(copy2d, AnyGrid, 4, Words, 2, 3)

// Sets every element of a tensor of any layout; `out` points at its first element.
template <class T>
__device__ __forceinline__ void const_set(size_t numel, size_t num_dims, const size_t *__restrict__ info, T value,
                                          T *__restrict__ out) {
    if (info == nullptr) {
        map_contiguous(numel, [=]() { return value; }, out);
    } else {
        for (size_t i = global_thread(); i < numel; i += global_threads())
            out[strided_offset(i, num_dims, info)] = value;
    }
}

#define CONST_SET(NAME, T)                                                                          \
    ENTRY const_set_##NAME(size_t numel, size_t num_dims, const size_t *__restrict__ info, T value, \
                           T *__restrict__ out) {                                                   \
        const_set(numel, num_dims, info, value, out);                                               \
    }
FOR_INTEGERS(CONST_SET)
FOR_WIDE_FLOATS(CONST_SET)
// Candle spells this one name differently.
CONST_SET(f8_e4m3, f8e4m3_t)

// Copies `rows` rows of `columns` elements between pitches given in elements.
template <class T>
__device__ __forceinline__ void copy2d(const T *__restrict__ src, T *__restrict__ dst, uint32_t rows, uint32_t columns,
                                       uint32_t src_pitch, uint32_t dst_pitch) {
    constexpr uint32_t WIDTH = VEC16<T>;
    size_t first = global_thread(), step = global_threads();
    // Rows that start aligned and divide into 16 bytes move as such.
    bool wide = columns % WIDTH == 0 && src_pitch % WIDTH == 0 && dst_pitch % WIDTH == 0 && is_aligned(src, 16) &&
                is_aligned(dst, 16);
    if (wide) {
        using V = vec<T, WIDTH>;
        uint32_t groups = columns / WIDTH;
        for (size_t i = first; i < (size_t)rows * groups; i += step) {
            size_t row = i <= 0xffffffffu ? (uint32_t)i / groups : i / groups, at = (i - row * groups) * WIDTH;
            store_vec(dst + row * dst_pitch + at, load_vec<V>(src + row * src_pitch + at));
        }
    } else {
        for (size_t i = first; i < (size_t)rows * columns; i += step) {
            size_t row = i <= 0xffffffffu ? (uint32_t)i / columns : i / columns, at = i - row * columns;
            dst[row * dst_pitch + at] = src[row * src_pitch + at];
        }
    }
}

// f8e4m3 is copied as u8.
#define COPY2D(NAME, T)                                                                                  \
    ENTRY copy2d_##NAME(const T *__restrict__ src, T *__restrict__ dst, uint32_t rows, uint32_t columns, \
                        uint32_t src_pitch, uint32_t dst_pitch) {                                        \
        copy2d(src, dst, rows, columns, src_pitch, dst_pitch);                                           \
    }
FOR_INTEGERS(COPY2D)
FOR_WIDE_FLOATS(COPY2D)
