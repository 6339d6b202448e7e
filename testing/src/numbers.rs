//! Whether numbers are those expected.

/// Whether a number is within `limit` of what was expected. NaN is near NaN alone, an infinity near itself alone.
pub fn is_near(found: f64, expected: f64, limit: f64) -> bool {
    // Near an infinity would be everything.
    let near = expected.is_finite() && (found - expected).abs() <= limit;
    near || found == expected || (found.is_nan() && expected.is_nan())
}

/// The sum of the products of two rows of the same length, and the sum of the products' absolute values: four sums at a
/// time, so that they are no chain of roundings of which each waits for the one before.
pub fn sum_of_products(a: &[f64], b: &[f64]) -> (f64, f64) {
    const LANES: usize = 4;
    let (mut sums, mut magnitudes) = ([0.0; LANES], [0.0; LANES]);
    let (a, b) = (a.chunks(LANES), b.chunks(LANES));
    for (a, b) in a.zip(b) {
        for (lane, (x, y)) in a.iter().zip(b).enumerate() {
            sums[lane] += x * y;
            magnitudes[lane] += (x * y).abs();
        }
    }
    (sums.iter().sum(), magnitudes.iter().sum())
}

/// The f32 towards zero with its last bit set, or the number itself if it is an f32: "round to odd", after which rounding to
/// f16 or bf16 gives what rounding the f64 once would.
pub fn to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || x.is_nan() {
        return nearest;
    }
    let away = f64::from(nearest).abs() > x.abs();
    let towards_zero = nearest.to_bits() - u32::from(away);
    f32::from_bits(towards_zero | 1)
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
    use super::{all_near, is_near, sum_of_products, to_odd};

    #[test]
    fn products_are_added_to_the_last() {
        for length in 0..10 {
            let a: Vec<f64> = (1..=length).map(f64::from).collect();
            let signs: Vec<f64> = (0..length).map(|i| f64::from(1 - 2 * (i % 2))).collect();
            let all = f64::from(length * (length + 1) / 2);
            let alternating = a.iter().zip(&signs).map(|(x, sign)| x * sign).sum::<f64>();
            assert_eq!(sum_of_products(&a, &signs), (alternating, all), "{length}");
        }
    }

    #[test]
    fn rounding_to_odd_keeps_ties_apart() {
        for exact in [0.0, -1.5, f64::INFINITY] {
            assert_eq!(f64::from(to_odd(exact)), exact);
        }
        // Just above and just below 1, and a tie of f32's: all between the same two f32, of which one is odd.
        let step = f64::from(f32::EPSILON);
        for x in [1.0 + step / 1e6, 1.0 + step / 2.0, 1.0 + step * 0.999] {
            assert_eq!(to_odd(x).to_bits(), 1f32.to_bits() + 1, "{x}");
            assert_eq!(to_odd(-x), -to_odd(x));
        }
        let below = to_odd(1.0 - step / 1e6);
        assert_eq!(below.to_bits(), 1f32.to_bits() - 1);
    }

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
