//! Collectives of ours: kernels that exchange data by slots which the ranks share, in the host's memory or in GPUs'.
//!
//! A rank's every message goes to one of its two slots, and its flag says which number that has. A step reads the slots of all
//! ranks once their flags have got to the number that its own rank is at; so no rank is two messages ahead of another, and a
//! slot is free again when its turn comes. Numbers are counted on the GPU: a step may be captured. Sums are made in the order
//! of ranks, so that every rank gets the same bits.
//!
//! An all-reduce is one launch, by boxes instead: its workgroups exchange pieces with those of their number at the other ranks,
//! and each counts its own. What they wait for is told to the host after a while alone, and it is the GPU that gives up.

mod add_norm;
mod arguments;
mod boxes;
mod device_slots;
mod join;
mod layout;
mod rank;
mod run;
mod segment;
mod shared_file;
mod steps;
mod watch;
mod watched;

pub(super) use add_norm::AddNorm;
pub(super) use join::join;
pub(super) use rank::OwnRank;
pub(super) use run::{run, RankCall};
