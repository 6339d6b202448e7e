//! `candle-rocm-card`: whether everything is right on a GPU, and how fast it is.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{ensure, Result};
use candle_rocm_card::asked::{Asked, Plant};
use candle_rocm_card::supervise::Ended;
use candle_rocm_card::{checks, child, gpu, results, supervise};
use candle_rocm_card_record::paste::paste;
use candle_rocm_card_record::{Part, Record};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};

/// Looks at a GPU: its facts, its results beside recorded ones, graphs and streams, what it can do, how fast operators and
/// models are. Writes one JSON file, and at most 60 lines to paste. Nothing is sent anywhere.
#[derive(Parser)]
#[command(name = "candle-rocm-card", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Args)]
struct Run {
    /// The file to write [default: candle-rocm-card.json].
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Go on with a file: what is in it is not looked at again.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Look at these parts alone, and at the facts: facts, results, checks, roofline, speeds.
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    /// Look at less: a minute in place of ten.
    #[arg(long)]
    short: bool,
    /// The GPU's number [default: the best one].
    #[arg(long)]
    device: Option<usize>,
    /// Begin nothing new after so many seconds; --resume goes on.
    #[arg(long, default_value_t = 600)]
    budget: u64,
    /// The most seconds that one thing may take before it counts as one that hangs.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// A fault to make, for tests.
    #[arg(long, hide = true)]
    plant: Option<Plant>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the lines to paste of a file.
    Paste {
        /// The file.
        file: PathBuf,
    },
    /// Write the digests of this GPU's results, which must be the emulated one's, into the table.
    #[command(hide = true)]
    Record {
        /// The table.
        table: PathBuf,
    },
    /// Print a number made of the bits of many results, for another process to compare.
    #[command(hide = true)]
    Digest {
        #[arg(long)]
        device: Option<usize>,
    },
    /// Measure what the standard input asks for, as the benchmarks' worker.
    #[command(hide = true)]
    Worker {
        #[arg(long)]
        device: Option<usize>,
    },
    /// Look at one part, in a process that another watches.
    #[command(hide = true)]
    Child {
        /// The part.
        part: Part,
        #[arg(long)]
        out: PathBuf,
        #[arg(long)]
        short: bool,
        #[arg(long)]
        device: Option<usize>,
        #[arg(long)]
        until: Option<u64>,
        #[arg(long)]
        plant: Option<Plant>,
    },
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    match cli.command {
        None => run(cli.run),
        Some(Command::Paste { file }) => {
            println!("{}", paste(&Record::load(&file)?));
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Record { table }) => {
            results::record(&table)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Digest { device }) => {
            let asked = Asked {
                device,
                ..Asked::default()
            };
            println!("{}", checks::digest(&asked)?);
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Worker { device }) => {
            let asked = Asked {
                device,
                ..Asked::default()
            };
            bench_worker::serve(|| gpu::open(&asked))?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Child {
            part,
            out,
            short,
            device,
            until,
            plant,
        }) => child::run(
            part,
            &Asked {
                out,
                short,
                device,
                until,
                plant,
            },
        ),
    }
}

fn run(run: Run) -> Result<ExitCode> {
    let (out, mut record) = match (run.resume, run.out) {
        (Some(file), _) => {
            let mut record = Record::load(&file)?;
            // A process that did not start then may start now.
            for items in record.parts.values_mut() {
                items.retain(|item| item.name != supervise::START);
            }
            ensure!(
                record.short == run.short,
                "{} is {}: go on {} --short",
                file.display(),
                if record.short { "short" } else { "whole" },
                if record.short { "with" } else { "without" },
            );
            (file, record)
        }
        (None, out) => {
            let out = out.unwrap_or_else(|| "candle-rocm-card.json".into());
            ensure!(
                !out.exists(),
                "{} is there: --resume goes on with it, --out names another",
                out.display()
            );
            (
                out,
                Record::new(env!("CARGO_PKG_VERSION"), child::now(), run.short),
            )
        }
    };
    let asked = Asked {
        out,
        short: run.short,
        device: run.device,
        until: Some(child::now() + run.budget),
        plant: run.plant,
    };
    let all = Part::ALL.into_iter();
    let mut late = false;
    // Figures say nothing without the card that they are of.
    let is_wanted =
        |part: &Part| run.only.is_empty() || run.only.contains(part) || *part == Part::Facts;
    for part in all.filter(is_wanted) {
        let bar = bar(part);
        let patience = Duration::from_secs(run.patience);
        let ended = supervise::part(part, &asked, patience, &mut record, &bar)?;
        if part == Part::Facts {
            record.emulated = is_emulated(&record);
            record.save(&asked.out)?;
        }
        late |= ended == Ended::Late;
        bar.finish_and_clear();
    }
    println!("{}", paste(&record));
    eprintln!("\nAll of it is in {}.", asked.out.display());
    if late {
        let file = asked.out.display();
        eprintln!("The time was up before everything was looked at: --resume {file} goes on.");
    }
    Ok(match record.is_right() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn is_emulated(record: &Record) -> bool {
    let card = record.item(Part::Facts, "card");
    card.and_then(|card| card.text("runtime")) == Some("emulator")
}

fn bar(part: Part) -> ProgressBar {
    let style = ProgressStyle::with_template("{pos}/{len} {wide_msg} {elapsed}");
    let bar = ProgressBar::new(0).with_message(part.name());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
