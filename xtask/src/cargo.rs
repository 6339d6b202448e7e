//! Running cargo and other programs: every command is echoed, and a failure names it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, Context, Result};

/// The workspace root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A cargo command in the workspace root, with the cargo that runs this task.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Run to the end; echo the command line and how long it took.
pub fn run(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    eprintln!("\n$ {line}");
    let start = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    eprintln!("  done in {:.0} s", start.elapsed().as_secs_f32());
    Ok(())
}

fn line_of(command: &Command) -> String {
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
