//! A model of time: how many cycles a launch would take on the GPU that is emulated.
//!
//! While sampled workgroups execute, what each of their wavefronts does is written down ([`record`]). Then the share of
//! the launch that one XCD gets is played back, cycle by cycle where something happens: wavefronts issue in the order of
//! time by the rules of their SIMD ([`xcd`]), and what they ask of memory goes through caches that hold lines, and
//! through ports that pass so many bytes a cycle ([`memory`]). Nothing is measured on the host, and allocations lie where
//! the launch touches them, not where the host puts them ([`places`]): the same launch takes the same cycles.
//! `docs/evidence/clock.md` says what the parameters are, what is left out, and how far off it is.

mod cache;
mod geometry;
mod instruction;
mod launch;
mod memory;
mod places;
mod record;
mod simd;
mod unit;
mod wave;
mod xcd;

pub(crate) use geometry::Geometry;
pub(crate) use launch::Sample;
pub use launch::{Cycles, LaunchTime, Sampling, Untimed};
pub(crate) use record::WaveRecord;
