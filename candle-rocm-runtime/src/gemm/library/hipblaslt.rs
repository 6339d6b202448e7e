//! hipBLASLt, AMD's library of products that a bias and an activation follow.
//!
//! It takes the stream with each product, so that one handle does for a GPU, as long as the process lives; its working memory
//! comes from the pool. Which of its kernels it chooses is asked once for a shape, as it goes through a table of thousands.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::vendor::{function, Handle, Status};
use crate::base::dynamic_library::{Found, Search};
use crate::base::enqueued;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::types::hipStream_t;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::gemm::choice::{GemmChoice, GEMM_VARIABLE, LT_LIBRARY_VARIABLE};
use crate::gemm::problem::{GemmDtype, GemmProblem, Transpose};
use crate::memory::workspace::Workspace;
use crate::runtime::RuntimeKind;
use crate::stream::queue::Stream;

const SEARCH: Search = Search {
    variable: LT_LIBRARY_VARIABLE,
    roots: &[],
    rocm: &["lib"],
    folders: &[],
    names: &["libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"],
};

/// As much working memory as its kernels may ask for: what AMD's own frameworks allow them.
const MOST_WORKSPACE: u64 = 32 << 20;

/// Shapes whose choices are kept; with one more all are asked anew. A program has tens, one whose lengths grow a new one now
/// and then.
const MOST_CHOICES: usize = 1024;

/// `HIPBLAS_COMPUTE_32F`; the fast ones permit less precision and do not ask for it.
const COMPUTE_F32: c_int = 2;
/// `HIP_R_32F`, the type of factors.
const F32: c_int = 0;
/// `HIPBLAS_STATUS_ALLOC_FAILED` and `HIPBLAS_STATUS_NOT_SUPPORTED`.
const ALLOC_FAILED: Status = 2;
const NOT_SUPPORTED: Status = 7;

/// `hipblasLtMatrixLayoutAttribute_t`.
const BATCH_COUNT: c_int = 0;
const BATCH_STRIDE: c_int = 1;
/// `hipblasLtMatmulDescAttributes_t`.
const TRANSPOSE_A: c_int = 0;
const TRANSPOSE_B: c_int = 1;
const EPILOGUE: c_int = 2;
const BIAS: c_int = 3;
const BIAS_TYPE: c_int = 4;
/// `HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const WORKSPACE_BYTES: c_int = 1;

/// `hipblasLtMatmulAlgo_t`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    data: [u8; 16],
    most_workspace: usize,
}

/// `hipblasLtMatmulHeuristicResult_t`: a kernel that the library chose.
#[derive(Clone, Copy)]
#[repr(C)]
struct Choice {
    kernel: Kernel,
    workspace: usize,
    status: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// All of a product that the library is told when it chooses: it sees neither factors nor addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    dtype: c_int,
    /// Of A and B.
    transposed: [Transpose; 2],
    /// m, n, k.
    sizes: [usize; 3],
    batch: usize,
    /// Leading dimension and stride of A, B, C and D.
    layouts: [(i64, i64); 4],
    epilogue: u32,
    has_bias: bool,
}

/// The library's state on a GPU.
struct State {
    handle: Handle,
    /// None where it has no kernel.
    choices: HashMap<Shape, Option<Choice>, RandomState>,
}

impl State {
    /// What was chosen for this shape, by `choose` if nobody asked yet. Its failures are not kept.
    fn choice(
        &mut self,
        shape: Shape,
        choose: impl FnOnce(&Handle) -> Result<Option<Choice>>,
    ) -> Result<Option<Choice>> {
        if let Some(choice) = self.choices.get(&shape) {
            return Ok(*choice);
        }
        let choice = choose(&self.handle)?;
        if self.choices.len() >= MOST_CHOICES {
            self.choices.clear();
        }
        self.choices.insert(shape, choice);
        Ok(choice)
    }
}

