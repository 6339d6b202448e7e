//! Runs the parts of a build side by side, on as many threads as cargo has to spare.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How a part went.
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// Somebody else is at it: to be asked for again when nothing else is left to do.
    Busy,
}

/// Parts that wait, and results of those that ran.
struct State<T, E> {
    fresh: VecDeque<usize>,
    /// Parts at which somebody else was.
    busy: VecDeque<usize>,
    results: Vec<Option<T>>,
    failures: Vec<E>,
}

/// Runs `part(0, ...)` to `part(count - 1, ...)` on up to this many threads, and stops at the first failure. The second
/// argument says whether to wait for somebody who is at the same part; without it the answer is [`Outcome::Busy`].
///
/// # Errors
/// What the parts that failed say, the first that did first.
pub fn run<T: Send, E: Send>(
    threads: usize,
    count: usize,
    part: impl Fn(usize, bool) -> Result<Outcome<T>, E> + Sync,
) -> Result<Vec<T>, Vec<E>> {
    let state = Mutex::new(State {
        fresh: (0..count).collect(),
        busy: VecDeque::new(),
        results: (0..count).map(|_| None).collect(),
        failures: Vec::new(),
    });
    // SAFETY: nothing of this process took over or closed the file descriptors that cargo left open for this.
    let server = unsafe { jobserver::Client::from_env() };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(|| match &server {
                Some(server) => work_when_granted(server, &state, &part),
                None => work(&state, &part),
            });
        }
        // Cargo granted the first thread when it started the build script.
        work(&state, &part);
    });
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match state.failures.is_empty() {
        true => Ok(state.results.into_iter().flatten().collect()),
        false => Err(state.failures),
    }
}

/// How many jobs cargo was told to run at once.
pub fn granted_threads() -> usize {
    let jobs = std::env::var("NUM_JOBS").ok();
    jobs.and_then(|jobs| jobs.parse().ok()).unwrap_or(1)
}

fn locked<T, E>(state: &Mutex<State<T, E>>) -> MutexGuard<'_, State<T, E>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`work`], once one of cargo's job slots is free: until then cargo compiles something else with it.
fn work_when_granted<T, E>(
    server: &jobserver::Client,
    state: &Mutex<State<T, E>>,
    part: &(impl Fn(usize, bool) -> Result<Outcome<T>, E> + Sync),
) {
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        {
            let state = locked(state);
            if state.fresh.is_empty() && state.busy.is_empty() {
                return;
            }
        }
        match server.try_acquire() {
            Ok(Some(_slot)) => return work(state, part),
            Ok(None) => std::thread::sleep(PAUSE),
            // A kind of server that cannot be asked without waiting. One process too many does no harm.
            Err(_) => return work(state, part),
        }
    }
}

/// Runs parts until none is left.
fn work<T, E>(
    state: &Mutex<State<T, E>>,
    part: &(impl Fn(usize, bool) -> Result<Outcome<T>, E> + Sync),
) {
    loop {
        let (index, wait) = {
            let mut state = locked(state);
            if let Some(index) = state.fresh.pop_front() {
                (index, false)
            } else if let Some(index) = state.busy.pop_front() {
                (index, true)
            } else {
                return;
            }
        };
        let outcome = part(index, wait);
        let mut state = locked(state);
        match outcome {
            Ok(Outcome::Done(result)) => state.results[index] = Some(result),
            Ok(Outcome::Busy) => state.busy.push_back(index),
            Err(failure) => {
                state.failures.push(failure);
                state.fresh.clear();
                state.busy.clear();
            }
        }
    }
}
