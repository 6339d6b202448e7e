// Operands' element types by the names that kernels' names spell: element_bf16.
#pragma once
#include "portable/convert.cuh"

#define NAMED(NAME, TYPE) using element_##NAME = TYPE;
FOR_FLOATS(NAMED)
#undef NAMED
using element_i8 = int8_t;
