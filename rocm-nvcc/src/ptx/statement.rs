//! An `asm` statement in its parts: the text of the instructions, and the variables that they use.

use super::parentheses::{closing, split};

/// A statement's parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    /// The instructions, as the assembler would get them but for the operands' numbers.
    pub template: String,
    /// What `%0`, `%1` and so on stand for: outputs first.
    pub operands: Vec<Operand>,
}

/// A variable that instructions use.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The name that the template may call it by, beside its number.
    pub name: Option<String>,
    /// The register's kind: `h`, `r`, `l`, `f`, `d`, or `n` for a constant.
    pub kind: char,
    /// Whether instructions read it.
    pub read: bool,
    /// Whether they write it.
    pub written: bool,
    /// The C++ expression.
    pub expression: String,
}

/// What stands between an `asm`'s parentheses.
///
/// # Errors
/// In words.
pub fn parse(text: &str) -> Result<Statement, String> {
    let mut sections = split(text, ':');
    if sections.len() < 4 {
        sections.resize(4, "");
    }
    let mut statement = Statement {
        template: literal(sections[0])?,
        operands: Vec::new(),
    };
    for (section, written) in [(sections[1], true), (sections[2], false)] {
        for part in split(section, ',') {
            if part.trim().is_empty() {
                continue;
            }
            statement.operands.push(operand(part.trim(), written)?);
        }
    }
    // An input that is a number is another name of that output.
    for at in 0..statement.operands.len() {
        if let Some(same) = statement.operands[at].kind.to_digit(10) {
            let same = statement.operands.get(same as usize).cloned();
            let same = same.ok_or("an operand's constraint names one that is not there")?;
            statement.operands[at].kind = same.kind;
        }
    }
    Ok(statement)
}

fn operand(text: &str, written: bool) -> Result<Operand, String> {
    let (name, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest
                .split_once(']')
                .ok_or("an operand's name is not closed")?;
            (Some(name.trim().to_owned()), rest.trim_start())
        }
        None => (None, text),
    };
    let open = rest.find('(').ok_or("an operand has no expression")?;
    let constraint = literal(&rest[..open])?;
    let body = &rest[open + 1..];
    let length = closing(body).ok_or("an operand's parenthesis is not closed")?;
    let letters: Vec<char> = constraint
        .chars()
        .filter(|c| !"=+&%".contains(*c))
        .collect();
    let &[kind] = letters.as_slice() else {
        return Err(format!("the constraint \"{constraint}\" is not known"));
    };
    if !"hrlfdn0123456789".contains(kind) {
        return Err(format!(
            "the constraint \"{constraint}\" is not known: h, r, l, f, d and n are"
        ));
    }
    Ok(Operand {
        name,
        kind,
        read: !written || constraint.contains('+'),
        written,
        expression: body[..length].trim().to_owned(),
    })
}

/// String literals beside one another as one string.
fn literal(text: &str) -> Result<String, String> {
    let mut value = String::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        rest = rest
            .strip_prefix('"')
            .ok_or("instructions and constraints must be string literals")?;
        let mut chars = rest.char_indices();
        loop {
            let (at, c) = chars.next().ok_or("a string literal is not closed")?;
            match c {
                '"' => {
                    rest = rest[at + 1..].trim_start();
                    break;
                }
                '\\' => {
                    let (_, escaped) = chars.next().ok_or("a string literal is not closed")?;
                    value.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        '"' | '\\' | '\'' => escaped,
                        other => return Err(format!("the escape \\{other} is not known")),
                    });
                }
                c => value.push(c),
            }
        }
    }
    Ok(value)
}
