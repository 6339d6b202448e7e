//! The instruction tables: bit layouts and opcodes of every family, read from `tables/*.txt`.
//!
//! The files are written by `tools/generate_isa_tables.py`. A line is one of
//! - `owners encoding NAME words match mask op=first:width[+..] field=first:width ..`: where the fields lie;
//! - `owners ENCODING opcode mnemonic operand .. [| flag ..]`: an opcode;
//! - `owners hwreg|message|format value name`: what the disassembly calls a number.
//!
//! The owners are the processors that have it, separated by commas, or `*` for all of the file. Processors that are alike
//! have one name there: the first of their generation.
//!
//! An operand is `field:class dwords style`, in the text's order, or a bare word for what is implied.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use super::columns::Columns;
use super::{Architecture, Encoding, Family, OpInfo, Target};

/// Fields of instruction words. Register fields first, then modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Vdst,
    Sdst,
    Src0,
    Src1,
    Src2,
    Vsrc1,
    Ssrc0,
    Ssrc1,
    Sbase,
    Sdata,
    Soffset,
    Srsrc,
    Vaddr,
    Vdata,
    Saddr,
    Addr,
    Data0,
    Data1,
    Simm,
    Abs,
    OpSel,
    Clamp,
    Omod,
    Neg,
    NegHi,
    OpSelHi,
    OpSelHi2,
    Cbsz,
    Abid,
    Blgp,
    AccCd,
    Acc,
    Offset,
    Offset0,
    Offset1,
    Gds,
    Lds,
    Glc,
    Slc,
    Dlc,
    Scc,
    Th,
    Scope,
    Offen,
    Idxen,
    Format,
    Tfe,
    Sve,
    Imm,
    SoffsetEn,
    Opy,
    Src0y,
    Vsrc1y,
    Vdsty,
    WaitExp,
}

const FIELDS: &[(&str, Field)] = &[
    ("vdst", Field::Vdst),
    ("sdst", Field::Sdst),
    ("src0", Field::Src0),
    ("src1", Field::Src1),
    ("src2", Field::Src2),
    ("vsrc1", Field::Vsrc1),
    ("ssrc0", Field::Ssrc0),
    ("ssrc1", Field::Ssrc1),
    ("sbase", Field::Sbase),
    ("sdata", Field::Sdata),
    ("soffset", Field::Soffset),
    ("srsrc", Field::Srsrc),
    ("vaddr", Field::Vaddr),
    ("vdata", Field::Vdata),
    ("saddr", Field::Saddr),
    ("addr", Field::Addr),
    ("data0", Field::Data0),
    ("data1", Field::Data1),
    ("simm", Field::Simm),
    ("abs", Field::Abs),
    ("op_sel", Field::OpSel),
    ("clamp", Field::Clamp),
    ("omod", Field::Omod),
    ("neg", Field::Neg),
    ("neg_hi", Field::NegHi),
    ("op_sel_hi", Field::OpSelHi),
    ("op_sel_hi2", Field::OpSelHi2),
    ("cbsz", Field::Cbsz),
    ("abid", Field::Abid),
    ("blgp", Field::Blgp),
    ("acc_cd", Field::AccCd),
    ("acc", Field::Acc),
    ("offset", Field::Offset),
    ("offset0", Field::Offset0),
    ("offset1", Field::Offset1),
    ("gds", Field::Gds),
    ("lds", Field::Lds),
    ("glc", Field::Glc),
    ("slc", Field::Slc),
    ("dlc", Field::Dlc),
    ("scc", Field::Scc),
    ("th", Field::Th),
    ("scope", Field::Scope),
    ("offen", Field::Offen),
    ("idxen", Field::Idxen),
    ("format", Field::Format),
    ("tfe", Field::Tfe),
    ("sve", Field::Sve),
    ("imm", Field::Imm),
    ("soffset_en", Field::SoffsetEn),
    ("opy", Field::Opy),
    ("src0y", Field::Src0y),
    ("vsrc1y", Field::Vsrc1y),
    ("vdsty", Field::Vdsty),
    ("wait_exp", Field::WaitExp),
];

impl Field {
    /// Every field.
    pub fn all() -> impl Iterator<Item = Field> {
        FIELDS.iter().map(|row| row.1)
    }
}

