//! The builder.

use std::path::{Path, PathBuf};

use rocm_nvcc::{build_script, Options};

use crate::compute_cap::{ComputeCapability, GpuArch};
use crate::dependency::DependencyManager;
use crate::error::Result;
use crate::parallel::ParallelConfig;
use crate::source::SourceSelector;

/// Compiles `.cu` files in a build script.
#[derive(Debug)]
pub struct KernelBuilder {
    compute_cap: ComputeCapability,
    sources: SourceSelector,
    dependencies: DependencyManager,
    parallel: ParallelConfig,
    out_dir: PathBuf,
    arguments: Vec<String>,
}

impl Default for KernelBuilder {
    fn default() -> Self {
        Self {
            compute_cap: ComputeCapability::default(),
            sources: SourceSelector::default(),
            dependencies: DependencyManager::default(),
            parallel: ParallelConfig::default(),
            out_dir: std::env::var_os("OUT_DIR")
                .map_or_else(|| PathBuf::from("target/debug"), PathBuf::from),
            arguments: Vec::new(),
        }
    }
}

impl KernelBuilder {
    /// Of all `.cu` files in `src`, to cargo's output folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The `.cu` files in a folder and below.
    pub fn source_dir<P: AsRef<Path>>(mut self, dir: P) -> Self {
        self.sources = self.sources.add_directory(dir);
        self
    }

