//! What runs on AMD's HIP, and how it is started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};
use serde_json::Value;

use super::packages::Set;
use super::parts::Parts;
use super::root::Root;
use crate::cargo::{self, cargo};
use crate::conformance::Through;
use crate::suites::EVERYTHING;

/// The packages whose tests run.
const RUNTIME: &str = "candle-rocm-runtime";
const EMULATOR: &str = "rocm-emulator";
/// The test program of collectives, which needs several GPUs: see [`super::collectives`].
pub const COMMUNICATION: &str = "communication";
/// How long a program may take: AMD's HIP does not always come to an end when a process does.
const LIMIT_SECONDS: u32 = 600;
/// Their test programs that use a GPU by HIP. What needs a library of AMD's besides is ignored there: see
/// [`super::libraries`].
const TESTS: [(&str, &str); 28] = [
    (RUNTIME, "blas_lt"),
    (RUNTIME, "blas_lt_objects"),
    (RUNTIME, "buffers"),
    (RUNTIME, "compiled"),
    (RUNTIME, "convolution"),
    (RUNTIME, "dnn"),
    (RUNTIME, "dnn_layers"),
    (RUNTIME, "driver_api"),
    (RUNTIME, "gemm"),
    (RUNTIME, "gemm_library"),
    (RUNTIME, "graphs"),
    (EMULATOR, "hip_host_program"),
    (RUNTIME, "hipblaslt"),
    (RUNTIME, "hiprtc"),
    (RUNTIME, "large_product"),
    (RUNTIME, "launches"),
    (RUNTIME, "memory"),
    (RUNTIME, "pool_workloads"),
    (RUNTIME, "profile"),
    (RUNTIME, "random"),
    (RUNTIME, "raw_handles"),
    (RUNTIME, "reports"),
    (RUNTIME, "rocrand"),
    (RUNTIME, "rocsparse"),
    (RUNTIME, "split_rows"),
    (RUNTIME, "streams"),
    (RUNTIME, "transposed"),
    (RUNTIME, "tuner"),
];
/// Of those, what the short part leaves to the whole one: it takes minutes.
const LONG: [&str; 2] = ["convolution", "gemm"];
/// The example that the short part runs, and the others.
const EXAMPLES: [(&str, &[&str]); 3] = [
    (
        "llama",
        &["--prompt", "Once upon a time", "--max-tokens", "24"],
    ),
    ("gpt2", &["--prompt", "47+85="]),
    (
        "quantized-llama",
        &["--prompt", "Once upon a time", "--max-tokens", "24"],
    ),
];

/// Tests that cannot run on AMD's HIP, or do not pass there yet, and why.
const LEFT_OUT: [(&str, &str, &str); 16] = [
    (
        "hip_host_program",
        "one_element_out_of_bounds_is_caught",
        "as of `launches` below",
    ),
    (
        "hip_host_program",
        "a_missing_architecture_is_named",
        "AMD's HIP ends such a program by itself",
    ),
    (
        "hip_host_program",
        "functions_have_the_versions_of_amds_library",
        "about our own library's file",
    ),
    (
        "launches",
        "one_element_too_many_is_caught",
        "AMD's driver gives memory in pages, and HIP shares 2 MiB out: what is one element further is another's or nobody's",
    ),
    (
        "split_rows",
        "a_fault_names_the_kernel_asked_for_and_the_one_that_ran",
        "as above; AMD's error comes when the GPU is waited for, and names no kernel",
    ),
    (
        "gemm_library",
        "the_library_multiplies",
        "the stand-in for rocBLAS multiplies on the host at once, before what the stream was given has run",
    ),
    ("gemm_library", "what_follows_a_product_follows_the_librarys", "as above"),
    ("gemm_library", "each_stream_has_a_handle_which_outlives_it", "as above"),
    ("gemm_library", "each_thread_has_a_handle_which_outlives_it", "as above"),
    ("tuner", "a_library_is_timed_too", "as above"),
    ("blas_lt", "hipblaslt_multiplies_with_what_follows", "the same of the stand-in for hipBLASLt"),
    ("blas_lt", "hipblaslt_reads_a_c_that_is_not_d", "as above"),
    ("blas_lt", "hipblaslt_chooses_once_for_a_shape", "as above"),
    ("blas_lt", "a_choice_that_fails_is_not_kept", "as above"),
    (
        "memory",
        "running_out_gives_the_cache_back_first",
        "AMD's HIP has no room for a second segment of 32 MiB in the 64 MiB of the test",
    ),
    (
        "pool_workloads",
        "what_two_streams_freed_is_joined",
        "AMD's streams run by themselves: what two others freed need not be done when a third one is",
    ),
];
/// Test programs of the runtime that have nothing to do with AMD's HIP, and why.
const NOT_ABOUT_IT: [(&str, &str); 14] = [
    (
        "ranges",
        "what another profiler is told, with a library of its own in its place",
    ),
    (
        "absent_features",
        "builds of features that no patch stands for",
    ),
    (
        "machine",
        "lists of GPUs that the emulator makes up, and errors about them",
    ),
    ("machines", "as above"),
    (
        "graph_check",
        "faults of HIP's graphs, which the stand-in plays",
    ),
    (
        COMMUNICATION,
        "ours over several GPUs, whose peers the stand-in has; AMD's RCCL runs with --rccl",
    ),
    (
        "amd_provider",
        "where the library is searched for, with ours in its place",
    ),
    (
        "runtime_choice",
        "which runtime is chosen where there is none",
    ),
    (
        "host_calls",
        "counts calls, with a library of its own in HIP's place",
    ),
    (
        "hiprtc_or_clang",
        "which of them compiles, with a library of its own in hiprtc's place",
    ),
    (
        "convolution_library",
        "who makes convolutions, with a stand-in for MIOpen that convolves on the host at once",
    ),
    ("nvrtc", "needs an NVIDIA GPU"),
    ("programs", "as above"),
    ("plans", "plans for GPUs by their figures, without one"),
];

