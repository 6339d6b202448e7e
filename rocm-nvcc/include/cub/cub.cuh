// All that is here of cub, and the small floats that come with it.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cub/block.cuh"
#include "cub/block_io.cuh"
#include "cub/device.cuh"
#include "cub/radix_sort.cuh"
