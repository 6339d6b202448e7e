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

// The mean of each window: of floats, as on the CPU, the sum times 1 / area in the element's type; of integers, where
// that would be 0, the sum in 64 bits by the area, towards zero.
template <class T>
__device__ __forceinline__ void avg_pool2d(size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,
                                           const size_t *__restrict__ info, const T *__restrict__ src,
                                           T *__restrict__ dst) {
    Layout<4> s(info);
    size_t out_h = (s.dims[2] - h_k) / h_stride + 1, out_w = (s.dims[3] - w_k) / w_stride + 1;
    auto add = [&](auto &sum, const T *from, size_t y, size_t x) INLINED {
        for (size_t m = 0; m < h_k; m++)
            for (size_t n = 0; n < w_k; n++)
                sum += upcast(from[(y * h_stride + m) * s.strides[2] + (x * w_stride + n) * s.strides[3]]);
    };
    if constexpr (is_float<T>::value) {
        compute_t<T> scale = upcast(convert<T>(1.0 / (double)(h_k * w_k)));
        for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) {
            compute_t<T> sum = 0;
            add(sum, from, y, x);
            return round_to<T>((compute_t<T>)(sum * scale));
        });
    } else {
        int64_t area = (int64_t)(h_k * w_k);
        for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) {
            int64_t sum = 0;
            add(sum, from, y, x);
            return (T)(sum / area);
        });
    }
}

// The largest of each window; a NaN counts only where it comes first.
template <class T>
__device__ __forceinline__ void max_pool2d(size_t h_k, size_t w_k, size_t h_stride, size_t w_stride,
                                           const size_t *__restrict__ info, const T *__restrict__ src,
                                           T *__restrict__ dst) {
    Layout<4> s(info);
    size_t out_h = (s.dims[2] - h_k) / h_stride + 1, out_w = (s.dims[3] - w_k) / w_stride + 1;
    for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) {
        const T *window = from + y * h_stride * s.strides[2] + x * w_stride * s.strides[3];
        compute_t<T> largest = upcast(window[0]);
        for (size_t m = 0; m < h_k; m++)
            for (size_t n = 0; n < w_k; n++) {
                compute_t<T> value = upcast(window[m * s.strides[2] + n * s.strides[3]]);
                largest = largest < value ? value : largest;
            }
        return round_to<T>(largest);
    });
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

template <class T>
__device__ __forceinline__ void upsample_nearest2d(size_t out_h, size_t out_w, double h_scale, double w_scale,
                                                   const size_t *__restrict__ info, const T *__restrict__ src,
                                                   T *__restrict__ dst) {
    Layout<4> s(info);
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

// One axis of a bilinear interpolation: two neighbours and the weight of the second.
struct Neighbours {
    size_t first, second;
    double weight;
    __device__ __forceinline__ Neighbours(size_t at, double scale, bool align_corners, size_t size) {
        double place = align_corners ? scale * (double)at : scale * ((double)at + 0.5) - 0.5;
        place = math::fmax(place, 0.0);
        first = min_of((size_t)place, size - 1);
        second = min_of(first + 1, size - 1);
        weight = math::fmin(place - (double)first, 1.0);
    }
    // Input places per output place.
    static __device__ __forceinline__ double scale(size_t in, size_t out, bool align_corners, bool given,
                                                   double factor) {
        if (align_corners) return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0.0;
        return given ? 1.0 / factor : (double)in / (double)out;
    }
};

// Computed in f64 and rounded once, as on the CPU.
template <class T>
__device__ __forceinline__ void upsample_bilinear2d(size_t out_h, size_t out_w, bool align_corners, bool h_given,
                                                    double h_factor, bool w_given, double w_factor,
                                                    const size_t *__restrict__ info, const T *__restrict__ src,
                                                    T *__restrict__ dst) {
    Layout<4> s(info);
    double h_scale = Neighbours::scale(s.dims[2], out_h, align_corners, h_given, h_factor);
    double w_scale = Neighbours::scale(s.dims[3], out_w, align_corners, w_given, w_factor);
    for_each_output(out_h, out_w, s, src, dst, [&](const T *from, size_t y, size_t x) {
        Neighbours h(y, h_scale, align_corners, s.dims[2]), w(x, w_scale, align_corners, s.dims[3]);
        auto at = [&](size_t sy, size_t sx) {
            return convert<double>(from[sy * s.strides[2] + sx * s.strides[3]]);
        };
        double top = at(h.first, w.first) * (1.0 - w.weight) + at(h.first, w.second) * w.weight;
        double bottom = at(h.second, w.first) * (1.0 - w.weight) + at(h.second, w.second) * w.weight;
        return convert<T>(top * (1.0 - h.weight) + bottom * h.weight);
    });
}
