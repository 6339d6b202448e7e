//! The table's language: cases, registers and values. `semantics/README.md` describes it for readers.

use rocm_emulator::isa::{Architecture, Family, Target};

/// One line of a table.
#[derive(Clone, Debug)]
pub struct Case {
    pub file: &'static str,
    pub line: usize,
    families: Vec<String>,
    /// Assembly text, one instruction each.
    instructions: Vec<String>,
    pub inputs: Vec<Assignment>,
    pub outputs: Vec<Assignment>,
}

/// `place=value`.
#[derive(Clone, Debug)]
pub struct Assignment {
    pub place: Place,
    pub value: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// First register and how many.
    Sgpr(usize, usize),
    /// The registers of a lane mask: one in wave32, two in wave64.
    Mask(usize),
    Vgpr {
        first: usize,
        count: usize,
        lane: Option<usize>,
        /// Only the low 16 bits are meant.
        low: bool,
    },
    Vcc,
    Exec,
    M0,
    Scc,
    /// Byte offsets.
    Lds(usize),
    Memory(usize),
}

/// Why a line of a table cannot be read.
pub type Problem = String;

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

fn decimal(text: &str) -> Result<usize, Problem> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a decimal number"))
}

/// `2` or `[2:3]`: first and count.
fn range(text: &str) -> Result<(usize, usize), Problem> {
    let Some(inner) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    else {
        return Ok((decimal(text)?, 1));
    };
    let (first, last) = inner
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is no range"))?;
    let (first, last) = (decimal(first)?, decimal(last)?);
    if last < first {
        return Err(format!("{text:?} runs backwards"));
    }
    Ok((first, last - first + 1))
}

impl Place {
    fn parse(text: &str) -> Result<Place, Problem> {
        let offset = |text: &str| -> Result<usize, Problem> {
            let inner = text.trim_start_matches('[').trim_end_matches(']');
            let bytes = usize::from_str_radix(inner, 16).map_err(|_| format!("offset {text:?}"))?;
            if bytes % 4 != 0 || bytes >= 256 {
                return Err(format!("offset {text:?} is no dword of the 256 bytes"));
            }
            Ok(bytes)
        };
        Ok(match text {
            "vcc" => Place::Vcc,
            "exec" => Place::Exec,
            "m0" => Place::M0,
            "scc" => Place::Scc,
            _ => {
                if let Some(rest) = text.strip_prefix("mask") {
                    Place::Mask(decimal(rest)?)
                } else if let Some(rest) = text.strip_prefix("lds") {
                    Place::Lds(offset(rest)?)
                } else if let Some(rest) = text.strip_prefix("mem") {
                    Place::Memory(offset(rest)?)
                } else if let Some(rest) = text.strip_prefix('s') {
                    let (first, count) = range(rest)?;
                    Place::Sgpr(first, count)
                } else if let Some(rest) = text.strip_prefix('v') {
                    let (rest, lane) = match rest.split_once('@') {
                        Some((rest, lane)) => (rest, Some(decimal(lane)?)),
                        None => (rest, None),
                    };
                    let (rest, low) = match rest.strip_suffix(".l") {
                        Some(rest) => (rest, true),
                        None => (rest, false),
                    };
                    let (first, count) = range(rest)?;
                    Place::Vgpr {
                        first,
                        count,
                        lane,
                        low,
                    }
                } else {
                    return Err(format!("{text:?} is no place"));
                }
            }
        })
    }
}

/// Read a table.
pub fn parse(file: &'static str, text: &str) -> Result<Vec<Case>, Problem> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or("").trim();
        if content.is_empty() {
            continue;
        }
        let case = parse_line(file, index + 1, content, cases.last())
            .map_err(|problem| format!("{file}:{}: {problem}", index + 1))?;
        cases.push(case);
    }
    Ok(cases)
}

fn parse_line(
    file: &'static str,
    line: usize,
    content: &str,
    before: Option<&Case>,
) -> Result<Case, Problem> {
    // A bar alone: those of `|v0|` belong to an operand.
    let words_of: Vec<&str> = words(content).collect();
    let columns: Vec<String> = words_of
        .split(|word| *word == "|")
        .map(|words| words.join(" "))
        .collect();
    let [instructions, inputs, outputs] = &columns[..] else {
        return Err("not three columns".into());
    };
    let assignments = |text: &str| -> Result<Vec<Assignment>, Problem> {
        let mut all = Vec::new();
        for word in words(text) {
            let (place, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word:?} is no assignment"))?;
            if let Some(register) = place.strip_suffix('@') {
                for (lane, value) in value.split(';').enumerate() {
                    let place = Place::parse(&format!("{register}@{lane}"))?;
                    let value = value.into();
                    all.push(Assignment { place, value });
                }
            } else {
                all.push(Assignment {
                    place: Place::parse(place)?,
                    value: value.into(),
                });
            }
        }
        Ok(all)
    };
    let (families, instructions) = if instructions == "\"" {
        let before = before.ok_or("nothing to repeat")?;
        (before.families.clone(), before.instructions.clone())
    } else {
        let (families, text) = match instructions.split_once(": ") {
            Some((families, text)) if families.starts_with("gfx") => (families, text),
            _ => ("", instructions.as_str()),
        };
        let families: Vec<String> = families
            .split(',')
            .filter(|family| !family.is_empty())
            .map(String::from)
            .collect();
        for family in &families {
            if !FAMILIES.contains(&family.as_str()) {
                return Err(format!("family {family:?}"));
            }
        }
        let lines = text.split(';').map(|line| line.trim().into()).collect();
        (families, lines)
    };
    Ok(Case {
        file,
        line,
        families,
        instructions,
        inputs: assignments(inputs)?,
        outputs: assignments(outputs)?,
    })
}

