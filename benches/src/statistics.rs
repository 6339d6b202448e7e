//! Medians, their noise, and means of ratios.

/// The value below which the fraction `q` of the sorted `values` lies, between neighbours in proportion; NaN if there
/// are none.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = q.clamp(0., 1.) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The middle of the values; NaN if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Half of the distance between the quartiles, relative to the median.
pub fn noise(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / 2. / median(values)
}

/// The geometric mean; NaN if there are no values.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0., 0_usize);
    for value in values {
        sum += value.ln();
        count += 1;
    }
    (sum / count as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_two_in_the_middle() {
        assert_eq!(median(&[3., 1., 2.]), 2.);
        assert_eq!(median(&[4., 1., 2., 3.]), 2.5);
        assert_eq!(median(&[7.]), 7.);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn an_outlier_moves_neither_median_nor_noise() {
        let calm = [10., 10.1, 9.9, 10., 10.05, 9.95, 10.];
        let mut jumpy = calm;
        jumpy[0] = 1000.;
        assert_eq!(median(&calm), 10.);
        assert!((median(&jumpy) - 10.) < 0.06);
        assert!(noise(&jumpy) < 0.01, "{}", noise(&jumpy));
    }

    #[test]
    fn noise_is_half_the_distance_of_the_quartiles() {
        // Quartiles 2 and 4 around 3.
        assert!((noise(&[1., 2., 3., 4., 5.]) - 1. / 3.).abs() < 1e-12);
        assert_eq!(noise(&[5., 5., 5.]), 0.);
    }

    #[test]
    fn ratios_have_a_geometric_mean() {
        assert!((geometric_mean([2., 0.5, 8.]) - 2.).abs() < 1e-12);
        assert!(geometric_mean([]).is_nan());
    }
}
