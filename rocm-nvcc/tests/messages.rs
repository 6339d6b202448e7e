//! What a user reads when something is wrong, and what the environment chooses.

use rocm_nvcc::{headers, options, Compiler, Error, Options, Side, Source};

fn source(text: &str) -> Source {
    Source::Text {
        name: "mine.cu".to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn a_wrong_architecture_lists_those_that_are_known() {
    let error = Compiler::at_run_time("gfx42")
        .err()
        .expect("no such GPU")
        .to_string();
    assert!(
        error.contains("does not know the architecture gfx42"),
        "{error}"
    );
    assert!(error.contains("gfx942"), "{error}");
}

#[test]
fn a_missing_header_and_a_wrong_type_have_their_lines() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    for (text, line, words) in [
        ("\n#include \"nowhere.h\"\n", 2, "'nowhere.h' file not found"),
        ("#include <cuda_fp16.h>\n\n__device__ half2 f(float2 x) { return x; }\n", 3, "no viable conversion"),
        (
            "__device__ void f(unsigned *p) {\n    asm(\"mov.u32 %0, %%tid.x;\" : \"=r\"(*p));\n    p = 1.0f;\n}\n",
            3,
            "assigning to",
        ),
    ] {
        let error = compiler.compile(&source(text), &Options::default());
        let Err(Error::Compile { log, arch, .. }) = error else {
            panic!("{text}: {error:?}");
        };
        assert_eq!(arch, "gfx1100");
        let place = format!("mine.cu:{line}:");
        assert!(log.contains(&place) && log.contains(words), "{log}");
    }
}

#[test]
fn a_dependent_template_is_called_without_the_word_and_its_errors_stay_the_users() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    let text = |body: &str| {
        format!(
            "template <typename T> struct Twice {{\n\
             template <int n> static __device__ T of(T x) {{ return n * x; }}\n\
             }};\n\
             template <typename T> __device__ T four(T x) {{ {body} }}\n\
             extern \"C\" __global__ void kernel(float *x) {{ *x = four(*x); }}\n"
        )
    };
    let compile = |body: &str| compiler.compile(&source(&text(body)), &Options::default());
    compile("return Twice<T>::of<4>(x);").expect("as nvcc, it knows a call");
    let error = compile("return Twice<T>::of<4>(x, x);").expect_err("one number is multiplied");
    let error = error.to_string();
    // Of the source as it is: without the word.
    assert!(
        error.contains("mine.cu:4:") && !error.contains("::template"),
        "{error}"
    );
}

#[test]
fn ptx_that_is_not_known_is_an_error_of_the_kernels_that_use_it() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    let text = |call: &str| {
        format!(
            "namespace {{ template <int N> __device__ __forceinline__ void wait(float *x) {{\n\
             asm volatile(\"wgmma.wait_group.sync.aligned %0;\\n\" :: \"n\"(N));\n\
             *x = N; }} }}\n\
             template <bool hopper> __device__ void maybe(float *x) {{ if (hopper) wait<1>(x); }}\n\
             extern \"C\" __global__ void kernel(float *x) {{ {call} }}\n"
        )
    };
    let check = Side::Device("gfx1100");
    for unused in ["*x = 1;", "maybe<false>(x);"] {
        let source = source(&text(unused));
        let options = Options::default();
        compiler.compile(&source, &options).expect(unused);
        compiler.check(&source, &options, check).expect(unused);
    }
    for used in ["wait<0>(x);", "maybe<true>(x);"] {
        let source = source(&text(used));
        let options = Options::default();
        for error in [
            compiler.compile(&source, &options).map(|_| ()),
            compiler.check(&source, &options, check),
        ] {
            let error = error.expect_err(used).to_string();
            let wanted =
                "mine.cu:2: PTX `wgmma.wait_group.sync.aligned %0`: the instruction is not known";
            assert_eq!(error, wanted, "{used}");
        }
    }
}

#[test]
fn device_code_swaps_and_names_what_no_gpu_here_has() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    let text = "#include <cuda.h>\n#include <mma.h>\n#include <utility>\n\
                __host__ __device__ inline void order(int &a, int &b) { if (b < a) std::swap(a, b); }\n\
                extern \"C\" __global__ void kernel(int *x) { order(x[0], x[1]); }\n\
                void host(int *x, CUtensorMap *, CUtensorMapDataType) { order(x[0], x[1]); }\n\
                typedef nvcuda::wmma::experimental::precision::b1 Bit;\n\
                typedef nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 8, 8, 128, Bit, nvcuda::wmma::row_major> Bits;\n";
    let compile = |text: &str, side| compiler.check(&source(text), &Options::default(), side);
    for side in [Side::Device("gfx1100"), Side::Host] {
        compile(text, side).expect("names alone");
    }
    let product = format!(
        "{text}typedef nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 8, 8, 128, int> Sums;\n\
         __global__ void bits(Sums *d, Bits *a) {{ nvcuda::wmma::bmma_sync(*d, *a, *a, *d); }}\n"
    );
    let error = compiler.compile(&source(&product), &Options::default());
    let error = error.expect_err("no such product").to_string();
    assert!(error.contains("bmma_sync) are not known"), "{error}");
}

#[test]
fn the_same_source_is_compiled_once() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    // Of this run alone, so that no earlier one has left it.
    let text = format!("__device__ unsigned long run = {}ul;\n", std::process::id());
    let compile = |options: &Options| {
        let program = compiler
            .compile(&source(&text), options)
            .expect("it compiles");
        program.objects[0].made
    };
    let plain = Options::default();
    assert!(compile(&plain));
    assert!(!compile(&plain));
    let other = Options {
        flags: vec!["-ffp-contract=off".to_owned()],
        ..Options::default()
    };
    assert!(compile(&other));
}

#[test]
fn source_learns_what_it_is_compiled_as() {
    let compiler = Compiler::at_run_time("gfx1100").expect("a compiler");
    let text = "#if !defined(__CUDACC__) || !defined(CANDLE_ROCM_CUDA) || CUDA_VERSION < 12000 || __CUDA_ARCH__ != WANTED\n\
                #error\n#endif\n";
    let mut options = Options {
        flags: vec![format!("-DWANTED={}", options::CUDA_ARCH)],
        ..Options::default()
    };
    compiler
        .compile(&source(text), &options)
        .expect("the default");
    options.cuda_arch = Some(700);
    options.flags = vec!["-DWANTED=700".to_owned()];
    compiler
        .compile(&source(text), &options)
        .expect("another one");
}

#[test]
fn every_header_compiles_by_itself() {
    let compiler = Compiler::at_run_time("gfx942").expect("a compiler");
    let names: Vec<String> = headers::all().into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().any(|name| name == "cuda_fp16.h"));
    // Those that others include are no headers of users'.
    let public = names
        .iter()
        .filter(|name| !name.starts_with("candle_rocm/"));
    let text: String = public.map(|name| format!("#include <{name}>\n")).collect();
    compiler
        .compile(&source(&text), &Options::default())
        .expect("all at once");
    for name in [
        "mma.h",
        "cub/cub.cuh",
        "cuda_fp8.h",
        "thrust/scan.h",
        "cuda/std/limits",
    ] {
        let text = format!("#include <{name}>\n");
        compiler
            .compile(&source(&text), &Options::default())
            .expect(name);
    }
}
