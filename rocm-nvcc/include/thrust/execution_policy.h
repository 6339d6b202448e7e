// On which stream thrust's algorithms run.
#pragma once
#include "cuda_runtime.h"

namespace thrust {
namespace cuda {
struct execution_policy {
    cudaStream_t stream = 0;
    execution_policy on(cudaStream_t other) const { return {other}; }
};
static constexpr execution_policy par{};
static constexpr execution_policy par_nosync{};
} // namespace cuda
} // namespace thrust
