// CUDA's language and runtime, as device code sees them. Every file gets it, included or not, as from nvcc.
#pragma once
#include "candle_rocm/atomics.h"
#include "candle_rocm/intrinsics.h"
#include "candle_rocm/runtime_api.h"
#include "candle_rocm/standard.h"
#include "candle_rocm/ptx.h"
