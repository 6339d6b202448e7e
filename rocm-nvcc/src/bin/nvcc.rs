//! An `nvcc` for build scripts that call one: compiles kernels for AMD GPUs. `nvcc --help` says what it knows.

use std::process::ExitCode;

use rocm_nvcc::nvcc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = std::env::current_dir().map_err(|error| format!("the current folder: {error}"));
    let done = folder.and_then(|folder| {
        let command = nvcc::parse(&arguments, &folder).map_err(|error| error.to_string())?;
        nvcc::run(&command).map_err(|error| error.to_string())
    });
    match done {
        Ok(said) => {
            print!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("nvcc (candle-rocm): {why}");
            ExitCode::FAILURE
        }
    }
}
