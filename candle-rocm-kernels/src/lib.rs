//! Candle's GPU kernels for AMD, compiled to HSACO code objects and embedded.
//!
//! Each file `kernels/<folder>/<module>.cu` is one [`Module`], whose constant has its name. The build compiles it for every
//! architecture in `CANDLE_ROCM_ARCHS` and embeds the results, compressed; [`Module::code_object`] gives the one for a GPU, ready for
//! `hipModuleLoadData`. The first eleven modules are those of `candle-kernels`, in its order and with its kernel names and parameters,
//! which Candle's CUDA backend launches; [`GEMM`], [`MATMUL`] and [`RANDOM`] stand where Candle calls cuBLAS and cuRAND; [`MMVQ`],
//! [`MMQ`], [`UPCAST`] and [`MOE`] hold what `candle-kernels` launches from its own C functions; [`FUSED_OPERATORS`] is launched by
//! `candle_rocm_backend::ops`, and for few long rows ([`split_rows`]), and so are [`ATTENTION_FORWARD`] and [`ATTENTION_BACKWARD`],
//! which are attention ([`attention`]); [`CONVOLUTION`] has convolutions without their patches in memory ([`convolution`]).
//!
//! With `CANDLE_ROCM_SKIP_KERNELS=1` the build needs no GPU compiler and embeds nothing, and
//! [`Module::code_object`] fails with an error that says so.

pub mod activations;
pub mod arguments;
pub mod attention;
mod by_architecture;
pub mod choice;
pub mod convolution;
pub mod decode;
pub mod dtypes;
pub mod gemm;
pub mod gguf;
pub mod grouped;
pub mod launch_heuristics;
pub mod matmul;
pub mod mmq;
pub mod mmvq;
pub mod numbers;
pub mod nvidia;
pub mod occupancy;
pub mod order;
pub mod processor;
pub mod radix_sort;
pub mod report;
pub mod scan;
pub mod skinny;
pub mod split;
pub mod split_rows;
pub mod symbols;
pub mod upcast;

// Public here before there was a crate of them.
pub use rocm_toolchain::{topology, user_cache};

use include_dir::{include_dir, Dir};
use rocm_gpus::{CodeTarget, Gpu};

pub use processor::Processor;

/// The kernels' sources, of which [`rocm_toolchain::specialised`] compiles kernels for the constants of a shape.
pub static SOURCES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/kernels");

mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

/// One kernel file: its compiled code for every embedded architecture.
///
/// A `Module` is a small handle on static data, copied freely.
#[derive(Clone, Copy)]
pub struct Module {
    index: usize,
    name: &'static str,
    /// (GPU or generic target, zstd frame of the HSACO), sorted by name.
    objects: &'static [(&'static str, &'static [u8])],
}

/// Why a module has no code for a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The build left the kernels out.
    #[error(
        "kernel module `{module}`: this program was built with CANDLE_ROCM_SKIP_KERNELS=1, which embeds no \
         GPU code; build again without it"
    )]
    Skipped {
        /// [`Module::name`].
        module: &'static str,
    },
    /// The build included neither this architecture nor a generic target that covers it.
    #[error(
        "kernel module `{module}` holds no code for {arch}, only for {embedded} ({reason}); {advice}"
    )]
    NotEmbedded {
        /// [`Module::name`].
        module: &'static str,
        /// The architecture asked for.
        arch: String,
        /// What is embedded, comma-separated.
        embedded: String,
        /// Why the build embedded these.
        reason: &'static str,
        /// In words, the build that would have it, or that there is none.
        advice: String,
    },
    /// The embedded bytes do not decompress.
    #[error("kernel module `{module}` for {arch}: the embedded code is damaged: {reason}")]
    Damaged {
        /// [`Module::name`].
        module: &'static str,
        /// The architecture asked for.
        arch: String,
        /// What the decompressor said.
        reason: String,
    },
}

/// The text that programs find where they look for kernels in a module's PTX: none.
impl std::ops::Deref for Module {
    type Target = str;

    fn deref(&self) -> &str {
        "// Code objects for AMD GPUs, which have no PTX.\n"
    }
}

