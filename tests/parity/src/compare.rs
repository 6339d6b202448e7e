//! Holds one recording to another, case by case.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{ensure, Result};
use candle_core::DType;

use crate::case::Case;
use crate::numbers::Numbers;
use crate::record::caught;
use crate::recording::{Array, Outcome, Recording};
use crate::tolerance::{self, Tolerance};

/// What the results are held to.
pub enum Reference<'a> {
    /// Stock Candle's on CUDA; the CPU's where stock refuses a case, or an exception says so.
    Stock(&'a Recording),
    /// The CPU's in f64, in all cases.
    Cpu,
}

/// What became of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// To stock CUDA's result.
    ToStock,
    /// To the CPU's, because stock refuses the case.
    ToCpuAsStockRefuses,
    /// To the CPU's, because of an exception.
    ToCpuByException,
    /// To the CPU's, as was asked for.
    ToCpu,
    /// To nothing: both backends refuse it.
    RefusedByBoth,
}

/// The comparison of all cases.
#[derive(Default)]
pub struct Report {
    /// How many cases were held to what.
    pub held: BTreeMap<Held, usize>,
    /// Each failure, in a line or a few.
    pub failures: Vec<String>,
    /// For operator and dtype: the largest difference in shares of the allowed one, and its case.
    pub largest: BTreeMap<(String, String), (f64, String)>,
    /// The cases that stock refuses, by its error.
    pub refused_by_stock: BTreeMap<String, usize>,
    /// The cases that ours refuses, by its error.
    pub refused_by_ours: BTreeMap<String, usize>,
}

/// Compares the results of all cases. Errors are only of files that do not belong to this list of cases.
pub fn compare(cases: &[Case], reference: &Reference, ours: &Recording) -> Result<Report> {
    if let Reference::Stock(stock) = reference {
        same_cases(cases, stock)?;
    }
    same_cases(cases, ours)?;
    let mut report = Report::default();
    let mut needed = vec![false; tolerance::EXCEPTIONS.len()];
    for case in cases {
        let found = &ours.outcomes[&case.name];
        let stock = match reference {
            Reference::Stock(stock) => Some(&stock.outcomes[&case.name]),
            Reference::Cpu => None,
        };
        if let Some(Err(error)) = stock {
            *report.refused_by_stock.entry(kind(error)).or_default() += 1;
        }
        if let Err(error) = found {
            *report.refused_by_ours.entry(kind(error)).or_default() += 1;
        }
        let exception = stock.and_then(|_| tolerance::exception(case.operator, &case.name));
        let (held, result) = hold(case, stock, found, exception.is_some());
        if let (Some(exception), Some(Ok(stock)), Ok(found)) = (exception, stock, found) {
            let agrees = difference(case, &stock.numbers(), found).is_ok_and(|d| d.share <= 1.0);
            needed[exception] |= !agrees;
        }
        *report.held.entry(held).or_default() += 1;
        match result {
            Ok(Some(difference)) => report.note(case, found, difference),
            Ok(None) => {}
            Err(failure) => report.failures.push(format!("{}: {failure}", case.name)),
        }
    }
    if matches!(reference, Reference::Stock(_)) {
        let unneeded = tolerance::EXCEPTIONS.iter().zip(needed);
        for (exception, _) in unneeded.filter(|(_, needed)| !needed) {
            report.failures.push(format!(
                "the exception for {:?} {:?} is not needed: stock agrees",
                exception.operators, exception.named
            ));
        }
    }
    Ok(report)
}

/// The recording has these cases and no other, with these inputs.
fn same_cases(cases: &[Case], recording: &Recording) -> Result<()> {
    for case in cases {
        ensure!(
            recording.outcomes.contains_key(&case.name),
            "{} has no case {:?}: record again",
            recording.title(),
            case.name
        );
        ensure!(
            recording.inputs.get(&case.name) == Some(&case.fingerprint()?),
            "{}: the inputs of {:?} were others: record again",
            recording.title(),
            case.name
        );
    }
    ensure!(
        recording.outcomes.len() == cases.len(),
        "{} has {} cases, this program {}: record again",
        recording.title(),
        recording.outcomes.len(),
        cases.len()
    );
    Ok(())
}

/// An error without the case's own numbers and names, to count those of one kind.
fn kind(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    line.chars().take(100).collect()
}

/// A difference in shares of the allowed one, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// 1 is as much as is allowed.
    pub share: f64,
    /// The element's place.
    pub place: usize,
}

