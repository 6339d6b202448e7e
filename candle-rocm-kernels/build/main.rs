//! Compiles `kernels/*/*.cu` for each chosen GPU architecture and embeds the code objects.
//!
//! Variables: `CANDLE_ROCM_ARCHS` (comma-separated, or `native`), `CANDLE_ROCM_SKIP_KERNELS=1`,
//! `CANDLE_ROCM_KERNEL_CACHE`, `CANDLE_ROCM_KERNEL_CACHE_SIZE`, `CANDLE_ROCM_CLANG`, `CANDLE_ROCM_DEVICE_LIBS`,
//! `ROCM_PATH`.

mod families;
mod launches;
mod lists;
mod modules;
mod moves;
mod numbers;
mod split_rows;
mod structs;

use std::path::{Path, PathBuf};

use rocm_toolchain::cache::Cache;
use rocm_toolchain::compile::{self, Compiler, Job, Object};
use rocm_toolchain::key::Contents;
use rocm_toolchain::{architectures, variables, workers, Chosen, Error, Toolchain};

fn main() {
    if let Err(errors) = run() {
        for line in errors.iter().flat_map(|error| error.lines()) {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

/// What went wrong, for people. Modules that fail side by side are one each.
type Failures = Vec<String>;

fn failed(error: impl ToString) -> Failures {
    vec![error.to_string()]
}

fn run() -> Result<(), Failures> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=kernels");
    for variable in variables::of_kernels() {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(environment("OUT_DIR")?);
    let kernels = Path::new(&environment("CARGO_MANIFEST_DIR")?).join("kernels");
    lists::write(&kernels, &out).map_err(failed)?;
    families::write(&kernels, &out).map_err(failed)?;
    structs::write(&kernels, &out).map_err(failed)?;
    numbers::write(&kernels, &out).map_err(failed)?;
    split_rows::write(&kernels, &out).map_err(failed)?;
    let contents = Contents::new(vec![kernels.clone()]);
    let sources = compile::sources(&kernels, &contents).map_err(failed)?;
    launches::write(&sources, &kernels, &out).map_err(failed)?;
    moves::write(&sources, &kernels, &out).map_err(failed)?;
    modules::write(&sources, &out).map_err(failed)?;

    // docs.rs has no GPU compiler either.
    if variables::skip_kernels() || std::env::var_os("DOCS_RS").is_some() {
        return write_table(&out, &sources, &Chosen::default(), None).map_err(failed);
    }
    let toolchain = Toolchain::find().map_err(failed)?;
    for part in [&toolchain.clang, &toolchain.device_libs] {
        println!("cargo::rerun-if-changed={}", part.display());
    }
    let chosen = chosen(&toolchain).map_err(failed)?;
    let jobs = jobs(&sources, &chosen);
    let objects = objects(&jobs, &toolchain, &contents, &out)?;
    let table: Vec<(&Job, &Object)> = jobs.iter().zip(&objects).collect();
    write_table(&out, &sources, &chosen, Some(&table)).map_err(failed)
}

/// What to compile for; tells people where it is not they who chose.
fn chosen(toolchain: &Toolchain) -> Result<Chosen, Error> {
    let chosen = architectures::of_environment(&toolchain.targets())?;
    for notice in &chosen.notices {
        println!("cargo::warning={notice}");
    }
    if chosen.by_itself {
        // cargo shows it for packages of a workspace; for others, `cargo build -vv` and the errors of a GPU without code do.
        println!(
            "cargo::warning=kernels for {}: {}",
            chosen.archs.join(", "),
            chosen.reason
        );
    }
    Ok(chosen)
}

/// Each source for each architecture.
fn jobs(sources: &[PathBuf], chosen: &Chosen) -> Vec<Job> {
    let of_source = |source: &PathBuf| -> Vec<Job> {
        let job = |arch: &String| Job {
            source: source.clone(),
            arch: arch.clone(),
        };
        chosen.archs.iter().map(job).collect()
    };
    sources.iter().flat_map(of_source).collect()
}

/// The objects of `jobs`, compiled or from the cache, which is then held to its size.
fn objects(
    jobs: &[Job],
    toolchain: &Toolchain,
    contents: &Contents,
    out: &Path,
) -> Result<Vec<Object>, Failures> {
    let cache = Cache::of_environment(out).map_err(failed)?;
    let folder = fresh_folder(out).map_err(failed)?;
    let compiler = Compiler {
        toolchain,
        contents,
        cache: &cache,
        out: &folder,
    };
    let objects = workers::run(workers::granted_threads(), jobs.len(), |index, wait| {
        compiler.object(&jobs[index], wait)
    });
    let objects = objects.map_err(|errors| -> Failures {
        let errors = errors.iter();
        errors.map(ToString::to_string).collect()
    })?;
    report(jobs, &objects, toolchain);
    report_cache(&cache);
    Ok(objects)
}

/// The folder of this build's objects, without those of the build before.
fn fresh_folder(out: &Path) -> Result<PathBuf, Error> {
    let folder = out.join("objects");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    std::fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    Ok(folder)
}

/// Holds the cache to its size, and says where it is and what was wrong with it.
fn report_cache(cache: &Cache) {
    match cache.shrink() {
        Ok(bytes) => eprintln!("cache: {}, {bytes} bytes", cache.folder().display()),
        Err(error) => println!("cargo::warning=kernel cache: {error}"),
    }
    for notice in cache.notices() {
        println!("cargo::warning={notice}");
    }
}

/// Writes a file that the library includes.
fn save(file: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(file, text).map_err(Error::file(file))
}

fn environment(name: &str) -> Result<String, Failures> {
    std::env::var(name).map_err(|error| failed(format!("{name}: {error}")))
}

/// Leaves sizes in the build log, and shows clang's warnings.
fn report(jobs: &[Job], objects: &[Object], toolchain: &Toolchain) {
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
) -> Result<(), Error> {
    let mut text = format!(
        "/// Whether {} left the kernels out.\npub const SKIPPED: bool = {};\n\
         pub const ARCHITECTURES: &[&str] = &{:?};\n\
         /// Why these, for people.\npub const REASON: &str = {:?};\n",
        variables::SKIP_KERNELS,
        table.is_none(),
        chosen.archs,
        chosen.reason
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
    save(&out.join("embedded.rs"), &text)
}
