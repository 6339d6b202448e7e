//! Running cargo and other programs: every command is echoed, and a failure names it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use rocm_toolchain::variables;

/// The workspace root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A cargo command in the workspace root, with the cargo that runs this task. It compiles kernels for the whole default
/// set, and not for the GPUs of this machine alone, unless the user's variable or the caller says otherwise.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    if std::env::var_os(variables::ARCHS).is_none_or(|choice| choice.is_empty()) {
        command.env(variables::ARCHS, "default");
    }
    command
}

/// Builds, and returns the programs that come of it, by their targets' names.
pub fn build(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    programs(command.arg(MESSAGES))
}

/// The same of a command that asks for [`MESSAGES`] already.
pub fn programs(command: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    let mut programs = Vec::new();
    for message in told(command)? {
        let target = message["target"]["name"].as_str();
        if let (Some(target), Some(file)) = (target, message["executable"].as_str()) {
            programs.push((target.to_owned(), PathBuf::from(file)));
        }
    }
    Ok(programs)
}

/// Asks cargo to tell of each thing that it builds, and to show errors as it shows them to people.
pub const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// Builds, and returns what cargo says of each thing that it built.
pub fn messages(command: &mut Command) -> Result<Vec<serde_json::Value>> {
    told(command.arg(MESSAGES))
}

fn told(command: &mut Command) -> Result<Vec<serde_json::Value>> {
    eprintln!("\n$ {}", line_of(command));
    let start = Instant::now();
    let text = output(command)?;
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f32());
    let messages = text.lines().map(serde_json::from_str);
    messages
        .collect::<Result<_, _>>()
        .context("cargo's messages")
}

/// Run to the end; echo the command line and how long it took.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("\n$ {}", line_of(command));
    run_timed(command)
}

/// Run to the end; echo how long it took.
pub fn run_timed(command: &mut Command) -> Result<()> {
    let start = Instant::now();
    run_quietly(command)?;
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}

/// Run to the end; only a failure shows the command line.
pub fn run_quietly(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start `{}`", line_of(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line_of(command));
    }
    Ok(())
}

/// Run to the end with errors shown; what it prints is returned.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", line_of(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", line_of(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed no text", line_of(command)))
}

/// Where cargo puts what it builds.
pub fn target_folder() -> PathBuf {
    let folder = std::env::var_os("CARGO_TARGET_DIR");
    root().join(folder.map_or_else(|| PathBuf::from("target"), PathBuf::from))
}

/// A command as one types it.
pub fn line_of(command: &Command) -> String {
    let mut line = String::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            line += &format!("{}={} ", key.to_string_lossy(), value.to_string_lossy());
        }
    }
    let program = PathBuf::from(command.get_program());
    line += &program.file_name().unwrap_or_default().to_string_lossy();
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        if arg.is_empty() || arg.contains(' ') {
            line += &format!(" {arg:?}");
        } else {
            line += &format!(" {arg}");
        }
    }
    line
}
