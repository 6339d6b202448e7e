//! `parity`: records what every operator gives on this machine's GPU, and compares two such recordings.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{ensure, Context as _, Result};
use candle_core::Device;
use parity::compare::{compare, Reference};
use parity::record::{about, record};
use parity::recording::Recording;
use parity::{cases, tolerance};

const USAGE: &str = "\
parity record FILE                  run all cases on GPU 0 and write their results
parity record FILE --resume         the same, keeping the results that the file has
parity compare REFERENCE OURS       hold one recording to another; exit code 1 if a case is too far off.
                                    REFERENCE may be cpu: the CPU backend's results in f64
parity compare REFERENCE OURS --largest
                                    also print the largest difference of each operator and dtype, in shares of
                                    the allowed one
parity convert FROM TO              write a recording again: compressed, if TO ends in .zst
parity list                         the names of all cases
parity tolerances                   the tables of tolerances and of exceptions";

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let failed = match arguments[..] {
        ["record", file] => return record_to(file.as_ref(), false),
        ["record", file, "--resume"] => return record_to(file.as_ref(), true),
        ["compare", reference, ours] => compare_files(reference.as_ref(), ours.as_ref(), false)?,
        ["compare", reference, ours, "--largest"] => {
            compare_files(reference.as_ref(), ours.as_ref(), true)?
        }
        ["convert", from, to] => {
            Recording::load(from.as_ref())?.save(to.as_ref())?;
            false
        }
        ["list"] => {
            for case in cases::all()? {
                println!("{}", case.name);
            }
            false
        }
        ["tolerances"] => {
            print_tolerances();
            false
        }
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    Ok(ExitCode::from(u8::from(failed)))
}

fn record_to(file: &Path, resume: bool) -> Result<ExitCode> {
    let device = Device::new_cuda(0)?;
    let mut recording = if resume {
        Recording::load(file)?
    } else {
        Recording {
            about: about(&device)?,
            ..Recording::default()
        }
    };
    let cases = cases::all()?;

    let lost = record(&cases, &device, &mut recording)?;
    recording.save(file)?;
    if let Some(case) = lost {
        eprintln!("{case}: the device cannot be used after this case, going on in a new process");
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        let status = command.arg("record").arg(file).arg("--resume").status()?;
        ensure!(
            status.success(),
            "the process that went on ended with {status}"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let refused = recording.outcomes.values().filter(|o| o.is_err()).count();
    println!(
        "{}: {} cases, {refused} refused",
        recording.title(),
        recording.outcomes.len()
    );
    Ok(ExitCode::SUCCESS)
}

fn compare_files(reference: &Path, ours: &Path, largest: bool) -> Result<bool> {
    let cases = cases::all()?;
    let ours = Recording::load(ours)?;
    let stock = match reference.to_str() {
        Some("cpu") => None,
        _ => Some(Recording::load(reference).context("the reference")?),
    };
    let title = stock.as_ref().map_or("the CPU".into(), Recording::title);
    println!("{}, held to {title}", ours.title());
    let reference = stock.as_ref().map_or(Reference::Cpu, Reference::Stock);
    let report = compare(&cases, &reference, &ours)?;
    if largest {
        for ((operator, dtype), (share, case)) in &report.largest {
            println!("{share:8.3} {operator} {dtype} ({case})");
        }
    }
    print!("{report}");
    Ok(!report.failures.is_empty())
}

fn print_tolerances() {
    println!("roundings of the dtype, of the element and of the largest; of f32, of the largest");
    for row in tolerance::ROWS {
        let tolerance = row.tolerance;
        let dtypes: Vec<&str> = row.dtypes.iter().map(|dtype| dtype.as_str()).collect();
        println!(
            "{} {} {}: {} of {}: {}",
            tolerance.element,
            tolerance.largest,
            tolerance.inside,
            row.operators.join(", "),
            dtypes.join(", "),
            row.reason
        );
    }
    for exception in tolerance::EXCEPTIONS {
        println!(
            "held to the CPU: {} of {}: {}",
            exception.operators.join(", "),
            exception.named.join(", "),
            exception.reason
        );
    }
}
