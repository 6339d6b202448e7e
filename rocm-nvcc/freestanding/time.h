// clock() is in `candle_rocm/intrinsics.h`.
#pragma once
typedef long clock_t;
