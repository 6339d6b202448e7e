//! `cargo xtask doctor`: what is wrong with this machine, for building and for running, and what to do.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use rocm_toolchain::{architectures, variables, Toolchain};
use serde_json::{json, Value};

use crate::cargo::cargo;

/// How the report is written.
#[derive(clap::Args)]
pub struct Args {
    /// Write JSON: `runtime`, `healthy`, and `findings` with `subject`, `state`, `found` and `advice`
    #[arg(long)]
    json: bool,
}

/// A line on what a build needs.
struct Line {
    is_wrong: bool,
    subject: &'static str,
    text: String,
}

/// Print a line for each thing; a failure if something is wrong that the chosen runtime or a build needs.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (lines, targets) = of_builds();
    // The report needs no kernels, and no compiler for them.
    let mut report = cargo(&["run", "--quiet", "--profile", "quick"]);
    report
        .args(["--package", "candle-rocm-backend", "--example", "doctor"])
        .env(variables::SKIP_KERNELS, "1")
        .arg("--");
    if args.json {
        report.arg("--json");
    }
    if !targets.is_empty() {
        report.args(["--targets", &targets]);
    }
    let healthy = match args.json {
        true => print_json(&lines, &mut report)?,
        false => {
            for line in &lines {
                let state = if line.is_wrong { "WRONG" } else { "ok" };
                let text = line.text.replace('\n', "; ");
                println!("{state:<6}{:<12}{text}", line.subject);
            }
            report.status()?.success() && !lines.iter().any(|line| line.is_wrong)
        }
    };
    Ok(match healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What a build needs, and the targets that one here compiles for.
fn of_builds() -> (Vec<Line>, String) {
    let mut lines = Vec::new();
    let mut line = |is_wrong: bool, subject: &'static str, text: String| {
        lines.push(Line {
            is_wrong,
            subject,
            text,
        });
    };
    let mut targets = String::new();
    match Toolchain::find() {
        Ok(found) => {
            let (clang, libraries) = (found.clang.display(), found.device_libs.display());
            line(
                false,
                "compiler",
                format!("{clang} ({}), {libraries}", found.version),
            );
            match architectures::of_environment(&found.processors) {
                Ok(chosen) => {
                    targets = chosen.archs.join(",");
                    let text = format!("a build here compiles for {targets} ({})", chosen.reason);
                    line(false, "targets", text);
                    for notice in &chosen.notices {
                        line(false, "targets", notice.to_string());
                    }
                }
                Err(error) => line(true, "targets", error.to_string()),
            }
        }
        Err(missing) => line(true, "compiler", missing.to_string()),
    }
    (lines, targets)
}

/// Prints the report with the lines before its own findings, and tells whether all is well.
fn print_json(lines: &[Line], report: &mut Command) -> Result<bool> {
    let output = report.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let report = serde_json::from_str(&text).context("the report is no JSON")?;
    let (all, healthy) = joined(lines, report);
    println!("{all:#}");
    Ok(healthy)
}

/// A report with the lines before its own findings, and whether all is well.
fn joined(lines: &[Line], mut report: Value) -> (Value, bool) {
    let of_line = |line: &Line| {
        json!({
            "subject": line.subject,
            "state": if line.is_wrong { "wrong" } else { "ok" },
            "found": line.text,
            "advice": "",
        })
    };
    let mut findings: Vec<Value> = lines.iter().map(of_line).collect();
    if let Some(own) = report["findings"].as_array() {
        findings.extend(own.iter().cloned());
    }
    let healthy = report["healthy"] == true && !lines.iter().any(|line| line.is_wrong);
    report["findings"] = findings.into();
    report["healthy"] = healthy.into();
    (report, healthy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_builds_come_first_and_count() {
        let line = |is_wrong| Line {
            is_wrong,
            subject: "compiler",
            text: "clang".to_owned(),
        };
        let report =
            || json!({ "runtime": "amd", "healthy": true, "findings": [{ "subject": "driver" }] });
        let (all, healthy) = joined(&[line(false)], report());
        assert!(healthy);
        assert_eq!(all["findings"][0]["state"], "ok");
        assert_eq!(all["findings"][1]["subject"], "driver");
        let (all, healthy) = joined(&[line(true)], report());
        assert!(!healthy);
        assert_eq!(all["healthy"], false);
    }
}
