//! What stands where CUDA's toolkit would.

use std::path::PathBuf;

use rocm_nvcc::Compiler;

use crate::error::{Error, Result};

/// The compiler and the headers.
#[derive(Debug, Clone)]
pub struct CudaToolkit {
    /// The compiler: clang, whose options are not nvcc's.
    pub nvcc_path: PathBuf,
    /// The headers under CUDA's names.
    pub include_dir: PathBuf,
    /// Nothing is linked from here.
    pub lib_dir: PathBuf,
    /// The version of CUDA whose names the headers follow.
    pub version: Option<String>,
}

impl CudaToolkit {
    /// The one that kernels are compiled with.
    ///
    /// # Errors
    /// There is no compiler for AMD GPUs; says what to install.
    pub fn detect() -> Result<Self> {
        let compiler = Compiler::from_environment(&std::env::temp_dir().join("candle-rocm"))?;
        let headers = compiler.headers().to_owned();
        Ok(Self {
            nvcc_path: compiler.clang().0.to_owned(),
            lib_dir: headers.clone(),
            include_dir: headers,
            version: Some("12.8".to_owned()),
        })
    }

    /// The same, if the path is there: whatever it is, kernels are compiled for AMD GPUs.
    ///
    /// # Errors
    /// It is not there, or as [`CudaToolkit::detect`].
    pub fn from_nvcc_path(nvcc_path: PathBuf) -> Result<Self> {
        match nvcc_path.exists() {
            true => Self::detect(),
            false => Err(Error::CudaToolkitNotFound(nvcc_path)),
        }
    }

    /// What build scripts choose among: the one that sources are compiled as; none if the environment names no number.
    pub fn supported_architectures(&self) -> Vec<usize> {
        let arch = rocm_nvcc::options::cuda_arch();
        arch.into_iter().map(|arch| arch as usize / 10).collect()
    }
}
