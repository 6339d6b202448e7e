// Pooling and upsampling of (batch, channels, height, width) tensors of any layout; dst is contiguous.
#pragma once
#include "conv/convolution.cuh"

// Calls f(pointer to the channel's first element, y, x) for each output, an element or a vector, and stores the result.
template <class T, class Out, class F>
__device__ __forceinline__ void for_each_output(size_t out_h, size_t out_w, const Layout<4> &s,
                                                const T *__restrict__ src, Out *__restrict__ dst, F f) {
    size_t numel = s.dims[0] * s.dims[1] * out_h * out_w;
    bool fits_32 = numel <= 0xffffffffu;
    for (size_t i = global_thread(); i < numel; i += global_threads()) {
        size_t rest = i;
        size_t x = pop_axis(rest, out_w, fits_32), y = pop_axis(rest, out_h, fits_32);
        size_t channel = pop_axis(rest, s.dims[1], fits_32);
        dst[i] = f(src + rest * s.strides[0] + channel * s.strides[1], y, x);
    }
}

// Outputs that a thread pools at once, by pairs of neighbours, from 16 bytes of each line.
template <class T> constexpr uint32_t POOLED = VEC16<T> / 2;

// Whether windows are pairs of neighbours that can be read so.
template <class T>
__device__ __forceinline__ bool pools_pairs(size_t w_k, size_t w_stride, size_t out_w, const Layout<4> &s, const T *src,
                                            const T *dst) {
    bool fits = w_k == 2 && w_stride == 2 && s.strides[3] == 1 && out_w % POOLED<T> == 0;
    fits = fits && is_aligned(src, 16) && is_aligned(dst, POOLED<T> * sizeof(T));
#pragma unroll
    for (int d = 0; d < 3; d++) fits = fits && (s.dims[d] == 1 || s.strides[d] % VEC16<T> == 0);
    return fits;
}

// Makes each output from its window: `start` gives the result of its first element, `add` that with one more, `finish`
// the output.
template <class T, class Start, class Add, class Finish>
__device__ __forceinline__ void pool(size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,
                                     const size_t *__restrict__ info, const T *__restrict__ src, T *__restrict__ dst,
                                     Start start, Add add, Finish finish) {
    constexpr uint32_t WIDTH = POOLED<T>;
    Layout<4> s(info);
    size_t out_h = (s.dims[2] - h_k) / h_stride + 1, out_w = (s.dims[3] - w_k) / w_stride + 1;
    if (pools_pairs(w_k, w_stride, out_w, s, src, dst)) {
        auto pooled = [&](const T *from, size_t y, size_t x) INLINED {
            const T *line = from + y * h_stride * s.strides[2] + x * (2 * WIDTH);
            vec<T, WIDTH> values;
            decltype(start(*src)) results[WIDTH];
            for (size_t m = 0; m < h_k; m++, line += s.strides[2]) {
                auto pairs = read_global<vec<T, 2 * WIDTH>>(line);
#pragma unroll
                for (uint32_t k = 0; k < WIDTH; k++) {
                    results[k] = m == 0 ? start(pairs[2 * k]) : add(results[k], pairs[2 * k]);
                    results[k] = add(results[k], pairs[2 * k + 1]);
                }
            }
#pragma unroll
            for (uint32_t k = 0; k < WIDTH; k++) values[k] = finish(results[k]);
            return values;
        };
        for_each_output(out_h, out_w / WIDTH, s, src, (vec<T, WIDTH> *)dst, pooled);
        return;
    }
    for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) INLINED {
        const T *window = from + y * h_stride * s.strides[2] + x * w_stride * s.strides[3];
        auto result = start(window[0]);
        for (size_t m = 0; m < h_k; m++)
            for (size_t n = m == 0 ? 1 : 0; n < w_k; n++)
                result = add(result, window[m * s.strides[2] + n * s.strides[3]]);
        return finish(result);
    });
}

// The mean of each window: of floats, as on the CPU, the sum times 1 / area in the element's type; of integers, where
// that would be 0, the sum in 64 bits by the area, towards zero.
template <class T>
__device__ __forceinline__ void avg_pool2d(size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,
                                           const size_t *__restrict__ info, const T *__restrict__ src,
                                           T *__restrict__ dst) {
    if constexpr (is_float<T>::value) {
        using C = compute_t<T>;
        C scale = upcast(convert<T>(1.0 / (double)(h_k * w_k)));
        pool(
            h_k, w_k, h_stride, w_stride, info, src, dst, [](T x) INLINED { return (C)0 + (C)upcast(x); },
            [](C sum, T x) INLINED { return sum + (C)upcast(x); },
            [=](C sum) INLINED { return round_to<T>((C)(sum * scale)); });
    } else {
        int64_t area = (int64_t)(h_k * w_k);
        pool(
            h_k, w_k, h_stride, w_stride, info, src, dst, [](T x) INLINED { return (int64_t)x; },
            [](int64_t sum, T x) INLINED { return sum + (int64_t)x; },
            [=](int64_t sum) INLINED { return (T)(sum / area); });
    }
}