type Raw = *mut c_void;
type Create = unsafe extern "C" fn(*mut Raw) -> Status;
type Destroy = unsafe extern "C" fn(Raw) -> Status;
type SetAttribute = unsafe extern "C" fn(Raw, c_int, *const c_void, usize) -> Status;
type CreateLayout = unsafe extern "C" fn(*mut Raw, c_int, u64, u64, i64) -> Status;
type CreateProduct = unsafe extern "C" fn(*mut Raw, c_int, c_int) -> Status;
type Choose = unsafe extern "C" fn(
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    Raw,
    c_int,
    *mut Choice,
    *mut c_int,
) -> Status;
type Multiply = unsafe extern "C" fn(
    Raw,
    Raw,
    *const f32,
    u64,
    Raw,
    u64,
    Raw,
    *const f32,
    u64,
    Raw,
    u64,
    Raw,
    *const Kernel,
    u64,
    usize,
    hipStream_t,
) -> Status;

/// The functions of one kind of object.
struct Kind<C> {
    create: C,
    destroy: Destroy,
    set: SetAttribute,
}

/// hipBLASLt's functions.
struct Functions {
    create: Create,
    layouts: Kind<CreateLayout>,
    products: Kind<CreateProduct>,
    preferences: Kind<Create>,
    choose: Choose,
    multiply: Multiply,
}

impl Functions {
    /// The functions of a library, or the name of one that it lacks.
    fn of(library: &'static libloading::Library) -> Result<Self, &'static str> {
        // SAFETY: the types are those that hipBLASLt's header gives for these names.
        unsafe {
            Ok(Self {
                create: function(library, "hipblasLtCreate")?,
                layouts: Kind {
                    create: function(library, "hipblasLtMatrixLayoutCreate")?,
                    destroy: function(library, "hipblasLtMatrixLayoutDestroy")?,
                    set: function(library, "hipblasLtMatrixLayoutSetAttribute")?,
                },
                products: Kind {
                    create: function(library, "hipblasLtMatmulDescCreate")?,
                    destroy: function(library, "hipblasLtMatmulDescDestroy")?,
                    set: function(library, "hipblasLtMatmulDescSetAttribute")?,
                },
                preferences: Kind {
                    create: function(library, "hipblasLtMatmulPreferenceCreate")?,
                    destroy: function(library, "hipblasLtMatmulPreferenceDestroy")?,
                    set: function(library, "hipblasLtMatmulPreferenceSetAttribute")?,
                },
                choose: function(library, "hipblasLtMatmulAlgoGetHeuristic")?,
                multiply: function(library, "hipblasLtMatmul")?,
            })
        }
    }
}

/// hipBLASLt on one GPU.
pub(crate) struct HipblasLt {
    functions: Functions,
    path: String,
    state: Mutex<State>,
}

/// The library of each GPU, once chosen by who multiplies first in cuBLASLt's shape.
static LIBRARIES: PerDevice<Result<Option<HipblasLt>>> = PerDevice::new();

/// hipBLASLt, if it multiplies on this GPU for cuBLASLt's shape.
///
/// # Errors
/// The choice is senseless; the library that the user named cannot be loaded, or any does not start.
pub(crate) fn of(device: &Arc<Device>) -> Result<Option<&'static HipblasLt>> {
    LIBRARIES.get_or_try(device, || select(device))
}

fn select(device: &Arc<Device>) -> Result<Option<HipblasLt>> {
    let is_named = SEARCH.named().is_some();
    match (GemmChoice::current()?, device.runtime().kind()) {
        (GemmChoice::Library, RuntimeKind::Amd) => {}
        (GemmChoice::Library, RuntimeKind::Emulator) if is_named => {}
        _ => return Ok(None),
    }
    match SEARCH.load() {
        Ok(found) => HipblasLt::new(device, found).map(Some),
        Err(tried) if is_named => Err(Error::new(
            ErrorKind::Runtime,
            format!(
                "the hipBLASLt that {LT_LIBRARY_VARIABLE} names was not loaded. Name another, or none, with which \
                 products go to rocBLAS; {GEMM_VARIABLE}=own multiplies by our own kernels. {tried}"
            ),
        )),
        Err(tried) => {
            tracing::debug!(tried, "no hipBLASLt: its products go to rocBLAS");
            Ok(None)
        }
    }
}

/// A product as cuBLASLt's shape has it.
pub(crate) struct Asked<'a> {
    /// Its C is what is written.
    pub problem: &'a GemmProblem,
    /// What the problem's `beta` is a factor of: its address, leading dimension and stride.
    pub added: (u64, i64, i64),
    /// The epilogue's number, which is cuBLASLt's.
    pub epilogue: u32,
    /// The bias of the first product, and the elements to that of the next.
    pub bias: Option<(u64, i64)>,
}

