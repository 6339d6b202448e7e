//! Kernels compiled at run time for the constants of a shape, where a compiler is at hand.
//!
//! The products of [`fp8`](crate::fp8) and [`grouped`](crate::grouped) come in the same few shapes all along: those of a model's
//! weights. A kernel that is compiled for one of them has no edges which the shape has not, and computes the same bits. Such
//! kernels are used when they are ready, and never waited for but in [`prewarm`]. Who asks for them:
//!
//! - [`prewarm`], for the products that a closure makes;
//! - `CANDLE_ROCM_SPECIALISE=1`, for each new shape, on threads of their own, while the kernels for any shape do the work.
//!
//! `CANDLE_ROCM_SPECIALISE=0` leaves them out altogether. What was compiled is kept in the folder of compiled kernels
//! (`CANDLE_ROCM_KERNEL_CACHE`), by all that it was made of, for later processes. The compiler is that of the build: a clang
//! for AMD's GPUs, ROCm's own or another (`CANDLE_ROCM_CLANG`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use candle_core::{bail, CudaDevice, Error, Result};
use candle_rocm_kernels::SOURCES;
use candle_rocm_runtime::{Context, Function, Image};
use rocm_toolchain::specialised::{self, Constant, Kernel, Specialiser};

/// Says whether kernels are compiled for shapes: `0`, `1`, or nothing for those that [`prewarm`] asks for.
pub const VARIABLE: &str = candle_rocm_runtime::variables::SPECIALISE.name;

/// Most compilers at once.
const MOST_THREADS: usize = 8;

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Nothing.
    Never,
    /// Kernels that [`prewarm`] asks for.
    Asked,
    /// All.
    Always,
}

impl Choice {
    fn current() -> Result<Self> {
        static CHOICE: OnceLock<std::result::Result<Choice, String>> = OnceLock::new();
        let choice = CHOICE.get_or_init(|| Self::of(&std::env::var(VARIABLE).unwrap_or_default()));
        choice.clone().map_err(Error::Msg)
    }

    fn of(text: &str) -> std::result::Result<Self, String> {
        match text.trim() {
            "0" => Ok(Self::Never),
            "" => Ok(Self::Asked),
            "1" => Ok(Self::Always),
            _ => Err(format!(
                "{VARIABLE}={text}: the choices are 0 (no kernels are compiled for shapes), 1 (for each new one, aside) and \
                 nothing (where a program asks for them)"
            )),
        }
    }
}

/// What a kernel is compiled for: a GPU of the process, the kernel's name, and its constants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    gpu: usize,
    kernel: String,
    constants: Vec<Constant>,
}

/// What became of a kernel.
#[derive(Clone)]
enum State {
    Building,
    Ready { function: Function, compiled: bool },
    Failed(Arc<str>),
}

/// All kernels that were asked for in this process.
#[derive(Default)]
struct Kernels {
    states: RwLock<HashMap<Key, State>>,
    /// Signals that one is no longer building.
    built: Condvar,
    building: Mutex<()>,
    /// Whether any was asked for: without it products look no further.
    any: AtomicBool,
    launches: AtomicU64,
}

static KERNELS: OnceLock<Kernels> = OnceLock::new();

thread_local! {
    /// What the calling thread's [`prewarm`] asked for.
    static ASKED: RefCell<Option<Vec<Key>>> = const { RefCell::new(None) };
}

/// What [`prewarm`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prewarmed {
    /// Kernels that are ready now, of those that the closure's products may use.
    pub kernels: usize,
    /// Those of them that were compiled for this process, as against found in the cache.
    pub compiled: usize,
}

/// How many launches of this process were of kernels compiled for their shape.
pub fn launches() -> u64 {
    kernels().launches.load(Ordering::Relaxed)
}

