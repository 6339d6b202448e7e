//! What each instruction computes, one line an instruction.
//!
//! A row reads `name | alias (argument: type, ...) -> type = expression;`. Argument types say how the
//! operands are understood ([`super::value`]); names that differ between families share a row. Rows named
//! `"name clamp"` are the saturating forms of integer instructions.

mod bits;
mod compare;
mod convert;
mod divide;
mod double;
mod half_precision;
mod integer;
mod packed;
mod rows;
mod single;

use std::sync::OnceLock;

use super::kernel::Entry;
use rows::Table;

/// Rows of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    /// CDNA3's eight-bit floats, which are encoded otherwise than CDNA4's and GFX12's.
    Fnuz,
    /// Of a dot product whose sources are signed or not: the first, and the second.
    Signs {
        first: bool,
        second: bool,
    },
}

impl Variant {
    /// By the neg bits of the first and the second source.
    pub const SIGNS: [Variant; 4] = [
        Variant::signs(false, false),
        Variant::signs(true, false),
        Variant::signs(false, true),
        Variant::signs(true, true),
    ];

    const fn signs(first: bool, second: bool) -> Variant {
        Variant::Signs { first, second }
    }

    /// What stands behind the row's name.
    fn suffix(self) -> &'static str {
        match self {
            Variant::Plain => "",
            Variant::Fnuz => " fnuz",
            Variant::Signs { first, second } => match (first, second) {
                (false, false) => " uu",
                (true, false) => " su",
                (false, true) => " us",
                (true, true) => " ss",
            },
        }
    }
}

/// The row of a name; `clamps` asks for one that saturates.
pub(super) fn find(name: &str, variant: Variant, clamps: bool) -> Option<Entry> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = Table::default();
        bits::add(&mut table);
        compare::add(&mut table);
        convert::add(&mut table);
        divide::add(&mut table);
        double::add(&mut table);
        half_precision::add(&mut table);
        integer::add(&mut table);
        packed::add(&mut table);
        single::add(&mut table);
        table
    });
    let clamp = if clamps { " clamp" } else { "" };
    table.find(&format!("{name}{}{clamp}", variant.suffix()))
}
