//! Kernels have the LDS that their sources declare. By default compilers move private arrays there, which are indexed by
//! what is known when the kernel runs: as many bytes for each thread of the largest workgroup, and so few workgroups
//! for a compute unit. The build tells the compiler not to.

mod support;

use rocm_toolchain::cache::Cache;
use rocm_toolchain::compile::{Compiler, Job};
use rocm_toolchain::key::Contents;
use rocm_toolchain::workers::Outcome;
use rocm_toolchain::Toolchain;

/// A kernel whose array is private, and one whose value is in LDS.
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
KERNEL declared(double *out, unsigned at) {
    __attribute__((shared)) Pair pair;
    pair.at = at, pair.value[at] = out[at];
    __builtin_amdgcn_s_barrier();
    out[at] = pair.value[pair.at];
}
"#;

/// A target for each width of wavefronts: what private arrays take, and which are moved, differs by it.
const TARGETS: [&str; 2] = ["gfx942", "gfx1100"];

#[test]
fn private_arrays_stay_private() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("samples.cu");
    std::fs::write(&source, SAMPLES).unwrap();
    let toolchain = Toolchain::find().expect("the compiler that made the kernels");
    let compiler = Compiler {
        toolchain: &toolchain,
        contents: &Contents::new(Vec::new()),
        cache: &Cache::new(folder.path().join("cache"), u64::MAX),
        out: folder.path(),
    };
    for arch in TARGETS {
        let job = Job {
            source: source.clone(),
            arch: arch.to_owned(),
        };
        let Outcome::Done(object) = compiler.object(&job, true).unwrap() else {
            panic!("{arch}: another build compiles the samples");
        };
        let packed = std::fs::read(&object.path).unwrap();
        let code = zstd::decode_all(&packed[..]).unwrap();
        let found: Vec<(String, u64)> = support::kernels(&code)
            .into_iter()
            .map(|(name, kernel)| (name, kernel.lds_bytes))
            .collect();
        // A byte and two doubles.
        let expected = [("declared", 24), ("private_array", 0)];
        let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes));
        assert_eq!(found, expected, "{arch}");
    }
}
