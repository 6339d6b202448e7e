//! The releases of ROCm that serve a GPU.

use crate::{Architecture, Gpu};

/// The first release of ROCm that serves a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastRelease {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// What earlier releases do, in words.
    pub before: &'static str,
    /// Whether an earlier release ends the process.
    pub is_fatal_before: bool,
}

impl Gpu {
    /// The first release that serves it. Those before 6 serve none here.
    pub fn least_release(self) -> LeastRelease {
        let least = |major, minor, before| LeastRelease {
            major,
            minor,
            before,
            is_fatal_before: false,
        };
        // Sources: ROCm's release notes; docs/user/rocm-releases.md has what was reported.
        match self.architecture() {
            Architecture::Rdna3_5 => LeastRelease {
                is_fatal_before: true,
                ..least(
                    7,
                    2,
                    "earlier releases end the process when memory is allocated",
                )
            },
            Architecture::Cdna4 => least(7, 0, "earlier releases do not know the GPU"),
            Architecture::Rdna4 => least(6, 4, "earlier releases load no code for the GPU"),
            _ => least(
                6,
                0,
                "earlier releases have not the functions that are called",
            ),
        }
    }
}
