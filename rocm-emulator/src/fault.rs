//! What ends a launch: one fault, told in one message.

use std::fmt;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// An access outside every live allocation, or across the end of one.
    #[error("out-of-bounds {access} of {bytes} bytes at {address:#x}; {nearest}")]
    OutOfBounds {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// Address of the first byte.
        address: u64,
        /// Width of the access.
        bytes: u32,
        /// The nearest allocation in words, with its range and how far the access is from it; names a freed
        /// allocation as freed.
        nearest: String,
    },
    /// An address that the instruction requires to be aligned and is not.
    #[error(
        "misaligned {access} of {bytes} bytes at {address:#x}: it needs {align}-byte alignment"
    )]
    Misaligned {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// Address of the first byte.
        address: u64,
        /// Width of the access.
        bytes: u32,
        /// Alignment required.
        align: u32,
    },
    /// An LDS access past the workgroup's allocation.
    #[error(
        "LDS {access} of {bytes} bytes at offset {offset:#x}, past the workgroup's {size} bytes"
    )]
    LdsOverrun {
        /// `load`, `store` or `atomic`.
        access: &'static str,
        /// LDS byte offset.
        offset: u64,
        /// Width of the access.
        bytes: u32,
        /// The workgroup's LDS size.
        size: u32,
    },
    /// A scratch access past the lane's private segment.
    #[error(
        "scratch {access} of {bytes} bytes at offset {offset:#x}, past the lane's {size} bytes"
    )]
    ScratchOverrun {
        /// `load` or `store`.
        access: &'static str,
        /// Private-segment byte offset.
        offset: u64,
        /// Width of the access.
        bytes: u32,
        /// The lane's private segment size.
        size: u32,
    },
    /// Words that decode to no instruction the emulator knows.
    #[error("unknown instruction: words {words}")]
    UnknownInstruction {
        /// The words in hexadecimal.
        words: String,
    },
    /// Decoded, but with no semantics yet.
    #[error("instruction not implemented by the emulator: {text}")]
    Unimplemented {
        /// The instruction's text.
        text: String,
    },
    /// A register that the kernel does not allocate.
    #[error("register out of range: {register} is used, but the kernel has {allocated}")]
    RegisterOutOfRange {
        /// The last one that the operand names.
        register: String,
        /// What the kernel has of that kind.
        allocated: String,
    },
    /// All waves of a workgroup that have not ended wait at a barrier that cannot be completed, as one of them waits
    /// without having arrived (GFX12, where these are two instructions).
    #[error("barrier not reached by all waves: {waiting} wait, {ended} ended")]
    BarrierMismatch {
        /// Waves that wait.
        waiting: u32,
        /// Waves that ended.
        ended: u32,
    },
    /// `s_trap`, `abort()` or `__builtin_trap()` in the kernel.
    #[error("trap {0}")]
    Trap(u16),
    /// The instruction budget ran out: a loop that does not end.
    #[error("no end after {0} instructions in one wavefront; set ROCM_EMU_MAX_INSTRUCTIONS if the kernel is meant to run longer")]
    InstructionLimit(u64),
    /// The kernel asks the host for what the emulator does not do.
    #[error("hostcall of service {service} ({what}), which the emulator does not have; it has printf and assert")]
    Hostcall {
        /// The service's number.
        service: u32,
        /// What the service does.
        what: &'static str,
    },
    /// The device has no memory left for what the kernel needs beside its arguments.
    #[error("no room for the buffers of printf, assert or the grid's barriers: {0}")]
    NoRoom(String),
    /// A check found what no hardware reports (`ROCM_EMU_CHECK`).
    #[error("check {check}: {what}")]
    Finding {
        /// The check's word.
        check: &'static str,
        /// What it found.
        what: String,
    },
    /// The program counter left the code object.
    #[error("program counter outside the code object")]
    BadProgramCounter,
}

/// A fault and where it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The kernel's name.
    pub kernel: String,
    /// Byte offset of the instruction from the kernel's first, modulo 2^64: functions that the kernel calls may lie before
    /// it.
    pub pc: u64,
    /// The instruction's disassembly.
    pub instruction: String,
    /// Workgroup coordinates.
    pub workgroup: [u32; 3],
    /// Wavefront within the workgroup.
    pub wave: u32,
    /// The first offending lane, where there is one.
    pub lane: Option<u32>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "kernel {}: {} [pc {}: {}; workgroup ({x}, {y}, {z}), wave {}",
            self.kernel,
            self.kind,
            Offset(self.pc),
            self.instruction,
            self.wave
        )?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        f.write_str("]")
    }
}

impl std::error::Error for Fault {}

/// A distance from the kernel's first instruction, with its sign.
struct Offset(u64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.0 as i64;
        let sign = if offset < 0 { '-' } else { '+' };
        write!(f, "{sign}{:#x}", offset.unsigned_abs())
    }
}