const FAMILIES: [&str; 13] = [
    "gfx9", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx10", "gfx11", "gfx12", "gfx90a+",
    "gfx942+", "gfx10+", "gfx11+", "gfx11.5+",
];

/// Whether a family's name in a table includes the target.
fn includes(family: &str, target: Target) -> bool {
    let generation = match target.family() {
        Family::Cdna => 9,
        Family::Rdna2 => 10,
        Family::Rdna3 => 11,
        Family::Rdna4 => 12,
    };
    let since = |first| {
        let mut from = Architecture::ALL.into_iter().skip_while(|it| *it != first);
        from.any(|it| it == target.architecture())
    };
    match family {
        "gfx90a+" => since(Architecture::Cdna2),
        "gfx942+" => since(Architecture::Cdna3),
        "gfx10+" => since(Architecture::Rdna2),
        "gfx11+" => since(Architecture::Rdna3),
        "gfx11.5+" => since(Architecture::Rdna3_5),
        "gfx9" => generation == 9,
        "gfx10" => generation == 10,
        "gfx11" => generation == 11,
        "gfx12" => generation == 12,
        _ => family == target.name(),
    }
}

/// Renamed mnemonics: the name in the tables, where another holds, and that one.
pub struct Names(Vec<(String, String, String)>);

impl Names {
    pub fn parse(text: &str) -> Names {
        let rows = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or(""))
            .filter(|line| !line.trim().is_empty())
            .map(|line| {
                let columns: Vec<&str> = words(line).collect();
                let [name, families, other] = columns[..] else {
                    panic!("names.txt: {line:?} is not three words");
                };
                (name.into(), families.into(), other.into())
            })
            .collect();
        Names(rows)
    }

    /// The mnemonic as the target knows it. Later rows of a name are for later families.
    fn on<'a>(&'a self, target: Target, mnemonic: &'a str) -> &'a str {
        let row = self.0.iter().rev().find(|(name, families, _)| {
            name == mnemonic && families.split(',').any(|family| includes(family, target))
        });
        row.map_or(mnemonic, |row| &row.2)
    }
}

impl Case {
    pub fn applies(&self, target: Target) -> bool {
        self.families.is_empty() || self.families.iter().any(|family| includes(family, target))
    }

    /// The instructions as the target spells them.
    pub fn text(&self, target: Target, names: &Names) -> Vec<String> {
        self.instructions
            .iter()
            .map(|line| spell(line, target, names))
            .collect()
    }

    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

fn spell(line: &str, target: Target, names: &Names) -> String {
    let wave32 = target.wavefront_size() == 32;
    let (mnemonic, operands) = line.split_once(' ').unwrap_or((line, ""));
    let (base, suffix) = ["_e32", "_e64", "_dpp", "_sdwa"]
        .iter()
        .find_map(|suffix| Some((mnemonic.strip_suffix(suffix)?, *suffix)))
        .unwrap_or((mnemonic, ""));
    let mut text = format!("{}{suffix} ", names.on(target, base));
    for part in operands.split_inclusive([' ', ',']) {
        let word = part.trim_end_matches([' ', ',']);
        let end = &part[word.len()..];
        let spelled = match word {
            "vcc" if wave32 && mnemonic.starts_with("v_") => "vcc_lo".into(),
            "exec" if wave32 && mnemonic.starts_with("v_") => "exec_lo".into(),
            // An atomic gives the value before.
            "returning" => match target {
                Target::Gfx942 => "sc0".into(),
                _ if target.family() == Family::Rdna4 => "th:TH_ATOMIC_RETURN".into(),
                _ => "glc".into(),
            },
            _ => match word.strip_prefix("mask") {
                Some(first) if wave32 => format!("s{first}"),
                Some(first) => {
                    let first: usize = first.parse().unwrap_or(0);
                    format!("s[{first}:{}]", first + 1)
                }
                None => word.to_string(),
            },
        };
        text += &spelled;
        text += end;
    }
    text
}

/// A value as bits, and how a result is compared with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Exactly(u64),
    /// Any NaN of a width.
    Nan(Width),
    /// Within the error that the manuals allow.
    About(Width, u64),
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    F16,
    F32,
    F64,
}

