//! Device memory as the driver gives it and takes it.

use super::statistics::PoolStatistics;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::table::HipTable;
use crate::device::gpu::Device;
use crate::runtime::machine::word_on_shared_memory;

/// The driver's memory of one GPU.
pub(super) struct Driver {
    hip: &'static HipTable,
    ordinal: usize,
    total_memory: usize,
    /// What a user of a GPU without memory of its own should know.
    word: Option<String>,
}

impl Driver {
    pub fn of(device: &Device) -> Self {
        Self {
            hip: device.hip(),
            ordinal: device.ordinal(),
            total_memory: device.info().total_memory,
            word: word_on_shared_memory(&device.info().arch, device.info().total_memory),
        }
    }

    /// The GPU is made current on this thread.
    pub fn allocate(&self, bytes: usize) -> Result<u64> {
        let mut ptr = std::ptr::null_mut();
        self.hip.select(self.ordinal)?;
        self.hip.relaxed(|| {
            // SAFETY: `ptr` is writable.
            let status = unsafe { (self.hip.hipMalloc)(&mut ptr, bytes) };
            self.hip.check(status, || {
                format!("allocating {bytes} bytes of device memory")
            })
        })?;
        Ok(ptr as u64)
    }

    /// Waits for the work that may use the memory.
    pub fn free(&self, ptr: u64) -> Result<()> {
        // The thread that drops a buffer may be one that never used the GPU.
        self.hip.select(self.ordinal)?;
        self.hip.relaxed(|| {
            // SAFETY: the address came from `hipMalloc` and is given back once.
            let status = unsafe { (self.hip.hipFree)(ptr as *mut _) };
            self.hip
                .check(status, || format!("freeing device memory at {ptr:#x}"))
        })
    }

    /// The error for a request that fits nowhere, with what this process has and what the driver has left.
    pub fn out_of_memory(&self, bytes: usize, pool: PoolStatistics) -> Error {
        let (mut free, mut total) = (0, self.total_memory);
        // SAFETY: both outputs are writable. A failure leaves what is known already.
        unsafe { (self.hip.hipMemGetInfo)(&mut free, &mut total) };
        let word = self.word.iter().map(|word| format!(". {word}"));
        let word: String = word.collect();
        Error::new(
            ErrorKind::OutOfMemory,
            format!(
                "out of device memory on GPU {}: {bytes} bytes asked for; this process has {pool}; the driver \
                 reports {free} bytes free of {total}; drop tensors that are not needed, or use smaller batches or a \
                 narrower dtype{word}",
                self.ordinal
            ),
        )
    }
}
