// Types of the driver's functions of tensor maps, which cudaGetDriverEntryPoint finds none of.
#pragma once
#include "cuda.h"

typedef CUresult (*PFN_cuTensorMapEncodeTiled_v12000)(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                                      void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                                      const cuuint32_t *box, const cuuint32_t *element_strides,
                                                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                                      CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
typedef CUresult (*PFN_cuTensorMapEncodeIm2col_v12000)(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                                       void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                                       const int *lower, const int *upper, cuuint32_t channels,
                                                       cuuint32_t pixels, const cuuint32_t *element_strides,
                                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                                       CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill);
typedef PFN_cuTensorMapEncodeTiled_v12000 PFN_cuTensorMapEncodeTiled;
typedef PFN_cuTensorMapEncodeIm2col_v12000 PFN_cuTensorMapEncodeIm2col;
