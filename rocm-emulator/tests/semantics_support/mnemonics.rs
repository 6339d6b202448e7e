//! Mnemonics, and where the compiled kernels have which.

/// Lines of a mnemonic and the GPUs on which it occurs.
pub const OF_KERNELS: &str = include_str!("../semantics/instructions.txt");

/// A mnemonic without the suffix that names its encoding.
pub fn base(mnemonic: &str) -> &str {
    ["_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"]
        .iter()
        .find_map(|suffix| mnemonic.strip_suffix(suffix))
        .unwrap_or(mnemonic)
}
