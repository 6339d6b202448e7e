// Where a thread stands: threadIdx, blockIdx, blockDim, gridDim, warpSize.
#pragma once
#include "candle_rocm/vectors.h"

namespace candle_rocm {
// The hidden arguments of code object version 5: numbers of workgroups are u32 at 0, their sizes u16 at 12.
typedef const __attribute__((address_space(4))) uint32_t *HiddenArguments;
__device__ __forceinline__ uint32_t grid_size(int axis) {
    return ((HiddenArguments)__builtin_amdgcn_implicitarg_ptr())[axis];
}
__device__ __forceinline__ uint32_t group_size(int axis) {
    // Two at a time: not every scalar unit loads 16 bits.
    uint32_t two = ((HiddenArguments)__builtin_amdgcn_implicitarg_ptr())[3 + axis / 2];
    return axis % 2 == 0 ? two & 0xffff : two >> 16;
}
} // namespace candle_rocm

#define CANDLE_ROCM_INDEX(TYPE, NAME, X, Y, Z)                                            \
    namespace candle_rocm {                                                               \
    struct TYPE {                                                                         \
        __declspec(property(get = get_x)) unsigned int x;                                 \
        __declspec(property(get = get_y)) unsigned int y;                                 \
        __declspec(property(get = get_z)) unsigned int z;                                 \
        static __device__ __forceinline__ unsigned int get_x() { return X; }              \
        static __device__ __forceinline__ unsigned int get_y() { return Y; }              \
        static __device__ __forceinline__ unsigned int get_z() { return Z; }              \
        __device__ __forceinline__ operator dim3() const { return dim3(x, y, z); }        \
        __device__ __forceinline__ operator uint3() const { return make_uint3(x, y, z); } \
    };                                                                                    \
    }                                                                                     \
    static constexpr candle_rocm::TYPE NAME{};

CANDLE_ROCM_INDEX(ThreadIndex, threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                  __builtin_amdgcn_workitem_id_z())
CANDLE_ROCM_INDEX(BlockIndex, blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                  __builtin_amdgcn_workgroup_id_z())
CANDLE_ROCM_INDEX(BlockSize, blockDim, candle_rocm::group_size(0), candle_rocm::group_size(1),
                  candle_rocm::group_size(2))
CANDLE_ROCM_INDEX(GridSize, gridDim, candle_rocm::grid_size(0), candle_rocm::grid_size(1), candle_rocm::grid_size(2))
#undef CANDLE_ROCM_INDEX

static constexpr int warpSize = 32;
