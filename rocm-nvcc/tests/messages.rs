//! What a user reads when something is wrong, and what the environment chooses.

use rocm_nvcc::{headers, options, Compiler, Error, Options, Source};

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
