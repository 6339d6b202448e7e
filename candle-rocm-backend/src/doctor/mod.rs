//! What a program needs of a machine to use its GPUs: what is there, what is wrong, and what to do.
//!
//! [`examine`] looks at the driver, the GPUs, this user's permissions, the runtime with its libraries, the kernels in the
//! program, and the caches. `cargo xtask doctor` prints the same, with the compiler.
//!
//! ```
//! # use candle_rocm_backend::{runtime, RuntimeKind};
//! # runtime::select(RuntimeKind::Emulator)?;
//! let report = candle_rocm_backend::doctor::examine();
//! println!("{report}");
//! assert!(report.is_healthy());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod caches;
mod kernels;
mod machine;
mod permissions;
mod place;
mod report;
mod runtime;

use std::path::{Path, PathBuf};

use candle_rocm_runtime::RuntimeKind;

pub use place::{Embedded, Gpu, Place, Started};
pub use report::{Finding, Report, State};

impl Place<'static> {
    /// This machine and process.
    pub fn here() -> Self {
        use rocm_toolchain::user_cache;
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
    let machine = started.as_ref().ok().map(|started| started.machine(place));
    match kind {
        RuntimeKind::Amd => {
            let gpus = machine::amd(place, &mut findings);
            // One GPU that works is enough: the others need no permission.
            let works = machine.as_ref().and_then(|machine| {
                let best = machine.best(&place.embedded.targets)?;
                machine.node(best)
            });
            permissions::amd(place, &gpus, works, &mut findings);
        }
        RuntimeKind::Nvidia => machine::nvidia(place, &mut findings),
        RuntimeKind::Emulator => {}
    }
    runtime::library(kind, &started, &mut findings);
    if let (Ok(started), Some(machine)) = (&started, &machine) {
        runtime::devices(place, started, machine, &mut findings);
        runtime::products(place, started, &mut findings);
        kernels::fit(place, started, machine, &mut findings);
    }
    caches::kernels(place, &mut findings);
    caches::timings(place, &mut findings);
    Report {
        runtime: Some(kind),
        findings,
    }
}
