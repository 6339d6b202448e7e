//! Kernels of `candle-rocm-kernels` compiled at run time, for the constants of a shape.
//!
//! What a kernel is told in its argument, such as the sizes of a model's weights, is the same in each of a program's
//! products with them. Compiled for those values a kernel has no edges that the shape has not, and addresses by
//! constants; it computes the same bits. The compiler, its flags and the cache are those of the build: a result is found
//! again by all that it was made of, and appears under its name at once and whole.
//!
//! ```no_run
//! # use include_dir::Dir;
//! # fn example(sources: &'static Dir<'static>) -> Result<(), rocm_toolchain::specialised::Error> {
//! use rocm_toolchain::specialised::{Kernel, Specialiser};
//!
//! // `candle_rocm_kernels::SOURCES`.
//! let specialiser = Specialiser::new(sources)?;
//! let kernel = Kernel {
//!     name: "grouped_bf16_128x128_tn",
//!     header: "matmul/grouped.cuh",
//!     invocation: "PRODUCT(bf16, 128x128, tn)",
//! };
//! let code = specialiser.compile(&kernel, &[("product.gemm.k", 4096)], "gfx942")?;
//! assert!(code.object.starts_with(b"\x7fELF"));
//! # Ok(())
//! # }
//! ```

use std::path::PathBuf;

use include_dir::Dir;

use crate::cache::Cache;
use crate::compile::{Compiler, Job};
use crate::error::Error as Cause;
use crate::key::Contents;
use crate::notice::Notices;
use crate::toolchain::Toolchain;
use crate::unpacked::Sources;
use crate::workers::Outcome;

/// Why there is no kernel for a shape.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no compiler, or no folder to write to. The text says what to do.
    #[error("compiling kernels for a shape: {0}")]
    Setup(Cause),
    /// The compiler's own words.
    #[error("compiling a kernel for a shape: {0}")]
    Compile(Cause),
}

/// A kernel of `candle-rocm-kernels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// Its name in the code object.
    pub name: &'a str,
    /// The header that has the macro which makes it, below the kernels' folder.
    pub header: &'a str,
    /// The macro, with its arguments.
    pub invocation: &'a str,
}

/// What a field of the kernel's argument holds in each launch: the field, as in `product.gemm.k`, and the value.
pub type Constant = (&'static str, i64);

/// A compiled kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// The code object, ready to be loaded.
    pub object: Vec<u8>,
    /// Whether it was compiled now, as against found in the cache.
    pub compiled: bool,
}

/// Finds the compiler and the cache once, and compiles kernels.
pub struct Specialiser {
    toolchain: Toolchain,
    cache: Cache,
    sources: PathBuf,
    /// What the user's cache cannot take.
    _aside: Option<tempfile::TempDir>,
}

impl Specialiser {
    /// With the compiler and the cache of the environment, as the build of the kernels takes them: `CANDLE_ROCM_CLANG`,
    /// `CANDLE_ROCM_KERNEL_CACHE` and the others. `sources` are the kernels' headers.
    ///
    /// # Errors
    /// There is no compiler, or no folder to write to.
    pub fn new(sources: &'static Dir<'static>) -> Result<Self, Error> {
        let toolchain = Toolchain::find().map_err(|missing| Error::Setup(missing.into()))?;
        let aside = temporary()?;
        let cache = Cache::of_environment(aside.path()).map_err(Error::Setup)?;
        let sources = Sources::new("kernel-sources", sources);
        let sources = sources.folder(aside.path()).map_err(Error::Setup)?;
        let is_needed = [cache.folder(), &sources]
            .iter()
            .any(|path| path.starts_with(aside.path()));
        Ok(Self {
            toolchain,
            cache,
            sources,
            _aside: is_needed.then_some(aside),
        })
    }

    /// Compiles `kernel` for a GPU (`gfx942`, `sm_90`), where each launch's argument has these constants. Waits for another
    /// process that compiles the same.
    ///
    /// # Errors
    /// The compiler fails, or knows no such GPU; or a file cannot be written.
    pub fn compile(
        &self,
        kernel: &Kernel,
        constants: &[Constant],
        arch: &str,
    ) -> Result<Code, Error> {
        let folder = temporary()?;
        let failed = |error: std::io::Error| Error::Setup(Cause::file(folder.path())(error));
        let source = folder.path().join(kernel.name).with_extension("cu");
        std::fs::write(&source, text(kernel, constants)).map_err(failed)?;
        let contents = Contents::new(vec![self.sources.clone(), folder.path().to_owned()]);
        let compiler = Compiler {
            toolchain: &self.toolchain,
            contents: &contents,
            cache: &self.cache,
            out: folder.path(),
        };
        let job = Job {
            source,
            arch: arch.to_owned(),
        };
        let object = match compiler.object(&job, true).map_err(Error::Compile)? {
            Outcome::Done(object) => object,
            Outcome::Busy => return Err(Error::Compile(Cause::Busy(kernel.name.to_owned()))),
        };
        let frame = std::fs::read(&object.path).map_err(failed)?;
        Ok(Code {
            object: zstd::decode_all(frame.as_slice()).map_err(failed)?,
            compiled: object.compiled.is_some(),
        })
    }

    /// Holds the cache to its size. Returns what was wrong with it, without harm to what was compiled.
    pub fn finish(&self) -> Notices {
        self.cache.finish()
    }
}

/// A folder that goes with its last user.
fn temporary() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|error| Error::Setup(Cause::file(&std::env::temp_dir())(error)))
}

/// The source of a kernel for its constants. Compilers take what is assumed as given, and drop the loads of it.
fn text(kernel: &Kernel, constants: &[Constant]) -> String {
    let known: Vec<String> = constants
        .iter()
        .map(|(field, value)| format!("__builtin_assume((p).{field} == {value})"))
        .collect();
    format!(
        "#define KNOWN(p) {}\n#include \"{}\"\n{}\n",
        known.join("; "),
        kernel.header,
        kernel.invocation
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_says_what_is_known() {
        let kernel = Kernel {
            name: "k",
            header: "a/b.cuh",
            invocation: "MAKE(k)",
        };
        let expected =
            "#define KNOWN(p) __builtin_assume((p).m == 3); __builtin_assume((p).n == -1)\n\
                        #include \"a/b.cuh\"\nMAKE(k)\n";
        assert_eq!(text(&kernel, &[("m", 3), ("n", -1)]), expected);
    }
}
