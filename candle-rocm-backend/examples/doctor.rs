//! Prints what is wrong with this machine's GPUs, and what to do. `cargo xtask doctor` runs it.
//!
//! With `--targets a,b` the kernels are not those of this program, but those that a build for `a` and `b` has.

use candle_rocm_backend::doctor::{self, Place};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut place = Place::here();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The program is at its end when they are.
    let arguments: &'static [String] = arguments.leak();
    match arguments {
        [] => {}
        [option, targets] if option == "--targets" => {
            place.embedded.targets = targets.split(',').collect();
            place.embedded.reason = "what a build here compiles";
        }
        _ => {
            eprintln!("usage: doctor [--targets gfx942,gfx11-generic]");
            return ExitCode::from(2);
        }
    }
    let report = doctor::examine_at(&place);
    println!("{report}");
    match report.is_healthy() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