/// Runs `products` and compiles a kernel for each shape of FP8 or grouped product that it makes on a GPU, several at once;
/// returns when all are ready, with what `products` returned. From then on products of these shapes use them. (Those of the
/// closure itself may still run with kernels for any shape.)
///
/// A shape is a product's sizes, strides and formats of factors, but the number of rows of `a`, of which only the plan that it
/// leads to counts: run it once with each number of tokens that matters, such as 1 and a prompt's.
///
/// # Errors
/// Those of `products`; no compiler, or a kernel that does not compile, with the compiler's words. Kernels that others asked
/// for are not affected. With `CANDLE_ROCM_SPECIALISE=0` nothing is compiled, and nothing fails.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use candle_rocm_backend::{fp8, DeviceExt as _};
///
/// # candle_rocm_backend::runtime::select(candle_rocm_backend::RuntimeKind::Emulator)?;
/// let device = Device::new_rocm(0)?;
/// let weights = Tensor::randn(0f32, 1., (128, 256), &device)?;
/// let b = fp8::cast_per_block(&weights, fp8::ScaleFormat::F32)?;
/// let (_, prewarmed) = fp8::prewarm(|| {
///     for tokens in [1, 32] {
///         let x = Tensor::zeros((tokens, 256), DType::F32, &device)?;
///         fp8::gemm_nt(&fp8::cast_per_token(&x, fp8::ScaleFormat::F32)?, &b, None, DType::BF16)?;
///     }
///     Ok(())
/// })?;
/// assert_eq!(prewarmed.kernels, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prewarm<R>(products: impl FnOnce() -> Result<R>) -> Result<(R, Prewarmed)> {
    /// Takes what was asked for, also where the closure panics.
    struct Asking(Option<Vec<Key>>);
    impl Drop for Asking {
        fn drop(&mut self) {
            ASKED.set(self.0.take());
        }
    }
    let (result, asked) = {
        let _outer = Asking(ASKED.replace(Some(Vec::new())));
        let result = products()?;
        (result, ASKED.take().unwrap_or_default())
    };
    // One inside another asks for the outer one, too.
    ASKED.with_borrow_mut(|outer| {
        if let Some(outer) = outer {
            outer.extend(asked.iter().cloned());
        }
    });
    let mut prewarmed = Prewarmed::default();
    for key in &asked {
        match kernels().wait_for(key) {
            Some(State::Ready { compiled, .. }) => {
                prewarmed.kernels += 1;
                prewarmed.compiled += usize::from(compiled);
            }
            Some(State::Failed(why)) => bail!("{why}"),
            Some(State::Building) | None => {}
        }
    }
    Ok((result, prewarmed))
}

/// What a product may ask for.
pub(crate) struct Wanted {
    /// The kernel's name in the code object, the header that has its macro, and the macro with its arguments.
    pub kernel: String,
    pub header: &'static str,
    pub invocation: String,
    pub constants: Vec<Constant>,
}

/// The kernel for a product's shape, if it is ready; asks for it where the environment or [`prewarm`] wants that.
pub(crate) fn function(
    device: &CudaDevice,
    wanted: impl FnOnce() -> Option<Wanted>,
) -> Result<Option<Function>> {
    let choice = Choice::current()?;
    let asks = choice == Choice::Always || ASKED.with_borrow(Option::is_some);
    let kernels = kernels();
    if choice == Choice::Never || !(asks || kernels.any.load(Ordering::Relaxed)) {
        return Ok(None);
    }
    let Some(wanted) = wanted() else {
        return Ok(None);
    };
    let stream = device.cuda_stream();
    let context = stream.context();
    let key = Key {
        gpu: context.ordinal(),
        kernel: wanted.kernel,
        constants: wanted.constants,
    };
    let known = kernels.state(&key);
    if asks {
        ASKED.with_borrow_mut(|asked| {
            if let Some(asked) = asked.as_mut().filter(|asked| !asked.contains(&key)) {
                asked.push(key.clone());
            }
        });
        if known.is_none() {
            kernels.build(key, wanted.header, wanted.invocation, context)?;
        }
    }
    match known {
        Some(State::Ready { function, .. }) => {
            kernels.launches.fetch_add(1, Ordering::Relaxed);
            Ok(Some(function))
        }
        _ => Ok(None),
    }
}

