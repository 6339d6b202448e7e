//! Candle on AMD GPUs: RocmDevice, RocmStorage, Device::new_rocm.
pub use candle_core::{CudaDevice as RocmDevice, CudaStorage as RocmStorage};
