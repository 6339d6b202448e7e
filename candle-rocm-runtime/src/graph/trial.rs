//! A graph beside the kernels that it is made of.
//!
//! HIP is called by its handles: neither a user's stream nor the pool, the profile or the counts of launches have a part
//! in it.

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use candle_rocm_kernels::{Module, BINARY, FILL};

use crate::base::error::Result;
use crate::base::hip::calls::optional;
use crate::base::hip::table::HipTable;
use crate::base::hip::types::*;
use crate::device::gpu::Device;
use crate::kernels::module::{embedded, Function};
use crate::kernels::ready::addresses_of;

/// Kernels of the graph: as many as the step of a model.
pub(super) const KERNELS: usize = 200;
/// Elements of the input and of what the kernels hand on, of four bytes.
const ELEMENTS: usize = 1024;
const BYTES: usize = ELEMENTS * 4;
const THREADS: u32 = 256;
/// What the input is set to, the first when the graph is made. Products with odd numbers lose no bit.
const INPUTS: [u32; 5] = [3, 0x0001_0001, 7, 0x7fff_ffff, 11];
/// What the kernels begin with.
const SEED: u32 = 0x9e37_79b9;

/// What is wrong with a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// It read what its input held before.
    Stale,
    /// Its numbers are those of no input.
    Garbage,
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Symptom::Stale => {
                "read what its input had held before it was set, as ROCm/hip 3887 and 3902 report of 7.2"
            }
            Symptom::Garbage => {
                "computed other numbers than its kernels by themselves, as ROCm/clr 279 reports of 7.2.0 to 7.2.3"
            }
        };
        write!(f, "a graph of {KERNELS} kernels {what}")
    }
}

/// What a graph does, by what sets its input.
pub(super) struct Outcome {
    /// A kernel, as models' steps do.
    pub by_kernels: Option<Symptom>,
    /// A copy from the host.
    pub by_copies: Option<Symptom>,
}

/// Launches the kernels one by one and as a graph, on a stream of their own.
///
/// # Errors
/// HIP refuses a call, or a kernel fails.
pub(super) fn run(device: &Arc<Device>) -> Result<Outcome> {
    device.bind()?;
    // Another thread may be capturing.
    device.hip().relaxed(|| Trial::new(device)?.run())
}

/// The kernels, and what is destroyed in the end.
struct Trial {
    hip: &'static HipTable,
    set: Function,
    add: Function,
    multiply: Function,
    stream: hipStream_t,
    /// The input, and two places that kernels read and write in turn.
    memory: *mut c_void,
    graph: hipGraph_t,
    exec: hipGraphExec_t,
}

/// A kernel of an embedded module. Errors that wait in a context are left to its users.
fn kernel(device: &Arc<Device>, module: &Module, name: &str) -> Result<Function> {
    let module = embedded(device, module)?;
    Ok(Function {
        loaded: module.function(name)?,
        module,
    })
}

impl Trial {
    fn new(device: &Arc<Device>) -> Result<Self> {
        let hip = device.hip();
        let mut trial = Self {
            hip,
            set: kernel(device, &FILL, "const_set_u32")?,
            add: kernel(device, &BINARY, "badd_u32")?,
            multiply: kernel(device, &BINARY, "bmul_u32")?,
            stream: std::ptr::null_mut(),
            memory: std::ptr::null_mut(),
            graph: std::ptr::null_mut(),
            exec: std::ptr::null_mut(),
        };
        // SAFETY: the output is writable.
        let status =
            unsafe { (hip.hipStreamCreateWithFlags)(&mut trial.stream, STREAM_NON_BLOCKING) };
        hip.check(status, || "creating a stream")?;
        // SAFETY: the output is writable.
        let status = unsafe { (hip.hipMalloc)(&mut trial.memory, 3 * BYTES) };
        hip.check(status, || "allocating memory")?;
        Ok(trial)
    }

    fn run(mut self) -> Result<Outcome> {
        let mut expected = Vec::new();
        for input in INPUTS {
            self.set_by_kernel(input)?;
            self.enqueue()?;
            expected.push(self.result()?);
        }
        self.set_by_kernel(INPUTS[0])?;
        self.capture()?;
        Ok(Outcome {
            by_kernels: self.compare(&expected, Self::set_by_kernel)?,
            by_copies: self.compare(&expected, Self::set_by_copy)?,
        })
    }

    /// The address of the input, or of one of the two places after it.
    fn place(&self, number: usize) -> u64 {
        self.memory as u64 + (number * BYTES) as u64
    }

    fn launch(&self, kernel: &Function, arguments: &mut [*mut c_void]) -> Result<()> {
        const GRID: u32 = ELEMENTS as u32 / THREADS;
        let (raw, arguments) = (kernel.loaded.raw, arguments.as_mut_ptr());
        let none = std::ptr::null_mut();
        // SAFETY: the function is loaded, each argument is that of the kernel and points to a live value, and the memory has
        // the elements that it counts.
        let status = unsafe {
            (self.hip.hipModuleLaunchKernel)(
                raw,
                GRID,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                self.stream,
                arguments,
                none,
            )
        };
        self.hip
            .check(status, || format!("launching kernel `{}`", kernel.name()))
    }

