//! Which HIP the process runs on, and how many GPUs it has.
//!
//! A process has one runtime. `CANDLE_ROCM_RUNTIME=amd|emulator|nvidia` chooses it, or [`select`] before
//! the first use; the default is `amd`. There is no silent fall back: no GPU is an error that says what
//! was tried and how to ask for the emulator.

pub mod least_release;
pub mod machine;

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rocm_toolchain::topology;

use crate::base::dynamic_library;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::hip;
use crate::base::hip::table::HipTable;
use crate::base::hip::types::{HIP_ERROR_NO_DEVICE, HIP_SUCCESS};
use crate::runtime::machine::{of_environment, Machine};

/// The variable that chooses the runtime.
pub const RUNTIME_VARIABLE: &str = candle_rocm_variables::RUNTIME.name;

/// A provider of HIP's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuntimeKind {
    /// AMD's libamdhip64, on AMD GPUs.
    Amd,
    /// rocm-emulator: an AMD GPU in software, in this process.
    Emulator,
    /// The CUDA driver, on NVIDIA GPUs.
    Nvidia,
}

impl RuntimeKind {
    /// Every runtime, with the word that chooses it.
    pub const ALL: [(RuntimeKind, &'static str); 3] = [
        (RuntimeKind::Amd, "amd"),
        (RuntimeKind::Emulator, "emulator"),
        (RuntimeKind::Nvidia, "nvidia"),
    ];
}

impl fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::ALL[*self as usize];
        f.write_str(name)
    }
}

impl FromStr for RuntimeKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find_map(|(kind, name)| name.eq_ignore_ascii_case(text).then_some(kind))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Runtime,
                    format!("{RUNTIME_VARIABLE}={text}: the runtimes are amd, emulator and nvidia"),
                )
            })
    }
}

/// The runtime that the process runs on.
pub struct Runtime {
    kind: RuntimeKind,
    hip: HipTable,
    library: String,
    version: i32,
    device_count: usize,
}

static CURRENT: OnceLock<Runtime> = OnceLock::new();
static STARTING: Mutex<Option<RuntimeKind>> = Mutex::new(None);

/// Chooses the runtime in place of `CANDLE_ROCM_RUNTIME`, and starts it.
///
/// # Errors
/// The runtime cannot be started, or another one already runs in this process. After a failure another
/// runtime can still be selected, which is how a program falls back to the emulator and says so.
pub fn select(kind: RuntimeKind) -> Result<&'static Runtime> {
    let mut chosen = STARTING.lock();
    if let Some(current) = CURRENT.get() {
        if current.kind == kind {
            return Ok(current);
        }
        return Err(Error::new(
            ErrorKind::Runtime,
            format!(
                "the {} runtime is already in use; {kind} must be selected before the first use of a device",
                current.kind
            ),
        ));
    }
    let runtime = Runtime::start(kind)?;
    *chosen = Some(kind);
    Ok(CURRENT.get_or_init(|| runtime))
}

/// What the environment asks for.
fn asked() -> Result<RuntimeKind> {
    match std::env::var(RUNTIME_VARIABLE) {
        Ok(text) if !text.is_empty() => text.parse(),
        _ => Ok(RuntimeKind::Amd),
    }
}

/// The runtime of the process, or the one that the first use would start.
pub(crate) fn kind() -> Result<RuntimeKind> {
    CURRENT.get().map_or_else(asked, |current| Ok(current.kind))
}

/// The runtime of the process, started now if this is the first use.
pub fn current() -> Result<&'static Runtime> {
    if let Some(runtime) = CURRENT.get() {
        return Ok(runtime);
    }
    match select(asked()?) {
        // Another thread selected a runtime in the meantime: that one it is.
        Err(error) => CURRENT.get().ok_or(error),
        Ok(runtime) => Ok(runtime),
    }
}

