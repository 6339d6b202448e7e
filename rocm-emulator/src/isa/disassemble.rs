//! Disassembly: [`Inst`] to the text that `llvm-objdump` prints.

mod immediate;

use std::fmt::Write;

use super::columns::{Role, Traits};
use super::table::{Entry, Flags, ImmediateStyle, OpSelHi, Spec, Style, Suffix, Table};
use super::target::is_gfx940;
use super::{
    Dpp, Encoding, Family, Inst, LaneControl, Modifiers, Operand, Sdwa, SdwaSelect, Special, Target,
};

/// The instruction's text in LLVM's syntax. `pc` is its address, which no text depends on so far: LLVM prints
/// branches as their distance, and so do we.
///
/// 16-bit operands of GFX11 and later are shown as LLVM 19 shows them by default: as registers, with `op_sel` for their
/// halves; by name, `v1.h`, where a short format leaves no other way.
pub fn disassemble(target: Target, inst: &Inst, _pc: u64) -> String {
    text(target, inst, false)
}

/// The same with every 16-bit operand of GFX11 and later by its name, `v1.l` or `v1.h`, as LLVM shows them with the
/// feature `real-true16`.
pub fn disassemble_halves(target: Target, inst: &Inst) -> String {
    text(target, inst, true)
}

fn text(target: Target, inst: &Inst, name_halves: bool) -> String {
    let printer = Printer {
        target,
        table: Table::of(target),
        name_halves,
    };
    match &inst.second {
        Some(second) => format!(
            "{} :: {}",
            printer.half(inst, second),
            printer.half(second, inst)
        ),
        None => printer.instruction(inst),
    }
}

struct Printer {
    target: Target,
    table: &'static Table,
    /// 16-bit operands have `.l` or `.h` behind the register.
    name_halves: bool,
}

/// Joins a mnemonic with its operands.
fn join(mnemonic: &str, operands: &[String]) -> String {
    if operands.is_empty() {
        mnemonic.to_string()
    } else {
        format!("{mnemonic} {}", operands.join(", "))
    }
}

fn is_some(operand: &Operand) -> bool {
    *operand != Operand::None
}

/// Whether the format has no field for `op_sel`.
fn is_short(inst: &Inst) -> bool {
    matches!(
        inst.encoding,
        Encoding::VOP1 | Encoding::VOP2 | Encoding::VOPC
    )
}

/// The lowest `count` bits of a mask as a list, ` name:[0,1]`.
fn bit_list(name: &str, mask: u8, count: u8) -> String {
    let bits: Vec<String> = (0..count)
        .map(|bit| (mask >> bit & 1).to_string())
        .collect();
    format!(" {name}:[{}]", bits.join(","))
}

impl Printer {
    fn instruction(&self, inst: &Inst) -> String {
        let entry = self.table.find(inst.encoding, inst.op);
        match inst.encoding {
            Encoding::SMEM => self.smem(inst),
            Encoding::DS => self.ds(inst, entry),
            Encoding::FLAT | Encoding::GLOBAL | Encoding::SCRATCH => self.flat(inst),
            Encoding::MUBUF | Encoding::MTBUF => self.buffer(inst),
            _ => self.alu(inst, entry),
        }
    }

    /// One half of a dual-issue instruction. A literal that the other demands is shown as a number of 32 bits.
    fn half(&self, inst: &Inst, other: &Inst) -> String {
        let specs_of = |inst: &Inst| {
            let entry = self.table.find_dual(inst.op);
            entry.map_or(&[][..], |entry| &entry.operands)
        };
        let specs = specs_of(inst);
        let demanded = specs_of(other).contains(&Spec::Literal);
        // Operands beyond the table's are implied.
        let operands: Vec<String> = inst.dst[..1]
            .iter()
            .chain(&inst.src)
            .zip(specs)
            .map(|(operand, spec)| match (operand, spec) {
                (Operand::Literal(value), Spec::Literal) => format!("0x{value:x}"),
                (Operand::Literal(_), Spec::Register { .. }) if demanded => {
                    self.operand(*operand, Style::Word)
                }
                (_, Spec::Register { style, .. }) => self.operand(*operand, *style),
                _ => self.operand(*operand, Style::Word),
            })
            .collect();
        join(inst.op.name, &operands)
    }

