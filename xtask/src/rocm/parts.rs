//! What ran on AMD's HIP, part by part: how long each took, and which failed.

use std::time::{Duration, Instant};

use anyhow::{bail, Result};

/// All parts until now.
#[derive(Default)]
pub struct Parts {
    done: Vec<Part>,
}

struct Part {
    name: String,
    took: Duration,
    passed: bool,
}

impl Parts {
    /// Runs one. Its error is shown and counted, and the others run all the same: one run shows all that is wrong.
    pub fn run(&mut self, name: &str, run: impl FnOnce() -> Result<()>) {
        eprintln!("\n{name}, on AMD's HIP");
        let start = Instant::now();
        let result = run();
        let took = start.elapsed();
        if let Err(error) = &result {
            eprintln!("{error:#}");
        }
        eprintln!("  done in {:.1} s", took.as_secs_f32());
        self.done.push(Part {
            name: name.to_owned(),
            took,
            passed: result.is_ok(),
        });
    }

    /// The table of all.
    pub fn print(&self) {
        eprintln!("\nOn AMD's own HIP:");
        for part in &self.done {
            let result = if part.passed { "passed" } else { "FAILED" };
            eprintln!(
                "  {:6.1} s  {result}  {}",
                part.took.as_secs_f32(),
                part.name
            );
        }
        let all: Duration = self.done.iter().map(|part| part.took).sum();
        eprintln!("  {:6.1} s  in all", all.as_secs_f32());
    }

    /// An error that names the parts that failed, if any did.
    pub fn passed(&self) -> Result<()> {
        let failed = self.done.iter().filter(|part| !part.passed);
        let failed: Vec<&str> = failed.map(|part| part.name.as_str()).collect();
        if !failed.is_empty() {
            bail!("on AMD's own HIP failed:\n{}", failed.join("\n"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;

    #[test]
    fn what_fails_is_named_and_the_rest_runs() {
        let mut parts = Parts::default();
        parts.run("first", || anyhow::bail!("no"));
        parts.run("second", || Ok(()));
        let error = parts.passed().unwrap_err().to_string();
        assert!(
            error.contains("first") && !error.contains("second"),
            "{error}"
        );
    }
}
