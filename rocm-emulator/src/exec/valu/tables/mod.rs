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

/// The row of a name.
pub(super) fn find(name: &str) -> Option<Entry> {
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
    table.find(name)
}