    fn mnemonic(&self, inst: &Inst, entry: Option<&Entry>) -> String {
        let mut text = inst.op.name.to_string();
        let suffix = entry.map_or(Suffix::None, |entry| entry.suffix);
        match inst.lane {
            LaneControl::Sdwa(_) => text += "_sdwa",
            LaneControl::None => {
                text += match suffix {
                    Suffix::E32 => "_e32",
                    Suffix::E64 => "_e64",
                    Suffix::None => "",
                }
            }
            LaneControl::Dpp(_) | LaneControl::Dpp8 { .. } => {
                // VOP3 of an operation that also has a short form, or that has only this one.
                let long = matches!(
                    inst.encoding,
                    Encoding::VOP3 | Encoding::VOP3SD | Encoding::VOP3P
                );
                text += match inst.encoding {
                    // LLVM leaves the suffix of short comparisons out.
                    Encoding::VOPC => "",
                    _ if long => "_e64_dpp",
                    _ => "_dpp",
                };
            }
        }
        text
    }

    /// The operands that are shown as a half of their register, as [`super::table::Flags::halves`].
    fn halves(&self, inst: &Inst, entry: Option<&Entry>) -> u8 {
        let Some(flags) = entry.map(|entry| &entry.flags) else {
            return 0;
        };
        let unnamed = is_short(inst) && inst.mods.op_sel & flags.halves != 0;
        if self.name_halves || flags.named_halves || unnamed {
            flags.halves
        } else {
            0
        }
    }

    /// An operand, with its half if it is one of `halves`; `place` is its bit there and in `op_sel`.
    fn maybe_half(
        &self,
        inst: &Inst,
        operand: Operand,
        style: Style,
        place: usize,
        halves: u8,
    ) -> String {
        let mut text = self.operand(operand, style);
        if halves >> place & 1 != 0 && matches!(operand, Operand::Vgpr { .. }) {
            let high = inst.mods.op_sel >> place & 1 != 0;
            text += if high { ".h" } else { ".l" };
        }
        text
    }

    /// SOP*, VOP*, MAI, VINTERP.
    fn alu(&self, inst: &Inst, entry: Option<&Entry>) -> String {
        let specs = entry.map_or(&[][..], |entry| &entry.operands);
        let halves = self.halves(inst, entry);
        let hidden_exec =
            inst.op.columns.has(Traits::COMPARES_EXEC) && self.target.family() != Family::Cdna;
        let mut operands: Vec<String> = inst
            .dst
            .iter()
            .filter(|operand| is_some(operand) && !hidden_exec)
            .map(|operand| self.maybe_half(inst, *operand, Style::Word, 3, halves))
            .collect();
        let destinations = inst
            .dst
            .iter()
            .filter(|operand| is_some(operand) && !hidden_exec)
            .count();
        let truth_table = inst.op.columns.has(Traits::TRUTH_TABLE);
        for (index, operand) in inst.src.iter().enumerate() {
            if (truth_table || inst.encoding == Encoding::VINTERP) && index == 3 {
                continue;
            }
            let spec = specs.get(destinations + index);
            let text = match (spec, operand) {
                (_, Operand::None) => continue,
                (Some(Spec::Immediate { style, .. }), Operand::Immediate(value)) => {
                    self.immediate(*style, *value)
                }
                // The K of fmaak and fmamk is always shown in hex, s_setreg's literal like any other.
                (Some(Spec::Literal), Operand::Literal(value))
                    if inst.encoding != Encoding::SOPK =>
                {
                    format!("0x{value:x}")
                }
                (Some(Spec::Register { style, .. }), _) => {
                    self.modified(inst, index, *style, halves)
                }
                _ => self.operand(*operand, Style::Word),
            };
            if !text.is_empty() {
                operands.push(text);
            }
        }
        let mut text = join(&self.mnemonic(inst, entry), &operands);
        if let Some(entry) = entry {
            self.modifiers(&mut text, inst, entry);
        }
        text
    }

