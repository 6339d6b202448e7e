//! A test in a process of its own: for what is decided once for a process, for what ends one, and for what does not end.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a process may take before it counts as one that does not end: an emulated GPU on a busy machine is slow.
pub const PATIENCE: Duration = Duration::from_secs(3600);

/// The program that starts a test's programs, where they cannot be started by themselves, such as with libraries of another
/// system; see [`program`].
pub const RUNNER: &str = "CANDLE_ROCM_TEST_RUNNER";

/// In whose child process we are: the test's name.
const CHILD: &str = "CANDLE_ROCM_TEST_CHILD";

/// The variable that says which GPUs are emulated.
pub const GPUS: &str = "ROCM_EMU_ARCH";

/// The value of [`GPUS`] for a machine of so many GPUs alike, each as the first that the tests run on.
pub fn gpus_alike(count: usize) -> String {
    let all = std::env::var(GPUS).unwrap_or_default();
    let first = all.split(',').map(str::trim).next();
    let first = first.filter(|arch| !arch.is_empty()).unwrap_or("gfx1100");
    vec![first; count].join(",")
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code. A test program's are [`PASSED`] and [`FAILED`].
    Code(i32),
    /// By a signal, such as 6 (SIGABRT) or 11 (SIGSEGV).
    Signal(i32),
    /// Not within the time that it was given; it was killed.
    Never,
}

/// What a test program ends with whose tests pass.
pub const PASSED: End = End::Code(0);
/// What one ends with in which a test fails: by a panic that was caught, or by an error.
pub const FAILED: End = End::Code(101);

impl End {
    fn of(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, Some(signal)) => End::Signal(signal),
            // Waited for, so neither stopped nor continued.
            (None, None) => unreachable!("{status}: neither an end by itself nor by a signal"),
        }
    }
}

/// A process that ended, or was ended.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub end: End,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ended {
    /// Both outputs, and the end.
    pub fn text(&self) -> String {
        format!("{}{}\n{:?}", self.stdout, self.stderr, self.end)
    }
}

/// Runs a command until it ends, or for `patience`.
///
/// # Panics
/// It cannot be started.
pub fn run(command: &mut Command, patience: Duration) -> Ended {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Full pipes would hold the process up.
    let [stdout, stderr] = [
        std::thread::spawn(move || everything(stdout)),
        std::thread::spawn(move || everything(stderr)),
    ];
    let until = Instant::now() + patience;
    let end = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break End::of(status);
        }
        if Instant::now() >= until {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            break End::Never;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |thread: std::thread::JoinHandle<String>| thread.join().expect("it only reads");
    Ended {
        end,
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

fn everything(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    let mut pipe = pipe.expect("it is piped");
    pipe.read_to_end(&mut bytes).expect("a pipe can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The command that starts a program, by what [`RUNNER`] names, if it names something: that takes the program's path and its
/// arguments.
pub fn program(path: &Path) -> Command {
    match std::env::var_os(RUNNER).filter(|runner| !runner.is_empty()) {
        Some(runner) => {
            let mut command = Command::new(runner);
            command.arg(path);
            command
        }
        None => Command::new(path),
    }
}

/// The running program: its path.
///
/// # Panics
/// It has none.
fn this_program() -> PathBuf {
    match std::env::var_os(RUNNER).filter(|runner| !runner.is_empty()) {
        // The system calls the runner's own program the running one; it is told the other's path first.
        Some(_) => std::env::args_os().next().map(PathBuf::from),
        None => std::env::current_exe().ok(),
    }
    .expect("the running program has a path")
}

/// The command that runs one test of this program, be it one that is ignored, with its output shown.
///
/// # Panics
/// The running program has no path.
pub fn command_of(test: &str) -> Command {
    let mut command = program(&this_program());
    command
        .args([test, "--exact", "--include-ignored"])
        .args(["--nocapture", "--test-threads=1"])
        .env("RUST_BACKTRACE", "0");
    command
}

/// Runs `body` in a process of its own with these variables set (or, if empty, removed). Called in a test of this name;
/// in that process the body itself runs.
///
/// # Panics
/// The process does not end by passing.
pub fn alone(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(ended) = ended_alone(test, variables, body) {
        // Seen where this process' own output is.
        println!("{}", ended.stdout.trim());
    }
}

/// As [`alone`], and what the process wrote; `None` in that process, once the body has run.
///
/// # Panics
/// As [`alone`].
pub fn ended_alone(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Ended> {
    if is_child_of(test) {
        body();
        return None;
    }
    let mut command = command_of(test);
    command.env(CHILD, test);
    for (name, value) in variables {
        if value.is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    let ended = run(&mut command, PATIENCE);
    assert_eq!(ended.end, PASSED, "{}", ended.text());
    // A misspelt name would run nothing and succeed.
    assert!(ended.stdout.contains("1 passed"), "{}", ended.text());
    Some(ended)
}

/// Whether this process is one that a test of this name made for itself.
pub fn is_child_of(test: &str) -> bool {
    std::env::var(CHILD).as_deref() == Ok(test)
}

/// Whether this process is one that some test made for itself.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: Duration) -> Ended {
        run(Command::new("sh").args(["-c", script]), patience)
    }

    #[test]
    fn ends_are_told_apart() {
        let soon = Duration::from_millis(50);
        for (script, patience, end) in [
            ("exit 0", PATIENCE, PASSED),
            ("exit 101", PATIENCE, FAILED),
            ("kill -ABRT $$", PATIENCE, End::Signal(6)),
            ("kill -SEGV $$", PATIENCE, End::Signal(11)),
            ("exec sleep 60", soon, End::Never),
        ] {
            assert_eq!(shell(script, patience).end, end, "{script}");
        }
    }

    #[test]
    fn outputs_larger_than_a_pipe_are_read() {
        let ended = shell("head -c 200000 /dev/zero; echo error >&2", PATIENCE);
        assert_eq!((ended.end, ended.stdout.len()), (PASSED, 200_000));
        assert_eq!(ended.stderr, "error\n");
    }

    #[test]
    fn the_body_runs_in_the_other_process_alone() {
        const TEST: &str = "process::tests::the_body_runs_in_the_other_process_alone";
        let here = std::process::id().to_string();
        alone(TEST, &[("CANDLE_ROCM_TEST_PARENT", &here)], || {
            let parent = std::env::var("CANDLE_ROCM_TEST_PARENT").unwrap();
            assert_ne!(parent, here);
        });
    }

    #[test]
    #[should_panic(expected = "Code(101)")]
    fn a_body_that_panics_fails_the_test() {
        const TEST: &str = "process::tests::a_body_that_panics_fails_the_test";
        alone(TEST, &[], || {
            // Not by a panic, which this test expects.
            std::process::exit(101)
        });
    }
}
