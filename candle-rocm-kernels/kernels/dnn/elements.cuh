// Layers of which a work-item makes a result: functions of elements, and windows.
#pragma once
#include "dnn/results.cuh"
#include "portable/activations.cuh"

// cudnnActivationMode_t.
enum DnnActivation {
    DNN_SIGMOID,
    DNN_RELU,
    DNN_TANH,
    DNN_CLIPPED_RELU,
    DNN_ELU,
    DNN_IDENTITY,
    DNN_SWISH,
};

// max(x, 0); of a NaN 0, or itself.
template <class C> __device__ __forceinline__ C positive(C x, bool propagates_nan) {
    return propagates_nan && x != x ? x : math::fmax(x, (C)0);
}

template <class T>
__device__ __forceinline__ compute_t<T> dnn_activated(compute_t<T> x, uint32_t mode, bool propagates_nan,
                                                      compute_t<T> coefficient) {
    using C = compute_t<T>;
    switch (mode) {
    case DNN_SIGMOID: return logistic<T>(x);
    case DNN_RELU: return positive(x, propagates_nan);
    case DNN_TANH: return math::tanh(x);
    case DNN_CLIPPED_RELU: {
        C y = positive(x, propagates_nan);
        return y > coefficient ? coefficient : y;
    }
    case DNN_ELU: return x > (C)0 || x != x ? x : coefficient * (math::exp(x) - (C)1);
    case DNN_SWISH: return x * logistic<T>(coefficient * x);
    default: return x;
    }
}

// Grid: any number of workgroups.
template <class T> __device__ __forceinline__ void dnn_activation(const DnnProblem &p) {
    using C = compute_t<T>;
    for (size_t i = global_thread(); i < p.results; i += global_threads()) {
        DnnOffset at = kept_offset(p, (uint32_t)i);
        C x = upcast(((const T *)p.x)[at.x]);
        blend((T *)p.y + at.y, dnn_activated<T>(x, p.mode, p.propagates_nan, (C)p.coefficient), p.alpha, p.beta);
    }
}

// cudnnPoolingMode_t.
enum DnnPoolingMode {
    DNN_POOL_MAX,
    DNN_POOL_AVERAGE_OF_WINDOW,
    DNN_POOL_AVERAGE_OF_INPUTS,
    DNN_POOL_MAX_DETERMINISTIC,
};

// The part of a window that is inside the tensor.
struct DnnWindow {
    int32_t begin, end;
    __device__ __forceinline__ DnnWindow(const DnnAxis &axis, uint32_t output) {
        int32_t first = (int32_t)output * axis.stride - axis.padding;
        begin = max_of(first, 0);
        end = min_of(first + axis.window, axis.size);
    }
    __device__ __forceinline__ int32_t inputs() const { return max_of(end - begin, 0); }
};

template <class T>
__device__ __forceinline__ compute_t<T> dnn_pooled(const DnnPooling &p, const T *from, const DnnWindow &of_z,
                                                   const DnnWindow &of_y, const DnnWindow &of_x) {
    using C = compute_t<T>;
    bool is_max = p.mode == DNN_POOL_MAX || p.mode == DNN_POOL_MAX_DETERMINISTIC, has_nan = false;
    C largest = -(C)INFINITY, sum = 0;
    for (int32_t z = of_z.begin; z < of_z.end; z++)
        for (int32_t y = of_y.begin; y < of_y.end; y++)
            for (int32_t x = of_x.begin; x < of_x.end; x++) {
                C value = upcast(from[z * p.axis_z.x + y * p.axis_y.x + x * p.axis_x.x]);
                has_nan = has_nan || value != value;
                largest = math::fmax(largest, value);
                sum += value;
            }
    if (is_max) return has_nan && p.propagates_nan ? (C)NAN : largest;
    int64_t inputs = (int64_t)of_z.inputs() * of_y.inputs() * of_x.inputs();
    int64_t window = (int64_t)p.axis_z.window * p.axis_y.window * p.axis_x.window;
    int64_t count = p.mode == DNN_POOL_AVERAGE_OF_WINDOW ? window : max_of(inputs, (int64_t)1);
    return sum / (C)count;
}

// Grid: any number of workgroups.
template <class T> __device__ __forceinline__ void dnn_pooling(const DnnPooling &p) {
    for (size_t i = global_thread(); i < p.results; i += global_threads()) {
        DnnOffset at = {0, 0};
        uint32_t rest = (uint32_t)i;
        if (p.channels_last) rest = add_direction(at, rest, p.channels);
        auto [after_x, x] = divided(rest, p.axis_x.outputs);
        auto [after_y, y] = divided(after_x, p.axis_y.outputs);
        auto [after_z, z] = divided(after_y, p.axis_z.outputs);
        if (!p.channels_last) after_z = add_direction(at, after_z, p.channels);
        add_direction(at, after_z, p.images);
        at.y += z * p.axis_z.y + y * p.axis_y.y + x * p.axis_x.y;
        compute_t<T> value = dnn_pooled(p, (const T *)p.x + at.x, DnnWindow(p.axis_z, z), DnnWindow(p.axis_y, y),
                                        DnnWindow(p.axis_x, x));
        blend((T *)p.y + at.y, value, p.alpha, p.beta);
    }
}
