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
mod single;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::kernel::Entry;

/// Rows by name.
pub(super) struct Table(HashMap<String, Entry>);

impl Table {
    fn add(&mut self, names: &[&str], entry: Entry) {
        for name in names {
            let before = self.0.insert(name.to_string(), entry);
            debug_assert!(before.is_none(), "two rows for {name}");
        }
    }
}

/// Add rows to a table.
macro_rules! operations {
    ($table:ident, $entry:path;
     $($($name:literal)|+ ($($argument:ident : $type:ty),*) -> $result:ty = $body:expr;)*) => { $({
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        fn operation($($argument: $type),*) -> $result { $body }
        $table.add(&[$($name),+], $entry(operation));
    })* };
}
use operations;

/// The row of a name.
pub(super) fn find(name: &str) -> Option<Entry> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = Table(HashMap::new());
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
    table.0.get(name).copied()
}