const FIELD_COUNT: usize = Field::WaitExp as usize + 1;

const ENCODINGS: &[(&str, Encoding)] = &[
    ("SOP1", Encoding::SOP1),
    ("SOP2", Encoding::SOP2),
    ("SOPC", Encoding::SOPC),
    ("SOPK", Encoding::SOPK),
    ("SOPP", Encoding::SOPP),
    ("SMEM", Encoding::SMEM),
    ("VOP1", Encoding::VOP1),
    ("VOP2", Encoding::VOP2),
    ("VOPC", Encoding::VOPC),
    ("VOP3", Encoding::VOP3),
    ("VOP3SD", Encoding::VOP3SD),
    ("VOP3P", Encoding::VOP3P),
    ("MAI", Encoding::MAI),
    ("VOPD", Encoding::VOPD),
    ("DS", Encoding::DS),
    ("FLAT", Encoding::FLAT),
    ("GLOBAL", Encoding::GLOBAL),
    ("SCRATCH", Encoding::SCRATCH),
    ("MUBUF", Encoding::MUBUF),
    ("MTBUF", Encoding::MTBUF),
    ("MIMG", Encoding::MIMG),
    ("EXP", Encoding::EXP),
    ("VINTERP", Encoding::VINTERP),
    ("LDSDIR", Encoding::LDSDIR),
];

/// One encoding's bits.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub encoding: Encoding,
    /// Dwords without literal.
    pub words: u8,
    matches: u32,
    mask: u32,
    opcode: Vec<(u8, u8)>,
    fields: [(u8, u8); FIELD_COUNT],
}

fn extract(bits: u128, (first, width): (u8, u8)) -> u32 {
    ((bits >> first) & ((1 << width) - 1)) as u32
}

impl Layout {
    /// Whether the first dword belongs to this encoding.
    pub fn accepts(&self, word: u32) -> bool {
        word & self.mask == self.matches
    }

    /// The opcode; further parts of a split field are its high bits.
    pub fn opcode(&self, bits: u128) -> u16 {
        let mut shift = 0;
        let mut opcode = 0;
        for &part in &self.opcode {
            opcode |= extract(bits, part) << shift;
            shift += part.1;
        }
        opcode as u16
    }

    /// The bits of an instruction that has this opcode and nothing else.
    pub fn set_opcode(&self, mut opcode: u16) -> u128 {
        let mut bits = u128::from(self.matches);
        for &(first, width) in &self.opcode {
            bits |= u128::from(opcode & ((1 << width) - 1)) << first;
            opcode >>= width;
        }
        bits
    }

    /// The bits of a field that holds `value`.
    pub fn put(&self, field: Field, value: u32) -> u128 {
        let (first, width) = self.fields[field as usize];
        (u128::from(value) & ((1 << width) - 1)) << first
    }

    /// The field's width in bits, 0 if the encoding does not have it.
    pub fn width(&self, field: Field) -> u8 {
        self.fields[field as usize].1
    }

    /// A field's value, 0 if the encoding does not have it.
    pub fn get(&self, bits: u128, field: Field) -> u32 {
        extract(bits, self.fields[field as usize])
    }

    /// A field's value as a two's complement number.
    pub fn get_signed(&self, bits: u128, field: Field) -> i32 {
        let shift = 32 - u32::from(self.width(field)).clamp(1, 32);
        ((self.get(bits, field) << shift) as i32) >> shift
    }
}

/// What an operand field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A vector register; an accumulation register when the encoding's ACC bit says so.
    Vector,
    /// An accumulation register always.
    Accumulator,
    /// A scalar register or constant.
    Scalar,
    /// The 9-bit code: any register or constant.
    Any,
    /// The same, whatever the ACC bits say.
    NotAccumulator,
}

/// How the text shows constants, which follows from the operand's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    /// 32-bit operands.
    #[default]
    Word,
    /// 64-bit floats.
    Double,
    /// 64-bit integers.
    Quad,
    /// 16-bit floats.
    Half,
    /// 16-bit integers.
    Short,
    /// Pairs of f16.
    HalfPair,
    /// Pairs of bf16.
    BfloatPair,
    /// bf16.
    Bfloat,
}

