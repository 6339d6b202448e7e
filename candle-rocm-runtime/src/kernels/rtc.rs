//! Libraries that compile source in the process: AMD's hiprtc and NVIDIA's NVRTC, whose functions are the same.

use std::ffi::{c_char, c_int, c_void, CString};
use std::sync::OnceLock;

use crate::base::dynamic_library::{symbol, Found, Search};

/// Names NVIDIA's library, or its folder, and then the only place looked at.
const NVRTC_VARIABLE: &str = "CANDLE_ROCM_NVRTC_LIBRARY";

/// Where a library is, and what its functions are called.
pub(super) struct Kind {
    pub search: Search,
    /// How the names of its functions begin.
    pub prefix: &'static str,
    /// What it makes.
    pub code: &'static str,
}

const NVRTC: Kind = Kind {
    search: Search {
        variable: NVRTC_VARIABLE,
        roots: &[("CUDA_HOME", &["lib64"]), ("CUDA_PATH", &["lib64"])],
        rocm: &[],
        folders: &["/usr/local/cuda/lib64"],
        names: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
    },
    prefix: "nvrtc",
    code: "PTX",
};

/// A library's program.
type Program = *mut c_void;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// A loaded library.
pub(super) struct Rtc {
    path: String,
    version: Version,
    error_string: ErrorString,
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Get,
    code_size: Size,
    code: Get,
    destroy: Destroy,
}

/// NVIDIA's library; or in words what was tried.
pub(super) fn nvrtc() -> Result<&'static Rtc, &'static str> {
    static LOADED: OnceLock<Result<Rtc, String>> = OnceLock::new();
    let loaded = LOADED.get_or_init(|| Rtc::load(&NVRTC));
    loaded.as_ref().map_err(String::as_str)
}

/// A function of the library's, of this type.
macro_rules! function {
    ($found:expr, $type:ty, $name:expr) => {{
        let name: String = $name;
        let address = symbol($found.library, &name)
            .ok_or_else(|| format!("{} has no function {name}", $found.path))?;
        // SAFETY: the library's function of this name has this type in both vendors' headers.
        unsafe { std::mem::transmute::<*mut c_void, $type>(address.as_ptr()) }
    }};
}

impl Rtc {
    /// Loads a library.
    ///
    /// # Errors
    /// In words what was tried, or which function it has not.
    pub fn load(kind: &'static Kind) -> Result<Self, String> {
        let found: Found = kind.search.load()?;
        let (prefix, code) = (kind.prefix, kind.code);
        Ok(Self {
            version: function!(found, Version, format!("{prefix}Version")),
            error_string: function!(found, ErrorString, format!("{prefix}GetErrorString")),
            create: function!(found, Create, format!("{prefix}CreateProgram")),
            compile: function!(found, Compile, format!("{prefix}CompileProgram")),
            log_size: function!(found, Size, format!("{prefix}GetProgramLogSize")),
            log: function!(found, Get, format!("{prefix}GetProgramLog")),
            code_size: function!(found, Size, format!("{prefix}Get{code}Size")),
            code: function!(found, Get, format!("{prefix}Get{code}")),
            destroy: function!(found, Destroy, format!("{prefix}DestroyProgram")),
            path: found.path,
        })
    }

    /// Its path, as it was found.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it makes of a source with these headers, told these options, and what it says without failing.
    ///
    /// # Errors
    /// It refuses the source, or something in it has a zero byte: what it said.
    pub fn compile(
        &self,
        name: &str,
        text: &str,
        headers: &[(String, &str)],
        options: &[String],
    ) -> Result<(Vec<u8>, String), String> {
        let c = |text: &str| {
            CString::new(text).map_err(|_| format!("{name}: the source has a zero byte"))
        };
        let (c_name, c_text) = (c(name)?, c(text)?);
        let options = options.iter().map(|option| c(option));
        let options = options.collect::<Result<Vec<CString>, String>>()?;
        let names = headers.iter().map(|(name, _)| c(name));
        let names = names.collect::<Result<Vec<CString>, String>>()?;
        let texts = headers.iter().map(|(_, text)| c(text));
        let texts = texts.collect::<Result<Vec<CString>, String>>()?;
        let pointers = |all: &[CString]| all.iter().map(|one| one.as_ptr()).collect::<Vec<_>>();
        let (names, texts) = (pointers(&names), pointers(&texts));
        let mut raw = std::ptr::null_mut();
        // SAFETY: the place of a handle, and strings that end with zero, as many of names and texts as is said.
        let status = unsafe {
            (self.create)(
                &mut raw,
                c_text.as_ptr(),
                c_name.as_ptr(),
                names.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(status, "making a program")?;
        let program = Owned { of: self, raw };
        let arguments = pointers(&options);
        // SAFETY: the program lives, and there are as many options.
        let status = unsafe { (self.compile)(raw, arguments.len() as c_int, arguments.as_ptr()) };
        let log = program.text(self.log_size, self.log)?;
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]).into_owned();
        if status != 0 {
            let failed = self.check(status, "compiling").err().unwrap_or_default();
            return Err(if log.trim().is_empty() { failed } else { log });
        }
        Ok((program.text(self.code_size, self.code)?, log))
    }

    /// An error for a status that is not success.
    fn check(&self, status: c_int, what: &str) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library's strings are constants.
        let said = unsafe { (self.error_string)(status) };
        let said = match said.is_null() {
            true => format!("error {status}"),
            // SAFETY: not null, and a constant that ends with zero.
            false => unsafe { std::ffi::CStr::from_ptr(said) }
                .to_string_lossy()
                .into_owned(),
        };
        Err(format!("{what} by {}: {said}", self.path))
    }

    /// Its version: major and minor.
    pub fn version(&self) -> (c_int, c_int) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both outputs are writable. A failure leaves zeros.
        unsafe { (self.version)(&mut major, &mut minor) };
        (major, minor)
    }

    /// Has it load its compiler, which AMD's does with the first program.
    #[cfg(feature = "rtc")]
    pub fn load_compiler(&self) {
        let mut raw = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the place of a handle, strings that end with zero, and no headers.
        let status = unsafe { (self.create)(&mut raw, c"".as_ptr(), c"".as_ptr(), 0, none, none) };
        if status == 0 {
            drop(Owned { of: self, raw });
        }
    }
}

/// A program that is destroyed with this.
struct Owned<'a> {
    of: &'a Rtc,
    raw: Program,
}

impl Owned<'_> {
    /// What a pair of functions give: how many bytes, and those.
    fn text(&self, size: Size, get: Get) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program lives, and the output is writable.
        let status = unsafe { size(self.raw, &mut bytes) };
        self.of.check(status, "asking")?;
        let mut text = vec![0u8; bytes];
        if bytes != 0 {
            // SAFETY: memory of the size that the library gave.
            let status = unsafe { get(self.raw, text.as_mut_ptr().cast()) };
            self.of.check(status, "asking")?;
        }
        Ok(text)
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: made by the library, and destroyed once.
        unsafe { (self.of.destroy)(&mut self.raw) };
    }
}
