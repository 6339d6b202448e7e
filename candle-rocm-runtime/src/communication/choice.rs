//! What the environment asks for: whose collectives, and how long a rank waits for the others.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::base::choice;
use crate::base::error::{Error, Result};

/// The variable that says whose collectives run.
pub const COMM_VARIABLE: &str = candle_rocm_variables::COMM.name;

/// The variable that names the library to load, RCCL or NCCL.
pub const LIBRARY_VARIABLE: &str = candle_rocm_variables::COMM_LIBRARY.name;

/// The variable that says how many seconds a rank waits for another.
pub const TIMEOUT_VARIABLE: &str = candle_rocm_variables::COMM_TIMEOUT.name;

/// Seconds, where the variable is not set.
const DEFAULT_TIMEOUT: f64 = 600.0;

/// Whose collectives run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommChoice {
    /// Ours.
    Own,
    /// Ours, through the host's memory even between GPUs that reach each other's.
    Staged,
    /// RCCL, or NCCL on NVIDIA GPUs; that it is not there is an error.
    Library,
    /// The library where it loads, else ours.
    Auto,
}

impl FromStr for CommChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let choices = [
            ("own", Self::Own),
            ("staged", Self::Staged),
            ("library", Self::Library),
            ("auto", Self::Auto),
        ];
        choice::named(COMM_VARIABLE, text, &choices)
    }
}

impl CommChoice {
    /// What the environment asks for, read once.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn current() -> Result<Self> {
        static CHOICE: OnceLock<Result<CommChoice>> = OnceLock::new();
        CHOICE
            .get_or_init(|| choice::text_of(COMM_VARIABLE).parse())
            .clone()
    }
}

fn parse_timeout(text: &str) -> Result<Duration> {
    if text.is_empty() {
        return Ok(Duration::from_secs_f64(DEFAULT_TIMEOUT));
    }
    let seconds = text.parse::<f64>().ok().filter(|it| *it > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            Error::invalid(format!(
                "{TIMEOUT_VARIABLE}={text}: not a number of seconds above 0"
            ))
        })
}

/// How long a rank waits for another, read once.
///
/// # Errors
/// The variable is no number of seconds.
pub fn timeout() -> Result<Duration> {
    static TIMEOUT: OnceLock<Result<Duration>> = OnceLock::new();
    TIMEOUT
        .get_or_init(|| parse_timeout(&choice::text_of(TIMEOUT_VARIABLE)))
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_seconds() {
        assert_eq!("own".parse(), Ok(CommChoice::Own));
        assert_eq!("".parse(), Ok(CommChoice::Auto));
        let error = "ring".parse::<CommChoice>().unwrap_err();
        assert!(
            error.message().contains("own, staged, library and auto"),
            "{error}"
        );
        assert_eq!(parse_timeout("2.5"), Ok(Duration::from_millis(2500)));
        assert_eq!(parse_timeout(""), Ok(Duration::from_secs(600)));
        for bad in ["0", "-1", "soon", "inf"] {
            assert!(parse_timeout(bad).is_err(), "{bad}");
        }
    }
}
