//! Random instruction words of every opcode, for testing the decoder against another disassembler.

use super::columns::Traits;
use super::table::{Class, Field, Flags, ImmediateStyle, Layout, Spec, Table};
use super::{Encoding, Family, OpInfo, Target};

/// Words that may be an instruction: every field has a value that is likely to be allowed there.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The format whose layout was filled.
    pub encoding: Encoding,
    /// The opcode in it; dual issue has X's opcode times 32 plus Y's.
    pub opcode: u16,
    /// The instruction with its literal, SDWA or DPP dword.
    pub words: Vec<u32>,
}

/// `count` samples of every opcode of the target, from the random numbers given.
pub fn sample_words(target: Target, count: usize, random: &mut impl FnMut() -> u32) -> Vec<Sample> {
    let table = Table::of(target);
    let mut samples = Vec::new();
    for (index, layout) in table.layouts.iter().enumerate() {
        let dual = layout.encoding == Encoding::VOPD;
        let opcodes = if dual {
            table.dual_opcodes(0)
        } else {
            table.opcodes(index)
        };
        for opcode in opcodes {
            let entry = if dual {
                table.dual(0, opcode)
            } else {
                table.entry(index, opcode)
            };
            let Some(entry) = entry else { continue };
            let signs = extra_signs(table, entry.op);
            let seconds = if dual { table.dual_opcodes(1) } else { vec![0] };
            for second in seconds {
                let y = table.dual(1, second).filter(|_| dual);
                for attempt in 0..count {
                    let mut sampler = Sampler {
                        target,
                        specs: &entry.operands,
                        second: y.map_or(&[], |y| &y.operands),
                        flags: &entry.flags,
                        plain: attempt % 4 == 0,
                        extra: false,
                        rider: false,
                        dpp: false,
                        signs,
                        encoding: layout.encoding,
                        random,
                    };
                    samples.push(Sample {
                        encoding: layout.encoding,
                        opcode: if dual { opcode * 32 + second } else { opcode },
                        words: sampler.words(layout, opcode, second),
                    });
                }
            }
        }
    }
    samples
}

/// The sign bits of a DPP dword that the operation has: those of its long form.
fn extra_signs(table: &Table, op: &OpInfo) -> u32 {
    let long = table.find(Encoding::VOP3, op).map(|long| &long.flags);
    let (neg, abs) = long.map_or((3, 3), |flags| (u32::from(flags.neg), u32::from(flags.abs)));
    // LLVM shows ldexp's exponent as sign-extended, which no hardware does, and closes cndmask's absolute value behind
    // the condition.
    let (neg, abs) = match &op.columns {
        it if it.has(Traits::INTEGER_EXPONENT) => (1, 1),
        it if it.has(Traits::UNLISTED_ABS) => (neg, 0),
        _ => (neg, abs),
    };
    (neg & 1) << 20 | (abs & 1) << 21 | (neg & 2) << 21 | (abs & 2) << 22
}

struct Sampler<'a, R: FnMut() -> u32> {
    target: Target,
    specs: &'a [Spec],
    /// Dual issue: the operands of the Y half.
    second: &'a [Spec],
    flags: &'a Flags,
    /// Modifiers stay zero.
    plain: bool,
    encoding: Encoding,
    /// A dword follows.
    extra: bool,
    /// It takes the place of source 0, so that no literal can follow.
    rider: bool,
    dpp: bool,
    /// What [`extra_signs`] tells.
    signs: u32,
    random: &'a mut R,
}

