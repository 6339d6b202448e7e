//! Lists in headers: C macros whose bodies are nothing but invocations, of the macros that they are given for rows, or of
//! other lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The macros of a header, or of another file of kernels.
pub struct Header {
    path: PathBuf,
    macros: BTreeMap<String, Macro>,
}

struct Macro {
    line: usize,
    parameters: Vec<String>,
    /// Without the backslashes of continued lines.
    body: String,
    /// Whether another definition, under another condition, has the name as well.
    is_ambiguous: bool,
}

/// An invocation of a macro that makes rows.
pub struct Row {
    /// Which of those that were asked for.
    pub callback: usize,
    /// What stands between its brackets.
    pub arguments: Vec<String>,
    path: PathBuf,
    line: usize,
}

impl Row {
    /// That this row is none, with its place.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::header(&self.path, self.line, reason)
    }

    /// So many of its arguments, from this one on, which are numbers.
    ///
    /// # Errors
    /// One is none, or missing.
    pub fn numbers<const N: usize>(&self, first: usize) -> Result<[u32; N]> {
        let words = self.arguments.get(first..first + N).unwrap_or_default();
        let numbers: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
        numbers.ok_or_else(|| self.strange())
    }

    /// That its arguments are not what the list's columns are.
    pub fn strange(&self) -> Error {
        self.error(format!("{:?}", self.arguments))
    }
}

impl Header {
    /// Reads the macros of a file.
    ///
    /// # Errors
    /// It cannot be read, or a macro's parameters have no end.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let mut header = Self {
            path: path.to_path_buf(),
            macros: BTreeMap::new(),
        };
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(definition) = line.strip_prefix("#define ") else {
                continue;
            };
            // A line's end stays one, by which rows know their line.
            let mut whole = definition.to_string();
            while let Some(begun) = whole.strip_suffix('\\') {
                let more = lines.next().map_or("", |(_, more)| more);
                whole = format!("{begun}\n{more}");
            }
            let end = whole.find(|c: char| !is_name(c)).unwrap_or(whole.len());
            let (name, rest) = whole.split_at(end);
            let (parameters, body) = match rest.strip_prefix('(') {
                Some(rest) => {
                    let (inside, body) = rest
                        .split_once(')')
                        .ok_or_else(|| header.at(number + 1, "a bracket without its end"))?;
                    (split(inside), body)
                }
                None => (Vec::new(), rest),
            };
            let made = Macro {
                line: number + 1,
                parameters,
                body: body.to_string(),
                is_ambiguous: header.macros.contains_key(name),
            };
            header.macros.insert(name.to_string(), made);
        }
        Ok(header)
    }

    /// Whether a macro has this name.
    pub fn has(&self, list: &str) -> bool {
        self.macros.contains_key(list)
    }

    /// The rows of a list, whose first parameters are the macros that make rows: so many.
    ///
    /// # Errors
    /// The list is missing or empty, or has something else than invocations of rows and lists.
    pub fn rows(&self, list: &str, callbacks: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        let callbacks: Vec<String> = (0..callbacks).map(|number| format!("\0{number}")).collect();
        self.expand(list, &callbacks, 0, &mut rows)?;
        match rows.is_empty() {
            true => Err(self.error(format!("the list {list} is empty"))),
            false => Ok(rows),
        }
    }

    /// That something is wrong with the header, in no line of its own.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        self.at(0, reason)
    }

    /// Whether every list whose name begins so is known by the rest of its name.
    ///
    /// # Errors
    /// One is not.
    pub fn knows_lists(&self, prefix: &str, is_known: impl Fn(&str) -> bool) -> Result<()> {
        for (name, of) in &self.macros {
            if name
                .strip_prefix(prefix)
                .is_some_and(|rest| !is_known(rest))
            {
                return Err(self.at(of.line, format!("{name} is a list for no architecture")));
            }
        }
        Ok(())
    }

    fn expand(
        &self,
        list: &str,
        arguments: &[String],
        line: usize,
        rows: &mut Vec<Row>,
    ) -> Result<()> {
        let of = self
            .macros
            .get(list)
            .ok_or_else(|| self.at(line, format!("no list {list}")))?;
        if of.is_ambiguous {
            return Err(self.at(of.line, format!("{list} is defined twice")));
        }
        // An alias.
        if of.parameters.is_empty() {
            return self.expand(of.body.trim(), arguments, of.line, rows);
        }
        let named = of.parameters.iter().filter(|name| *name != "...").count();
        let is_variadic = named < of.parameters.len();
        if arguments.len() < named || (arguments.len() > named && !is_variadic) {
            let count = arguments.len();
            return Err(self.at(line, format!("{list} with {count} arguments, not {named}")));
        }
        let replaced = |word: &str| {
            let at = of.parameters.iter().position(|name| name == word);
            at.map_or(word, |at| arguments[at].as_str()).to_string()
        };
        let (mut line, mut rest) = (of.line, of.body.as_str());
        loop {
            let begin = rest.len() - rest.trim_start().len();
            line += rest[..begin].matches('\n').count();
            rest = &rest[begin..];
            if rest.is_empty() || rest.starts_with("//") {
                return Ok(());
            }
            let invocation = rest.split_once('(').and_then(|(name, rest)| {
                let (inside, rest) = rest.split_once(')')?;
                (!name.is_empty() && name.chars().all(is_name)).then_some((name, inside, rest))
            });
            let Some((name, inside, after)) = invocation else {
                return Err(self.at(line, format!("{list} has something else than rows: {rest}")));
            };
            let name = replaced(name);
            let arguments: Vec<String> = split(inside).iter().map(|word| replaced(word)).collect();
            match name
                .strip_prefix('\0')
                .and_then(|number| number.parse().ok())
            {
                Some(callback) => rows.push(Row {
                    callback,
                    arguments,
                    path: self.path.clone(),
                    line,
                }),
                None => self.expand(&name, &arguments, line, rows)?,
            }
            line += inside.matches('\n').count();
            rest = after;
        }
    }

    fn at(&self, line: usize, reason: impl Into<String>) -> Error {
        Error::header(&self.path, line, reason)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What commas part.
fn split(inside: &str) -> Vec<String> {
    inside
        .split(',')
        .map(|part| part.trim().to_string())
        .collect()
}
