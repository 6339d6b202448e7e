//! What the environment asks for at the end of the process.

use std::path::PathBuf;

use crate::variables;

/// What the environment asks for at the end of the process.
pub(super) struct Wanted {
    /// Where the table goes.
    pub table: Option<Table>,
    /// The trace's file.
    pub trace: Option<PathBuf>,
}

/// Where a table goes.
pub(super) enum Table {
    StandardError,
    File(PathBuf),
}

fn value(variable: &variables::Variable) -> Option<std::ffi::OsString> {
    std::env::var_os(variable.name).filter(|value| !value.is_empty())
}

impl Wanted {
    /// Reads the variables.
    pub fn of_environment() -> Self {
        let table = value(&variables::PROFILE).and_then(|value| match value.to_str() {
            Some("0") => None,
            Some("1") => Some(Table::StandardError),
            _ => Some(Table::File(value.into())),
        });
        let trace = value(&variables::TRACE).map(PathBuf::from);
        Self { table, trace }
    }

    /// Whether there is anything to record.
    pub fn is_any(&self) -> bool {
        self.table.is_some() || self.trace.is_some()
    }
}
