//! Code objects on a GPU, and the kernels in them.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

use candle_rocm_kernels::launch_heuristics::{self, LaunchHeuristic};
use candle_rocm_kernels::symbols::{last_argument, symbol};
use candle_rocm_kernels::{architectures, architectures_reason, KernelError};
use foldhash::fast::RandomState;
use parking_lot::RwLock;

use super::function::{Instead, LoadedFunction};
use super::image::{check_format, Source};
use super::no_code::{no_code, passes_for_others};
use super::report::ModuleReport;
use super::text;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip::calls::optional;
use crate::base::hip::types::*;
use crate::device::gpu::Device;
use crate::device::per_device::PerDevice;
use crate::memory::view::ViewMut;
use crate::runtime::RuntimeKind;
use crate::stream::context::Context;
use crate::stream::event::UseMark;
use crate::stream::queue::Stream;

pub use super::compile::{compile_text, compile_text_with, CompileOptions, COMPILER_VARIABLE};
pub use super::image::Image;

/// The embedded modules on each GPU, by name.
static EMBEDDED: PerDevice<RwLock<EmbeddedModules>> = PerDevice::new();

type EmbeddedModules = HashMap<&'static str, Arc<LoadedModule>, RandomState>;

/// A code object that HIP has loaded on a GPU. It unloads when the last kernel of it is dropped.
pub(crate) struct LoadedModule {
    raw: hipModule_t,
    device: &'static Arc<Device>,
    name: String,
    /// Whether the module is one of ours, whose kernels we know.
    embedded: bool,
    /// Where its kernels say why they trap, if they do.
    report: Option<ModuleReport>,
    /// Looked up for each launch of Candle's.
    functions: RwLock<HashMap<String, Arc<LoadedFunction>, RandomState>>,
}

// SAFETY: HIP's modules may be used from any thread.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; HIP locks its own state.
unsafe impl Sync for LoadedModule {}

impl LoadedModule {
    fn load(device: &Arc<Device>, name: &str, image: &[u8], embedded: bool) -> Result<Self> {
        if device.runtime().kind() != RuntimeKind::Nvidia {
            check_format(name, image)?;
        }
        device.bind()?;
        let hip = device.hip();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image has a code object's or a bundle's magic number, and those formats say their
        // own size; HIP copies what it needs.
        let load = || unsafe { (hip.hipModuleLoadData)(&mut raw, image.as_ptr().cast()) };
        let status = hip.relaxed(load);
        if status != HIP_SUCCESS {
            let error = hip.error(
                status,
                format!(
                    "loading {name} ({} bytes) on {}",
                    image.len(),
                    device.info().arch
                ),
            );
            let advice = if status == HIP_ERROR_NO_BINARY_FOR_GPU {
                ". The code was compiled for another architecture"
            } else {
                ""
            };
            return Err(Error::new(
                ErrorKind::Module,
                format!("{}{advice}", error.message()),
            ));
        }
        let report = ModuleReport::of_module(device, raw, image).unwrap_or_else(|error| {
            // The kernels work without it.
            tracing::warn!(module = name, %error, "traps of this module will not say why");
            None
        });
        Ok(Self {
            raw,
            report,
            // Devices live as long as the process, so that a module can outlive every context.
            device: device.runtime().device(device.ordinal())?,
            name: name.to_owned(),
            embedded,
            functions: RwLock::default(),
        })
    }

