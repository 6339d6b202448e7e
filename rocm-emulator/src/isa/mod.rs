//! Instruction sets: the GFX families, their instruction words, decoding and disassembly.

pub mod inst;
mod target;

pub use inst::{
    Dpp, Encoding, Inst, LaneControl, MemoryModifiers, Modifiers, OpInfo, Operand, Sdwa,
    SdwaSelect, Special,
};
pub use target::{Family, Target};
