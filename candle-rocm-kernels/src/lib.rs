//! Candle's GPU kernels for AMD, compiled to HSACO code objects and embedded.
