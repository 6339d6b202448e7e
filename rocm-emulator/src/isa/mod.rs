//! Instruction sets: the GFX families, their instruction words, decoding and disassembly.

mod columns;
mod decode;
mod disassemble;
mod format;
pub mod inst;
mod matrix;
mod sample;
mod table;
mod target;

pub(crate) use columns::{Columns, Element, FloatFormat, Role, Rounded, Traits};
pub use decode::{decode, DecodeError};
pub use disassemble::{disassemble, disassemble_halves};
pub use format::{BufferFormat, NumberFormat};
pub use inst::{
    Dpp, Encoding, Inst, LaneControl, MemoryModifiers, Modifiers, OpInfo, Operand, Sdwa,
    SdwaSelect, Special,
};
pub(crate) use matrix::{Accumulator, Factor, MatrixColumn};
pub use sample::{sample_words, Sample};
pub(crate) use target::{d16_loads_keep_half, is_gfx90a, is_gfx940};
pub use target::{Accumulation, Architecture, Family, Target};
