//! Prints what is wrong with this machine's GPUs, and what to do. `cargo xtask doctor` runs it.
//!
//! With `--targets a,b` the kernels are not those of this program, but those that a build for `a` and `b` has; with `--json`
//! the report is for programs.

use candle_rocm_backend::doctor::{self, Place};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut place = Place::here();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The program is at its end when they are.
    let arguments: &'static [String] = arguments.leak();
    let (json, arguments) = match arguments {
        [first, rest @ ..] if first == "--json" => (true, rest),
        all => (false, all),
    };
    match arguments {
        [] => {}
        [option, targets] if option == "--targets" => {
            place.embedded.targets = targets.split(',').collect();
            place.embedded.reason = "what a build here compiles";
        }
        _ => {
            eprintln!("usage: doctor [--json] [--targets gfx942,gfx11-generic]");
            return ExitCode::from(2);
        }
    }
    let report = doctor::examine_at(&place);
    match json {
        true => println!("{}", report.to_json()),
        false => println!("{report}"),
    }
    match report.is_healthy() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