impl Asked<'_> {
    /// The products that it is given as. The library has one bias for a whole batch: where each matrix has its own, each is a
    /// product.
    fn products(&self) -> usize {
        let apart = self.bias.is_some_and(|(_, stride)| stride != 0);
        if apart {
            self.problem.batch
        } else {
            1
        }
    }

    /// The C that is read: nothing of `added` is where `beta` is 0.
    fn read_c(&self) -> (u64, i64, i64) {
        let problem = self.problem;
        match problem.beta == 0.0 {
            true => (problem.c, problem.ldc as i64, problem.stride_c),
            false => self.added,
        }
    }
}

impl Shape {
    fn of(asked: &Asked<'_>, dtype: c_int) -> Self {
        let problem = asked.problem;
        let batch = problem.batch / asked.products();
        // Of one matrix there is no next.
        let next = |stride| if batch > 1 { stride } else { 0 };
        let (_, ld_read, stride_read) = asked.read_c();
        Self {
            dtype,
            transposed: [problem.transa, problem.transb],
            sizes: [problem.m, problem.n, problem.k],
            batch,
            layouts: [
                (problem.lda as i64, next(problem.stride_a)),
                (problem.ldb as i64, next(problem.stride_b)),
                (ld_read, next(stride_read)),
                (problem.ldc as i64, next(problem.stride_c)),
            ],
            epilogue: asked.epilogue,
            has_bias: asked.bias.is_some(),
        }
    }
}

/// A product as the library is told of it, and its matrices A, B, C and D.
struct Described<'a> {
    product: Object<'a>,
    matrices: [Object<'a>; 4],
}

/// What products of one description share that are given to a stream.
struct Ready<'a> {
    stream: &'a Stream,
    handle: &'a Handle,
    described: &'a Described<'a>,
    choice: &'a Choice,
    workspace: u64,
}

impl HipblasLt {
    fn new(device: &Arc<Device>, found: Found) -> Result<Self> {
        let Found { library, path } = found;
        let functions = Functions::of(library).map_err(|lacks| {
            Error::new(
                ErrorKind::Runtime,
                format!(
                    "{path} is no hipBLASLt: it has no {lacks}. {LT_LIBRARY_VARIABLE} names the library; \
                     {GEMM_VARIABLE}=own multiplies by our own kernels"
                ),
            )
        })?;
        device.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the output is writable.
        let status = device
            .hip()
            .relaxed(|| unsafe { (functions.create)(&mut handle) });
        let library = Self {
            functions,
            path,
            state: Mutex::new(State {
                handle: Handle(handle),
                choices: HashMap::default(),
            }),
        };
        library.done("hipblasLtCreate", status)?;
        tracing::debug!(library = library.path, "products with what follows them");
        Ok(library)
    }

    fn done(&self, what: &str, status: Status) -> Result<()> {
        let kind = match status {
            0 => return Ok(()),
            ALLOC_FAILED => ErrorKind::OutOfMemory,
            NOT_SUPPORTED => ErrorKind::Unsupported,
            _ => ErrorKind::Library,
        };
        let name = usize::try_from(status).ok().and_then(|at| STATUS.get(at));
        let name = name.unwrap_or(&"an unknown status");
        Err(Error::new(
            kind,
            format!(
                "hipBLASLt ({}): {what}: {name} ({status}); {GEMM_VARIABLE}=own multiplies by our own kernels",
                self.path
            ),
        ))
    }

