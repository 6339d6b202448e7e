//! Launching kernels with their arguments.

use std::ffi::c_void;

use candle_rocm_kernels::launch_heuristics::{
    Gpu, Grid, LaunchHeuristic, Parameter, Row, Told, MOST_COUNTED,
};

use super::function::Instead;
use super::module::Function;
use super::radix_sort;
use super::split_rows::SplitLaunch;
use super::submit::give_to_stream;
use crate::base::cuda_names::CUevent_flags;
use crate::base::dtype::DeviceRepr;
use crate::base::error::{Error, Result};
use crate::base::inline_list::InlineList;
use crate::convolution::transposed;
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
    /// Elements of the longest buffer among the arguments.
    longest: u64,
    /// Parameters on the device whose words are known.
    known: Option<&'a KnownParameters>,
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
            longest: 0,
            known: None,
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
                    self.longest = self.longest.max(arg.len as u64);
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
    fn pass(&mut self, parameters: Option<&'a KnownParameters>) {
        if !self.function.is_embedded() {
            self.expose(parameters);
        } else if parameters.is_some() {
            self.known = parameters;
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
        // SAFETY: the caller's promise.
        unsafe { self.give(config, cooperative) }?;
        let end = self.event()?;
        if self.stream.context().notes_given_work() {
            for mark in self.records.as_slice() {
                mark.record(self.stream)?;
            }
        }
        Ok(start.zip(end))
    }

    /// Gives the kernel, or what replaces it, to the stream.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`].
    #[inline]
    unsafe fn give(&mut self, asked: LaunchConfig, cooperative: bool) -> Result<()> {
        let kernel = &self.function.loaded;
        let told = self.told();
        let grid = self.meant(asked, told)?;
        // Launching no workgroups is an error in HIP; for Candle it is an empty tensor.
        if grid.is_empty() {
            return Ok(());
        }
        asked.check_workgroup(self.function)?;
        if let (Some(instead), false) = (&kernel.instead, cooperative) {
            // SAFETY: the caller's promise.
            if let Some(launched) = unsafe { self.replace(instead, grid, told) } {
                return launched;
            }
        }
        let config = self.chosen(asked, grid, told);
        config.check(self.function)?;
        let arguments = self.args.as_mut_ptr();
        // SAFETY: the caller's promise; our kernels compute the same on the chosen grid.
        unsafe { give_to_stream(self.stream, kernel, config, arguments, cooperative) }
    }

    /// The grid that Candle, which counts in 32 bits, meant to ask for.
    fn meant(&self, asked: LaunchConfig, told: Told) -> Result<Grid> {
        let grid = grid_of(asked);
        if !self.function.is_embedded() {
            // Of other people's kernels nothing is known but their buffers. CUDA refuses every empty grid.
            return if grid.is_empty() && told.longest > MOST_COUNTED {
                let count = told.longest;
                let reason = format!("a buffer has {count} elements, which 32 bits do not count");
                Err(asked.refusal(self.function, reason))
            } else {
                Ok(grid)
            };
        }
        let meant = self.function.loaded.heuristic.meant(grid, told);
        meant.map_err(|reason| asked.refusal(self.function, reason))
    }

    /// What replaces this kernel, launched, if something does on this grid.
    ///
    /// # Safety
    /// As [`LaunchArgs::launch`].
    #[inline(never)]
    unsafe fn replace(&self, instead: &Instead, grid: Grid, told: Told) -> Option<Result<()>> {
        let kernel = &self.function.loaded;
        let (stream, given) = (self.stream, self.args.as_slice());
        let (launched, what) = match instead {
            Instead::Split(split) => {
                let rows = kernel.heuristic.rows(grid)?;
                let launch =
                    SplitLaunch::of(split, rows, self.row(told), self.gpu().compute_units)?;
                // SAFETY: the caller's promise.
                let launched = unsafe { split.launch(stream, launch, given) };
                (
                    launched,
                    "whose few long rows are shared by several workgroups",
                )
            }
            Instead::Sort(sort) => {
                // SAFETY: the caller's promise.
                let launched = unsafe {
                    radix_sort::replace(sort, stream, grid.workgroups[0], told.row, given)
                };
                (launched, "whose rows are sorted by their digits")
            }
            Instead::Transposed(of) => {
                let known = self.known?.words()?;
                // SAFETY: the caller's promise; the words are those that the kernel would read.
                let launched = unsafe { transposed::replace(of, stream, known.words(), given) }?;
                (launched, "which is the gradient of a convolution")
            }
        };
        Some(
            launched
                .map_err(|error| error.context(format_args!("kernel `{}`, {what}", kernel.name))),
        )
    }

    /// The grid of the kernel's own [`LaunchHeuristic`] instead of the one asked for.
    fn chosen(&self, asked: LaunchConfig, grid: Grid, told: Told) -> LaunchConfig {
        let heuristic = self.function.loaded.heuristic;
        if heuristic == LaunchHeuristic::AsAsked {
            return asked;
        }
        let grid = heuristic.plan(grid, self.row(told), self.gpu());
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

    /// What the arguments say.
    fn told(&self) -> Told {
        self.told_by(|number| self.args.as_slice().get(number).copied())
    }

    /// What the arguments say whose addresses `argument` gives.
    fn told_by(&self, argument: impl Fn(usize) -> Option<*mut c_void>) -> Told {
        let heuristic = self.function.loaded.heuristic;
        heuristic.told(self.longest, |Parameter { number, bytes }| {
            let Some(value) = argument(number) else {
                return 0;
            };
            match bytes {
                // SAFETY: each argument points to a live value of the kernel's own type, here of eight bytes.
                8 => unsafe { value.cast::<u64>().read() },
                // SAFETY: each argument points to a live value of the kernel's own type, here of four bytes.
                _ => unsafe { value.cast::<u32>().read() }.into(),
            }
        })
    }

    fn row(&self, told: Told) -> Row {
        Row {
            elements: told.row,
            element_bytes: self.function.loaded.element_bytes,
            strided: told.strided,
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
    let known = stream.launch_builder(function);
    // SAFETY: the kernel has the parameters that its geometry reads, and the caller's array an address for each.
    let told = known.told_by(|number| Some(unsafe { *arguments.add(number) }));
    let grid = known.meant(config, told)?;
    if grid.is_empty() {
        return Err(Error::invalid(format!(
            "kernel `{}` on a grid without workgroups: {:?}",
            function.name(),
            config.grid_dim
        )));
    }
    config.check_workgroup(function)?;
    let config = known.chosen(config, grid, told);
    config.check(function)?;
    // SAFETY: the caller's promise; our kernels compute the same on the chosen grid.
    unsafe { give_to_stream(stream, &function.loaded, config, arguments, cooperative) }
}

fn grid_of(config: LaunchConfig) -> Grid {
    Grid {
        workgroups: config.grid_dim.into(),
        threads: config.block_dim.into(),
    }
}
