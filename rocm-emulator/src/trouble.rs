//! What went wrong where no call can return it: to the program's log or, where it has none, to standard error. C programs
//! that load the emulator as a library of AMD's have none.

use std::fmt;

use tracing::subscriber::NoSubscriber;

/// Says what went wrong.
pub fn say(trouble: fmt::Arguments<'_>) {
    let has_log = !tracing::dispatcher::get_default(|log| log.is::<NoSubscriber>());
    match has_log {
        true => tracing::error!("{trouble}"),
        false => eprintln!("rocm-emulator: {trouble}"),
    }
}
