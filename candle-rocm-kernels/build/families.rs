//! Families of kernels, which describe themselves: a header lists a family's kernels for each architecture, in rows of plain
//! data, and this makes the Rust of them.

use std::path::Path;

use crate::macros::{Header, Row};

/// What a column holds.
enum Kind {
    /// A number.
    Number,
    /// One of these words, each with its Rust.
    Word(&'static [(&'static str, &'static str)]),
    /// Columns, together the fields of this struct.
    Struct(&'static str, &'static [Column]),
}

/// A column of a row, which becomes the field of that name, if not the kernels alone want it.
struct Column {
    name: &'static str,
    kind: Kind,
    is_field: bool,
}

/// A static with the columns of C that kernels are for, by what else they are for.
struct Sizes {
    /// The static.
    name: &'static str,
    /// The Rust type of its rows.
    row: &'static str,
    /// The columns that are the key, by their places in a row of the header.
    keys: &'static [usize],
    /// The column that is listed, likewise.
    size: usize,
}

/// The Rust of a row.
struct Made {
    /// Of each column.
    values: Vec<String>,
    /// Of the struct's fields.
    fields: String,
}

/// Rows of one kind.
struct Table {
    /// The static that has them.
    name: &'static str,
    /// The lists' names without the architecture.
    list: &'static str,
    /// How many macros the lists are given, and which of them makes these rows.
    callbacks: (usize, usize),
    /// The Rust type of a row.
    row: &'static str,
    columns: &'static [Column],
    sizes: Option<Sizes>,
}

/// A file of Rust, made of a header.
struct Family {
    header: &'static str,
    out: &'static str,
    tables: &'static [Table],
}

/// What lists are named for (kernels/portable/architecture.cuh), and the field of `by_architecture::Lists`.
pub const ARCHITECTURES: [(&str, &str); 9] = [
    ("Vega20", "vega20"),
    ("Cdna1", "cdna1"),
    ("Cdna2", "cdna2"),
    ("Cdna3", "cdna3"),
    ("Cdna4", "cdna4"),
    ("Rdna2", "rdna2"),
    ("Rdna3", "rdna3"),
    ("Rdna4", "rdna4"),
    ("Nvidia", "nvidia"),
];

const DTYPES: &[(&str, &str)] = &[
    ("bf16", "Dtype::BF16"),
    ("f16", "Dtype::F16"),
    ("i8", "Dtype::I8"),
    ("f32", "Dtype::F32"),
    ("f64", "Dtype::F64"),
];
/// An element type, and whether rows of A share scales.
const OPERANDS: &[(&str, &str)] = &[
    ("bf16", "(Element::Bf16, false)"),
    ("f8e4m3", "(Element::F8e4m3, false)"),
    ("f8e4m3_blocks", "(Element::F8e4m3, true)"),
];
const SCHEDULES: &[(&str, &str)] = &[
    ("Tile", "Schedule::Tile"),
    ("Lines", "Schedule::Lines"),
    ("Direct", "Schedule::Direct"),
];
const OWN_ROWS: &[(&str, &str)] = &[("Registers", ""), ("Lds", "")];
const GROUPED_SCHEDULES: &[(&str, &str)] = &[("Tile", ""), ("Lines", ""), ("Rows", "")];
/// Whether workgroups of a launch hand sums over.
const REDUCTIONS: &[(&str, &str)] = &[("InKernel", "true"), ("SeparateKernel", "false")];
/// Whether A's rows are together, by the letter of the operation.
const FORMS: &[(&str, &str)] = &[("n", "true"), ("t", "false")];
/// Whether lanes multiply, or a matrix unit.
const UNITS: &[(&str, &str)] = &[("Lanes", "true"), ("Matrix", "false")];
/// Whether there is but the pair of operations by which both operands have k together.
const OPS: &[(&str, &str)] = &[("all", "false"), ("tn", "true")];

const FAMILIES: &[Family] = &[
    Family {
        header: "matmul/matmul_kernels.cuh",
        out: "matmul_kernels.rs",
        tables: &[Table {
            name: "KERNELS",
            list: "MATMUL_KERNELS_",
            callbacks: (2, 0),
            row: "Kernel",
            columns: &[
                word("dtype", DTYPES),
                word("schedule", SCHEDULES),
                number("rows"),
                number("columns"),
                number("waves_m"),
                number("waves_n"),
                of_kernels(number("stage_bytes")),
                of_kernels(number("stages")),
                number("prefetch"),
                number("lds_kib"),
                word("in_kernel_reduction", REDUCTIONS),
            ],
            sizes: None,
        }],
    },
    Family {
        header: "matmul/gemm_kernels.cuh",
        out: "gemm_kernels.rs",
        tables: &[Table {
            name: "SKINNY",
            list: "GEMM_KERNELS_",
            callbacks: (3, 1),
            row: "Skinny",
            columns: &[
                word("rows_together", FORMS),
                word("dtype", DTYPES),
                MEASURES,
                number("lds_kib"),
            ],
            sizes: Some(Sizes {
                name: "SKINNY_COLUMNS",
                row: "(bool, Dtype, &'static [u32])",
                keys: &[0, 1],
                size: 2,
            }),
        }],
    },
    Family {
        header: "matmul/normed_kernels.cuh",
        out: "normed_kernels.rs",
        tables: &[Table {
            name: "NORMED_KERNELS",
            list: "NORMED_KERNELS_",
            callbacks: (1, 0),
            row: "Normed",
            columns: &[word("dtype", DTYPES), MEASURES],
            sizes: None,
        }],
    },
    Family {
        header: "matmul/grouped_kernels.cuh",
        out: "grouped_kernels.rs",
        tables: &[
            Table {
                name: "KERNELS",
                list: "GROUPED_KERNELS_",
                callbacks: (2, 0),
                row: "Kernel",
                columns: &[
                    word("operands", OPERANDS),
                    word("along_k_alone", OPS),
                    of_kernels(word("schedule", GROUPED_SCHEDULES)),
                    number("rows"),
                    number("columns"),
                    number("waves_m"),
                    number("waves_n"),
                    of_kernels(number("stage_bytes")),
                    of_kernels(number("stages")),
                    of_kernels(number("prefetch")),
                ],
                sizes: None,
            },
            Table {
                name: "SKINNY",
                list: "GROUPED_KERNELS_",
                callbacks: (2, 1),
                row: "Skinny",
                columns: &[word("operands", OPERANDS), MEASURES],
                sizes: Some(Sizes {
                    name: "SKINNY_COLUMNS",
                    row: "((Element, bool), &'static [u32])",
                    keys: &[0],
                    size: 1,
                }),
            },
        ],
    },
    Family {
        header: "attention/attention_kernels.cuh",
        out: "attention_kernels.rs",
        tables: &[
            Table {
                name: "FORWARD_KERNELS",
                list: "FORWARD_KERNELS_",
                callbacks: (1, 0),
                row: "Shape",
                columns: &[
                    number("elements"),
                    number("made"),
                    of_kernels(number("others")),
                    number("rows"),
                    number("waves"),
                    of_kernels(word("own", OWN_ROWS)),
                    number("lds_kib"),
                ],
                sizes: None,
            },
            backward("BACKWARD_KEYS", 0),
            backward("BACKWARD_QUERIES", 1),
        ],
    },
];

/// What lists of skinny kernels have in common.
const MEASURES: Column = Column {
    name: "measures",
    kind: Kind::Struct(
        "Measures",
        &[
            number("columns"),
            word("lanes_multiply", UNITS),
            number("lanes"),
            number("threads"),
            number("rows"),
            number("step"),
        ],
    ),
    is_field: true,
};

/// A table of module `backward`: the rows that one of its lists' two macros makes.
const fn backward(name: &'static str, callback: usize) -> Table {
    Table {
        name,
        list: "BACKWARD_KERNELS_",
        callbacks: (2, callback),
        row: "Shape",
        columns: BACKWARD_COLUMNS,
        sizes: None,
    }
}
const BACKWARD_COLUMNS: &[Column] = &[
    number("elements"),
    number("made"),
    of_kernels(number("others")),
    number("rows"),
    number("waves"),
    of_kernels(word("own", OWN_ROWS)),
    of_kernels(word("staging", &[("Early", ""), ("Late", "")])),
    number("lds_kib"),
];

const fn number(name: &'static str) -> Column {
    Column {
        name,
        kind: Kind::Number,
        is_field: true,
    }
}

const fn word(name: &'static str, words: &'static [(&'static str, &'static str)]) -> Column {
    Column {
        name,
        kind: Kind::Word(words),
        is_field: true,
    }
}

/// A column that the kernels alone want.
const fn of_kernels(column: Column) -> Column {
    Column {
        is_field: false,
        ..column
    }
}

/// Writes the families' tables to `out`.
///
/// # Errors
/// A header cannot be read, lacks a list for an architecture, or has a row that is none; or a file cannot be written.
pub fn write(kernels: &Path, out: &Path) -> Result<(), String> {
    for family in FAMILIES {
        let header = Header::read(&kernels.join(family.header))?;
        let mut text = String::new();
        for table in family.tables {
            text += &table.rust(&header)?;
        }
        let file = out.join(family.out);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

impl Table {
    /// The statics of all architectures' rows.
    fn rust(&self, header: &Header) -> Result<String, String> {
        let is_known = |of: &str| ARCHITECTURES.iter().any(|(named, _)| *named == of);
        header.knows_lists(self.list, is_known)?;
        let (mut rows, mut sizes) = (String::new(), String::new());
        for (architecture, field) in ARCHITECTURES {
            let (callbacks, callback) = self.callbacks;
            let mut found = header.rows(&format!("{}{architecture}", self.list), callbacks)?;
            found.retain(|row| row.callback == callback);
            let made = found.iter().map(|row| self.made(row));
            let made = made.collect::<Result<Vec<_>, String>>()?;
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

    fn made(&self, row: &Row) -> Result<Made, String> {
        let (found, known) = (row.arguments.len(), width(self.columns));
        if found != known {
            return Err(format!("{}: {found} columns, not {known}", row.place));
        }
        let mut values = Vec::new();
        let fields = fields(self.columns, &row.arguments, &mut values);
        let fields = fields.map_err(|error| format!("{}: {error}", row.place))?;
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
) -> Result<String, String> {
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
    fn rust(&self, words: &[String], values: &mut Vec<String>) -> Result<String, String> {
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
