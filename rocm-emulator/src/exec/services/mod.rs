//! What the host does for a kernel: `printf` and `assert` in both forms that the compiler has, and the memory that a
//! barrier of a whole grid counts in.
//!
//! The hidden arguments of a kernel name these buffers (LLVM's AMDGPUUsage, "Kernel Argument Metadata"). They are made
//! for each launch of a kernel that asks for them.

mod buffer;
mod grid_sync;
mod hostcall;
mod output;
mod printf;
mod printf_buffer;

use crate::codeobject::{ArgKind, Kernel, PrintfFormats};
use crate::fault::FaultKind;
use crate::memory::Memory;

use buffer::Buffer;
use hostcall::Hostcalls;
use output::Sink;
pub use output::{Output, PrintStream};
use printf_buffer::PrintfBuffer;

/// What a launch says about its services.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Formats of the code object's buffered `printf`s.
    pub formats: Option<&'a PrintfFormats>,
    /// Where text goes, if not to the process's output.
    pub output: Option<&'a Output<'a>>,
    /// Workgroups and work-items of a cooperative launch.
    pub cooperative: Option<(u64, u64)>,
    /// Wavefronts that may run at once.
    pub wavefronts: u64,
}

/// The services of one launch.
pub(crate) struct Services<'a> {
    sink: Sink<'a>,
    hostcalls: Option<Hostcalls<'a>>,
    printf: Option<PrintfBuffer<'a>>,
    grid_sync: Option<Buffer<'a>>,
    /// What the grid's barriers are given instead of memory where the GPU counts itself.
    counts_itself: bool,
}

impl<'a> Services<'a> {
    /// Make what the kernel asks for.
    ///
    /// # Errors
    /// The device's memory has no room for it.
    pub fn new(
        memory: &'a Memory,
        kernel: &Kernel,
        wanted: Wanted<'a>,
    ) -> Result<Services<'a>, FaultKind> {
        let asks = |kind: ArgKind| kernel.args.iter().any(|arg| arg.kind == kind);
        let cooperative = wanted
            .cooperative
            .filter(|_| asks(ArgKind::HiddenMultigridSyncArg));
        let counts_itself = cooperative.is_some() && grid_sync::counts_itself(kernel.target);
        Ok(Services {
            sink: Sink::new(wanted.output),
            hostcalls: asks(ArgKind::HiddenHostcallBuffer)
                .then(|| Hostcalls::new(memory, wanted.wavefronts))
                .transpose()?,
            printf: asks(ArgKind::HiddenPrintfBuffer)
                .then(|| PrintfBuffer::new(memory, wanted.formats))
                .transpose()?,
            grid_sync: cooperative
                .filter(|_| !counts_itself)
                .map(|(workgroups, items)| grid_sync::new(memory, workgroups, items))
                .transpose()?,
            counts_itself,
        })
    }

    /// The value of a hidden argument that is a service's.
    pub fn argument(&self, kind: ArgKind) -> Option<u64> {
        match kind {
            ArgKind::HiddenHostcallBuffer => self.hostcalls.as_ref().map(Hostcalls::address),
            ArgKind::HiddenPrintfBuffer => self.printf.as_ref().map(PrintfBuffer::address),
            ArgKind::HiddenMultigridSyncArg if self.counts_itself => Some(1),
            ArgKind::HiddenMultigridSyncArg => self.grid_sync.as_ref().map(Buffer::address),
            _ => None,
        }
    }

    /// Do what wavefronts ask for now; tells whether there was anything.
    ///
    /// # Errors
    /// What is asked for is no service of the emulator's.
    pub fn serve(&self) -> Result<bool, FaultKind> {
        match &self.hostcalls {
            Some(hostcalls) => hostcalls.serve(&self.sink),
            None => Ok(false),
        }
    }

    /// The kernel has ended, well or not: print what it left.
    pub fn finish(&self) {
        if let Some(printf) = &self.printf {
            printf.print(&self.sink);
        }
        self.sink.flush();
    }
}
