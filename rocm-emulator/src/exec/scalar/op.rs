//! A lowered scalar instruction.

use super::operand::{Destination, Source};
use crate::exec::wave::Wave;

/// A lowered SALU instruction that neither branches nor touches memory.
pub(crate) struct ScalarOp {
    /// What it does, given itself.
    pub effect: fn(&mut Wave, &ScalarOp),
    pub dst: Destination,
    pub src: [Source; 3],
}

impl ScalarOp {
    #[inline(always)]
    pub fn run(&self, wave: &mut Wave) {
        (self.effect)(wave, self);
    }
}
