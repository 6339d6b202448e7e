// A kernel's one argument read anew, where it is seldom needed: what a loop does not need in most turns shall not be in
// scalar registers all along, of which there are too few. A kernel that is compiled for the constants of a shape
// (KNOWN, matmul/grouped.cuh) takes them from there instead.
#pragma once
#include "portable/portable.cuh"

#if defined(__HIP__) && !defined(KNOWN)
template <class Problem> using ColdPath = const __attribute__((address_space(4))) Problem;
template <class Problem> __device__ __forceinline__ ColdPath<Problem> &cold_path(const Problem &) {
    auto *problem = (ColdPath<Problem> *)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(problem));
    return *problem;
}
#else
template <class Problem> using ColdPath = const Problem;
template <class Problem> __device__ __forceinline__ ColdPath<Problem> &cold_path(const Problem &problem) {
    return problem;
}
#endif
