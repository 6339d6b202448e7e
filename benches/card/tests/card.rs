//! The program as its users run it, on emulated GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use candle_rocm_card_record::paste::{paste, LINES};
use candle_rocm_card_record::{Part, Record, State};
use candle_rocm_testing::needs;
use candle_rocm_testing::process::{self, End, Ended};

/// The GPUs whose digests these tests hold, of those that builds have kernels for.
const GPUS: [&str; 2] = ["gfx1100", "gfx942"];

/// The first of them that this build has kernels for.
fn any_gpu() -> &'static str {
    let serves = |arch: &str| needs::serves(arch, candle_rocm_kernels::serves);
    let found = GPUS.into_iter().find(|arch| serves(arch));
    found.expect("kernels for one of the two")
}

/// The program on an emulated GPU.
fn card(arch: &str, folder: &Path, arguments: &[&str]) -> Ended {
    let program = Path::new(env!("CARGO_BIN_EXE_candle-rocm-card"));
    let mut command: Command = process::program(program);
    command
        .current_dir(folder)
        .args(arguments)
        .env("CANDLE_ROCM_RUNTIME", "emulator")
        .env("ROCM_EMU_ARCH", arch)
        // What earlier runs timed is no matter of these.
        .env_remove("CANDLE_ROCM_GEMM_TUNE");
    process::run(&mut command, process::PATIENCE)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("candle-rocm-card.json")
}

fn whole(arch: &str) {
    if !needs::serves(arch, candle_rocm_kernels::serves) {
        return;
    }
    let folder = folder();
    let ended = card(arch, folder.path(), &["--short"]);
    assert_eq!(ended.end, process::PASSED, "{}", ended.text());
    let record = Record::load(&file(&folder)).unwrap();
    assert!(record.emulated && record.short);
    for part in Part::ALL {
        assert!(record.part(part).len() >= 3, "{part}: {}", ended.text());
    }
    let block: Vec<&str> = ended.stdout.trim().lines().collect();
    assert_eq!(block, paste(&record).lines().collect::<Vec<_>>());
    assert!(block.len() <= LINES);
    assert!(
        block[0].contains("nothing wrong; times are the emulator's"),
        "{}",
        block[0]
    );
    // Every result that has a digest has the recorded bits.
    for item in record.part(Part::Results) {
        let of = |key| item.number(key).unwrap();
        assert_eq!(item.text("recorded"), Some(arch), "{}", item.line);
        assert_eq!(of("equal"), of("cases"), "{}: {}", item.name, item.line);
    }
}

#[test]
fn an_emulated_gfx1100_is_right() {
    whole("gfx1100");
}

#[test]
fn an_emulated_gfx942_is_right() {
    whole("gfx942");
}

#[test]
fn a_wrong_bit_is_told_with_family_and_smallest_case() {
    let folder = folder();
    let arguments = [
        "--short",
        "--only",
        "results",
        "--plant",
        "results/softmax:bit40",
        "--budget",
        "20",
    ];
    let ended = card(any_gpu(), folder.path(), &arguments);
    assert_eq!(ended.end, End::Code(1), "{}", ended.text());
    let record = Record::load(&file(&folder)).unwrap();
    let item = record.item(Part::Results, "softmax").unwrap();
    assert_eq!(item.state, State::Wrong);
    // Three rows of 21 elements are the smallest rung with more than 40 elements.
    let smallest = &item.data["smallest"];
    let case = smallest["case"].as_str().unwrap();
    assert!(case.ends_with("size 21"), "{case}");
    let written = parity::recording::Recording::load(Path::new(smallest["file"].as_str().unwrap()));
    let written = written.unwrap_or_else(|_| {
        let path = folder.path().join(smallest["file"].as_str().unwrap());
        parity::recording::Recording::load(&path).unwrap()
    });
    for tensor in ["input 0", "found", "truth"] {
        assert!(written.outcomes[tensor].is_ok(), "{tensor}");
    }
    // Nothing else is wrong.
    let bad: Vec<_> = record
        .items()
        .filter(|(_, item)| item.state.is_bad())
        .collect();
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert!(ended.stdout.contains("WRONG softmax: "), "{}", ended.stdout);
}

#[test]
fn a_process_that_aborts_or_hangs_is_told_and_the_rest_goes_on() {
    for (how, state, patience) in [("abort", State::Fault, "100"), ("hang", State::Hang, "15")] {
        let folder = folder();
        let plant = format!("checks/events:{how}");
        let arguments = [
            "--short",
            "--only",
            "checks",
            "--plant",
            &plant,
            "--patience",
            patience,
        ];
        let ended = card(any_gpu(), folder.path(), &arguments);
        assert_eq!(ended.end, End::Code(1), "{}", ended.text());
        let record = Record::load(&file(&folder)).unwrap();
        let checks = record.part(Part::Checks);
        assert_eq!(record.item(Part::Checks, "events").unwrap().state, state);
        assert_eq!(checks.len(), 8, "{}", ended.text());
        let others = checks.iter().filter(|item| item.name != "events");
        for item in others {
            assert!(!item.state.is_bad(), "{}: {}", item.name, item.line);
        }
    }
}

#[test]
fn a_run_goes_on_where_another_ended() {
    let folder = folder();
    let arch = any_gpu();
    let first = card(
        arch,
        folder.path(),
        &["--short", "--only", "checks", "--budget", "0"],
    );
    assert!(
        first
            .stderr
            .contains("--resume candle-rocm-card.json goes on"),
        "{}",
        first.text()
    );
    let again = card(arch, folder.path(), &["--short"]);
    assert!(
        again.stderr.contains("--resume goes on with it"),
        "{}",
        again.text()
    );
    let rest = [
        "--short",
        "--only",
        "facts,checks",
        "--resume",
        "candle-rocm-card.json",
    ];
    let second = card(arch, folder.path(), &rest);
    assert_eq!(second.end, process::PASSED, "{}", second.text());
    let before = Record::load(&file(&folder)).unwrap();
    assert_eq!(before.part(Part::Checks).len(), 8);
    // What is there is not looked at again.
    let third = card(arch, folder.path(), &rest);
    assert_eq!(third.end, process::PASSED, "{}", third.text());
    assert_eq!(Record::load(&file(&folder)).unwrap(), before);
    let pasted = card(arch, folder.path(), &["paste", "candle-rocm-card.json"]);
    assert_eq!(pasted.stdout, third.stdout);
}

#[test]
fn no_gpu_is_told_and_is_no_success() {
    let folder = folder();
    let program = Path::new(env!("CARGO_BIN_EXE_candle-rocm-card"));
    let mut command = process::program(program);
    command
        .current_dir(folder.path())
        .args(["--short"])
        .env("CANDLE_ROCM_RUNTIME", "amd")
        .env("CANDLE_ROCM_HIP_LIBRARY", "/no/such/libamdhip64.so");
    let ended = process::run(&mut command, Duration::from_secs(120));
    assert_eq!(ended.end, End::Code(1), "{}", ended.text());
    let record = Record::load(&file(&folder)).unwrap();
    assert_eq!(
        record.item(Part::Facts, "card").unwrap().state,
        State::Wrong
    );
    assert_eq!(
        record.item(Part::Facts, "doctor").unwrap().state,
        State::Wrong
    );
    assert_eq!(
        record.item(Part::Results, "start").unwrap().state,
        State::Fault
    );
}
