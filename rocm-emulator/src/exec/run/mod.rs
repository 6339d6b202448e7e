//! Running a grid: its workgroups on threads, each workgroup's wavefronts in turn.

mod dispatch;
mod launch;
mod launch_state;
mod workgroup;

pub use dispatch::dispatch;
pub use launch::{Launch, Options, MAX_LDS, MAX_WORKGROUP};
