//! Code that can be loaded on a GPU.

use std::path::PathBuf;

use crate::base::error::{Error, ErrorKind, Result};

/// Code that [`Context::load_module`](crate::context::Context::load_module) can be asked to load.
///
/// It stands where cudarc has PTX. Code for AMD GPUs is an ELF code object ("HSACO"), an offload bundle
/// of them, or text that holds some, as `cudaforge` and `bindgen_cuda` of this project write it in build scripts and
/// [`compile_text`](super::compile::compile_text) makes it; PTX or CUDA text is refused with an explanation.
#[derive(Clone, Debug)]
pub struct Image(pub(super) Source);

#[derive(Clone, Debug)]
pub(super) enum Source {
    /// One of the modules that candle-rocm-kernels embeds.
    Embedded(candle_rocm_kernels::Module),
    Bytes(Vec<u8>),
    File(PathBuf),
    Text(String),
}

impl Image {
    /// A code object in a file.
    pub fn from_file<P: Into<PathBuf>>(path: P) -> Self {
        Self(Source::File(path.into()))
    }

    /// A code object in memory.
    pub fn from_binary(bytes: Vec<u8>) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// Text that holds code objects. Loading other text fails, and says what makes code of it.
    pub fn from_src<S: Into<String>>(text: S) -> Self {
        Self(Source::Text(text.into()))
    }

    /// The bytes, if they are in memory.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Source::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl From<candle_rocm_kernels::Module> for Image {
    fn from(module: candle_rocm_kernels::Module) -> Self {
        Self(Source::Embedded(module))
    }
}

impl From<&candle_rocm_kernels::Module> for Image {
    fn from(module: &candle_rocm_kernels::Module) -> Self {
        Self(Source::Embedded(*module))
    }
}

impl From<Vec<u8>> for Image {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_binary(bytes)
    }
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Self {
        Self::from_binary(bytes.to_vec())
    }
}

impl From<&str> for Image {
    fn from(text: &str) -> Self {
        Self::from_src(text)
    }
}

impl From<String> for Image {
    fn from(text: String) -> Self {
        Self::from_src(text)
    }
}

/// Refuses what HIP would not understand, and says what it is instead.
pub(super) fn check_format(name: &str, image: &[u8]) -> Result<()> {
    const BUNDLES: [&[u8]; 2] = [b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"];
    if image.starts_with(b"\x7fELF") || BUNDLES.iter().any(|magic| image.starts_with(magic)) {
        return Ok(());
    }
    let what = if image.is_empty() {
        "is empty"
    } else {
        "is neither an ELF code object nor a clang offload bundle"
    };
    Err(Error::new(
        ErrorKind::Module,
        format!("{name} {what}. {}", super::text::HOW_CODE_IS_MADE),
    ))
}