    /// A vector source with its signs.
    fn modified(&self, inst: &Inst, index: usize, style: Style, halves: u8) -> String {
        let operand = inst.src[index];
        let text = self.maybe_half(inst, operand, style, index, halves);
        // Packed math lists its signs behind the operands.
        let mix = inst.encoding == Encoding::VOP3P
            && self
                .table
                .find(inst.encoding, inst.op)
                .is_some_and(|entry| entry.flags.op_sel_hi == OpSelHi::Mix);
        if inst.encoding == Encoding::VOP3P && !mix {
            return text;
        }
        if let LaneControl::Sdwa(sdwa) = inst.lane {
            if sdwa.sext >> index & 1 != 0 {
                return format!("sext({text})");
            }
        }
        let Modifiers { neg, abs, .. } = inst.mods;
        let constant = matches!(
            operand,
            Operand::Integer(_) | Operand::Float(_) | Operand::Literal(_)
        );
        match (neg >> index & 1 != 0, abs >> index & 1 != 0) {
            (false, false) => text,
            (true, false) if constant => format!("neg({text})"),
            (true, false) => format!("-{text}"),
            (false, true) => format!("|{text}|"),
            (true, true) => format!("-|{text}|"),
        }
    }

    fn modifiers(&self, text: &mut String, inst: &Inst, entry: &Entry) {
        let mods = inst.mods;
        let flags = &entry.flags;
        if let Some((low, high)) = flags.byte_sel {
            let byte = (mods.op_sel >> low & 1) | (mods.op_sel >> high & 1) << 1;
            if byte != 0 {
                let _ = write!(text, " byte_sel:{byte}");
            }
        }
        if let (true, Operand::Literal(table @ 1..)) =
            (inst.op.columns.has(Traits::TRUTH_TABLE), inst.src[3])
        {
            let _ = match table {
                ..=10 => write!(text, " bitop3:{table}"),
                _ => write!(text, " bitop3:0x{table:x}"),
            };
        }
        // Here alone it stands before the halves.
        let interpolates = inst.encoding == Encoding::VINTERP;
        if interpolates && mods.clamp {
            *text += " clamp";
        }
        self.op_sel_text(text, inst, entry);
        packed_text(text, inst, flags);
        if mods.clamp && !interpolates {
            *text += " clamp";
        }
        *text += match mods.omod {
            1 => " mul:2",
            2 => " mul:4",
            3 => " div:2",
            _ => "",
        };
        self.matrix_text(text, inst);
        if let (Encoding::VINTERP, Operand::Immediate(count)) = (inst.encoding, inst.src[3]) {
            let _ = write!(text, " wait_exp:{count}");
        }
        self.lane_text(text, inst);
    }

    /// The halves that sources and destination name, and the key of a sparse matrix's index.
    fn op_sel_text(&self, text: &mut String, inst: &Inst, entry: &Entry) {
        let mods = inst.mods;
        let listed = self.listed_halves(inst, entry);
        if listed > 0 && mods.op_sel != 0 {
            // VOP3 has the destination's bit behind the sources' that it uses.
            let sources = listed - 1;
            let mask = if inst.encoding == Encoding::VOP3P
                || listed == 4
                || inst.op.columns.has(Traits::PERMUTES)
            {
                mods.op_sel
            } else {
                mods.op_sel & !(1 << sources) | (mods.op_sel >> 3 & 1) << sources
            };
            *text += &bit_list("op_sel", mask, listed);
        }
        if mods.op_sel & entry.flags.index_key != 0 {
            let _ = write!(text, " index_key:{}", mods.op_sel & entry.flags.index_key);
        }
    }

