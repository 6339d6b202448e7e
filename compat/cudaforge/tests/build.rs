//! Build scripts' calls: what they make, and what their errors say.

use std::fs;
use std::path::Path;

use cudaforge::{Error, KernelBuilder};
use rocm_nvcc::text;

const KERNEL: &str = "#include \"scale.cuh\"\nextern \"C\" __global__ void scale(float *x) { x[threadIdx.x] *= SCALE; }\n";

/// A target with wavefronts of 64 and one with 32: what else is compiled for is compiled alike.
const TARGETS: &str = "gfx942,gfx11-generic";

/// A package's folder with a kernel, a header and a file that does not compile.
fn package() -> tempfile::TempDir {
    std::env::set_var("CANDLE_ROCM_ARCHS", TARGETS);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    write("src/scale-two.cu", KERNEL);
    write("src/scale.cuh", "#define SCALE 2.0f\n");
    write(
        "src/deep/other.cu",
        "extern \"C\" __global__ void other() {}\n",
    );
    write("bad/syntax.cu", "__global__ void f() {\n    int x = ;\n}\n");
    write(
        "bad/ptx.cu",
        "\n__global__ void f() {\n    asm volatile(\"tcgen05.alloc 1;\" ::);\n}\n",
    );
    folder
}

fn builder(folder: &Path) -> KernelBuilder {
    KernelBuilder::new()
        .source_dir(folder.join("src"))
        .out_dir(folder.join("out"))
        .arg("-O3")
        .arg("--expt-relaxed-constexpr")
}

/// The code objects of a text: architectures and frames.
fn objects(folder: &Path, name: &str) -> Vec<(String, Vec<u8>)> {
    let text = fs::read_to_string(folder.join("out").join(name)).expect("the build wrote it");
    text::decode(&text).expect("code objects").objects
}

#[test]
fn each_file_becomes_text_and_a_constant() {
    let package = package();
    let folder = package.path();
    let output = builder(folder).build_ptx().expect("it compiles");
    output
        .write(folder.join("out/ptx.rs"))
        .expect("it is written");
    let rust = fs::read_to_string(folder.join("out/ptx.rs")).expect("it was written");
    assert_eq!(
        rust,
        "pub const OTHER: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/other.ptx\"));\n\
         pub const SCALE_TWO: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/scale-two.ptx\"));\n"
    );
    let before = objects(folder, "scale-two.ptx");
    let other = objects(folder, "other.ptx");
    assert!(!before.is_empty() && before.len() == other.len());
    // A header that changes is seen, and a file that does not include it stays as it was.
    fs::write(folder.join("src/scale.cuh"), "#define SCALE 3.0f\n").expect("a file");
    builder(folder)
        .exclude(&["deep/*"])
        .build_ptx()
        .expect("it compiles");
    let after = objects(folder, "scale-two.ptx");
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.0, after.0);
        assert_ne!(before.1, after.1, "{}", before.0);
    }
    assert_eq!(objects(folder, "other.ptx"), other);
}

#[test]
fn errors_name_the_file_and_the_line() {
    let package = package();
    let folder = package.path();
    let failed = |file: &str| {
        let built = KernelBuilder::new()
            .source_files([folder.join(file)])
            .out_dir(folder.join("out"))
            .build_ptx();
        built.err().expect("it does not compile")
    };
    let Error::CompilationFailed { path, message } = failed("bad/syntax.cu") else {
        panic!("another error");
    };
    assert!(
        path.ends_with("bad/syntax.cu") && message.contains("syntax.cu:2:13: error:"),
        "{message}"
    );
    let Error::CompilationFailed { path, message } = failed("bad/ptx.cu") else {
        panic!("another error");
    };
    assert!(path.ends_with("bad/ptx.cu"), "{path:?}");
    assert!(
        message.contains("ptx.cu:3: PTX `tcgen05.alloc 1`: the instruction is not known"),
        "{message}"
    );
    assert!(
        matches!(failed("bad/missing.cu"), Error::SourcePathNotFound(path) if path.ends_with("bad/missing.cu"))
    );
}

#[test]
fn what_cannot_be_done_says_so() {
    let package = package();
    let error = builder(package.path())
        .arg("--no-such")
        .build_ptx()
        .err()
        .expect("not known");
    assert!(
        error.to_string().contains("`--no-such` is not known"),
        "{error}"
    );
}

#[test]
fn a_library_has_the_kernels_and_their_launchers() {
    let package = package();
    let folder = package.path();
    fs::write(
        folder.join("src/launch.cu"),
        "__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n\
         extern \"C\" void launch(float *x, cudaStream_t s) { twice<<<1, 32, 0, s>>>(x); }\n",
    )
    .expect("a file");
    let library = folder.join("out/libkernels.a");
    builder(folder).build_lib(&library).expect("it compiles");
    let bytes = fs::read(&library).expect("it was written");
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    for part in [
        "launch",
        "hipLaunchKernel",
        "candle-rocm code objects",
        "_Z5twicePf",
    ] {
        assert!(holds(part), "{part}");
    }
    assert!(folder.join("out/libcudart.a").is_file());
    // Kernels whose parts are there for the device alone, which nvcc does not see on the host's side.
    fs::write(
        folder.join("src/launch.cu"),
        "#ifdef __CUDA_ARCH__\n__device__ float one() { return 1; }\n#endif\n\
         __global__ void f(float *x) { *x = one(); }\n",
    )
    .expect("a file");
    builder(folder).build_lib(&library).expect("it compiles");
    // What is wrong with host code alone is said of the host.
    fs::write(
        folder.join("src/launch.cu"),
        "#ifndef __HIP_DEVICE_COMPILE__\nint f() { return missing; }\n#endif\n",
    )
    .expect("a file");
    let error = builder(folder)
        .build_lib(&library)
        .expect_err("it does not compile");
    let text = error.to_string();
    assert!(
        text.contains("for the host does not compile") && text.contains("launch.cu:2:"),
        "{text}"
    );
}
