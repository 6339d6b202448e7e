//! The build reads what headers list strictly: what it does not know is an error that names the file and the line.

#[path = "../build/families.rs"]
mod families;
#[path = "../build/macros.rs"]
mod macros;
#[path = "../build/structs.rs"]
mod structs;

use candle_rocm_kernels::SOURCES;

/// What the build says where a text of a header is another; nothing where it takes it.
fn said(header: &str, from: &str, to: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (kernels, out) = (folder.path().join("kernels"), folder.path().join("out"));
    for folder in [&kernels, &out] {
        std::fs::create_dir(folder).expect("a new folder");
    }
    SOURCES.extract(&kernels).expect("the headers");
    let file = kernels.join(header);
    let text = std::fs::read_to_string(&file).expect("the header");
    assert!(text.contains(from), "{header} has no {from:?}");
    let line = text[..text.find(from).unwrap_or(0)].matches('\n').count() + 1;
    std::fs::write(&file, text.replacen(from, to, 1)).expect("the header");
    let made = families::write(&kernels, &out).and_then(|()| structs::write(&kernels, &out));
    let error = made.err()?;
    let place = format!("{}:{line}: ", file.display());
    let rest = error.strip_prefix(&place);
    Some(rest.map_or_else(|| error.clone(), str::to_string))
}

#[test]
fn lists_as_they_are_make_tables() {
    let header = "matmul/matmul_kernels.cuh";
    assert_eq!(said(header, "pragma once", "pragma once"), None);
}

#[test]
fn what_a_list_does_not_know_is_named_with_its_line() {
    let header = "matmul/matmul_kernels.cuh";
    for (from, to, error) in [
        (
            "X(TYPE, Tile, 64,",
            "X(TYPE, Tiel, 64,",
            "schedule Tiel: none of Tile, Lines, Direct",
        ),
        (
            "X(TYPE, Tile, 64,",
            "X(TYPE, Tile, many,",
            "rows many: invalid digit found in string",
        ),
        (
            "X(TYPE, Tile, 64,",
            "X(TYPE, Tile, 64, 64,",
            "12 columns, not 11",
        ),
        ("SUM(TYPE)", "NONE(TYPE)", "no list NONE"),
        (
            "SUM(TYPE)",
            "SUM TYPE",
            "MATMUL_VEGA20_TILES has something else than rows: SUM TYPE",
        ),
        (
            "MATMUL_KERNELS_Rdna4 ",
            "MATMUL_KERNELS_Rdna5 ",
            "MATMUL_KERNELS_Rdna5 is a list for no architecture",
        ),
    ] {
        assert_eq!(said(header, from, to).as_deref(), Some(error), "{to}");
    }
}

#[test]
fn architectures_have_lists_of_their_own() {
    let header = "matmul/normed_kernels.cuh";
    let missing = said(header, "#define NORMED_KERNELS_Cdna4", "#define OTHER");
    assert!(missing.is_some_and(|error| error.ends_with("no list NORMED_KERNELS_Cdna4")));
    let twice = "#define NORMED_KERNELS_Cdna4 NORMED_KERNELS_Cdna1\n#define NORMED_KERNELS_Cdna4";
    let twice = said(header, "#define NORMED_KERNELS_Cdna4", twice);
    assert!(twice.is_some_and(|error| error.ends_with("NORMED_KERNELS_Cdna4 is defined twice")));
}

#[test]
fn structs_have_fields_alone() {
    let header = "matmul/gemm_problem.cuh";
    for (from, to) in [
        ("    uint32_t wide_c;", "    size_t wide_c;"),
        ("    uint32_t wide_c;", "    uint32_t wide_c[2];"),
        ("    uint32_t wide_c;", "    uint32_t wide_c"),
    ] {
        let error = format!("GemmProblem: {}: no field of an argument", to.trim());
        assert_eq!(said(header, from, to), Some(error));
    }
}
