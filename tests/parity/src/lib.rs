//! One list of cases, run by two programs: ours, and stock Candle with its CUDA backend (`stock/parity`).
//!
//! A [`case::Case`] is an operator on reproducible inputs. [`record`] runs all of them on a device and keeps each result,
//! or the error, in one safetensors file ([`recording`]). [`compare`] holds one such file to another, with the
//! tolerances of [`tolerance`]. Only Candle's public API is used, so the same source builds with both.

pub mod case;
pub mod cases;
pub mod compare;
pub mod numbers;
pub mod record;
pub mod recording;
pub mod tolerance;
/// The small model of the training tests.
#[path = "../../src/training.rs"]
pub mod training;
pub mod weights;
