// A part of CUDA's language, all of which cuda_runtime.h brings.
#pragma once
#include "cuda_runtime.h"
