//! The runtime: its library, the GPUs that it finds, and who multiplies matrices.

use candle_rocm_runtime::gemm::library::GEMM_VARIABLE;
use candle_rocm_runtime::runtime::least_release::{self, too_old};
use candle_rocm_runtime::runtime::machine::{word_on_shared_memory, Machine};
use candle_rocm_runtime::runtime::{self, RUNTIME_VARIABLE};
use candle_rocm_runtime::{device, gemm, graph, RuntimeKind};

use super::place::{Gpu, Place, Started};
use super::report::Finding;

/// Starts the process's runtime, or takes the one that runs.
pub(super) fn start() -> Result<Started, String> {
    let runtime = runtime::current().map_err(|error| with_what_was_tried(error.to_string()))?;
    let gpu = |ordinal: usize| -> Result<Gpu, String> {
        let text = |error: candle_rocm_runtime::Error| error.to_string();
        let device = runtime.device(ordinal).map_err(text)?;
        let info = device.info();
        Ok(Gpu {
            name: info.name.clone(),
            arch: info.arch.clone(),
            memory: info.total_memory,
            pci_address: device.pci_address(),
            library: gemm::library::examine(device).map_err(text),
            graphs: graph::check::tried(device).map(|why| why.map_err(str::to_owned)),
        })
    };
    Ok(Started {
        kind: runtime.kind(),
        library: runtime.library().to_string(),
        version: runtime.version(),
        gpus: (0..runtime.device_count()).map(gpu).collect(),
        nodes: match runtime.kind() {
            RuntimeKind::Amd => Vec::new(),
            other => device::nodes(other),
        },
    })
}

/// An error of the runtime with the list of what was tried, which the process's first error alone has.
fn with_what_was_tried(error: String) -> String {
    match runtime::libraries_tried() {
        Some(tried) if !error.contains(&tried) => format!("{error}\n{tried}"),
        _ => error,
    }
}

/// The runtime that the environment chooses.
pub(super) fn chosen(place: &Place<'_>) -> Result<RuntimeKind, String> {
    match (place.variable)(RUNTIME_VARIABLE) {
        Some(text) => text
            .parse()
            .map_err(|error: candle_rocm_runtime::Error| error.to_string()),
        None => Ok(RuntimeKind::Amd),
    }
}

/// The library.
pub(super) fn library(
    kind: RuntimeKind,
    started: &Result<Started, String>,
    findings: &mut Vec<Finding>,
) {
    let started = match started {
        Ok(started) => started,
        // The error says what to do.
        Err(error) => {
            return findings.push(Finding::wrong("runtime", format!("{kind}: {error}"), ""))
        }
    };
    let version = version(kind, started.version);
    findings.push(Finding::good(
        "runtime",
        format!("{kind}{version}, {}", started.library),
    ));
}

/// The GPUs that the library lists, those that it does not, and the variables that decide it.
pub(super) fn devices(
    place: &Place<'_>,
    started: &Started,
    machine: &Machine,
    findings: &mut Vec<Finding>,
) {
    const SUBJECT: &str = "device";
    let best = machine.best(&place.embedded.targets);
    let another_works = best.is_some();
    let is_best = |number: usize| best == Some(number);
    for (number, gpu) in started.gpus.iter().enumerate() {
        let gpu = match gpu {
            Ok(gpu) => gpu,
            Err(error) => {
                let found = format!("{number}: {error}");
                findings.push(match another_works {
                    true => Finding::note(SUBJECT, found, ""),
                    false => Finding::wrong(SUBJECT, found, ""),
                });
                continue;
            }
        };
        let names = machine.names(number).unwrap_or_default();
        let gibibytes = gpu.memory as f64 / (1u64 << 30) as f64;
        let found = format!("{number}: {names}, {gibibytes:.1} GiB");
        findings.push(match word_on_shared_memory(&gpu.arch, gpu.memory) {
            Some(word) => Finding::note(SUBJECT, found, word),
            None if machine.override_of(number).is_some() => Finding::note(SUBJECT, found, ""),
            None => Finding::good(SUBJECT, found),
        });
        if let (RuntimeKind::Amd, Some(old)) = (started.kind, too_old(&gpu.arch, started.version)) {
            let found = format!("{number}: {}", old.text);
            findings.push(match another_works && !is_best(number) {
                true => Finding::note("release", found, ""),
                false => Finding::wrong("release", found, ""),
            });
        }
    }
    graphs(started, findings);
    for node in machine.hidden() {
        let found = format!(
            "node {} ({}) is hidden from the runtime",
            node.number, node.processor
        );
        findings.push(Finding::note(SUBJECT, found, ""));
    }
    if !machine.variables.is_empty() {
        findings.push(Finding::note("variables", machine.assignments(), ""));
    }
}

/// Graphs, of GPUs on which they were tried.
fn graphs(started: &Started, findings: &mut Vec<Finding>) {
    const SUBJECT: &str = "graphs";
    for (number, gpu) in started.gpus.iter().enumerate() {
        let Some(tried) = gpu.as_ref().ok().and_then(|gpu| gpu.graphs.as_ref()) else {
            continue;
        };
        findings.push(match tried {
            Ok(()) => Finding::good(
                SUBJECT,
                format!("device {number}: they compute what their kernels compute one by one"),
            ),
            Err(why) => Finding::note(SUBJECT, why, ""),
        });
    }
}

fn version(kind: RuntimeKind, number: i32) -> String {
    match (kind, number) {
        (_, 0) | (RuntimeKind::Emulator, _) => String::new(),
        (RuntimeKind::Amd, number) => format!(" {}", least_release::shown(number)),
        (RuntimeKind::Nvidia, n) => format!(" {}.{}", n / 1000, n / 10 % 100),
    }
}

/// The vendor's library of matrix products, which is never needed unless the user demands it.
pub(super) fn products(place: &Place<'_>, started: &Started, findings: &mut Vec<Finding>) {
    const SUBJECT: &str = "products";
    let choice = (place.variable)(GEMM_VARIABLE);
    let demanded = choice.is_some_and(|choice| choice.trim() == "library");
    let mut said = Vec::new();
    for gpu in started.gpus.iter().flatten() {
        let finding = match &gpu.library {
            Ok(library) => Finding::good(SUBJECT, library),
            Err(error) if demanded => Finding::wrong(
                SUBJECT,
                error,
                format!("{GEMM_VARIABLE}=own needs no library"),
            ),
            Err(_) if started.kind == RuntimeKind::Emulator => {
                Finding::good(SUBJECT, "by our own kernels")
            }
            Err(error) => Finding::note(SUBJECT, error, "not needed: our own kernels multiply"),
        };
        // The same for each GPU, as a rule.
        if !said.contains(&finding) {
            said.push(finding);
        }
    }
    findings.extend(said);
}
