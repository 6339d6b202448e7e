//! `cargo xtask kernel-times`: the CPU time that each kernel file takes to compile, without any cache.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{bail, Context, Result};
use rocm_toolchain::variables;

use crate::cargo::{self, cargo};
use crate::setup::ensure_toolchain;

/// What to compile.
#[derive(clap::Args)]
pub struct Args {
    /// The targets, separated by commas, as in CANDLE_ROCM_ARCHS.
    #[arg(long, default_value = "default")]
    arch: String,
    /// The jobs side by side, as cargo's own. Of more than the machine has cores for, each takes longer.
    #[arg(long)]
    jobs: Option<usize>,
}

/// Seconds of CPU time by module and target.
type Times = BTreeMap<String, BTreeMap<String, f64>>;

/// Compiles all kernels, and prints a table with those first that take longest.
pub fn run(args: &Args) -> Result<()> {
    ensure_toolchain()?;
    // A name of its own each time: the build runs again only if a variable has another value.
    let cache = cargo::target_folder().join(format!("kernel-times-{}", std::process::id()));
    let start = Instant::now();
    let log = build(args, &cache);
    let seconds = start.elapsed().as_secs_f64();
    if cache.exists() {
        std::fs::remove_dir_all(&cache).with_context(|| cache.display().to_string())?;
    }
    let times = read(&log?)?;
    print!("{}", table(&times));
    println!("The whole build took {seconds:.0} s, Rust's share included.");
    Ok(())
}

/// Builds the kernels' crate, and returns what its build script wrote.
fn build(args: &Args, cache: &PathBuf) -> Result<String> {
    let mut command = cargo(&["build", "--package", "candle-rocm-kernels"]);
    if let Some(jobs) = args.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    command
        .env(variables::ARCHS, &args.arch)
        .env(variables::KERNEL_CACHE, cache);
    for message in cargo::messages(&mut command)? {
        let package = message["package_id"].as_str().unwrap_or_default();
        let ran = message["reason"] == "build-script-executed";
        if let (true, true, Some(out)) = (
            ran,
            package.contains("candle-rocm-kernels"),
            message["out_dir"].as_str(),
        ) {
            let log = PathBuf::from(out).with_file_name("stderr");
            return std::fs::read_to_string(&log).with_context(|| log.display().to_string());
        }
    }
    bail!("cargo did not say where the build script of candle-rocm-kernels ran")
}

/// The lines `module target ... compiled in N s` of the build's log.
fn read(log: &str) -> Result<Times> {
    let mut times = Times::new();
    for line in log.lines() {
        let Some((what, time)) = line.split_once(", compiled in ") else {
            continue;
        };
        let mut words = what.split_whitespace();
        let (Some(module), Some(target)) = (words.next(), words.next()) else {
            bail!("no module and target in: {line}");
        };
        let seconds = time.strip_suffix(" s").and_then(|time| time.parse().ok());
        let seconds: f64 = seconds.with_context(|| format!("no seconds in: {line}"))?;
        let of_module = times.entry(module.to_owned()).or_default();
        of_module.insert(target.to_owned(), seconds);
    }
    match times.is_empty() {
        true => bail!("the build script compiled nothing; it wrote:\n{log}"),
        false => Ok(times),
    }
}

/// A line for each module, and one for all.
fn table(times: &Times) -> String {
    let targets: BTreeSet<&String> = times.values().flat_map(BTreeMap::keys).collect();
    let sum = |of_module: &BTreeMap<String, f64>| of_module.values().sum::<f64>();
    let mut rows: Vec<_> = times.iter().collect();
    rows.sort_by(|a, b| sum(b.1).total_cmp(&sum(a.1)));
    let mut text = format!("{:<12}", "CPU seconds");
    for target in &targets {
        text += &format!(" {target:>16}");
    }
    text += &format!(" {:>9}\n", "all");
    let mut line = |name: &str, of_module: &BTreeMap<String, f64>| {
        text += &format!("{name:<12}");
        for target in &targets {
            match of_module.get(*target) {
                Some(seconds) => text += &format!(" {seconds:>16.1}"),
                None => text += &format!(" {:>16}", "-"),
            }
        }
        text += &format!(" {:>9.1}\n", sum(of_module));
    };
    let mut all = BTreeMap::<String, f64>::new();
    for (module, of_module) in rows {
        line(module, of_module);
        for (target, seconds) in of_module {
            *all.entry(target.clone()).or_default() += seconds;
        }
    }
    line("all", &all);
    text
}

#[cfg(test)]
mod tests {
    use super::{read, table};

    #[test]
    fn the_builds_log_becomes_a_table() {
        let log = "\
/usr/bin/clang++ (clang 19)
fill       gfx942       1000 bytes,      200 compressed, compiled in 1.5 s
unary      gfx942       1000 bytes,      200 compressed, compiled in 20.0 s
unary      gfx11-generic     1000 bytes,      200 compressed, compiled in 30.5 s
sort       gfx942       1000 bytes,      200 compressed, cached
total: 3000 bytes, 600 compressed
";
        let text = table(&read(log).unwrap());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0],
            ["CPU", "seconds", "gfx11-generic", "gfx942", "all"]
        );
        assert_eq!(lines[1], ["unary", "30.5", "20.0", "50.5"]);
        assert_eq!(lines[2], ["fill", "-", "1.5", "1.5"]);
        assert_eq!(lines[3], ["all", "30.5", "21.5", "52.0"]);
        let nothing = read("total: 0 bytes\n").unwrap_err().to_string();
        assert!(nothing.contains("compiled nothing"), "{nothing}");
    }
}
