//! Device memory that the host and a kernel share for one launch.

use crate::fault::FaultKind;
use crate::memory::{AllocationKind, Memory};

/// Device memory that lives as long as the launch.
pub(super) struct Buffer<'a> {
    memory: &'a Memory,
    address: u64,
}

impl<'a> Buffer<'a> {
    /// Zeroed.
    ///
    /// # Errors
    /// The device has no room.
    pub fn new(memory: &'a Memory, bytes: u64) -> Result<Buffer<'a>, FaultKind> {
        let address = memory
            .allocate(bytes, AllocationKind::Kernarg)
            .map_err(|error| FaultKind::NoRoom(error.to_string()))?;
        Ok(Buffer { memory, address })
    }

    /// Its first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Write words of 64 bits. They are inside, as the caller has made the buffer for them.
    pub fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // A reset of the device frees the buffer with everything else; then there is nothing to write to.
        let _ = self.memory.write(self.address + at, &bytes);
    }

    /// Read bytes from inside; zeroes after a reset.
    pub fn get(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let _ = self.memory.read(self.address + at, &mut read);
        read
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // A reset may have freed it.
        let _ = self.memory.free(self.address);
    }
}
