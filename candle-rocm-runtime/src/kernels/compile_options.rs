//! How CUDA source is compiled at run time.

/// Says which compiles for AMD GPUs: `hiprtc` or `clang`; without it hiprtc where it loads, else clang.
pub const COMPILER_VARIABLE: &str = "CANDLE_ROCM_CUDA_COMPILER";

/// How to compile. The fields are cudarc's; what is about NVIDIA's GPUs alone changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CompileOptions {
    /// Subnormal numbers as zeros. They are kept here.
    pub ftz: Option<bool>,
    /// Square roots rounded correctly, which they are but for `use_fast_math`.
    pub prec_sqrt: Option<bool>,
    /// Quotients rounded correctly, likewise.
    pub prec_div: Option<bool>,
    /// `a * b + c` rounded once, as on NVIDIA unless this is false.
    pub fmad: Option<bool>,
    /// Other options of NVRTC. One that is not known is an error.
    pub options: Vec<String>,
    /// Functions, quotients and roots faster than they are precise.
    pub use_fast_math: Option<bool>,
    /// NVIDIA's registers.
    pub maxrregcount: Option<usize>,
    /// Folders of headers. Those of CUDA, of the same names, are there in any case.
    pub include_paths: Vec<String>,
    /// NVIDIA's architecture. What is compiled for are this machine's GPUs.
    pub arch: Option<&'static str>,
    /// What messages call the source.
    pub name: Option<String>,
}

impl CompileOptions {
    /// As NVRTC has them, for this processor where they name none.
    pub(super) fn for_nvrtc(&self, arch: &str) -> Vec<String> {
        let mut all = Vec::new();
        let switches = [
            ("ftz", self.ftz),
            ("prec-sqrt", self.prec_sqrt),
            ("prec-div", self.prec_div),
            ("fmad", self.fmad),
        ];
        let switches = switches.into_iter();
        all.extend(switches.filter_map(|(name, on)| on.map(|on| format!("--{name}={on}"))));
        if self.use_fast_math == Some(true) {
            all.push("--use_fast_math".to_owned());
        }
        let registers = self.maxrregcount.iter();
        all.extend(registers.map(|count| format!("--maxrregcount={count}")));
        let folders = self.include_paths.iter();
        all.extend(folders.map(|folder| format!("--include-path={folder}")));
        let own = arch.replacen("sm_", "compute_", 1);
        all.push(format!("--gpu-architecture={}", self.arch.unwrap_or(&own)));
        all.extend(self.options.iter().cloned());
        all
    }
}
