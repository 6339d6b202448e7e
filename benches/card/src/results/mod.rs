//! Results beside those that were recorded from the emulator, bit for bit.
//!
//! Two lists: the cases of `tests/parity` for all of Candle's operators, in an item for each operator, and ladders of
//! larger sizes for each family of kernels, Candle's and the backend's own. Where a GPU may lawfully have
//! other bits, and where no digests were recorded, results are held to the CPU's in f64.

mod failed;
mod families;
mod judge;
mod ladder;
mod lawful;
mod table;
mod tally;

use std::path::Path;
use std::rc::Rc;

use anyhow::{bail, ensure, Context as _, Result};
use candle_core::{DType, Device};
use candle_rocm_backend::{DeviceExt as _, RocmDeviceExt as _};
use candle_rocm_card_record::{Item, Part, State};
use parity::case::Case;
use parity::record::works;
use parity::{cases, tolerance};
use serde_json::json;

use self::judge::{judge, Held, Judged, Verdict};
use self::ladder::Ladder;
use self::table::{digest, Digest, Table};
use self::tally::{Smallest, Tally};
use crate::asked::{Asked, How};
use crate::gpu;
use crate::job::Job;

/// Of a short run, one case of so many is looked at.
const SHORT_STEP: usize = 5;
/// And so many rungs of a ladder are left out, on top.
const SHORT_RUNGS: usize = 2;

/// What all jobs of the part share.
struct Bench<'a> {
    device: &'a Device,
    asked: &'a Asked,
    table: Table,
    /// The architecture that was recorded, and whether it is this very GPU.
    recorded: Option<(String, bool)>,
}

/// What is looked at.
///
/// # Errors
/// The cases cannot be made.
pub fn jobs<'a>(device: &'a Device, asked: &'a Asked) -> Result<Vec<Job<'a>>> {
    let table = Table::committed()?;
    let info = device.as_rocm_device()?.info();
    let recorded = table.recorded(&info.arch, info.compute_units);
    let recorded = recorded.map(|(arch, same)| (arch.to_owned(), same));
    let bench = Rc::new(Bench {
        device,
        asked,
        table,
        recorded,
    });
    let mut jobs = Vec::new();
    for (family, ladders) in families::all() {
        let bench = Rc::clone(&bench);
        jobs.push(Job::new(family, move || bench.family(family, &ladders)));
    }
    for (operator, cases) in by_operator()? {
        let bench = Rc::clone(&bench);
        let name = of_candle(operator);
        let item = name.clone();
        jobs.push(Job::new(name, move || {
            bench.operator(&item, operator, &cases)
        }));
    }
    Ok(jobs)
}

/// The name of the item of an operator of Candle's, and of its row.
fn of_candle(operator: &str) -> String {
    format!("candle: {operator}")
}

/// The cases of `tests/parity`, by operator, in order.
fn by_operator() -> Result<Vec<(&'static str, Vec<Case>)>> {
    let mut all: Vec<(&'static str, Vec<Case>)> = Vec::new();
    for case in cases::all()? {
        match all
            .iter_mut()
            .find(|(operator, _)| *operator == case.operator)
        {
            Some((_, cases)) => cases.push(case),
            None => all.push((case.operator, vec![case])),
        }
    }
    Ok(all)
}

impl Bench<'_> {
    fn held(
        &self,
        row: &str,
        at: usize,
        may_differ: bool,
        tolerance: Option<tolerance::Tolerance>,
    ) -> Held {
        let recorded = self.recorded.as_ref();
        let digests = recorded.and_then(|(arch, _)| self.table.of(row, arch));
        Held {
            digest: digests.and_then(|digests| digests.get(at).copied()),
            is_lawful: may_differ || recorded.is_some_and(|(_, same)| !same),
            tolerance,
        }
    }

    fn spoilt(&self, item: &str) -> Option<usize> {
        match self.asked.planted(Part::Results, item) {
            Some(How::Bit(elements)) => Some(elements),
            _ => None,
        }
    }

    /// An operator of Candle's.
    fn operator(&self, item: &str, operator: &str, cases: &[Case]) -> Result<Item> {
        let lawful = lawful::reason(operator);
        let step = if self.asked.short { SHORT_STEP } else { 1 };
        let mut tally = Tally::default();
        for (at, case) in cases.iter().enumerate().step_by(step) {
            let held = self.held(item, at, lawful.is_some(), tolerance_of(case));
            let judged = judge(case, self.device, &held, self.spoilt(item));
            tally.add(case, judged);
        }
        self.item(item, tally, lawful)
    }

    /// A family's ladders: the top of each, and of one that fails all below it.
    fn family(&self, item: &str, ladders: &[Ladder]) -> Result<Item> {
        let mut tally = Tally::default();
        let mut lawful = None;
        for ladder in ladders {
            lawful = lawful.or(ladder.lawful);
            let row = format!("{item}/{}", ladder.name);
            let sizes = ladder.sizes();
            let first = if self.asked.short { SHORT_RUNGS } else { 0 }.min(sizes.len() - 1);
            let rung = |at: usize| -> Result<(Case, Judged)> {
                let case = (ladder.make)(sizes[at])?;
                let held = self.held(&row, at, ladder.lawful.is_some(), ladder.tolerance);
                let judged = judge(&case, self.device, &held, self.spoilt(item));
                Ok((case, judged))
            };
            let (case, judged) = rung(first)?;
            let failed = judged.verdict.is_bad();
            tally.add(&case, judged);
            if failed && works(self.device) {
                for at in first + 1..sizes.len() {
                    let (case, judged) = rung(at)?;
                    tally.smaller(&case, judged);
                }
            }
        }
        self.item(item, tally, lawful)
    }

    fn item(&self, name: &str, tally: Tally, lawful: Option<&str>) -> Result<Item> {
        let bad = tally.wrong + tally.refused;
        let recorded = self.recorded.as_ref();
        let against = match recorded {
            Some((arch, true)) => format!("recorded of {arch}"),
            Some((arch, false)) => format!("recorded of {arch}, of other compute units"),
            None => "nothing recorded of this architecture".to_owned(),
        };
        let mut line = format!(
            "{} cases: {} equal, {} within {:.2} of the tolerance, {bad} wrong ({against})",
            tally.cases, tally.equal, tally.near, tally.largest
        );
        let mut smallest = serde_json::Value::Null;
        if let Some(failed) = &tally.smallest {
            let file = failed::write(&self.asked.out, name, failed)?;
            let Smallest { name, what, .. } = failed;
            line = format!(
                "{bad} of {} cases wrong; the smallest: {name}: {what}",
                tally.cases
            );
            smallest = json!({ "case": name, "what": what, "file": file.display().to_string() });
        }
        Ok(Item::new(name, State::of_check(bad == 0), line)
            .with("cases", tally.cases)
            .with("equal", tally.equal)
            .with("near", tally.near)
            .with("unheld", tally.unheld)
            .with("wrong", tally.wrong)
            .with("refused", tally.refused)
            .with("largest", tally.largest)
            .with("recorded", recorded.map(|(arch, _)| arch.clone()))
            .with("lawful", lawful)
            .with("smallest", smallest))
    }
}