    /// What matrix instructions broadcast and permute.
    fn matrix_text(&self, text: &mut String, inst: &Inst) {
        let mods = inst.mods;
        for (name, value) in [("cbsz", mods.cbsz), ("abid", mods.abid)] {
            if value != 0 {
                let _ = write!(text, " {name}:{value}");
            }
        }
        if mods.blgp != 0 {
            // The double-precision forms of gfx940 use the bits as signs.
            if is_gfx940(self.target) && inst.op.columns.has(Traits::SIGNS_IN_BLGP) {
                *text += &bit_list("neg", mods.blgp, 3);
            } else {
                let _ = write!(text, " blgp:{}", mods.blgp);
            }
        }
    }

    fn lane_text(&self, text: &mut String, inst: &Inst) {
        match inst.lane {
            LaneControl::None => {}
            LaneControl::Sdwa(sdwa) => sdwa_text(text, inst, sdwa),
            LaneControl::Dpp(dpp) => self.dpp_text(text, dpp),
            LaneControl::Dpp8 {
                lanes,
                fetch_inactive,
            } => {
                let lanes: Vec<String> = lanes.iter().map(u8::to_string).collect();
                let _ = write!(text, " dpp8:[{}]", lanes.join(","));
                if fetch_inactive {
                    *text += " fi:1";
                }
            }
        }
    }

    /// How many bits of `op_sel` the text lists: those of the sources and the destination where halves have names.
    fn listed_halves(&self, inst: &Inst, entry: &Entry) -> u8 {
        // LLVM leaves the list out of this one.
        let unlisted = inst.op.columns.has(Traits::UNLISTED_HALVES);
        if is_short(inst) || unlisted || self.halves(inst, Some(entry)) == 0 {
            return entry.flags.op_sel;
        }
        let sources = inst.src.iter().filter(|operand| is_some(operand)).count();
        entry.flags.op_sel.max(sources as u8 + 1)
    }

    fn dpp_text(&self, text: &mut String, dpp: Dpp) {
        let ctrl = dpp.ctrl;
        let low = ctrl & 0xf;
        let name = match ctrl {
            0..=0xff => format!(
                "quad_perm:[{},{},{},{}]",
                ctrl & 3,
                ctrl >> 2 & 3,
                ctrl >> 4 & 3,
                ctrl >> 6
            ),
            0x101..=0x10f => format!("row_shl:{low}"),
            0x111..=0x11f => format!("row_shr:{low}"),
            0x121..=0x12f => format!("row_ror:{low}"),
            0x130 => "wave_shl:1".into(),
            0x134 => "wave_rol:1".into(),
            0x138 => "wave_shr:1".into(),
            0x13c => "wave_ror:1".into(),
            0x140 => "row_mirror".into(),
            0x141 => "row_half_mirror".into(),
            0x142 => "row_bcast:15".into(),
            0x143 => "row_bcast:31".into(),
            0x150..=0x15f if self.target.family() == Family::Cdna => format!("row_newbcast:{low}"),
            0x150..=0x15f => format!("row_share:{low}"),
            0x160..=0x16f => format!("row_xmask:{low}"),
            _ => format!("dpp_ctrl:0x{ctrl:x}"),
        };
        let _ = write!(
            text,
            " {name} row_mask:0x{:x} bank_mask:0x{:x}",
            dpp.row_mask, dpp.bank_mask
        );
        if dpp.bound_ctrl {
            *text += " bound_ctrl:1";
        }
        if dpp.fetch_inactive {
            *text += " fi:1";
        }
    }

