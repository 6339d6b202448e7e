//! Where the text of kernels goes.

use std::sync::atomic::{AtomicBool, Ordering};

/// The stream that a kernel prints to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintStream {
    /// `printf`.
    Out,
    /// `assert`.
    Err,
}

/// Receives the text of kernels, a piece at a time.
pub type Output<'a> = dyn Fn(PrintStream, &[u8]) + Sync + 'a;

extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// The launch's output: the one asked for, or the streams of C, as AMD's runtime has it, so that text of kernels and of
/// the program comes in the order in which it was printed.
pub(super) struct Sink<'a> {
    output: Option<&'a Output<'a>>,
    printed: AtomicBool,
}

impl<'a> Sink<'a> {
    pub fn new(output: Option<&'a Output<'a>>) -> Sink<'a> {
        Sink {
            output,
            printed: AtomicBool::new(false),
        }
    }

    pub fn print(&self, to: PrintStream, text: &[u8]) {
        if let Some(output) = self.output {
            return output(to, text);
        }
        self.printed.store(true, Ordering::Relaxed);
        // SAFETY: the streams of C are open from the program's start; a program that closes them may not print.
        unsafe {
            let stream = match to {
                PrintStream::Out => stdout,
                PrintStream::Err => stderr,
            };
            libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream);
        }
    }

    /// Let out what C's streams hold back.
    pub fn flush(&self) {
        if self.printed.load(Ordering::Relaxed) {
            // SAFETY: as above.
            unsafe { libc::fflush(stdout) };
        }
    }
}
