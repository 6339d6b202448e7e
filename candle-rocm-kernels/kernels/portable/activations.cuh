// Activation functions of a number in its compute type, and their derivatives.
#pragma once
#include "portable/convert.cuh"

// 1 / (1 + e^-x) of a number that came from a T. The sum is not below one, which suits the hardware's reciprocal; and
// where the result is no small fraction of one, x is so small that the small floats can do with its exponential.
template <class T, class C> __device__ __forceinline__ C logistic(C x) {
    if constexpr (sizeof(C) == 8) return 1.0 / (1.0 + math::exp(-x));
    else if constexpr (sizeof(T) == 4) return math::fast_recip(1.0f + math::exp(-x));
    else return math::fast_recip(1.0f + math::fast_exp2(x * -1.44269504088896340736f));
}

// Where the derivatives below have long been constant. Beyond it infinities would meet zeros. A NaN becomes a number.
template <class C> __device__ __forceinline__ C bounded(C x, C bound) {
    return math::fmax(math::fmin(x, bound), -bound);
}

// Each has the function, `of`, and its derivative at x, `slope`.
struct Identity {
    template <class T, class C> static __device__ __forceinline__ C of(C x) { return x; }
};
struct ReluFunction {
    // A NaN gives 0, as Rust's max.
    template <class T, class C> static __device__ __forceinline__ C of(C x) { return math::fmax(x, (C)0); }
    template <class T, class C> static __device__ __forceinline__ C slope(C x) { return x > (C)0 ? (C)1 : (C)0; }
};
struct SiluFunction {
    template <class T, class C> static __device__ __forceinline__ C of(C x) { return x * logistic<T>(x); }
    template <class T, class C> static __device__ __forceinline__ C slope(C x) {
        C z = bounded(x, (C)800), s = logistic<T>(z);
        return x != x ? x : s * math::fma(z, (C)1 - s, (C)1);
    }
};
// The tanh form, with Candle's sqrt(2 / pi): (1 + tanh(u)) / 2 is the logistic function of 2u.
struct GeluFunction {
    template <class T, class C> static __device__ __forceinline__ C of(C x) {
        return x * logistic<T>((C)1.5957691216057307117 * x * ((C)1 + (C)0.044715 * x * x));
    }
    template <class T, class C> static __device__ __forceinline__ C slope(C x) {
        C z = bounded(x, (C)30), square = z * z;
        C s = logistic<T>((C)1.5957691216057307117 * z * ((C)1 + (C)0.044715 * square));
        C inner = (C)1.5957691216057307117 * ((C)1 + (C)0.134145 * square);
        return x != x ? x : s * math::fma(z * inner, (C)1 - s, (C)1);
    }
};
struct GeluErfFunction {
    template <class T, class C> static __device__ __forceinline__ C of(C x) {
        return (math::erf(x * (C)0.70710678118654752440) + (C)1) * (C)0.5 * x;
    }
    template <class T, class C> static __device__ __forceinline__ C slope(C x) {
        C z = bounded(x, (C)40);
        C below = (math::erf(z * (C)0.70710678118654752440) + (C)1) * (C)0.5;
        return x != x ? x : math::fma(z * (C)0.39894228040143267794, math::exp((C)-0.5 * z * z), below);
    }
};

// X(name in kernels' names, function, number in a MatmulProblem, what follows X). Of these all but `none` have a slope;
// products have those with numbers below 4. The build makes `candle_rocm_kernels::activations` of this list.
#define FOR_CURVES(X, ...)                \
    X(relu, ReluFunction, 4, __VA_ARGS__) \
    X(silu, SiluFunction, 3, __VA_ARGS__) \
    X(gelu, GeluFunction, 2, __VA_ARGS__) \
    X(gelu_erf, GeluErfFunction, 1, __VA_ARGS__)
#define FOR_ACTIVATIONS(X, ...) X(none, Identity, 0, __VA_ARGS__) FOR_CURVES(X, __VA_ARGS__)
