//! Headers of kernels are read strictly: what the reader does not know is an error that names the file and the line.

use std::path::PathBuf;

use rocm_toolchain::headers::lists::Header;
use rocm_toolchain::headers::tables::{Column, Kind, Sizes, Table};
use rocm_toolchain::headers::{numbers, structs};
use rocm_toolchain::Result;

/// Names of lists, and fields.
const ARCHITECTURES: [(&str, &str); 2] = [("Old", "old"), ("New", "new")];

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_field: true,
    }
}

const SHAPE: &[Column] = &[
    column("rows", Kind::Number),
    Column {
        is_field: false,
        ..column("stages", Kind::Number)
    },
];
const PRODUCTS: Table = Table {
    name: "PRODUCTS",
    list: "PRODUCTS_",
    callbacks: (2, 0),
    row: "Product",
    columns: &[
        column("dtype", Kind::Word(&[("f16", "F16"), ("f32", "F32")])),
        column("shape", Kind::Struct("Shape", SHAPE)),
        column("lds", Kind::Number),
    ],
    sizes: Some(Sizes {
        name: "ROWS",
        row: "(Dtype, &'static [u32])",
        keys: &[0],
        size: 1,
    }),
};

const LISTS: &str = "// A comment.
#define TILES(X, SUM, TYPE)  \\
    X(TYPE, 64, 2, 0)        \\
    X(TYPE, 128, 4, 96)      \\
    SUM(TYPE)
#define PRODUCTS_Old(X, SUM) \\
    TILES(X, SUM, f16)       \\
    TILES(X, SUM, f32)
#define PRODUCTS_New PRODUCTS_Old
";

/// A header of this text, in a folder that is kept as long as it.
struct File {
    folder: tempfile::TempDir,
}

impl File {
    fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Self { folder };
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("kernels.cuh")
    }

    /// What an error says after the file's name.
    fn said<T>(&self, result: Result<T>) -> Option<String> {
        let error = result.err()?.to_string();
        let file = self.path().display().to_string();
        let rest = error.strip_prefix(&file).map(str::to_string);
        Some(rest.unwrap_or_else(|| panic!("{error} does not name {file}")))
    }
}

/// What is said of the lists where one of their texts is another.
fn said(from: &str, to: &str) -> Option<String> {
    assert!(LISTS.contains(from), "the lists have no {from:?}");
    let file = File::of(&LISTS.replacen(from, to, 1));
    let header = Header::read(&file.path());
    file.said(header.and_then(|header| PRODUCTS.rust(&header, &ARCHITECTURES)))
}

#[test]
fn lists_become_tables() {
    let file = File::of(LISTS);
    let header = Header::read(&file.path()).unwrap();
    let rust = PRODUCTS.rust(&header, &ARCHITECTURES).unwrap();
    let list = "\
        Product { dtype: F16, shape: Shape { rows: 64 }, lds: 0 },
        Product { dtype: F16, shape: Shape { rows: 128 }, lds: 96 },
        Product { dtype: F32, shape: Shape { rows: 64 }, lds: 0 },
        Product { dtype: F32, shape: Shape { rows: 128 }, lds: 96 },
";
    let sizes = "        (F16, &[64, 128]),\n        (F32, &[64, 128]),\n";
    let of_both = |name: &str, row: &str, list: &str| {
        let list = list.trim_start();
        format!(
            "static {name}: Lists<{row}> = Lists {{\n    old: &[\n        {list}    ],\n    new: &[\n        {list}    \
             ],\n}};\n"
        )
    };
    let products = of_both("PRODUCTS", "Product", list);
    assert_eq!(
        rust,
        products + &of_both("ROWS", "(Dtype, &'static [u32])", sizes)
    );
}

#[test]
fn what_a_list_does_not_know_is_named_with_its_line() {
    for (from, to, expected) in [
        (
            "TILES(X, SUM, f16)",
            "TILES(X, SUM, f61)",
            ":3: dtype f61: none of f16, f32",
        ),
        (
            "X(TYPE, 128,",
            "X(TYPE, many,",
            ":4: rows many: invalid digit found in string",
        ),
        ("X(TYPE, 64,", "X(TYPE, 64, 64,", ":3: 5 columns, not 4"),
        ("SUM(TYPE)", "NONE(TYPE)", ":5: no list NONE"),
        (
            "SUM(TYPE)",
            "SUM TYPE",
            ":5: TILES has something else than rows: SUM TYPE",
        ),
        ("f32)", "f32, f16)", ":8: TILES with 4 arguments, not 3"),
        (
            "#define PRODUCTS_New PRODUCTS_Old",
            "#define PRODUCTS_New PRODUCTS_Old\n#define PRODUCTS_Newer PRODUCTS_Old",
            ":10: PRODUCTS_Newer is a list for no architecture",
        ),
    ] {
        assert_eq!(said(from, to).as_deref(), Some(expected), "{to}");
    }
    assert_eq!(said("A comment", "Another"), None);
}

#[test]
fn architectures_have_lists_of_their_own() {
    let missing = said("#define PRODUCTS_New", "#define OTHER");
    assert_eq!(missing.as_deref(), Some(": no list PRODUCTS_New"));
    let empty = said("PRODUCTS_New PRODUCTS_Old", "PRODUCTS_New(X, SUM)");
    assert_eq!(empty.as_deref(), Some(": the list PRODUCTS_New is empty"));
    let twice = "#define PRODUCTS_New(X, SUM) X(f16, 1, 1, 1)\n#define PRODUCTS_New";
    let twice = said("#define PRODUCTS_New", twice);
    assert_eq!(twice.as_deref(), Some(":10: PRODUCTS_New is defined twice"));
}

