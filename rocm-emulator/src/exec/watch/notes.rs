//! Files to which processes append lines, for those who run many of them: several may share a file, as lines are
//! appended whole.

use std::fs::{File, OpenOptions};
use std::io::Write;

use crate::trouble;

/// A file that an environment variable names.
pub(super) struct Notes {
    variable: &'static str,
    file: File,
}

impl Notes {
    /// `None` if the variable is not set, or names what cannot be written, which is said once.
    pub fn open(variable: &'static str) -> Option<Notes> {
        let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
        match OpenOptions::new().create(true).append(true).open(&path) {
            Ok(file) => Some(Notes { variable, file }),
            Err(error) => {
                trouble::say(format_args!(
                    "{variable}={}: {error}",
                    path.to_string_lossy()
                ));
                None
            }
        }
    }

    /// Append a line.
    pub fn add(&mut self, line: &str) {
        if let Err(error) = self.file.write_all(format!("{line}\n").as_bytes()) {
            trouble::say(format_args!("{}: {error}", self.variable));
        }
    }
}
