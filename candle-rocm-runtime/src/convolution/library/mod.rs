//! Convolutions by MIOpen, AMD's library, found at run time. Nobody has run it under this runtime yet: its tests are
//! with a stand-in of the same functions.
//!
//! `CANDLE_ROCM_CONV` says who makes convolutions: `own`, our kernels; `library`, MIOpen, which must then be there;
//! `auto`, the default, our kernels but where timings ([`tune`]) found MIOpen faster. Those that are products, of one
//! tap, are then timed as products are. What it is not asked for is ours in any case: f64, tensors with gaps or in
//! different orders of memory, taps that are turned round, padding that differs before and after the inputs, factors, a
//! bias or anything else after the sums, and whatever it has no algorithm for. While a graph is captured all are ours,
//! as its algorithms may allocate memory.

mod asked;
mod functions;

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use self::asked::{is_plain, Asked};
use self::functions::{Create, Destroy, Found, Functions, Raw, Status, ALLOC_FAILED, NOT_THERE};
pub use super::choice::{ConvChoice, CONV_VARIABLE, LIBRARY_VARIABLE};
use super::description::{Convolution, Epilogue, Operands, Operation};
use super::product;
use crate::base::dynamic_library::{Found as FoundLibrary, Search};
use crate::base::enqueued;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::gemm::{timings_choose, tune};
use crate::memory::workspace::Workspace;
use crate::profile::{self, Work};
use crate::runtime::RuntimeKind;
use crate::stream::queue::Stream;

const SEARCH: Search = Search {
    variable: LIBRARY_VARIABLE,
    roots: &[],
    rocm: &["lib"],
    folders: &[],
    names: &["libMIOpen.so.1", "libMIOpen.so"],
};

/// Convolutions that are kept; with one more all are asked anew.
const MOST_KEPT: usize = 1024;

/// The library of each GPU, once chosen at its first convolution.
static LIBRARIES: PerDevice<Result<Option<MiOpen>>> = PerDevice::new();

/// MIOpen, if it may make convolutions on this GPU.
///
/// # Errors
/// The choice is senseless, or it is `library` and there is none.
pub(super) fn of(device: &Arc<Device>) -> Result<Option<&'static MiOpen>> {
    LIBRARIES.get_or_try(device, || select(device))
}

fn select(device: &Arc<Device>) -> Result<Option<MiOpen>> {
    let has_library = match device.runtime().kind() {
        RuntimeKind::Amd => true,
        RuntimeKind::Emulator => SEARCH.named().is_some(),
        RuntimeKind::Nvidia => false,
    };
    match ConvChoice::current()? {
        ConvChoice::Own => Ok(None),
        ConvChoice::Library if has_library => MiOpen::load(device).map(Some),
        ConvChoice::Library => Err(Error::new(
            ErrorKind::Runtime,
            format!(
                "{CONV_VARIABLE}=library: an emulated or NVIDIA GPU has no library of convolutions. Use \
                 {CONV_VARIABLE}=own, or on the emulator name a library in {LIBRARY_VARIABLE}"
            ),
        )),
        // Ours, until the two have been compared on this GPU.
        ConvChoice::Auto if has_library && timings_choose()? => Ok(MiOpen::load(device)
            .inspect_err(|error| tracing::debug!(%error, "our own convolutions alone are timed"))
            .ok()),
        ConvChoice::Auto => Ok(None),
    }
}

/// A description of the library's, which ends with this.
struct Description {
    raw: Raw,
    destroy: Destroy,
}

// SAFETY: the library lets any thread use a description, and none is changed after it was made.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Sync for Description {}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made by the library, ended once. A failure leaves nothing to do.
        unsafe { (self.destroy)(self.raw) };
    }
}

/// A convolution that the library has an algorithm for.
struct Ready {
    /// Its two operands and its result, in the order in which the operation takes them.
    tensors: [Description; 3],
    convolution: Description,
    algorithm: c_int,
    workspace: usize,
}

/// The library's state on a GPU.
struct State {
    handle: Raw,
    /// The stream that it gives work to, once there is one.
    stream: Option<usize>,
    /// None where it has no algorithm.
    ready: HashMap<Convolution, Option<Arc<Ready>>, RandomState>,
    /// Where timings chose between it and our kernels, whether it is faster.
    is_faster: HashMap<Convolution, bool, RandomState>,
}

