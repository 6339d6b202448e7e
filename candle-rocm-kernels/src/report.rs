//! What kernels say before they trap: layouts and numbers are those of `kernels/portable/report.cuh`.
//!
//! A module with kernels that report has the variable [`VARIABLE`]. Whoever loads the module gives it the address of a
//! [`Report`] in memory that the host can read after the GPU is lost. The first check of the module that fails fills the
//! report in, before its kernel traps; where the variable holds no address, kernels trap without a word.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

/// The name of the modules' variable, a [`Variable`].
pub const VARIABLE: &str = "candle_rocm_report";

/// What the variable holds.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Variable {
    /// The device address of a [`Report`]; 0 if nobody reads one.
    pub report: u64,
    /// How many work-items wanted to fill it in; 0 at first.
    pub claims: i32,
    /// Whether the first of them has; 0 at first.
    pub written: i32,
}

/// The memory that a kernel writes to: all zero at first.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Report {
    failure: Failure,
    reason: u32,
    written: AtomicU32,
}

/// Which operator failed, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Failure {
    operation: [u8; 16],
    dtype: [u8; 8],
    index: i64,
    bound: u64,
    position: u64,
}

/// Why a kernel trapped, in one sentence by `Display`:
/// `index_select: index 32001 at position 7 is outside of 32,000 rows (ids: u32)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    failure: Failure,
    reason: u32,
}

impl Report {
    /// Takes what a kernel has written, once: the report is then as at first.
    ///
    /// # Safety
    /// `report` is an initialised report that lives during the call. Kernels alone write to it beside this function,
    /// and none that ran since the last call is still running, other than one that traps.
    pub unsafe fn take(report: *const Report) -> Option<Reported> {
        // SAFETY: the caller's promise. Kernels write the word last.
        let written = unsafe { &(*report).written };
        if written.swap(0, Ordering::AcqRel) == 0 {
            return None;
        }
        // SAFETY: the caller's promise. The word was set, so that the kernel writes nothing more.
        let (failure, reason) = unsafe {
            (
                std::ptr::read_volatile(&raw const (*report).failure),
                std::ptr::read_volatile(&raw const (*report).reason),
            )
        };
        Some(Reported { failure, reason })
    }
}

impl fmt::Display for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failure = &self.failure;
        let (operation, dtype) = (letters(&failure.operation), letters(&failure.dtype));
        let Failure {
            index, position, ..
        } = failure;
        let bound = grouped(failure.bound);
        let outside = match self.reason {
            ROW_OUTSIDE => format!("{bound} rows"),
            PLACE_OUTSIDE => format!("a dimension of {bound}"),
            ZERO_DIVISOR => {
                return write!(
                    f,
                    "{operation}: division by zero at position {position} (of {dtype})"
                )
            }
            other => return write!(f, "{operation}: reason {other} at position {position}"),
        };
        write!(
            f,
            "{operation}: index {index} at position {position} is outside of {outside} (ids: {dtype})"
        )
    }
}

/// Text that ends with the first NUL, or with the field.
fn letters(field: &[u8]) -> std::borrow::Cow<'_, str> {
    let end = field.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&field[..end.unwrap_or(field.len())])
}

/// A number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at != 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(reason: u32) -> Report {
        let mut operation = [0; 16];
        operation[..12].copy_from_slice(b"index_select");
        let failure = Failure {
            operation,
            dtype: *b"u32\0\0\0\0\0",
            index: 32001,
            bound: 32000,
            position: 7,
        };
        let written = AtomicU32::new(1);
        Report {
            failure,
            reason,
            written,
        }
    }

    fn taken(report: &Report) -> Option<String> {
        // SAFETY: it is on the stack, and no kernel knows it.
        unsafe { Report::take(report) }.map(|reported| reported.to_string())
    }

    #[test]
    fn each_reason_has_its_sentence() {
        for (reason, sentence) in [
            (
                ROW_OUTSIDE,
                "index_select: index 32001 at position 7 is outside of 32,000 rows (ids: u32)",
            ),
            (
                PLACE_OUTSIDE,
                "index_select: index 32001 at position 7 is outside of a dimension of 32,000 (ids: u32)",
            ),
            (
                ZERO_DIVISOR,
                "index_select: division by zero at position 7 (of u32)",
            ),
        ] {
            assert_eq!(taken(&report(reason)).as_deref(), Some(sentence));
        }
    }

    #[test]
    fn a_report_is_taken_once_and_one_that_is_not_whole_never() {
        let report = report(ROW_OUTSIDE);
        assert!(taken(&report).is_some());
        assert_eq!(taken(&report), None);
        assert_eq!(taken(&Report::default()), None);
    }

    #[test]
    fn digits_stand_in_threes() {
        let all = [0, 999, 1000, 32000, 1_234_567].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "32,000", "1,234,567"]);
    }
}
