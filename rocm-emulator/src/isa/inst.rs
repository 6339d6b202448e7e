//! A decoded instruction: what the decoder makes of the words, and all that the executor and the
//! disassembler know of it.

use super::columns::Columns;

/// One mnemonic of one family's opcode table, shared by every instruction that decodes to it.
#[derive(Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// The mnemonic without encoding suffix (`_e32`, `_e64`, `_dpp`, `_sdwa`), such as `v_add_f32`.
    pub name: &'static str,
    /// Position in the family's list of names: an index for tables of per-opcode facts.
    pub index: u16,
    /// What is asked of the operation in place of its name.
    pub(crate) columns: Columns,
}

/// The instruction formats, by the ISA manuals' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, clippy::upper_case_acronyms)]
pub enum Encoding {
    SOP1,
    SOP2,
    SOPC,
    SOPK,
    SOPP,
    SMEM,
    VOP1,
    VOP2,
    VOPC,
    VOP3,
    /// VOP3 with a scalar destination: carries, `v_div_scale`, `v_mad_u64_u32`.
    VOP3SD,
    /// Packed math, dot products, mixed-precision FMA, WMMA.
    VOP3P,
    /// CDNA matrix instructions and accumulator moves.
    MAI,
    /// RDNA3/4 dual issue: `Inst::second` holds the Y half.
    VOPD,
    DS,
    FLAT,
    GLOBAL,
    SCRATCH,
    MUBUF,
    MTBUF,
    MIMG,
    EXP,
    VINTERP,
    LDSDIR,
}

/// Registers and constants that are neither plain SGPRs nor VGPRs.
///
/// `Vcc`, `Exec`, ... name the low dword; the operand's `dwords` says whether the pair is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    VccLo,
    VccHi,
    ExecLo,
    ExecHi,
    M0,
    /// `null`: reads zero, swallows writes (GFX10 and later).
    Null,
    Scc,
    Vccz,
    Execz,
    SharedBase,
    SharedLimit,
    PrivateBase,
    PrivateLimit,
    FlatScratchLo,
    FlatScratchHi,
    XnackMaskLo,
    XnackMaskHi,
    PopsExitingWaveId,
    /// Trap temporaries `ttmp0` to `ttmp15` (GFX12 keeps workgroup ids in ttmp7 and ttmp9).
    Ttmp(u8),
    /// `lds_direct`.
    LdsDirect,
}

/// A source or destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// No operand in this place, or `off`.
    None,
    /// `first` and the `dwords - 1` vector registers after it. Which half a 16-bit operand is stands in
    /// [`Modifiers::op_sel`], for the short formats of GFX11 and later too, whose words have it in the register's number.
    Vgpr {
        /// Register number.
        first: u16,
        /// Width in dwords; 1 also for 16-bit values.
        dwords: u8,
    },
    /// CDNA accumulation registers.
    Agpr {
        /// Register number.
        first: u16,
        /// Width in dwords.
        dwords: u8,
    },
    /// Scalar registers.
    Sgpr {
        /// Register number.
        first: u16,
        /// Width in dwords.
        dwords: u8,
    },
    /// A named register.
    Special {
        /// Which.
        reg: Special,
        /// Width in dwords: 2 for `vcc`, `exec` as 64-bit masks.
        dwords: u8,
    },
    /// An inline integer, -16 to 64, as the 64-bit sign-extended value.
    Integer(i32),
    /// An inline float: 0.5, 1, 2, 4, their negatives, and 1/(2*pi); the bits as f32. An operand of
    /// another width reads the same number in its own format.
    Float(u32),
    /// The 32-bit literal that follows the instruction. A 64-bit float operand reads it as the high
    /// dword; a 64-bit integer operand extends it.
    Literal(u32),
    /// A branch distance in dwords from the next instruction, or another SOPP/SOPK immediate, sign-extended
    /// where the manual says so.
    Immediate(i32),
}

/// Input and output modifiers of vector instructions. Bit i of a mask belongs to source i.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers {
    /// Negate (for packed math: the low half).
    pub neg: u8,
    /// Negate the high half (packed math).
    pub neg_hi: u8,
    /// Absolute value, taken before `neg`.
    pub abs: u8,
    /// Which half a 16-bit source is read from; bit 3: which half is written. Packed math: the source
    /// half of the low result.
    pub op_sel: u8,
    /// The source half of the high result (packed math).
    pub op_sel_hi: u8,
    /// Saturate the result.
    pub clamp: bool,
    /// 0: none, 1: times 2, 2: times 4, 3: divided by 2.
    pub omod: u8,
    /// MFMA `cbsz`.
    pub cbsz: u8,
    /// MFMA `abid`.
    pub abid: u8,
    /// MFMA `blgp`.
    pub blgp: u8,
}

/// Which part of a dword SDWA (GFX9 sub-dword addressing) reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SdwaSelect {
    Byte0,
    Byte1,
    Byte2,
    Byte3,
    Word0,
    Word1,
    Dword,
}

