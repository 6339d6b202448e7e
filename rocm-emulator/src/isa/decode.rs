//! Decoding: instruction words to [`Inst`].

use super::columns::{Role, Traits};
use super::table::{Class, Entry, Field, Flags, ImmediateStyle, Layout, OpSelHi, Spec, Table};
use super::target::{has_gds, is_gfx940};
use super::{
    Dpp, Encoding, Family, Inst, LaneControl, MemoryModifiers, Modifiers, Operand, Sdwa,
    SdwaSelect, Special, Target,
};

/// Words that are not an instruction of the target, or that end before it does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{target} has no instruction {words}: {reason}", words = hex(.words))]
pub struct DecodeError {
    /// The instruction set.
    pub target: Target,
    /// The words, at most the four of the longest instruction.
    pub words: Vec<u32>,
    /// Bytes that the encoding takes, where it could be told: a listing may go on after them.
    pub size: Option<u8>,
    /// What is wrong with them.
    pub reason: &'static str,
}

fn hex(words: &[u32]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:08x}")).collect();
    words.join(" ")
}

/// GFX9's scalar source code for an SDWA word instead of a plain source 0.
const SDWA: u32 = 249;
/// Source 0 code for a DPP word.
const DPP: u32 = 250;
/// Source 0 codes for a DPP8 word, without and with FI.
const DPP8: [u32; 2] = [233, 234];
const LITERAL: u32 = 255;

/// One instruction being taken apart.
struct Decoder<'a> {
    target: Target,
    layout: &'a Layout,
    entry: &'a Entry,
    bits: u128,
    words: &'a [u32],
    /// Dwords consumed so far.
    used: usize,
    literal: Option<u32>,
}

/// Decodes the instruction at the beginning of `words` (the remaining code, as dwords).
///
/// # Errors
/// Words that the target does not define, formats that compute kernels never use (images, exports), and code that
/// ends within an instruction.
pub fn decode(target: Target, words: &[u32]) -> Result<Inst, DecodeError> {
    let table = Table::of(target);
    let error = |size: Option<u8>, reason| DecodeError {
        target,
        words: words.iter().copied().take(4).collect(),
        size,
        reason,
    };
    let first = *words
        .first()
        .ok_or_else(|| error(None, "the code ends here"))?;
    let bits = words
        .iter()
        .take(4)
        .enumerate()
        .fold(0u128, |bits, (i, word)| {
            bits | u128::from(*word) << (32 * i)
        });
    let mut size = None;
    for (index, layout) in table.layouts.iter().enumerate() {
        if !layout.accepts(first) {
            continue;
        }
        size = size.or(Some(4 * layout.words));
        let entry = if layout.encoding == Encoding::VOPD {
            table.dual(0, layout.opcode(bits))
        } else {
            table.entry(index, layout.opcode(bits))
        };
        let Some(entry) = entry else { continue };
        if words.len() < usize::from(layout.words) {
            return Err(error(size, "the code ends within it"));
        }
        let decoder = Decoder {
            target,
            layout,
            entry,
            bits,
            words,
            used: usize::from(layout.words),
            literal: None,
        };
        return decoder.run(table).map_err(|reason| error(size, reason));
    }
    Err(error(
        size,
        match size {
            Some(_) => "the opcode is not defined",
            None => "no encoding has these bits",
        },
    ))
}

type Reason = &'static str;

const ENDS: Reason = "the code ends within it";

