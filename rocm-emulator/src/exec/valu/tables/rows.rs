//! A table of rows, and how one is written.

use std::collections::HashMap;

use crate::exec::valu::kernel::Entry;

/// Rows by name.
#[derive(Default)]
pub(super) struct Table(HashMap<String, Entry>);

impl Table {
    /// A row by its names.
    pub fn add(&mut self, names: &[&str], entry: Entry) {
        for name in names {
            let before = self.0.insert(name.to_string(), entry);
            debug_assert!(before.is_none(), "two rows for {name}");
        }
    }

    /// The row of a name.
    pub fn find(&self, name: &str) -> Option<Entry> {
        self.0.get(name).copied()
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
pub(super) use operations;
