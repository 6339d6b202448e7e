//! `cargo xtask doctor`: what is wrong with this machine, for building and for running, and what to do.

use std::process::ExitCode;

use anyhow::Result;
use rocm_toolchain::{architectures, variables, Toolchain};

use crate::cargo::cargo;

/// Print a line for each thing; a failure if something is wrong that the chosen runtime or a build needs.
pub fn run() -> Result<ExitCode> {
    let mut healthy = true;
    let mut line = |wrong: bool, subject: &str, text: &str| {
        healthy &= !wrong;
        let state = if wrong { "WRONG" } else { "ok" };
        println!("{state:<6}{subject:<12}{}", text.replace('\n', "; "));
    };
    let mut targets = String::new();
    match Toolchain::find() {
        Ok(found) => {
            let libraries = found.device_libs.display();
            let compiler = format!("{} ({}), {libraries}", found.clang.display(), found.version);
            line(false, "compiler", &compiler);
            match architectures::of_environment(&found.processors) {
                Ok(chosen) => {
                    targets = chosen.archs.join(",");
                    let text = format!("a build here compiles for {targets} ({})", chosen.reason);
                    line(false, "targets", &text);
                    for notice in &chosen.notices {
                        line(false, "targets", &notice.to_string());
                    }
                }
                Err(error) => line(true, "targets", &error.to_string()),
            }
        }
        Err(missing) => line(true, "compiler", &missing.to_string()),
    }
    // The report needs no kernels, and no compiler for them.
    let mut report = cargo(&["run", "--quiet", "--profile", "quick"]);
    report
        .args(["--package", "candle-rocm-backend", "--example", "doctor"])
        .env(variables::SKIP_KERNELS, "1");
    if !targets.is_empty() {
        report.args(["--", "--targets", &targets]);
    }
    healthy &= report.status()?.success();
    Ok(match healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
