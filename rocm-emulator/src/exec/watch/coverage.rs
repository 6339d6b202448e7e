//! Notes which kernels ran, for those who test them: with `ROCM_EMU_COVERAGE=<file>` in the environment, each
//! process appends a line of architecture, tab and kernel for each kernel that it ran to its end.
//!
//! Several processes may share the file: lines are appended whole.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::codeobject::Kernel;
use crate::isa::Target;

/// Names the file to which lines are appended.
pub const COVERAGE_VARIABLE: &str = "ROCM_EMU_COVERAGE";

struct Coverage {
    file: File,
    noted: HashSet<(Target, String)>,
}

static COVERAGE: LazyLock<Option<Mutex<Coverage>>> = LazyLock::new(|| {
    let path = std::env::var_os(COVERAGE_VARIABLE).filter(|path| !path.is_empty())?;
    match OpenOptions::new().create(true).append(true).open(&path) {
        Ok(file) => Some(Mutex::new(Coverage {
            file,
            noted: HashSet::new(),
        })),
        Err(error) => {
            eprintln!(
                "rocm-emulator: {COVERAGE_VARIABLE}={}: {error}",
                path.to_string_lossy()
            );
            None
        }
    }
});

/// Note that a kernel ended well.
pub(crate) fn note(kernel: &Kernel) {
    let Some(coverage) = COVERAGE.as_ref() else {
        return;
    };
    let mut coverage = coverage.lock();
    if coverage.noted.insert((kernel.target, kernel.name.clone())) {
        let line = format!("{}\t{}\n", kernel.target.name(), kernel.name);
        if let Err(error) = coverage.file.write_all(line.as_bytes()) {
            eprintln!("rocm-emulator: {COVERAGE_VARIABLE}: {error}");
        }
    }
}
