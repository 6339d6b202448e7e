//! Launching kernels with their arguments.

use std::ffi::c_void;

use candle_rocm_kernels::geometry::{Geometry, Gpu, Grid, Row};

use super::function::SplitFunction;
use super::module::Function;
use super::split_rows::SplitLaunch;
use super::submit::give_to_stream;
use crate::base::cuda_names::CUevent_flags;
use crate::base::dtype::DeviceRepr;
use crate::base::error::{Error, Result};
use crate::base::inline_list::InlineList;
use crate::memory::buffer::DeviceBuffer;
use crate::memory::view::{View, ViewMut};
use crate::pool::known_parameters::KnownParameters;
use crate::stream::event::{Event, UseMark};
use crate::stream::queue::Stream;

pub use super::submit::LaunchConfig;

/// A launch in the making: arguments are added with [`PushKernelArg::arg`], in the kernel's order.
#[derive(Debug)]
pub struct LaunchArgs<'a> {
    stream: &'a Stream,
    function: &'a Function,
    // Inline for what Candle's kernels take: an operator allocates nothing on the host.
    waits: InlineList<&'a UseMark, 8>,
    records: InlineList<&'a UseMark, 8>,
    args: InlineList<*mut c_void, 24>,
    flags: Option<CUevent_flags>,
}

impl Stream {
    /// Begins a launch of `function` on this stream.
    pub fn launch_builder<'a>(&'a self, function: &'a Function) -> LaunchArgs<'a> {
        LaunchArgs {
            stream: self,
            function,
            waits: InlineList::new(),
            records: InlineList::new(),
            args: InlineList::new(),
            flags: None,
        }
    }
}

/// Adds an argument of type `T` to a launch.
///
/// # Safety
/// An implementation pushes the address of a value that lives as long as the launch and is laid out as
/// the kernel's parameter.
pub unsafe trait PushKernelArg<T> {
    /// Adds the argument.
    fn arg(&mut self, arg: T) -> &mut Self;
}

// SAFETY: `DeviceRepr` says that the value is laid out alike on the device; the borrow keeps it alive.
unsafe impl<'a, 'b: 'a, T: DeviceRepr> PushKernelArg<&'b T> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b T) -> &mut Self {
        self.args.push(std::ptr::from_ref(arg).cast_mut().cast());
        self
    }
}

macro_rules! push_memory {
    ($([$($generics:tt)*] $type:ty, $how:ident $(, $note:ident)?;)*) => {
        $(
            // SAFETY: the parameter is an address, and what is pushed is where it is kept, in a value
            // that the borrow keeps alive.
            unsafe impl<'a, 'b: 'a, $($generics)*> PushKernelArg<$type> for LaunchArgs<'a> {
                #[inline(always)]
                fn arg(&mut self, arg: $type) -> &mut Self {
                    self.$how(&arg.read, &arg.write);
                    $(self.$note(arg.parameters.as_ref());)?
                    self.args.push(std::ptr::from_ref(&arg.ptr).cast_mut().cast());
                    self
                }
            }
        )*
    };
}
push_memory! {
    [T] &'b DeviceBuffer<T>, reads, pass;
    [T] &'b mut DeviceBuffer<T>, writes, expose;
    ['c: 'b, T] &'b View<'c, T>, reads;
    ['c: 'b, T] &'b mut ViewMut<'c, T>, writes;
}

impl<'a> LaunchArgs<'a> {
    fn reads(&mut self, read: &'a Option<UseMark>, write: &'a Option<UseMark>) {
        self.waits.extend(write);
        self.records.extend(read);
    }

    /// Parameters for the kernel to read: ours write none, of others nobody knows.
    #[inline]
    fn pass(&self, parameters: Option<&KnownParameters>) {
        if !self.function.is_embedded() {
            self.expose(parameters);
        }
    }

    #[inline]
    fn expose(&self, parameters: Option<&KnownParameters>) {
        if let Some(parameters) = parameters {
            parameters.expose();
        }
    }

    fn writes(&mut self, read: &'a Option<UseMark>, write: &'a Option<UseMark>) {
        self.waits.extend(read);
        self.waits.extend(write);
        self.records.extend(write);
    }

    /// Makes the launch return events recorded before and after the kernel.
    pub fn record_kernel_launch(&mut self, flags: CUevent_flags) -> &mut Self {
        self.flags = Some(flags);
        self
    }

