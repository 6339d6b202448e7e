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
    /// The columns that are the key.
    keys: &'static [usize],
    /// The column that is listed.
    size: usize,
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
                number("columns"),
                word("lanes_multiply", UNITS),
                number("lanes"),
                number("threads"),
                number("rows"),
                number("step"),
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
            columns: &[
                word("dtype", DTYPES),
                number("columns"),
                word("lanes_multiply", UNITS),
                number("lanes"),
                number("threads"),
                number("rows"),
                number("step"),
            ],
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
                columns: &[
                    word("operands", OPERANDS),
                    number("columns"),
                    word("lanes_multiply", UNITS),
                    number("lanes"),
                    number("threads"),
                    number("rows"),
                    number("step"),
                ],
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
        header: "convolution/convolution_kernels.cuh",
        out: "convolution_kernels.rs",
        tables: &[
            Table {
                name: "KERNELS",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (3, 0),
                row: "Kernel",
                columns: &[
                    word("dtype", DTYPES),
                    number("rows"),
                    number("columns"),
                    number("waves_m"),
                    number("waves_n"),
                    number("stage_bytes"),
                ],
                sizes: None,
            },
            Table {
                name: "DEPTHWISE",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (3, 2),
                row: "Depthwise",
                columns: &[word("dtype", DTYPES), number("taps"), number("stride")],
                sizes: None,
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
            let values = found.iter().map(|row| self.values(row));
            let values = values.collect::<Result<Vec<_>, String>>()?;
            rows += &format!("    {field}: &[\n{}    ],\n", self.rows(&values));
            if let Some(of) = &self.sizes {
                sizes += &format!("    {field}: &[\n{}    ],\n", of.rows(&values));
            }
        }
        let text = |name: &str, row: &str, rows: &str| {
            format!("static {name}: Lists<{row}> = Lists {{\n{rows}}};\n")
        };
        let of_sizes = self.sizes.as_ref();
        let of_sizes = of_sizes.map(|of| text(of.name, of.row, &sizes));
        Ok(text(self.name, self.row, &rows) + &of_sizes.unwrap_or_default())
    }

    /// The Rust of a row's values.
    fn values(&self, row: &Row) -> Result<Vec<String>, String> {
        let (found, known) = (row.arguments.len(), self.columns.len());
        if found != known {
            return Err(format!("{}: {found} columns, not {known}", row.place));
        }
        let fields = self.columns.iter().zip(&row.arguments);
        let rust = fields.map(|(column, value)| column.rust(value));
        let rust: Result<_, String> = rust.collect();
        rust.map_err(|error| format!("{}: {error}", row.place))
    }

    fn rows(&self, values: &[Vec<String>]) -> String {
        let row = |values: &Vec<String>| {
            let fields = self.columns.iter().zip(values);
            let fields = fields.filter(|(column, _)| column.is_field);
            let fields: Vec<_> = fields
                .map(|(column, value)| format!("{}: {value}", column.name))
                .collect();
            format!("        {} {{ {} }},\n", self.row, fields.join(", "))
        };
        values.iter().map(row).collect()
    }
}

impl Sizes {
    fn rows(&self, values: &[Vec<String>]) -> String {
        let mut found: Vec<(String, Vec<&str>)> = Vec::new();
        for row in values {
            let key: Vec<_> = self.keys.iter().map(|&key| row[key].as_str()).collect();
            let (key, size) = (key.join(", "), row[self.size].as_str());
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
    fn rust(&self, value: &str) -> Result<String, String> {
        let name = self.name;
        match self.kind {
            Kind::Number => match value.parse::<u32>() {
                Ok(number) => Ok(number.to_string()),
                Err(error) => Err(format!("{name} {value}: {error}")),
            },
            Kind::Word(words) => match words.iter().find(|(word, _)| *word == value) {
                Some((_, rust)) => Ok(rust.to_string()),
                None => {
                    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                    Err(format!("{name} {value}: none of {}", words.join(", ")))
                }
            },
        }
    }
}
