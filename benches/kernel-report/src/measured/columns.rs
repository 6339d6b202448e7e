//! CSV files whose columns are found by their names, in any order: releases of the profiler have added some.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{anyhow, Context, Result};
use csv::{Reader, StringRecord};

/// A column that the file has.
#[derive(Clone, Copy, Debug)]
pub struct Column(usize);

/// A CSV file, at one of its rows.
pub struct Csv {
    path: PathBuf,
    reader: Reader<File>,
    names: StringRecord,
    row: StringRecord,
}

impl Csv {
    /// Reads the names of the columns.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn open(path: &Path) -> Result<Csv> {
        let context = || format!("reading {}", path.display());
        let mut reader = Reader::from_path(path).with_context(context)?;
        let names = reader.headers().with_context(context)?.clone();
        if names.is_empty() {
            return Err(anyhow!(
                "{}, line 1: the names of columns are expected, but the file is empty",
                path.display()
            ));
        }
        Ok(Csv {
            path: path.to_owned(),
            reader,
            names,
            row: StringRecord::new(),
        })
    }

    /// The column that has the first of these names that the file has. Capitals do not count: `rocpd2csv` writes
    /// `Vgpr_Count`, `rocprofv3` `VGPR_Count`.
    pub fn find(&self, names: &[&str]) -> Option<Column> {
        let position = |name: &&str| {
            let is_it = |of: &str| of.trim().eq_ignore_ascii_case(name);
            self.names.iter().position(is_it)
        };
        names.iter().find_map(position).map(Column)
    }

    /// A column that the file must have.
    ///
    /// # Errors
    /// It has none of this name: the error has those that there are.
    pub fn column(&self, name: &str) -> Result<Column> {
        self.find(&[name]).ok_or_else(|| {
            anyhow!(
                "{}, line 1: a column {name} is expected; there are {}",
                self.path.display(),
                self.columns()
            )
        })
    }

    /// The names of all columns.
    pub fn columns(&self) -> String {
        self.names.iter().collect::<Vec<_>>().join(", ")
    }

    /// Goes to the next row, the first one at first; false at the file's end.
    ///
    /// # Errors
    /// The row has not as many cells as there are columns, as the last one of a program that was killed, or is no text.
    pub fn advance(&mut self) -> Result<bool> {
        let read = self.reader.read_record(&mut self.row);
        read.with_context(|| format!("reading {}", self.path.display()))
    }

    /// The cell of the row.
    pub fn text(&self, column: Column) -> &str {
        self.row.get(column.0).unwrap_or_default().trim()
    }

    /// The cell of the row as a whole number.
    ///
    /// # Errors
    /// It is none, or is too large.
    pub fn whole<T: FromStr>(&self, column: Column) -> Result<T> {
        self.parsed(column, "a whole number that is not negative")
    }

    /// The cell of the row as a whole number, where there is such a column.
    ///
    /// # Errors
    /// There is one, and the cell is no number.
    pub fn maybe<T: FromStr>(&self, column: Option<Column>) -> Result<Option<T>> {
        column.map(|column| self.whole(column)).transpose()
    }

    /// The cell of the row as a number; may be what a division by 0 makes.
    ///
    /// # Errors
    /// It is none.
    pub fn real(&self, column: Column) -> Result<f64> {
        self.parsed(column, "a number")
    }

    fn parsed<T: FromStr>(&self, column: Column, expected: &str) -> Result<T> {
        let text = self.text(column);
        text.parse().map_err(|_| {
            anyhow!(
                "{}, line {}, column {}: {expected} is expected, not {text:?}",
                self.path.display(),
                self.row.position().map_or(0, csv::Position::line),
                &self.names[column.0]
            )
        })
    }
}