#[test]
fn rows_have_numbers_where_they_are_asked_for() {
    let file = File::of("#define FOR_HEADS(X, ...) X(64, 4, __VA_ARGS__)\n");
    let header = Header::read(&file.path()).unwrap();
    let rows = header.rows("FOR_HEADS", 1).unwrap();
    assert_eq!(rows[0].numbers(0).unwrap(), [64, 4]);
    for said in [
        file.said(rows[0].numbers::<3>(0)),
        file.said(rows[0].numbers::<2>(2)),
    ] {
        assert_eq!(said.as_deref(), Some(r#":1: ["64", "4", "__VA_ARGS__"]"#));
    }
}

const STRUCTS: &str = "
struct Scales {
    const void *values;
    uint32_t shift, format; // two
};

struct Problem {
    uint8_t kind;
    // The factors.
    Scales scales;
    double alpha;
    uint16_t last;
};
";

fn layouts(text: &str) -> (File, Result<String>) {
    let file = File::of(text);
    let made = structs::rust(
        file.folder.path(),
        &[("kernels.cuh", &["Scales", "Problem"])],
    );
    (file, made)
}

#[test]
fn structs_are_laid_out_as_the_compiler_does() {
    let (_file, made) = layouts(STRUCTS);
    let expected = r#"/// `Scales` of kernels/kernels.cuh, which says what the fields are.
pub const SCALES: Layout = Layout {
    bytes: 16,
    fields: &[
        Field { name: "values", offset: 0, bytes: 8 },
        Field { name: "shift", offset: 8, bytes: 4 },
        Field { name: "format", offset: 12, bytes: 4 },
    ],
};
/// `Problem` of kernels/kernels.cuh, which says what the fields are.
pub const PROBLEM: Layout = Layout {
    bytes: 40,
    fields: &[
        Field { name: "kind", offset: 0, bytes: 1 },
        Field { name: "scales", offset: 8, bytes: 16 },
        Field { name: "alpha", offset: 24, bytes: 8 },
        Field { name: "last", offset: 32, bytes: 2 },
    ],
};
"#;
    assert_eq!(made.unwrap(), expected);
}

#[test]
fn arrays_are_fields() {
    let (_file, made) = layouts(&STRUCTS.replace("last;", "last[3], other;"));
    let made = made.unwrap();
    for field in [
        "\"last\", offset: 32, bytes: 6",
        "\"other\", offset: 38, bytes: 2",
    ] {
        assert!(made.contains(field), "{made}");
    }
}

#[test]
fn structs_have_fields_alone() {
    for (to, code) in [
        ("    size_t last;", "size_t last;"),
        ("    uint16_t last[N];", "uint16_t last[N];"),
        ("    uint16_t last", "uint16_t last"),
        ("    Other last;", "Other last;"),
    ] {
        let (file, made) = layouts(&STRUCTS.replace("    uint16_t last;", to));
        let expected = format!(":12: Problem: {code}: no field of an argument");
        assert_eq!(file.said(made), Some(expected));
    }
    let (file, made) = layouts(&STRUCTS.replace("struct Problem", "struct Question"));
    assert_eq!(file.said(made).as_deref(), Some(": no struct Problem"));
    let (file, made) = layouts(STRUCTS.strip_suffix("};\n").unwrap());
    assert_eq!(
        file.said(made).as_deref(),
        Some(":7: struct Problem has no end")
    );
}

const NUMBERS: &str = "
enum Grouping {
    // Each by itself, of two.
    GROUPING_BATCH,
    GROUPING_K = 5, // from the fifth on
    GROUPING_LAST,
};
enum Result : uint32_t { RESULT_F32, RESULT_F16 };
static constexpr uint32_t COLUMNS = 128, BITS = 20;
constexpr uint64_t MOST = 1024;
constexpr uint32_t BYTES = COLUMNS / 32 * 36;
constexpr uint32_t LANES = WAVEFRONT / 2;
";

fn numbers_of(names: &[&str]) -> (File, Result<String>) {
    let file = File::of(NUMBERS);
    let made = numbers::rust(file.folder.path(), &[("shared", "kernels.cuh", names)]);
    (file, made)
}

#[test]
fn numbers_are_those_of_enums_and_constants() {
    let (_file, made) = numbers_of(&["Grouping", "Result", "BITS", "COLUMNS", "BYTES", "MOST"]);
    let expected = [
        ("GROUPING_BATCH", "u32", "0"),
        ("GROUPING_K", "u32", "5"),
        ("GROUPING_LAST", "u32", "6"),
        ("RESULT_F32", "u32", "0"),
        ("RESULT_F16", "u32", "1"),
        ("BITS", "u32", "20"),
        ("COLUMNS", "u32", "128"),
        ("BYTES", "u32", "COLUMNS / 32 * 36"),
        ("MOST", "u64", "1024"),
    ];
    let constant = |(name, of, value)| {
        format!("    /// `{name}` of kernels/kernels.cuh.\n    pub const {name}: {of} = {value};\n")
    };
    let expected: String = expected.map(constant).concat();
    let expected = format!("/// Numbers of `shared`.\npub mod shared {{\n{expected}}}\n");
    assert_eq!(made.unwrap(), expected);
}

#[test]
fn numbers_that_only_the_compiler_knows_are_refused() {
    let said = |name| {
        let (file, made) = numbers_of(&[name]);
        file.said(made)
    };
    let computed = ":12: LANES = WAVEFRONT / 2: no value that Rust computes alike";
    assert_eq!(said("LANES").as_deref(), Some(computed));
    // What it is made of was not asked for.
    let of_others = ":11: BYTES = COLUMNS / 32 * 36: no value that Rust computes alike";
    assert_eq!(said("BYTES").as_deref(), Some(of_others));
    assert_eq!(
        said("ROWS").as_deref(),
        Some(": no enum and no constant ROWS")
    );
}
