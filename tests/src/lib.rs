//! Integration tests of candle-rocm.
