//! CUDA source compiled by NVIDIA's NVRTC, and PTX loaded, on an NVIDIA GPU (`CANDLE_ROCM_RUNTIME=nvidia`, with the feature
//! `nvidia`).

mod common;

use candle_rocm_runtime::module::{compile_text, compile_text_with, CompileOptions};
use candle_rocm_runtime::{Image, LaunchConfig, PushKernelArg};
use common::on_each_device;

const TWICE: &str = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= TWO; }\n";
/// What a compiler makes of the same.
const PTX: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 at) {
    .reg .u64 %base, %place;
    .reg .u32 %thread;
    .reg .f32 %x;
    ld.param.u64 %base, [at];
    cvta.to.global.u64 %base, %base;
    mov.u32 %thread, %tid.x;
    mad.wide.u32 %place, %thread, 4, %base;
    ld.global.f32 %x, [%place];
    add.f32 %x, %x, %x;
    st.global.f32 [%place], %x;
    ret;
}
";

#[test]
#[ignore = "needs an NVIDIA GPU and NVRTC"]
fn source_is_compiled_and_ptx_is_loaded() {
    on_each_device("source_is_compiled_and_ptx_is_loaded", |context| {
        let two = CompileOptions {
            options: vec!["-DTWO=2.f".to_owned()],
            ..CompileOptions::default()
        };
        for image in [compile_text_with(TWICE, two).unwrap(), Image::from_src(PTX)] {
            let stream = context.default_stream();
            let module = context.load_module(image).unwrap();
            let kernel = module.load_function("twice").unwrap();
            let mut x = stream.clone_htod(&[1f32, 2., 3.]).unwrap();
            let config = LaunchConfig {
                grid_dim: (1, 1, 1),
                block_dim: (3, 1, 1),
                shared_mem_bytes: 0,
            };
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(&mut x);
            // SAFETY: the argument is the kernel's, which has a thread for each number.
            unsafe { launch.launch(config) }.unwrap();
            assert_eq!(stream.clone_dtoh(&x).unwrap(), [2., 4., 6.]);
        }
        let error = compile_text(format!("\n{TWICE}")).unwrap_err().to_string();
        assert!(error.contains("default_program(2): error"), "{error}");
    });
}
