//! What everything else stands on: errors, element types, HIP's functions, CUDA's names, small tools.

pub(crate) mod choice;
pub mod cuda_names;
pub mod dtype;
pub(crate) mod dynamic_library;
pub mod enqueued;
pub mod error;
pub mod hip;
pub(crate) mod inline_list;
pub(crate) mod reports;
pub(crate) mod sticky;
pub(crate) mod thread;
