// Copies are in `candle_rocm/memory.h`.
#pragma once
#include <stddef.h>
