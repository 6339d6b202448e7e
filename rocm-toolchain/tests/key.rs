//! The names of compiled kernels: of all that these depend on, and the same from release to release.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rocm_toolchain::key::Contents;
use rocm_toolchain::Result;

/// A folder of kernels and one of bitcode in `root`.
fn lay_out_sources(root: &Path) -> (PathBuf, PathBuf) {
    let kernels = root.join("kernels");
    fs::create_dir_all(kernels.join("rows")).unwrap();
    fs::create_dir_all(kernels.join("portable")).unwrap();
    let main = "#include \"portable/a.cuh\"\n# include \"portable/b.cuh\"\n";
    fs::write(kernels.join("rows/reduce.cu"), main).unwrap();
    fs::write(
        kernels.join("portable/a.cuh"),
        "#include \"portable/b.cuh\"\n",
    )
    .unwrap();
    fs::write(kernels.join("portable/b.cuh"), "int x;\n").unwrap();
    let bitcode = root.join("ocml.bc");
    fs::write(&bitcode, [0xff, 0xfe, 1]).unwrap();
    (kernels, bitcode)
}

fn key_of(kernels: &Path, bitcode: &Path, flags: &[&str]) -> Result<String> {
    let contents = Contents::new(vec![kernels.to_path_buf()]);
    contents.key(
        &kernels.join("rows/reduce.cu"),
        &[bitcode.to_path_buf()],
        flags,
    )
}

#[test]
fn a_name_depends_on_contents_and_not_on_places() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (kernels, bitcode) = lay_out_sources(one.path());
    let first = key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap();
    let (elsewhere, same_bitcode) = lay_out_sources(two.path());
    assert_eq!(
        key_of(&elsewhere, &same_bitcode, &["gfx1100", "-O3"]).unwrap(),
        first
    );

    let mut keys = BTreeSet::from([first.clone()]);
    keys.insert(key_of(&kernels, &bitcode, &["gfx1101", "-O3"]).unwrap());
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O2"]).unwrap());
    // As long as before, at the same place.
    fs::write(&bitcode, [0xff, 0xfe, 2]).unwrap();
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap());
    fs::write(kernels.join("portable/b.cuh"), "int y;\n").unwrap();
    keys.insert(key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap());
    assert_eq!(keys.len(), 5);

    fs::remove_file(kernels.join("portable/b.cuh")).unwrap();
    let missing = key_of(&kernels, &bitcode, &[]).unwrap_err().to_string();
    assert!(missing.contains("portable/b.cuh"), "{missing}");
}

/// What an earlier build kept is found again.
#[test]
fn names_are_those_of_earlier_builds() {
    let folder = tempfile::tempdir().unwrap();
    let (kernels, bitcode) = lay_out_sources(folder.path());
    let key = key_of(&kernels, &bitcode, &["gfx1100", "-O3"]).unwrap();
    assert_eq!(key, "e3a7df15e5155d84ca6421b73fafcb93");
}
