//! Running a grid: its workgroups on threads, each workgroup's wavefronts in turn.

mod crew;
mod dispatch;
mod grid_barrier;
mod launch;
mod launch_state;
mod occupancy;
mod schedule;
mod state;
mod thread;
mod wavefront;
mod workgroup;

pub use dispatch::dispatch;
pub use launch::{DispatchPacket, Launch, Options, MAX_WORKGROUP, PACKET_BYTES};
pub use occupancy::workgroups_per_multiprocessor;