    /// Sets a place to a number, which travels as the kernel's argument.
    fn fill(&self, place: usize, value: u32) -> Result<()> {
        let (count, dims, layout, out) = (ELEMENTS, 1usize, 0usize, self.place(place));
        self.launch(
            &self.set,
            &mut addresses_of![count, dims, layout, value, out],
        )
    }

    fn set_by_kernel(&self, input: u32) -> Result<()> {
        self.fill(0, input)
    }

    fn set_by_copy(&self, input: u32) -> Result<()> {
        let host = vec![input; ELEMENTS];
        // SAFETY: both ends have so many bytes; the source is pageable, so that HIP is done with it when it returns.
        let status = unsafe {
            (self.hip.hipMemcpyAsync)(
                self.memory,
                host.as_ptr().cast(),
                BYTES,
                MEMCPY_HOST_TO_DEVICE,
                self.stream,
            )
        };
        self.hip.check(status, || "copying an input from the host")
    }

    /// Gives the kernels to the stream: the first sets a place, and each other makes one place of the other and the input.
    fn enqueue(&self) -> Result<()> {
        self.fill(1, SEED)?;
        for number in 1..KERNELS {
            let kernel = match number % 2 {
                0 => &self.add,
                _ => &self.multiply,
            };
            let (count, dims, layout, input) = (ELEMENTS, 1usize, 0usize, self.place(0));
            let (from, to) = (self.place(2 - number % 2), self.place(1 + number % 2));
            let mut arguments = addresses_of![count, dims, layout, from, input, to];
            self.launch(kernel, &mut arguments)?;
        }
        Ok(())
    }

    /// What the last kernel wrote.
    fn result(&self) -> Result<Vec<u32>> {
        let mut host = vec![0u32; ELEMENTS];
        let place = self.place(1 + (KERNELS - 1) % 2);
        // SAFETY: both ends have so many bytes, and the stream is waited for before the destination is read or freed.
        let status = unsafe {
            let copied = (self.hip.hipMemcpyAsync)(
                host.as_mut_ptr().cast(),
                place as *const c_void,
                BYTES,
                MEMCPY_DEVICE_TO_HOST,
                self.stream,
            );
            match copied {
                HIP_SUCCESS => (self.hip.hipStreamSynchronize)(self.stream),
                failure => failure,
            }
        };
        self.hip.check(status, || "copying results to the host")?;
        Ok(host)
    }

    /// Makes the graph of the kernels.
    fn capture(&mut self) -> Result<()> {
        let hip = self.hip;
        let begin = optional!(hip, hipStreamBeginCapture)?;
        let end = optional!(hip, hipStreamEndCapture)?;
        let instantiate = optional!(hip, hipGraphInstantiateWithFlags)?;
        // SAFETY: the stream is alive, and nobody else's.
        let status = unsafe { begin(self.stream, CAPTURE_MODE_RELAXED) };
        hip.check(status, || "beginning to capture a graph")?;
        let enqueued = self.enqueue();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive and captured, and the output is writable.
        let status = unsafe { end(self.stream, &mut graph) };
        hip.check(status, || "ending the capture of a graph")?;
        // Only now: after a failure AMD's HIP leaves a handle that is none.
        self.graph = graph;
        enqueued?;
        // SAFETY: the graph is alive and the output is writable.
        let status = unsafe { instantiate(&mut self.exec, self.graph, 0) };
        hip.check(status, || "making a graph launchable")
    }

    /// The first thing that is wrong with the graph's results, for inputs that are set in this way.
    fn compare(
        &self,
        expected: &[Vec<u32>],
        set: impl Fn(&Self, u32) -> Result<()>,
    ) -> Result<Option<Symptom>> {
        let launch = optional!(self.hip, hipGraphLaunch)?;
        // The input of the capture comes last.
        for number in (1..INPUTS.len()).chain([0]) {
            set(self, INPUTS[number])?;
            // SAFETY: both handles are alive.
            let status = unsafe { launch(self.exec, self.stream) };
            self.hip.check(status, || "launching a graph")?;
            let result = self.result()?;
            if result != expected[number] {
                let words = result.iter().enumerate();
                let is_old = words
                    .clone()
                    .all(|(at, word)| expected.iter().any(|expected| expected[at] == *word));
                return Ok(Some(match is_old {
                    true => Symptom::Stale,
                    false => Symptom::Garbage,
                }));
            }
        }
        Ok(None)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let hip = self.hip;
        // SAFETY: each handle is alive and destroyed once, after the stream's work. A failure here follows one that was
        // returned, or leaves memory that the process' end frees.
        unsafe {
            if !self.stream.is_null() {
                (hip.hipStreamSynchronize)(self.stream);
            }
            if let (Some(destroy), false) = (hip.hipGraphExecDestroy, self.exec.is_null()) {
                destroy(self.exec);
            }
            if let (Some(destroy), false) = (hip.hipGraphDestroy, self.graph.is_null()) {
                destroy(self.graph);
            }
            if !self.memory.is_null() {
                (hip.hipFree)(self.memory);
            }
            if !self.stream.is_null() {
                (hip.hipStreamDestroy)(self.stream);
            }
        }
    }
}
