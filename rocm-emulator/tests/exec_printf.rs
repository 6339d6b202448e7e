//! What kernels print, in both forms that the compiler has, and what they assert.

use std::sync::Mutex;

use candle_rocm_testing::gpu::Gpu;
use candle_rocm_testing::hip::{compile, device_library, Compile};
use rocm_emulator::exec::{Options, PrintStream};
use rocm_emulator::fault::{Fault, FaultKind};
use rocm_emulator::isa::Target;

const TARGETS: [Target; 5] = [
    Target::Gfx90a,
    Target::Gfx942,
    Target::Gfx1030,
    Target::Gfx1100,
    Target::Gfx1201,
];

const SOURCE: &str = r#"
#define __device__ __attribute__((device))
#define KERNEL extern "C" __attribute__((global)) void
#define X __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
extern "C" __device__ int printf(const char *, ...);

KERNEL greet(int *result) {
    if (X % 3 == 0) *result = printf("item %u of group %d: %s, %.2f %c%%\n", X, (int)GROUP, X ? "later" : "first", X / 2.0, 'a' + X % 26);
}
KERNEL plain() { if (X == 0) printf("no arguments\n"); }
KERNEL formats(const char *format, const char *text) {
    if (X == 0) printf(format, text, 0x123456789abll);
}

// What HIP's headers make of assert().
extern "C" __device__ unsigned long __ockl_fprintf_stderr_begin();
extern "C" __device__ unsigned long __ockl_fprintf_append_args(unsigned long, unsigned, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned);
extern "C" __device__ unsigned long __ockl_fprintf_append_string_n(unsigned long, const char *, unsigned long, unsigned);
typedef long long2 __attribute__((ext_vector_type(2)));
extern "C" __device__ long2 __ockl_call_host_function(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long);
KERNEL asserts(int *p) {
    if (X >= 40 && p[X] != 0) {
        unsigned long message = __ockl_fprintf_stderr_begin();
        message = __ockl_fprintf_append_string_n(message, "%s:%u: assertion `%s' failed.\n", 31, 0);
        message = __ockl_fprintf_append_string_n(message, "file.hip", 9, 0);
        message = __ockl_fprintf_append_args(message, 1, 17, 0, 0, 0, 0, 0, 0, 0);
        __ockl_fprintf_append_string_n(message, "p[X] == 0", 10, 1);
        __builtin_trap();
    }
}
KERNEL calls_the_program() { __ockl_call_host_function(4096, 0, 0, 0, 0, 0, 0, 0); }
"#;

/// The device library with what printf needs of it.
fn compiled(target: Target, kind: &str) -> Vec<u8> {
    let mut options = Compile::device(target.name());
    let library = device_library(target.name());
    let ocml = library.iter().find(|arg| arg.ends_with("ocml.bc")).unwrap();
    let folder = ocml.strip_suffix("ocml.bc").unwrap();
    let wide = if target.wavefront_size() == 64 {
        "on"
    } else {
        "off"
    };
    options.args.push(format!("-mprintf-kind={kind}"));
    options.args.extend(library.clone());
    for name in ["ockl", "opencl", &format!("oclc_wavefrontsize64_{wide}")] {
        let path = format!("{folder}{name}.bc");
        options
            .args
            .extend(["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &path].map(String::from));
    }
    compile(SOURCE, &options)
}

/// What a kernel prints to standard output and to standard error, and how it ends.
fn printed(
    gpu: &Gpu,
    kind: &str,
    kernel: &str,
    (grid, block): (u32, u32),
    args: &[u64],
) -> (String, String, Result<(), Box<Fault>>) {
    let program = gpu.program(kind, || compiled(gpu.target, kind));
    let text = Mutex::new([Vec::new(), Vec::new()]);
    let output = |to: PrintStream, bytes: &[u8]| {
        text.lock().unwrap()[usize::from(to == PrintStream::Err)].extend(bytes);
    };
    let options = Options {
        output: Some(&output),
        formats: Some(&program.object.printf_formats),
        max_instructions: 1 << 26,
        ..Options::default()
    };
    let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_le_bytes().to_vec()).collect();
    let geometry = ([grid, 1, 1], [block, 1, 1]);
    let outcome = gpu.launch_of(&program, kernel, geometry, 0, &args, &options);
    let [out, err] = text
        .into_inner()
        .unwrap()
        .map(|text| String::from_utf8(text).unwrap());
    (out, err, outcome.map(|_| ()))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn kernels_print() {
    for target in TARGETS {
        let gpu = Gpu::empty(target, 1 << 28);
        let forms = match target {
            Target::Gfx942 | Target::Gfx1100 => &["hostcall", "buffered"][..],
            _ => &["hostcall"],
        };
        for &kind in forms {
            let result = gpu.buffer(4);
            let (out, err, outcome) = printed(&gpu, kind, "greet", (3, 70), &[result]);
            outcome.unwrap_or_else(|fault| panic!("{target} {kind}: {fault}"));
            let mut want: Vec<String> = (0..3)
                .flat_map(|group| {
                    (0..70).step_by(3).map(move |item: u32| {
                        let when = if item == 0 { "first" } else { "later" };
                        let letter = char::from(b'a' + item as u8 % 26);
                        let half = f64::from(item) / 2.0;
                        format!("item {item} of group {group}: {when}, {half:.2} {letter}%")
                    })
                })
                .collect();
            want.sort_unstable();
            let found: Vec<&str> = sorted(&out);
            assert_eq!(found, want, "{target} {kind}");
            assert_eq!(err, "");
            // The number of characters, or of the buffered form 0.
            let result = gpu.download::<i32>(result, 1)[0];
            assert_eq!(result > 20, kind == "hostcall", "{target} {kind}: {result}");

            let (out, _, outcome) = printed(&gpu, kind, "plain", (2, 64), &[]);
            outcome.unwrap_or_else(|fault| panic!("{target} {kind}: {fault}"));
            assert_eq!(out, "no arguments\nno arguments\n", "{target} {kind}");

            // A format and a text that the compiler does not know. It takes such a text for a pointer.
            let format = gpu.upload_bytes(b"%p %llx!\0");
            let (out, _, outcome) = printed(&gpu, kind, "formats", (1, 64), &[format, 0x5678]);
            outcome.unwrap_or_else(|fault| panic!("{target} {kind}: {fault}"));
            assert_eq!(out, "0x5678 123456789ab!", "{target} {kind}");
        }
    }
}

#[test]
fn an_assertion_says_what_failed() {
    for target in TARGETS {
        let gpu = Gpu::empty(target, 1 << 28);
        let mut numbers = [0i32; 64];
        (numbers[3], numbers[50], numbers[51]) = (1, 1, 1);
        let p = gpu.upload(&numbers);
        let (out, err, outcome) = printed(&gpu, "hostcall", "asserts", (1, 64), &[p]);
        let fault = outcome.unwrap_err();
        assert!(
            matches!(fault.kind, FaultKind::Trap(_)),
            "{target}: {fault}"
        );
        let line = "file.hip:17: assertion `p[X] == 0' failed.\n";
        assert_eq!((err, out), (line.repeat(2), String::new()), "{target}");
    }
}

#[test]
fn other_calls_of_the_host_are_named() {
    let gpu = Gpu::empty(Target::Gfx1100, 1 << 28);
    let (_, _, outcome) = printed(&gpu, "hostcall", "calls_the_program", (1, 32), &[]);
    let fault = outcome.unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::Hostcall { service: 1, .. }),
        "{fault}"
    );
    assert!(
        fault.to_string().contains("function of the program"),
        "{fault}"
    );
}
