// Products of quantised matrices with matrices in q8_1.
#include "quants.cuh"
