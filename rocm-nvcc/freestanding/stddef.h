// Types of sizes.
#pragma once
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
namespace std {
using ::ptrdiff_t;
using ::size_t;
typedef decltype(nullptr) nullptr_t;
} // namespace std
#define NULL __null
#define offsetof(TYPE, MEMBER) __builtin_offsetof(TYPE, MEMBER)