// The largest of each window; a NaN counts only where it comes first.
template <class T>
__device__ __forceinline__ void max_pool2d(size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,
                                           const size_t *__restrict__ info, const T *__restrict__ src,
                                           T *__restrict__ dst) {
    using C = compute_t<T>;
    pool(
        h_k, w_k, h_stride, w_stride, info, src, dst, [](T x) INLINED { return (C)upcast(x); },
        [](C largest, T x) INLINED { return largest < (C)upcast(x) ? (C)upcast(x) : largest; },
        [](C largest) INLINED { return round_to<T>(largest); });
}

// The input place of each output place along an axis, as on the CPU: the product in f64, towards zero.
struct NearestAxis {
    double scale;
    size_t last;
    float short_scale;
    bool is_short;

    // Scales of at most 8 significant bits, such as 1/2, make exact products with 16 bits in f32, of which every GPU
    // makes many more than in f64.
    __device__ __forceinline__ NearestAxis(double scale, size_t in, size_t out)
        : scale(scale), last(in - 1), short_scale((float)scale) {
        uint32_t rest = bit_cast<uint32_t>(short_scale) & 0xffffu;
        is_short = (double)short_scale == scale && rest == 0 && out <= 65536;
    }
    __device__ __forceinline__ size_t at(size_t i) const {
        size_t place = is_short ? (uint32_t)((float)(uint32_t)i * short_scale) : (size_t)((double)i * scale);
        return min_of(place, last);
    }
};

// Each element twice along both axes, by vectors of which a thread has one in two lines.
template <class T> __device__ __forceinline__ void double_elements(const Layout<4> &s, const T *__restrict__ src,
                                                                   T *__restrict__ dst) {
    constexpr uint32_t WIDTH = VEC16<T>;
    size_t columns = s.dims[3] * 2 / WIDTH, lines = s.dims[0] * s.dims[1] * s.dims[2], total = lines * columns;
    bool fits_32 = total <= 0xffffffffu;
    auto *wide = (vec<T, WIDTH> *)dst;
    for (size_t i = global_thread(); i < total; i += global_threads()) {
        size_t rest = i, x = pop_axis(rest, columns, fits_32), line = rest;
        size_t y = pop_axis(rest, s.dims[2], fits_32), channel = pop_axis(rest, s.dims[1], fits_32);
        const T *row = src + rest * s.strides[0] + channel * s.strides[1] + y * s.strides[2];
        auto half = read_global<vec<T, WIDTH / 2>>(row + x * (WIDTH / 2));
        vec<T, WIDTH> values;
#pragma unroll
        for (uint32_t k = 0; k < WIDTH; k++) values[k] = half[k / 2];
        wide[2 * line * columns + x] = values;
        wide[(2 * line + 1) * columns + x] = values;
    }
}

// Whether `double_elements` can do it: vectors are aligned in all lines.
template <class T>
__device__ __forceinline__ bool doubles(size_t out_h, size_t out_w, double h_scale, double w_scale, const Layout<4> &s,
                                        const T *src, const T *dst) {
    constexpr size_t HALF = VEC16<T> / 2;
    bool fits = h_scale == 0.5 && w_scale == 0.5 && out_h == 2 * s.dims[2] && out_w == 2 * s.dims[3] &&
                s.strides[3] == 1 && s.dims[3] % HALF == 0 && is_aligned(src, 8) && is_aligned(dst, 16);
#pragma unroll
    for (int d = 0; d < 3; d++) fits = fits && (s.dims[d] == 1 || s.strides[d] % HALF == 0);
    return fits;
}

