//! What an access does, and what it can do wrong.

use crate::fault::FaultKind;

/// What an instruction did wrong; the caller adds where.
#[derive(Debug)]
pub(crate) struct Violation {
    pub kind: FaultKind,
    pub lane: Option<u32>,
}

impl From<FaultKind> for Box<Violation> {
    fn from(kind: FaultKind) -> Self {
        Box::new(Violation { kind, lane: None })
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Box<Violation>>;

/// What an access does, as fault messages say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    Atomic,
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Access::Load => "load",
            Access::Store => "store",
            Access::Atomic => "atomic",
        }
    }
}

#[cold]
pub(crate) fn misaligned(
    access: Access,
    address: u64,
    bytes: u32,
    align: u32,
    lane: Option<u32>,
) -> Box<Violation> {
    let kind = FaultKind::Misaligned {
        access: access.name(),
        address,
        bytes,
        align,
    };
    Box::new(Violation { kind, lane })
}

#[cold]
pub(crate) fn lds_overrun(
    access: Access,
    offset: u64,
    bytes: u32,
    size: u32,
    lane: usize,
) -> Box<Violation> {
    let kind = FaultKind::LdsOverrun {
        access: access.name(),
        offset,
        bytes,
        size,
    };
    Box::new(Violation {
        kind,
        lane: Some(lane as u32),
    })
}

#[cold]
pub(crate) fn scratch_overrun(
    access: Access,
    offset: u64,
    bytes: u32,
    size: u32,
    lane: usize,
) -> Box<Violation> {
    let kind = FaultKind::ScratchOverrun {
        access: access.name(),
        offset,
        bytes,
        size,
    };
    Box::new(Violation {
        kind,
        lane: Some(lane as u32),
    })
}
