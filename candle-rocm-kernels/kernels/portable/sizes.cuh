// One element type of each size: X(name in kernels' names, type). Kernels that move elements without reading their
// values stand in their module for these alone. Their file lists them as MOVES(X), by their names without types.
#pragma once

#define FOR_SIZES(X) X(u8, uint8_t) X(i16, int16_t) X(u32, uint32_t) X(i64, int64_t)
