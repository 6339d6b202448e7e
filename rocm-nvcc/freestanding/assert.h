// assert(), whose function `candle_rocm/memory.h` defines.
#pragma once
extern "C" __attribute__((device)) void __assert_fail(const char *, const char *, unsigned int, const char *) noexcept;
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __assert_fail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