    /// An object that `create` makes.
    fn object<'a, C>(
        &'a self,
        kind: &'a Kind<C>,
        create: impl FnOnce(&C, *mut Raw) -> Status,
    ) -> Result<Object<'a>> {
        let mut raw = std::ptr::null_mut();
        self.done("making a description", create(&kind.create, &mut raw))?;
        Ok(Object {
            library: self,
            raw,
            set: kind.set,
            destroy: kind.destroy,
        })
    }

    /// A matrix of so many rows and columns as stored.
    fn layout(
        &self,
        dtype: c_int,
        (rows, columns): (usize, usize),
        ld: i64,
        batch: usize,
        stride: i64,
    ) -> Result<Object<'_>> {
        let layout = self.object(&self.functions.layouts, |create, raw| {
            // SAFETY: the output is writable.
            unsafe { create(raw, dtype, rows as u64, columns as u64, ld) }
        })?;
        if batch > 1 {
            layout.set(BATCH_COUNT, batch as i32)?;
            layout.set(BATCH_STRIDE, stride)?;
        }
        Ok(layout)
    }

    /// The kernel for a product, if the library has one.
    ///
    /// # Errors
    /// The library fails.
    fn choose(
        &self,
        handle: &Handle,
        Described { product, matrices }: &Described<'_>,
    ) -> Result<Option<Choice>> {
        let [a, b, c, d] = matrices;
        let preference = self.object(&self.functions.preferences, |create, raw| {
            // SAFETY: the output is writable.
            unsafe { create(raw) }
        })?;
        preference.set(WORKSPACE_BYTES, MOST_WORKSPACE)?;
        let mut choice = MaybeUninit::<Choice>::zeroed();
        let mut count = 0;
        // SAFETY: objects that live, and room for the one choice that is asked for.
        let status = unsafe {
            (self.functions.choose)(
                handle.0,
                product.raw,
                a.raw,
                b.raw,
                c.raw,
                d.raw,
                preference.raw,
                1,
                choice.as_mut_ptr(),
                &mut count,
            )
        };
        if status == NOT_SUPPORTED {
            return Ok(None);
        }
        self.done("hipblasLtMatmulAlgoGetHeuristic", status)?;
        // SAFETY: all zeros are one, and what the library wrote is another.
        let choice = unsafe { choice.assume_init() };
        Ok((count > 0 && choice.status == 0).then_some(choice))
    }

    /// Gives the product to the stream; false if the library has no kernel for it, or there is nothing to multiply.
    ///
    /// # Safety
    /// The addresses are those of device memory that holds the matrices, and the biases, as described.
    ///
    /// # Errors
    /// [`GemmProblem::check`]'s, and a C that is no such matrix; the library fails. Each names the problem.
    pub(crate) unsafe fn multiply(&self, stream: &Stream, asked: &Asked<'_>) -> Result<bool> {
        let problem = asked.problem;
        problem.check()?;
        let (_, ld, stride) = asked.added;
        if problem.beta != 0.0 {
            let ld = usize::try_from(ld).unwrap_or(0);
            problem.check_matrix("C", (problem.m, problem.n), ld, stride)?;
        }
        let dtype = match problem.dtype {
            GemmDtype::F32 => F32,
            GemmDtype::F16 => 2,
            GemmDtype::BF16 => 14,
            GemmDtype::F64 | GemmDtype::I8 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => {
                return Ok(false)
            }
        };
        if problem.is_empty() || !problem.has_sum() || !problem.fits_c_ints() {
            return Ok(false);
        }
        // SAFETY: the caller's promise.
        unsafe { self.give(stream, asked, dtype) }.map_err(|error| error.context(problem))
    }

    /// # Safety
    /// As [`multiply`](Self::multiply).
    unsafe fn give(&self, stream: &Stream, asked: &Asked<'_>, dtype: c_int) -> Result<bool> {
        let problem = asked.problem;
        let shape = Shape::of(asked, dtype);
        let described = self.describe(&shape, asked.bias)?;
        stream.enter()?;
        let mut state = self.state.lock();
        let choice = match state.choice(shape, |handle| self.choose(handle, &described)) {
            Ok(Some(choice)) => choice,
            no => {
                let why = no.err();
                tracing::debug!(%problem, ?why, "not a product of hipBLASLt's");
                return Ok(false);
            }
        };
        let workspace = Workspace::new(stream, choice.workspace as u64)
            .map_err(|error| error.context("the workspace of a product by hipBLASLt"))?;
        let ready = Ready {
            stream,
            handle: &state.handle,
            described: &described,
            choice: &choice,
            workspace: workspace.address(),
        };
        for index in 0..asked.products() as i64 {
            // SAFETY: the caller's promise, and as much working memory as the kernel asked for.
            unsafe { self.give_once(&ready, asked, index) }?;
        }
        workspace.free()?;
        Ok(true)
    }

    /// What the library is told of a product of this shape.
    fn describe(&self, shape: &Shape, bias: Option<(u64, i64)>) -> Result<Described<'_>> {
        let Shape {
            dtype,
            transposed: [transa, transb],
            sizes: [m, n, k],
            batch,
            layouts: [of_a, of_b, of_c, of_d],
            ..
        } = *shape;
        let stored = |transposed: Transpose, rows, columns| match transposed {
            Transpose::No => (rows, columns),
            Transpose::Yes => (columns, rows),
        };
        let layout = |size, (ld, stride)| self.layout(dtype, size, ld, batch, stride);
        let matrices = [
            layout(stored(transa, m, k), of_a)?,
            layout(stored(transb, k, n), of_b)?,
            layout((m, n), of_c)?,
            layout((m, n), of_d)?,
        ];
        let product = self.object(&self.functions.products, |create, raw| {
            // SAFETY: the output is writable.
            unsafe { create(raw, COMPUTE_F32, F32) }
        })?;
        product.set(TRANSPOSE_A, operation(transa))?;
        product.set(TRANSPOSE_B, operation(transb))?;
        product.set(EPILOGUE, shape.epilogue)?;
        if let Some((bias, _)) = bias {
            product.set(BIAS_TYPE, dtype)?;
            product.set(BIAS, bias)?;
        }
        Ok(Described { product, matrices })
    }

    /// Gives one of the products to the stream that share a description.
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply), and there is as much working memory as the kernel asked for.
    unsafe fn give_once(&self, ready: &Ready<'_>, asked: &Asked<'_>, index: i64) -> Result<()> {
        let problem = asked.problem;
        let Described { product, matrices } = ready.described;
        let [a, b, c, d] = matrices;
        let (alpha, beta) = (problem.alpha as f32, problem.beta as f32);
        let bytes = problem.dtype.bytes() as i64;
        let at = |address: u64, stride: i64| {
            address.wrapping_add_signed(index.wrapping_mul(stride).wrapping_mul(bytes))
        };
        if let (Some((bias, stride)), true) = (asked.bias, index > 0) {
            product.set(BIAS, at(bias, stride))?;
        }
        let (added, _, stride_added) = asked.read_c();
        // SAFETY: objects that live, matrices of their sizes by the caller's promise, factors of the host's, as
        // much working memory as the kernel asked for, and a stream that lives.
        let status = unsafe {
            (self.functions.multiply)(
                ready.handle.0,
                product.raw,
                &alpha,
                at(problem.a, problem.stride_a),
                a.raw,
                at(problem.b, problem.stride_b),
                b.raw,
                &beta,
                at(added, stride_added),
                c.raw,
                at(problem.c, problem.stride_c),
                d.raw,
                &ready.choice.kernel,
                ready.workspace,
                ready.choice.workspace,
                ready.stream.raw(),
            )
        };
        self.done("hipblasLtMatmul", status)?;
        enqueued::note(|noted| noted.library_products += 1);
        Ok(())
    }
}