// SAFETY: any thread may use the handle, one at a time.
unsafe impl Send for State {}

/// MIOpen on one GPU.
pub(super) struct MiOpen {
    functions: Functions,
    /// Its name and version.
    name: String,
    path: String,
    state: Mutex<State>,
}

/// The operands of an operation in the order in which it takes them, its result last: places in inputs, weights,
/// outputs.
fn order_of(operation: Operation) -> [usize; 3] {
    match operation {
        Operation::Forward => [0, 1, 2],
        Operation::Data => [2, 1, 0],
        Operation::Weights => [2, 0, 1],
    }
}

fn addresses(operation: Operation, operands: &Operands) -> [u64; 3] {
    let all = [operands.inputs, operands.weights, operands.outputs];
    order_of(operation).map(|place| all[place])
}

impl MiOpen {
    fn load(device: &Arc<Device>) -> Result<Self> {
        let failed = |text: String| Error::new(ErrorKind::Runtime, text);
        let FoundLibrary { library, path } = SEARCH.load().map_err(|tried| {
            failed(format!(
                "MIOpen was not found. Install it, or set ROCM_PATH to where it is, or {LIBRARY_VARIABLE} to the library \
                 itself; {CONV_VARIABLE}=own makes convolutions by our own kernels. {tried}"
            ))
        })?;
        let functions = Functions::of(library).map_err(|lacks| {
            failed(format!(
                "{path} is no MIOpen that candle-rocm can use: it has no {lacks}. {LIBRARY_VARIABLE} names the library; \
                 {CONV_VARIABLE}=own makes convolutions by our own kernels"
            ))
        })?;
        device.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the output is writable.
        let status = device
            .hip()
            .relaxed(|| unsafe { (functions.create)(&mut handle) });
        let version = functions.version();
        let library = Self {
            name: version.map_or("MIOpen".to_owned(), |version| format!("MIOpen {version}")),
            functions,
            path,
            state: Mutex::new(State {
                handle,
                stream: None,
                ready: HashMap::default(),
                is_faster: HashMap::default(),
            }),
        };
        library.done("miopenCreate", status)?;
        tracing::debug!(library = library.name, path = library.path, "convolutions");
        Ok(library)
    }

    fn done(&self, what: &str, status: Status) -> Result<()> {
        let kind = match status {
            0 => return Ok(()),
            ALLOC_FAILED => ErrorKind::OutOfMemory,
            status if NOT_THERE.contains(&status) => ErrorKind::Unsupported,
            _ => ErrorKind::Library,
        };
        let Self { name, path, .. } = self;
        let said = self.functions.name_of(status);
        Err(Error::new(
            kind,
            format!(
                "{name} ({path}): {what}: {said} ({status}); {CONV_VARIABLE}=own makes convolutions by our own kernels"
            ),
        ))
    }

