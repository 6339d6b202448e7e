// Products of tokens with their experts' matrices.
#include "quants.cuh"
