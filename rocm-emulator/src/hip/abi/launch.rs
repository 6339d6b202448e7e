//! Kernel launches.

use std::cell::RefCell;
use std::sync::Arc;

use super::prelude::*;
use crate::hip::event::EVENTS;
use crate::hip::launch::{Geometry, KernelLaunch};
use crate::hip::module::{Function, FUNCTIONS};
use crate::hip::operation::Operation;
use crate::hip::registry::Registry;
use crate::hip::state::{runtime, Runtime};
use crate::hip::stream::Stream;
use crate::trouble;

/// A launch whose arguments are checked and copied.
struct Prepared {
    stream: Arc<Stream>,
    launch: KernelLaunch,
}

impl Prepared {
    fn new(
        runtime: &Runtime,
        function: (u64, Arc<Function>),
        geometry: Geometry,
        stream: hipStream_t,
        arguments: Arguments,
        cooperative: bool,
    ) -> Result<Prepared> {
        let stream = runtime.stream(stream)?;
        let Arguments { parameters, extra } = arguments;
        let launch = KernelLaunch::new(function, geometry, parameters, extra, cooperative)?;
        if launch.device() != stream.device {
            return Err(HipError::new(
                Code::InvalidContext,
                format!(
                    "kernel loaded on device {} launched in a stream of device {}",
                    launch.device(),
                    stream.device
                ),
            ));
        }
        Ok(Prepared { stream, launch })
    }

    fn submit(self, runtime: &Runtime) -> Result {
        let operation = Operation::Kernel(Arc::new(self.launch));
        self.stream.submit(runtime, operation)
    }

    /// The same between two events, either of which may be null.
    fn submit_between(self, runtime: &Runtime, start: hipEvent_t, stop: hipEvent_t) -> Result {
        let event = |event: hipEvent_t| match event.is_null() {
            true => Ok(None),
            false => EVENTS.get(event).map(Some),
        };
        let (start, stop) = (event(start)?, event(stop)?);
        let stream = self.stream.clone();
        if let Some(start) = start {
            stream.record(runtime, &start)?;
        }
        self.submit(runtime)?;
        stop.map_or(Ok(()), |stop| stream.record(runtime, &stop))
    }
}

