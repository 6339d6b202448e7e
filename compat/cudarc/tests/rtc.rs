//! Who compiles nothing at run time builds no compiler's front end.

use std::process::Command;

/// What compiles CUDA source for AMD GPUs.
const FRONT_END: &str = "rocm-nvcc ";
/// What candle-core 0.11.1 asks of cudarc.
const OF_CANDLE: &str =
    "std,cublas,cublaslt,curand,driver,nvrtc,f16,f8,cuda-version-from-build-system,dynamic-linking";

/// The packages that a package of this workspace is built of, a line each.
fn packages(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn has_front_end(arguments: &[&str]) -> bool {
    let all = packages(arguments);
    assert!(all.contains("candle-rocm-runtime "), "{all}");
    all.lines().any(|line| line.starts_with(FRONT_END))
}

#[test]
fn candle_core_does_not_build_it() {
    let of_candle = ["--no-default-features", "--features", OF_CANDLE];
    assert!(!has_front_end(&of_candle));
    assert!(!has_front_end(&["--package", "candle-rocm-backend"]));
}

#[test]
fn who_compiles_builds_it() {
    assert!(has_front_end(&[]));
    let backend = ["--package", "candle-rocm-backend", "--features", "rtc"];
    assert!(has_front_end(&backend));
}
