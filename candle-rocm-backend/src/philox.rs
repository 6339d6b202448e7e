//! Philox4x32-10 on the host: the words that kernels draw (kernels/random/philox.cuh).

/// What is made of the words, by the kernels' numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Dropout's masks.
    Dropout = 4,
    /// Rounding by chance.
    Rounding = 5,
}

/// 16 random bits for each of eight elements: of a block of this number, and of a step.
pub(crate) fn bits16(seed: u64, kind: Kind, block: u64, step: u32) -> [u16; 8] {
    let (low, high) = (|wide: u64| wide as u32, |wide: u64| (wide >> 32) as u32);
    let mut counter = [low(block), high(block), kind as u32, step];
    let mut key = [low(seed), high(seed)];
    for _ in 0..10 {
        let [a, b, c, d] = counter;
        let first = u64::from(a) * 0xD251_1F53;
        let second = u64::from(c) * 0xCD9E_8D57;
        counter = [
            high(second) ^ b ^ key[0],
            low(second),
            high(first) ^ d ^ key[1],
            low(first),
        ];
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    std::array::from_fn(|i| (counter[i / 2] >> (16 * (i % 2))) as u16)
}