template <class T>
__device__ __forceinline__ void upsample_nearest2d(size_t out_h, size_t out_w, double h_scale, double w_scale,
                                                   const size_t *__restrict__ info, const T *__restrict__ src,
                                                   T *__restrict__ dst) {
    Layout<4> s(info);
    if (doubles(out_h, out_w, h_scale, w_scale, s, src, dst)) return double_elements(s, src, dst);
    NearestAxis h(h_scale, s.dims[2], out_h), w(w_scale, s.dims[3], out_w);
    constexpr uint32_t WIDTH = VEC16<T>;
    if (out_w % WIDTH != 0 || !is_aligned(dst, 16)) {
        for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) {
            return from[h.at(y) * s.strides[2] + w.at(x) * s.strides[3]];
        });
        return;
    }
    // Vectors of neighbours in a row.
    auto *wide = (vec<T, WIDTH> *)dst;
    for_each_output(out_h, out_w / WIDTH, s, src, wide, [&](const T *from, size_t y, size_t x) {
        const T *row = from + h.at(y) * s.strides[2];
        vec<T, WIDTH> values;
#pragma unroll
        for (uint32_t k = 0; k < WIDTH; k++) values[k] = row[w.at(x * WIDTH + k) * s.strides[3]];
        return values;
    });
}

// What values are interpolated in: floats as sums are, integers in f64, which has all of their bits but i64's last.
template <class T> using blend_t = typename conditional<is_float<T>::value, compute_t<T>, double>::type;

// Between two values: all of the first where the weight of the second is 0.
template <class C> __device__ __forceinline__ C blend(C first, C second, C weight) {
    return first * (1 - weight) + second * weight;
}

// One axis of a bilinear interpolation: two neighbours and the weight of the second. Places are computed in f64, as on
// the CPU.
template <class C> struct Neighbours {
    size_t first;
    C weight;
    Neighbours() = default;
    __device__ __forceinline__ Neighbours(size_t at, double scale, bool align_corners, size_t size) {
        double place = align_corners ? scale * (double)at : scale * ((double)at + 0.5) - 0.5;
        place = math::fmax(place, 0.0);
        first = min_of((size_t)place, size - 1);
        weight = (C)math::fmin(place - (double)first, 1.0);
    }
};

// Input places per output place.
__device__ __forceinline__ double bilinear_scale(size_t in, size_t out, bool align_corners, bool given, double factor) {
    if (align_corners) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0.0;
    return given ? 1.0 / factor : (double)in / (double)out;
}

// An axis: the neighbours of each output place.
template <class C> struct NeighbourAxis {
    double scale;
    size_t size;
    bool align_corners;
    __device__ __forceinline__ Neighbours<C> operator()(size_t at) const { return {at, scale, align_corners, size}; }
    __device__ __forceinline__ size_t second(const Neighbours<C> &of) const { return min_of(of.first + 1, size - 1); }
};

// Channels whose outputs at some places a thread makes: places and weights of their neighbours are the same.
constexpr uint32_t BILINEAR_CHANNELS = 4;

// WIDTH neighbours in a line at once.
template <uint32_t WIDTH, class T, class C>
__device__ __forceinline__ void interpolate(size_t out_h, size_t out_w, const Layout<4> &s, const T *__restrict__ src,
                                            T *__restrict__ dst, const NeighbourAxis<C> &h_axis,
                                            const NeighbourAxis<C> &w_axis) {
    size_t columns = out_w / WIDTH, of_channel = out_h * columns, channels = s.dims[0] * s.dims[1];
    size_t total = ceil_div(channels, (size_t)BILINEAR_CHANNELS) * of_channel;
    bool fits_32 = total <= 0xffffffffu;
    auto *to = (vec<T, WIDTH> *)dst;
    for (size_t i = global_thread(); i < total; i += global_threads()) {
        size_t rest = i, x = pop_axis(rest, columns, fits_32), y = pop_axis(rest, out_h, fits_32);
        Neighbours<C> h = h_axis(y);
        size_t first_x[WIDTH], second_x[WIDTH];
        C weight[WIDTH];
#pragma unroll
        for (uint32_t k = 0; k < WIDTH; k++) {
            Neighbours<C> w = w_axis(x * WIDTH + k);
            first_x[k] = w.first * s.strides[3], second_x[k] = w_axis.second(w) * s.strides[3], weight[k] = w.weight;
        }
        size_t first_y = h.first * s.strides[2], second_y = h_axis.second(h) * s.strides[2];
        size_t channel = rest * BILINEAR_CHANNELS, end = min_of(channel + BILINEAR_CHANNELS, channels);
        size_t batch = divide(channel, s.dims[1], fits_32), of_batch = channel - batch * s.dims[1];
#pragma nounroll
        for (; channel < end; channel++, of_batch++) {
            if (of_batch == s.dims[1]) {
                of_batch = 0;
                batch++;
            }
            const T *from = src + batch * s.strides[0] + of_batch * s.strides[1];
            const T *first = from + first_y, *second = from + second_y;
            vec<T, WIDTH> values;
#pragma unroll
            for (uint32_t k = 0; k < WIDTH; k++) {
                auto between = [&](const T *line) INLINED {
                    return blend(convert<C>(line[first_x[k]]), convert<C>(line[second_x[k]]), weight[k]);
                };
                values[k] = convert<T>(blend(between(first), between(second), h.weight));
            }
            to[(channel * out_h + y) * columns + x] = values;
        }
    }
}

