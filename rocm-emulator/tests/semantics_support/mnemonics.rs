//! Mnemonics, and where the compiled kernels have which.

/// The mnemonics that the kernels have on the GPU of this name. A line of the list is a mnemonic and such GPUs.
pub fn of_kernels(target: &str) -> impl Iterator<Item = &'static str> + '_ {
    let list = include_str!("../semantics/instructions.txt").lines();
    list.filter(|line| !line.starts_with('#'))
        .filter_map(move |line| {
            let mut words = line.split_whitespace();
            let mnemonic = words.next()?;
            words.any(|word| word == target).then_some(mnemonic)
        })
}

/// A mnemonic without the suffix that names its encoding.
pub fn base(mnemonic: &str) -> &str {
    ["_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"]
        .iter()
        .find_map(|suffix| mnemonic.strip_suffix(suffix))
        .unwrap_or(mnemonic)
}