    /// Gives the launch to the stream.
    ///
    /// # Safety
    /// The arguments are those of the kernel, in number, order and type, and the kernel stays within the
    /// memory it is given and writes only what was passed mutably.
    ///
    /// # Errors
    /// The geometry exceeds a limit of the device or of the kernel; HIP refuses; or, on the emulator,
    /// the kernel faults. Each names the kernel.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<Option<(Event, Event)>> {
        // SAFETY: the caller's promise.
        unsafe { self.submit(config, false) }
    }

    /// Gives a cooperative launch to the stream: all workgroups run at once and may wait for each other.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`].
    pub unsafe fn launch_cooperative(
        &mut self,
        config: LaunchConfig,
    ) -> Result<Option<(Event, Event)>> {
        // SAFETY: the caller's promise.
        unsafe { self.submit(config, true) }
    }

    unsafe fn submit(
        &mut self,
        config: LaunchConfig,
        cooperative: bool,
    ) -> Result<Option<(Event, Event)>> {
        self.stream.enter()?;
        if self.stream.context().is_managing_stream_synchronization() {
            for mark in self.waits.as_slice() {
                mark.wait(self.stream)?;
            }
        }
        let start = self.event()?;
        // Launching no workgroups is an error in HIP; for Candle it is an empty tensor.
        if !config.is_empty() {
            config.check(self.function)?;
            let pair = match &self.function.loaded.split {
                // SAFETY: the caller's promise.
                Some(split) if !cooperative => unsafe { self.launch_pair(split, config) },
                _ => None,
            };
            match pair {
                Some(launched) => launched?,
                None => {
                    let (kernel, config) = (&self.function.loaded, self.chosen_grid(config));
                    config.check_workgroup(self.function)?;
                    let arguments = self.args.as_mut_ptr();
                    // SAFETY: the caller's promise; our kernels compute the same on the chosen grid.
                    unsafe { give_to_stream(self.stream, kernel, config, arguments, cooperative) }?;
                }
            }
        }
        let end = self.event()?;
        if self.stream.context().notes_given_work() {
            for mark in self.records.as_slice() {
                mark.record(self.stream)?;
            }
        }
        Ok(start.zip(end))
    }

    /// The pair of kernels that replaces this one, launched, if rows are few and long.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`].
    #[inline(never)]
    unsafe fn launch_pair(&self, split: &SplitFunction, asked: LaunchConfig) -> Option<Result<()>> {
        let kernel = &self.function.loaded;
        let rows = kernel.geometry.rows(grid_of(asked))?;
        let launch = SplitLaunch::of(rows, self.row(), self.gpu().compute_units)?;
        // SAFETY: the caller's promise.
        let launched = unsafe { split.launch(self.stream, launch, self.args.as_slice()) };
        Some(launched.map_err(|error| {
            let what = "whose few long rows are shared by several workgroups";
            error.context(format_args!("kernel `{}`, {what}", kernel.name))
        }))
    }

    /// The grid of the kernel's own [`Geometry`] instead of the one asked for.
    fn chosen_grid(&self, asked: LaunchConfig) -> LaunchConfig {
        let geometry = self.function.loaded.geometry;
        if geometry == Geometry::AsAsked {
            return asked;
        }
        let grid = geometry.plan(grid_of(asked), self.row(), self.gpu());
        LaunchConfig {
            grid_dim: grid.workgroups.into(),
            block_dim: grid.threads.into(),
            ..asked
        }
    }

    fn gpu(&self) -> Gpu {
        Gpu {
            compute_units: self.function.device().info().compute_units,
            largest_workgroup: self.function.largest_workgroup(),
        }
    }

    /// What the kernel's geometry depends on.
    fn row(&self) -> Row {
        let kernel = &self.function.loaded;
        let length = kernel.geometry.length_argument();
        let length = length.and_then(|index| self.args.as_slice().get(index));
        Row {
            // SAFETY: each argument points to a live value of the kernel's own type, here of four bytes or more.
            elements: length.map_or(0, |value| unsafe { value.cast::<u32>().read() }.into()),
            element_bytes: kernel.element_bytes,
        }
    }

    fn event(&self) -> Result<Option<Event>> {
        self.flags
            .map(|flags| self.stream.record_event(Some(flags)))
            .transpose()
    }
}

/// Gives a kernel to the stream whose arguments are known by their addresses alone, as C has them.
///
/// # Safety
/// `arguments` point to live values, the kernel's in number, order and type; the rest is as for [`LaunchArgs::launch`].
///
/// # Errors
/// As [`LaunchArgs::launch`], and a grid without workgroups, which CUDA refuses, too.
pub(crate) unsafe fn launch_by_address(
    stream: &Stream,
    function: &Function,
    config: LaunchConfig,
    arguments: *mut *mut c_void,
    cooperative: bool,
) -> Result<()> {
    stream.enter()?;
    if config.is_empty() {
        return Err(Error::invalid(format!(
            "kernel `{}` on a grid without workgroups: {:?}",
            function.name(),
            config.grid_dim
        )));
    }
    config.check(function)?;
    let mut known = stream.launch_builder(function);
    let geometry = function.loaded.geometry;
    for index in 0..geometry.length_argument().map_or(0, |last| last + 1) {
        // SAFETY: the kernel has so many, and the caller's array all of them.
        known.args.push(unsafe { *arguments.add(index) });
    }
    let config = known.chosen_grid(config);
    config.check_workgroup(function)?;
    // SAFETY: the caller's promise; our kernels compute the same on the chosen grid.
    unsafe { give_to_stream(stream, &function.loaded, config, arguments, cooperative) }
}

fn grid_of(config: LaunchConfig) -> Grid {
    Grid {
        workgroups: config.grid_dim.into(),
        threads: config.block_dim.into(),
    }
}
