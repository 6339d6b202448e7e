//! Numbers that look random and are the same everywhere.
//!
//! Recorded results belong to the inputs that they were computed from, so the sequence must never change: it is
//! SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014), whose first numbers a
//! test here holds. The crates of random generators promise that of none, or only within a version.

/// What the state grows by: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Numbers that another seed does not give: neighbouring seeds start far from each other.
    pub fn new(seed: u64) -> Random {
        Random::from_state(seed.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// The sequence as its authors define it, from this state.
    pub fn from_state(state: u64) -> Random {
        Random(state)
    }

    /// The sequence from its number `at` on, without those before.
    pub fn at(state: u64, at: u64) -> Random {
        Random(state.wrapping_add(at.wrapping_mul(STEP)))
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An index below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// One of these.
    ///
    /// # Panics
    /// There is none.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[(self.bits() % choices.len() as u64) as usize]
    }

    /// A number from 0 on, below 1: of 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from -1 on, below 1.
    pub fn signed(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A number near a normal distribution of variance 1: the sum of four uniform ones, so between -3.5 and 3.5.
    pub fn normal(&mut self) -> f64 {
        ((0..4).map(|_| self.unit()).sum::<f64>() - 2.0) * 3f64.sqrt()
    }
}

/// The number that a variable of the environment has, such as one of cases to draw; none where it is not set.
///
/// # Panics
/// It is no number.
pub fn asked(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    match value.parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{variable} is {value:?}, and must be a number: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// Of state 0, by the authors' own program.
    #[test]
    fn the_sequence_is_splitmix64s() {
        let expected = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
        ];
        let mut random = Random::from_state(0);
        assert_eq!([0; 3].map(|_| random.bits()), expected);
        for (at, expected) in expected.into_iter().enumerate() {
            assert_eq!(Random::at(0, at as u64).bits(), expected);
        }
    }

    #[test]
    fn numbers_are_in_their_ranges_and_spread() {
        let mut random = Random::new(1);
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut seen = [false; 7];
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!((-1.0..1.0).contains(&random.signed()));
            seen[random.below(7)] = true;
            let normal = random.normal();
            assert!(normal.abs() < 3.5);
            sum += normal;
            squares += normal * normal;
        }
        assert_eq!(seen, [true; 7]);
        assert!((sum / 1e4).abs() < 0.05 && (squares / 1e4 - 1.0).abs() < 0.05);
    }
}
