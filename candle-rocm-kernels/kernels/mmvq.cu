// Products of quantised matrices with up to eight vectors in q8_1.
#include "quants.cuh"
