//! Measures candle-rocm beside Candle's own CUDA backend and PyTorch, and writes files and a page of the figures.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use candle_rocm_bench_protocol::Settings;
use candle_rocm_benches::cases::{self, Asked, Entry};
use candle_rocm_benches::measure::{Measurer, Plan};
use candle_rocm_benches::reasons::Reasons;
use candle_rocm_benches::results::{Results, OURS, STOCK};
use candle_rocm_benches::worker::Worker;
use candle_rocm_benches::{page, plots};
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use regex::Regex;

/// Benchmarks of candle-rocm beside Candle's own CUDA backend and PyTorch.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    /// Makes the page of a results file again, beside it.
    Page {
        /// What a run wrote.
        file: PathBuf,
    },
    /// Puts the rows of several files into the first one; later files win.
    Merge {
        /// What runs wrote.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// Measures (without a subcommand).
#[derive(Args)]
struct Run {
    /// Our worker; default: `candle-rocm-bench-worker` beside this program.
    #[arg(long)]
    ours: Option<PathBuf>,
    /// The worker on Candle's own CUDA backend, built in `stock/`.
    #[arg(long)]
    stock: Option<PathBuf>,
    /// A Python that has PyTorch.
    #[arg(long, value_name = "PYTHON")]
    torch: Option<OsString>,
    /// A further column for products of matrices, their host cost, convolutions, models and networks, from our worker with a
    /// variable set, such as `own:CANDLE_ROCM_GEMM=own`.
    #[arg(long, value_name = "NAME:VARIABLE=VALUE", value_parser = variant)]
    variant: Vec<(String, String, String)>,
    /// A further column for convolutions and networks, from a worker that makes them in another way, such as
    /// `stock-cudnn:PATH`.
    #[arg(long, value_name = "NAME:PROGRAM", value_parser = beside)]
    beside: Vec<(String, PathBuf)>,
    /// Only cases whose "operator dtype shape" fits this regular expression.
    #[arg(long, default_value = "")]
    filter: Regex,
    /// Only cases of these groups, such as `rows,host`.
    #[arg(long, value_delimiter = ',')]
    group: Vec<String>,
    /// Tokens of the models' prompts.
    #[arg(long, default_value_t = Settings::gpu().prompt)]
    prompt: usize,
    /// Tokens that the models decode after it.
    #[arg(long, default_value_t = Settings::gpu().decode)]
    decode: usize,
    /// A representative part in a minute or two.
    #[arg(long)]
    quick: bool,
    /// Turns of each worker for a case.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// No new case begins after so many seconds; what was measured is kept.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<u64>,
    /// Leaves out cases that the output file already holds.
    #[arg(long)]
    missing: bool,
    /// Tiny cases, each once, for the emulator. The figures mean nothing.
    #[arg(long, conflicts_with = "quick")]
    smallest: bool,
    /// Prints the cases and measures nothing.
    #[arg(long)]
    list: bool,
    /// Where to put the figures, and beside it the page of the same name; a file that exists is added to. Default:
    /// `benches/results/<gpu>.json`.
    #[arg(long)]
    out: Option<PathBuf>,
    /// A line for the page, such as the driver's version.
    #[arg(long)]
    note: Vec<String>,
}

fn variant(text: &str) -> Result<(String, String, String), String> {
    let parts = text.split_once(':').and_then(|(name, setting)| {
        let (variable, value) = setting.split_once('=')?;
        Some((name.to_owned(), variable.to_owned(), value.to_owned()))
    });
    parts.ok_or_else(|| format!("`{text}` is not NAME:VARIABLE=VALUE"))
}

fn beside(text: &str) -> Result<(String, PathBuf), String> {
    let parts = text.split_once(':');
    let parts = parts.map(|(name, program)| (name.to_owned(), PathBuf::from(program)));
    parts.ok_or_else(|| format!("`{text}` is not NAME:PROGRAM"))
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Page { file }) => write_page(&Results::load(&file)?, &file),
        Some(Command::Merge { files }) => {
            let (first, others) = files.split_first().context("no files")?;
            let mut results = Results::load(first)?;
            for other in others {
                results.merge(Results::load(other)?)?;
            }
            results.save(first)?;
            write_page(&results, first)
        }
        None => run(&cli.run),
    }
}

impl Run {
    /// The cases that are wanted.
    ///
    /// # Errors
    /// A group has no such name.
    fn entries(&self) -> Result<Vec<Entry>> {
        let all = if self.smallest {
            cases::smallest()
        } else {
            cases::all()
        };
        let name = |entry: &Entry| format!("{:?}", entry.group).to_lowercase();
        let groups: BTreeSet<String> = all.iter().map(name).collect();
        if let Some(unknown) = self.group.iter().find(|group| !groups.contains(*group)) {
            let groups: Vec<_> = groups.into_iter().collect();
            bail!("no group `{unknown}`: there are {}", groups.join(" "));
        }
        let wanted = |entry: &Entry| {
            let group = name(entry);
            (!self.quick || entry.quick)
                && self.filter.is_match(&entry.case.to_string())
                && (self.group.is_empty() || self.group.contains(&group))
        };
        Ok(all.into_iter().filter(wanted).collect())
    }

