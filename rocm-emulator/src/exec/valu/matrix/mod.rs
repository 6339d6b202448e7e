//! Matrix instructions: MFMA and SMFMAC of CDNA, WMMA and SWMMAC of RDNA3 and RDNA4.
//!
//! An instruction is a shape, element formats, and layouts that say which lane and register hold which
//! element ([`layout`]). Elements are gathered into small dense matrices, multiplied in a tight loop
//! ([`multiply`]), and scattered back. EXEC is ignored, as the manuals say of these instructions.
//!
//! # Fidelity
//! Sums are accumulated in the order of k with one fused multiply-add each, from the C operand on; the
//! hardware's order and intermediate rounding are not documented. `xf32` inputs are rounded to 10 fraction
//! bits, ties to even. f16 and bf16 results are rounded once, at the end.

mod elements;
mod instruction;
mod layout;
mod lower;
mod multiply;
mod names;
mod operands;
mod sparse;

pub(crate) use lower::lower;