    fn smem(&self, inst: &Inst) -> String {
        let name = inst.op.name;
        let mut operands = Vec::new();
        let prefetch = inst.op.columns.has(Traits::PREFETCHES);
        if is_some(&inst.dst[0]) && !prefetch {
            operands.push(self.operand(inst.dst[0], Style::Word));
        }
        if is_some(&inst.src[0]) {
            operands.push(self.operand(inst.src[0], Style::Word));
        }
        let null = matches!(
            inst.src[1],
            Operand::Special {
                reg: Special::Null,
                ..
            }
        );
        let offset = inst.mem.offset;
        let signed = if offset < 0 {
            format!("-0x{:x}", offset.unsigned_abs())
        } else {
            format!("0x{offset:x}")
        };
        let mut text;
        if prefetch {
            operands.push(signed);
            operands.push(self.operand(inst.src[1], Style::Word));
            operands.push(self.operand(inst.dst[0], Style::Word));
            text = join(name, &operands);
        } else if operands.is_empty() || !is_some(&inst.src[0]) {
            text = join(name, &operands);
        } else {
            let rdna4 = self.target.family() == Family::Rdna4;
            let immediate = !is_some(&inst.src[1]) || null && (offset != 0 || rdna4);
            if immediate {
                operands.push(signed);
                text = join(name, &operands);
            } else {
                operands.push(self.operand(inst.src[1], Style::Word));
                text = join(name, &operands);
                if offset != 0 || rdna4 || inst.mem.immediate {
                    let _ = write!(text, " offset:{signed}");
                }
            }
        }
        self.cache(&mut text, inst);
        text
    }

    fn ds(&self, inst: &Inst, entry: Option<&Entry>) -> String {
        let operands: Vec<String> = std::iter::once(&inst.dst[0])
            .chain(&inst.src)
            .filter(|operand| is_some(operand))
            .map(|operand| self.operand(*operand, Style::Word))
            .collect();
        let mut text = join(inst.op.name, &operands);
        let mem = &inst.mem;
        if entry.is_some_and(|entry| entry.flags.two_offsets) {
            if mem.offset != 0 {
                let _ = write!(text, " offset0:{}", mem.offset);
            }
            if mem.offset1 != 0 {
                let _ = write!(text, " offset1:{}", mem.offset1);
            }
        } else if inst.op.columns.role == Role::Swizzle {
            text += &swizzle(mem.offset as u32);
        } else if mem.offset != 0 {
            let _ = write!(text, " offset:{}", mem.offset);
        }
        if mem.gds {
            text += " gds";
        }
        text
    }

    fn address(&self, operand: Operand) -> String {
        match operand {
            Operand::None => "off".into(),
            _ => self.operand(operand, Style::Word),
        }
    }

    fn flat(&self, inst: &Inst) -> String {
        let [vaddr, data, saddr, _] = inst.src;
        let mut operands = Vec::new();
        if is_some(&inst.dst[0]) {
            operands.push(self.operand(inst.dst[0], Style::Word));
        }
        let addressed = is_some(&inst.dst[0])
            || is_some(&vaddr)
            || is_some(&data)
            || is_some(&saddr)
            || inst.op.columns.has(Traits::LOADS);
        if addressed {
            if !inst.op.columns.has(Traits::BY_LANE) {
                operands.push(self.address(vaddr));
            }
            if is_some(&data) {
                operands.push(self.operand(data, Style::Word));
            }
            if inst.encoding != Encoding::FLAT {
                operands.push(self.address(saddr));
            }
        }
        let mut text = join(inst.op.name, &operands);
        if inst.mem.offset != 0 {
            let _ = write!(text, " offset:{}", inst.mem.offset);
        }
        self.cache(&mut text, inst);
        if inst.mem.lds && !inst.op.columns.has(Traits::TO_LDS) {
            text += " lds";
        }
        text
    }

