//! How a dimension is divided among workgroups where too few of them would leave compute units idle: K of products (split-K),
//! keys of attention, elements of rows. One arithmetic, of which families of kernels have their own figures.

/// How kernels of a family divide a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Elements that a part is a multiple of, but the last.
    pub step: u64,
    /// Fewest steps of a part.
    pub least_steps: u64,
    /// Most splits.
    pub most: u64,
}

/// A dimension in splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// How many; at least 1.
    pub count: u64,
    /// Elements of each but the last, a multiple of [`Split::step`].
    pub elements: u64,
}

impl Split {
    /// Most splits of so many elements, each of at least [`Split::least_steps`]; may be 0.
    pub fn most(&self, elements: u64) -> u64 {
        (elements / (self.least_steps * self.step)).min(self.most)
    }

    /// Likewise, of which each leaves so many bytes in a workspace of so many.
    pub fn most_within(&self, elements: u64, bytes_of_part: u128, workspace: u64) -> u64 {
        let fit = u128::from(workspace) / bytes_of_part.max(1);
        self.most(elements)
            .min(u64::try_from(fit).unwrap_or(u64::MAX))
    }

    /// About so many splits, at least one, each of whole steps.
    pub fn into_splits(&self, elements: u64, wanted: u64) -> Splits {
        let part = elements.div_ceil(wanted).next_multiple_of(self.step);
        Splits {
            count: elements.div_ceil(part.max(1)).max(1),
            elements: part,
        }
    }
}

/// As many splits as fill so many workgroups' places where there are so many workgroups without them; 1 at least, and else no more
/// than `most`.
pub fn filling(places: u64, workgroups: u64, most: u64) -> u64 {
    (places / workgroups.max(1)).min(most).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: Split = Split {
        step: 64,
        least_steps: 2,
        most: 16,
    };

    #[test]
    fn splits_are_whole_steps_and_hold_all() {
        for elements in [0, 1, 63, 64, 65, 1000, 4096, 1 << 40] {
            for wanted in 1..=16 {
                let Splits {
                    count,
                    elements: of,
                } = SPLIT.into_splits(elements, wanted);
                assert!(of.is_multiple_of(SPLIT.step) && count <= wanted);
                assert!(count * of >= elements, "{elements} in {wanted}");
                assert!((count - 1) * of < elements.max(1), "{elements} in {wanted}");
            }
        }
    }

    #[test]
    fn splits_are_bounded_by_steps_by_their_number_and_by_the_workspace() {
        assert_eq!([127, 128, 255, 256].map(|k| SPLIT.most(k)), [0, 1, 1, 2]);
        assert_eq!(SPLIT.most(1 << 30), 16);
        assert_eq!(SPLIT.most_within(1 << 30, 100, 399), 3);
        assert_eq!(SPLIT.most_within(1 << 30, 100, u64::MAX), 16);
    }
}
