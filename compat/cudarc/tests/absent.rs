//! Features that nothing stands for fail with a sentence, and only those.

use std::path::Path;
use std::process::Command;

/// Compiles the file that has the sentences, with one feature on or none; what the compiler said if it failed.
fn compiled(feature: Option<&str>) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args([
        "--edition=2021",
        "--crate-type=lib",
        "--emit=metadata",
        "--out-dir",
    ]);
    command.arg(folder.path());
    command.args(feature.map(|name| format!("--cfg=feature=\"{name}\"")));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/absent.rs"));
    let output = command.output().expect("the compiler starts");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn each_says_what_is_not_there_and_what_to_do() {
    for (feature, library) in [
        ("cusolver", "cuSOLVER"),
        ("cusparse", "cuSPARSE"),
        ("cufft", "cuFFT"),
    ] {
        let said = compiled(Some(feature)).expect_err("it is not there");
        let sentence = format!(
            "cudarc's feature `{feature}` stands for {library}, which candle-rocm has nothing for"
        );
        assert!(
            said.contains(&sentence) && said.contains("turn off the feature"),
            "{said}"
        );
    }
}

#[test]
fn others_do_not() {
    for feature in [None, Some("cublas"), Some("nccl"), Some("cuda-12080")] {
        compiled(feature).expect("it is there");
    }
}
