//! Code that can be loaded on a GPU.

use std::path::PathBuf;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSegment};

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

    /// The text: what [`compile_text`](super::compile::compile_text) made, [`Image::from_src`] was given, or the file holds.
    ///
    /// # Panics
    /// As cudarc's: it is made of bytes, or of one of our modules; or the file is no text that can be read.
    #[allow(clippy::wrong_self_convention)] // The name is cudarc's.
    pub fn to_src(&self) -> String {
        match &self.0 {
            Source::Text(text) => text.clone(),
            Source::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) => panic!("no text in {}: {error}", path.display()),
            },
            Source::Bytes(_) | Source::Embedded(_) => {
                panic!("a code object is no text: make the image by from_src, from_file or compile_ptx")
            }
        }
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

/// Refuses what HIP would not understand, and says what it is instead. HIP is told where an image begins, and follows its
/// headers: bytes that they announce and that are not there would be somebody else's.
pub(super) fn check_format(name: &str, image: &[u8]) -> Result<()> {
    let what = if image.is_empty() {
        "is empty".to_owned()
    } else if image.starts_with(b"\x7fELF") {
        match whole_elf(image) {
            Ok(()) => return Ok(()),
            Err(error) => format!("is no whole ELF code object: {error}"),
        }
    } else if image.starts_with(BUNDLE) || image.starts_with(COMPRESSED_BUNDLE) {
        match bundle_size(image) {
            Some(size) if size <= image.len() as u64 => return Ok(()),
            Some(size) => format!(
                "has {} of the {size} bytes of an offload bundle",
                image.len()
            ),
            None => "ends within an offload bundle's header".to_owned(),
        }
    } else {
        "is neither an ELF code object nor a clang offload bundle".to_owned()
    };
    Err(Error::new(
        ErrorKind::Module,
        format!("{name} {what}. {}", super::text::HOW_CODE_IS_MADE),
    ))
}

/// Whether all that an ELF file's tables announce is there.
fn whole_elf(image: &[u8]) -> object::Result<()> {
    let file = ElfFile64::<Endianness>::parse(image)?;
    for section in file.sections() {
        section.data()?;
    }
    for segment in file.segments() {
        segment.data()?;
    }
    Ok(())
}

const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_BUNDLE: &[u8] = b"CCOB";

/// The bytes that a bundle's header announces (clang's "ClangOffloadBundler"), if that is there: of a plain one up to the
/// end of the last entry, of a compressed one what it says, which version 1 does not.
fn bundle_size(image: &[u8]) -> Option<u64> {
    let number = |at: usize, width: usize| {
        let field = image.get(at..)?.get(..width)?;
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(field);
        Some(u64::from_le_bytes(bytes))
    };
    if image.starts_with(COMPRESSED_BUNDLE) {
        return match number(4, 2)? {
            1 => Some(0),
            2 => number(8, 4),
            _ => number(8, 8),
        };
    }
    // A count, then of each entry offset, size, and an identifier after its length.
    let mut at = BUNDLE.len() + 8;
    let mut size = 0;
    for _ in 0..number(BUNDLE.len(), 8)? {
        let end = number(at, 8)?.checked_add(number(at + 8, 8)?)?;
        let identifier = usize::try_from(number(at + 16, 8)?).ok()?;
        size = size.max(end);
        at = at.checked_add(24)?.checked_add(identifier)?;
    }
    Some(size.max(at as u64))
}
