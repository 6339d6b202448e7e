//! Which runtime a process gets, and what it is told when it gets none.

mod common;

use candle_rocm_runtime::runtime::{self, RuntimeKind};
use candle_rocm_runtime::{Context, ErrorKind};
use candle_rocm_testing::needs::{self, Need};
use common::in_process;

/// A folder without any library, in place of ROCm.
const NOWHERE: (&str, &str) = ("CANDLE_ROCM_HIP_LIBRARY", "/nonexistent/libamdhip64.so");

#[test]
fn no_gpu_is_an_error_that_names_the_emulator() {
    in_process(
        "no_gpu_is_an_error_that_names_the_emulator",
        &[NOWHERE, ("CANDLE_ROCM_RUNTIME", "")],
        || {
            let error = Context::new(0).unwrap_err();
            assert_eq!(*error.kind(), ErrorKind::Runtime);
            let text = error.to_string();
            assert!(text.contains("/nonexistent/libamdhip64.so"), "{text}");
            assert!(text.contains("CANDLE_ROCM_RUNTIME=emulator"), "{text}");
            // A program may then choose the emulator, in its own name.
            runtime::select(RuntimeKind::Emulator).unwrap();
            assert!(Context::new(0).unwrap().device().is_emulated());
            assert!(runtime::select(RuntimeKind::Amd)
                .unwrap_err()
                .to_string()
                .contains("already in use"));
            runtime::select(RuntimeKind::Emulator).unwrap();
        },
    );
}

#[test]
fn every_usual_place_is_named() {
    in_process(
        "every_usual_place_is_named",
        &[
            ("CANDLE_ROCM_HIP_LIBRARY", ""),
            ("ROCM_PATH", "/nonexistent/rocm"),
            ("VIRTUAL_ENV", "/nonexistent/venv"),
            ("CANDLE_ROCM_RUNTIME", "amd"),
            // Cargo puts its own folder there, in which the emulator's library lies under AMD's name.
            ("LD_LIBRARY_PATH", ""),
        ],
        || {
            let text = Context::new(0).err().map(|error| error.to_string());
            // On a machine with ROCm a library is found, and with a GPU nothing is missing.
            let text = text.filter(|text| !text.contains("finds no GPU"));
            let rocm = "this machine has ROCm, so its absence cannot be shown";
            let Some(text) = needs::found(Need::MachineWithoutRocm, text.ok_or(rocm)) else {
                return;
            };
            for place in [
                "/nonexistent/rocm/lib/libamdhip64.so.7",
                "/nonexistent/rocm/lib/libamdhip64.so.6",
                "/opt/rocm/lib/libamdhip64.so",
                "\n  libamdhip64.so.7",
            ] {
                assert!(text.contains(place), "{place}: {text}");
            }
        },
    );
}

#[test]
fn the_variable_chooses() {
    in_process(
        "the_variable_chooses",
        &[("CANDLE_ROCM_RUNTIME", "emulator")],
        || {
            let context = Context::new(0).unwrap();
            assert_eq!(context.device().runtime().kind(), RuntimeKind::Emulator);
        },
    );
}

#[test]
fn a_misspelt_runtime_is_an_error() {
    in_process(
        "a_misspelt_runtime_is_an_error",
        &[("CANDLE_ROCM_RUNTIME", "emu")],
        || {
            let text = Context::new(0).unwrap_err().to_string();
            assert!(
                text.contains("emu") && text.contains("amd, emulator and nvidia"),
                "{text}"
            );
        },
    );
}

#[test]
fn nvidia_is_announced() {
    in_process(
        "nvidia_is_announced",
        &[("CANDLE_ROCM_RUNTIME", "nvidia")],
        || {
            let text = Context::new(0).unwrap_err().to_string();
            assert!(text.contains("feature `nvidia`"), "{text}");
        },
    );
}