/// How programs are started on AMD's HIP.
pub struct Runner {
    script: PathBuf,
    hip: PathBuf,
}

impl Runner {
    /// With the libraries of these sets, and the driver's commands answered by `model`.
    pub fn new(root: &Root, sets: &[&Set], model: &Path) -> Result<Runner> {
        let folder = cargo::target_folder().join("rocm");
        fs::create_dir_all(&folder)?;
        let script = folder.canonicalize()?.join("run");
        let text = format!(
            "#!/bin/sh\nexec timeout {LIMIT_SECONDS} {:?} --library-path {:?} --preload {model:?} \"$@\"\n",
            root.loader(),
            std::env::join_paths(sets.iter().map(|set| root.libraries(set)))?
        );
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        Ok(Runner {
            script,
            hip: root.hip(),
        })
    }

    /// The way to the GPU.
    pub fn through(&self) -> Through {
        Through {
            library: self.hip.clone(),
            runner: Some(self.script.clone()),
        }
    }
}

/// What was built.
pub struct Programs {
    /// The library that takes the driver's place.
    pub model: PathBuf,
    /// Test programs, by name.
    tests: Vec<(String, PathBuf)>,
    examples: Vec<(String, PathBuf)>,
}

impl Programs {
    /// Builds them as all tests are built: for some packages alone cargo would choose other features, and compile all of them
    /// again.
    pub fn build() -> Result<Programs> {
        let mut command = cargo(&["build", "--lib"]);
        command.args(EVERYTHING);
        command.args(TESTS.iter().flat_map(|(_, test)| ["--test", test]));
        command.args(["--test", COMMUNICATION]);
        command.args(EXAMPLES.iter().flat_map(|(example, _)| ["--bin", example]));
        let mut programs = Programs {
            model: PathBuf::new(),
            tests: Vec::new(),
            examples: Vec::new(),
        };
        for message in &cargo::messages(&mut command)? {
            programs.note(message);
        }
        ensure!(
            programs.model.is_file(),
            "cargo built no library of kfd-emulator"
        );
        Ok(programs)
    }

    /// What cargo says that it built.
    fn note(&mut self, message: &Value) {
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let is_test = message["profile"]["test"] == true;
        let manifest = message["manifest_path"].as_str().map(Path::new);
        let folder = manifest.and_then(Path::parent).and_then(Path::file_name);
        let folder = folder.and_then(|folder| folder.to_str());
        let executable = message["executable"].as_str().map(PathBuf::from);
        match (folder, is_test, executable) {
            (Some(RUNTIME | EMULATOR), true, Some(file)) => {
                self.tests.push((name.to_owned(), file));
            }
            (Some("examples"), false, Some(file)) => self.examples.push((name.to_owned(), file)),
            (Some("kfd-emulator"), false, None) => {
                let files = message["filenames"].as_array().into_iter().flatten();
                let mut files = files.filter_map(Value::as_str);
                if let Some(library) = files.find(|file| file.ends_with(".so")) {
                    self.model = PathBuf::from(library);
                }
            }
            _ => {}
        }
    }

