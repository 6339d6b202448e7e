// A part of cub.cuh here.
#pragma once
#include "cub/cub.cuh"
