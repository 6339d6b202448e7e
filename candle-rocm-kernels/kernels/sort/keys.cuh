// Keys of elements: unsigned integers of the elements' own size, whose order is that of the elements.
#pragma once
#include "portable/portable.cuh"

// The LDS of rows that fit a workgroup.
extern __shared__ char sort_lds[] __attribute__((aligned(16)));

// What elements are, as bits of a number that the host gives (radix_sort.rs); none of them: unsigned integers.
constexpr uint32_t SORT_SIGNED = 1, SORT_FLOATS = 2, SORT_DESCENDING = 4;

// The keys of elements whose bits are a U. A NaN is the largest element, whatever its sign, and -0 equals 0.
template <class U> class SortKeys {
    static constexpr U SIGN = (U)((U)1 << (8 * sizeof(U) - 1)), ALL = (U) ~(U)0;
    uint32_t order;
    U infinity;

    __device__ __forceinline__ U flip() const { return order & SORT_DESCENDING ? ALL : (U)0; }

public:
    // `infinity` has the bits of the largest float that is a number.
    __device__ __forceinline__ SortKeys(uint32_t order, uint64_t infinity) : order(order), infinity((U)infinity) {}

    __device__ __forceinline__ U of(U bits) const {
        if (order & SORT_FLOATS) {
            U magnitude = (U)(bits & (U)~SIGN);
            U key = (U)(magnitude == 0 ? SIGN : bits & SIGN ? ~bits : bits | SIGN);
            bits = magnitude > infinity ? ALL : key;
        } else if (order & SORT_SIGNED) {
            bits = (U)(bits ^ SIGN);
        }
        return (U)(bits ^ flip());
    }

    // Whether a key says which element it was made of: those of zeros and NaNs do not.
    __device__ __forceinline__ bool is_exact(U key) const {
        key = (U)(key ^ flip());
        return !(order & SORT_FLOATS) || (key != SIGN && key != ALL);
    }
    // The element of a key that is exact.
    __device__ __forceinline__ U element(U key) const {
        key = (U)(key ^ flip());
        if (order & SORT_FLOATS) return (U)(key & SIGN ? key ^ SIGN : ~key);
        return (U)(order & SORT_SIGNED ? key ^ SIGN : key);
    }
};