fn kernels() -> &'static Kernels {
    KERNELS.get_or_init(Kernels::default)
}

impl Kernels {
    fn state(&self, key: &Key) -> Option<State> {
        let states = self.states.read().unwrap_or_else(PoisonError::into_inner);
        states.get(key).cloned()
    }

    fn set(&self, key: Key, state: State) {
        let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
        states.insert(key, state);
    }

    /// Starts to compile, on another thread.
    fn build(
        &'static self,
        key: Key,
        header: &'static str,
        invocation: String,
        context: &Arc<Context>,
    ) -> Result<()> {
        let pool = pool()?;
        {
            let mut states = self.states.write().unwrap_or_else(PoisonError::into_inner);
            if states.contains_key(&key) {
                return Ok(());
            }
            states.insert(key.clone(), State::Building);
        }
        self.any.store(true, Ordering::Relaxed);
        let context = context.clone();
        pool.spawn(move || {
            let kernel = Kernel {
                name: &key.kernel,
                header,
                invocation: &invocation,
            };
            let state = match compiled(&kernel, &key.constants, &context) {
                Ok((function, compiled)) => State::Ready { function, compiled },
                Err(error) => {
                    let why = format!("`{}`: {error}", key.kernel);
                    tracing::warn!("{why}");
                    State::Failed(why.into())
                }
            };
            self.set(key, state);
            let _waiting = self.lock();
            self.built.notify_all();
        });
        Ok(())
    }

    /// What became of a kernel, when it is no longer building.
    fn wait_for(&self, key: &Key) -> Option<State> {
        let mut waiting = self.lock();
        loop {
            match self.state(key) {
                Some(State::Building) => {
                    waiting = self
                        .built
                        .wait(waiting)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                other => return other,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.building.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads that compile.
fn pool() -> Result<&'static rayon::ThreadPool> {
    static POOL: OnceLock<std::result::Result<rayon::ThreadPool, String>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.min(MOST_THREADS))
            .thread_name(|number| format!("kernels for shapes {number}"))
            .build()
            .map_err(|error| format!("threads that compile kernels: {error}"))
    });
    pool.as_ref().map_err(|error| Error::Msg(error.clone()))
}

/// Compiles a kernel, or takes it from the cache, and loads it. Says whether it was compiled.
fn compiled(
    kernel: &Kernel,
    constants: &[Constant],
    context: &Arc<Context>,
) -> std::result::Result<(Function, bool), String> {
    static SPECIALISER: OnceLock<std::result::Result<Specialiser, specialised::Error>> =
        OnceLock::new();
    let specialiser = SPECIALISER
        .get_or_init(|| Specialiser::new(&SOURCES))
        .as_ref();
    let specialiser = specialiser.map_err(ToString::to_string)?;
    let code = specialiser
        .compile(kernel, constants, &context.info().arch)
        .map_err(|error| error.to_string())?;
    for notice in specialiser.finish() {
        tracing::warn!("{notice}");
    }
    let module = context.load_module(Image::from_binary(code.object));
    let function = module.and_then(|module| module.load_function(kernel.name));
    let function = function.map_err(|error| error.to_string())?;
    tracing::debug!(
        kernel = kernel.name,
        code.compiled,
        "a kernel for a shape is ready"
    );
    Ok((function, code.compiled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_three_choices() {
        assert_eq!(Choice::of(""), Ok(Choice::Asked));
        assert_eq!(Choice::of(" 0 "), Ok(Choice::Never));
        assert_eq!(Choice::of("1"), Ok(Choice::Always));
        let error = Choice::of("yes").unwrap_err();
        assert!(error.contains(VARIABLE) && error.contains("yes"), "{error}");
    }
}
