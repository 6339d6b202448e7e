//! The compilers of GPU code: where they are, what they are told, what is kept of their work.
//!
//! Builds of this project's kernels, compilers of other people's CUDA and what compiles when a program runs stand on this
//! crate. It prints nothing: what a user should hear of work that succeeded is returned as [`Notices`].
//!
//! Files, from the lowest layer up:
//!
//! 1. [`variables`] of the environment; [`installations`] of ROCm; [`topology`]: the machine's GPUs, by their driver; [`lock`]: what a Cargo.lock
//!    says of the crates in a build; [`stand_ins`]: what `-lcudart` finds;
//! 2. [`notice`], [`error`];
//! 3. [`user_cache`]: the user's folder; [`cuda_arch`]: what CUDA source takes a GPU for; `text`: code objects as text
//!    (feature `text`);
//! 4. [`nvidia`]: NVIDIA's compilers; [`toolchain`]: clang for AMD GPUs, and its device libraries;
//! 5. [`architectures`]: which GPUs a build compiles for.
//!
//! With the feature `build`, for what compiles:
//!
//! 6. `headers`: what headers of kernels say that the host must know; `workers`: parts of a build side by side; `key`: names made of all that a result depends on; `unpacked`: sources
//!    that are part of a program, in a folder;
//! 7. `cache`: results, kept from build to build;
//! 8. `compile`: a kernel file for one GPU;
//! 9. `specialised`: a kernel for the constants of a shape, when a program runs.

pub mod architectures;
pub mod cuda_arch;
pub mod error;
pub mod installations;
pub mod lock;
pub mod notice;
pub mod nvidia;
pub mod stand_ins;
#[cfg(feature = "text")]
pub mod text;
pub mod toolchain;
pub mod topology;
pub mod user_cache;
pub mod variables;

#[cfg(feature = "build")]
pub mod cache;
#[cfg(feature = "build")]
pub mod compile;
#[cfg(feature = "build")]
pub mod headers;
#[cfg(feature = "build")]
pub mod key;
#[cfg(feature = "build")]
pub mod specialised;
#[cfg(feature = "build")]
pub mod unpacked;
#[cfg(feature = "build")]
pub mod workers;

pub use architectures::Chosen;
pub use error::{Error, Missing, Result};
pub use notice::{Notice, Notices};
pub use toolchain::Toolchain;