    fn buffer(&self, inst: &Inst) -> String {
        let [vaddr, srsrc, soffset, data] = inst.src;
        let mut operands = Vec::new();
        if is_some(&inst.dst[0]) {
            operands.push(self.operand(inst.dst[0], Style::Word));
        } else if is_some(&data) {
            operands.push(self.operand(data, Style::Word));
        }
        if is_some(&srsrc) {
            operands.push(self.address(vaddr));
            operands.push(self.operand(srsrc, Style::Word));
            operands.push(self.operand(soffset, Style::Word));
        }
        let mut text = join(inst.op.name, &operands);
        let mem = &inst.mem;
        if inst.encoding == Encoding::MTBUF {
            match self.table.formats.get(&u16::from(mem.format)).copied() {
                Some("-") => {}
                Some(name) => {
                    let _ = write!(text, " format:[{name}]");
                }
                None => {
                    let _ = write!(text, " format:{}", mem.format);
                }
            }
        }
        if mem.idxen {
            text += " idxen";
        }
        if mem.offen {
            text += " offen";
        }
        if mem.offset != 0 {
            let _ = write!(text, " offset:{}", mem.offset);
        }
        self.cache(&mut text, inst);
        if mem.tfe {
            text += " tfe";
        }
        if mem.lds && !inst.op.columns.has(Traits::TO_LDS) {
            text += " lds";
        }
        text
    }

    /// The cache policy, by the family's names for its bits.
    fn cache(&self, text: &mut String, inst: &Inst) {
        let cache = inst.mem.cache;
        if self.target.family() == Family::Rdna4 {
            *text += &temporal_hint(inst, cache & 7, cache >> 3);
            *text += [
                "",
                " scope:SCOPE_SE",
                " scope:SCOPE_DEV",
                " scope:SCOPE_SYS",
            ][usize::from(cache >> 3 & 3)];
            return;
        }
        let gfx940 = is_gfx940(self.target);
        let smem = inst.encoding == Encoding::SMEM;
        let names = [
            (1, if gfx940 && !smem { " sc0" } else { " glc" }),
            (2, if gfx940 { " nt" } else { " slc" }),
            (4, " dlc"),
            (16, if gfx940 { " sc1" } else { " scc" }),
        ];
        for (bit, name) in names {
            if cache & bit != 0 {
                *text += name;
            }
        }
    }

    fn operand(&self, operand: Operand, style: Style) -> String {
        match operand {
            Operand::None => "off".into(),
            Operand::Vgpr { first, dwords } => range("v", first, dwords),
            Operand::Agpr { first, dwords } => range("a", first, dwords),
            Operand::Sgpr { first, dwords } => range("s", first, dwords),
            Operand::Special { reg, dwords } => special(reg, dwords),
            Operand::Integer(value) => value.to_string(),
            Operand::Float(bits) => inline_float(bits, style),
            Operand::Literal(value) => literal(value, style),
            Operand::Immediate(value) => value.to_string(),
        }
    }

    fn immediate(&self, style: ImmediateStyle, value: i32) -> String {
        immediate::text(self.target, self.table, style, value)
    }
}

fn range(letter: &str, first: u16, dwords: u8) -> String {
    if dwords <= 1 {
        format!("{letter}{first}")
    } else {
        format!("{letter}[{first}:{}]", first + u16::from(dwords) - 1)
    }
}

fn special(reg: Special, dwords: u8) -> String {
    let (low, pair) = match reg {
        Special::VccLo => ("vcc_lo", "vcc"),
        Special::VccHi => ("vcc_hi", "vcc_hi"),
        Special::ExecLo => ("exec_lo", "exec"),
        Special::ExecHi => ("exec_hi", "exec_hi"),
        Special::M0 => ("m0", "m0"),
        Special::Null => ("null", "null"),
        Special::Scc => ("src_scc", "src_scc"),
        Special::Vccz => ("src_vccz", "src_vccz"),
        Special::Execz => ("src_execz", "src_execz"),
        Special::SharedBase => ("src_shared_base", "src_shared_base"),
        Special::SharedLimit => ("src_shared_limit", "src_shared_limit"),
        Special::PrivateBase => ("src_private_base", "src_private_base"),
        Special::PrivateLimit => ("src_private_limit", "src_private_limit"),
        Special::FlatScratchLo => ("flat_scratch_lo", "flat_scratch"),
        Special::FlatScratchHi => ("flat_scratch_hi", "flat_scratch_hi"),
        Special::XnackMaskLo => ("xnack_mask_lo", "xnack_mask"),
        Special::XnackMaskHi => ("xnack_mask_hi", "xnack_mask_hi"),
        Special::PopsExitingWaveId => ("src_pops_exiting_wave_id", "src_pops_exiting_wave_id"),
        Special::LdsDirect => ("src_lds_direct", "src_lds_direct"),
        Special::Ttmp(first) => return range("ttmp", first.into(), dwords),
    };
    if dwords > 1 { pair } else { low }.into()
}

