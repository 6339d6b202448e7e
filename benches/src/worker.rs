//! A process that measures on request.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{bail, Context, Result};
use candle_rocm_bench_protocol::{Answer, Request};

use crate::cases::Asked;

/// PyTorch's worker, which needs no file then.
const TORCH: &str = include_str!("../worker/torch_worker.py");

/// A process that measures on request.
#[derive(Debug)]
pub struct Worker {
    /// `ours`, `stock`, `torch` and so on.
    pub name: String,
    /// The name of its GPU.
    pub gpu: String,
    /// What it is asked for.
    pub asked: Asked,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a program with variables in its environment.
    ///
    /// # Errors
    /// There is no such program, or it finds no GPU.
    pub fn start(name: &str, program: &Path, environment: &[(String, String)]) -> Result<Self> {
        let mut command = Command::new(program);
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        Self::of(name, &mut command)
    }

    /// Starts PyTorch's worker with a Python that has PyTorch.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_torch(python: &OsStr) -> Result<Self> {
        Self::of("torch", Command::new(python).arg("-c").arg(TORCH))
    }

    /// Starts a command.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn of(name: &str, command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| {
                format!("starting the worker `{name}` ({:?})", command.get_program())
            })?;
        let requests = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut worker = Self {
            name: name.into(),
            gpu: String::new(),
            asked: Asked::Everything,
            child,
            requests,
            answers,
        };
        match worker.read()? {
            Answer::Hello { gpu } => worker.gpu = gpu,
            Answer::Error(error) => bail!("the worker `{name}` finds no GPU: {error}"),
            other => bail!("the worker `{name}` begins with {other:?}"),
        }
        Ok(worker)
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The process has ended or does not speak the protocol. A case that fails is an [`Answer::Error`].
    pub fn ask(&mut self, request: &Request) -> Result<Answer> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let sent = self
            .requests
            .write_all(&line)
            .and_then(|()| self.requests.flush());
        sent.with_context(|| format!("the worker `{}` reads no more", self.name))?;
        self.read()
            .with_context(|| format!("asking `{}` for {}", self.name, request.case))
    }

    fn read(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.child.wait()?;
            bail!("the worker `{}` has ended: {status}", self.name);
        }
        serde_json::from_str(&line)
            .with_context(|| format!("the worker `{}` says: {line}", self.name))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be in the middle of something long; its answers are of no more use.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
