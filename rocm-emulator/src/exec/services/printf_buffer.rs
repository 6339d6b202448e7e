//! The buffered form of `printf` (`-mprintf-kind=buffered`): wavefronts append messages to a buffer, which is printed
//! when the kernel has ended.
//!
//! The buffer begins with two dwords, the bytes used and the bytes that there are. A message begins with a dword: bit 0
//! the stream (1: standard error), bit 1 whether the format is constant, then the message's bytes, this dword included.
//! A constant format is named by the low half of its MD5, and stands in the code object's metadata; another one is in
//! the message. LLVM's `AMDGPUEmitPrintf` writes this, and `__printf_alloc` of ROCm's device library takes the room.

use super::buffer::Buffer;
use super::output::{PrintStream, Sink};
use super::printf;
use crate::codeobject::PrintfFormats;
use crate::fault::FaultKind;
use crate::memory::Memory;

/// Bytes of the buffer, as in AMD's runtime.
const BYTES: u64 = 4 << 20;
/// Bytes before the messages.
const HEADER: u64 = 8;

/// A launch's buffer.
pub(super) struct PrintfBuffer<'a> {
    buffer: Buffer<'a>,
    formats: Option<&'a PrintfFormats>,
}

impl<'a> PrintfBuffer<'a> {
    pub fn new(
        memory: &'a Memory,
        formats: Option<&'a PrintfFormats>,
    ) -> Result<PrintfBuffer<'a>, FaultKind> {
        let buffer = Buffer::new(memory, BYTES)?;
        buffer.put(0, &[(BYTES - HEADER) << 32]);
        Ok(PrintfBuffer { buffer, formats })
    }

    pub fn address(&self) -> u64 {
        self.buffer.address()
    }

    /// Print the messages.
    pub fn print(&self, sink: &Sink) {
        let used = self.buffer.get(0, 4);
        let used = u64::from(dword(&used)).min(BYTES - HEADER) as usize;
        let messages = self.buffer.get(HEADER, used);
        let mut rest = messages.as_slice();
        while rest.len() >= 4 {
            let control = dword(rest);
            let bytes = (control >> 2) as usize;
            // A message that the kernel did not write to its end.
            let Some(body) = rest.get(4..bytes) else {
                break;
            };
            let to = match control & 1 {
                0 => PrintStream::Out,
                _ => PrintStream::Err,
            };
            let text = match control & 2 {
                0 => printf::text(body),
                _ => self.constant(body),
            };
            sink.print(to, &text);
            rest = &rest[bytes..];
        }
    }

    /// The text of a message whose format is named by its hash.
    fn constant(&self, body: &[u8]) -> Vec<u8> {
        let hash = body.first_chunk().copied().map(u64::from_le_bytes);
        let format = hash.and_then(|hash| self.formats?.get(&hash));
        let Some(format) = format else {
            return b"(printf with a format that is not in the code object)\n".to_vec();
        };
        let mut message = format.clone().into_bytes();
        message.resize((message.len() + 1).next_multiple_of(8), 0);
        message.extend(&body[8..]);
        printf::text(&message)
    }
}

fn dword(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
}
