//! The headers in the C library's place: with them and ours alone, the test programs compile, and names that they lack
//! are errors.

use std::path::{Path, PathBuf};
use std::process::Command;

use candle_rocm_testing::hip;
use rocm_nvcc::run_time::{self, Library, Unit};
use rocm_nvcc::{Error, Options};

/// What [`Alone`] says of a source that it has nothing against.
const FINE: &str = "fine";

/// A clang that sees nothing but what it is given, in place of hiprtc. It checks, and compiles nothing: all are
/// refused, so that the user's cache keeps nothing of it.
struct Alone;

impl Library for Alone {
    fn identity(&self) -> String {
        "a checker".to_owned()
    }

    fn compile(&self, unit: &Unit<'_>) -> Result<(Vec<u8>, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let save = |name: &str, text: &str| {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        save(unit.name, unit.text);
        for (name, text) in unit.headers {
            save(name, text);
        }
        let options = unit.options.iter();
        let output = Command::new(&hip::toolchain().clang)
            .current_dir(folder.path())
            .args([
                "-x",
                "hip",
                "--cuda-device-only",
                "-fsyntax-only",
                "-nogpulib",
                "-I.",
            ])
            .args(options.filter(|option| *option != "--hiprtc-no-builtin-header"))
            .arg(unit.name)
            .output()
            .unwrap();
        match output.status.success() {
            true => Err(FINE.to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

fn check(name: &str, text: &str, include: Vec<PathBuf>) -> Result<(), Error> {
    let options = Options {
        include,
        ..Options::default()
    };
    for arch in ["gfx942", "gfx1100"] {
        match run_time::compile(&Alone, &[arch.to_owned()], name, text, &options) {
            Err(Error::Compile { log, .. }) if log == FINE => {}
            Err(error) => return Err(error),
            Ok(_) => unreachable!("nothing is compiled"),
        }
    }
    Ok(())
}

#[test]
fn the_programs_compile_without_the_machines_headers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        match check(name, &text, vec![folder.clone()]) {
            Ok(()) => seen += 1,
            // Macros make theirs.
            Err(Error::Ptx(_)) => assert!(["ptx.cu", "matrices.cu"].contains(&name), "{name}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(seen >= 5, "{seen} programs");
}

#[test]
fn what_is_not_there_is_an_error_with_its_line() {
    let error = check("mine.cu", "int a;\n#include <vector>\n", Vec::new()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("mine.cu:2:10: fatal error: 'vector'"),
        "{error}"
    );
}