/// How the text shows a 16-bit immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImmediateStyle {
    Hex,
    /// Decimal where it would fit an inline constant, hex elsewhere.
    Mixed,
    /// Unsigned decimal.
    Branch,
    /// `s_endpgm`: nothing for zero.
    DecimalOrNone,
    HwReg,
    SendMessage,
    WaitCount,
    DelayAlu,
    DependencyCounters,
    GprIndexMode,
    /// `s_version`.
    Version,
}

/// One operand of an opcode, in the text's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Register {
        field: Field,
        class: Class,
        dwords: u8,
        style: Style,
    },
    Immediate {
        field: Field,
        style: ImmediateStyle,
    },
    /// The literal that the opcode always has.
    Literal,
    Vcc,
    Exec,
    M0,
    /// Present in the text, without a field of its own: memory formats, which are decoded by their form.
    Other,
}

/// The suffix that tells the encodings of one operation apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suffix {
    None,
    E32,
    E64,
}

/// How `op_sel_hi` is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OpSelHi {
    /// Without meaning.
    #[default]
    Unused,
    /// Packed math: ones are the default.
    Packed,
    /// Mixed precision: zeros are the default.
    Mix,
}

/// Modifiers that an opcode has.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags {
    /// Number of bits in the text's `op_sel`, 0 for none.
    pub op_sel: u8,
    pub op_sel_hi: OpSelHi,
    /// GFX12: the bits of `op_sel` that choose a byte, low and high.
    pub byte_sel: Option<(u8, u8)>,
    /// GFX12's sparse matrix operations: the bits of `op_sel` that choose part of the index register.
    pub index_key: u8,
    /// GFX11 and later: the operands that are half a register, a bit for each source in the text's order, bit 3 for
    /// the destination. In the short formats the register's bit 7 chooses the half, in the long ones `op_sel`.
    pub halves: u8,
    /// LLVM names the halves of these (`v1.l`) even where it does not of others.
    pub named_halves: bool,
    /// VOP3P: number of bits in `neg_lo`. VOP3: mask of the sources that can be negated.
    pub neg: u8,
    /// VOP3: mask of the sources that have an absolute value.
    pub abs: u8,
    /// Number of bits in `neg_hi`.
    pub neg_hi: u8,
    /// MFMA has these.
    pub cbsz: bool,
    pub abid: bool,
    pub blgp: bool,
    /// DS: two 8-bit offsets.
    pub two_offsets: bool,
    /// DS: only in global data share.
    pub gds: bool,
    /// DS: the offset has no meaning.
    pub no_offset: bool,
    /// Width of the value that an atomic returns, 0 if it cannot.
    pub returns: u8,
}

/// One opcode of one encoding.
#[derive(Debug)]
pub(super) struct Entry {
    pub op: &'static OpInfo,
    pub suffix: Suffix,
    pub operands: Vec<Spec>,
    pub flags: Flags,
}

impl Entry {
    /// Dwords of the operand in `field`, 0 if the opcode does not have it.
    pub fn dwords(&self, field: Field) -> u8 {
        self.operands
            .iter()
            .find_map(|spec| match spec {
                Spec::Register {
                    field: f, dwords, ..
                } if *f == field => Some(*dwords),
                _ => None,
            })
            .unwrap_or(0)
    }
}

/// Everything known of one target's instructions.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub layouts: Vec<Layout>,
    opcodes: HashMap<(usize, u16), Entry>,
    by_operation: HashMap<(Encoding, u16), (usize, u16)>,
    dual: [HashMap<u16, Entry>; 2],
    pub hardware_registers: HashMap<u16, &'static str>,
    pub messages: HashMap<u16, &'static str>,
    pub formats: HashMap<u16, &'static str>,
}

