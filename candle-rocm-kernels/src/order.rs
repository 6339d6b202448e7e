//! The order of C's tiles, as kernels are told it.

crate::kernel_argument! { DIVISOR,
    /// `Divisor` of kernels/matmul/matmul_problem.cuh: what numbers below 2^31 are divided by, without a division. The quotient is
    /// number * multiplier / 2^(31 + shift), rounded down.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct Divisor {
        pub value: u32,
        pub multiplier: u32,
        pub shift: u32,
    }
}

impl Divisor {
    /// Of a value up to 2^31; of 0, as of 1.
    pub fn new(value: u32) -> Self {
        let value = value.max(1);
        let shift = value.next_power_of_two().ilog2();
        // Below 2^32, as the value is more than half of 2^shift; and so little more than the exact number that the product's
        // error stays below what a number lacks to the next quotient.
        let multiplier = (1u64 << (31 + shift)).div_ceil(value.into());
        Self {
            value,
            multiplier: multiplier as u32,
            shift,
        }
    }
}

crate::kernel_argument! { TILE_ORDER,
    /// `TileOrder` of kernels/matmul/matmul_problem.cuh, which says what the fields are.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub struct TileOrder {
        pub tiles_m: u32,
        pub tiles_n: u32,
        pub of_xcd: u32,
        pub more: u32,
        pub xcds: Divisor,
        pub group: Divisor,
        pub last_group: Divisor,
        pub of_group: Divisor,
    }
}

impl TileOrder {
    /// Of so many tiles of rows and of columns, less than 2^31 in all: `group` tiles of rows are gone through together, and
    /// `xcds` share all of them.
    pub fn new([tiles_m, tiles_n]: [u32; 2], group: u32, xcds: u32) -> Self {
        let tiles = tiles_m.saturating_mul(tiles_n);
        let group = group.clamp(1, tiles_m.max(1));
        let xcds = xcds.max(1);
        Self {
            tiles_m,
            tiles_n,
            of_xcd: tiles / xcds,
            more: tiles % xcds,
            xcds: Divisor::new(xcds),
            group: Divisor::new(group),
            last_group: Divisor::new(tiles_m.saturating_sub(1) % group + 1),
            of_group: Divisor::new(group.saturating_mul(tiles_n)),
        }
    }

    /// Its words as they lie in a kernel's argument.
    pub fn words(&self) -> [u32; 16] {
        let mut words = [0; 16];
        words[..4].copy_from_slice(&[self.tiles_m, self.tiles_n, self.of_xcd, self.more]);
        let divisors = [self.xcds, self.group, self.last_group, self.of_group];
        for (words, by) in words[4..].chunks_exact_mut(3).zip(divisors) {
            words.copy_from_slice(&[by.value, by.multiplier, by.shift]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kernels divide (main_loop/wave_tile.cuh).
    fn divided(number: u32, by: Divisor) -> [u32; 2] {
        let product = u64::from(number << 1) * u64::from(by.multiplier);
        let quotient = ((product >> 32) as u32) >> by.shift;
        [quotient, number - quotient * by.value]
    }

    #[test]
    fn numbers_are_divided() {
        let most = (1u32 << 31) - 1;
        let values = (1..300).chain([641, 65_535, 65_537, 0x1234_5677, most - 1, most]);
        for value in values {
            let by = Divisor::new(value);
            let multiples = (0..9).map(|i| i * (most / value / 9 + 1));
            let near = multiples.flat_map(|i| {
                let number = i.saturating_mul(value).min(most);
                [number.saturating_sub(1), number, (number + 1).min(most)]
            });
            for number in near.chain([most - 1, most]) {
                let expected = [number / value, number % value];
                assert_eq!(divided(number, by), expected, "{number} by {value}");
            }
        }
    }

    /// Every tile has one workgroup, whatever the group, and XCDs have neighbours.
    #[test]
    fn each_tile_is_once_in_the_order() {
        for (tiles_m, tiles_n) in [(1, 1), (1, 7), (5, 1), (6, 4), (13, 9)] {
            for (group, xcds) in [(1, 1), (2, 8), (4, 6), (5, 3), (99, 8)] {
                let order = TileOrder::new([tiles_m, tiles_n], group, xcds);
                let mut seen: Vec<_> = (0..tiles_m * tiles_n)
                    .map(|x| {
                        let [within, xcd] = divided(x, order.xcds);
                        let index = xcd * order.of_xcd + xcd.min(order.more) + within;
                        let [of, rest] = divided(index, order.of_group);
                        let first = of * order.group.value;
                        let whole = tiles_m - first >= order.group.value;
                        let rows = if whole { order.group } else { order.last_group };
                        let [n, m] = divided(rest, rows);
                        (first + m, n)
                    })
                    .collect();
                seen.sort_unstable();
                let all = (0..tiles_m).flat_map(|m| (0..tiles_n).map(move |n| (m, n)));
                assert!(
                    seen.into_iter().eq(all),
                    "{tiles_m} {tiles_n} {group} {xcds}"
                );
            }
        }
    }
}