    /// Gives the convolution to the stream where the library is to make it; false where our kernels are. `own` gives it
    /// to the stream by these.
    ///
    /// # Safety
    /// As [`convolve`](super::convolve), of a convolution that was checked and has elements.
    ///
    /// # Errors
    /// The library fails; there is no memory for its workspace.
    pub unsafe fn convolve(
        &self,
        stream: &Stream,
        of: &Convolution,
        operands: &Operands,
        epilogue: &Epilogue,
        own: &dyn Fn() -> Result<()>,
    ) -> Result<bool> {
        if !is_plain(epilogue) || stream.context().device().pool().is_any_capturing() {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        let by_library = || unsafe { self.give(stream, of, operands) };
        match ConvChoice::current()? {
            ConvChoice::Own => Ok(false),
            ConvChoice::Library => by_library(),
            // The tuner of products chooses for these, and times one thing at a time.
            ConvChoice::Auto if product::of(of, operands, epilogue).is_some() => Ok(false),
            ConvChoice::Auto => match self.is_faster(stream, of, own, &by_library)? {
                true => by_library(),
                false => Ok(false),
            },
        }
    }

    /// Whether the library takes less time than our kernels; not where nobody knows.
    fn is_faster(
        &self,
        stream: &Stream,
        of: &Convolution,
        own: &dyn Fn() -> Result<()>,
        by_library: &dyn Fn() -> Result<bool>,
    ) -> Result<bool> {
        if let Some(known) = self.state.lock().is_faster.get(of) {
            return Ok(*known);
        }
        let Some(asked) = Asked::of(of) else {
            return Ok(false);
        };
        let work = || tune::Work {
            kind: asked.kind(of),
            sizes: Asked::sizes(of),
        };
        let ways = || vec!["our kernels".to_owned(), self.name.clone()];
        let fastest = tune::fastest_of(stream, work, ways, &mut |way| match way {
            0 => own(),
            _ if by_library()? => Ok(()),
            _ => Err(Error::unsupported(format!(
                "{} has no algorithm for it",
                self.name
            ))),
        })?;
        let Some(fastest) = fastest else {
            return Ok(false);
        };
        let mut state = self.state.lock();
        if state.is_faster.len() >= MOST_KEPT {
            state.is_faster.clear();
        }
        state.is_faster.insert(*of, fastest != 0);
        Ok(fastest != 0)
    }

    /// Gives the convolution to the stream; false if the library has no algorithm for it.
    ///
    /// # Safety
    /// As [`convolve`](Self::convolve).
    unsafe fn give(&self, stream: &Stream, of: &Convolution, operands: &Operands) -> Result<bool> {
        stream.enter()?;
        let mut state = self.state.lock();
        self.use_stream(&mut state, stream)?;
        let found = match state.ready.get(of) {
            Some(found) => found.clone(),
            None => {
                // SAFETY: the caller's promise.
                let found = unsafe { self.find(&state, stream, of, operands) }?.map(Arc::new);
                if state.ready.len() >= MOST_KEPT {
                    state.ready.clear();
                }
                state.ready.insert(*of, found.clone());
                found
            }
        };
        let Some(ready) = found else {
            return Ok(false);
        };
        let workspace = Workspace::new(stream, ready.workspace as u64)
            .map_err(|error| error.context("the workspace of a convolution by MIOpen"))?;
        let [first, second, result] = addresses(of.operation, operands);
        let [of_first, of_second, of_result] = &ready.tensors;
        let convolve = self.functions.of_operation(of.operation).convolve;
        let (alpha, beta) = (1f32, 0f32);
        // SAFETY: descriptions that live, tensors of their sizes by the caller's promise, factors of the host's, as
        // much working memory as the algorithm asked for, and a handle that gives to this stream.
        let give = || unsafe {
            convolve(
                state.handle,
                &alpha,
                of_first.raw,
                first,
                of_second.raw,
                second,
                ready.convolution.raw,
                ready.algorithm,
                &beta,
                of_result.raw,
                result,
                workspace.address(),
                ready.workspace,
            )
        };
        let status = profile::timed(stream, || Work::Convolution { library: "MIOpen" }, give);
        self.done("a convolution", status)?;
        enqueued::note(|noted| noted.library_convolutions += 1);
        workspace.free()?;
        Ok(true)
    }

    fn use_stream(&self, state: &mut State, stream: &Stream) -> Result<()> {
        let raw = stream.raw();
        if state.stream == Some(raw as usize) {
            return Ok(());
        }
        state.stream = None;
        // SAFETY: the handle is not in use; streams of this process are never destroyed.
        let status = unsafe { (self.functions.set_stream)(state.handle, raw) };
        self.done("miopenSetStream", status)?;
        state.stream = Some(raw as usize);
        Ok(())
    }

    /// A description that `create` makes.
    fn description(&self, create: Create, destroy: Destroy) -> Result<Description> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the output is writable.
        let status = unsafe { create(&mut raw) };
        self.done("making a description", status)?;
        Ok(Description { raw, destroy })
    }

