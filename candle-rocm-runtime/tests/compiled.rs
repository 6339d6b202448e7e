//! CUDA source compiled at run time, and code objects in text.

mod common;

use candle_rocm_cuda::{text, Compiler, Options, Source};
use candle_rocm_runtime::module::{compile_text, compile_text_with, CompileOptions};
use candle_rocm_runtime::{Image, LaunchConfig, PushKernelArg};
use common::{context, select};

const SCALE: &str = r#"
extern "C" __global__ void scale(float *x, float by, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) x[at] *= by * FACTOR;
}
"#;

/// Runs the kernel `scale` of an image on 100 numbers.
fn scaled(image: Image) -> Vec<f32> {
    let context = context();
    let stream = context.default_stream();
    let module = context.load_module(image).unwrap();
    let kernel = module.load_function("scale").unwrap();
    let numbers: Vec<f32> = (0..100u8).map(f32::from).collect();
    let mut x = stream.clone_htod(&numbers).unwrap();
    let config = LaunchConfig {
        grid_dim: (2, 1, 1),
        block_dim: (64, 1, 1),
        shared_mem_bytes: 0,
    };
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut x).arg(&1.5f32).arg(&100i32);
    // SAFETY: the arguments are the kernel's, which stays within 100 numbers.
    unsafe { launch.launch(config) }.unwrap();
    stream.clone_dtoh(&x).unwrap()
}

fn expected(factor: f32) -> Vec<f32> {
    (0..100u8).map(|x| f32::from(x) * 1.5 * factor).collect()
}

#[test]
fn source_is_compiled_and_runs() {
    select();
    let with = |options: &[&str]| {
        let options = CompileOptions {
            options: options.iter().map(ToString::to_string).collect(),
            arch: Some("sm_80"),
            ..CompileOptions::default()
        };
        scaled(compile_text_with(SCALE, options).unwrap())
    };
    assert_eq!(with(&["-DFACTOR=2"]), expected(2.0));
    assert_eq!(
        with(&["--define-macro=FACTOR=4", "-std=c++17"]),
        expected(4.0)
    );
    let source =
        format!("#include <cuda_fp16.h>\n#define FACTOR __half2float(__float2half(8.f))\n{SCALE}");
    assert_eq!(scaled(compile_text(source).unwrap()), expected(8.0));
}

#[test]
fn errors_have_the_sources_lines() {
    select();
    let named = CompileOptions {
        name: Some("mine.cu".to_owned()),
        ..CompileOptions::default()
    };
    let error = compile_text_with("__device__ int f() {\n    return undeclared;\n}\n", named);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("mine.cu:2:12: error:"), "{error}");
    let error =
        compile_text("__device__ void f() {\n\n    asm(\"wgmma.fence.sync.aligned;\");\n}\n");
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("default_program:3: PTX `wgmma.fence.sync.aligned`"),
        "{error}"
    );
    let odd = CompileOptions {
        options: vec!["--no-such-option".to_owned()],
        ..CompileOptions::default()
    };
    let error = compile_text_with(SCALE, odd).unwrap_err().to_string();
    assert!(error.contains("`--no-such-option` is not known"), "{error}");
}

#[test]
fn text_gives_each_gpu_its_own_code() {
    let source = Source::Text {
        name: "scale.cu".to_owned(),
        text: format!("#define FACTOR 1\n{SCALE}"),
    };
    // Both generic and own targets: one of them serves each emulated GPU.
    let compiler =
        Compiler::at_run_time("gfx90a,gfx942,gfx10-3-generic,gfx11-generic,gfx12-generic");
    let program = compiler.unwrap().compile(&source, &Options::default());
    let text = text::encode(&program.unwrap());
    // The same in a file, and as bytes.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scale.ptx");
    std::fs::write(&file, &text).unwrap();
    assert_eq!(scaled(Image::from_file(file)), expected(1.0));
    assert_eq!(
        scaled(Image::from_binary(text.clone().into_bytes())),
        expected(1.0)
    );
    assert_eq!(scaled(Image::from_src(text)), expected(1.0));
}

#[test]
fn text_without_this_gpus_code_says_what_it_has() {
    let source = Source::Text {
        name: "scale.cu".to_owned(),
        text: format!("#define FACTOR 1\n{SCALE}"),
    };
    // Vega 20, which no test emulates here.
    let program = Compiler::at_run_time("gfx906").unwrap();
    let program = program.compile(&source, &Options::default()).unwrap();
    let context = context();
    let arch = &context.device().info().arch;
    let error = context.load_module(Image::from_src(text::encode(&program)));
    let error = error.unwrap_err();
    let asked = arch.split(':').next().unwrap();
    assert_eq!(
        error.message(),
        format!(
            "`scale` holds no code for {asked}, only for gfx906; build again with CANDLE_ROCM_ARCHS={asked} (a \
             comma-separated list, or `native`)"
        )
    );
}