    pub(crate) fn function(&self, name: &str) -> Result<Arc<LoadedFunction>> {
        if let Some(function) = self.functions.read().get(name) {
            return Ok(function.clone());
        }
        let symbol = match self.embedded {
            true => symbol(&self.name, name),
            false => name.into(),
        };
        let c_name = CString::new(symbol.as_bytes())
            .map_err(|_| Error::invalid(format!("kernel name {name:?} holds a NUL byte")))?;
        self.device.bind()?;
        let hip = self.device.hip();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends in NUL, the output is writable.
        let status = unsafe { (hip.hipModuleGetFunction)(&mut raw, self.raw, c_name.as_ptr()) };
        if status != HIP_SUCCESS {
            let error = hip.error(
                status,
                format!("no kernel `{name}` in module `{}`", self.name),
            );
            return Err(Error::new(ErrorKind::KernelNotFound, error.message()));
        }
        let attribute = |attribute: u32| {
            let get = hip.hipFuncGetAttribute?;
            let mut value = 0;
            // SAFETY: the function is loaded and the output is writable.
            let status = unsafe { get(&mut value, attribute, raw) };
            (status == HIP_SUCCESS && value >= 0).then_some(value as u32)
        };
        let limit = self.device.info().max_threads_per_block;
        let function = Arc::new(LoadedFunction {
            raw,
            name: name.to_owned(),
            // Unknown attributes leave the check to HIP.
            max_threads: attribute(FUNC_MAX_THREADS_PER_BLOCK)
                .filter(|&n| n != 0)
                .unwrap_or(limit),
            static_lds: attribute(FUNC_SHARED_SIZE_BYTES).unwrap_or(0),
            heuristic: if self.embedded {
                LaunchHeuristic::of(&self.name, name)
            } else {
                LaunchHeuristic::AsAsked
            },
            element_bytes: launch_heuristics::element_bytes(name),
            last_argument: self
                .embedded
                .then(|| last_argument(&self.name, name))
                .flatten(),
            instead: self
                .embedded
                .then(|| Instead::of(&self.name, name))
                .flatten(),
        });
        Ok(self
            .functions
            .write()
            .entry(name.to_owned())
            .or_insert(function)
            .clone())
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        let hip = self.device.hip();
        let result = self.device.bind().and_then(|()| {
            // SAFETY: loaded by this object, unloaded once.
            let status = hip.relaxed(|| unsafe { (hip.hipModuleUnload)(self.raw) });
            hip.check(status, || format!("unloading module `{}`", self.name))?;
            self.report
                .take()
                .map_or(Ok(()), |report| report.free(self.device))
        });
        if let Err(error) = result {
            self.device.sticky().set(error);
        }
    }
}

/// A code object on a GPU.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<LoadedModule>,
    context: Arc<Context>,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.loaded.name)
    }
}

impl Context {
    /// Loads code on the GPU. The embedded modules are loaded once for each GPU and shared by its
    /// contexts.
    ///
    /// # Errors
    /// The program or the text embeds no code for this architecture (the error lists those it has), the bytes are no
    /// code object, the file cannot be read, or the text is a program's.
    pub fn load_module(self: &Arc<Self>, image: Image) -> Result<Arc<Module>> {
        self.bind_to_thread()?;
        let device = self.device();
        let loaded = match image.0 {
            Source::Embedded(module) => embedded(device, &module)?,
            Source::Bytes(bytes) => loaded(device, "the code object", &bytes)?,
            Source::File(path) => {
                let name = path.display().to_string();
                let bytes = std::fs::read(&path).map_err(|error| {
                    Error::new(ErrorKind::Module, format!("reading {name}: {error}"))
                })?;
                loaded(device, &name, &bytes)?
            }
            // NVIDIA's driver compiles PTX.
            Source::Text(text)
                if device.runtime().kind() == RuntimeKind::Nvidia && text::is_ptx(&text) =>
            {
                let ptx = format!("{text}\0");
                Arc::new(LoadedModule::load(
                    device,
                    "the PTX",
                    ptx.as_bytes(),
                    false,
                )?)
            }
            Source::Text(text) => {
                let (name, code) = text::code_object(&text, device)?;
                Arc::new(LoadedModule::load(device, &name, &code, false)?)
            }
        };
        Ok(Arc::new(Module {
            loaded,
            context: self.clone(),
        }))
    }

    /// A kernel of one of the embedded modules, which is loaded now if it was not.
    pub fn kernel(
        self: &Arc<Self>,
        module: &candle_rocm_kernels::Module,
        name: &str,
    ) -> Result<Function> {
        self.check_err()?;
        let module = embedded(self.device(), module)?;
        Ok(Function {
            loaded: module.function(name)?,
            module,
        })
    }
}

