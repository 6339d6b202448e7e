//! Stress: many streams and threads at once, graphs, events, exhausted memory, panicking threads, random programs.
//!
//! What only asynchronous hardware can get wrong is asked of it here: whether memory is given out twice or too early,
//! whether streams wait for each other, whether results stay right when nothing waits. The emulator runs the same tests
//! with fewer rounds: [`amount::amount`] has both numbers of each test, and `CANDLE_ROCM_STRESS=10` multiplies them by
//! ten (`0.1` divides). On an NVIDIA GPU: `CANDLE_ROCM_RUNTIME=nvidia cargo test -p candle-rocm-tests --features nvidia
//! --test stress`.

mod amount;
mod devices;
mod exhaustion;
mod graphs;
mod handover;
mod overrun;
mod panics;
mod patterns;
mod programs;
mod storm;

#[allow(dead_code)]
#[path = "../op_matrix/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "../op_matrix/inputs.rs"]
mod inputs;