fn hold(
    case: &Case,
    stock: Option<&Outcome>,
    found: &Outcome,
    exception: bool,
) -> (Held, std::result::Result<Option<Difference>, String>) {
    let held = match (stock, found) {
        (Some(Err(_)), Err(_)) => return (Held::RefusedByBoth, Ok(None)),
        (None, _) => Held::ToCpu,
        (Some(Err(_)), _) => Held::ToCpuAsStockRefuses,
        (Some(Ok(_)), _) if exception => Held::ToCpuByException,
        (Some(Ok(_)), _) => Held::ToStock,
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => return (held, Err(format!("refused: {error}"))),
    };
    let reference = match (held, stock) {
        (Held::ToStock, Some(Ok(stock))) => {
            if (stock.dtype, &stock.dims) != (found.dtype, &found.dims) {
                let error = format!(
                    "{:?} {:?}, not {:?} {:?}",
                    found.dtype, found.dims, stock.dtype, stock.dims
                );
                return (held, Err(error));
            }
            stock.numbers()
        }
        _ => match caught(|| case.truth()) {
            Ok(truth) => truth,
            Err(error) => return (held, Err(format!("no result of the CPU: {error}"))),
        },
    };
    let result = match difference(case, &reference, found) {
        Ok(difference) if difference.share <= 1.0 => Ok(Some(difference)),
        Ok(difference) => Err(describe(case, stock, &reference, found, &difference)),
        Err(error) => Err(error),
    };
    (held, result)
}

fn difference(
    case: &Case,
    reference: &Numbers,
    found: &Array,
) -> std::result::Result<Difference, String> {
    let tolerance = match found.dtype.is_float() {
        true => of(case, found.dtype)?,
        // Integers are equal.
        false => Tolerance {
            element: 0.0,
            largest: 0.0,
            inside: 0.0,
        },
    };
    beside(reference, found, tolerance)
}

/// The largest difference; a NaN against a number is infinitely far.
///
/// # Errors
/// The results have different numbers of elements, or one has floats and the other integers.
pub fn beside(
    reference: &Numbers,
    found: &Array,
    tolerance: Tolerance,
) -> std::result::Result<Difference, String> {
    let count = found.numbers().len();
    if reference.len() != count {
        return Err(format!("{count} elements, not {}", reference.len()));
    }
    let mut worst = Difference {
        share: 0.0,
        place: 0,
    };
    let mut note = |place, share: f64| {
        if share > worst.share {
            worst = Difference { share, place };
        }
    };
    match (reference.held(found.dtype), found.numbers()) {
        (Numbers::Integers(reference), Numbers::Integers(found)) => {
            for (place, (a, b)) in reference.iter().zip(&found).enumerate() {
                note(place, if a == b { 0.0 } else { f64::INFINITY });
            }
        }
        (Numbers::Floats(reference), Numbers::Floats(numbers)) => {
            let finite = reference.iter().filter(|x| x.is_finite());
            let largest = finite.fold(0f64, |largest, x| largest.max(x.abs()));
            for (place, (&a, &b)) in reference.iter().zip(&numbers).enumerate() {
                note(place, share(tolerance, found.dtype, a, b, largest));
            }
        }
        _ => return Err("floats against integers".to_owned()),
    }
    Ok(worst)
}

fn of(case: &Case, dtype: DType) -> std::result::Result<Tolerance, String> {
    let row = tolerance::of(case.operator, dtype);
    let row = row.ok_or_else(|| format!("no tolerance for {} of {dtype:?}", case.operator))?;
    Ok(row.tolerance)
}

fn share(tolerance: Tolerance, dtype: DType, reference: f64, found: f64, largest: f64) -> f64 {
    if reference == found || (reference.is_nan() && found.is_nan()) {
        return 0.0;
    }
    if !reference.is_finite() || !found.is_finite() {
        return f64::INFINITY;
    }
    // 0 / 0 was dealt with above: where nothing is allowed, any difference is infinitely large.
    (found - reference).abs() / tolerance.limit(dtype, reference, largest)
}

/// The element, and what each of the backends has there.
fn describe(
    case: &Case,
    stock: Option<&Outcome>,
    reference: &Numbers,
    found: &Array,
    difference: &Difference,
) -> String {
    let place = difference.place;
    let at = |numbers: &Numbers| match numbers {
        Numbers::Floats(all) => all.get(place).map_or("-".into(), |x| format!("{x:e}")),
        Numbers::Integers(all) => all.get(place).map_or("-".into(), |x| x.to_string()),
    };
    let truth = match caught(|| case.truth()) {
        Ok(truth) => at(&truth.held(found.dtype)),
        Err(_) => "-".to_owned(),
    };
    let stock = match stock {
        Some(Ok(stock)) => at(&stock.numbers()),
        Some(Err(_)) => "refused".to_owned(),
        None => "-".to_owned(),
    };
    format!(
        "element {place} of {} is {}, not {}: {:.1} times the allowed difference (stock {stock}, CPU {truth})",
        reference.len(),
        at(&found.numbers()),
        at(reference),
        difference.share
    )
}

impl Report {
    fn note(&mut self, case: &Case, found: &Outcome, difference: Difference) {
        let Ok(found) = found else { return };
        let key = (case.operator.to_owned(), found.dtype.as_str().to_owned());
        let entry = self.largest.entry(key).or_insert((0.0, String::new()));
        if difference.share >= entry.0 {
            *entry = (difference.share, case.name.clone());
        }
    }

