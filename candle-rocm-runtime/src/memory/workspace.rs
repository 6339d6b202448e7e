//! Memory that kernels of one operation leave each other something in.

use crate::base::error::Result;
use crate::stream::queue::Stream;

/// Memory of the stream's that lasts until the work given so far is done.
#[derive(Debug)]
pub struct Workspace<'a> {
    stream: &'a Stream,
    address: u64,
}

impl<'a> Workspace<'a> {
    /// So many bytes of unknown content, at a multiple of 256.
    ///
    /// # Errors
    /// The device has not the memory.
    pub fn new(stream: &'a Stream, bytes: u64) -> Result<Self> {
        let address = match bytes {
            0 => 0,
            bytes => {
                stream.note_use()?;
                let pool = stream.context().device().pool();
                pool.allocate(bytes as usize, stream.key())?
            }
        };
        Ok(Self { stream, address })
    }

    /// Its address on the device; 0 if it has no bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Gives it back in the stream's order, which is after all that it was given.
    ///
    /// # Errors
    /// The stream does not take it back.
    pub fn free(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        match std::mem::take(&mut self.address) {
            0 => Ok(()),
            address => {
                let pool = self.stream.context().device().pool();
                pool.free(address, self.stream.key())
            }
        }
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(self.give_back());
    }
}
