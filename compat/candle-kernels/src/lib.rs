//! Candle's kernel modules, compiled for AMD GPUs: patch it in to run Candle on AMD GPUs.