impl Table {
    /// The table of a target.
    pub fn of(target: Target) -> &'static Table {
        static GFX9: LazyLock<FamilyTables> =
            LazyLock::new(|| FamilyTables::read(include_str!("tables/gfx9.txt")));
        static RDNA2: LazyLock<FamilyTables> =
            LazyLock::new(|| FamilyTables::read(include_str!("tables/rdna2.txt")));
        static RDNA3: LazyLock<FamilyTables> =
            LazyLock::new(|| FamilyTables::read(include_str!("tables/rdna3.txt")));
        static RDNA4: LazyLock<FamilyTables> =
            LazyLock::new(|| FamilyTables::read(include_str!("tables/rdna4.txt")));
        let family: &'static FamilyTables = match target.family() {
            Family::Cdna => &GFX9,
            Family::Rdna2 => &RDNA2,
            Family::Rdna3 => &RDNA3,
            Family::Rdna4 => &RDNA4,
        };
        family.table(target.architecture())
    }

    /// The opcode's entry in a layout of this table.
    pub fn entry(&self, layout: usize, opcode: u16) -> Option<&Entry> {
        self.opcodes.get(&(layout, opcode))
    }

    /// A half of a dual-issue instruction: 0 for X, 1 for Y.
    pub fn dual(&self, half: usize, opcode: u16) -> Option<&Entry> {
        self.dual[half].get(&opcode)
    }

    /// The dual-issue entry of a decoded operation.
    pub fn find_dual(&self, op: &OpInfo) -> Option<&Entry> {
        let mut entries = self.dual.iter().flat_map(HashMap::values);
        entries.find(|entry| entry.op.index == op.index)
    }

    /// The entry of a decoded operation.
    pub fn find(&self, encoding: Encoding, op: &OpInfo) -> Option<&Entry> {
        self.opcodes
            .get(self.by_operation.get(&(encoding, op.index))?)
    }

    /// Every layout with its opcodes, in ascending order.
    pub fn opcodes(&self, layout: usize) -> Vec<u16> {
        let mut opcodes: Vec<u16> = self
            .opcodes
            .keys()
            .filter(|key| key.0 == layout)
            .map(|key| key.1)
            .collect();
        opcodes.sort_unstable();
        opcodes
    }

    /// The opcodes of the X or Y half of dual issue, in ascending order.
    pub fn dual_opcodes(&self, half: usize) -> Vec<u16> {
        let mut opcodes: Vec<u16> = self.dual[half].keys().copied().collect();
        opcodes.sort_unstable();
        opcodes
    }
}

/// The processor that the tables name for all of an architecture.
fn owner(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Vega20 => "gfx906",
        Architecture::Cdna1 => "gfx908",
        Architecture::Cdna2 => "gfx90a",
        Architecture::Cdna3 => "gfx942",
        Architecture::Cdna4 => "gfx950",
        Architecture::Rdna2 => "gfx1030",
        Architecture::Rdna3 => "gfx1100",
        Architecture::Rdna3_5 => "gfx1150",
        Architecture::Rdna4 => "gfx1201",
    }
}

/// A line of a file: the line, its owners, its words.
type Row = (&'static str, &'static str, Vec<&'static str>);

/// The processors of a file. Their operations have the same indices; a table is made when it is first asked for.
struct FamilyTables {
    rows: Vec<Row>,
    operations: HashMap<&'static str, &'static OpInfo>,
    tables: [OnceLock<Table>; Architecture::ALL.len()],
}

/// The tables ship with the crate, so a line that does not parse is a defect of the crate, and every test finds it.
fn malformed(line: &str) -> ! {
    panic!("instruction table line {line:?} does not parse; regenerate src/isa/tables")
}

fn parse<T>(value: Option<T>, line: &str) -> T {
    value.unwrap_or_else(|| malformed(line))
}

fn named<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    list.iter().find(|row| row.0 == name).map(|row| row.1)
}

fn bit_range(text: &str) -> Option<(u8, u8)> {
    let (first, width) = text.split_once(':')?;
    Some((first.parse().ok()?, width.parse().ok()?))
}

fn parse_layout(words: &[&str]) -> Option<Layout> {
    let mut words = words.iter();
    let mut layout = Layout {
        encoding: named(ENCODINGS, words.next()?)?,
        words: words.next()?.parse().ok()?,
        matches: u32::from_str_radix(words.next()?, 16).ok()?,
        mask: u32::from_str_radix(words.next()?, 16).ok()?,
        opcode: words
            .next()?
            .strip_prefix("op=")?
            .split('+')
            .map(bit_range)
            .collect::<Option<_>>()?,
        fields: [(0, 0); FIELD_COUNT],
    };
    for word in words {
        let (name, range) = word.split_once('=')?;
        layout.fields[named(FIELDS, name)? as usize] = bit_range(range)?;
    }
    Some(layout)
}

