//! Finds `asm` statements in preprocessed source and puts C++ in their place. What lines are called stays.

use super::parentheses::closing;
use super::statement::{self, Statement};
use super::translate::{translate, Wrong};
use super::unknown::Unknown;

/// A flag of a line marker: the file is the system's, or one of our headers, and has no PTX in it.
const SYSTEM_HEADER: &str = "3";

/// Source in which PTX was looked for.
#[derive(Debug, Default, PartialEq)]
pub struct Rewritten {
    /// The source with C++ in place of each `asm` of a user's file; `None` where there is none.
    pub code: Option<String>,
    /// What is not known of each statement that stands there as a call of `candle_rocm::unknown_ptx`, which does not
    /// compile where it is used. The call has the statement's place in this list.
    unknown: Vec<Vec<Unknown>>,
}

impl Rewritten {
    /// What is not known in the statements that the compiler's messages name: those that a kernel uses.
    pub fn used(&self, log: &str) -> Vec<Unknown> {
        let named = |index: &usize| log.contains(&call(*index));
        let used = (0..self.unknown.len()).filter(named);
        used.flat_map(|index| self.unknown[index].clone()).collect()
    }

    /// Whether all PTX is known.
    pub fn is_known(&self) -> bool {
        self.unknown.is_empty()
    }

    /// The code, where it must be known whether or not it is used.
    ///
    /// # Errors
    /// All PTX in it that is not known.
    pub fn known(self) -> Result<Option<String>, Vec<Unknown>> {
        match self.unknown.is_empty() {
            true => Ok(self.code),
            false => Err(self.unknown.into_iter().flatten().collect()),
        }
    }
}

/// What stands in place of a statement that is not known; the compiler's messages name it so.
fn call(index: usize) -> String {
    format!("candle_rocm::unknown_ptx<{index}>()")
}

/// `text`, as the preprocessor wrote it, with each `asm` of a user's file rewritten.
pub fn rewrite(text: &str) -> Rewritten {
    let mut scanner = Scanner {
        text,
        at: 0,
        file: String::new(),
        line: 1,
        system: false,
        before: None,
    };
    let mut rewritten = String::new();
    let mut copied = 0;
    let mut unknown = Vec::new();
    while let Some(found) = scanner.next_asm() {
        let translated = found.statement.and_then(|statement| {
            let of_one = |one: Wrong| (one.instruction, one.reason);
            translate(&statement).map_err(|wrong| wrong.into_iter().map(of_one).collect())
        });
        let code = translated.unwrap_or_else(|wrong: Vec<(String, String)>| {
            let (file, line) = (&found.file, found.line);
            let of_one = wrong.into_iter().map(|(instruction, reason)| Unknown {
                file: file.clone(),
                line,
                instruction,
                reason,
            });
            unknown.push(of_one.collect());
            format!("::{}", call(unknown.len() - 1))
        });
        rewritten += &text[copied..found.begin];
        rewritten += &code;
        // The statement's own lines are gone.
        rewritten += &format!("\n# {} {:?}\n", scanner.line, scanner.file);
        copied = scanner.at;
    }
    let code = (copied > 0).then(|| rewritten + &text[copied..]);
    Rewritten { code, unknown }
}

/// A statement that was found; or in words what is wrong with it.
struct Found {
    begin: usize,
    file: String,
    line: usize,
    statement: Result<Statement, Vec<(String, String)>>,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    file: String,
    line: usize,
    system: bool,
    /// The last character that is no space.
    before: Option<char>,
}

