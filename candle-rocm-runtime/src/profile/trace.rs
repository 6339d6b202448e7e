//! A trace in Chrome's format, which <https://ui.perfetto.dev> opens: what each thread gave to GPUs, what each queue of a GPU
//! ran, and the memory in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{json, Value};

/// The host among the trace's processes; GPU n is n + 1.
const HOST: usize = 0;

/// A file that is being written.
pub(super) struct Trace {
    path: PathBuf,
    file: BufWriter<File>,
    is_empty: bool,
    named: BTreeSet<usize>,
    /// Numbers of queues, which HIP knows by addresses.
    queues: BTreeMap<(usize, u64), usize>,
    /// Memory in use, as written last.
    in_use: BTreeMap<usize, usize>,
}

/// What a thread did.
pub(super) struct HostSlice<'a> {
    pub name: &'a str,
    pub category: &'static str,
    pub thread: u64,
    /// Since the trace's beginning.
    pub start: Duration,
    pub took: Duration,
}

/// What a queue of a GPU ran.
pub(super) struct GpuSlice<'a> {
    pub name: &'a str,
    pub gpu: usize,
    pub queue: u64,
    /// Microseconds since the trace's beginning.
    pub start: f64,
    pub took: f64,
    pub bytes: usize,
    pub grid: Option<[(u32, u32, u32); 2]>,
}

impl Trace {
    /// A new file in the place of one that is there; the program goes on without a trace where that fails.
    pub fn create(path: &Path) -> Option<Self> {
        let created = File::create(path).and_then(|mut file| {
            file.write_all(b"[")?;
            Ok(file)
        });
        match created {
            Ok(file) => Some(Self {
                path: path.to_owned(),
                file: BufWriter::new(file),
                is_empty: true,
                named: BTreeSet::new(),
                queues: BTreeMap::new(),
                in_use: BTreeMap::new(),
            }),
            Err(error) => {
                let path = path.display();
                tracing::error!(%path, %error, "the trace of CANDLE_ROCM_TRACE cannot be written");
                None
            }
        }
    }

    pub fn host(&mut self, slice: &HostSlice) {
        self.name_process(HOST);
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        self.write(&json!({
            "ph": "X", "pid": HOST, "tid": slice.thread, "name": slice.name, "cat": slice.category,
            "ts": microseconds(slice.start), "dur": microseconds(slice.took),
        }));
    }

    pub fn gpu(&mut self, slice: &GpuSlice) {
        let process = slice.gpu + 1;
        self.name_process(process);
        let next = self.queues.len() + 1;
        let queue = *self.queues.entry((slice.gpu, slice.queue)).or_insert(next);
        let mut details = serde_json::Map::new();
        if slice.bytes > 0 {
            details.insert("bytes".to_owned(), slice.bytes.into());
        }
        if let Some([workgroups, threads]) = slice.grid {
            details.insert("workgroups".to_owned(), json!(workgroups));
            details.insert("work-items".to_owned(), json!(threads));
        }
        self.write(&json!({
            "ph": "X", "pid": process, "tid": queue, "name": slice.name, "cat": "gpu",
            "ts": slice.start, "dur": slice.took, "args": details,
        }));
    }

    /// The memory in use on a GPU, in bytes, where it changed.
    pub fn memory(&mut self, gpu: usize, at: f64, bytes: usize) {
        if self.in_use.insert(gpu, bytes) != Some(bytes) {
            self.write(&json!({
                "ph": "C", "pid": gpu + 1, "name": "memory in use", "ts": at, "args": { "bytes": bytes },
            }));
        }
    }

    fn name_process(&mut self, process: usize) {
        if self.named.insert(process) {
            let name = match process {
                HOST => "host".to_owned(),
                gpu => format!("GPU {}", gpu - 1),
            };
            self.write(&json!({
                "ph": "M", "pid": process, "name": "process_name", "args": { "name": name },
            }));
        }
    }

    fn write(&mut self, event: &Value) {
        let separator = if self.is_empty { "\n" } else { ",\n" };
        self.is_empty = false;
        let written = write!(self.file, "{separator}{event}");
        self.note(written);
    }

    /// What was written is in the file: a program that is ended leaves it, without the bracket that readers do not need.
    pub fn flush(&mut self) {
        let flushed = self.file.flush();
        self.note(flushed);
    }

    pub fn finish(mut self) {
        let written = self.file.write_all(b"\n]\n");
        self.note(written);
        self.flush();
    }

    fn note(&self, written: std::io::Result<()>) {
        if let Err(error) = written {
            let path = self.path.display();
            tracing::error!(%path, %error, "the trace of CANDLE_ROCM_TRACE cannot be written");
        }
    }
}
