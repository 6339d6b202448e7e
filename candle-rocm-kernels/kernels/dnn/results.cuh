// Where elements of strided tensors are, and how a layer's result is written.
#pragma once
#include "dnn/problem.cuh"
#include "matmul/main_loop/wave_tile.cuh"

// Offsets in both tensors.
struct DnnOffset {
    int64_t x, y;
};

// Adds what the element's number means along a direction; returns what is left of the number.
__device__ __forceinline__ uint32_t add_direction(DnnOffset &at, uint32_t number, const DnnDirection &of) {
    auto [rest, place] = divided(number, of.count);
    at.x += (int64_t)place * of.x;
    at.y += (int64_t)place * of.y;
    return rest;
}
__device__ __forceinline__ DnnOffset offset_of(uint32_t number, const DnnDirection &d0, const DnnDirection &d1,
                                               const DnnDirection &d2, const DnnDirection &d3) {
    DnnOffset at = {0, 0};
    number = add_direction(at, number, d0);
    if (number == 0) return at;
    number = add_direction(at, number, d1);
    number = add_direction(at, number, d2);
    at.x += (int64_t)number * d3.x;
    at.y += (int64_t)number * d3.y;
    return at;
}
__device__ __forceinline__ DnnOffset kept_offset(const DnnProblem &p, uint32_t number) {
    return offset_of(number, p.kept_0, p.kept_1, p.kept_2, p.kept_3);
}
__device__ __forceinline__ DnnOffset reduced_offset(const DnnProblem &p, uint32_t number) {
    return offset_of(number, p.reduced_0, p.reduced_1, p.reduced_2, p.reduced_3);
}

template <class T> __device__ __forceinline__ void blend(T *to, compute_t<T> value, double alpha, double beta) {
    using C = compute_t<T>;
    C scaled = (C)alpha * value;
    *to = round_to<T>(beta == 0 ? scaled : math::fma((C)beta, upcast(*to), scaled));
}
