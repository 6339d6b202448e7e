//! bindgen_cuda 0.1.6's API, for AMD GPUs: see README.md.

use std::path::{Path, PathBuf};

use rocm_nvcc::{build_script, Options};

/// bindgen_cuda's error, of which there is none: what is wrong ends the build script.
#[derive(Debug)]
pub enum Error {}

/// Compiles `.cu` files in a build script.
#[derive(Debug)]
pub struct Builder {
    kernels: Vec<PathBuf>,
    watched: Vec<PathBuf>,
    headers: Vec<PathBuf>,
    out: PathBuf,
    arguments: Vec<&'static str>,
}

impl Default for Builder {
    /// Of all `.cu` files in `src`.
    ///
    /// # Panics
    /// Outside of a build script.
    fn default() -> Self {
        let out = std::env::var_os("OUT_DIR").expect("OUT_DIR is set in build scripts alone");
        Self {
            kernels: found("src/**/*.cu"),
            watched: Vec::new(),
            headers: found("src/**/*.cuh"),
            out: out.into(),
            arguments: Vec::new(),
        }
    }
}

impl Builder {
    /// These files.
    ///
    /// # Panics
    /// One is not there.
    pub fn kernel_paths<P: Into<PathBuf>>(mut self, paths: Vec<P>) -> Self {
        self.kernels = present(paths);
        self
    }

    /// Files and folders that cargo watches besides.
    ///
    /// # Panics
    /// One is not there.
    pub fn watch<T, P>(mut self, paths: T) -> Self
    where
        T: IntoIterator<Item = P>,
        P: Into<PathBuf>,
    {
        self.watched = present(paths);
        self
    }

    /// Headers, whose folders sources include from.
    pub fn include_paths<P: Into<PathBuf>>(mut self, paths: Vec<P>) -> Self {
        self.headers = paths.into_iter().map(Into::into).collect();
        self
    }

    /// Files that fit a pattern.
    ///
    /// # Panics
    /// It is no pattern.
    pub fn kernel_paths_glob(mut self, glob: &str) -> Self {
        self.kernels = found(glob);
        self
    }

    /// Headers that fit a pattern.
    ///
    /// # Panics
    /// It is no pattern.
    pub fn include_paths_glob(mut self, glob: &str) -> Self {
        self.headers = found(glob);
        self
    }

    /// Where results go.
    pub fn out_dir<P: Into<PathBuf>>(mut self, out_dir: P) -> Self {
        self.out = out_dir.into();
        self
    }

    /// An option of nvcc. One that is not known ends the build.
    pub fn arg(mut self, arg: &'static str) -> Self {
        self.arguments.push(arg);
        self
    }

    /// Changes nothing: kernels are compiled for AMD GPUs, wherever CUDA is.
    pub fn cuda_root<P>(&mut self, _path: P)
    where
        P: Into<PathBuf>,
    {
    }

    /// NVIDIA's compute capability, which chooses nothing here.
    pub fn compute_cap(self, _compute_cap: usize) -> Self {
        self
    }

    /// Compiles each file, kernels for all chosen architectures and host code that launches them, to a static library. A
    /// program that links it needs candle-rocm's cudarc, which has the functions that it calls.
    ///
    /// # Panics
    /// As [`Builder::build_ptx`]; or there is no archiver.
    pub fn build_lib<P>(self, out_file: P)
    where
        P: Into<PathBuf>,
    {
        let out_file = out_file.into();
        let made = self.prepare().and_then(|(options, threads)| {
            build_script::static_library(&self.kernels, &options, &self.out, &out_file, threads)
                .map_err(|error| error.to_string())
        });
        if let Err(why) = made {
            panic!("{}: {why}", out_file.display());
        }
    }

    /// Compiles each file for all chosen architectures, to text in the output folder.
    ///
    /// # Errors
    /// None.
    ///
    /// # Panics
    /// No compiler, a file that does not compile, or an option that is not known; with a message that says so.
    pub fn build_ptx(self) -> Result<Bindings, Error> {
        let made = self.prepare().and_then(|(options, threads)| {
            build_script::code_objects(&self.kernels, &options, &self.out, threads)
                .map_err(|error| error.to_string())
        });
        match made {
            Ok(_) => Ok(Bindings {
                kernels: self.kernels,
            }),
            Err(why) => panic!("{why}"),
        }
    }

    /// How sources are compiled, and how many at once; cargo knows what to watch.
    fn prepare(&self) -> Result<(Options, usize), String> {
        for path in self.watched.iter().chain(&self.headers) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        let folder = std::env::current_dir().map_err(|error| error.to_string())?;
        let mut options =
            Options::from_nvcc(&self.arguments, &folder).map_err(|error| error.to_string())?;
        let folders = self.headers.iter().filter_map(|header| header.parent());
        options.include.extend(folders.map(Path::to_owned));
        options.include.dedup();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok((options, threads))
    }
}

/// What was compiled.
pub struct Bindings {
    kernels: Vec<PathBuf>,
}

impl Bindings {
    /// Writes Rust with a constant for each file's text.
    ///
    /// # Errors
    /// None.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write<P>(&self, out: P) -> Result<(), Error>
    where
        P: AsRef<Path>,
    {
        let (out, text) = (out.as_ref(), build_script::constants(&self.kernels));
        // One that is the same keeps its time: it may lie beside the sources that cargo watches.
        if std::fs::read(out).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(out, text).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
        }
        Ok(())
    }
}

fn found(pattern: &str) -> Vec<PathBuf> {
    let paths =
        glob::glob(pattern).unwrap_or_else(|error| panic!("the pattern {pattern}: {error}"));
    let path = |path: glob::GlobResult| {
        path.unwrap_or_else(|error| panic!("the pattern {pattern}: {error}"))
    };
    paths.map(path).collect()
}

fn present<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        panic!("{} is not there", missing.display());
    }
    paths
}
