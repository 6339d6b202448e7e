//! Parts of a build, side by side.

use std::sync::atomic::{AtomicUsize, Ordering};

use rocm_toolchain::workers::{self, Outcome};

#[test]
fn parts_run_once_each_and_busy_ones_last() {
    for threads in [1, 4] {
        run_twenty_parts(threads);
    }
    let none = workers::run(4, 0, |_, _| Ok::<_, String>(Outcome::Done(())));
    assert_eq!(none, Ok(vec![]));
}

fn run_twenty_parts(threads: usize) {
    let calls = AtomicUsize::new(0);
    let results = workers::run(threads, 20, |part, wait| {
        calls.fetch_add(1, Ordering::Relaxed);
        match part % 3 == 0 && !wait {
            true => Ok::<_, String>(Outcome::Busy),
            false => Ok(Outcome::Done(part * part)),
        }
    });
    assert_eq!(results, Ok((0..20).map(|part| part * part).collect()));
    assert_eq!(calls.into_inner(), 20 + 7);
}

#[test]
fn the_first_failure_ends_the_work() {
    let calls = AtomicUsize::new(0);
    let results = workers::run(1, 1000, |part, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        match part {
            3 => Err(format!("part {part} failed")),
            _ => Ok(Outcome::Done(part)),
        }
    });
    assert_eq!(results, Err(vec!["part 3 failed".to_string()]));
    assert_eq!(calls.into_inner(), 4);
}
