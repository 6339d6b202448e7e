//! A build script's calls.

use std::fs;

use bindgen_cuda::Builder;

#[test]
fn each_file_becomes_text_and_a_constant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("include")).expect("a folder");
    fs::write(path("include/one.cuh"), "#define ONE 1.0f\n").expect("a file");
    let source = "#include \"one.cuh\"\nextern \"C\" __global__ void add(float *x) { x[threadIdx.x] += ONE; }\n";
    fs::write(path("add.cu"), source).expect("a file");
    // The one test of this program, so that nobody else reads variables meanwhile.
    std::env::set_var("OUT_DIR", folder.path());
    let bindings = Builder::default()
        .kernel_paths(vec![path("add.cu")])
        .include_paths(vec![path("include/one.cuh")])
        .arg("--std=c++17")
        .build_ptx()
        .expect("bindgen_cuda has no errors");
    bindings
        .write(path("lib.rs"))
        .expect("bindgen_cuda has no errors");
    let rust = fs::read_to_string(path("lib.rs")).expect("it was written");
    assert_eq!(
        rust,
        "pub const ADD: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/add.ptx\"));\n"
    );
    let text = fs::read_to_string(path("add.ptx")).expect("it was written");
    let held = rocm_nvcc::text::decode(&text).expect("code objects");
    assert!(held.name == "add" && !held.objects.is_empty());
    // What is wrong ends the build with a message.
    let other = Builder::default()
        .kernel_paths(vec![path("add.cu")])
        .arg("--odd");
    let message =
        std::panic::catch_unwind(|| other.build_ptx().map(|_| ())).expect_err("an unknown option");
    let message = message.downcast_ref::<String>().expect("a message");
    assert!(message.contains("`--odd` is not known"), "{message}");
}