impl<R: FnMut() -> u32> Sampler<'_, R> {
    /// One instruction with its literal, SDWA or DPP dword.
    fn words(&mut self, layout: &Layout, opcode: u16, second: u16) -> Vec<u32> {
        let bits = self.fields(layout, opcode, second);
        let mut words: Vec<u32> = (0..layout.words)
            .map(|i| (bits >> (32 * i)) as u32)
            .collect();
        let literal = |specs: &[Spec]| specs.contains(&Spec::Literal);
        if self.extra || literal(self.specs) || literal(self.second) {
            words.push(self.extra_word());
        }
        words
    }

    /// A value in every field that the format has.
    fn fields(&mut self, layout: &Layout, opcode: u16, second: u16) -> u128 {
        let mut bits = layout.set_opcode(opcode);
        for field in Field::all() {
            let width = layout.width(field);
            if width > 0 {
                let value = if field == Field::Opy {
                    u32::from(second)
                } else {
                    self.value(field, width)
                };
                bits |= layout.put(field, value);
            }
        }
        // Without both, the offset's low bits are a register, and GFX9 has none of code 125.
        if layout.width(Field::SoffsetEn) > 0 && layout.get(bits, Field::Offset) & 0x7f == 125 {
            bits &= !layout.put(Field::Offset, 1);
        }
        bits
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.random)() % limit
    }

    fn dwords(&self, field: Field) -> Option<u8> {
        self.specs.iter().find_map(|spec| match spec {
            Spec::Register {
                field: f, dwords, ..
            } if *f == field => Some(*dwords),
            _ => None,
        })
    }

    /// A scalar register code; wide ones are aligned.
    fn scalar(&mut self, dwords: u8, is_source: bool) -> u32 {
        let align = match dwords {
            1 => 1,
            2 => 2,
            _ => 4,
        };
        match self.below(if is_source { 8 } else { 5 }) {
            0..=2 => self.below(96 / align) * align,
            3 => 106, // VCC
            // GFX9 has no code 125.
            4 => [126, 108, 124, 125][self.below(if self.target.family() == Family::Cdna {
                3
            } else {
                4
            }) as usize],
            5 => 128 + self.below(81),
            6 => 240 + self.below(9),
            _ => [251, 252, 253, 235, 236, 237, 238, 255, 127, 107][self.below(10) as usize],
        }
    }

    fn source(&mut self, field: Field, dwords: u8) -> u32 {
        let wide = dwords > 2 && self.plain;
        let code = match self.below(if wide { 5 } else { 10 }) {
            0..=4 => 256 + 2 * self.below(96),
            // Vector registers alone.
            _ if self.encoding == Encoding::VINTERP => 256 + 2 * self.below(96),
            5..=8 => self.scalar(dwords, true),
            _ if field == Field::Src0 || field == Field::Src0y => {
                [249, 250, 233, 234, 255][self.below(5) as usize]
            }
            _ => 255,
        };
        let code = if self.rider && code == 255 { 128 } else { code };
        self.dpp |= field == Field::Src0 && code == 250;
        self.rider |= field == Field::Src0 && matches!(code, 233 | 234 | 249 | 250);
        self.extra |= self.rider || code == 255;
        code
    }

    fn value(&mut self, field: Field, width: u8) -> u32 {
        let mask = (1u32 << width) - 1;
        let dwords = self.dwords(field);
        if self.plain && self.specs.is_empty() && field != Field::Saddr {
            return 0;
        }
        if self.has_no_use(field) {
            return 0;
        }
        match field {
            Field::Src0 | Field::Src1 | Field::Src2 | Field::Src0y => self.any_source(field),
            Field::Ssrc0 | Field::Ssrc1 => self.scalar_source(field),
            Field::Vdst if self.has_class(field, Class::Scalar) => {
                let dwords = dwords.unwrap_or(1);
                self.scalar(dwords, false)
            }
            Field::Sdst | Field::Sdata => dwords.map_or(0, |dwords| self.scalar(dwords, false)),
            Field::Sbase => self.below(24) * 2,
            Field::Srsrc if width == 9 => self.below(24) * 4,
            Field::Srsrc => self.below(24),
            Field::Soffset => match self.below(4) {
                0 if self.target.family() == Family::Cdna => 124,
                0 => [124, 125, 127, 106][self.below(4) as usize],
                1 => 128 & mask,
                _ => self.below(96),
            },
            Field::Saddr => self.scalar_address(),
            Field::Neg if !matches!(self.encoding, Encoding::VOP3P) => {
                (self.random)() & u32::from(self.flags.neg)
            }
            Field::Abs => (self.random)() & u32::from(self.flags.abs),
            Field::Vdst | Field::Vsrc1 | Field::Vaddr | Field::Vdata | Field::Addr => {
                // The ALU's 16-bit operands reach half of the registers on GFX11.
                let limit = if self.target.family() == Family::Cdna {
                    100
                } else {
                    60
                };
                2 * self.below(limit) + self.high_half(self.short() && self.flags.halves != 0)
            }
            Field::Vsrc1y | Field::Data0 | Field::Data1 => {
                2 * self.below(60) + u32::from(field == Field::Vsrc1y)
            }
            Field::Simm => self.immediate(mask),
            Field::Offset | Field::Offset0 | Field::Offset1 if self.below(3) > 0 => {
                let value = (self.random)() & mask;
                if self.below(2) == 0 {
                    value & !3
                } else {
                    value
                }
            }
            Field::Gds if self.flags.gds => 1,
            Field::Gds => self.below(8) / 7,
            // The defaults, which some opcodes insist on.
            Field::OpSelHi | Field::OpSelHi2 if self.plain => mask,
            Field::OpSelHi => 3 & (self.random)(),
            Field::Vdsty => self.below(100),
            Field::Format => self.below(128),
            Field::Imm | Field::SoffsetEn | Field::OpSelHi2 | Field::Glc | Field::Sve => {
                self.below(2)
            }
            Field::Offen | Field::Idxen => self.below(2),
            Field::Th | Field::Scope => self.below(mask + 1),
            _ if self.plain || self.below(2) == 0 => 0,
            _ => (self.random)() & mask,
        }
    }

    /// Whether a vector register's field is none of the opcode's operands and so has to be zero. (An atomic's
    /// destination depends on its policy.)
    fn has_no_use(&self, field: Field) -> bool {
        match field {
            Field::Vsrc1 | Field::Addr | Field::Data0 | Field::Data1 | Field::Vdata => {
                self.dwords(field).is_none()
            }
            Field::Vdst => self.dwords(field).is_none() && !self.is_flat(),
            Field::Vsrc1y => {
                let is_use = |spec: &Spec| {
                    matches!(
                        spec,
                        Spec::Register {
                            field: Field::Vsrc1,
                            ..
                        }
                    )
                };
                !self.second.iter().any(is_use)
            }
            _ => false,
        }
    }

    /// A source that may be of any kind the opcode allows.
    fn any_source(&mut self, field: Field) -> u32 {
        match (self.dwords(field), field) {
            (Some(_), _) if self.has_class(field, Class::Accumulator) => 256 + self.below(256),
            (Some(dwords), _) => self.source(field, dwords),
            (None, Field::Src0y) => self.source(field, 1),
            (None, _) => 0,
        }
    }

    /// A source of the scalar formats: a register, a constant, or a field of the instruction's own.
    fn scalar_source(&mut self, field: Field) -> u32 {
        let immediate = self
            .specs
            .iter()
            .any(|spec| matches!(spec, Spec::Immediate { field: f, .. } if *f == field));
        if immediate {
            return self.below(256);
        }
        let code = self
            .dwords(field)
            .map_or(0, |dwords| self.scalar(dwords, true));
        self.extra |= code == 255;
        code
    }

    /// The scalar part of an address, or the code for none.
    fn scalar_address(&mut self) -> u32 {
        let family = self.target.family();
        if self.encoding == Encoding::FLAT || self.specs.is_empty() {
            return match family {
                Family::Cdna => 0,
                Family::Rdna2 => 0x7d,
                Family::Rdna3 | Family::Rdna4 => 0x7c,
            };
        }
        match self.below(3) {
            0 if family == Family::Cdna => 0x7f,
            0 => [0x7c, 0x7d, 0x7f][self.below(3) as usize],
            1 => 0,
            _ => self.below(48) * 2,
        }
    }

    /// A constant of the scalar formats: small, a short way back, or anything.
    fn immediate(&mut self, mask: u32) -> u32 {
        let version = self.specs.iter().any(|spec| {
            matches!(
                spec,
                Spec::Immediate {
                    style: ImmediateStyle::Version,
                    ..
                }
            )
        });
        if version {
            return self.below(8);
        }
        match self.below(3) {
            0 => self.below(256),
            1 => 0x1_0000 - 1 - self.below(40),
            _ => (self.random)() & mask,
        }
    }

    /// Sometimes the bit that makes a 16-bit operand of a short format the high half, if there may be one.
    fn high_half(&mut self, may: bool) -> u32 {
        if may && self.below(4) == 0 {
            0x80
        } else {
            0
        }
    }

    fn short(&self) -> bool {
        matches!(
            self.encoding,
            Encoding::VOP1 | Encoding::VOP2 | Encoding::VOPC
        )
    }

    fn is_flat(&self) -> bool {
        matches!(
            self.encoding,
            Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH
        )
    }

    fn has_class(&self, field: Field, wanted: Class) -> bool {
        self.specs.iter().any(|spec| {
            matches!(spec, Spec::Register { field: f, class, .. } if *f == field && *class == wanted)
        })
    }

    /// A literal, or an SDWA or DPP dword.
    fn extra_word(&mut self) -> u32 {
        let word = self.any_word();
        let word = word | self.high_half(self.rider && self.short() && self.flags.halves & 1 != 0);
        // SDWA selects of 7 and a rest of 3 are not defined (and bring LLVM's printer down).
        let undefined = |first: u32| word >> first & 7 == 7;
        let dpp = !0x00f0_0000 | self.signs;
        if !self.rider {
            word
        } else if self.dpp && self.short() {
            word & dpp
        } else if [8, 16, 24].into_iter().any(undefined) || word >> 11 & 3 == 3 {
            word & !0x0101_0900
        } else {
            word
        }
    }

    /// Words that literals, SDWA and DPP each find something valid among.
    fn any_word(&mut self) -> u32 {
        let sdwa_select = |x: u32| x % 7;
        match self.below(6) {
            0 => self.below(90).wrapping_sub(20),
            1 => [
                0x3f80_0000,
                0x3e22_f983,
                0x3c00,
                0xffff_fff0,
                0x3118,
                0xbc00,
            ][self.below(6) as usize],
            2 => (self.random)(),
            3 | 4 => {
                let a = sdwa_select((self.random)());
                let b = sdwa_select((self.random)());
                let c = sdwa_select((self.random)());
                let fields = [
                    (self.below(60) * 2, 0),
                    (a, 8),
                    (self.below(3), 11),
                    (b, 16),
                    (self.below(2), 23),
                    (c, 24),
                    (self.below(3) / 2, 20),
                    (self.below(3) / 2, 29),
                ];
                fields
                    .iter()
                    .fold(0, |word, (value, first)| word | value << first)
            }
            _ => {
                let control = [
                    0x1b, 0x101, 0x11f, 0x121, 0x130, 0x138, 0x140, 0x141, 0x142, 0x143, 0x153,
                    0x16a,
                ][self.below(12) as usize];
                let (register, flags) = (self.below(60) * 2, self.below(16));
                register | (control << 8) | (flags << 18) | ((self.random)() & 0xff00_0000)
            }
        }
    }
}
