//! PTX as text in its parts: scopes, declarations of registers, instructions and their operands.

/// A piece of PTX.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `{`
    Open,
    /// `}`
    Close,
    /// `.reg`: the type, and the names.
    Registers(String, Vec<String>),
    /// Anything else that ends with a semicolon.
    Instruction(Instruction),
}

/// An instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// As it was written.
    pub text: String,
    /// The register of a predicate, and whether it must be false.
    pub guard: Option<(String, bool)>,
    /// The opcode's parts, which dots separate.
    pub opcode: Vec<String>,
    /// In order, results first.
    pub operands: Vec<Operand>,
}

/// What an instruction works on.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register: `%0` is `0`, `%[name]` is `[name]`, others are by their names.
    Register(String),
    /// A predicate that is turned over.
    Not(String),
    /// Two results: `d|p`.
    Both(Box<Operand>, Box<Operand>),
    /// Registers in braces.
    Many(Vec<Operand>),
    /// Memory: a base and a number of bytes.
    Address(Box<Operand>, i64),
    /// A whole number.
    Integer(i128),
    /// The bits of an f32.
    F32(u32),
    /// The bits of an f64.
    F64(u64),
    /// A special register, such as `laneid` and `tid.x`.
    Special(String),
    /// `_`: a result that nobody wants.
    Nothing,
}

/// The pieces of a template, in order.
///
/// # Errors
/// The piece that could not be read, and why.
pub fn parse(template: &str) -> Result<Vec<Item>, (String, String)> {
    let text = without_comments(template);
    let mut rest = text.trim_start();
    let mut items = Vec::new();
    while let Some(c) = rest.chars().next() {
        let mut taken = 1;
        match c {
            '{' => items.push(Item::Open),
            '}' => items.push(Item::Close),
            ';' => {}
            _ => {
                let end = rest.find(';').unwrap_or(rest.len());
                let piece = rest[..end].trim();
                let one_line = piece.split_whitespace().collect::<Vec<_>>().join(" ");
                items.push(item(piece).map_err(|reason| (one_line, reason))?);
                taken = end;
            }
        }
        rest = rest[taken..].trim_start();
    }
    Ok(items)
}

fn without_comments(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('/') {
        text += &rest[..at];
        let tail = &rest[at..];
        let skipped = if tail.starts_with("//") {
            tail.find('\n').unwrap_or(tail.len())
        } else if tail.starts_with("/*") {
            tail.find("*/").map_or(tail.len(), |end| end + 2)
        } else {
            text.push('/');
            1
        };
        rest = &tail[skipped..];
    }
    text + rest
}

fn item(piece: &str) -> Result<Item, String> {
    if let Some(declared) = piece.strip_prefix(".reg") {
        let mut words = declared.trim().splitn(2, char::is_whitespace);
        let (Some(kind), Some(names)) = (words.next(), words.next()) else {
            return Err("a declaration without names".to_owned());
        };
        let kind = kind
            .strip_prefix('.')
            .ok_or("a declaration without a type")?;
        let mut all = Vec::new();
        for name in names.split(',').map(str::trim) {
            match name.split_once('<') {
                Some((stem, count)) => {
                    let count = count.trim_end_matches('>').trim().parse::<usize>();
                    let count = count.map_err(|error| format!("registers {name}: {error}"))?;
                    all.extend((0..count).map(|index| register(&format!("{stem}{index}"))));
                }
                None => all.push(register(name)),
            }
        }
        return Ok(Item::Registers(kind.to_owned(), all));
    }
    if piece.ends_with(':') || piece.starts_with('.') || piece.starts_with('$') {
        return Err("labels, branches and directives are not translated".to_owned());
    }
    let (guard, rest) = match piece.strip_prefix('@') {
        Some(guarded) => {
            let (guard, rest) = guarded
                .split_once(char::is_whitespace)
                .ok_or("a predicate without an instruction")?;
            let turned = guard.starts_with('!');
            let name = register(guard.trim_start_matches('!').trim());
            (Some((name, turned)), rest.trim_start())
        }
        None => (None, piece),
    };
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let operands: Result<_, String> = split(operands)
        .into_iter()
        .map(|text| operand(text.trim()))
        .collect();
    Ok(Item::Instruction(Instruction {
        text: piece.split_whitespace().collect::<Vec<_>>().join(" "),
        guard,
        opcode: opcode.split('.').map(str::to_owned).collect(),
        operands: operands?,
    }))
}

