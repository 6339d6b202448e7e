//! The vector ALU: VOP1, VOP2, VOPC, VOP3, VOP3SD, VOP3P, VINTERP, MAI and VOPD, with DPP and SDWA.
//!
//! [`lower`] turns a decoded instruction into a [`VectorOp`] once; [`VectorOp::run`] executes it for a
//! wavefront. What each instruction computes stands in `tables`, one line an instruction, as a function
//! of typed values of one lane; `kernel` makes SIMD loops of those; `lanes` fetches operands, applies
//! modifiers (`riders`, `general`) where there are any, and writes the active lanes. Instructions that look
//! across lanes are in `cross_lane`, matrix instructions in `matrix`.
//!
//! # Fidelity
//! Results are bit-exact where the ISA manuals define them. The approximations that the manuals only
//! bound (`v_rcp`, `v_rsq`, `v_sqrt`, `v_exp`, `v_log`, `v_sin`, `v_cos`) are computed more precisely than
//! the hardware does and rounded once, so they lie inside its error bound but are not its bits.
//! Exceptions and traps on floating-point conditions do not exist.

mod approximate;
mod cross_lane;
mod directed;
mod dpp;
mod dual;
mod fp8;
mod general;
mod interpolate;
mod kernel;
mod lane_op;
mod lanes;
mod lowering;
mod matrix;
mod operand;
mod results;
mod riders;
mod rows;
mod soft;
mod tables;
mod value;
mod vector;

pub use lowering::Unimplemented;
pub use vector::{lower, VectorOp};
