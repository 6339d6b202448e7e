//! Lists in headers: C macros whose bodies are nothing but invocations, of the macros that they are given for rows, or of
//! other lists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The macros of a header.
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
    /// Where it stands, as `file:line`.
    pub place: String,
}

impl Header {
    /// Reads the macros of a file.
    ///
    /// # Errors
    /// It cannot be read, or a macro's parameters have no end.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
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

    /// The rows of a list, whose first parameters are the macros that make rows: so many.
    ///
    /// # Errors
    /// The list is missing or empty, or has something else than invocations of rows and lists.
    pub fn rows(&self, list: &str, callbacks: usize) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        let callbacks: Vec<String> = (0..callbacks).map(|number| format!("\0{number}")).collect();
        self.expand(list, &callbacks, 0, &mut rows)?;
        match rows.is_empty() {
            true => Err(format!("{}: the list {list} is empty", self.path.display())),
            false => Ok(rows),
        }
    }

    /// Whether every list whose name begins so is known by the rest of its name.
    ///
    /// # Errors
    /// One is not.
    pub fn knows_lists(&self, prefix: &str, is_known: impl Fn(&str) -> bool) -> Result<(), String> {
        for (name, of) in &self.macros {
            if name
                .strip_prefix(prefix)
                .is_some_and(|rest| !is_known(rest))
            {
                return Err(self.at(of.line, &format!("{name} is a list for no architecture")));
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
    ) -> Result<(), String> {
        let of = self
            .macros
            .get(list)
            .ok_or_else(|| self.at(line, &format!("no list {list}")))?;
        if of.is_ambiguous {
            return Err(self.at(of.line, &format!("{list} is defined twice")));
        }
        // An alias.
        if of.parameters.is_empty() {
            return self.expand(of.body.trim(), arguments, of.line, rows);
        }
        let named = of.parameters.iter().filter(|name| *name != "...").count();
        let is_variadic = named < of.parameters.len();
        if arguments.len() < named || (arguments.len() > named && !is_variadic) {
            let count = arguments.len();
            return Err(self.at(line, &format!("{list} with {count} arguments, not {named}")));
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
                return Err(self.at(
                    line,
                    &format!("{list} has something else than rows: {rest}"),
                ));
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
                    place: format!("{}:{line}", self.path.display()),
                }),
                None => self.expand(&name, &arguments, line, rows)?,
            }
            line += inside.matches('\n').count();
            rest = after;
        }
    }

    fn at(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path.display())
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
