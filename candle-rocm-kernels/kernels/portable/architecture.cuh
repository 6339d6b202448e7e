// The architecture that a file is compiled for, by the name that its kernels are listed under. Those of AMD have the
// names of `rocm_gpus::Architecture`; RDNA3.5 runs RDNA3's kernels.
#pragma once
#include "portable/portable.cuh"

#if !defined(__HIP__)
#define ARCHITECTURE Nvidia
#elif !defined(AMD_MFMA)
#if defined(__GFX9__)
#define ARCHITECTURE Vega20
#elif defined(__GFX10__)
#define ARCHITECTURE Rdna2
#elif defined(__GFX11__)
#define ARCHITECTURE Rdna3
#else
#define ARCHITECTURE Rdna4
#endif
#elif AMD_MFMA == 1
#define ARCHITECTURE Cdna1
#elif AMD_MFMA == 2
#define ARCHITECTURE Cdna2
#elif AMD_MFMA == 3
#define ARCHITECTURE Cdna3
#else
#define ARCHITECTURE Cdna4
#endif

// A family's list for it: MATMUL_KERNELS_Rdna3 of MATMUL_KERNELS.
#define LISTED(FAMILY) LISTED_OF(FAMILY, ARCHITECTURE)
#define LISTED_OF(FAMILY, NAME) LISTED_AS(FAMILY, NAME)
#define LISTED_AS(FAMILY, NAME) FAMILY##_##NAME
