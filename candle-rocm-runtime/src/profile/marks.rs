//! Ranges and marks told to another profiler: AMD's by roctx (ROCTx Developer API 1.0: `rocprofiler-sdk-roctx/roctx.h`), or
//! NVIDIA's by nvToolsExt (NVTX 2).

use std::ffi::{c_char, CString};
use std::sync::OnceLock;

use crate::base::dynamic_library::{function, Search};
use crate::runtime::{self, RuntimeKind};
use crate::variables;

/// A profiler's functions, of one library or the other.
pub(crate) struct Marks {
    mark: unsafe extern "C" fn(*const c_char),
    start: unsafe extern "C" fn(*const c_char) -> u64,
    stop: unsafe extern "C" fn(u64),
}

/// A library, its functions as [`Marks`] has them, and the variable that its profiler sets for programs that it starts.
struct Kind {
    search: Search,
    names: [&'static str; 3],
    profiler: &'static str,
}

const ROCTX: Kind = Kind {
    search: Search {
        variable: variables::RANGES_LIBRARY.name,
        roots: &[],
        rocm: &["lib"],
        folders: &[],
        // The older one is roctracer's, before ROCm 6.2.
        names: &[
            "librocprofiler-sdk-roctx.so.1",
            "librocprofiler-sdk-roctx.so",
            "libroctx64.so.4",
            "libroctx64.so",
        ],
    },
    names: ["roctxMarkA", "roctxRangeStartA", "roctxRangeStop"],
    profiler: "ROCPROF_MARKER_API_TRACE",
};

const NV_TOOLS_EXT: Kind = Kind {
    search: Search {
        variable: variables::RANGES_LIBRARY.name,
        roots: &[
            ("CUDA_HOME", &["lib64", "lib"]),
            ("CUDA_PATH", &["lib64", "lib"]),
        ],
        rocm: &[],
        folders: &["/usr/local/cuda/lib64"],
        names: &["libnvToolsExt.so.1", "libnvToolsExt.so"],
    },
    names: ["nvtxMarkA", "nvtxRangeStartA", "nvtxRangeEnd"],
    profiler: "NVTX_INJECTION64_PATH",
};

impl Kind {
    /// Whether anybody wants to be told.
    fn is_wanted(&self) -> bool {
        let is_set = |name: &str| {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        };
        match std::env::var(variables::RANGES.name).as_deref() {
            Ok("0") => false,
            Ok("1") => true,
            _ => is_set(self.profiler),
        }
    }

    fn load(&self) -> Result<Marks, String> {
        let found = self.search.load()?;
        let lacks = |name: &str| format!("{} has no function {name}", found.path);
        let [mark, start, stop] = self.names;
        // SAFETY: both libraries' functions of these names have these signatures, as their headers say.
        unsafe {
            Ok(Marks {
                mark: function(found.library, mark).map_err(lacks)?,
                start: function(found.library, start).map_err(lacks)?,
                stop: function(found.library, stop).map_err(lacks)?,
            })
        }
    }
}

/// The profiler that is told, if there is one. The environment is read once; a library that is wanted and does not load is
/// said once, by `tracing`.
pub(crate) fn marks() -> Option<&'static Marks> {
    static MARKS: OnceLock<Option<Marks>> = OnceLock::new();
    let found = MARKS.get_or_init(|| {
        let kind = match runtime::kind() {
            Ok(RuntimeKind::Nvidia) => &NV_TOOLS_EXT,
            _ => &ROCTX,
        };
        if !kind.is_wanted() {
            return None;
        }
        let loaded = kind.load();
        loaded
            .inspect_err(|reason| tracing::warn!("ranges are told to no profiler: {reason}"))
            .ok()
    });
    found.as_ref()
}

/// A name for C, without the zero bytes that it cannot hold.
fn c_name(name: &str) -> CString {
    let bytes: Vec<u8> = name.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

impl Marks {
    /// Marks a moment.
    pub fn mark(&self, name: &str) {
        // SAFETY: the library's function, and a C string.
        unsafe { (self.mark)(c_name(name).as_ptr()) }
    }

    /// Begins a range of the process, and returns its number.
    pub fn start(&self, name: &str) -> u64 {
        // SAFETY: the library's function, and a C string.
        unsafe { (self.start)(c_name(name).as_ptr()) }
    }

    /// Ends a range of the process. Of a number that none has nothing comes.
    pub fn stop(&self, number: u64) {
        // SAFETY: the library's function.
        unsafe { (self.stop)(number) }
    }
}