impl<'a> Scanner<'a> {
    /// The next statement, behind which the scanner then stands.
    fn next_asm(&mut self) -> Option<Found> {
        while let Some(c) = self.rest().chars().next() {
            if c == '\n' {
                self.at += 1;
                self.line += 1;
                self.marker();
            } else if self.at == 0 && c == '#' {
                self.marker();
                if self.at == 0 {
                    self.at = 1;
                }
            } else if self.system {
                // To the next line, as nothing here matters.
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if c == '"' || c == '\'' {
                self.skip_literal(c);
            } else if c.is_ascii_digit() {
                // Numbers may have digits apart by quotes.
                let end = self
                    .rest()
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '\'' && c != '.');
                self.at += end.unwrap_or(self.rest().len());
                self.before = Some('0');
            } else if c.is_alphabetic() || c == '_' {
                let end = self
                    .rest()
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(self.rest().len());
                let word = &self.rest()[..end];
                let begin = self.at;
                if word.ends_with('R') && self.rest()[end..].starts_with('"') && word.len() <= 3 {
                    self.at += end;
                    self.skip_raw_string();
                } else if ["asm", "__asm__", "__asm"].contains(&word) {
                    let after_parenthesis = self.before == Some(')');
                    let (file, line) = (self.file.clone(), self.line);
                    self.at += end;
                    if let Some(statement) = self.asm(after_parenthesis) {
                        return Some(Found {
                            begin,
                            file,
                            line,
                            statement,
                        });
                    }
                } else {
                    self.at += end;
                }
                self.before = Some('a');
            } else {
                self.at += c.len_utf8();
                if !c.is_whitespace() {
                    self.before = Some(c);
                }
            }
        }
        None
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads a line marker (`# 12 "file" 1 3`) if one stands here, at a line's begin.
    fn marker(&mut self) {
        let line = self.rest().lines().next().unwrap_or_default();
        let Some(fields) = line.strip_prefix("# ") else {
            return;
        };
        let Some((number, rest)) = fields.split_once(' ') else {
            return;
        };
        let (Ok(number), Some((name, flags))) = (
            number.parse(),
            rest.strip_prefix('"')
                .and_then(|rest| rest.rsplit_once('"')),
        ) else {
            return;
        };
        let length = line.len();
        self.file = name.replace("\\\\", "\\");
        self.system = flags.split(' ').any(|flag| flag == SYSTEM_HEADER);
        self.line = number;
        self.at += (length + 1).min(self.rest().len());
        // Markers follow one another.
        self.marker();
    }

    fn skip_literal(&mut self, quote: char) {
        let mut escaped = false;
        let end = self.rest()[1..].find(|c| {
            let ends = !escaped && (c == quote || c == '\n');
            escaped = !escaped && c == '\\';
            ends
        });
        self.at += end.map_or(self.rest().len(), |end| end + 2);
        self.before = Some(quote);
    }

    fn skip_raw_string(&mut self) {
        let rest = self.rest();
        let Some(open) = rest.find('(') else {
            self.at += 1;
            return;
        };
        let close = format!("){}\"", &rest[1..open]);
        let end = rest
            .find(&close)
            .map_or(rest.len(), |end| end + close.len());
        self.line += rest[..end].matches('\n').count();
        self.at += end;
        self.before = Some('"');
    }

    /// The statement after the word `asm`, where the scanner stands. None if it is another thing's: the name of a symbol,
    /// or a statement without instructions, which every compiler takes.
    fn asm(&mut self, after_parenthesis: bool) -> Option<Result<Statement, Vec<(String, String)>>> {
        let mut qualified = false;
        let mut at = self.at;
        loop {
            let rest = &self.text[at..];
            let trimmed = rest.trim_start();
            at += rest.len() - trimmed.len();
            let word = trimmed
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .map_or(trimmed, |end| &trimmed[..end]);
            if !["volatile", "__volatile__", "__volatile", "inline", "goto"].contains(&word) {
                break;
            }
            qualified = true;
            at += word.len();
        }
        let body = self.text[at..].strip_prefix('(')?;
        let Some(length) = closing(body) else {
            return Some(Err(vec![(
                "asm".to_owned(),
                "its parenthesis is never closed".to_owned(),
            )]));
        };
        let raw = &body[..length];
        // A statement over many lines has line markers in it.
        let content: Vec<&str> = raw.lines().filter(|line| !line.starts_with("# ")).collect();
        let parsed = statement::parse(&content.join("\n"));
        let is_statement = match &parsed {
            Ok(statement) => {
                let has_code =
                    statement.template.contains([';', '%']) || !statement.operands.is_empty();
                let empty = statement.template.trim().is_empty() && statement.operands.is_empty();
                !empty && (has_code || qualified || !after_parenthesis)
            }
            Err(_) => true,
        };
        if !is_statement {
            return None;
        }
        // Behind the parenthesis. Markers in between are counted as lines are.
        let end = at + 1 + length + 1;
        while self.at < end {
            match self.text[self.at..end].find('\n') {
                Some(next) => {
                    self.at += next + 1;
                    self.line += 1;
                    self.marker();
                }
                None => self.at = end,
            }
        }
        self.before = Some(')');
        Some(parsed.map_err(|reason| vec![(content.join(" ").trim().to_owned(), reason)]))
    }
}