/// Arguments of a launch: a pointer for each, or one buffer in `extra`.
#[derive(Clone, Copy)]
struct Arguments {
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl Arguments {
    fn pointers(parameters: *mut *mut c_void) -> Arguments {
        Arguments {
            parameters,
            extra: std::ptr::null_mut(),
        }
    }
}

/// A function by its handle.
fn by_handle(function: hipFunction_t) -> Result<(u64, Arc<Function>)> {
    Ok((function as u64, FUNCTIONS.get(function)?))
}

/// The function of a stub, on the stream's device.
fn by_stub(
    runtime: &Runtime,
    stub: *const c_void,
    stream: hipStream_t,
) -> Result<(u64, Arc<Function>)> {
    let device = &runtime.devices[runtime.stream(stream)?.device];
    let (_, function) = Registry::get().function(device, stub)?;
    Ok((stub as u64, function))
}

fn geometry(grid: dim3, block: dim3, dynamic_lds: usize) -> Geometry {
    Geometry {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        dynamic_lds: dynamic_lds as u64,
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipModuleLaunchKernel(
    function: hipFunction_t,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: hipStream_t,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result {
    let runtime = runtime()?;
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_lds: dynamic_lds.into(),
    };
    let arguments = Arguments { parameters, extra };
    let function = by_handle(function)?;
    Prepared::new(runtime, function, geometry, stream, arguments, false)?.submit(runtime)
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipModuleLaunchCooperativeKernel(
    function: hipFunction_t,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: c_uint,
    stream: hipStream_t,
    parameters: *mut *mut c_void,
) -> Result {
    let runtime = runtime()?;
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_lds: dynamic_lds.into(),
    };
    let arguments = Arguments::pointers(parameters);
    let function = by_handle(function)?;
    Prepared::new(runtime, function, geometry, stream, arguments, true)?.submit(runtime)
}

/// Work-items along a dimension that make whole workgroups: the emulator has no smaller last ones.
fn whole_workgroups(items: [c_uint; 3], block: [c_uint; 3]) -> Result<[c_uint; 3]> {
    let mut grid = [0; 3];
    for (axis, count) in grid.iter_mut().enumerate() {
        let whole = items[axis].checked_rem(block[axis]) == Some(0);
        if !whole {
            return Err(HipError::new(
                Code::InvalidConfiguration,
                format!("{items:?} work-items are no whole number of blocks {block:?}"),
            ));
        }
        *count = items[axis] / block[axis];
    }
    Ok(grid)
}

/// `hipExtAnyOrderLaunch`, the one flag that there is.
const EXT_FLAGS: c_uint = 1;

fn check_ext_flags(flags: c_uint) -> Result {
    match flags & !EXT_FLAGS {
        0 => Ok(()),
        _ => Err(HipError::new(
            Code::InvalidValue,
            format!("launch flags {flags:#x}"),
        )),
    }
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipExtModuleLaunchKernel(
    function: hipFunction_t,
    items_x: c_uint,
    items_y: c_uint,
    items_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    dynamic_lds: usize,
    stream: hipStream_t,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
    start: hipEvent_t,
    stop: hipEvent_t,
    flags: c_uint,
) -> Result {
    let runtime = runtime()?;
    check_ext_flags(flags)?;
    let block = [block_x, block_y, block_z];
    let geometry = Geometry {
        grid: whole_workgroups([items_x, items_y, items_z], block)?,
        block,
        dynamic_lds: dynamic_lds as u64,
    };
    let arguments = Arguments { parameters, extra };
    let function = by_handle(function)?;
    Prepared::new(runtime, function, geometry, stream, arguments, false)?
        .submit_between(runtime, start, stop)
}

pub unsafe fn hipLaunchKernel(
    function: *const c_void,
    grid: dim3,
    block: dim3,
    parameters: *mut *mut c_void,
    dynamic_lds: usize,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    let geometry = geometry(grid, block, dynamic_lds);
    let arguments = Arguments::pointers(parameters);
    let prepared = by_stub(runtime, function, stream)
        .and_then(|function| Prepared::new(runtime, function, geometry, stream, arguments, false));
    // `<<<...>>>` drops the status: what is refused before it runs would go unseen.
    if let Err(error) = &prepared {
        trouble::say(format_args!("launch refused: {error}"));
    }
    prepared?.submit(runtime)
}

pub unsafe fn hipLaunchCooperativeKernel(
    function: *const c_void,
    grid: dim3,
    block: dim3,
    parameters: *mut *mut c_void,
    dynamic_lds: c_uint,
    stream: hipStream_t,
) -> Result {
    let runtime = runtime()?;
    let geometry = geometry(grid, block, dynamic_lds as usize);
    let arguments = Arguments::pointers(parameters);
    let function = by_stub(runtime, function, stream)?;
    Prepared::new(runtime, function, geometry, stream, arguments, true)?.submit(runtime)
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn hipExtLaunchKernel(
    function: *const c_void,
    grid: dim3,
    block: dim3,
    parameters: *mut *mut c_void,
    dynamic_lds: usize,
    stream: hipStream_t,
    start: hipEvent_t,
    stop: hipEvent_t,
    flags: c_int,
) -> Result {
    let runtime = runtime()?;
    check_ext_flags(flags as c_uint)?;
    let geometry = geometry(grid, block, dynamic_lds);
    let arguments = Arguments::pointers(parameters);
    let function = by_stub(runtime, function, stream)?;
    Prepared::new(runtime, function, geometry, stream, arguments, false)?
        .submit_between(runtime, start, stop)
}

/// What `<<<...>>>` pushes and the kernel's stub pops.
#[derive(Clone, Copy)]
struct CallConfiguration {
    grid: dim3,
    block: dim3,
    dynamic_lds: usize,
    stream: hipStream_t,
}

thread_local! {
    static CALLS: RefCell<Vec<CallConfiguration>> = const { RefCell::new(Vec::new()) };
}

pub unsafe fn __hipPushCallConfiguration(
    grid: dim3,
    block: dim3,
    dynamic_lds: usize,
    stream: hipStream_t,
) -> Result {
    let call = CallConfiguration {
        grid,
        block,
        dynamic_lds,
        stream,
    };
    CALLS.with_borrow_mut(|calls| calls.push(call));
    Ok(())
}

pub unsafe fn __hipPopCallConfiguration(
    grid: *mut dim3,
    block: *mut dim3,
    dynamic_lds: *mut usize,
    stream: *mut hipStream_t,
) -> Result {
    let call = CALLS
        .with_borrow_mut(Vec::pop)
        .ok_or(Code::MissingConfiguration)?;
    // SAFETY: the stub's promise.
    unsafe {
        out(grid, call.grid)?;
        out(block, call.block)?;
        out(dynamic_lds, call.dynamic_lds)?;
        out(stream, call.stream)
    }
}
