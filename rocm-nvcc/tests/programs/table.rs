//! All of the programs: files of CUDA, each beside plain Rust that says what they do.

mod atomics;
mod floats;
mod groups;
mod integers;
mod matrices;
mod ptx;
pub mod reference;
mod warps;

use reference::Program;

/// A file of CUDA, and the programs in it in order.
pub struct Group {
    /// The file's name, without its extension.
    pub name: &'static str,
    /// What is in it.
    pub source: &'static str,
    /// What its programs should do.
    pub programs: &'static [Program],
}

/// A file beside this one.
macro_rules! group {
    ($name:ident) => {
        Group {
            name: stringify!($name),
            source: include_str!(concat!(stringify!($name), ".cu")),
            programs: $name::PROGRAMS,
        }
    };
}

/// All of them.
pub const GROUPS: [Group; 7] = [
    group!(atomics),
    group!(floats),
    group!(groups),
    group!(integers),
    group!(matrices),
    group!(ptx),
    group!(warps),
];
