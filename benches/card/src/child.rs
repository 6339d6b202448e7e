//! The process that looks at one part, and tells another, line by line on its standard output, what it begins and finds.

use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, Result};
use candle_rocm_card_record::{Item, Part, Record, State};
use parity::record::{told, works};
use serde::{Deserialize, Serialize};

use crate::asked::{Asked, How};
use crate::job::{Job, Run};
use crate::{checks, facts, gpu, results, roofline, speeds};

/// A line of the standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// How many jobs the part has.
    Jobs(usize),
    /// A job begins.
    Begins(String),
    /// It has ended.
    Found(Item),
}

/// The exit code of a process that looked at everything.
pub const DONE: u8 = 0;
/// That of one that began nothing more, as the time was up.
pub const LATE: u8 = 4;
/// That of one whose GPU cannot be used any more.
pub const LOST: u8 = 5;

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Looks at what the record has not yet.
///
/// # Errors
/// The GPU cannot be opened, or nobody reads the standard output.
pub fn run(part: Part, asked: &Asked) -> Result<ExitCode> {
    let known = Record::load(&asked.out).ok();
    let device = match part {
        // What is wrong with the machine is to be told where there is no GPU.
        Part::Facts => gpu::open(asked).ok(),
        _ => Some(gpu::open(asked)?),
    };
    let jobs: Vec<Job> = match (part, &device) {
        (Part::Facts, device) => facts::jobs(device.as_ref()),
        (_, None) => vec![],
        (Part::Results, Some(device)) => results::jobs(device, asked)?,
        (Part::Checks, Some(device)) => checks::jobs(device, asked),
        (Part::Roofline, Some(device)) => roofline::jobs(device, asked)?,
        (Part::Speeds, Some(device)) => speeds::jobs(device, asked, known.as_ref())?,
    };
    say(&Said::Jobs(jobs.len()))?;
    for Job { name, run } in jobs {
        if known
            .as_ref()
            .is_some_and(|known| known.item(part, &name).is_some())
        {
            continue;
        }
        if asked.until.is_some_and(|until| now() >= until) {
            return Ok(ExitCode::from(LATE));
        }
        say(&Said::Begins(name.clone()))?;
        planted(asked.planted(part, &name));
        let began = Instant::now();
        let mut item = caught(run).unwrap_or_else(|error| {
            let error = format!("{error:#}");
            Item::new(
                &name,
                State::Wrong,
                error.lines().next().unwrap_or_default(),
            )
            .with("error", error.clone())
        });
        item.seconds = began.elapsed().as_secs_f64();
        item.name = name;
        let failed = item.state.is_bad();
        say(&Said::Found(item))?;
        if failed && device.as_ref().is_some_and(|device| !works(device)) {
            return Ok(ExitCode::from(LOST));
        }
    }
    Ok(ExitCode::from(DONE))
}

fn say(said: &Said) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, said)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// A panic in Candle's host code is an error of the job.
fn caught(run: Run) -> Result<Item> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(anyhow!(told(&*panic))))
}

fn planted(how: Option<How>) {
    match how {
        Some(How::Abort) => std::process::abort(),
        Some(How::Hang) => loop {
            std::thread::sleep(Duration::from_secs(60));
        },
        // The job's own matter.
        Some(How::Bit(_)) | None => {}
    }
}
