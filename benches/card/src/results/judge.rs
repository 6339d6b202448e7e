//! A result beside the recorded one, and beside the CPU's in f64.

use candle_core::Device;
use parity::case::Case;
use parity::compare::beside;
use parity::numbers::Numbers;
use parity::recording::Array;
use parity::tolerance::Tolerance;

use super::table::{digest, Digest};

/// What a result is held to.
#[derive(Clone, Copy)]
pub struct Held {
    /// The recorded digest, where there is one.
    pub digest: Option<Digest>,
    /// Whether other bits are no fault.
    pub is_lawful: bool,
    /// How near to the CPU's it is, where the CPU has something like it.
    pub tolerance: Option<Tolerance>,
}

/// How a result stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Equal to the recorded one, bit for bit.
    Equal,
    /// Within the tolerance, by so many shares of it.
    Near(f64),
    /// There is nothing to compare it with.
    Unheld,
    /// Wrong, and how.
    Wrong(String),
    /// An error in place of a result.
    Refused(String),
}

impl Verdict {
    /// Whether it is a failure.
    pub fn is_bad(&self) -> bool {
        matches!(self, Verdict::Wrong(_) | Verdict::Refused(_))
    }
}

/// A result and how it stands.
pub struct Judged {
    /// How.
    pub verdict: Verdict,
    /// The result.
    pub found: Option<Array>,
    /// The CPU's, where it was asked for.
    pub truth: Option<Numbers>,
}

/// Runs a case. With `spoilt` a bit of a result of more than so many elements is another, for tests.
pub fn judge(case: &Case, device: &Device, held: &Held, spoilt: Option<usize>) -> Judged {
    let mut found = match parity::record::run(case, device) {
        Ok(found) => found,
        Err(error) => {
            return Judged {
                verdict: Verdict::Refused(error.lines().next().unwrap_or_default().to_owned()),
                found: None,
                truth: None,
            }
        }
    };
    let elements: usize = found.dims.iter().product();
    if let (Some(last), true) = (
        found.bytes.last_mut(),
        spoilt.is_some_and(|least| elements > least),
    ) {
        *last ^= 0x10;
    }
    let is_equal = held.digest.map(|recorded| recorded == digest(&found));
    if is_equal == Some(true) {
        return Judged {
            verdict: Verdict::Equal,
            found: Some(found),
            truth: None,
        };
    }
    let truth = held
        .tolerance
        .and_then(|tolerance| Some((tolerance, parity::record::truth(case).ok()?)));
    let other_bits = is_equal == Some(false) && !held.is_lawful;
    let verdict = match &truth {
        None if other_bits => Verdict::Wrong("other bits than recorded".to_owned()),
        None => Verdict::Unheld,
        Some((tolerance, truth)) => match beside(truth, &found, *tolerance) {
            Err(error) => Verdict::Wrong(error),
            Ok(difference) if difference.share > 1. => {
                Verdict::Wrong(told(&found, truth, difference.place, difference.share))
            }
            Ok(difference) if other_bits => Verdict::Wrong(format!(
                "other bits than recorded, {:.2} of the tolerance from the CPU's",
                difference.share
            )),
            Ok(difference) => Verdict::Near(difference.share),
        },
    };
    Judged {
        verdict,
        found: Some(found),
        truth: truth.map(|(_, truth)| truth),
    }
}

fn told(found: &Array, truth: &Numbers, place: usize, share: f64) -> String {
    let at = |numbers: &Numbers| match numbers {
        Numbers::Floats(all) => all.get(place).map(|x| format!("{x:e}")),
        Numbers::Integers(all) => all.get(place).map(ToString::to_string),
    };
    format!(
        "element {place} is {}, {} on the CPU in f64: {share:.1} times the tolerance",
        at(&found.numbers()).unwrap_or_default(),
        at(truth).unwrap_or_default()
    )
}
