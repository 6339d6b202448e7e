//! What is said of a crate's folder with one file for each thing that can stand in the way.

use std::fs;

use candle_rocm_hipify::reason::Kind;
use candle_rocm_hipify::report::{files, text, try_all, Outcome, Trial};
use rocm_nvcc::Options;

const FILES: [(&str, &str, Option<Kind>); 7] = [
    (
        "good.cu",
        "__global__ void f(float *x) { x[threadIdx.x] *= 2; }\nvoid g(float *x) { f<<<1, 32>>>(x); }\n",
        None,
    ),
    (
        "ptx.cu",
        "\n__global__ void f() { asm volatile(\"wgmma.fence.sync.aligned;\"); }\n",
        Some(Kind::Ptx),
    ),
    (
        "deep/cutlass.cu",
        "#include <cutlass/cutlass.h>\n",
        Some(Kind::Cutlass),
    ),
    (
        "texture.cu",
        "__global__ void f(cudaTextureObject_t t, float *x) { *x = tex2D<float>(t, 0, 0); }\n",
        Some(Kind::Texture),
    ),
    (
        "shared.cu",
        "__global__ void f(float *x) {\n    __shared__ float all[20000];\n    all[threadIdx.x] = *x;\n\
         \x20   __syncthreads();\n    *x = all[(int)*x];\n}\n",
        Some(Kind::SharedMemory),
    ),
    (
        "parallel.cu",
        "__global__ void f() {}\n__global__ void g() { f<<<1, 1>>>(); }\n",
        Some(Kind::DynamicParallelism),
    ),
    ("header.cu", "#include <nothing.h>\n", Some(Kind::Header)),
];

fn tried(syntax_only: bool) -> (Vec<Outcome>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, source, _) in FILES {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, source).expect("a file");
    }
    let trial = Trial {
        archs: vec!["gfx942".to_owned(), "gfx1100".to_owned()],
        syntax_only,
        options: Options::default(),
    };
    let files = files(&[folder.path().to_owned()]).expect("there are some");
    assert_eq!(files.len(), FILES.len());
    let (outcomes, _) = try_all(&files, &trial).expect("there is a compiler");
    let text = text(&outcomes, &trial.archs, 3);
    (outcomes, text)
}

#[test]
fn each_thing_in_the_way_is_named() {
    let (outcomes, text) = tried(false);
    for (name, _, kind) in FILES {
        let outcome = outcomes
            .iter()
            .find(|one| one.file.ends_with(name))
            .expect(name);
        for arch in &outcome.sides[..2] {
            let first = arch.first().map(|reason| reason.kind);
            assert_eq!(first, kind, "{name}: {arch:?}");
        }
    }
    assert!(text.contains("| good.cu | yes | yes | yes |"), "{text}");
    assert!(
        text.contains("| deep/cutlass.cu | no | no | no |"),
        "{text}"
    );
    assert!(text.contains("1 of 7 files compile for all."), "{text}");
    assert!(
        text.contains("ptx.cu:2: unknown PTX: `wgmma.fence.sync.aligned`"),
        "{text}"
    );
    assert!(text.contains("  shared memory: 1\n"), "{text}");
}

#[test]
fn a_check_of_syntax_finds_all_but_what_code_generation_would() {
    let (outcomes, _) = tried(true);
    for (name, _, kind) in FILES {
        let outcome = outcomes
            .iter()
            .find(|one| one.file.ends_with(name))
            .expect(name);
        let found = outcome.sides[0].first().map(|reason| reason.kind);
        let expected = kind.filter(|kind| *kind != Kind::SharedMemory);
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_folder_without_sources_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = files(&[folder.path().to_owned()]).expect_err("there is none");
    assert!(error.to_string().contains("no .cu file"), "{error}");
}
