//! Launches that were checked once, of which arguments alone change.

use std::ffi::c_void;
use std::sync::Arc;

use candle_rocm_kernels::launch_heuristics::LaunchHeuristic;
use candle_rocm_kernels::Module;

use super::module::Function;
use super::submit::{give_to_stream, LaunchConfig};
use crate::base::dtype::DeviceRepr;
use crate::base::error::{Error, Result};
use crate::stream::context::Context;
use crate::stream::queue::Stream;

/// The addresses of arguments, for [`ReadyLaunch::launch`].
macro_rules! addresses_of {
    ($($argument:expr),* $(,)?) => {
        [$(::std::ptr::from_ref(&$argument).cast_mut().cast::<::std::ffi::c_void>()),*]
    };
}
pub(crate) use addresses_of;

/// A kernel of an embedded module and the grid that it is launched on, both found once.
#[derive(Clone, Debug)]
pub struct ReadyLaunch {
    function: Function,
    config: LaunchConfig,
}

impl ReadyLaunch {
    /// A launch of a kernel on this very grid.
    ///
    /// # Errors
    /// The grid exceeds a limit of the device or of the kernel, or is not the kernel's own choice to make: rows, elements.
    pub fn new(function: Function, config: LaunchConfig) -> Result<Self> {
        let loaded = &function.loaded;
        if loaded.heuristic != LaunchHeuristic::AsAsked || loaded.instead.is_some() {
            return Err(Error::invalid(format!(
                "kernel `{}` is launched on grids of its own",
                function.name()
            )));
        }
        config.check(&function)?;
        Ok(Self { function, config })
    }

    /// [`ReadyLaunch::new`] of a kernel by name.
    ///
    /// # Errors
    /// Likewise; the module is not embedded for this device, or an error is waiting.
    pub fn of(
        context: &Arc<Context>,
        module: &Module,
        kernel: &str,
        config: LaunchConfig,
    ) -> Result<Self> {
        Self::new(context.kernel(module, kernel)?, config)
    }

    /// The kernel.
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The grid.
    pub fn config(&self) -> LaunchConfig {
        self.config
    }

    /// The same kernel on another grid.
    ///
    /// # Errors
    /// As [`ReadyLaunch::new`].
    pub fn with_config(&self, config: LaunchConfig) -> Result<Self> {
        match config == self.config {
            true => Ok(self.clone()),
            false => Self::new(self.function.clone(), config),
        }
    }

    /// Gives it to the stream, which is of the kernel's GPU, with the addresses of its arguments. A grid without workgroups does
    /// nothing.
    ///
    /// # Safety
    /// Each address is that of a live value, the kernel's in number, order and type, and the kernel stays within the memory that
    /// these name.
    ///
    /// # Errors
    /// HIP refuses; an error is waiting; or, on the emulator, the kernel faults. Each names the kernel.
    #[inline]
    pub unsafe fn launch(&self, stream: &Stream, arguments: &mut [*mut c_void]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.give(stream, self.config, arguments) }
    }

    /// [`ReadyLaunch::launch`] of a kernel that goes on in steps of its grid: on no more than so many workgroups, which are
    /// enough.
    ///
    /// # Safety
    /// As [`ReadyLaunch::launch`].
    ///
    /// # Errors
    /// As [`ReadyLaunch::launch`].
    #[inline]
    pub unsafe fn launch_smaller(
        &self,
        stream: &Stream,
        workgroups: u64,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let mut config = self.config;
        config.grid_dim.0 = workgroups.min(config.grid_dim.0.into()) as u32;
        // SAFETY: the caller's promise, and fewer workgroups than were checked.
        unsafe { self.give(stream, config, arguments) }
    }

    /// [`ReadyLaunch::launch`] of a kernel of one argument.
    ///
    /// # Safety
    /// As [`ReadyLaunch::launch`].
    ///
    /// # Errors
    /// As [`ReadyLaunch::launch`].
    #[inline]
    pub unsafe fn launch_with(&self, stream: &Stream, argument: &impl DeviceRepr) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(stream, &mut addresses_of![*argument]) }
    }

    /// # Safety
    /// As [`ReadyLaunch::launch`], on a grid of which this device can run as many workgroups.
    #[inline]
    unsafe fn give(
        &self,
        stream: &Stream,
        config: LaunchConfig,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        stream.enter()?;
        if config.is_empty() {
            return Ok(());
        }
        let (kernel, arguments) = (&self.function.loaded, arguments.as_mut_ptr());
        // SAFETY: the caller's promise, and a grid that was checked.
        unsafe { give_to_stream(stream, kernel, config, arguments, false) }
    }
}