    /// All cases.
    pub fn cases(&self) -> usize {
        self.held.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        for (who, errors) in [
            ("stock CUDA", &self.refused_by_stock),
            ("ours", &self.refused_by_ours),
        ] {
            for (error, count) in errors {
                writeln!(f, "refused by {who}, {count} cases: {error}")?;
            }
        }
        let count = |held| self.held.get(&held).copied().unwrap_or(0);
        let total = |errors: &BTreeMap<String, usize>| errors.values().sum::<usize>();
        writeln!(
            f,
            "{} cases: {} held to stock CUDA, {} to the CPU because stock refuses them, {} to the CPU by exception, \
             {} to the CPU as asked for, {} refused by both; refused by stock {}, by ours {}; {} failures",
            self.cases(),
            count(Held::ToStock),
            count(Held::ToCpuAsStockRefuses),
            count(Held::ToCpuByException),
            count(Held::ToCpu),
            count(Held::RefusedByBoth),
            total(&self.refused_by_stock),
            total(&self.refused_by_ours),
            self.failures.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{any, List};
    use crate::record;
    use candle_core::{Device, Tensor};

    fn cases() -> Result<Vec<Case>> {
        let mut list = List::default();
        for (what, dims) in [("one", [5, 7]), ("other", [3, 4])] {
            let inputs = vec![any(DType::F32, 1, &dims)?];
            list.add("exp", what, inputs, |x| x[0].exp());
        }
        let inputs = vec![any(DType::F32, 2, &[9])?];
        list.add("argmax", "integers", inputs, |x| x[0].argmax(0));
        Ok(list.cases)
    }

    fn recorded(cases: &[Case]) -> Result<Recording> {
        let mut recording = Recording::default();
        record::record(cases, &Device::Cpu, &mut recording)?;
        Ok(recording)
    }

    /// The failures when this is ours, held to an unchanged recording. Exceptions are for the whole list of cases only.
    fn failures(change: impl FnOnce(&mut Recording)) -> Result<Vec<String>> {
        let cases = cases()?;
        let stock = recorded(&cases)?;
        let mut ours = stock.clone();
        change(&mut ours);
        let mut failures = compare(&cases, &Reference::Stock(&stock), &ours)?.failures;
        failures.retain(|failure| !failure.contains("is not needed"));
        Ok(failures)
    }

    fn set(recording: &mut Recording, name: &str, result: Result<Tensor, candle_core::Error>) {
        let outcome = record::caught(|| Array::of(&result?));
        recording.outcomes.insert(name.to_owned(), outcome);
    }

    #[test]
    fn the_same_results_pass() -> Result<()> {
        assert_eq!(failures(|_| ())?, [""; 0]);
        Ok(())
    }

    #[test]
    fn other_results_fail() -> Result<()> {
        let replace = |name: &str, result: fn(Tensor) -> candle_core::Result<Tensor>| {
            let input = any(DType::F32, 1, &[5, 7])?;
            let input = Array::of(match &input {
                crate::case::Input::Number(tensor) | crate::case::Input::Fixed(tensor) => tensor,
            })?;
            let input = input.numbers().tensor(DType::F32, &[5, 7])?;
            failures(|ours| set(ours, name, result(input)))
        };
        // A number a little too large, one NaN, another shape, another dtype, an error.
        for result in [
            (|x| x.exp()?.affine(1.00001, 0.)) as fn(Tensor) -> candle_core::Result<Tensor>,
            |x| x.exp()?.affine(1., f64::NAN),
            |x| x.exp()?.t(),
            |x| x.exp()?.to_dtype(DType::F16),
            |_| candle_core::bail!("no kernel"),
        ] {
            let failures = replace("exp one", result)?;
            assert_eq!(failures.len(), 1, "{failures:?}");
            assert!(failures[0].starts_with("exp one: "), "{failures:?}");
        }
        let failures =
            failures(|ours| set(ours, "argmax integers", Tensor::new(77u32, &Device::Cpu)))?;
        assert_eq!(failures.len(), 1, "{failures:?}");
        Ok(())
    }

    #[test]
    fn what_stock_refuses_is_held_to_the_cpu() -> Result<()> {
        let cases = cases()?;
        let mut stock = recorded(&cases)?;
        let mut ours = stock.clone();
        stock
            .outcomes
            .insert("exp one".into(), Err("no kernel".into()));
        let report = compare(&cases, &Reference::Stock(&stock), &ours)?;
        assert_eq!(report.held[&Held::ToCpuAsStockRefuses], 1);
        set(
            &mut ours,
            "exp one",
            Tensor::zeros((5, 7), DType::F32, &Device::Cpu),
        );
        let report = compare(&cases, &Reference::Stock(&stock), &ours)?;
        assert!(report
            .failures
            .iter()
            .any(|failure| failure.starts_with("exp one: ")));
        Ok(())
    }

    #[test]
    fn recordings_of_other_cases_are_refused() -> Result<()> {
        let cases = cases()?;
        let ours = recorded(&cases)?;
        for change in [
            (|r| drop(r.outcomes.remove("exp one"))) as fn(&mut Recording),
            |r| drop(r.outcomes.insert("more".into(), Err("".into()))),
            |r| drop(r.inputs.insert("exp one".into(), "another".into())),
        ] {
            let mut stock = ours.clone();
            change(&mut stock);
            assert!(compare(&cases, &Reference::Stock(&stock), &ours).is_err());
        }
        Ok(())
    }
}