impl Module {
    /// Position among all modules: below `ALL_IDS.len()` for Candle's, above for ours.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The kernel file's name without its extension, such as `affine`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The name that a kernel has in the code object: see [`symbols`].
    pub fn symbol<'a>(&self, kernel: &'a str) -> std::borrow::Cow<'a, str> {
        symbols::symbol(self.name, kernel)
    }

    /// The argument behind those that hosts pass to a kernel, if it takes one: see [`symbols`].
    pub fn last_argument(&self, kernel: &str) -> Option<symbols::LastArgument> {
        symbols::last_argument(self.name, kernel)
    }

    /// What Candle hands to `CudaContext::load_module`: under this crate's upstream name PTX text,
    /// here the module itself, from which the loader picks its device's code object.
    pub fn ptx(&self) -> &Module {
        self
    }

    /// The code object (an ELF shared object, "HSACO") for `arch`, decompressed.
    ///
    /// `arch` is a processor name such as `gfx1100`. Target features as HIP's `gcnArchName` adds
    /// them (`gfx942:sramecc+:xnack-`) are ignored: the code is compiled for any setting of them.
    /// Where the processor has no object of its own, it gets that of the generic target which
    /// covers it, whose header then names the processor: also a HIP that knows no generic targets
    /// loads it. A generic target's own name, such as `gfx11-generic`, gets its object as it is.
    ///
    /// # Errors
    /// If the build embedded no kernels, or none that `arch` can run.
    pub fn code_object(&self, arch: &str) -> Result<Vec<u8>, KernelError> {
        let processor = arch.split(':').next().unwrap_or(arch);
        if let Some(code) = choice::object_for(self.objects, processor) {
            return code.map_err(|reason| KernelError::Damaged {
                module: self.name,
                arch: processor.to_string(),
                reason,
            });
        }
        if embedded::SKIPPED {
            return Err(KernelError::Skipped { module: self.name });
        }
        Err(KernelError::NotEmbedded {
            module: self.name,
            arch: processor.to_string(),
            embedded: architectures().join(", "),
            reason: embedded::REASON,
            advice: match buildable_target(processor) {
                Some(target) => format!("build again with CANDLE_ROCM_ARCHS={target}"),
                None => format!(
                    "no build has kernels for {processor}: see CANDLE_ROCM_ARCHS in docs/user/environment.md"
                ),
            },
        })
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({}: {})", self.name, architectures().join(", "))
    }
}

/// What the build embedded code for: GPUs and generic targets, by LLVM's names, sorted; empty with
/// `CANDLE_ROCM_SKIP_KERNELS=1`.
pub fn architectures() -> &'static [&'static str] {
    embedded::ARCHITECTURES
}

/// Why the build embedded code for these: who chose them, in words.
pub fn architectures_reason() -> &'static str {
    embedded::REASON
}

/// Whether the build embedded code that the GPU `arch` runs: its own, or that of a generic target which covers it.
pub fn serves(arch: &str) -> bool {
    served_by(arch, architectures())
}

/// Whether the GPU `arch` runs code for one of these targets.
pub fn served_by(arch: &str, targets: &[&str]) -> bool {
    targets.contains(&arch) || generic_target(arch, targets).is_some()
}

/// What `CANDLE_ROCM_ARCHS` may say so that a build has kernels for this processor: its own name, for which the build
/// takes a generic target where the compiler is older than the GPU. None for those that no kernels are written for.
pub fn buildable_target(processor: &str) -> Option<&str> {
    let is_known = processor.parse::<CodeTarget>().is_ok() || processor.starts_with("sm_");
    is_known.then_some(processor)
}

/// The generic target that covers the GPU `arch`, if it is among `targets`.
pub fn generic_target<'a>(arch: &str, targets: &[&'a str]) -> Option<&'a str> {
    let gpu = arch.parse::<Gpu>().ok()?;
    let covers = |name: &&&str| {
        name.parse()
            .is_ok_and(|target: CodeTarget| target.covers(gpu))
    };
    targets.iter().find(covers).copied()
}

// The modules' constants, `Id` and `MODULES`, of the kernel files.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));
