//! Every instruction of compiled kernels, against `llvm-objdump`.

use std::path::Path;

use candle_rocm_testing::hip::{compile_to, device_library, Compile};
use candle_rocm_testing::listing::Comparison;
use candle_rocm_testing::llvm::Tools;
use rocm_emulator::isa::Target;

fn compile(source: &Path, target: Target, level: &str, folder: &Path) -> std::path::PathBuf {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let object = folder.join(format!("{stem}-{target}{level}.o"));
    let text = std::fs::read_to_string(source).expect("a source");
    let mut options = Compile::device(target.name());
    options.args.extend([level, "-std=c++17"].map(String::from));
    options.args.extend(device_library(target.name()));
    compile_to(&text, &options, &object);
    object
}

fn check(target: Target) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/isa_support/kernels");
    let mut files: Vec<_> = std::fs::read_dir(&sources)
        .expect("the kernels are in tests/isa_support/kernels")
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    files.sort();
    let mut comparison = Comparison::of(target);
    for source in &files {
        // Unoptimized code brings spills, scratch and calls.
        for level in ["-O3", "-O0"] {
            let object = compile(source, target, level, folder.path());
            comparison.add(&std::fs::read(&object).expect("an object file"));
        }
    }
    let names = comparison.check(Tools::find()).names.len();
    assert!(names > 250, "{target}: only {names} operations were seen");
}

candle_rocm_testing::each_target!(check);
