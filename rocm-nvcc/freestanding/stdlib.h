// abs() is among mathematics, which every file has.
#pragma once
#include <stddef.h>