/// GFX9 sub-dword addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sdwa {
    /// Part of the destination that is written.
    pub dst: SdwaSelect,
    /// What happens to the rest: 0 zero it (`UNUSED_PAD`), 1 sign-extend (`UNUSED_SEXT`), 2 keep (`UNUSED_PRESERVE`).
    pub dst_unused: u8,
    /// Part of each source that is read.
    pub src: [SdwaSelect; 2],
    /// Bit i: sign-extend source i.
    pub sext: u8,
}

/// Data-parallel primitives: where each lane's source 0 comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp {
    /// The 9-bit DPP_CTRL field.
    pub ctrl: u16,
    /// Rows of 16 lanes that are written.
    pub row_mask: u8,
    /// Banks of 4 lanes in each row that are written.
    pub bank_mask: u8,
    /// BOUND_CTRL bit: invalid source lanes read zero instead of disabling the write.
    pub bound_ctrl: bool,
    /// Fetch inactive lanes instead of treating them as invalid (GFX10+).
    pub fetch_inactive: bool,
}

/// A cross-lane or sub-dword rider on a VOP instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LaneControl {
    /// Plain.
    #[default]
    None,
    /// Sub-dword addressing.
    Sdwa(Sdwa),
    /// DPP over 16-lane rows.
    Dpp(Dpp),
    /// DPP8: lane i of each eight reads lane `lanes[i]`; the flag is FI.
    Dpp8 {
        /// Source lane within the group of eight.
        lanes: [u8; 8],
        /// Fetch inactive lanes.
        fetch_inactive: bool,
    },
}

/// What memory instructions carry beside their operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryModifiers {
    /// Byte offset, sign-extended where the format says so. DS: `offset0` of two-address forms, or the 16-bit offset.
    pub offset: i32,
    /// DS two-address forms: `offset1`.
    pub offset1: u8,
    /// Cache-policy bits, in LLVM's order: GLC or SC0 1, SLC or NT 2, DLC 4, SCC or SC1 16; GFX12: temporal hint
    /// in bits 0 to 2, scope in bits 3 and 4. Atomics: see `returns`.
    pub cache: u16,
    /// An atomic that returns the value before.
    pub returns: bool,
    /// SMEM of GFX9 with an offset in an SGPR: an immediate one, which may be 0, is added.
    pub immediate: bool,
    /// MUBUF: an offset VGPR is added.
    pub offen: bool,
    /// MUBUF: an index VGPR is used.
    pub idxen: bool,
    /// The destination is LDS, not a VGPR.
    pub lds: bool,
    /// DS: global data share.
    pub gds: bool,
    /// MTBUF: the 7-bit buffer format.
    pub format: u8,
    /// MUBUF and MTBUF: the data has one more dword, for the status of partially resident textures.
    pub tfe: bool,
}

/// A decoded instruction.
///
/// Operand order follows the assembly text: `dst` first, then `src`. Memory instructions use fixed
/// places instead, whatever the text's order:
///
/// | format | `dst[0]` | `src[0]` | `src[1]` | `src[2]` |
/// |---|---|---|---|---|
/// | SMEM | sdata | sbase | soffset (SGPR, literal never; immediate offset is in `mem.offset`) | |
/// | DS | vdst | address | data0 | data1 |
/// | FLAT/GLOBAL/SCRATCH | vdst | vaddr (or None) | vdata | saddr (or None) |
/// | MUBUF/MTBUF | vdata of a load, vdst of a returning atomic | vaddr | srsrc | soffset; `src[3]`: vdata of a store or atomic |
///
/// VOP3SD and VOPC/VOP2 carries: `dst[1]` is the scalar destination (VCC where implied), and an implied
/// VCC source is the last source (`v_dual_cndmask_b32` too; `v_div_fmas_*` reads VCC without naming it). VOPC: `dst[0]` is the scalar destination (VCC, SGPRs, or EXEC for
/// `v_cmpx` on GFX10+; on GFX9 `v_cmpx` writes both `dst[0]` and EXEC).
/// `v_fmac`/`v_mac`/dot-accumulate forms: the destination is also read, and is not repeated in `src`.
/// `v_fmamk`/`v_fmaak`/`v_madmk`/`v_madak`: three sources in text order, one of them the literal.
/// VINTERP: `src[3]` is the export counter that it waits for.
/// SOPK: `src[0]` is the immediate (`s_cmpk_*` compare it with `dst[0]`), except `s_setreg_*` (dst None, `src[0]` the hwreg immediate, `src[1]` the value).
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// The mnemonic.
    pub op: &'static OpInfo,
    /// The format.
    pub encoding: Encoding,
    /// Bytes, literal and DPP/SDWA words included: 4, 8 or 12 (16 on GFX12 with a literal).
    pub size: u8,
    /// Destinations.
    pub dst: [Operand; 2],
    /// Sources.
    pub src: [Operand; 4],
    /// Vector modifiers.
    pub mods: Modifiers,
    /// SDWA, DPP, DPP8.
    pub lane: LaneControl,
    /// Memory modifiers.
    pub mem: MemoryModifiers,
    /// VOPD: the Y half. Both halves read their sources before either writes.
    pub second: Option<Box<Inst>>,
}