fn parse_spec(word: &str) -> Option<Spec> {
    let Some((field, kind)) = word.split_once(':') else {
        return Some(match word {
            "literal" => Spec::Literal,
            "vcc" => Spec::Vcc,
            "exec" => Spec::Exec,
            "m0" => Spec::M0,
            "off" | "simm" => Spec::Other,
            _ => return None,
        });
    };
    let field = named(FIELDS, field)?;
    let immediate = [
        ("hex", ImmediateStyle::Hex),
        ("mixed", ImmediateStyle::Mixed),
        ("branch", ImmediateStyle::Branch),
        ("decimal_or_none", ImmediateStyle::DecimalOrNone),
        ("hwreg", ImmediateStyle::HwReg),
        ("sendmsg", ImmediateStyle::SendMessage),
        ("message", ImmediateStyle::SendMessage),
        ("waitcnt", ImmediateStyle::WaitCount),
        ("delay_alu", ImmediateStyle::DelayAlu),
        ("depctr", ImmediateStyle::DependencyCounters),
        ("gpr_idx", ImmediateStyle::GprIndexMode),
        ("version", ImmediateStyle::Version),
    ];
    if let Some(style) = named(&immediate, kind) {
        return Some(Spec::Immediate { field, style });
    }
    let class = match kind.get(..1)? {
        "v" => Class::Vector,
        "A" => Class::Accumulator,
        "s" => Class::Scalar,
        "x" => Class::Any,
        "n" => Class::NotAccumulator,
        _ => return None,
    };
    let digits = kind[1..].trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let style = match &kind[1 + digits.len()..] {
        "" | "f" => Style::Word,
        "d" => Style::Double,
        "q" => Style::Quad,
        "g" => Style::HalfPair,
        "b" => Style::BfloatPair,
        "c" => Style::Bfloat,
        "h" => Style::Half,
        "w" => Style::Short,
        _ => return None,
    };
    Some(Spec::Register {
        field,
        class,
        dwords: digits.parse().ok()?,
        style,
    })
}

fn parse_flags(words: &[&str]) -> Option<Flags> {
    let mut flags = Flags::default();
    for word in words {
        match *word {
            "byte_sel0" => flags.byte_sel = Some((0, 1)),
            "byte_sel0r" => flags.byte_sel = Some((1, 0)),
            "byte_sel2" => flags.byte_sel = Some((2, 3)),
            _ => {}
        }
        let (name, count) =
            word.split_at(word.trim_end_matches(|c: char| c.is_ascii_digit()).len());
        let count = count.parse().unwrap_or(0);
        match name {
            "op_sel" => flags.op_sel = count,
            "packed" => flags.op_sel_hi = OpSelHi::Packed,
            "mix" => flags.op_sel_hi = OpSelHi::Mix,
            "neg" => flags.neg = count,
            "abs" => flags.abs = count,
            "neg_hi" => flags.neg_hi = count,
            "cbsz" => flags.cbsz = true,
            "abid" => flags.abid = true,
            "blgp" => flags.blgp = true,
            "two" => flags.two_offsets = true,
            "returns" => flags.returns = count,
            "byte_sel" | "byte_sel0r" => {}
            "index_key" => flags.index_key = count,
            "half" => flags.halves = count,
            "true" if count == 16 => flags.named_halves = true,
            "gds" => flags.gds = true,
            "no_offset" => flags.no_offset = true,
            _ => return None,
        }
    }
    Some(flags)
}

impl FamilyTables {
    fn read(text: &'static str) -> FamilyTables {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows: Vec<Row> = lines
            .map(|line| {
                let mut words = line.split_ascii_whitespace();
                let owners = parse(words.next(), line);
                (line, owners, words.collect())
            })
            .collect();
        let mut operations: HashMap<&'static str, &'static OpInfo> = HashMap::new();
        for (line, _, words) in &rows {
            if named(ENCODINGS, words[0]).is_some() || words[0].starts_with("VOPD") {
                let (name, _) = suffixed(parse(words.get(2).copied(), line));
                let index = operations.len() as u16;
                // Lives as long as the table, which is never dropped.
                operations.entry(name).or_insert_with(|| {
                    let columns = Columns::of(name);
                    Box::leak(Box::new(OpInfo {
                        name,
                        index,
                        columns,
                    }))
                });
            }
        }
        FamilyTables {
            rows,
            operations,
            tables: Default::default(),
        }
    }