impl Runtime {
    fn start(kind: RuntimeKind) -> Result<Self> {
        let (hip, library) = match kind {
            RuntimeKind::Amd => hip::amd::load()?,
            #[cfg(feature = "emulator")]
            RuntimeKind::Emulator => (hip::emulator::table()?, "rocm-emulator".to_owned()),
            #[cfg(not(feature = "emulator"))]
            RuntimeKind::Emulator => {
                return Err(Error::new(ErrorKind::Runtime, hip::NO_EMULATOR))
            }
            #[cfg(feature = "nvidia")]
            RuntimeKind::Nvidia => hip::nvidia::load()?,
            #[cfg(not(feature = "nvidia"))]
            RuntimeKind::Nvidia => {
                return Err(Error::new(
                    ErrorKind::Runtime,
                    "this program was built without the nvidia runtime; build candle-rocm-runtime with the cargo feature `nvidia`",
                ))
            }
        };
        let mut count = 0;
        // SAFETY: the table's functions are HIP's; `count` is writable.
        let status = unsafe {
            let status = (hip.hipInit)(0);
            if status == HIP_SUCCESS {
                (hip.hipGetDeviceCount)(&mut count)
            } else {
                status
            }
        };
        if status != HIP_SUCCESS && status != HIP_ERROR_NO_DEVICE {
            return Err(hip.error(status, format!("counting the GPUs through {library}")));
        }
        if status == HIP_ERROR_NO_DEVICE || count < 1 {
            return Err(no_device(kind, &library, &hip));
        }
        let mut version = 0;
        if let Some(get_version) = hip.hipRuntimeGetVersion {
            // SAFETY: `version` is writable. A failure leaves it 0, which only affects what is printed.
            unsafe { get_version(&mut version) };
        }
        tracing::debug!(%kind, %library, version, count, "HIP runtime started");
        Ok(Self {
            kind,
            hip,
            library,
            version,
            device_count: count as usize,
        })
    }

    /// Which provider this is.
    pub fn kind(&self) -> RuntimeKind {
        self.kind
    }

    /// HIP's functions.
    pub fn hip(&self) -> &HipTable {
        &self.hip
    }

    /// The library behind it, as found.
    pub fn library(&self) -> &str {
        &self.library
    }

    /// `hipRuntimeGetVersion`: major * 10,000,000 + minor * 100,000 + patch; 0 if unknown.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The release that HIP says it is, such as `7.2.53211`; none of other runtimes, or if it does not say.
    pub fn release(&self) -> Option<String> {
        let said = self.kind == RuntimeKind::Amd && self.version > 0;
        said.then(|| least_release::shown(self.version))
    }

    /// How many GPUs there are, at least 1.
    pub fn device_count(&self) -> usize {
        self.device_count
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Runtime({}, {}, {} devices)",
            self.kind, self.library, self.device_count
        )
    }
}

/// What the last search for HIP's library tried, a line each, if it failed. The first error of a process has it, too.
pub fn libraries_tried() -> Option<String> {
    dynamic_library::tried(hip::amd::LIBRARY_VARIABLE)
}

fn no_device(kind: RuntimeKind, library: &str, hip: &HipTable) -> Error {
    let advice = match kind {
        RuntimeKind::Emulator => hip.last_fault().unwrap_or_else(|| {
            "ROCM_EMU_ARCH names the emulated GPUs, such as gfx1100 or gfx942,gfx942".to_owned()
        }),
        RuntimeKind::Nvidia => {
            "nvidia-smi must list one, CUDA_VISIBLE_DEVICES not hide it, and a container be started with --gpus all"
                .to_owned()
        }
        RuntimeKind::Amd => {
            let nodes = topology::gpus(Path::new("/")).unwrap_or_default();
            let machine = Machine {
                listed: Vec::new(),
                variables: Machine::variables(&nodes, &of_environment),
                nodes,
            };
            let driver = match Path::new("/dev/kfd").exists() {
                true => machine.nothing_listed().unwrap_or_else(|| {
                    "the amdgpu driver is there (/dev/kfd): check that this user may open it (groups render and video)"
                        .to_owned()
                }),
                false => "the amdgpu driver is not there (no /dev/kfd)".to_owned(),
            };
            format!(
                "{driver}. candle_rocm_backend::doctor and cargo xtask doctor tell more. {}",
                hip::without_gpu()
            )
        }
    };
    Error::new(
        ErrorKind::NoDevice,
        format!("{library} was loaded, but finds no GPU: {advice}"),
    )
}
