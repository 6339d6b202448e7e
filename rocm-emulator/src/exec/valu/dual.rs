//! VOPD: two operations in one instruction, which both read their sources before either writes.

use super::{lower as lower_one, Unimplemented, VectorOp};
use crate::exec::{Row, Wave};
use crate::isa::{Encoding, Inst, Operand, Target};

/// A dual-issue instruction.
pub(super) struct Dual {
    first: VectorOp,
    second: VectorOp,
    /// The register that `first` writes, if `second` reads it.
    held_back: Option<u16>,
}

fn register(operand: &Operand) -> Option<u16> {
    match *operand {
        Operand::Vgpr { first, .. } => Some(first),
        _ => None,
    }
}

/// Whether `inst` reads a vector register; accumulating forms read their destination.
fn reads(inst: &Inst, number: u16) -> bool {
    inst.src
        .iter()
        .chain(&inst.dst[..1])
        .any(|operand| register(operand) == Some(number))
}

pub(super) fn lower(target: Target, lanes: u32, inst: &Inst) -> Result<Dual, Unimplemented> {
    let y = inst.second.as_deref().ok_or_else(|| {
        Unimplemented::new(format!(
            "{}: dual issue without a second half",
            inst.op.name
        ))
    })?;
    let half = |half: &Inst| {
        let mut half = half.clone();
        half.second = None;
        if half.encoding == Encoding::VOPD {
            half.encoding = Encoding::VOP3;
        }
        lower_one(target, lanes, &half)
    };
    let held_back = register(&inst.dst[0]).filter(|&number| reads(y, number));
    Ok(Dual {
        first: half(inst)?,
        second: half(y)?,
        held_back,
    })
}

impl Dual {
    pub fn run(&self, wave: &mut Wave) {
        let Some(number) = self.held_back else {
            self.first.run(wave);
            self.second.run(wave);
            return;
        };
        let number = number as usize;
        let before: Row = wave.vgpr[number];
        self.first.run(wave);
        let after = std::mem::replace(&mut wave.vgpr[number], before);
        self.second.run(wave);
        wave.vgpr[number] = after;
    }
}