    fn workers(&self) -> Result<Vec<Worker>> {
        let ours = match &self.ours {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("candle-rocm-bench-worker"),
        };
        let mut workers = vec![Worker::start(OURS, &ours, &[])?];
        if let Some(stock) = &self.stock {
            workers.push(Worker::start(STOCK, stock, &[])?);
        }
        for (name, variable, value) in &self.variant {
            let setting = [(variable.clone(), value.clone())];
            let mut worker = Worker::start(name, &ours, &setting)?;
            worker.asked = Asked::Products;
            workers.push(worker);
        }
        for (name, program) in &self.beside {
            let mut worker = Worker::start(name, program, &[])?;
            worker.asked = Asked::Convolutions;
            workers.push(worker);
        }
        if let Some(python) = &self.torch {
            workers.push(Worker::start_torch(python)?);
        }
        let gpu = &workers[0].gpu;
        for worker in &workers {
            ensure!(
                worker.gpu == *gpu,
                "`{}` runs on {}, ours on {gpu}",
                worker.name,
                worker.gpu
            );
        }
        Ok(workers)
    }
}

/// How cases are measured.
fn plan(args: &Run) -> Plan {
    Plan {
        settings: if args.smallest {
            Settings::emulator()
        } else {
            Settings {
                prompt: args.prompt,
                decode: args.decode,
                ..Settings::gpu()
            }
        },
        rounds: if args.smallest { 1 } else { args.rounds },
        patience: Duration::from_millis(1500),
    }
}

fn run(args: &Run) -> Result<()> {
    let began = Instant::now();
    let mut entries = args.entries()?;
    if args.list {
        for entry in &entries {
            println!("{:?}\t{}", entry.group, entry.case);
        }
        return Ok(());
    }
    ensure!(!entries.is_empty(), "no case fits");
    let workers = args.workers()?;
    let mut results = Results {
        gpu: workers[0].gpu.clone(),
        date: time::OffsetDateTime::now_utc().date().to_string(),
        notes: args.note.clone(),
        rows: Vec::new(),
    };
    let out = args.out.clone().unwrap_or_else(|| {
        let name = file_stem(&results.gpu);
        Path::new("benches/results")
            .join(name)
            .with_extension("json")
    });
    if out.exists() {
        let mut earlier = Results::load(&out)?;
        earlier.merge(results)?;
        results = earlier;
    }
    if args.missing {
        entries.retain(|entry| results.rows.iter().all(|row| row.case != entry.case));
    }
    let plan = plan(args);
    let progress = ProgressBar::new(entries.len() as u64);
    progress.set_style(ProgressStyle::with_template(
        "{pos}/{len} {elapsed} (left {eta}) {wide_msg}",
    )?);
    let mut saved = Instant::now();
    let measured = Measurer::new(workers, plan).run(&entries, &progress, |rows| {
        // Also where there is no terminal for the progress.
        progress.suspend(|| {
            for row in &rows {
                println!("{:<44} {}", row.case.to_string(), line(row));
            }
        });
        let rows = Results {
            rows,
            ..results.clone_head()
        };
        results.merge(rows)?;
        // A run that is killed leaves what it measured.
        if saved.elapsed() > BETWEEN_SAVES {
            results.save(&out)?;
            saved = Instant::now();
        }
        let spent = args
            .budget
            .is_some_and(|budget| began.elapsed() > Duration::from_secs(budget));
        Ok(if spent {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    });
    // What was measured before a worker ended is kept.
    results.save(&out)?;
    println!("{}", out.display());
    measured?;
    write_page(&results, &out)
}

/// How long what was measured is held in memory alone: writing all rows takes some milliseconds.
const BETWEEN_SAVES: Duration = Duration::from_secs(1);

/// A row for the terminal.
fn line(row: &candle_rocm_benches::results::Row) -> String {
    let mut text = String::new();
    for (worker, figure) in &row.figures {
        text += &format!("{worker} {:.2} ", figure.median);
    }
    if let Some(ratio) = row.speedup(STOCK) {
        text += &format!("ratio {ratio:.2} ");
    }
    if let Some(share) = row.share_of_copy(OURS) {
        text += &format!("copy {:.0}% ", 100. * share);
    }
    if let Some(agreement) = row.agreement.filter(|agreement| !agreement.within) {
        text += &format!("DIFFERS {:.1e} ", agreement.worst);
    }
    for (worker, wrong) in &row.wrong {
        text += &format!("{worker}: {wrong} ");
    }
    for (worker, error) in &row.errors {
        text += &format!("{worker}: {} ", error.lines().next().unwrap_or_default());
    }
    text
}

/// A GPU's name as part of a file's.
fn file_stem(gpu: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = gpu.chars().map(plain).collect();
    let parts: Vec<_> = name.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-")
}

/// Writes the page and its plots beside the results, under their name.
fn write_page(results: &Results, file: &Path) -> Result<()> {
    let reasons = Reasons::parse(include_str!("../../reasons.toml"))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().context("the results' file has no name")?;
    let stem = stem.to_string_lossy();
    let plots = plots::draw(results, folder, &stem)?;
    let page_file = file.with_extension("md");
    std::fs::write(&page_file, page::page(results, &reasons, &plots))?;
    println!("{}", page_file.display());
    Ok(())
}