    /// What the library is told of a convolution: inputs, weights, outputs, and how it goes.
    fn describe(&self, asked: &Asked) -> Result<([Description; 3], Description)> {
        let functions = &self.functions;
        let tensor = |tensor: &asked::Tensor| -> Result<Description> {
            let description =
                self.description(functions.create_tensor, functions.destroy_tensor)?;
            let rank = tensor.sizes.len() as c_int;
            let (sizes, strides) = (tensor.sizes.as_ptr(), tensor.strides.as_ptr());
            // SAFETY: a description that lives, and as many numbers as are said.
            let status = unsafe {
                (functions.set_tensor)(description.raw, asked.dtype, rank, sizes, strides)
            };
            self.done("describing a tensor", status)?;
            Ok(description)
        };
        let [inputs, weights, outputs] = &asked.tensors;
        let tensors = [tensor(inputs)?, tensor(weights)?, tensor(outputs)?];
        let convolution =
            self.description(functions.create_convolution, functions.destroy_convolution)?;
        // Taps in their order.
        const CONVOLUTION: c_int = 0;
        // SAFETY: a description that lives, and as many numbers as are said.
        let status = unsafe {
            (functions.set_convolution)(
                convolution.raw,
                asked.padding.len() as c_int,
                asked.padding.as_ptr(),
                asked.strides.as_ptr(),
                asked.dilation.as_ptr(),
                CONVOLUTION,
            )
        };
        self.done("describing a convolution", status)?;
        if asked.groups != 1 {
            // SAFETY: as above.
            let status = unsafe { (functions.set_groups)(convolution.raw, asked.groups) };
            self.done("describing a convolution's groups", status)?;
        }
        Ok((tensors, convolution))
    }

    /// Bytes that its algorithms for a convolution of these tensors may work in; `None` if it has none.
    fn workspace(
        &self,
        state: &State,
        operation: Operation,
        [first, second, result]: [Raw; 3],
        convolution: Raw,
    ) -> Result<Option<usize>> {
        // For forward alone the weights come first here.
        let [first, second] = match operation {
            Operation::Forward => [second, first],
            Operation::Data | Operation::Weights => [first, second],
        };
        let workspace = self.functions.of_operation(operation).workspace;
        let mut bytes = 0;
        // SAFETY: descriptions that live, and a writable output.
        let status =
            unsafe { workspace(state.handle, first, second, convolution, result, &mut bytes) };
        if NOT_THERE.contains(&status) {
            return Ok(None);
        }
        self.done("asking for a workspace's size", status)?;
        Ok(Some(bytes))
    }

    /// Has the library find the algorithm for a convolution, which writes its result; `None` if it has none. The search
    /// may wait for the GPU.
    ///
    /// # Safety
    /// As [`convolve`](Self::convolve).
    unsafe fn find(
        &self,
        state: &State,
        stream: &Stream,
        of: &Convolution,
        operands: &Operands,
    ) -> Result<Option<Ready>> {
        let Some(asked) = Asked::of(of) else {
            return Ok(None);
        };
        let (tensors, convolution) = match self.describe(&asked) {
            Err(error) if *error.kind() == ErrorKind::Unsupported => return Ok(None),
            described => described?,
        };
        let order = order_of(of.operation);
        let raw = order.map(|place| tensors[place].raw);
        let Some(bytes) = self.workspace(state, of.operation, raw, convolution.raw)? else {
            return Ok(None);
        };
        let workspace = Workspace::new(stream, bytes as u64)
            .map_err(|error| error.context("the workspace of a search by MIOpen"))?;
        let [first, second, result] = addresses(of.operation, operands);
        let (mut count, mut found) = (0, Found::default());
        let find = self.functions.of_operation(of.operation).find;
        // SAFETY: the caller's promise; descriptions that live, room for the one algorithm that is asked for, and as
        // much working memory as is said.
        let status = stream.context().device().hip().relaxed(|| unsafe {
            find(
                state.handle,
                raw[0],
                first,
                raw[1],
                second,
                convolution.raw,
                raw[2],
                result,
                1,
                &mut count,
                &mut found,
                workspace.address(),
                bytes,
                false,
            )
        });
        workspace.free()?;
        if NOT_THERE.contains(&status) || status == 0 && count == 0 {
            tracing::debug!(%of, "no convolution of MIOpen's");
            return Ok(None);
        }
        self.done("finding an algorithm", status)?;
        let mut tensors = tensors.map(Some);
        let tensors = order.map(|place| {
            tensors[place]
                .take()
                .expect("each place is once in an order")
        });
        Ok(Some(Ready {
            tensors,
            convolution,
            algorithm: found.algorithm,
            workspace: found.workspace,
        }))
    }
}