/// `hipblasOperation_t`.
fn operation(transpose: Transpose) -> c_int {
    match transpose {
        Transpose::No => 111,
        Transpose::Yes => 112,
    }
}

/// `hipblasStatus_t`.
const STATUS: [&str; 12] = [
    "HIPBLAS_STATUS_SUCCESS",
    "HIPBLAS_STATUS_NOT_INITIALIZED",
    "HIPBLAS_STATUS_ALLOC_FAILED",
    "HIPBLAS_STATUS_INVALID_VALUE",
    "HIPBLAS_STATUS_MAPPING_ERROR",
    "HIPBLAS_STATUS_EXECUTION_FAILED",
    "HIPBLAS_STATUS_INTERNAL_ERROR",
    "HIPBLAS_STATUS_NOT_SUPPORTED",
    "HIPBLAS_STATUS_ARCH_MISMATCH",
    "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
    "HIPBLAS_STATUS_INVALID_ENUM",
    "HIPBLAS_STATUS_UNKNOWN",
];

/// One of the library's descriptions.
struct Object<'a> {
    library: &'a HipblasLt,
    raw: Raw,
    set: SetAttribute,
    destroy: Destroy,
}

impl Object<'_> {
    fn set<V>(&self, attribute: c_int, value: V) -> Result<()> {
        let place = std::ptr::from_ref(&value).cast();
        // SAFETY: the description lives, and the value is of the size that is said.
        let status = unsafe { (self.set)(self.raw, attribute, place, size_of::<V>()) };
        self.library.done("describing a product", status)
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library, ended once. A failure leaves nothing to do.
        unsafe { (self.destroy)(self.raw) };
    }
}
