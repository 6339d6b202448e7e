//! NVIDIA's compute capabilities. They choose nothing on AMD GPUs: build scripts ask and tell, and get consistent answers.

use crate::error::{Error, Result};

/// What build scripts read and set.
const VARIABLE: &str = "CUDA_COMPUTE_CAP";

/// An architecture of NVIDIA's, such as 90a.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GpuArch {
    /// The number: 90.
    pub base: usize,
    /// What follows it: `a` or `f`.
    pub suffix: Option<String>,
}

impl GpuArch {
    /// Without a suffix.
    pub fn new(base: usize) -> Self {
        Self { base, suffix: None }
    }

    /// With one.
    pub fn with_suffix(base: usize, suffix: &str) -> Self {
        Self {
            base,
            suffix: Some(suffix.to_owned()),
        }
    }

    /// Of `80`, `8.0`, `90a` or `sm_90a`. A number of 90 and more gets the suffix that cudaforge gives it.
    ///
    /// # Errors
    /// It is no such name.
    pub fn parse(s: &str) -> Result<Self> {
        let lower = s.trim().to_lowercase();
        let name = lower.strip_prefix("sm_").unwrap_or(&lower);
        let digits = name.trim_end_matches(['a', 'f']);
        let wrong = || {
            Error::ComputeCapDetectionFailed(format!(
                "{s} is no compute capability; 80 and 90a are"
            ))
        };
        let base = match digits.split_once('.') {
            Some((major, minor)) => major
                .parse::<usize>()
                .and_then(|major| minor.parse::<usize>().map(|minor| major * 10 + minor)),
            None => digits.parse::<usize>(),
        };
        let base = base.map_err(|_| wrong())?;
        let base = if base < 20 { base * 10 } else { base };
        match &name[digits.len()..] {
            "" => Ok(Self::auto_suffix(base)),
            suffix @ ("a" | "f") => Ok(Self::with_suffix(base, suffix)),
            _ => Err(wrong()),
        }
    }

    /// With the suffix that cudaforge gives a number.
    pub fn auto_suffix(base: usize) -> Self {
        match base {
            ..90 => Self::new(base),
            90..=120 => Self::with_suffix(base, "a"),
            _ => Self::with_suffix(base, "f"),
        }
    }

    /// `sm_90a`
    pub fn to_nvcc_arch(&self) -> String {
        format!("sm_{self}")
    }

    /// `-gencode=arch=compute_90a,code=sm_90a`
    pub fn to_gencode_arg(&self) -> String {
        format!("-gencode=arch=compute_{self},code=sm_{self}")
    }

    /// The number.
    pub fn base(&self) -> usize {
        self.base
    }
}

impl std::fmt::Display for GpuArch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}{}",
            self.base,
            self.suffix.as_deref().unwrap_or_default()
        )
    }
}

impl From<usize> for GpuArch {
    fn from(base: usize) -> Self {
        Self::auto_suffix(base)
    }
}

/// Capabilities that a build script names, for all files and for some.
#[derive(Debug, Clone, Default)]
pub struct ComputeCapability {
    default: Option<GpuArch>,
    overrides: Vec<(String, GpuArch)>,
}

impl ComputeCapability {
    /// None named.
    pub fn new() -> Self {
        Self::default()
    }

    /// For all files.
    pub fn with_default(mut self, cap: usize) -> Self {
        self.default = Some(GpuArch::auto_suffix(cap));
        self
    }

    /// The same, by name; a name that is none is left out.
    pub fn with_default_arch(mut self, arch: &str) -> Self {
        self.default = GpuArch::parse(arch).ok().or(self.default);
        self
    }

    /// For files whose names fit a pattern.
    pub fn with_override(mut self, pattern: &str, cap: usize) -> Self {
        self.overrides
            .push((pattern.to_owned(), GpuArch::auto_suffix(cap)));
        self
    }

    /// The same, by name; a name that is none is left out.
    pub fn with_override_arch(mut self, pattern: &str, arch: &str) -> Self {
        if let Ok(arch) = GpuArch::parse(arch) {
            self.overrides.push((pattern.to_owned(), arch));
        }
        self
    }

    /// That of a file.
    ///
    /// # Errors
    /// As [`detect_compute_cap`], where none was named.
    pub fn get_for_file(&self, filename: &str) -> Result<GpuArch> {
        let fits = |pattern: &str| {
            glob::Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(filename))
        };
        match self.overrides.iter().find(|(pattern, _)| fits(pattern)) {
            Some((_, arch)) => Ok(arch.clone()),
            None => self.get_default(),
        }
    }

    /// That of all files.
    ///
    /// # Errors
    /// As [`detect_compute_cap`], where none was named.
    pub fn get_default(&self) -> Result<GpuArch> {
        self.default.clone().map_or_else(detect_compute_cap, Ok)
    }

    /// Whether some files have their own.
    pub fn has_overrides(&self) -> bool {
        !self.overrides.is_empty()
    }
}

/// What `CUDA_COMPUTE_CAP` says; else that of `__CUDA_ARCH__`, which sources are compiled with.
///
/// # Errors
/// The variable is no compute capability.
pub fn detect_compute_cap() -> Result<GpuArch> {
    match std::env::var(VARIABLE) {
        Ok(named) => GpuArch::parse(&named),
        Err(_) => Ok(GpuArch::new(rocm_nvcc::options::cuda_arch()? as usize / 10)),
    }
}

/// `sm_90a` of 90.
pub fn get_gpu_arch_string(compute_cap: usize) -> String {
    GpuArch::auto_suffix(compute_cap).to_nvcc_arch()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for (name, gencode) in [
            ("80", "-gencode=arch=compute_80,code=sm_80"),
            ("8.6", "-gencode=arch=compute_86,code=sm_86"),
            ("sm_90", "-gencode=arch=compute_90a,code=sm_90a"),
            ("121", "-gencode=arch=compute_121f,code=sm_121f"),
        ] {
            assert_eq!(GpuArch::parse(name).expect(name).to_gencode_arg(), gencode);
        }
        GpuArch::parse("gfx942").expect_err("AMD's");
    }

    #[test]
    fn files_have_their_own() {
        let caps = ComputeCapability::new()
            .with_default(80)
            .with_override("sm90_*.cu", 90);
        assert_eq!(caps.get_for_file("sm90_gemm.cu").expect("named").base, 90);
        assert_eq!(caps.get_for_file("gemm.cu").expect("named").base, 80);
    }
}
