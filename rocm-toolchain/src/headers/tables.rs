//! Families of kernels, which describe themselves: a header lists a family's kernels for each architecture, in rows of plain
//! data, and this makes the Rust of them.

use super::lists::{Header, Row};
use crate::error::Result;

/// What a column holds.
pub enum Kind {
    /// A number.
    Number,
    /// One of these words, each with its Rust.
    Word(&'static [(&'static str, &'static str)]),
    /// Columns, together the fields of this struct.
    Struct(&'static str, &'static [Column]),
}

/// A column of a row, which becomes the field of that name, if not the kernels alone want it.
pub struct Column {
    /// The field's name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether the host wants it.
    pub is_field: bool,
}

/// A static with the sizes that kernels are for, by what else they are for.
pub struct Sizes {
    /// The static.
    pub name: &'static str,
    /// The Rust type of its rows.
    pub row: &'static str,
    /// The columns that are the key, by their places in a row of the header.
    pub keys: &'static [usize],
    /// The column that is listed, likewise.
    pub size: usize,
}

/// Rows of one kind: `static NAME: Lists<Row>`.
pub struct Table {
    /// The static that has them.
    pub name: &'static str,
    /// The lists' names without the architecture.
    pub list: &'static str,
    /// How many macros the lists are given, and which of them makes these rows.
    pub callbacks: (usize, usize),
    /// The Rust type of a row.
    pub row: &'static str,
    /// The columns of a row, in the header's order.
    pub columns: &'static [Column],
    /// One more static that is made of them.
    pub sizes: Option<Sizes>,
}

/// The Rust of a row.
struct Made {
    /// Of each column.
    values: Vec<String>,
    /// Of the struct's fields.
    fields: String,
}

impl Table {
    /// The statics of all rows, of these architectures, each by its name in those of lists and the field of `Lists`.
    ///
    /// # Errors
    /// The header lacks a list for one, has one for another, or a row that is none.
    pub fn rust(&self, header: &Header, architectures: &[(&str, &str)]) -> Result<String> {
        let is_known = |of: &str| architectures.iter().any(|(named, _)| *named == of);
        header.knows_lists(self.list, is_known)?;
        let (mut rows, mut sizes) = (String::new(), String::new());
        for (architecture, field) in architectures {
            let (callbacks, callback) = self.callbacks;
            let mut found = header.rows(&format!("{}{architecture}", self.list), callbacks)?;
            found.retain(|row| row.callback == callback);
            let made = found.iter().map(|row| self.made(row));
            let made = made.collect::<Result<Vec<_>>>()?;
            rows += &format!("    {field}: &[\n{}    ],\n", self.rows(&made));
            if let Some(of) = &self.sizes {
                sizes += &format!("    {field}: &[\n{}    ],\n", of.rows(&made));
            }
        }
        let text = |name: &str, row: &str, rows: &str| {
            format!("static {name}: Lists<{row}> = Lists {{\n{rows}}};\n")
        };
        let of_sizes = self.sizes.as_ref();
        let of_sizes = of_sizes.map(|of| text(of.name, of.row, &sizes));
        Ok(text(self.name, self.row, &rows) + &of_sizes.unwrap_or_default())
    }

    fn made(&self, row: &Row) -> Result<Made> {
        let (found, known) = (row.arguments.len(), width(self.columns));
        if found != known {
            return Err(row.error(format!("{found} columns, not {known}")));
        }
        let mut values = Vec::new();
        let fields = fields(self.columns, &row.arguments, &mut values);
        let fields = fields.map_err(|reason| row.error(reason))?;
        Ok(Made { values, fields })
    }

    fn rows(&self, made: &[Made]) -> String {
        let row = |made: &Made| format!("        {} {{ {} }},\n", self.row, made.fields);
        made.iter().map(row).collect()
    }
}

/// Of a row's words, the first of which is the next after those whose Rust is in `values`: that of the columns' fields.
fn fields(
    columns: &[Column],
    words: &[String],
    values: &mut Vec<String>,
) -> std::result::Result<String, String> {
    let mut fields = Vec::new();
    for column in columns {
        let value = column.rust(words, values)?;
        if column.is_field {
            fields.push(format!("{}: {value}", column.name));
        }
    }
    Ok(fields.join(", "))
}

/// Words of a row that columns take.
fn width(columns: &[Column]) -> usize {
    let of_column = |column: &Column| match column.kind {
        Kind::Struct(_, columns) => width(columns),
        Kind::Number | Kind::Word(_) => 1,
    };
    columns.iter().map(of_column).sum()
}

impl Sizes {
    fn rows(&self, made: &[Made]) -> String {
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        for Made { values, .. } in made {
            let key: Vec<_> = self.keys.iter().map(|&key| values[key].as_str()).collect();
            let (key, size) = (key.join(", "), values[self.size].as_str());
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, sizes)) => sizes.push(size),
                None => found.push((key, vec![size])),
            }
        }
        let row = |(key, sizes): &(String, Vec<&str>)| {
            format!("        ({key}, &[{}]),\n", sizes.join(", "))
        };
        found.iter().map(row).collect()
    }
}

impl Column {
    /// The Rust of its word, which goes to `values`, or of its columns'.
    fn rust(
        &self,
        words: &[String],
        values: &mut Vec<String>,
    ) -> std::result::Result<String, String> {
        let name = self.name;
        let word = words.get(values.len()).map_or("", String::as_str);
        let rust = match self.kind {
            Kind::Struct(of, columns) => {
                let fields = fields(columns, words, values)?;
                return Ok(format!("{of} {{ {fields} }}"));
            }
            Kind::Number => match word.parse::<u32>() {
                Ok(number) => number.to_string(),
                Err(error) => return Err(format!("{name} {word}: {error}")),
            },
            Kind::Word(known) => match known.iter().find(|(known, _)| *known == word) {
                Some((_, rust)) => rust.to_string(),
                None => {
                    let known: Vec<_> = known.iter().map(|(known, _)| *known).collect();
                    return Err(format!("{name} {word}: none of {}", known.join(", ")));
                }
            },
        };
        values.push(rust.clone());
        Ok(rust)
    }
}
