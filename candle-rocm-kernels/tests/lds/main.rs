//! No kernel has LDS that its source does not declare. Compilers move private arrays there, which are indexed by what is known when
//! the kernel runs: as many bytes for each thread of the largest workgroup, and so few workgroups for a compute unit.
//!
//! What a source declares for a kernel is what clang's front end makes of it, before any pass: all variables in LDS that the
//! kernel can reach by calls.

mod ir;
#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use candle_rocm_kernels as kernels;
use ir::Ir;
use rocm_toolchain::cache::Cache;
use rocm_toolchain::compile::{self, Compiler, Job};
use rocm_toolchain::key::Contents;
use rocm_toolchain::workers::{self, Outcome};
use rocm_toolchain::{Error, Toolchain};

/// A module that has LDS, for an architecture, and the bytes of each of its kernels.
struct Object {
    job: Job,
    kernels: Vec<(String, u64)>,
}

/// The modules of an architecture that have kernels with LDS.
fn objects(sources: &[PathBuf], arch: &str) -> Vec<Object> {
    let of_module = |module: &&'static kernels::Module| {
        let code = module.code_object(arch).expect("an embedded architecture");
        let kernels = support::kernels(&code).into_iter();
        let kernels: Vec<_> = kernels
            .map(|(name, kernel)| (name, kernel.lds_bytes))
            .collect();
        let source = sources
            .iter()
            .find(|source| compile::module(source) == module.name());
        Object {
            job: Job {
                source: source.expect("a module's file").clone(),
                arch: arch.to_string(),
            },
            kernels,
        }
    };
    let objects = kernels::MODULES.iter().map(of_module);
    objects
        .filter(|of| of.kernels.iter().any(|(_, bytes)| *bytes > 0))
        .collect()
}

/// The kernels of a module that have more LDS than a source declares.
fn faults(kernels: &[(String, u64)], ir: &Ir, place: &str) -> Vec<String> {
    let declared = ir.lds_of_kernels();
    let fault = |(name, bytes): &(String, u64)| {
        let declared = declared.get(name.as_str());
        let declared = *declared.unwrap_or_else(|| panic!("{place}: the source has no {name}"));
        let is_more = *bytes > declared;
        is_more
            .then(|| format!("{place}: {name} has {bytes} bytes, of which {declared} are declared"))
    };
    kernels.iter().filter_map(fault).collect()
}

#[test]
fn kernels_have_the_lds_that_their_sources_declare() {
    let toolchain = Toolchain::find().expect("the compiler that made the kernels");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let contents = Contents::new(vec![folder.clone()]);
    let sources = compile::sources(&folder, &contents).expect("the kernels' files");
    let archs = kernels::architectures().iter();
    let archs: Vec<_> = archs.filter(|arch| arch.starts_with("gfx")).collect();
    assert!(
        !archs.is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    let objects: Vec<_> = archs
        .into_iter()
        .flat_map(|arch| objects(&sources, arch))
        .collect();
    assert!(!objects.is_empty(), "no kernel has LDS");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let faults = workers::run(threads, objects.len(), |index, _| {
        let Object { job, kernels } = &objects[index];
        let text = compile::front_end(&toolchain, &contents, job)?;
        let place = format!("{} for {}", job.module(), job.arch);
        Ok::<_, Error>(Outcome::Done(faults(kernels, &Ir::read(&text), &place)))
    });
    let faults = faults
        .unwrap_or_else(|errors| panic!("{errors:?}"))
        .concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A private array that is indexed by what the kernel is told, which clang 19 moves to LDS, and one that the source has there.
const SAMPLES: &str = r#"
#define KERNEL extern "C" __attribute__((global)) void
KERNEL private_array(unsigned char *out, const unsigned *at) {
    unsigned char held[24];
#pragma unroll 1
    for (unsigned i = 0; i < 24; i++) held[at[i]] = out[i];
    out[at[9]] = held[at[8]];
}
template <class T> __attribute__((device)) T &shared_value() {
    __attribute__((shared)) T value;
    return value;
}
struct Pair {
    unsigned char at;
    double value[2];
};
KERNEL declared(double *out, unsigned at) {
    Pair &pair = shared_value<Pair>();
    pair.at = at, pair.value[at] = out[at];
    __syncthreads();
    out[at] = pair.value[pair.at];
}
"#;

#[test]
fn a_private_array_in_lds_is_found() {
    let samples = SAMPLES.replace("__syncthreads", "__builtin_amdgcn_s_barrier");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("samples.cu");
    std::fs::write(&source, samples).unwrap();
    let toolchain = Toolchain::find().unwrap();
    let contents = Contents::new(Vec::new());
    let cache = Cache::new(folder.path().join("cache"), u64::MAX);
    let compiler = Compiler {
        toolchain: &toolchain,
        contents: &contents,
        cache: &cache,
        out: folder.path(),
    };
    let job = Job {
        source,
        arch: "gfx942".to_string(),
    };
    let Outcome::Done(object) = compiler.object(&job, true).unwrap() else {
        panic!("nobody else compiles it");
    };
    let code = zstd::decode_all(&std::fs::read(object.path).unwrap()[..]).unwrap();
    let kernels = support::kernels(&code).into_iter();
    let kernels: Vec<_> = kernels.map(|(name, of)| (name, of.lds_bytes)).collect();
    assert!(
        kernels[1].1 >= 24 * 1024,
        "clang moves no arrays: {kernels:?}"
    );
    let text = compile::front_end(&toolchain, &contents, &job).unwrap();
    let ir = Ir::read(&text);
    let declared = ir.lds_of_kernels();
    assert_eq!(
        declared[kernels[0].0.as_str()],
        32,
        "a byte, and two doubles"
    );
    let expected = format!(
        "here: private_array has {} bytes, of which 0 are declared",
        kernels[1].1
    );
    assert_eq!(faults(&kernels, &ir, "here"), [expected]);
}