// Twice as many elements along both axes: a quarter and three quarters of neighbours, whose places are known. A thread
// has a vector in the two lines between two lines of the source, and in the line before the first or behind the last.
template <class T> __device__ __forceinline__ void interpolate_double(const Layout<4> &s, const T *__restrict__ src,
                                                                      T *__restrict__ dst) {
    // Quarters of bytes are exact in f32.
    using C = typename conditional<sizeof(T) == 1, float, blend_t<T>>::type;
    constexpr uint32_t WIDTH = VEC16<T>, HALF = WIDTH / 2;
    size_t height = s.dims[2], width = s.dims[3], columns = width / HALF, pairs = height + 1;
    size_t total = s.dims[0] * s.dims[1] * pairs * columns;
    bool fits_32 = total <= 0xffffffffu;
    auto *wide = (vec<T, WIDTH> *)dst;
    const C quarter = (C)0.25, quarters = (C)0.75;
    for (size_t i = global_thread(); i < total; i += global_threads()) {
        size_t rest = i, x = pop_axis(rest, columns, fits_32), plane = rest;
        size_t y = pop_axis(plane, pairs, fits_32), batch = plane, channel = pop_axis(batch, s.dims[1], fits_32);
        const T *from = src + batch * s.strides[0] + channel * s.strides[1];
        size_t at = x * HALF;
        // Neighbours of places before the first and behind the last are these themselves.
        auto line = [&](size_t number, C(&of)[WIDTH]) INLINED {
            const T *row = from + number * s.strides[2];
            auto middle = read_global<vec<T, HALF>>(row + at);
            C known[HALF + 2];
            known[0] = convert<C>(x == 0 ? middle[0] : row[at - 1]);
            known[HALF + 1] = convert<C>(x + 1 == columns ? middle[HALF - 1] : row[at + HALF]);
#pragma unroll
            for (uint32_t k = 0; k < HALF; k++) known[k + 1] = convert<C>(middle[k]);
#pragma unroll
            for (uint32_t k = 0; k < HALF; k++) {
                C weight = k == 0 && x == 0 ? (C)0 : quarters;
                of[2 * k] = blend(known[k], known[k + 1], weight);
                of[2 * k + 1] = blend(known[k + 1], known[k + 2], quarter);
            }
        };
        C above[WIDTH], below[WIDTH];
        line(y == 0 ? 0 : y - 1, above);
        line(y == height ? y - 1 : y, below);
        size_t to = (plane * 2 * height + 2 * y) * columns + x;
        auto store = [&](size_t to, C weight) INLINED {
            vec<T, WIDTH> values;
#pragma unroll
            for (uint32_t k = 0; k < WIDTH; k++) values[k] = convert<T>(blend(above[k], below[k], weight));
            wide[to] = values;
        };
        if (y > 0) store(to - columns, quarter);
        if (y < height) store(to, y == 0 ? (C)0 : quarters);
    }
}

template <class T>
__device__ __forceinline__ void upsample_bilinear2d(size_t out_h, size_t out_w, bool align_corners, bool h_given,
                                                    double h_factor, bool w_given, double w_factor,
                                                    const size_t *__restrict__ info, const T *__restrict__ src,
                                                    T *__restrict__ dst) {
    using C = blend_t<T>;
    constexpr uint32_t WIDTH = 4;
    Layout<4> s(info);
    double h_scale = bilinear_scale(s.dims[2], out_h, align_corners, h_given, h_factor);
    double w_scale = bilinear_scale(s.dims[3], out_w, align_corners, w_given, w_factor);
    bool is_double = !align_corners && doubles(out_h, out_w, h_scale, w_scale, s, src, dst);
    if (is_double) return interpolate_double(s, src, dst);
    NeighbourAxis<C> h{h_scale, s.dims[2], align_corners}, w{w_scale, s.dims[3], align_corners};
    if (out_w % WIDTH == 0 && is_aligned(dst, WIDTH * sizeof(T))) interpolate<WIDTH>(out_h, out_w, s, src, dst, h, w);
    else interpolate<1>(out_h, out_w, s, src, dst, h, w);
}