impl Decoder<'_> {
    fn run(mut self, table: &Table) -> Result<Inst, Reason> {
        let mut inst = Inst {
            op: self.entry.op,
            encoding: self.layout.encoding,
            size: 0,
            dst: [Operand::None; 2],
            src: [Operand::None; 4],
            mods: Modifiers::default(),
            lane: LaneControl::None,
            mem: MemoryModifiers::default(),
            second: None,
        };
        match self.layout.encoding {
            Encoding::SMEM => self.smem(&mut inst)?,
            Encoding::DS => self.ds(&mut inst),
            Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH => self.flat(&mut inst)?,
            Encoding::MUBUF | Encoding::MTBUF => self.buffer(&mut inst)?,
            Encoding::VOPD => self.dual(&mut inst, table)?,
            _ => self.alu(&mut inst, table)?,
        }
        inst.size = 4 * self.used as u8;
        Ok(inst)
    }

    fn field(&self, field: Field) -> u32 {
        self.layout.get(self.bits, field)
    }

    fn has(&self, traits: Traits) -> bool {
        self.entry.op.columns.has(traits)
    }

    fn flag(&self, field: Field) -> bool {
        self.field(field) != 0
    }

    /// The dword after what has been consumed.
    fn next_word(&mut self) -> Result<u32, Reason> {
        let word = *self.words.get(self.used).ok_or(ENDS)?;
        self.used += 1;
        Ok(word)
    }

    /// The instruction's literal: one dword, however many operands name it.
    fn literal(&mut self) -> Result<Operand, Reason> {
        let value = match self.literal {
            Some(value) => value,
            None => self.next_word()?,
        };
        self.literal = Some(value);
        Ok(Operand::Literal(value))
    }

    fn wave_dwords(&self) -> u8 {
        (self.target.wavefront_size() / 32) as u8
    }

    fn vcc(&self) -> Operand {
        Operand::Special {
            reg: Special::VccLo,
            dwords: self.wave_dwords(),
        }
    }

    fn exec(&self) -> Operand {
        Operand::Special {
            reg: Special::ExecLo,
            dwords: self.wave_dwords(),
        }
    }

    /// The 8-bit code space of scalar registers and constants, and VGPRs from 256.
    fn source(&mut self, code: u32, dwords: u8) -> Result<Operand, Reason> {
        const FLOATS: [u32; 9] = [
            0x3f00_0000, // 0.5
            0xbf00_0000,
            0x3f80_0000, // 1
            0xbf80_0000,
            0x4000_0000, // 2
            0xc000_0000,
            0x4080_0000, // 4
            0xc080_0000,
            0x3e22_f983, // 1/(2*pi)
        ];
        let family = self.target.family();
        let last_sgpr = if family == Family::Cdna { 101 } else { 105 };
        // GFX11 exchanged the codes of M0 and null; GFX9 has no null.
        let (m0, null) = match family {
            Family::Cdna => (124, u32::MAX),
            Family::Rdna2 => (124, 125),
            Family::Rdna3 | Family::Rdna4 => (125, 124),
        };
        let special = |reg| Ok(Operand::Special { reg, dwords });
        match code {
            _ if code <= last_sgpr => Ok(Operand::Sgpr {
                first: code as u16,
                dwords,
            }),
            102 => special(Special::FlatScratchLo),
            103 => special(Special::FlatScratchHi),
            104 => special(Special::XnackMaskLo),
            105 => special(Special::XnackMaskHi),
            106 => special(Special::VccLo),
            107 => special(Special::VccHi),
            108..=123 => special(Special::Ttmp((code - 108) as u8)),
            _ if code == m0 => special(Special::M0),
            _ if code == null => special(Special::Null),
            126 => special(Special::ExecLo),
            127 => special(Special::ExecHi),
            128..=192 => Ok(Operand::Integer(code as i32 - 128)),
            193..=208 => Ok(Operand::Integer(192 - code as i32)),
            235 => special(Special::SharedBase),
            236 => special(Special::SharedLimit),
            237 => special(Special::PrivateBase),
            238 => special(Special::PrivateLimit),
            239 => special(Special::PopsExitingWaveId),
            240..=248 => Ok(Operand::Float(FLOATS[code as usize - 240])),
            251 => special(Special::Vccz),
            252 => special(Special::Execz),
            253 => special(Special::Scc),
            254 => special(Special::LdsDirect),
            LITERAL => self.literal(),
            256..=511 => Ok(Operand::Vgpr {
                first: (code - 256) as u16,
                dwords,
            }),
            _ => Err("a source operand's code is not defined"),
        }
    }

    /// Whether the ACC bits make the register in `field` an accumulation register.
    fn accumulates(&self, field: Field) -> bool {
        let acc = self.field(Field::Acc);
        match (self.layout.encoding, field) {
            (Encoding::MAI, Field::Src0) => acc & 1 != 0,
            (Encoding::MAI, Field::Src1) => acc & 2 != 0,
            (Encoding::MAI, Field::Vdst) if self.has(Traits::PLAIN_DESTINATION) => false,
            (Encoding::MAI, Field::Src2 | Field::Vdst) => self.flag(Field::AccCd),
            (Encoding::DS, Field::Addr) => acc != 0 && self.has(Traits::BARRIERS_OF_GRID),
            (_, Field::Vdst | Field::Vdata | Field::Data0 | Field::Data1) => acc != 0,
            _ => false,
        }
    }

    fn vector(&self, field: Field, first: u32, dwords: u8) -> Operand {
        let first = first as u16;
        if self.accumulates(field) {
            Operand::Agpr { first, dwords }
        } else {
            Operand::Vgpr { first, dwords }
        }
    }

    fn register(&mut self, field: Field, class: Class, dwords: u8) -> Result<Operand, Reason> {
        let code = self.field(field);
        match class {
            Class::Vector => Ok(self.vector(field, code & 0xff, dwords)),
            Class::Accumulator => Ok(Operand::Agpr {
                first: (code & 0xff) as u16,
                dwords,
            }),
            Class::Scalar | Class::NotAccumulator => self.source(code, dwords),
            Class::Any => match self.source(code, dwords)? {
                Operand::Vgpr { first, dwords } => Ok(self.vector(field, first.into(), dwords)),
                operand => Ok(operand),
            },
        }
    }

    /// SOP*, VOP*, MAI, VINTERP: operands in the text's order.
    fn alu(&mut self, inst: &mut Inst, table: &Table) -> Result<(), Reason> {
        let rider = self.rider(inst)?;
        let entry = self.entry;
        let mut dst = 0;
        let mut src = 0;
        let mut sources = 0;
        for (position, spec) in entry.operands.iter().enumerate() {
            let (operand, is_dst) = match *spec {
                Spec::Register {
                    field,
                    class,
                    dwords,
                    ..
                } => {
                    let is_dst = matches!(field, Field::Vdst)
                        || field == Field::Sdst && entry.op.columns.role != Role::SetRegister;
                    let operand = match (&rider, field) {
                        (Some(rider), Field::Src0) => rider.source(self, 0, dwords)?,
                        (Some(rider), Field::Vsrc1) => rider.source(self, 1, dwords)?,
                        _ => self.register(field, class, dwords)?,
                    };
                    let place = if is_dst { 3 } else { sources };
                    (self.choose_half(inst, place, operand), is_dst)
                }
                Spec::Immediate { field, style } => (self.immediate(field, style), false),
                Spec::Literal => (self.literal()?, false),
                // Before the sources it is the carry or the comparison's result.
                Spec::Vcc => (self.vcc(), sources == 0 && position < 2),
                Spec::Exec => (self.exec(), false),
                Spec::M0 => (
                    Operand::Special {
                        reg: Special::M0,
                        dwords: 1,
                    },
                    false,
                ),
                Spec::Other => (Operand::None, false),
            };
            if is_dst {
                inst.dst[dst] = operand;
                dst += 1;
            } else {
                inst.src[src] = operand;
                src += 1;
                sources += 1;
            }
        }
        // Since GFX10 v_cmpx writes EXEC alone, and the text does not name it.
        if dst == 0 && self.has(Traits::COMPARES_EXEC) {
            inst.dst[0] = self.exec();
        }
        if let Some(Rider::Sdwa { word }) = rider {
            if self.layout.encoding == Encoding::VOPC && word & 1 << 15 != 0 {
                let wave = self.wave_dwords();
                inst.dst[0] = self.source(word >> 8 & 0x7f, wave)?;
            }
        }
        if rider.is_some() && self.literal.is_some() {
            return Err("a literal cannot follow an SDWA or DPP dword");
        }
        if rider.is_some() && self.layout.words == 1 {
            self.mask_signs(inst, table);
        }
        self.modifiers(inst, &entry.flags);
        Ok(())
    }

    /// A constant in a field of its own.
    fn immediate(&self, field: Field, style: ImmediateStyle) -> Operand {
        // Branch distances and SOPK's constants are signed, but for the unsigned comparisons'.
        let sopk = self.layout.encoding == Encoding::SOPK && style == ImmediateStyle::Hex;
        let signed = style == ImmediateStyle::Branch || sopk && !self.has(Traits::UNSIGNED);
        Operand::Immediate(if signed {
            self.layout.get_signed(self.bits, field)
        } else {
            self.field(field) as i32
        })
    }

    /// Leave an SDWA or DPP dword's signs to operands that have them in the long form.
    fn mask_signs(&self, inst: &mut Inst, table: &Table) {
        let op = self.entry.op;
        if self.has(Traits::NO_SIGNS) {
            (inst.mods.neg, inst.mods.abs) = (0, 0);
        }
        if let Some(long) = table.find(Encoding::VOP3, op) {
            inst.mods.neg &= long.flags.neg;
            inst.mods.abs &= long.flags.abs;
            if self.has(Traits::INTEGER_EXPONENT) {
                // The exponent is an integer here, whatever the long form allows.
                inst.mods.neg &= 1;
                inst.mods.abs &= 1;
            }
        }
    }

    /// A 16-bit operand of GFX11 and later in a short format: bit 7 of the register's number is the half, which the
    /// long formats have in `op_sel`.
    fn choose_half(&self, inst: &mut Inst, place: usize, operand: Operand) -> Operand {
        const HIGH: u16 = 0x80;
        match operand {
            Operand::Vgpr { first, dwords }
                if self.layout.words == 1
                    && self.entry.flags.halves >> place & 1 != 0
                    && first & HIGH != 0 =>
            {
                inst.mods.op_sel |= 1 << place;
                let first = first & !HIGH;
                Operand::Vgpr { first, dwords }
            }
            operand => operand,
        }
    }

    fn modifiers(&self, inst: &mut Inst, flags: &Flags) {
        let mods = &mut inst.mods;
        match self.layout.encoding {
            Encoding::VINTERP => {
                mods.neg = self.field(Field::Neg) as u8;
                mods.op_sel = self.field(Field::OpSel) as u8;
                mods.clamp = self.flag(Field::Clamp);
                inst.src[3] = Operand::Immediate(self.field(Field::WaitExp) as i32);
            }
            Encoding::VOP3 | Encoding::VOP3SD => {
                // Integer operations ignore the signs' bits.
                mods.neg = self.field(Field::Neg) as u8 & flags.neg;
                mods.abs = self.field(Field::Abs) as u8 & flags.abs;
                mods.op_sel = self.field(Field::OpSel) as u8;
                // These take both halves of their first two sources.
                if flags.op_sel <= 2 && self.has(Traits::PERMUTES) {
                    mods.op_sel &= 3;
                }
                if self.has(Traits::CHOOSES_RESULT_ONLY) {
                    mods.op_sel &= 0xc;
                }
                mods.clamp = self.flag(Field::Clamp);
                mods.omod = self.field(Field::Omod) as u8;
                // The truth table lies in the bits of the signs and the multiplier.
                if self.has(Traits::TRUTH_TABLE) {
                    let middle = self.field(Field::Abs) << 3;
                    let table = self.field(Field::Neg) | middle | self.field(Field::Omod) << 6;
                    mods.omod = 0;
                    inst.src[3] = Operand::Literal(table);
                }
            }
            Encoding::VOP3P => {
                mods.neg = self.field(Field::Neg) as u8;
                mods.neg_hi = self.field(Field::NegHi) as u8;
                mods.op_sel = self.field(Field::OpSel) as u8;
                mods.op_sel_hi =
                    (self.field(Field::OpSelHi) | self.field(Field::OpSelHi2) << 2) as u8;
                mods.clamp = self.flag(Field::Clamp);
                // In mixed precision these bits are absolute values, not the high half's signs.
                if flags.op_sel_hi == OpSelHi::Mix {
                    mods.abs = std::mem::take(&mut mods.neg_hi);
                }
            }
            Encoding::MAI => {
                let used = |used: bool, field| if used { self.field(field) as u8 } else { 0 };
                mods.cbsz = used(flags.cbsz, Field::Cbsz);
                mods.abid = used(flags.abid, Field::Abid);
                mods.blgp = used(flags.blgp, Field::Blgp);
            }
            _ => {}
        }
    }

    /// The SDWA or DPP dword, if source 0 announces one.
    fn rider(&mut self, inst: &mut Inst) -> Result<Option<Rider>, Reason> {
        if !matches!(
            self.layout.encoding,
            Encoding::VOP1
                | Encoding::VOP2
                | Encoding::VOPC
                | Encoding::VOP3
                | Encoding::VOP3SD
                | Encoding::VOP3P
        ) {
            return Ok(None);
        }
        let family = self.target.family();
        let code = self.field(Field::Src0);
        let short = self.layout.words == 1;
        let sdwa = short && matches!(family, Family::Cdna | Family::Rdna2);
        let dpp = short || matches!(family, Family::Rdna3 | Family::Rdna4);
        if code == SDWA && sdwa {
            let word = self.next_word()?;
            let mods = &mut inst.mods;
            mods.neg = ((word >> 20 & 1) | (word >> 28 & 1) << 1) as u8;
            mods.abs = ((word >> 21 & 1) | (word >> 29 & 1) << 1) as u8;
            // A comparison has its destination where the others have these.
            let compares = self.layout.encoding == Encoding::VOPC;
            if !compares {
                mods.clamp = word >> 13 & 1 != 0;
                mods.omod = (word >> 14 & 3) as u8;
            }
            inst.lane = LaneControl::Sdwa(Sdwa {
                dst: if compares {
                    SdwaSelect::Dword
                } else {
                    select(word >> 8)?
                },
                dst_unused: if compares { 0 } else { (word >> 11 & 3) as u8 },
                src: [select(word >> 16)?, select(word >> 24)?],
                sext: ((word >> 19 & 1) | (word >> 27 & 1) << 1) as u8,
            });
            Ok(Some(Rider::Sdwa { word }))
        } else if code == DPP && dpp {
            let word = self.next_word()?;
            if short {
                inst.mods.neg = ((word >> 20 & 1) | (word >> 22 & 1) << 1) as u8;
                inst.mods.abs = ((word >> 21 & 1) | (word >> 23 & 1) << 1) as u8;
            }
            inst.lane = LaneControl::Dpp(Dpp {
                ctrl: (word >> 8 & 0x1ff) as u16,
                row_mask: (word >> 28) as u8,
                bank_mask: (word >> 24 & 0xf) as u8,
                bound_ctrl: word >> 19 & 1 != 0,
                fetch_inactive: word >> 18 & 1 != 0 && family != Family::Cdna,
            });
            Ok(Some(Rider::Dpp { word }))
        } else if DPP8.contains(&code) && dpp && family != Family::Cdna {
            let word = self.next_word()?;
            inst.lane = LaneControl::Dpp8 {
                lanes: std::array::from_fn(|lane| (word >> (8 + 3 * lane) & 7) as u8),
                fetch_inactive: code == DPP8[1],
            };
            Ok(Some(Rider::Dpp { word }))
        } else {
            Ok(None)
        }
    }

    fn dual(&mut self, inst: &mut Inst, table: &Table) -> Result<(), Reason> {
        let entry = table
            .dual(1, self.field(Field::Opy) as u16)
            .ok_or("the opcode of the Y half is not defined")?;
        let vdst = self.field(Field::Vdst);
        // The lowest bit of the Y destination is not stored: it differs from X's.
        let vdsty = self.field(Field::Vdsty) << 1 | (!vdst & 1);
        let first = self.entry;
        let mut half = |entry: &Entry, inst: &mut Inst, src0, vsrc1, vdst| -> Result<(), Reason> {
            inst.dst[0] = Operand::Vgpr {
                first: vdst as u16,
                dwords: 1,
            };
            let sources = entry.operands.iter().filter(|spec| {
                !matches!(
                    spec,
                    Spec::Register {
                        field: Field::Vdst,
                        ..
                    }
                )
            });
            for (slot, spec) in inst.src.iter_mut().zip(sources) {
                *slot = match spec {
                    Spec::Register {
                        field: Field::Src0, ..
                    } => self.source(self.field(src0), 1)?,
                    Spec::Register { .. } => Operand::Vgpr {
                        first: self.field(vsrc1) as u16,
                        dwords: 1,
                    },
                    Spec::Literal => self.literal()?,
                    Spec::Vcc => self.vcc(),
                    _ => return Err("the dual-issue table is inconsistent"),
                };
            }
            // The condition is implied, and not in the text.
            if entry.op.columns.has(Traits::IMPLIED_VCC) {
                inst.src[2] = self.vcc();
            }
            Ok(())
        };
        let mut second = inst.clone();
        second.op = entry.op;
        half(first, inst, Field::Src0, Field::Vsrc1, vdst)?;
        half(entry, &mut second, Field::Src0y, Field::Vsrc1y, vdsty)?;
        inst.second = Some(Box::new(second));
        Ok(())
    }

    /// Cache-policy bits in LLVM's order: GLC/SC0 1, SLC/NT 2, DLC 4, SCC/SC1 16; GFX12: TH 0-2, scope 3-4.
    fn cache(&self) -> u16 {
        let bits = if self.layout.width(Field::Scope) > 0 {
            self.field(Field::Th) | self.field(Field::Scope) << 3
        } else {
            self.field(Field::Glc)
                | self.field(Field::Slc) << 1
                | self.field(Field::Dlc) << 2
                | self.field(Field::Scc) << 4
        };
        bits as u16
    }

    /// Whether an atomic asks for the value before: GLC, or bit 0 of the temporal hint on GFX12.
    fn returns(&self) -> bool {
        self.has(Traits::ATOMIC) && self.cache() & 1 != 0
    }

    fn smem(&mut self, inst: &mut Inst) -> Result<(), Reason> {
        let entry = self.entry;
        let addressed = entry.dwords(Field::Sbase) > 0;
        if addressed && !self.has(Traits::NO_POLICY) {
            inst.mem.cache = self.cache();
        }
        inst.mem.returns = self.returns();
        let dwords = entry.dwords(Field::Sdata);
        if dwords > 0 {
            inst.dst[0] = self.source(self.field(Field::Sdata), dwords)?;
        } else if self.has(Traits::DATA_IS_NUMBER) {
            inst.dst[0] = Operand::Immediate(self.field(Field::Sdata) as i32);
        }
        let base = entry.dwords(Field::Sbase);
        if base == 0 && !self.has(Traits::FROM_PC) {
            return Ok(());
        }
        if base > 0 {
            inst.src[0] = self.source(2 * self.field(Field::Sbase), base)?;
        }
        let offset = self.layout.get_signed(self.bits, Field::Offset);
        let soffset = self.field(Field::Soffset);
        if self.layout.width(Field::Imm) > 0 {
            // GFX9: IMM and SOFFSET_EN choose; with neither, the offset's low bits name an SGPR.
            let (imm, enabled) = (self.flag(Field::Imm), self.flag(Field::SoffsetEn));
            if imm {
                inst.mem.offset = offset;
            }
            if enabled {
                inst.src[1] = self.source(soffset, 1)?;
                inst.mem.immediate = imm;
            } else if !imm {
                inst.src[1] = self.source(offset as u32 & 0x7f, 1)?;
            }
        } else {
            inst.mem.offset = offset;
            inst.src[1] = self.source(soffset, 1)?;
        }
        Ok(())
    }

    fn ds(&mut self, inst: &mut Inst) {
        let entry = self.entry;
        let place = |field| match entry.dwords(field) {
            0 => Operand::None,
            dwords => self.vector(field, self.field(field), dwords),
        };
        inst.dst[0] = place(Field::Vdst);
        inst.src = [
            place(Field::Addr),
            place(Field::Data0),
            place(Field::Data1),
            Operand::None,
        ];
        // CDNA2 and later have none, but for the global wave synchronization's opcodes.
        inst.mem.gds = entry.flags.gds || self.flag(Field::Gds) && has_gds(self.target);
        inst.mem.returns = self.has(Traits::RETURNS);
        let (low, high) = (self.field(Field::Offset0), self.field(Field::Offset1));
        if entry.flags.no_offset {
            return;
        }
        if entry.flags.two_offsets {
            inst.mem.offset = low as i32;
            inst.mem.offset1 = high as u8;
        } else {
            inst.mem.offset = (low | high << 8) as i32;
        }
    }

    fn flat(&mut self, inst: &mut Inst) -> Result<(), Reason> {
        let entry = self.entry;
        let family = self.target.family();
        inst.mem.cache = self.cache();
        inst.mem.returns = entry.flags.returns > 0 && self.returns();
        let lds = self.flag(Field::Lds);
        inst.mem.lds = lds || self.has(Traits::TO_LDS);
        // Flat addresses take an unsigned offset until GFX12; the sign bit is not theirs.
        inst.mem.offset = if self.layout.encoding == Encoding::FLAT && family != Family::Rdna4 {
            self.field(Field::Offset) as i32
        } else {
            self.layout.get_signed(self.bits, Field::Offset)
        };
        if entry.operands.is_empty() {
            // A cache operation.
            inst.mem.offset = 0;
            return Ok(());
        }
        let dwords = if inst.mem.returns {
            entry.flags.returns
        } else {
            entry.dwords(Field::Vdst)
        };
        if dwords > 0 && !lds {
            inst.dst[0] = self.vector(Field::Vdst, self.field(Field::Vdst), dwords);
        }
        let data = entry.dwords(Field::Vdata);
        if data > 0 {
            inst.src[1] = self.vector(Field::Vdata, self.field(Field::Vdata), data);
        }
        let saddr = self.field(Field::Saddr);
        let off = match family {
            Family::Cdna => saddr == 0x7f,
            // 0x7f also disables the VGPR address of scratch.
            Family::Rdna2 => saddr == 0x7d || saddr == 0x7f,
            Family::Rdna3 | Family::Rdna4 => saddr == 0x7c,
        };
        let vaddr = self.field(Field::Vaddr);
        let without_address = entry.operands.is_empty() || self.has(Traits::BY_LANE);
        match self.layout.encoding {
            Encoding::FLAT => inst.src[0] = self.vector(Field::Vaddr, vaddr, 2),
            Encoding::GLOBAL => {
                if !without_address {
                    inst.src[0] = self.vector(Field::Vaddr, vaddr, if off { 2 } else { 1 });
                }
                if !off && !entry.operands.is_empty() {
                    inst.src[2] = self.source(saddr, 2)?;
                }
            }
            _ => {
                let has_vaddr = match family {
                    _ if self.layout.width(Field::Sve) > 0 => self.flag(Field::Sve),
                    Family::Rdna2 => saddr == 0x7d,
                    _ => off,
                };
                if has_vaddr {
                    inst.src[0] = self.vector(Field::Vaddr, vaddr, 1);
                }
                if !off {
                    inst.src[2] = self.source(saddr, 1)?;
                }
            }
        }
        Ok(())
    }

    fn buffer(&mut self, inst: &mut Inst) -> Result<(), Reason> {
        let entry = self.entry;
        if entry.operands.is_empty() {
            // A cache operation. Only gfx940's name the levels: SC0 and SC1.
            if is_gfx940(self.target) && self.has(Traits::LEVELS) {
                inst.mem.cache = self.cache() & 0x11;
            }
            return Ok(());
        }
        inst.mem.cache = self.cache();
        inst.mem.lds = self.flag(Field::Lds) || self.has(Traits::TO_LDS);
        inst.mem.offen = self.flag(Field::Offen);
        inst.mem.idxen = self.flag(Field::Idxen);
        inst.mem.offset = self.layout.get_signed(self.bits, Field::Offset);
        if self.layout.width(Field::Offset) == 12 {
            inst.mem.offset &= 0xfff;
        }
        inst.mem.returns = self.returns();
        inst.mem.tfe = self.flag(Field::Tfe);
        let dwords = entry.dwords(Field::Vdata) + u8::from(inst.mem.tfe);
        if dwords > 0 && !self.flag(Field::Lds) {
            let data = self.vector(Field::Vdata, self.field(Field::Vdata), dwords);
            let loads = self.has(Traits::LOADS);
            if loads || inst.mem.returns {
                inst.dst[0] = data;
            }
            if !loads {
                inst.src[3] = data;
            }
        }
        if inst.mem.offen || inst.mem.idxen {
            let dwords = u8::from(inst.mem.offen) + u8::from(inst.mem.idxen);
            inst.src[0] = self.vector(Field::Vaddr, self.field(Field::Vaddr), dwords);
        }
        let scale = if self.layout.width(Field::Srsrc) == 5 {
            4
        } else {
            1
        };
        inst.src[1] = self.source(scale * self.field(Field::Srsrc), 4)?;
        inst.src[2] = self.source(self.field(Field::Soffset), 1)?;
        if self.layout.encoding == Encoding::MTBUF {
            inst.mem.format = self.field(Field::Format) as u8;
        }
        Ok(())
    }
}

