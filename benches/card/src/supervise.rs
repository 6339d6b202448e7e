//! Starts the processes that look at parts, and watches them.
//!
//! A process that ends while it looks at something, or does not end in time, is an item of the record; another one looks
//! at the rest.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use candle_rocm_card_record::{Item, Part, Record, State};
use indicatif::ProgressBar;

use crate::asked::Asked;
use crate::child::{Said, DONE, LATE};

/// The most processes that may fail on one part: one that fails at everything says nothing new.
const FAILURES: usize = 8;
/// The most lines of a failed process' standard error that are kept.
const LINES: usize = 12;

/// The name of the item of a process that failed before its first job.
pub const START: &str = "start";

/// How a part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was looked at.
    Done,
    /// The time was up before.
    Late,
    /// Too many processes failed.
    GaveUp,
}

/// What watching a process tells.
enum Watched {
    /// It ended by itself, with this as the last job that it began and did not end.
    Ended(ExitStatus, Option<String>),
    /// It did not end in time.
    Hung(Option<String>),
}

/// Looks at a part, in as many processes as that takes. Each item is added to the record, and the file written, as it is
/// found. A job may take as long as `patience`.
///
/// # Errors
/// A process cannot be started, or the file not be written.
pub fn part(
    part: Part,
    asked: &Asked,
    patience: Duration,
    record: &mut Record,
    bar: &ProgressBar,
) -> Result<Ended> {
    for _ in 0..FAILURES {
        record.save(&asked.out)?;
        let mut child = command(part, asked)?
            .spawn()
            .context("starting a process of its own")?;
        let (lines, readers) = read(&mut child);
        let watched = watch(
            &mut child,
            &lines,
            patience,
            |item| {
                bar.inc(1);
                bar.set_message(format!("{part}: {}", item.name));
                record.parts.entry(part).or_default().push(item);
                record.save(&asked.out)
            },
            bar,
        )?;
        let said = readers.join().unwrap_or_default();
        let (state, how, job) = match watched {
            Watched::Ended(status, None) if status.code() == Some(DONE.into()) => {
                return Ok(Ended::Done)
            }
            Watched::Ended(status, None) if status.code() == Some(LATE.into()) => {
                return Ok(Ended::Late)
            }
            // The GPU was lost after a job that told so itself.
            Watched::Ended(status, None) if status.code() == Some(crate::child::LOST.into()) => {
                continue
            }
            Watched::Ended(status, job) => {
                (State::Fault, format!("the process ended: {status}"), job)
            }
            Watched::Hung(job) => (
                State::Hang,
                format!("no end within {} s", patience.as_secs()),
                job,
            ),
        };
        let began = job.is_some();
        let name = job.unwrap_or_else(|| START.to_owned());
        let last = said.iter().rev().find(|line| !line.trim().is_empty());
        let line = match last {
            Some(last) => format!("{how}: {}", last.trim()),
            None => how,
        };
        let item = Item::new(name, state, line).with("stderr", said);
        record.parts.entry(part).or_default().push(item);
        record.save(&asked.out)?;
        if !began {
            // The next one would not start either.
            return Ok(Ended::GaveUp);
        }
    }
    Ok(Ended::GaveUp)
}

/// This program, looking at a part.
fn command(part: Part, asked: &Asked) -> Result<Command> {
    let mut command = asked.program(&["child", part.name()])?;
    command.arg("--out").arg(&asked.out);
    if asked.short {
        command.arg("--short");
    }
    if let Some(until) = asked.until {
        command.args(["--until", &until.to_string()]);
    }
    if let Some(plant) = &asked.plant {
        command.args(["--plant", &plant.to_string()]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// What a process says, as it says it, and the end of its standard error, once it has ended.
fn read(child: &mut Child) -> (Receiver<Said>, JoinHandle<Vec<String>>) {
    let (sender, lines) = channel();
    let stdout = child.stdout.take().expect("it is piped");
    std::thread::spawn(move || {
        let said = BufReader::new(stdout).lines().map_while(Result::ok);
        // What a library prints is no line of ours.
        for said in said.filter_map(|line| serde_json::from_str(&line).ok()) {
            if sender.send(said).is_err() {
                return;
            }
        }
    });
    let stderr = child.stderr.take().expect("it is piped");
    (lines, std::thread::spawn(move || last_lines(stderr)))
}

fn last_lines(from: impl Read) -> Vec<String> {
    let mut last = VecDeque::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        last.push_back(String::from_utf8_lossy(&line).into_owned());
        if last.len() > LINES {
            last.pop_front();
        }
    }
    last.into()
}

fn watch(
    child: &mut Child,
    lines: &Receiver<Said>,
    patience: Duration,
    mut found: impl FnMut(Item) -> Result<()>,
    bar: &ProgressBar,
) -> Result<Watched> {
    let mut job = None;
    let mut until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(Said::Jobs(count)) => bar.set_length(count as u64),
            Ok(Said::Begins(name)) => job = Some(name),
            Ok(Said::Found(item)) => {
                job = None;
                found(item)?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(Watched::Ended(child.wait()?, job)),
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                return Ok(Watched::Hung(job));
            }
        }
        until = Instant::now() + patience;
    }
}
