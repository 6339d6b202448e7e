//! Which of the embedded kernels ran on which emulated GPU: reads what the emulator wrote to the file that
//! `ROCM_EMU_COVERAGE` named, prints a table, and fails if a kernel did not run.
//!
//! Usage: `coverage <file> <architecture>...`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{bail, ensure, Context, Result};
use candle_rocm_kernels as kernels;
use rocm_emulator::codeobject::CodeObject;

/// Kernels by architecture, from lines of an architecture, a tab and a kernel.
fn read(text: &str) -> Result<BTreeMap<&str, BTreeSet<&str>>> {
    let mut ran: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        let (arch, kernel) = line
            .split_once('\t')
            .with_context(|| format!("`{line}` is not an architecture, a tab and a kernel"))?;
        ran.entry(arch).or_default().insert(kernel);
    }
    Ok(ran)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().context("usage: coverage <file> <arch>...")?;
    let archs: Vec<String> = args.collect();
    ensure!(!archs.is_empty(), "usage: coverage <file> <arch>...");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let ran = read(&text)?;

    println!("Kernels that ran, of those embedded\n");
    print!("{:<10}", "module");
    archs.iter().for_each(|arch| print!(" {arch:>10}"));
    println!();
    let mut missing = Vec::new();
    let mut totals = vec![(0, 0); archs.len()];
    for module in kernels::MODULES {
        print!("{:<10}", module.name());
        for (arch, total) in archs.iter().zip(&mut totals) {
            let object = CodeObject::parse(&module.code_object(arch)?)?;
            let names: Vec<&str> = object.kernels.iter().map(|k| k.name.as_str()).collect();
            let not_run: Vec<&str> = names
                .iter()
                .copied()
                .filter(|name| !ran.get(arch.as_str()).is_some_and(|ran| ran.contains(name)))
                .collect();
            let covered = names.len() - not_run.len();
            *total = (total.0 + covered, total.1 + names.len());
            print!(" {:>10}", format!("{covered}/{}", names.len()));
            missing.extend(not_run.iter().map(|name| format!("{arch} {name}")));
        }
        println!();
    }
    print!("{:<10}", "all");
    for (covered, all) in totals {
        let percent = 100.0 * covered as f64 / all as f64;
        print!(" {:>10}", format!("{percent:.1}%"));
    }
    println!();
    if !missing.is_empty() {
        bail!(
            "{} kernels never ran:\n{}",
            missing.len(),
            missing.join("\n")
        );
    }
    Ok(())
}