/// The inline floats: as f32 bits, as f16 bits, as text.
const INLINE_FLOATS: [(u32, u16, &str); 9] = [
    (0x3f00_0000, 0x3800, "0.5"),
    (0xbf00_0000, 0xb800, "-0.5"),
    (0x3f80_0000, 0x3c00, "1.0"),
    (0xbf80_0000, 0xbc00, "-1.0"),
    (0x4000_0000, 0x4000, "2.0"),
    (0xc000_0000, 0xc000, "-2.0"),
    (0x4080_0000, 0x4400, "4.0"),
    (0xc080_0000, 0xc400, "-4.0"),
    (0x3e22_f983, 0x3118, "0.15915494"),
];

fn inline_float(bits: u32, style: Style) -> String {
    let row = INLINE_FLOATS.iter().find(|row| row.0 == bits);
    match (row, style) {
        (Some(row), Style::Short) => format!("0x{:x}", row.1),
        (Some((0x3e22_f983, ..)), Style::Double | Style::Quad) => "0.15915494309189532".into(),
        (Some(row), _) => row.2.into(),
        (None, _) => format!("0x{bits:x}"),
    }
}

/// LLVM shows a literal as the inline constant of the same value, if there is one.
fn literal(value: u32, style: Style) -> String {
    let half = value as u16;
    let integer = match style {
        // A float's literal is its high dword, so no small integer is equal to it.
        Style::Double => None,
        // Zero-extended.
        Style::Quad => i64::from(value).try_into().ok(),
        Style::Half | Style::Bfloat => Some(i32::from(half as i16)),
        Style::Word | Style::Short | Style::HalfPair | Style::BfloatPair => Some(value as i32),
    };
    let number = match style {
        Style::Half | Style::Short => half.into(),
        _ => value,
    };
    let float = INLINE_FLOATS.iter().find(|(single, f16, _)| match style {
        Style::Word | Style::Short => *single == value,
        // The double's high dword; 1/(2*pi) has more bits than that.
        Style::Double => {
            value == (f64::from(f32::from_bits(*single)).to_bits() >> 32) as u32
                && *single & 0xffff == 0
        }
        Style::Quad => false,
        Style::Half | Style::HalfPair => u32::from(*f16) == number,
        Style::BfloatPair | Style::Bfloat => single >> 16 == value,
    });
    match (integer, float) {
        (Some(integer), _) if (-16..=64).contains(&integer) => integer.to_string(),
        (_, Some(row)) => row.2.into(),
        _ if style == Style::Double && value == 0 => "0".into(),
        _ => format!("0x{number:x}"),
    }
}

/// The halves and signs of packed operands.
fn packed_text(text: &mut String, inst: &Inst, flags: &Flags) {
    let mods = inst.mods;
    let all = (1 << flags.op_sel) - 1;
    match flags.op_sel_hi {
        OpSelHi::Packed if mods.op_sel_hi & all != all => {
            *text += &bit_list("op_sel_hi", mods.op_sel_hi, flags.op_sel);
        }
        OpSelHi::Mix if mods.op_sel_hi & all != 0 => {
            *text += &bit_list("op_sel_hi", mods.op_sel_hi, flags.op_sel);
        }
        _ => {}
    }
    if inst.encoding == Encoding::VOP3P
        && flags.neg > 0
        && flags.op_sel_hi != OpSelHi::Mix
        && mods.neg != 0
    {
        *text += &bit_list("neg_lo", mods.neg, flags.neg);
    }
    if flags.neg_hi > 0 && mods.neg_hi != 0 {
        *text += &bit_list("neg_hi", mods.neg_hi, flags.neg_hi);
    }
}

