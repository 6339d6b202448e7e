//! HIP runtimes, devices, streams, memory pool, modules, GEMM dispatch and random numbers for candle-rocm.