    /// The command that runs one of the test programs on one GPU, in its package's folder.
    pub fn test(&self, runner: &Runner, name: &str, arch: &str) -> Result<Command> {
        let several = [(RUNTIME, COMMUNICATION)];
        let mut listed = TESTS.iter().chain(&several);
        let listed = listed.find(|(_, test)| *test == name);
        let (package, _) = listed.with_context(|| format!("{name} is no program of the list"))?;
        let mut command = runner.through().command(find(&self.tests, name)?, arch);
        command.current_dir(cargo::root().join(package));
        Ok(command)
    }

    /// The tests on one GPU.
    pub fn tests(&self, runner: &Runner, arch: &str, short: bool, parts: &mut Parts) -> Result<()> {
        for (package, name) in TESTS
            .iter()
            .filter(|(_, name)| !short || !LONG.contains(name))
        {
            let mut command = self.test(runner, name, arch)?;
            for (program, test, _) in LEFT_OUT {
                if program == *name {
                    command.args(["--skip", test]);
                }
            }
            let part = format!("{package}: {name} on {arch}");
            parts.run(&part, || cargo::run_quietly(&mut command));
        }
        Ok(())
    }

    /// The examples on one GPU: what they write must be what they write in the emulator's own process.
    pub fn examples(
        &self,
        runner: &Runner,
        arch: &str,
        short: bool,
        parts: &mut Parts,
    ) -> Result<()> {
        let count = if short { 1 } else { EXAMPLES.len() };
        for (name, arguments) in &EXAMPLES[..count] {
            let program = find(&self.examples, name)?;
            let written = |mut command: Command| {
                command.args(["--device", "rocm", "--temperature", "0"]);
                cargo::output(command.args(*arguments).current_dir(cargo::root()))
            };
            let mut here = Command::new(program);
            here.env("CANDLE_ROCM_RUNTIME", "emulator");
            here.env("ROCM_EMU_ARCH", arch);
            parts.run(&format!("example {name} on {arch}"), || {
                let expected = written(here)?;
                let text = written(runner.through().command(program, arch))?;
                ensure!(
                    text == expected && !text.is_empty(),
                    "wrote {text:?} instead of {expected:?}"
                );
                eprintln!("  the same text: {}", text.trim());
                Ok(())
            });
        }
        Ok(())
    }
}

/// The program of this name.
fn find<'a>(programs: &'a [(String, PathBuf)], name: &str) -> Result<&'a Path> {
    let found = programs.iter().find(|(program, _)| program == name);
    let (_, file) = found.with_context(|| format!("cargo built no program {name}"))?;
    Ok(file)
}

/// Say what did not run, and why.
pub fn print_left_out() {
    eprintln!("\nNot run on AMD's HIP:");
    for (program, test, reason) in LEFT_OUT {
        eprintln!("  {program}: {test}: {reason}");
    }
    for (program, reason) in NOT_ABOUT_IT {
        eprintln!("  {program}: {reason}");
    }
}

#[cfg(test)]
mod tests {
    use super::{LEFT_OUT, NOT_ABOUT_IT, RUNTIME, TESTS};
    use crate::cargo;

    /// The source of a test program.
    fn source(program: &str) -> String {
        let (package, _) = TESTS.iter().find(|(_, test)| *test == program).unwrap();
        let file = format!("{package}/tests/{program}.rs");
        std::fs::read_to_string(cargo::root().join(file)).unwrap()
    }

    #[test]
    fn every_program_of_the_runtimes_runs_or_says_why_not() {
        let folder = cargo::root().join("candle-rocm-runtime/tests");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(program) = name.strip_suffix(".rs") else {
                continue;
            };
            let without = NOT_ABOUT_IT.iter().any(|(other, _)| *other == program);
            assert_ne!(TESTS.contains(&(RUNTIME, program)), without, "{program}");
        }
    }

    #[test]
    fn what_is_left_out_exists() {
        for (program, test, _) in LEFT_OUT {
            assert!(
                source(program).contains(&format!("fn {test}()")),
                "{program}: {test}"
            );
        }
    }
}