    fn table(&self, architecture: Architecture) -> &Table {
        self.tables[architecture as usize].get_or_init(|| self.build(owner(architecture)))
    }

    fn build(&self, owner: &str) -> Table {
        let owned = |owners: &str| owners == "*" || owners.split(',').any(|name| name == owner);
        let mut table = Table::default();
        for (line, _, words) in self.rows.iter().filter(|row| owned(row.1)) {
            parse(table.add(words, &self.operations), line);
        }
        table
    }
}

/// A mnemonic without the suffix of its encoding, and that.
fn suffixed(name: &'static str) -> (&'static str, Suffix) {
    match name.rsplit_once('_') {
        Some((name, "e32")) => (name, Suffix::E32),
        Some((name, "e64")) => (name, Suffix::E64),
        _ => (name, Suffix::None),
    }
}

impl Table {
    fn add(
        &mut self,
        words: &[&'static str],
        operations: &HashMap<&'static str, &'static OpInfo>,
    ) -> Option<()> {
        if let ["encoding", layout @ ..] = words {
            self.layouts.push(parse_layout(layout)?);
            return Some(());
        }
        let [kind, number, name, operands @ ..] = words else {
            return None;
        };
        let number = u16::from_str_radix(number, 16).ok()?;
        let names = match *kind {
            "hwreg" => Some(&mut self.hardware_registers),
            "message" => Some(&mut self.messages),
            "format" => Some(&mut self.formats),
            _ => None,
        };
        if let Some(names) = names {
            names.insert(number, name);
            return Some(());
        }
        let (operands, flags) = match operands.iter().position(|word| *word == "|") {
            Some(bar) => (&operands[..bar], &operands[bar + 1..]),
            None => (operands, &[][..]),
        };
        let (name, suffix) = suffixed(name);
        let entry = Entry {
            op: operations.get(name)?,
            suffix,
            operands: operands
                .iter()
                .map(|word| parse_spec(word))
                .collect::<Option<_>>()?,
            flags: parse_flags(flags)?,
        };
        let half = match *kind {
            "VOPDX" => Some(0),
            "VOPDY" => Some(1),
            _ => None,
        };
        if let Some(half) = half {
            self.dual[half].insert(number, entry);
            return Some(());
        }
        let encoding = named(ENCODINGS, kind)?;
        let layout = self
            .layouts
            .iter()
            .position(|layout| layout.encoding == encoding)?;
        self.by_operation
            .entry((encoding, entry.op.index))
            .or_insert((layout, number));
        self.opcodes.insert((layout, number), entry);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::columns::idle;
    use super::*;

    #[test]
    fn every_line_of_operations_is_about_an_instruction() {
        // Known to later releases of LLVM alone.
        const LATER: [&str; 1] = ["ds_bpermute_fi_b32"];
        let tables = Target::all().map(Table::of);
        let entries = tables.flat_map(|table| {
            let dual = table.dual.iter().flat_map(HashMap::values);
            table.opcodes.values().chain(dual)
        });
        let names: BTreeSet<&str> = entries.map(|entry| entry.op.name).collect();
        assert_eq!(idle(names.iter().copied()), LATER);
    }

    #[test]
    fn an_operation_has_one_opcode_in_an_encoding() {
        for target in Target::all() {
            let table = Table::of(target);
            for (key, entry) in &table.opcodes {
                let encoding = table.layouts[key.0].encoding;
                let found = table.by_operation.get(&(encoding, entry.op.index));
                assert_eq!(found, Some(key), "{target} {encoding:?} {}", entry.op.name);
            }
        }
    }

    #[test]
    fn operations_of_a_family_share_their_indices() {
        let indices = |target| {
            let table = Table::of(target);
            let entries = table.opcodes.values();
            entries
                .map(|entry| (entry.op.name, entry.op.index))
                .collect::<HashMap<_, _>>()
        };
        for (one, other) in [
            (Target::Gfx90a, Target::Gfx942),
            (Target::Gfx906, Target::Gfx950),
            (Target::Gfx1100, Target::Gfx1151),
        ] {
            let older = indices(one);
            for (name, index) in indices(other) {
                assert_eq!(*older.get(name).unwrap_or(&index), index, "{name}");
            }
        }
    }
}