fn sdwa_text(text: &mut String, inst: &Inst, sdwa: Sdwa) {
    let name = |select: SdwaSelect| match select {
        SdwaSelect::Byte0 => "BYTE_0",
        SdwaSelect::Byte1 => "BYTE_1",
        SdwaSelect::Byte2 => "BYTE_2",
        SdwaSelect::Byte3 => "BYTE_3",
        SdwaSelect::Word0 => "WORD_0",
        SdwaSelect::Word1 => "WORD_1",
        SdwaSelect::Dword => "DWORD",
    };
    // These have a byte to choose, and no more.
    let conversion = inst.op.columns.has(Traits::FROM_BYTE);
    if inst.encoding != Encoding::VOPC && !conversion {
        let unused = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "3"];
        let _ = write!(
            text,
            " dst_sel:{} dst_unused:{}",
            name(sdwa.dst),
            unused[usize::from(sdwa.dst_unused & 3)]
        );
    }
    let _ = write!(text, " src0_sel:{}", name(sdwa.src[0]));
    if inst.encoding != Encoding::VOP1 {
        let _ = write!(text, " src1_sel:{}", name(sdwa.src[1]));
    }
}

/// GFX12's temporal hint, which has other names for loads, stores and atomics.
fn temporal_hint(inst: &Inst, hint: u16, scope: u16) -> String {
    if hint == 0 {
        return String::new();
    }
    if inst.op.columns.has(Traits::ATOMIC) {
        let name = match hint {
            1 => "RETURN",
            2 => "NT",
            3 => "NT_RETURN",
            6 | 7 if scope >= 2 => "CASCADE_NT",
            4 | 5 if scope >= 2 => "CASCADE_RT",
            _ => return format!(" th:TH_ATOMIC_0x{hint:x}"),
        };
        return format!(" th:TH_ATOMIC_{name}");
    }
    let store = inst.op.columns.has(Traits::STORES);
    let kind = if store { "STORE" } else { "LOAD" };
    let name = match hint {
        1 => "NT",
        2 => "HT",
        3 if scope == 3 => "BYPASS",
        3 if store => "RT_WB",
        3 => "LU",
        4 => "NT_RT",
        5 => "RT_NT",
        6 => "NT_HT",
        _ if store => "NT_WB",
        _ => return format!(" th:0x{hint:x}"),
    };
    format!(" th:TH_{kind}_{name}")
}

/// The pattern of `ds_swizzle_b32`, by name where it has one.
fn swizzle(pattern: u32) -> String {
    if pattern == 0 {
        return String::new();
    }
    let name = if pattern & 0x8000 != 0 && pattern & 0x7f00 == 0 {
        format!(
            "QUAD_PERM,{},{},{},{}",
            pattern & 3,
            pattern >> 2 & 3,
            pattern >> 4 & 3,
            pattern >> 6 & 3
        )
    } else if pattern & 0x8000 == 0 {
        let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
        if and == 31 && or == 0 && xor.count_ones() == 1 {
            format!("SWAP,{xor}")
        } else if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
            format!("REVERSE,{}", xor + 1)
        } else if or < 32 && xor == 0 && (32 - and).is_power_of_two() && and < 31 && or < 32 - and {
            format!("BROADCAST,{},{or}", 32 - and)
        } else {
            let mask: String = (0..5)
                .rev()
                .map(|bit| {
                    // What becomes of a lane number's bit that is 0, and of one that is 1.
                    match ((or ^ xor) >> bit & 1, ((and | or) ^ xor) >> bit & 1) {
                        (0, 0) => '0',
                        (0, 1) => 'p',
                        (1, 0) => 'i',
                        _ => '1',
                    }
                })
                .collect();
            format!("BITMASK_PERM,\"{mask}\"")
        }
    } else {
        return format!(" offset:{pattern}");
    };
    format!(" offset:swizzle({name})")
}
