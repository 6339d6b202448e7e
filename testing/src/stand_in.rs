//! The emulator as a drop-in `libamdhip64.so`, which cargo builds for no test by itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names the library where it was built already.
pub const VARIABLE: &str = "CANDLE_ROCM_TESTS_HIP_LIBRARY";

/// The library: that of [`VARIABLE`], or one that goes where the running test was built, in the same profile. Built by itself
/// the emulator may need other features of its dependencies than with the workspace, and is compiled again.
///
/// # Panics
/// It is not there, it does not build, or the test is in no target folder.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(library) = std::env::var_os(VARIABLE).map(PathBuf::from) {
            assert!(library.exists(), "{VARIABLE}={}", library.display());
            return library;
        }
        // target/<profile>/deps/<the test>
        let test = std::env::current_exe().expect("the running program has a path");
        let folder = test.parent().and_then(Path::parent);
        let folder = folder.unwrap_or_else(|| panic!("{} is in no target folder", test.display()));
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") => "dev",
            Some(profile) => profile,
            None => panic!("{} is in no target folder", test.display()),
        };
        // The cargo that runs the test.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut command = Command::new(cargo);
        command
            .args(["build", "--quiet", "--package", "amdhip64"])
            .args(["--profile", profile])
            .arg("--target-dir")
            .arg(folder.parent().expect("a profile's folder has a parent"))
            .current_dir(workspace);
        let output = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(
            output.status.success(),
            "{command:?}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let library = folder.join("libamdhip64.so");
        assert!(library.exists(), "{}", library.display());
        library
    })
}
