//! Objects and static libraries whose host code launches their kernels (`<<<>>>`).
//!
//! An object holds its kernels as [`crate::text`], for all architectures, in the place where clang puts HIP's bundle. When a
//! program starts, the object registers them by HIP's functions (`__hipRegisterFatBinary` and its kin), and it launches by
//! `hipLaunchKernel`. candle-rocm-runtime exports these, and the CUDA runtime's functions: a program that links such a library
//! needs nothing else, and what it launches runs on the runtime that the process chose.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocm_toolchain::workers::{self, Outcome};
use xxhash_rust::xxh3::xxh3_128;

use crate::compiler::{self, Compiler, Side};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::program::Source;
use crate::text;

/// An object file: host code, with the kernels that it launches.
#[derive(Clone, Debug)]
pub struct HostObject {
    /// The source's name without folder and extension.
    pub name: String,
    /// The file's bytes.
    pub object: Vec<u8>,
    /// The user's files that it was made of.
    pub dependencies: Vec<PathBuf>,
    /// What the compiler said without failing.
    pub warnings: String,
}

impl Compiler {
    /// Both sides of several sources, side by side: kernels for all architectures, and host code that launches them.
    ///
    /// # Errors
    /// The first source that does not compile for a GPU or for the host, or a file that cannot be read.
    pub fn compile_objects(&self, sources: &[(Source, Options)]) -> Result<Vec<HostObject>> {
        let programs = self.compile_all(sources)?;
        let made = workers::run(self.threads, sources.len(), |index, wait| {
            let (source, options) = &sources[index];
            // C's strings end in NUL, and the runtime learns the address alone.
            let kernels = text::encode(&programs[index]) + "\0";
            match self.host_object(source, options, &kernels, wait) {
                Err(error @ Error::Compile { .. }) => {
                    self.around_device_code(source, options, &kernels, wait, error)
                }
                other => other,
            }
        });
        let mut objects = made.map_err(compiler::first)?;
        for (object, program) in objects.iter_mut().zip(programs) {
            object.name = program.name;
            object.dependencies.extend(program.dependencies);
            object.dependencies.sort();
            object.dependencies.dedup();
            if object.warnings.is_empty() {
                object.warnings = program.warnings;
            }
        }
        Ok(objects)
    }

    /// The same again, with device code in sight of host code. Without that, `error` was; it is a warning then.
    fn around_device_code(
        &self,
        source: &Source,
        options: &Options,
        kernels: &str,
        wait: bool,
        error: Error,
    ) -> Result<Outcome<HostObject>> {
        let Ok(options) = options.with_device_code() else {
            return Err(error);
        };
        match self.host_object(source, &options, kernels, wait) {
            Ok(Outcome::Done(mut object)) => {
                let text = error.to_string();
                let first = text.lines().find(|line| line.contains("error:"));
                object.warnings = format!(
                    "{}: host code was compiled with __CUDA_ARCH__ defined, as it does not compile without: {}\n{}",
                    source.name().display(),
                    first.unwrap_or(&text),
                    object.warnings
                );
                Ok(Outcome::Done(object))
            }
            Ok(busy) => Ok(busy),
            Err(_) => Err(error),
        }
    }

    /// Host code of one source, around its kernels.
    fn host_object(
        &self,
        source: &Source,
        options: &Options,
        kernels: &str,
        wait: bool,
    ) -> Result<Outcome<HostObject>> {
        let scratch = tempfile::tempdir_in(&self.scratch).map_err(Error::file(&self.scratch))?;
        let folder = scratch.path();
        let (code, dependencies) = self.preprocess(source, options, Side::Host, folder)?;
        let options = options.without_preprocessor();
        let key = format!(
            "cuda, host with a name of its own, format {}\n{}\n{:?}\n{:032x} {:032x}",
            compiler::FORMAT,
            self.toolchain.version,
            self.flags(&options, Side::Host),
            xxh3_128(code.as_bytes()),
            xxh3_128(kernels.as_bytes())
        );
        let key = format!("{:032x}", xxh3_128(key.as_bytes()));
        let mut warnings = String::new();
        let entry = self.cache.get_or_make(&format!("host-{key}"), wait, || {
            let object;
            (object, warnings) =
                self.compile_host(source, &code, &options, kernels, &key, folder)?;
            Ok::<_, Error>(object)
        })?;
        let entry = match entry {
            Outcome::Busy => return Ok(Outcome::Busy),
            Outcome::Done(entry) => entry,
        };
        let object = zstd::decode_all(entry.frame.as_slice())
            .map_err(|error| Error::Setup(format!("an object in the cache is damaged: {error}")))?;
        Ok(Outcome::Done(HostObject {
            name: String::new(),
            object,
            dependencies,
            warnings,
        }))
    }

    /// The object of preprocessed code, and what clang said.
    fn compile_host(
        &self,
        source: &Source,
        code: &str,
        options: &Options,
        kernels: &str,
        key: &str,
        folder: &Path,
    ) -> Result<(Vec<u8>, String)> {
        let (input, output) = (folder.join("code.hip"), folder.join("object"));
        let text = folder.join("kernels");
        std::fs::write(&text, kernels).map_err(Error::file(&text))?;
        let mut command = Command::new(&self.toolchain.clang);
        command.args(["-x", "hip"]);
        command.args(self.flags(options, Side::Host));
        // Names a symbol of each object, of which a program may link several.
        command.args(["-Xclang", &format!("-cuid={key}")]);
        command.args(["-Xclang", "-fcuda-include-gpubinary", "-Xclang"]);
        command
            .arg(&text)
            .arg("-c")
            .arg(&input)
            .arg("-o")
            .arg(&output);
        let said = self.run_on(&mut command, &input, code, source, Side::Host)?;
        let object = std::fs::read(&output).map_err(Error::file(&output))?;
        Ok((object, said))
    }

    /// Writes a static library of object files, in place of what was there.
    ///
    /// # Errors
    /// There is no archiver, or it refuses a file.
    pub fn archive(&self, objects: &[PathBuf], library: &Path) -> Result<()> {
        let archiver = self.archiver()?;
        match std::fs::remove_file(library) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file(library)(error));
            }
            _ => {}
        }
        // `D`: the same files are the same library, whenever it is made.
        let result = Command::new(&archiver)
            .arg("crsD")
            .arg(library)
            .args(objects)
            .output()
            .map_err(Error::file(&archiver))?;
        match result.status.success() {
            true => Ok(()),
            false => Err(Error::Setup(format!(
                "{} cannot make {}: {}",
                archiver.display(),
                library.display(),
                String::from_utf8_lossy(&result.stderr).trim()
            ))),
        }
    }

    /// LLVM's archiver beside clang, or the system's.
    fn archiver(&self) -> Result<PathBuf> {
        let clang = &self.toolchain.clang;
        let printed = Command::new(clang)
            .arg("-print-prog-name=llvm-ar")
            .output()
            .map_err(Error::file(clang))?;
        let beside = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
        if beside.is_absolute() {
            return Ok(beside);
        }
        ["llvm-ar", "ar"]
            .into_iter()
            .find_map(|name| which::which(name).ok())
            .ok_or_else(|| {
                Error::Setup(
                    "there is no archiver to make a library with, neither llvm-ar nor ar (on Debian, package binutils)"
                        .to_owned(),
                )
            })
    }
}
