//! Whether numbers are those expected.

/// Whether a number is within `limit` of what was expected. NaN is near NaN alone, an infinity near itself alone.
pub fn is_near(found: f64, expected: f64, limit: f64) -> bool {
    // Near an infinity would be everything.
    let near = expected.is_finite() && (found - expected).abs() <= limit;
    near || found == expected || (found.is_nan() && expected.is_nan())
}

/// The first number that is further from the expected one than `limit` of that allows; both as text.
///
/// # Errors
/// There is one, or there are not as many numbers as expected.
pub fn all_near(found: &[f64], expected: &[f64], limit: impl Fn(f64) -> f64) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!(
            "{} elements, expected {}",
            found.len(),
            expected.len()
        ));
    }
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let limit = limit(expected);
        if !is_near(found, expected, limit) {
            return Err(format!(
                "element {at} is {found}, expected {expected}, allowed difference {limit:e}"
            ));
        }
    }
    Ok(())
}

/// Asserts that each number is the expected one within `tolerance` relative to the larger of that and `scale`.
///
/// # Panics
/// One is not, which the message names, after `what`.
pub fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, scale: f64, what: &str) {
    let limit = |expected: f64| tolerance * expected.abs().max(scale);
    if let Err(problem) = all_near(found, expected, limit) {
        panic!("{what}: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use super::{all_near, is_near};

    #[test]
    fn what_is_no_number_is_near_itself_alone() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        for (found, expected, near) in [
            (1.0, 1.5, true),
            (1.0, 1.6, false),
            (nan, nan, true),
            (nan, 1.0, false),
            (1.0, nan, false),
            (infinity, infinity, true),
            (-infinity, infinity, false),
            (1.0, infinity, false),
            (infinity, 1.0, false),
        ] {
            assert_eq!(is_near(found, expected, 0.5), near, "{found} {expected}");
        }
        // An infinite limit allows every number, and still no NaN.
        assert!(is_near(1.0, 2.0, infinity) && !is_near(nan, 2.0, infinity));
    }

    #[test]
    fn the_first_difference_is_named() {
        let limit = |expected: f64| 0.1 * expected.abs();
        assert_eq!(all_near(&[1.0, 2.1], &[1.0, 2.0], limit), Ok(()));
        let error = all_near(&[1.0, 2.3, 9.0], &[1.0, 2.0, 3.0], limit).unwrap_err();
        assert!(error.contains("element 1 is 2.3, expected 2"), "{error}");
        assert!(all_near(&[1.0], &[1.0, 2.0], limit).is_err());
    }
}