/// Bytes from elsewhere on a GPU: a code object, a bundle, or text that holds some.
fn loaded(device: &Arc<Device>, name: &str, bytes: &[u8]) -> Result<Arc<LoadedModule>> {
    let code;
    let bytes = match std::str::from_utf8(bytes) {
        Ok(text) if rocm_toolchain::text::is_encoded(text) => {
            (_, code) = text::code_object(text, device)?;
            code.as_slice()
        }
        _ => bytes,
    };
    Ok(Arc::new(LoadedModule::load(device, name, bytes, false)?))
}

fn what(module: &candle_rocm_kernels::Module) -> String {
    format!("kernel module `{}`", module.name())
}

/// One of the embedded modules on a GPU, which is loaded now if it was not.
pub(crate) fn embedded(
    device: &Arc<Device>,
    module: &candle_rocm_kernels::Module,
) -> Result<Arc<LoadedModule>> {
    let name = module.name();
    let modules = EMBEDDED.get_or_init(device, RwLock::default);
    if let Some(loaded) = modules.read().get(name) {
        return Ok(loaded.clone());
    }
    // Held while it is loaded, so that it is loaded once.
    let mut modules = modules.write();
    if let Some(loaded) = modules.get(name) {
        return Ok(loaded.clone());
    }
    if passes_for_others(device) {
        return Err(no_code(
            device,
            &what(module),
            architectures(),
            architectures_reason(),
        ));
    }
    let code = module
        .code_object(&device.info().arch)
        .map_err(|error| match error {
            KernelError::NotEmbedded { .. } => no_code(
                device,
                &what(module),
                architectures(),
                architectures_reason(),
            ),
            other => Error::new(ErrorKind::Module, other.to_string()),
        })?;
    let loaded = Arc::new(LoadedModule::load(device, name, &code, true)?);
    tracing::debug!(module = name, arch = device.info().arch, "kernels loaded");
    modules.insert(name, loaded.clone());
    Ok(loaded)
}

impl Module {
    /// HIP's handle. It lives as long as this object.
    pub(crate) fn raw(&self) -> hipModule_t {
        self.loaded.raw
    }

    /// The kernel of this name.
    pub fn load_function(self: &Arc<Self>, name: &str) -> Result<Function> {
        Ok(Function {
            loaded: self.loaded.function(name)?,
            module: self.loaded.clone(),
        })
    }

    /// The global variable of this name, as bytes.
    pub fn get_global<'a>(
        self: &'a Arc<Self>,
        name: &str,
        stream: &'a Arc<Stream>,
    ) -> Result<ViewMut<'a, u8>> {
        static UNTRACKED: Option<UseMark> = None;
        let c_name = CString::new(name)
            .map_err(|_| Error::invalid(format!("variable name {name:?} holds a NUL byte")))?;
        self.context.bind_to_thread()?;
        let hip = self.context.device().hip();
        let get = optional!(hip, hipModuleGetGlobal)?;
        let (mut ptr, mut len) = (std::ptr::null_mut(), 0);
        // SAFETY: the module is loaded, the name ends in NUL, the outputs are writable.
        let status = unsafe { get(&mut ptr, &mut len, self.loaded.raw, c_name.as_ptr()) };
        hip.check(status, || {
            format!("no variable `{name}` in module `{}`", self.loaded.name)
        })?;
        Ok(ViewMut {
            ptr: ptr as u64,
            len,
            read: &UNTRACKED,
            write: &UNTRACKED,
            stream,
            marker: std::marker::PhantomData,
        })
    }
}

/// A kernel on a GPU.
#[derive(Clone)]
pub struct Function {
    pub(crate) loaded: Arc<LoadedFunction>,
    pub(crate) module: Arc<LoadedModule>,
}

impl Function {
    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.loaded.name
    }

    /// The largest workgroup that the kernel was compiled for, in work-items.
    pub fn largest_workgroup(&self) -> u32 {
        self.loaded.max_threads
    }

    /// LDS bytes that the kernel has of its own, beside what a launch adds.
    pub fn static_lds_bytes(&self) -> u32 {
        self.loaded.static_lds
    }

    pub(crate) fn device(&self) -> &'static Arc<Device> {
        self.module.device
    }

    /// Whether it is one of ours.
    pub(crate) fn is_embedded(&self) -> bool {
        self.module.embedded
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({} in {})", self.name(), self.module.name)
    }
}
