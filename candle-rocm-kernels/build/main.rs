//! Compiles `kernels/*/*.cu` for each chosen GPU architecture and embeds the code objects.
//!
//! Variables: `CANDLE_ROCM_ARCHS` (comma-separated, or `native`), `CANDLE_ROCM_SKIP_KERNELS=1`,
//! `CANDLE_ROCM_KERNEL_CACHE`, `CANDLE_ROCM_CLANG`, `CANDLE_ROCM_DEVICE_LIBS`, `ROCM_PATH`.

mod architectures;
mod compile;
mod lists;
mod nvidia;
// The project's tests and commands include the file too, and use what the build does not.
#[allow(dead_code)]
mod toolchain;

use compile::{Job, Object};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

const SKIP_VARIABLE: &str = "CANDLE_ROCM_SKIP_KERNELS";
const CACHE_VARIABLE: &str = "CANDLE_ROCM_KERNEL_CACHE";

fn main() {
    if let Err(message) = run() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=kernels");
    let variables = [
        SKIP_VARIABLE,
        CACHE_VARIABLE,
        architectures::VARIABLE,
        toolchain::CLANG_VARIABLE,
        toolchain::DEVICE_LIBS_VARIABLE,
        nvidia::LIBDEVICE_VARIABLE,
    ];
    let installations = toolchain::ROCM_VARIABLES
        .iter()
        .chain(&nvidia::CUDA_VARIABLES);
    for variable in variables.iter().chain(installations) {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(environment("OUT_DIR")?);
    let kernels = Path::new(&environment("CARGO_MANIFEST_DIR")?).join("kernels");

    let sources = compile::sources(&kernels)?;
    lists::write(&kernels, &out)?;

    // docs.rs has no GPU compiler either.
    let skip = std::env::var(SKIP_VARIABLE).is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    if skip || std::env::var_os("DOCS_RS").is_some() {
        return write_table(&out, &sources, &[], None);
    }

    let toolchain = toolchain::find().map_err(|missing| missing.to_string())?;
    println!("cargo::rerun-if-changed={}", toolchain.clang.display());
    println!(
        "cargo::rerun-if-changed={}",
        toolchain.device_libs.display()
    );
    let known = [
        toolchain.processors.clone(),
        nvidia::processors(&toolchain.clang),
    ]
    .concat();
    let archs = architectures::chosen(&known)?;
    let jobs: Vec<Job> = sources
        .iter()
        .flat_map(|source| {
            archs.iter().map(move |arch| Job {
                source: source.clone(),
                arch: arch.clone(),
            })
        })
        .collect();
    let objects = compile_all(&jobs, &kernels, &toolchain, &cache_folder(&out)?)?;
    report(&jobs, &objects, &toolchain);
    let table: Vec<(&Job, &Object)> = jobs.iter().zip(&objects).collect();
    write_table(&out, &sources, &archs, Some(&table))
}

fn environment(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

/// Where compiled kernels are kept between builds: the folder that [`CACHE_VARIABLE`] names, or a folder under the
/// target folder that all profiles share, so that a kernel is compiled once for debug and release together.
/// `cargo clean` removes the latter.
fn cache_folder(out: &Path) -> Result<PathBuf, String> {
    let folder = match std::env::var_os(CACHE_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        // OUT_DIR is <target>/<profile>/build/<package>/out.
        None => match out.ancestors().nth(4) {
            Some(target) if target.parent().is_some() => target.join("candle-rocm-kernels"),
            _ => out.join("candle-rocm-kernels"),
        },
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Compiles on as many threads as cargo grants, and stops at the first failure.
fn compile_all(
    jobs: &[Job],
    kernels: &Path,
    toolchain: &toolchain::Toolchain,
    cache: &Path,
) -> Result<Vec<Object>, String> {
    let threads = std::env::var("NUM_JOBS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(1usize);
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Object, String>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { return };
                let result = compile::compile(job, kernels, toolchain, cache);
                if result.is_err() {
                    next.store(jobs.len(), Ordering::Relaxed);
                }
                *results[index]
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            });
        }
    });
    let done = results.into_iter().map(|slot| {
        slot.into_inner()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    });
    let (mut objects, mut failures) = (Vec::new(), Vec::new());
    for result in done.flatten() {
        match result {
            Ok(object) => objects.push(object),
            Err(message) => failures.push(message),
        }
    }
    match failures.is_empty() {
        true => Ok(objects),
        false => Err(failures.join("\n")),
    }
}

/// Leaves sizes in the build log, and shows clang's warnings.
fn report(jobs: &[Job], objects: &[Object], toolchain: &toolchain::Toolchain) {
    eprintln!("{} ({})", toolchain.clang.display(), toolchain.version);
    eprintln!("device libraries: {}", toolchain.device_libs.display());
    for (job, object) in jobs.iter().zip(objects) {
        let Object {
            raw,
            compressed,
            compiled,
            ..
        } = object;
        let how = if *compiled { "compiled" } else { "cached" };
        eprintln!(
            "{:<10} {:<8} {raw:>9} bytes, {compressed:>8} compressed, {how}",
            job.module(),
            job.arch
        );
        for line in object.warnings.lines() {
            println!("cargo::warning={} for {}: {line}", job.module(), job.arch);
        }
    }
    let sum = |size: fn(&Object) -> u64| objects.iter().map(size).sum::<u64>();
    eprintln!(
        "total: {} bytes, {} compressed",
        sum(|object| object.raw),
        sum(|object| object.compressed)
    );
}

/// Writes `embedded.rs`: a table of (architecture, zstd frame) for each module; empty ones where the kernels were
/// skipped.
fn write_table(
    out: &Path,
    sources: &[PathBuf],
    archs: &[String],
    table: Option<&[(&Job, &Object)]>,
) -> Result<(), String> {
    let mut text = format!(
        "/// Whether {SKIP_VARIABLE} left the kernels out.\npub const SKIPPED: bool = {};\n\
         pub const ARCHITECTURES: &[&str] = &{archs:?};\n\
         /// How many kernel files there are.\npub const FILES: usize = {};\n",
        table.is_none(),
        sources.len()
    );
    for source in sources {
        let name = compile::module(source).to_uppercase();
        text += &format!("pub static {name}: &[(&str, &[u8])] = &[\n");
        let objects = table.unwrap_or_default().iter();
        for (job, object) in objects.filter(|(job, _)| job.source == *source) {
            // Debug formatting quotes and escapes the path.
            text += &format!("    ({:?}, include_bytes!({:?})),\n", job.arch, object.path);
        }
        text += "];\n";
    }
    let file = out.join("embedded.rs");
    std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
}
