//! HIP as one table of function pointers, and the providers that fill it.

pub mod amd;
pub(crate) mod calls;
#[cfg(feature = "emulator")]
pub mod emulator;
#[cfg(feature = "nvidia")]
pub mod nvidia;
pub mod table;
pub mod types;

/// Why a program without the feature `emulator` has no emulated GPU, and how to get one: by the crate that a user of
/// candle-rocm names, or without building anew.
#[cfg_attr(feature = "emulator", allow(dead_code))]
pub(crate) const NO_EMULATOR: &str =
    "this program was built without the emulated GPU, which candle-rocm-backend brings by its default feature \
     `emulator`: add to the program's dependencies candle-rocm-backend = \
     { git = \"https://github.com/candle-rocm/candle-rocm\" }. Or leave the program as it is and take the emulator for \
     AMD's library: `cargo build --release -p amdhip64` in a clone of candle-rocm, CANDLE_ROCM_RUNTIME=amd, and \
     CANDLE_ROCM_HIP_LIBRARY=<the clone>/target/release/libamdhip64.so";

/// What else there is for a program that finds no GPU.
pub(crate) fn without_gpu() -> &'static str {
    match cfg!(feature = "emulator") {
        true => "CANDLE_ROCM_RUNTIME=emulator runs on the emulated GPU",
        false => {
            "Without a GPU, CANDLE_ROCM_RUNTIME=emulator says how this program gets an emulated one"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NO_EMULATOR;

    /// The workspace's file of this name.
    fn read(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(name);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn what_the_emulators_absence_names_is_there() {
        let backend = read("candle-rocm-backend/Cargo.toml");
        assert!(backend.contains("name = \"candle-rocm-backend\""));
        assert!(backend.contains("default = [\"emulator\"]"), "{backend}");
        let library = read("rocm-emulator/libamdhip64/Cargo.toml");
        assert!(library.contains("name = \"amdhip64\""), "{library}");
        let repository = read("Cargo.toml");
        let line = repository
            .lines()
            .find(|line| line.starts_with("repository"));
        let address = line.unwrap().split('"').nth(1).unwrap();
        for named in [
            address,
            "candle-rocm-backend",
            "amdhip64",
            super::amd::LIBRARY_VARIABLE,
        ] {
            assert!(NO_EMULATOR.contains(named), "{named}");
        }
        // What a user of the patched crates alone does not have.
        assert!(!NO_EMULATOR.contains("candle-rocm-runtime"));
    }
}
