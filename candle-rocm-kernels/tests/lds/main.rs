//! No kernel has LDS that its source does not declare. Compilers move private arrays there, which are indexed by what is known when
//! the kernel runs: as many bytes for each thread of the largest workgroup, and so few workgroups for a compute unit.
//!
//! What a source declares for a kernel is what clang's front end makes of it, before any pass: all variables in LDS that the
//! kernel can reach by calls.

mod ir;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_rocm_kernels as kernels;
use ir::Ir;
use rocm_gpus::CodeTarget;
use rocm_toolchain::compile::{self, Job};
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

/// An embedded target for each width of wavefronts: what private arrays take, and which are moved, differs by it.
fn targets() -> Vec<&'static str> {
    let mut found: Vec<(u32, &str)> = Vec::new();
    for arch in kernels::architectures() {
        let Ok(target) = arch.parse::<CodeTarget>() else {
            continue;
        };
        let wavefront = target.unit().wavefront;
        if found.iter().all(|(of, _)| *of != wavefront) {
            found.push((wavefront, arch));
        }
    }
    found.into_iter().map(|(_, arch)| arch).collect()
}

#[test]
fn kernels_have_the_lds_that_their_sources_declare() {
    let toolchain = Toolchain::find().expect("the compiler that made the kernels");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let contents = Contents::new(vec![folder.clone()]);
    let sources = compile::sources(&folder, &contents).expect("the kernels' files");
    let targets = targets();
    assert!(
        !targets.is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    let of_target = |arch| objects(&sources, arch);
    let objects: Vec<_> = targets.into_iter().flat_map(of_target).collect();
    assert!(!objects.is_empty(), "no kernel has LDS");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let faults = workers::run(threads, objects.len(), |index, _| {
        let Object { job, kernels } = &objects[index];
        let text = compile::front_end(&toolchain, &contents, job)?;
        let place = format!("{} for {}", job.module(), job.arch);
        let faults = faults(kernels, &Ir::read(&text), &place);
        Ok::<_, Error>(Outcome::Done(faults))
    });
    let faults = faults
        .unwrap_or_else(|errors| panic!("{errors:?}"))
        .concat();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A kernel whose array is private, and one whose value is in LDS, which it reaches by a call.
const SAMPLES: &str = r#"
#define KERNEL extern "C" __attribute__((global)) void
KERNEL private_array(unsigned char *out, const unsigned *at) {
    unsigned char held[24];
    for (unsigned i = 0; i < 24; i++) held[at[i]] = out[i];
    out[at[9]] = held[at[8]];
}
struct Pair {
    unsigned char at;
    double value[2];
};
template <class T> __attribute__((device)) T &shared_value() {
    __attribute__((shared)) T value;
    return value;
}
KERNEL declared(double *out, unsigned at) {
    Pair &pair = shared_value<Pair>();
    pair.at = at, pair.value[at] = out[at];
    __builtin_amdgcn_s_barrier();
    out[at] = pair.value[pair.at];
}
"#;

#[test]
fn more_than_a_source_declares_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("samples.cu");
    std::fs::write(&source, SAMPLES).unwrap();
    let toolchain = Toolchain::find().unwrap();
    let job = Job {
        source,
        arch: "gfx942".to_string(),
    };
    let text = compile::front_end(&toolchain, &Contents::new(Vec::new()), &job).unwrap();
    let ir = Ir::read(&text);
    // A byte and two doubles, in steps of 16 bytes.
    let declared = BTreeMap::from([("declared", 32), ("private_array", 0)]);
    assert_eq!(ir.lds_of_kernels(), declared);
    let found = |bytes: [u64; 2]| {
        let kernels = [
            ("declared".to_string(), bytes[0]),
            ("private_array".to_string(), bytes[1]),
        ];
        faults(&kernels, &ir, "here")
    };
    assert!(found([24, 0]).is_empty());
    let moved = "here: private_array has 24576 bytes, of which 0 are declared";
    let larger = "here: declared has 48 bytes, of which 32 are declared";
    assert_eq!(found([24, 24_576]), [moved]);
    assert_eq!(found([48, 24_576]), [larger, moved]);
}
