//! Families of kernels, which describe themselves: the columns of their lists, by architecture.

use std::path::Path;

use crate::save;
use rocm_toolchain::headers::lists::Header;
use rocm_toolchain::headers::tables::{Column, Kind, Sizes, Table};
use rocm_toolchain::Result;

/// A file of Rust, made of a header.
struct Family {
    header: &'static str,
    out: &'static str,
    tables: &'static [Table],
}

/// What lists are named for (kernels/portable/architecture.cuh), and the field of `by_architecture::Lists`.
const ARCHITECTURES: [(&str, &str); 9] = [
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
    ("Pipelined", "Schedule::Pipelined"),
    ("Direct", "Schedule::Direct"),
];
const OWN_ROWS: &[(&str, &str)] = &[("Registers", ""), ("Lds", "")];
const GROUPED_SCHEDULES: &[(&str, &str)] = &[("Tile", ""), ("Pipelined", ""), ("Rows", "")];
/// Whether workgroups of a launch hand sums over.
const REDUCTIONS: &[(&str, &str)] = &[("InKernel", "true"), ("SeparateKernel", "false")];
/// Whether A's rows are together, by the letter of the operation.
const FORMS: &[(&str, &str)] = &[("n", "true"), ("t", "false")];
/// Whether lanes multiply, or a matrix unit.
const UNITS: &[(&str, &str)] = &[("Lanes", "true"), ("Matrix", "false")];
/// Whether there is but the pair of operations by which both operands have k together.
const OPS: &[(&str, &str)] = &[("all", "false"), ("tn", "true")];

/// A tile of a convolution, by so many wavefronts.
const TILES: &[Column] = &[
    word("dtype", DTYPES),
    number("rows"),
    number("columns"),
    number("waves_m"),
    number("waves_n"),
    number("stage_bytes"),
];

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
        out: "gemm_tiles.rs",
        tables: &[Table {
            name: "KERNELS",
            list: "GEMM_KERNELS_",
            callbacks: (3, 0),
            row: "Kernel",
            columns: &[
                word("dtype", DTYPES),
                number("rows"),
                number("columns"),
                number("thread_rows"),
                number("thread_columns"),
                number("stages"),
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
        header: "matmul/weights_kernels.cuh",
        out: "weights_kernels.rs",
        tables: &[
            Table {
                name: "WEIGHT_KERNELS",
                list: "WEIGHT_KERNELS_",
                callbacks: (3, 0),
                row: "Normed",
                columns: &[word("dtype", DTYPES), MEASURES],
                sizes: None,
            },
            Table {
                name: "NORMED_WEIGHT_KERNELS",
                list: "WEIGHT_KERNELS_",
                callbacks: (3, 1),
                row: "Normed",
                columns: &[word("dtype", DTYPES), MEASURES],
                sizes: None,
            },
            Table {
                name: "STREAMED_KERNELS",
                list: "WEIGHT_KERNELS_",
                callbacks: (3, 2),
                row: "Streamed",
                columns: &[
                    word("dtype", DTYPES),
                    number("rows"),
                    number("gated_rows"),
                    number("round"),
                    number("lds_kib"),
                    number("resident"),
                    number("most"),
                    number("normed_most"),
                ],
                sizes: None,
            },
        ],
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
        header: "convolution/convolution_kernels.cuh",
        out: "convolution_kernels.rs",
        tables: &[
            Table {
                name: "KERNELS",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 0),
                row: "Kernel",
                columns: TILES,
                sizes: None,
            },
            Table {
                name: "SLICED",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 1),
                row: "Kernel",
                columns: TILES,
                sizes: None,
            },
            Table {
                name: "DEPTHWISE",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 3),
                row: "Depthwise",
                columns: &[word("dtype", DTYPES), number("taps"), number("stride")],
                sizes: None,
            },
            Table {
                name: "HALO",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 4),
                row: "Halo",
                columns: &[
                    word("dtype", DTYPES),
                    number("rows"),
                    number("columns"),
                    number("waves_m"),
                    number("waves_n"),
                    number("unit"),
                ],
                sizes: None,
            },
            Table {
                name: "LINES",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 5),
                row: "Lines",
                columns: &[
                    word("dtype", DTYPES),
                    number("rows"),
                    number("columns"),
                    number("waves_m"),
                    number("waves_n"),
                    number("stage_bytes"),
                    number("taps"),
                    number("unit"),
                ],
                sizes: None,
            },
            Table {
                name: "GROUPED",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 7),
                row: "Depthwise",
                columns: &[word("dtype", DTYPES), number("taps"), number("stride")],
                sizes: None,
            },
            Table {
                name: "CHANNELS",
                list: "CONVOLUTION_KERNELS_",
                callbacks: (8, 6),
                row: "Channels",
                columns: &[
                    word("dtype", DTYPES),
                    of_kernels(word("schedule", &[("Staged", ""), ("Direct", "")])),
                    number("rows"),
                    number("columns"),
                    number("waves_m"),
                    number("waves_n"),
                    number("stage_bytes"),
                    number("stages"),
                    number("lds_kib"),
                ],
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
    Family {
        header: "attention/decode_kernels.cuh",
        out: "decode_kernels.rs",
        tables: &[Table {
            name: "KERNELS",
            list: "ATTEND_KERNELS_",
            callbacks: (1, 0),
            row: "Listed",
            columns: &[
                number("elements"),
                number("queries"),
                number("matrix"),
                // What follows the macro of rows.
                of_kernels(word("more", &[("__VA_ARGS__", "")])),
            ],
            sizes: None,
        }],
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
pub fn write(kernels: &Path, out: &Path) -> Result<()> {
    for family in FAMILIES {
        let header = Header::read(&kernels.join(family.header))?;
        let mut text = String::new();
        for table in family.tables {
            text += &table.rust(&header, &ARCHITECTURES)?;
        }
        save(&out.join(family.out), &text)?;
    }
    Ok(())
}