/// Split at commas outside of braces and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut begin) = (0usize, 0);
    let mut parts = Vec::new();
    if text.trim().is_empty() {
        return parts;
    }
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// A register's name, without the sign that numbers and declared ones may have.
fn register(name: &str) -> String {
    // `%%r` is how a template writes `%r`.
    name.trim_start_matches('%').to_owned()
}

fn operand(text: &str) -> Result<Operand, String> {
    if let Some(inner) = text
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        let parts: Result<_, String> = split(inner)
            .into_iter()
            .map(|part| operand(part.trim()))
            .collect();
        return Ok(Operand::Many(parts?));
    }
    if let Some(inner) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let inner = inner.trim();
        // `%[name]` has a bracket of its own, and `r1+-4` two signs.
        let (base, offset) = match inner.find(['+', '-']) {
            Some(at) if at > 0 => (&inner[..at], inner[at..].trim_start_matches('+').trim()),
            _ => (inner, "0"),
        };
        let Operand::Integer(offset) = operand(offset)? else {
            return Err(format!(
                "the address [{inner}] is not a register and a number"
            ));
        };
        return Ok(Operand::Address(
            Box::new(operand(base.trim())?),
            offset as i64,
        ));
    }
    if let Some((first, second)) = text.split_once('|') {
        let (first, second) = (operand(first.trim())?, operand(second.trim())?);
        return Ok(Operand::Both(Box::new(first), Box::new(second)));
    }
    if text == "_" {
        return Ok(Operand::Nothing);
    }
    if text == "WARP_SZ" {
        return Ok(Operand::Integer(32));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Ok(Operand::Not(register(name.trim())));
    }
    if let Some(number) = number(text)? {
        return Ok(number);
    }
    let name = register(text);
    let is_name = |c: char| c.is_alphanumeric() || "_.$[]".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(format!("the operand `{text}` is not known"));
    }
    if text.starts_with("%%") || text.starts_with('%') && name.contains('.') {
        // A special register, unless one of this name is declared.
        return Ok(Operand::Special(name));
    }
    Ok(Operand::Register(name))
}

fn number(text: &str) -> Result<Option<Operand>, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim()),
        None => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let wrong = |error: std::num::ParseIntError| format!("the number `{text}`: {error}");
    let lower = digits.to_ascii_lowercase();
    if let Some(bits) = lower.strip_prefix("0f") {
        let sign = u32::from(negative) << 31;
        let bits = u32::from_str_radix(bits, 16).map_err(wrong)? ^ sign;
        return Ok(Some(Operand::F32(bits)));
    }
    if let Some(bits) = lower.strip_prefix("0d") {
        let sign = u64::from(negative) << 63;
        let bits = u64::from_str_radix(bits, 16).map_err(wrong)? ^ sign;
        return Ok(Some(Operand::F64(bits)));
    }
    let sign = if negative { -1 } else { 1 };
    if let Some(hexadecimal) = lower.strip_prefix("0x") {
        let value = i128::from_str_radix(hexadecimal.trim_end_matches('u'), 16).map_err(wrong)?;
        return Ok(Some(Operand::Integer(sign * value)));
    }
    if let Some(binary) = lower.strip_prefix("0b") {
        let value = i128::from_str_radix(binary.trim_end_matches('u'), 2).map_err(wrong)?;
        return Ok(Some(Operand::Integer(sign * value)));
    }
    if digits.contains('.') {
        let value: f64 = text
            .parse()
            .map_err(|error| format!("the number `{text}`: {error}"))?;
        return Ok(Some(Operand::F64(value.to_bits())));
    }
    let value: i128 = lower.trim_end_matches('u').parse().map_err(wrong)?;
    Ok(Some(Operand::Integer(sign * value)))
}
