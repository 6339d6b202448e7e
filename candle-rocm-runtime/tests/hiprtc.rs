//! AMD's compiler at run time, hiprtc, beside ours (`cargo xtask rocm --libraries`): what it makes of a text is loaded and
//! launched by the runtime, and its errors name the text's lines.

#[path = "common/amds_library.rs"]
mod amds_library;
mod common;

use std::ffi::{c_char, c_int, c_void, CString};

use amds_library::AmdsLibrary;
use candle_rocm_runtime::{Image, LaunchConfig, PushKernelArg};
use common::on_each_device;

/// Names hiprtc's library.
const LIBRARY_VARIABLE: &str = "CANDLE_ROCM_TEST_HIPRTC";
const COUNT: usize = 1000;
const BLOCK: usize = 128;

/// LDS, a barrier, an exchange between lanes, an atomic, and a function of the device libraries.
const SUMS: &str = r#"
extern "C" __global__ void sums(const float *x, float *roots, float *of_block, unsigned *rows, int n) {
    __shared__ float shared[BLOCK];
    int at = blockIdx.x * BLOCK + threadIdx.x;
    float mine = at < n ? x[at] : 0.f;
    if (at < n) roots[at] = sqrtf(mine) + cosf(mine);
    float other = __shfl_xor(mine, 1);
    shared[threadIdx.x] = mine + other;
    __syncthreads();
    for (int step = BLOCK / 2; step != 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        of_block[blockIdx.x] = shared[0];
        atomicAdd(rows, 1u);
    }
}
"#;
/// The name used in its third line is nobody's.
const WRONG: &str = "extern \"C\" __global__ void wrong(float *x) {\n\n    x[0] = undeclared;\n}\n";

/// A program of hiprtc's.
type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

/// The code object of a text, or what the compiler says about it.
fn compile(text: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let hiprtc = AmdsLibrary::named_by(LIBRARY_VARIABLE);
    let text = CString::new(text).unwrap();
    let options: Vec<CString> = options.iter().map(|o| CString::new(*o).unwrap()).collect();
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program: Program = std::ptr::null_mut();
    hiprtc.call::<Create>("hiprtcCreateProgram", |create| {
        let (none, name) = (std::ptr::null(), c"mine.hip".as_ptr());
        // SAFETY: the place of a handle, strings that end with zero, and no headers.
        unsafe { create(&mut program, text.as_ptr(), name, 0, none, none) }
    });
    let status = hiprtc.ask::<Compile, _>("hiprtcCompileProgram", |compile| {
        // SAFETY: the program lives, and there are as many options.
        unsafe { compile(program, options.len() as c_int, options.as_ptr()) }
    });
    let get = |size: &str, name: &str| {
        let mut bytes = 0;
        // SAFETY: the program lives.
        hiprtc.call::<Size>(size, |size| unsafe { size(program, &mut bytes) });
        let mut got = vec![0u8; bytes];
        hiprtc.call::<Get>(name, |get| {
            // SAFETY: memory of the size that the library gave.
            unsafe { get(program, got.as_mut_ptr().cast()) }
        });
        got
    };
    let result = match status {
        0 => Ok(get("hiprtcGetCodeSize", "hiprtcGetCode")),
        _ => {
            let log = get("hiprtcGetProgramLogSize", "hiprtcGetProgramLog");
            Err(String::from_utf8(log).unwrap())
        }
    };
    // SAFETY: nobody uses the program after this.
    hiprtc.call::<Destroy>("hiprtcDestroyProgram", |destroy| unsafe {
        destroy(&mut program)
    });
    result
}

#[test]
#[ignore = "needs AMD's hiprtc: cargo xtask rocm --libraries"]
fn what_hiprtc_compiles_is_loaded_and_launched() {
    let test = "what_hiprtc_compiles_is_loaded_and_launched";
    on_each_device(test, |context| {
        let arch = format!("--offload-arch={}", context.info().arch);
        let code = compile(SUMS, &[&arch, &format!("-DBLOCK={BLOCK}"), "-O3"]).unwrap();
        let module = context.load_module(Image::from_binary(code)).unwrap();
        let (kernel, stream) = (
            module.load_function("sums").unwrap(),
            context.default_stream(),
        );
        // Sums of these are exact in any order.
        let numbers: Vec<f32> = (0..COUNT).map(|x| (x % 97) as f32).collect();
        let blocks = COUNT.div_ceil(BLOCK);
        let x = stream.clone_htod(&numbers).unwrap();
        let mut roots = stream.alloc_zeros::<f32>(COUNT).unwrap();
        let mut of_block = stream.alloc_zeros::<f32>(blocks).unwrap();
        let mut rows = stream.alloc_zeros::<u32>(1).unwrap();
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1),
            block_dim: (BLOCK as u32, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&kernel);
        let count = COUNT as i32;
        launch.arg(&x).arg(&mut roots).arg(&mut of_block);
        launch.arg(&mut rows).arg(&count);
        // SAFETY: the arguments are the kernel's, which stays within them.
        unsafe { launch.launch(config) }.unwrap();
        // Each number is added twice: by its own lane, and by the one beside it.
        let sums = numbers
            .chunks(BLOCK)
            .map(|block| 2.0 * block.iter().sum::<f32>());
        assert_eq!(
            stream.clone_dtoh(&of_block).unwrap(),
            sums.collect::<Vec<_>>()
        );
        assert_eq!(stream.clone_dtoh(&rows).unwrap(), [blocks as u32]);
        for (found, x) in stream.clone_dtoh(&roots).unwrap().iter().zip(&numbers) {
            let expected = f64::from(*x).sqrt() + f64::from(*x).cos();
            let far = (f64::from(*found) - expected).abs();
            assert!(far < 2e-6, "{found} for {x}, which gives {expected}");
        }
        println!(
            "{COUNT} numbers in {blocks} blocks on {}",
            context.info().arch
        );
    });
}

#[test]
#[ignore = "needs AMD's hiprtc: cargo xtask rocm --libraries"]
fn errors_name_the_texts_lines() {
    on_each_device("errors_name_the_texts_lines", |context| {
        let arch = format!("--offload-arch={}", context.info().arch);
        let log = compile(WRONG, &[&arch]).expect_err("a name is undeclared");
        assert!(
            log.contains("mine.hip:3:12: error: use of undeclared identifier 'undeclared'"),
            "{log}"
        );
    });
}
