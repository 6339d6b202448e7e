//! Runs programs, as many at once as there are processors: many tests have work for one alone.

use std::collections::VecDeque;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{mpsc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};
use wait_timeout::ChildExt as _;

use crate::cargo;

/// How long a program may take: the longest takes some minutes on 2 processors, and one that never ends is to be named.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A program to run.
pub struct Job {
    /// What to call it.
    pub name: String,
    /// How it is started.
    pub command: Command,
}

/// A program that ended.
pub struct Ended {
    /// The job's name.
    pub name: String,
    /// From its start to its end.
    pub took: Duration,
    /// What it wrote to its streams.
    pub printed: String,
    /// An error if it did not start or did not succeed.
    pub result: Result<()>,
}

/// Runs all, in this order, and calls `ended` as each ends, which is in another.
///
/// # Errors
/// This machine does not say how many processors it has.
pub fn run(jobs: Vec<Job>, mut ended: impl FnMut(Ended)) -> Result<()> {
    let at_once = thread::available_parallelism().context("how many processors are there?")?;
    let at_once = at_once.get().min(jobs.len());
    let waiting = Mutex::new(VecDeque::from(jobs));
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    };
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..at_once {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(job) = next() {
                    // The receiver outlives all senders.
                    let _ = sender.send(run_one(job));
                }
            });
        }
        drop(sender);
        receiver.into_iter().for_each(&mut ended);
    });
    Ok(())
}

fn run_one(job: Job) -> Ended {
    let start = Instant::now();
    let mut printed = Vec::new();
    let result = run_command(job.command, LIMIT, &mut printed);
    Ended {
        name: job.name,
        took: start.elapsed(),
        printed: String::from_utf8_lossy(&printed).into_owned(),
        result,
    }
}

/// Runs a program to its end, or for as long as `limit`, and adds to `printed` what it wrote to either stream, in its order.
fn run_command(mut command: Command, limit: Duration, printed: &mut Vec<u8>) -> Result<()> {
    let line = cargo::line_of(&command);
    let (mut reader, writer) = std::io::pipe().context("a pipe")?;
    let errors = writer.try_clone().context("a pipe's second end")?;
    // A group of its own, so that what the program started ends with it.
    let child = command
        .stdout(writer)
        .stderr(errors)
        .process_group(0)
        .spawn();
    let mut child = child.with_context(|| format!("cannot start `{line}`"))?;
    // It holds this process's ends of the pipe.
    drop(command);
    thread::scope(|scope| {
        let read = scope.spawn(|| reader.read_to_end(printed));
        let ended = child
            .wait_timeout(limit)
            .with_context(|| format!("`{line}`"))?;
        if ended.is_none() {
            let group = Pid::from_child(&child);
            kill_process_group(group, Signal::KILL).with_context(|| format!("ending `{line}`"))?;
            child.wait().with_context(|| format!("`{line}`"))?;
        }
        let read = read
            .join()
            .map_err(|_| anyhow!("reading what `{line}` printed"))?;
        read.with_context(|| format!("what `{line}` printed"))?;
        let status = ended.with_context(|| format!("`{line}` did not end in {limit:?}"))?;
        ensure!(status.success(), "`{line}` failed: {status}");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job {
            name: name.to_owned(),
            command,
        }
    }

    #[test]
    fn each_ends_once_with_what_it_printed() {
        let mut absent = shell("absent", "");
        absent.command = Command::new("/no/such/program");
        let jobs = vec![
            shell("both", "echo out; echo err >&2; echo out"),
            shell("fails", "echo why; exit 3"),
            absent,
            shell("silent", ""),
        ];
        let mut all = Vec::new();
        run(jobs, |ended| all.push(ended)).unwrap();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let printed: Vec<(&str, &str, bool)> = all
            .iter()
            .map(|job| (&*job.name, &*job.printed, job.result.is_ok()))
            .collect();
        let expected = [
            ("absent", "", false),
            ("both", "out\nerr\nout\n", true),
            ("fails", "why\n", false),
            ("silent", "", true),
        ];
        assert_eq!(printed, expected);
        let error = format!("{:#}", all[2].result.as_ref().unwrap_err());
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn what_does_not_end_is_ended_with_what_it_started() {
        let mut printed = Vec::new();
        let job = shell("waits", "echo begun; sleep 600");
        let error = run_command(job.command, Duration::from_millis(300), &mut printed).unwrap_err();
        assert_eq!(printed, b"begun\n");
        assert!(
            error.to_string().ends_with("did not end in 300ms"),
            "{error}"
        );
    }
}
