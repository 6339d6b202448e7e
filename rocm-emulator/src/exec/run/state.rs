//! Whether a wavefront is as it was: a loop that waits for another's store comes back to where it began with every
//! register unchanged.

use crate::exec::wave::{Row, Wave, LANES};

/// The registers that are one for the whole wavefront.
#[derive(PartialEq, Eq)]
pub(super) struct Scalars {
    sgpr: [u32; 106],
    vcc: u64,
    exec: u64,
    m0: u32,
    scc: bool,
}

impl Scalars {
    pub fn of(wave: &Wave) -> Scalars {
        Scalars {
            sgpr: wave.sgpr,
            vcc: wave.vcc,
            exec: wave.exec(),
            m0: wave.m0,
            scc: wave.scc,
        }
    }
}

/// A number for the whole state, the program counter included. States that differ have different numbers but for
/// rare chance, which costs a wavefront nothing but its turn.
pub(super) fn fingerprint(wave: &Wave) -> u64 {
    const PRIME: u32 = 0x0100_0193;
    let mut lanes = [0u32; LANES];
    let mut take = |row: &Row| {
        for (sum, dword) in lanes.iter_mut().zip(row.0) {
            *sum = sum.wrapping_mul(PRIME) ^ dword;
        }
    };
    wave.vgpr.iter().chain(wave.agpr.iter()).for_each(&mut take);
    let fold = |sum: u64, word: u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
    };
    let scalars = wave.sgpr.iter().chain(&lanes).map(|&word| word.into());
    let specials = [
        wave.pc,
        wave.vcc,
        wave.exec(),
        wave.m0.into(),
        wave.scc.into(),
    ];
    scalars.chain(specials).fold(0, fold)
}