    /// These files.
    pub fn source_files<I, P>(mut self, files: I) -> Self
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        self.sources = self.sources.add_files(files);
        self
    }

    /// The `.cu` files that fit a pattern.
    pub fn source_glob(mut self, pattern: &str) -> Self {
        self.sources = self.sources.add_glob(pattern);
        self
    }

    /// Not those whose names or paths fit one of these.
    pub fn exclude(mut self, patterns: &[&str]) -> Self {
        self.sources = self.sources.exclude(patterns);
        self
    }

    /// What cargo watches besides. Headers that sources include are watched in any case.
    pub fn watch<I, P>(mut self, paths: I) -> Self
    where
        I: IntoIterator<Item = P>,
        P: AsRef<Path>,
    {
        self.sources = self.sources.watch(paths);
        self
    }

    /// NVIDIA's compute capability, which chooses nothing here.
    pub fn compute_cap(mut self, cap: usize) -> Self {
        self.compute_cap = self.compute_cap.with_default(cap);
        self
    }

    /// The same, by name.
    pub fn compute_cap_arch(mut self, arch: &str) -> Self {
        self.compute_cap = self.compute_cap.with_default_arch(arch);
        self
    }

    /// The same, of files that fit a pattern.
    pub fn with_compute_override(mut self, pattern: &str, cap: usize) -> Self {
        self.compute_cap = self.compute_cap.with_override(pattern, cap);
        self
    }

    /// The same, by name.
    pub fn with_compute_override_arch(mut self, pattern: &str, arch: &str) -> Self {
        self.compute_cap = self.compute_cap.with_override_arch(pattern, arch);
        self
    }

    /// What was named, or detected.
    pub fn get_compute_cap(&self) -> Option<usize> {
        self.compute_cap
            .get_default()
            .ok()
            .map(|arch: GpuArch| arch.base)
    }

    /// As [`KernelBuilder::compute_cap`].
    pub fn set_compute_cap(&mut self, cap: usize) {
        self.compute_cap = ComputeCapability::new().with_default(cap);
    }

    /// Nothing needs to be named here.
    ///
    /// # Errors
    /// `CUDA_COMPUTE_CAP` is no compute capability.
    pub fn require_explicit_compute_cap(self) -> Result<Self> {
        self.compute_cap.get_default()?;
        Ok(self)
    }

    /// With CUTLASS's headers, most of whose kernels do not compile for AMD GPUs.
    pub fn with_cutlass(mut self, commit: Option<&str>) -> Self {
        self.dependencies = self.dependencies.with_cutlass(commit);
        self
    }

    /// With another repository's.
    pub fn with_git_dependency(
        mut self,
        name: &str,
        repo: &str,
        commit: &str,
        include_paths: Vec<&str>,
        extra_paths: Vec<&str>,
        recurse_submodules: bool,
    ) -> Self {
        let all = self.dependencies;
        self.dependencies = all.with_git_dependency(
            name,
            repo,
            commit,
            include_paths,
            extra_paths,
            recurse_submodules,
        );
        self
    }

    /// Fetches such a repository; its folder.
    ///
    /// # Errors
    /// None has this name, or git fails.
    pub fn fetch_git_dependency(&self, name: &str) -> Result<PathBuf> {
        self.dependencies.fetch_dependency(name, &self.out_dir)
    }

    /// With a folder's headers.
    pub fn include_path<P: Into<PathBuf>>(mut self, path: P) -> Self {
        self.dependencies = self.dependencies.with_local_include(path);
        self
    }

    /// Compile on this part of the machine's CPUs, 0 to 1.
    pub fn thread_percentage(mut self, percentage: f32) -> Self {
        self.parallel = self.parallel.with_percentage(percentage);
        self
    }

    /// Compile no more than so many files at once.
    pub fn max_threads(mut self, max: usize) -> Self {
        self.parallel = self.parallel.with_max_threads(max);
        self
    }

    /// What nvcc would be told of its threads.
    pub fn nvcc_thread_patterns<S: AsRef<str>>(
        mut self,
        patterns: &[S],
        num_nvcc_threads: usize,
    ) -> Self {
        self.parallel = self
            .parallel
            .with_nvcc_thread_patterns(patterns, num_nvcc_threads);
        self
    }

    /// Where results go.
    pub fn out_dir<P: Into<PathBuf>>(mut self, dir: P) -> Self {
        self.out_dir = dir.into();
        self
    }

    /// An option of nvcc. One that is not known is an error of the build.
    pub fn arg(mut self, arg: &str) -> Self {
        self.arguments.push(arg.to_owned());
        self
    }

    /// Several.
    pub fn args<I, S>(mut self, args: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        self.arguments
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Changes nothing: results are found by their content, and are those that would be made.
    pub fn no_incremental(self) -> Self {
        self
    }

    /// Changes nothing: kernels are compiled for AMD GPUs, wherever CUDA is.
    pub fn cuda_root<P: AsRef<Path>>(self, _path: P) -> Self {
        self
    }

    /// Compiles each file, kernels for all chosen architectures and host code that launches them, to a static library. A
    /// program that links it needs candle-rocm's cudarc, which has the functions that it calls.
    ///
    /// # Errors
    /// As [`KernelBuilder::build_ptx`]; or there is no archiver.
    pub fn build_lib<P: Into<PathBuf>>(&self, out_file: P) -> Result<()> {
        let (files, options) = self.prepare()?;
        let out_file = out_file.into();
        build_script::static_library(
            &files,
            &options,
            &self.out_dir,
            &out_file,
            self.parallel.thread_count(),
        )?;
        Ok(())
    }

    /// Compiles each file for all chosen architectures, to text in the output folder.
    ///
    /// # Errors
    /// No compiler, a file that is not there or does not compile, or an option that is not known.
    pub fn build_ptx(&self) -> Result<PtxOutput> {
        let (files, options) = self.prepare()?;
        build_script::code_objects(
            &files,
            &options,
            &self.out_dir,
            self.parallel.thread_count(),
        )?;
        Ok(PtxOutput { files })
    }

    /// The sources, and how they are compiled; the output folder is there, and cargo knows what to watch.
    fn prepare(&self) -> Result<(Vec<PathBuf>, Options)> {
        std::fs::create_dir_all(&self.out_dir)?;
        let files = self.sources.resolve()?;
        for path in self.sources.watch_paths() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
        let mut arguments = self.arguments.clone();
        arguments.extend(self.dependencies.fetch_all(&self.out_dir)?);
        // A build script's folder is its package's.
        let options = Options::from_nvcc(&arguments, &std::env::current_dir()?)?;
        Ok((files, options))
    }
}

/// What was compiled.
pub struct PtxOutput {
    files: Vec<PathBuf>,
}

impl PtxOutput {
    /// Writes Rust with a constant for each file's text.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write<P: AsRef<Path>>(&self, out: P) -> Result<()> {
        Ok(std::fs::write(out, build_script::constants(&self.files))?)
    }
}