/// What values may refer to.
#[derive(Clone, Copy)]
pub struct Surroundings {
    pub lane: usize,
    pub lane_mask: u64,
    pub memory: u64,
}

impl Value {
    /// One element of a place's list of values.
    pub fn parse(text: &str, around: Surroundings) -> Result<Value, Problem> {
        let lane = around.lane as u64;
        let hexadecimal = |text: &str| {
            u64::from_str_radix(text, 16).map_err(|_| format!("{text:?} is no hexadecimal number"))
        };
        if text == "any" {
            return Ok(Value::Any);
        }
        if text == "all" {
            return Ok(Value::Exactly(around.lane_mask));
        }
        if let Some(offset) = text.strip_prefix('&') {
            let offset = match offset.strip_prefix('-') {
                Some(offset) => hexadecimal(offset)?.wrapping_neg(),
                None => hexadecimal(offset)?,
            };
            return Ok(Value::Exactly(around.memory.wrapping_add(offset)));
        }
        if let Some(rest) = text.strip_prefix("lane") {
            let bits = match (rest.strip_prefix('*'), rest.strip_prefix('+')) {
                (Some(factor), _) => lane * hexadecimal(factor)?,
                (_, Some(addend)) => lane + hexadecimal(addend)?,
                _ if rest.is_empty() => lane,
                _ => return Err(format!("{text:?} is no expression")),
            };
            return Ok(Value::Exactly(bits));
        }
        if text.contains('.') {
            return float(text);
        }
        let bits = match text.strip_prefix('-') {
            Some(rest) => hexadecimal(rest)?.wrapping_neg(),
            None => hexadecimal(text)?,
        };
        Ok(Value::Exactly(bits))
    }

    /// The bits to start with.
    pub fn bits(self) -> u64 {
        match self {
            Value::Exactly(bits) | Value::About(_, bits) => bits,
            Value::Nan(Width::F16) => 0x7e00,
            Value::Nan(Width::F32) => 0x7fc0_0000,
            Value::Nan(Width::F64) => 0x7ff8 << 48,
            Value::Any => 0,
        }
    }

    /// Whether a result of `bits` bits is this value.
    pub fn admits(self, got: u64, bits: u32) -> bool {
        let mask = u64::MAX >> (64 - bits);
        match self {
            Value::Any => true,
            Value::Exactly(want) => got == want & mask,
            Value::Nan(width) => {
                let (infinity, magnitude) = width.magnitude(got);
                magnitude > infinity
            }
            Value::About(width, want) => {
                let (_, magnitude) = width.magnitude(got);
                let (_, wanted) = width.magnitude(want);
                got & !width.magnitude_mask() == want & !width.magnitude_mask()
                    && magnitude.abs_diff(wanted) <= width.tolerance()
            }
        }
    }
}

impl Width {
    fn magnitude_mask(self) -> u64 {
        match self {
            Width::F16 => 0x7fff,
            Width::F32 => 0x7fff_ffff,
            Width::F64 => i64::MAX as u64,
        }
    }

    /// The bits of infinity, and the value's without its sign.
    fn magnitude(self, bits: u64) -> (u64, u64) {
        let infinity = match self {
            Width::F16 => 0x7c00,
            Width::F32 => 0x7f80_0000,
            Width::F64 => 0x7ff << 52,
        };
        (infinity, bits & self.magnitude_mask())
    }

    /// Units in the last place by which the transcendental instructions may be off.
    fn tolerance(self) -> u64 {
        match self {
            Width::F16 | Width::F32 => 1,
            Width::F64 => 1 << 29,
        }
    }
}

/// `1.5f`, `-0.0d`, `inf.h`, `nan.f`, `~0.3333333f`.
fn float(text: &str) -> Result<Value, Problem> {
    let (about, text) = match text.strip_prefix('~') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let problem = || format!("{text:?} is no number");
    let width = match text.chars().last() {
        Some('h') => Width::F16,
        Some('f') => Width::F32,
        Some('d') => Width::F64,
        _ => return Err(format!("{text:?} does not end in its width: h, f or d")),
    };
    let number = text[..text.len() - 1].trim_end_matches('.');
    if number == "nan" {
        return Ok(Value::Nan(width));
    }
    let bits = match width {
        Width::F16 => {
            let value: f64 = number.parse().map_err(|_| problem())?;
            half::f16::from_f64(value).to_bits().into()
        }
        Width::F32 => {
            let value: f32 = number.parse().map_err(|_| problem())?;
            value.to_bits().into()
        }
        Width::F64 => {
            let value: f64 = number.parse().map_err(|_| problem())?;
            value.to_bits()
        }
    };
    Ok(if about {
        Value::About(width, bits)
    } else {
        Value::Exactly(bits)
    })
}
