//! Instruction sets: the GFX families, their instruction words, decoding and disassembly.

mod decode;
mod disassemble;
pub mod inst;
mod sample;
mod table;
mod target;

pub use decode::{decode, DecodeError};
pub use disassemble::disassemble;
pub use inst::{
    Dpp, Encoding, Inst, LaneControl, MemoryModifiers, Modifiers, OpInfo, Operand, Sdwa,
    SdwaSelect, Special,
};
pub use sample::{sample_words, Sample};
pub(crate) use target::{is_gfx90a, is_gfx940};
pub use target::{Accumulation, Architecture, Family, Target};
