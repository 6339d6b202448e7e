//! Candle on AMD GPUs: RocmDevice, RocmStorage, Device::new_rocm.
