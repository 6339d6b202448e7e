//! HIP as one table of function pointers, and the providers that fill it.

pub mod amd;
pub(crate) mod calls;
#[cfg(feature = "emulator")]
pub mod emulator;
#[cfg(feature = "nvidia")]
pub mod nvidia;
pub mod table;
pub mod types;