/// The tolerance of `tests/parity`, for results of the inputs' dtype: the first that the operator has.
fn tolerance_of(case: &Case) -> Option<tolerance::Tolerance> {
    let dtypes = case.inputs.iter().map(|input| input.tensor().dtype());
    let floats = dtypes.filter(DType::is_float).chain([DType::F32]);
    let mut rows = floats.filter_map(|dtype| tolerance::of(case.operator, dtype));
    rows.next().map(|row| row.tolerance)
}

/// Records the digests of the GPU, which must be an emulated one, into a table, in place of what it has of the architecture.
///
/// # Errors
/// The GPU is none that is emulated; a ladder's result is further from the CPU's than its tolerance.
pub fn record(path: &Path) -> Result<()> {
    let device = gpu::open(&Asked::default())?;
    ensure!(
        gpu::is_emulated(&device),
        "digests are recorded from the emulated GPU: CANDLE_ROCM_RUNTIME=emulator"
    );
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut table = Table::parse(&text)?;
    let info = device.as_rocm_device()?.info();
    table.forget(&info.arch);
    table.units.insert(info.arch.clone(), info.compute_units);
    for (row, digests) in recorded(&device)? {
        table.set(&row, &info.arch, digests);
    }
    std::fs::write(path, table.to_string()).with_context(|| path.display().to_string())
}

/// A row's name and digests.
type Row = (String, Vec<Digest>);

fn recorded(device: &Device) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // All that is wrong is told at once.
    let mut wrong = Vec::new();
    let mut of = |case: &Case, tolerance| {
        digest_of(case, device, tolerance).unwrap_or_else(|error| {
            wrong.push(format!("{error:#}"));
            0
        })
    };
    for (family, ladders) in families::all() {
        for ladder in ladders {
            let mut digests = Vec::new();
            for size in ladder.sizes() {
                digests.push(of(&(ladder.make)(size)?, ladder.tolerance));
            }
            rows.push((format!("{family}/{}", ladder.name), digests));
        }
    }
    for (operator, cases) in by_operator()? {
        let digests = cases.iter().map(|case| of(case, None)).collect();
        rows.push((of_candle(operator), digests));
    }
    ensure!(
        wrong.is_empty(),
        "nothing is recorded:\n{}",
        wrong.join("\n")
    );
    Ok(rows)
}

/// A case's digest, whose result is within the tolerance, if there is one: `tests/parity` holds its own cases to results of
/// stock Candle's.
fn digest_of(
    case: &Case,
    device: &Device,
    tolerance: Option<tolerance::Tolerance>,
) -> Result<Digest> {
    let held = Held {
        digest: None,
        is_lawful: true,
        tolerance,
    };
    let judged = judge(case, device, &held, None);
    match (judged.verdict, judged.found) {
        (Verdict::Near(_), Some(found)) => Ok(digest(&found)),
        (Verdict::Unheld, Some(found)) if tolerance.is_none() => Ok(digest(&found)),
        (verdict, _) => bail!("{}: {verdict:?}", case.name),
    }
}
