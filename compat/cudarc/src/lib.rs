//! The part of cudarc's API that Candle uses, on HIP: patch it in to run Candle on AMD GPUs.
