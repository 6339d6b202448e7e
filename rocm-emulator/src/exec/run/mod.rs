//! Running a grid: its workgroups on threads, each workgroup's wavefronts in turn.

mod dispatch;
mod launch_state;
mod workgroup;

pub use dispatch::dispatch;
pub(crate) use launch_state::{register_counts, SWIZZLE};
