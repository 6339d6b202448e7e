//! What a program needs of a machine to use its GPUs: what is there, what is wrong, and what to do.
//!
//! [`examine`] looks at the driver, the GPUs, this user's permissions, the runtime with its libraries, the kernels in the
//! program, and the caches. `cargo xtask doctor` prints the same, with the compiler.
//!
//! ```no_run
//! let report = candle_rocm_backend::doctor::examine();
//! println!("{report}");
//! assert!(report.is_healthy());
//! ```

mod caches;
mod kernels;
mod machine;
mod permissions;
mod runtime;

use std::fmt;
use std::path::{Path, PathBuf};

use candle_rocm_runtime::RuntimeKind;

pub use kernels::Embedded;
pub use runtime::{Gpu, Started};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// Not needed, or no more than slower or less convenient.
    Note,
    /// The chosen runtime cannot work.
    Wrong,
}

/// One line of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a word.
    pub subject: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do; empty where nothing need be done.
    pub advice: String,
}

impl Finding {
    fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self::new(subject, State::Good, found, "")
    }

    fn note(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(subject, State::Note, found, advice)
    }

    fn wrong(subject: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(subject, State::Wrong, found, advice)
    }

    fn new(
        subject: &'static str,
        state: State,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            subject,
            state,
            found: found.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Good => "ok",
            State::Note => "note",
            State::Wrong => "WRONG",
        };
        // One line, whatever an error's text is made of.
        let line = |text: &str| {
            text.split('\n')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join("; ")
        };
        write!(f, "{state:<6}{:<12}{}", self.subject, line(&self.found))?;
        if !self.advice.is_empty() {
            write!(f, " -- {}", line(&self.advice))?;
        }
        Ok(())
    }
}

/// What was found, in the order in which things build on each other: the first that is wrong is the one to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The runtime that the program uses; none if `CANDLE_ROCM_RUNTIME` names no runtime.
    pub runtime: Option<RuntimeKind>,
    /// What was looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether all is there that the chosen runtime needs.
    pub fn is_healthy(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.state < State::Wrong)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.findings.iter().map(Finding::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// Where to look. [`Place::here`] is this machine and process; tests lay out others.
pub struct Place<'a> {
    /// The folder that stands for `/`.
    pub root: &'a Path,
    /// Variables of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Starts the process's runtime, and tells what it is made of.
    pub start: &'a dyn Fn() -> Result<Started, String>,
    /// The kernels in the program.
    pub embedded: Embedded<'a>,
    /// The folder of compiled kernels.
    pub kernel_cache: Option<PathBuf>,
    /// The file of timed matrix products.
    pub timings: Option<PathBuf>,
}

impl Place<'static> {
    /// This machine and process.
    pub fn here() -> Self {
        use candle_rocm_kernels::user_cache;
        let named = std::env::var_os(user_cache::KERNELS_VARIABLE).filter(|v| !v.is_empty());
        Self {
            root: Path::new("/"),
            variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
            start: &runtime::start,
            embedded: Embedded::here(),
            kernel_cache: named.map(PathBuf::from).or_else(user_cache::kernels),
            timings: candle_rocm_runtime::gemm::tune::results_path(),
        }
    }
}

/// Examines this machine for this program, and starts its runtime if nothing did before.
pub fn examine() -> Report {
    examine_at(&Place::here())
}

/// As [`examine`], elsewhere.
pub fn examine_at(place: &Place<'_>) -> Report {
    let started = (place.start)();
    let kind = match &started {
        Ok(started) => Ok(started.kind),
        Err(_) => runtime::chosen(place),
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(error) => {
            let findings = vec![Finding::wrong("runtime", error, "")];
            return Report {
                runtime: None,
                findings,
            };
        }
    };
    let mut findings = Vec::new();
    match kind {
        RuntimeKind::Amd => {
            let gpus = machine::amd(place, &mut findings);
            permissions::amd(place, &gpus, &mut findings);
        }
        RuntimeKind::Nvidia => machine::nvidia(place, &mut findings),
        RuntimeKind::Emulator => {}
    }
    runtime::library(kind, &started, &mut findings);
    if let Ok(started) = &started {
        runtime::products(place, started, &mut findings);
        kernels::fit(place, started, &mut findings);
    }
    caches::kernels(place, &mut findings);
    caches::timings(place, &mut findings);
    Report {
        runtime: Some(kind),
        findings,
    }
}
