//! Giving a kernel to a stream on a grid.

use std::ffi::c_void;

use super::function::LoadedFunction;
use super::module::Function;
use crate::base::enqueued;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::calls::optional;
use crate::base::inline_list::InlineList;
use crate::profile::{self, Work};
use crate::stream::queue::Stream;

/// The geometry of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// Workgroups in x, y, z. A grid without workgroups does nothing.
    pub grid_dim: (u32, u32, u32),
    /// Work-items of a workgroup in x, y, z.
    pub block_dim: (u32, u32, u32),
    /// LDS bytes beside those that the kernel has of its own.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// At least `n` work-items, in workgroups of 1024, as Candle's elementwise kernels expect.
    pub fn for_num_elems(n: u32) -> Self {
        const THREADS: u32 = 1024;
        Self {
            grid_dim: (n.div_ceil(THREADS), 1, 1),
            block_dim: (THREADS, 1, 1),
            shared_mem_bytes: 0,
        }
    }

    /// The reason why this device cannot run `function` on this very grid, if there is one.
    pub(super) fn check(&self, function: &Function) -> Result<()> {
        self.check_workgroup(function)?;
        let info = function.device().info();
        let block = [self.block_dim.0, self.block_dim.1, self.block_dim.2];
        let grid = [self.grid_dim.0, self.grid_dim.1, self.grid_dim.2];
        let refuse = |reason: String| Err(self.refusal(function, reason));
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if grid[axis] > info.max_grid_dim[axis] {
                return refuse(format!(
                    "{} allows {} workgroups in {name}",
                    info.arch, info.max_grid_dim[axis]
                ));
            }
            // The packet that starts a grid counts work-items, in 32 bits.
            if u64::from(grid[axis]) * u64::from(block[axis]) > u64::from(u32::MAX) {
                return refuse(format!("a grid has at most 2^32 - 1 work-items in {name}"));
            }
        }
        let lds = u64::from(function.static_lds_bytes()) + u64::from(self.shared_mem_bytes);
        if lds > u64::from(info.max_lds_bytes) {
            return refuse(format!(
                "it would need {lds} bytes of LDS ({} of its own), and {} has {} for a workgroup",
                function.static_lds_bytes(),
                info.arch,
                info.max_lds_bytes
            ));
        }
        let most = function.largest_workgroup();
        if block.into_iter().product::<u32>() > most {
            return refuse(format!(
                "it was compiled for workgroups of at most {most} work-items"
            ));
        }
        Ok(())
    }

    /// The reason why this device has no such workgroups, if there is one.
    pub(super) fn check_workgroup(&self, function: &Function) -> Result<()> {
        let info = function.device().info();
        let block = [self.block_dim.0, self.block_dim.1, self.block_dim.2];
        let refuse = |reason: String| Err(self.refusal(function, reason));
        if block.contains(&0) {
            return refuse("a workgroup needs at least one work-item in each dimension".to_owned());
        }
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if block[axis] > info.max_block_dim[axis] {
                return refuse(format!(
                    "{} allows {} work-items in {name}",
                    info.arch, info.max_block_dim[axis]
                ));
            }
        }
        let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
        if threads > u64::from(info.max_threads_per_block) {
            return refuse(format!(
                "{} allows workgroups of {} work-items",
                info.arch, info.max_threads_per_block
            ));
        }
        Ok(())
    }

    pub(super) fn refusal(&self, function: &Function, reason: String) -> Error {
        Error::new(
            ErrorKind::LaunchLimit,
            format!(
                "kernel `{}` cannot be launched with {}: {reason}",
                function.name(),
                self.describe()
            ),
        )
    }

    fn describe(&self) -> String {
        let ((gx, gy, gz), (bx, by, bz)) = (self.grid_dim, self.block_dim);
        format!(
            "grid ({gx}, {gy}, {gz}), workgroup ({bx}, {by}, {bz}), {} bytes of dynamic LDS",
            self.shared_mem_bytes
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.grid_dim.0 == 0 || self.grid_dim.1 == 0 || self.grid_dim.2 == 0
    }
}

/// Gives a kernel that is none of ours to the stream, once its geometry is checked. A grid without workgroups does nothing.
///
/// # Safety
/// `arguments` point to live values, the kernel's in number, order and type, and the rest is as for
/// [`LaunchArgs::launch`](super::launch::LaunchArgs::launch).
pub(crate) unsafe fn submit(
    stream: &Stream,
    function: &Function,
    config: LaunchConfig,
    arguments: *mut *mut c_void,
    cooperative: bool,
) -> Result<()> {
    stream.enter()?;
    if config.is_empty() {
        return Ok(());
    }
    config.check(function)?;
    // SAFETY: the caller's promise.
    unsafe { give_to_stream(stream, &function.loaded, config, arguments, cooperative) }
}

/// Gives a kernel to the stream, on this very grid.
///
/// # Safety
/// `arguments` point to live values, the kernel's in number, order and type, and the rest is as for
/// [`LaunchArgs::launch`](super::launch::LaunchArgs::launch).
#[inline]
pub(super) unsafe fn give_to_stream(
    stream: &Stream,
    kernel: &LoadedFunction,
    config: LaunchConfig,
    arguments: *mut *mut c_void,
    cooperative: bool,
) -> Result<()> {
    let hip = stream.context().device().hip();
    let mut all = InlineList::<*mut c_void, 16>::new();
    let arguments = match &kernel.last_argument {
        None => arguments,
        Some(last) => {
            // SAFETY: the caller passes so many, as the kernels' contract has it.
            all.extend((0..last.given).map(|number| unsafe { *arguments.add(number) }));
            all.push(std::ptr::from_ref(&last.value).cast_mut().cast());
            all.as_mut_ptr()
        }
    };
    let ((gx, gy, gz), (bx, by, bz)) = (config.grid_dim, config.block_dim);
    let (lds, raw) = (config.shared_mem_bytes, stream.raw());
    enqueued::note(|noted| noted.kernels.push(kernel.name.clone()));
    let _span = tracing::trace_span!("launch", kernel = kernel.name, ?config.grid_dim, ?config.block_dim, lds).entered();
    let work = || Work::Kernel {
        name: &kernel.name,
        workgroups: config.grid_dim,
        threads: config.block_dim,
    };
    let status = if cooperative {
        let launch = optional!(hip, hipModuleLaunchCooperativeKernel)?;
        // SAFETY: the function is loaded; each argument points to a live value; the rest is the
        // caller's promise.
        let give = || unsafe { launch(kernel.raw, gx, gy, gz, bx, by, bz, lds, raw, arguments) };
        profile::timed(stream, work, give)
    } else {
        let none = std::ptr::null_mut();
        // SAFETY: as above.
        let give = || unsafe {
            (hip.hipModuleLaunchKernel)(
                kernel.raw, gx, gy, gz, bx, by, bz, lds, raw, arguments, none,
            )
        };
        profile::timed(stream, work, give)
    };
    hip.check(status, || {
        format!(
            "launching kernel `{}` with {}",
            kernel.name,
            config.describe()
        )
    })
}
