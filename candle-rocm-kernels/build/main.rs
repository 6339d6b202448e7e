//! Compiles `kernels/*/*.cu` for each chosen GPU architecture and embeds the code objects.
//!
//! Variables: `CANDLE_ROCM_ARCHS` (comma-separated, or `native`), `CANDLE_ROCM_SKIP_KERNELS=1`,
//! `CANDLE_ROCM_KERNEL_CACHE`, `CANDLE_ROCM_KERNEL_CACHE_SIZE`, `CANDLE_ROCM_CLANG`, `CANDLE_ROCM_DEVICE_LIBS`,
//! `ROCM_PATH`.

mod architectures;
mod cache;
mod compile;
mod key;
mod lists;
mod nvidia;
// The project's tests and commands include the file too, and use what the build does not.
#[allow(dead_code)]
mod toolchain;
// The crate's own, which it shares with those that depend on it.
#[allow(dead_code)]
#[path = "../src/topology.rs"]
mod topology;
#[allow(dead_code)]
#[path = "../src/user_cache.rs"]
mod user_cache;
mod workers;

use architectures::Chosen;
use cache::Cache;
use compile::{Compiler, Job, Object};
use key::Contents;
use std::path::{Path, PathBuf};

const SKIP_VARIABLE: &str = "CANDLE_ROCM_SKIP_KERNELS";

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
    println!("cargo::rerun-if-changed=src/topology.rs");
    println!("cargo::rerun-if-changed=src/user_cache.rs");
    let variables = [
        SKIP_VARIABLE,
        user_cache::KERNELS_VARIABLE,
        cache::SIZE_VARIABLE,
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
    lists::write(&kernels, &out)?;
    let contents = Contents::new(vec![kernels.clone()]);
    let sources = compile::sources(&kernels, &contents)?;

    // docs.rs has no GPU compiler either.
    let skip = std::env::var(SKIP_VARIABLE).is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    if skip || std::env::var_os("DOCS_RS").is_some() {
        return write_table(&out, &sources, &Chosen::default(), None);
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
    let choice = std::env::var(architectures::VARIABLE).unwrap_or_default();
    let chosen = architectures::chosen(&choice, &known, topology::processors(Path::new("/")))?;
    if chosen.by_itself {
        // cargo shows it for packages of a workspace; for others, `cargo build -vv` and the errors of a GPU without code do.
        println!(
            "cargo::warning=kernels for {}: {}",
            chosen.archs.join(", "),
            chosen.reason
        );
    }
    let jobs: Vec<Job> = sources
        .iter()
        .flat_map(|source| {
            chosen.archs.iter().map(move |arch| Job {
                source: source.clone(),
                arch: arch.clone(),
            })
        })
        .collect();
    let named = std::env::var_os(user_cache::KERNELS_VARIABLE);
    let (folder, note) = cache::folder(named, user_cache::kernels(), &out)?;
    let limit = std::env::var(cache::SIZE_VARIABLE).unwrap_or_default();
    let cache = Cache::new(folder, cache::limit(&limit)?);
    let objects_folder = fresh_folder(&out)?;
    let compiler = Compiler {
        toolchain: &toolchain,
        contents: &contents,
        cache: &cache,
        out: &objects_folder,
    };
    let objects = workers::run(workers::granted_threads(), jobs.len(), |index, wait| {
        compiler.object(&jobs[index], wait)
    })?;
    report(&jobs, &objects, &toolchain);
    report_cache(&cache, note);
    let table: Vec<(&Job, &Object)> = jobs.iter().zip(&objects).collect();
    write_table(&out, &sources, &chosen, Some(&table))
}

/// The folder of this build's objects, without those of the build before.
fn fresh_folder(out: &Path) -> Result<PathBuf, String> {
    let folder = out.join("objects");
    let context = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(context)?;
    }
    std::fs::create_dir_all(&folder).map_err(context)?;
    Ok(folder)
}

/// Holds the cache to its size, and says where it is and what was wrong with it.
fn report_cache(cache: &Cache, note: Option<String>) {
    let mut troubles = cache.troubles();
    match cache.shrink() {
        Ok(bytes) => eprintln!("cache: {}, {bytes} bytes", cache.folder().display()),
        Err(error) => troubles.push(error),
    }
    for trouble in note.iter().chain(&troubles) {
        println!("cargo::warning=kernel cache: {trouble}");
    }
}

fn environment(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
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
        // `cargo xtask kernel-times` reads it.
        let how = match compiled {
            Some(time) => format!("compiled in {:.1} s", time.as_secs_f32()),
            None => "cached".to_string(),
        };
        eprintln!(
            "{:<10} {:<8} {raw:>9} bytes, {compressed:>8} compressed, {how}",
            job.module(),
            job.arch
        );
        for line in object.warnings.lines() {
            println!("cargo::warning={} for {}: {line}", job.module(), job.arch);
        }
    }
    let sum = |size: fn(&Object) -> usize| objects.iter().map(size).sum::<usize>();
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
    chosen: &Chosen,
    table: Option<&[(&Job, &Object)]>,
) -> Result<(), String> {
    let mut text = format!(
        "/// Whether {SKIP_VARIABLE} left the kernels out.\npub const SKIPPED: bool = {};\n\
         pub const ARCHITECTURES: &[&str] = &{:?};\n\
         /// Why these, for people.\npub const REASON: &str = {:?};\n\
         /// How many kernel files there are.\npub const FILES: usize = {};\n",
        table.is_none(),
        chosen.archs,
        chosen.reason,
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
