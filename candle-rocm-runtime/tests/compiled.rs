//! CUDA source compiled at run time, and code objects in text.

mod common;

use candle_rocm_runtime::module::{compile_text, compile_text_with, CompileOptions};
use candle_rocm_runtime::{Image, LaunchConfig, PushKernelArg};
use common::{context, select};
use rocm_nvcc::{text, Compiler, Options, Source};

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
    let image = compile_text(source).unwrap();
    // What programs keep, and give to `get_or_load_custom_func`.
    let kept = Image::from_src(image.to_src());
    assert_eq!(scaled(kept), expected(8.0));
    assert_eq!(scaled(image), expected(8.0));
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
        compile_text("__global__ void f() {\n\n    asm(\"wgmma.fence.sync.aligned;\");\n}\n");
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
    for part in [
        "`scale` holds no code for GPU 0, ".to_owned(),
        format!("({asked}); there is code for gfx906 ("),
        format!("build again with CANDLE_ROCM_ARCHS={asked};"),
    ] {
        assert!(error.message().contains(&part), "{error}");
    }
}

/// Mathematics, CUDA's headers, C++'s, and inline PTX: what a library has of us alone.
const MUCH: &str = r#"
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
#include <cub/cub.cuh>
#include <mma.h>
#include <cuda/std/limits>
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <type_traits>

template <class T> __device__ std::enable_if_t<std::is_floating_point<T>::value, T> half_of(T x) { return x / 2; }

extern "C" __global__ void functions(const float *x, float *y, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    const float a = x[at];
    float all[12] = {sinf(a),       std::exp(a),  log(a + 1),           pow(a, 2),
                     rsqrtf(a + 1), erff(a),      (float)tanh((double)a), fmodf(a, 0.75f),
                     cbrtf(a),      hypot(a, 2.f), half_of(a),           ldexpf(a, 3)};
    for (int i = 0; i < 12; i++) y[at * 12 + i] = all[i];
}

extern "C" __global__ void together(const float *x, float *of_block, float *of_warp, float *lanes, float *rounded) {
    namespace cg = cooperative_groups;
    typedef cub::BlockReduce<float, 96> Reduce;
    __shared__ typename Reduce::TempStorage storage;
    const float a = x[threadIdx.x];
    float sum = Reduce(storage).Sum(a);
    if (threadIdx.x == 0) *of_block = sum;
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    of_warp[threadIdx.x] = cg::reduce(tile, a, cg::plus<float>());
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    lanes[threadIdx.x] = (float)lane + std::max(a, cuda::std::numeric_limits<float>::lowest());
    __nv_bfloat16 b = __float2bfloat16(a);
    rounded[threadIdx.x] = __half2float(__float2half(a) * __float2half(3.f)) + __bfloat162float(b);
    assert(INT_MAX == 2147483647 && sizeof(uint64_t) == 8);
}
"#;

#[test]
fn headers_and_mathematics_are_there() {
    let context = context();
    let stream = context.default_stream();
    let module = context.load_module(compile_text(MUCH).unwrap()).unwrap();
    let numbers: Vec<f32> = (0..96u8).map(|x| f32::from(x) / 16.0).collect();
    let config = LaunchConfig {
        grid_dim: (1, 1, 1),
        block_dim: (96, 1, 1),
        shared_mem_bytes: 0,
    };
    let x = stream.clone_htod(&numbers).unwrap();

    let functions = module.load_function("functions").unwrap();
    let mut y = stream.alloc_zeros::<f32>(96 * 12).unwrap();
    let mut launch = stream.launch_builder(&functions);
    launch.arg(&x).arg(&mut y).arg(&96i32);
    // SAFETY: the arguments are the kernel's, which writes twelve results for each of 96 numbers.
    unsafe { launch.launch(config) }.unwrap();
    for (found, a) in stream.clone_dtoh(&y).unwrap().chunks(12).zip(&numbers) {
        let a = f64::from(*a);
        let expected = [
            a.sin(),
            a.exp(),
            (a + 1.0).ln(),
            a * a,
            1.0 / (a + 1.0).sqrt(),
            libm::erf(a),
            a.tanh(),
            a % 0.75,
            a.cbrt(),
            a.hypot(2.0),
            a / 2.0,
            a * 8.0,
        ];
        for (which, (found, expected)) in found.iter().zip(expected).enumerate() {
            let far = (f64::from(*found) - expected).abs();
            assert!(
                far <= 2e-6 * expected.abs().max(0.5),
                "result {which} of {a}: {found} instead of {expected}"
            );
        }
    }

    let together = module.load_function("together").unwrap();
    let mut of_block = stream.alloc_zeros::<f32>(1).unwrap();
    let mut places: Vec<_> = (0..3)
        .map(|_| stream.alloc_zeros::<f32>(96).unwrap())
        .collect();
    let [of_warp, lanes, rounded] = places.as_mut_slice() else {
        unreachable!("three were made")
    };
    let mut launch = stream.launch_builder(&together);
    launch
        .arg(&x)
        .arg(&mut of_block)
        .arg(&mut *of_warp)
        .arg(&mut *lanes)
        .arg(&mut *rounded);
    // SAFETY: the arguments are the kernel's, which has a thread for each number.
    unsafe { launch.launch(config) }.unwrap();
    // Multiples of 1/16 below 2^7 have exact sums, and fit a half; a bfloat16 has 8 bits.
    let total: f32 = numbers.iter().sum();
    assert_eq!(stream.clone_dtoh(&of_block).unwrap(), [total]);
    let warps = numbers.chunks(32).map(|warp| warp.iter().sum::<f32>());
    let warps: Vec<f32> = warps.flat_map(|sum| [sum; 32]).collect();
    assert_eq!(stream.clone_dtoh(&*of_warp).unwrap(), warps);
    let expected: Vec<f32> = (0..96u8)
        .map(|at| f32::from(at % 32) + f32::from(at) / 16.0)
        .collect();
    assert_eq!(stream.clone_dtoh(&*lanes).unwrap(), expected);
    let expected: Vec<f32> = numbers.iter().map(|a| a * 4.0).collect();
    assert_eq!(stream.clone_dtoh(&*rounded).unwrap(), expected);
}
