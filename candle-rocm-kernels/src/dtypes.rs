//! Candle's element types, as the kernels have them: the list is that of `kernels/portable/dtypes.cuh`.

/// What kind of numbers a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Signed or unsigned integers.
    Integer,
    /// Floats that all functions of floats have, softmax and norms too.
    WideFloat,
    /// Floats of eight bits, which functions of elements alone have.
    SmallFloat,
}

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype {
    /// As kernels' names spell it, such as `bf16`.
    pub name: &'static str,
    /// Bytes of an element.
    pub bytes: u64,
    /// What it holds.
    pub kind: Kind,
}

/// Every element type that Candle computes with.
pub const ALL: &[Dtype] = include!(concat!(env!("OUT_DIR"), "/dtypes.rs"));

/// The type of this name.
pub fn find(name: &str) -> Option<Dtype> {
    ALL.iter().find(|dtype| dtype.name == name).copied()
}
