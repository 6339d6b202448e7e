//! The thread that looks after all ranks of this process.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::watched::Watched;
use crate::base::error::{Error, ErrorKind, Result};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(5);

struct Watch {
    ranks: Vec<Weak<Watched>>,
    is_running: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch {
    ranks: Vec::new(),
    is_running: false,
});

/// Looks after a rank as long as it lives.
///
/// # Errors
/// The system has no thread for it.
pub(super) fn begin(rank: &Arc<Watched>) -> Result<()> {
    let mut watch = WATCH.lock();
    watch.ranks.push(Arc::downgrade(rank));
    if watch.is_running {
        return Ok(());
    }
    let thread = std::thread::Builder::new().name("candle-rocm-comm".to_owned());
    thread.spawn(run).map_err(|error| {
        Error::new(
            ErrorKind::Runtime,
            format!("no thread to look after ranks: {error}"),
        )
    })?;
    watch.is_running = true;
    Ok(())
}

fn run() {
    loop {
        std::thread::sleep(PERIOD);
        let ranks: Vec<Arc<Watched>> = {
            let mut watch = WATCH.lock();
            watch.ranks.retain(|rank| rank.strong_count() > 0);
            if watch.ranks.is_empty() {
                watch.is_running = false;
                return;
            }
            watch.ranks.iter().filter_map(Weak::upgrade).collect()
        };
        for rank in ranks {
            rank.look();
        }
    }
}