fn select(code: u32) -> Result<SdwaSelect, Reason> {
    Ok(match code & 7 {
        0 => SdwaSelect::Byte0,
        1 => SdwaSelect::Byte1,
        2 => SdwaSelect::Byte2,
        3 => SdwaSelect::Byte3,
        4 => SdwaSelect::Word0,
        5 => SdwaSelect::Word1,
        6 => SdwaSelect::Dword,
        _ => return Err("an SDWA select of 7 is not defined"),
    })
}

/// The dword that takes source 0's place.
#[derive(Clone, Copy)]
enum Rider {
    Sdwa { word: u32 },
    Dpp { word: u32 },
}

impl Rider {
    /// Source 0 or 1 as the rider has it.
    fn source(
        &self,
        decoder: &mut Decoder<'_>,
        index: usize,
        dwords: u8,
    ) -> Result<Operand, Reason> {
        match (*self, index) {
            (Rider::Dpp { word }, 0) => Ok(Operand::Vgpr {
                first: (word & 0xff) as u16,
                dwords,
            }),
            (Rider::Sdwa { word }, 0) => {
                decoder.source((!word >> 23 & 1) << 8 | word & 0xff, dwords)
            }
            (Rider::Sdwa { word }, _) => {
                let code = decoder.field(Field::Vsrc1);
                decoder.source((!word >> 31 & 1) << 8 | code, dwords)
            }
            (Rider::Dpp { .. }, _) => Ok(Operand::Vgpr {
                first: decoder.field(Field::Vsrc1) as u16,
                dwords,
            }),
        }
    }
}
