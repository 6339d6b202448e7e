//! C++ HIP programs, compiled by clang with `<<<>>>` launches, linked to our `libamdhip64.so` and run; or, under `cargo
//! xtask rocm`, linked to AMD's.

use std::path::{Path, PathBuf};
use std::process::Output;

use candle_rocm_testing::hip::{compile_to, device_library, Compile};
use candle_rocm_testing::process;
use candle_rocm_testing::stand_in::library;

/// AMD's own `libamdhip64`, where the tests run on it.
fn amds_library() -> Option<PathBuf> {
    let amd = std::env::var("CANDLE_ROCM_RUNTIME").as_deref() == Ok("amd");
    let library = std::env::var_os("CANDLE_ROCM_HIP_LIBRARY").filter(|_| amd);
    library.map(PathBuf::from)
}

/// The GPUs that a test runs on, one after the other: those it names, or on AMD's HIP the one that was asked for.
fn gpus(named: &[&str]) -> Vec<String> {
    match amds_library() {
        Some(_) => vec![std::env::var("ROCM_EMU_ARCH").expect("ROCM_EMU_ARCH names the GPU")],
        None => named.iter().map(|arch| (*arch).to_owned()).collect(),
    }
}

/// The folder of `libamdhip64.so`.
fn folder() -> &'static Path {
    library().parent().expect("a library is in a folder")
}

/// How to compile a host program for some processors.
fn linked(archs: &[&str]) -> Compile {
    let mut args = match amds_library() {
        // Its C library is newer than this machine's, which links it all the same.
        Some(library) => vec![
            library.display().to_string(),
            "-Wl,--allow-shlib-undefined".into(),
        ],
        None => vec![format!("-L{}", folder().display()), "-lamdhip64".into()],
    };
    args.extend(["--hip-link", "-no-hip-rt"].map(String::from));
    Compile {
        archs: archs.iter().map(|&arch| arch.into()).collect(),
        args,
    }
}

/// A compiled host program for gfx1100 and gfx942, or the GPU that was asked for.
fn program(source: &str) -> tempfile::TempPath {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let archs = gpus(&["gfx1100", "gfx942"]);
    let archs: Vec<&str> = archs.iter().map(String::as_str).collect();
    compile_to(source, &linked(&archs), &path);
    path
}

fn run(program: &Path, arch: &str) -> Output {
    run_with(program, arch, &[])
}

fn run_with(program: &Path, arch: &str, arguments: &[&str]) -> Output {
    let mut command = process::program(program);
    if amds_library().is_none() {
        command.env("LD_LIBRARY_PATH", folder());
    }
    command
        .args(arguments)
        .env("ROCM_EMU_ARCH", arch)
        .env("ROCM_EMU_THREADS", "2")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PROGRAM: &str = r#"
#include "hip_min.h"

#define CHECK(call)                                                                                   \
    do {                                                                                              \
        hipError_t status = (call);                                                                   \
        if (status != hipSuccess) { printf("%s: %s\n", #call, hipGetErrorName(status)); return 1; }   \
    } while (0)

__device__ int total;
__constant__ float factors[4];

// Argument of mixed types and a three-dimensional grid of odd size.
__global__ void axpy(float *y, const float *x, double a, short stride, int n) {
    int block = blockIdx_x + 3 * __builtin_amdgcn_workgroup_id_y();
    int i = (block * blockDim_x + threadIdx_x) * stride;
    if (i < n) y[i] = (float)(a * x[i]) + factors[i & 3];
}

// A tree in LDS, then one atomic for each workgroup.
__global__ void sum(const int *x, int n) {
    extern __shared__ int lds[];
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    lds[threadIdx_x] = i < n ? x[i] : 0;
    for (int width = blockDim_x / 2; width > 0; width /= 2) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        if (threadIdx_x < width) lds[threadIdx_x] += lds[threadIdx_x + width];
    }
    if (threadIdx_x == 0) __hip_atomic_fetch_add(&total, lds[0], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <typename T>
__global__ void fill(T *x, T value, int n) {
    for (int i = blockIdx_x * blockDim_x + threadIdx_x; i < n; i += blockDim_x * 2) x[i] = value;
}

int main() {
    const int n = 1001;
    int devices = 0;
    CHECK(hipGetDeviceCount(&devices));
    printf("devices %d\n", devices);

    float host[n], *x, *y;
    for (int i = 0; i < n; i++) host[i] = i;
    float constants[4] = {0.25f, 0.5f, 0.75f, 1.0f};
    CHECK(hipMemcpyToSymbol(&factors, constants, sizeof(constants), 0, hipMemcpyHostToDevice));
    CHECK(hipMalloc((void **)&x, n * sizeof(float)));
    CHECK(hipMalloc((void **)&y, n * sizeof(float)));
    hipStream_t stream;
    hipEvent_t start, stop;
    CHECK(hipStreamCreate(&stream));
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
    CHECK(hipMemcpyAsync(x, host, sizeof(host), hipMemcpyHostToDevice, stream));
    CHECK(hipEventRecord(start, stream));
    fill<float><<<2, 64, 0, stream>>>(y, -1.0f, n);
    axpy<<<dim3(3, 4, 1), 96, 0, stream>>>(y, x, 2.0, 1, n);
    CHECK(hipGetLastError());
    CHECK(hipEventRecord(stop, stream));
    CHECK(hipMemcpyAsync(host, y, sizeof(host), hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipEventSynchronize(stop));
    float ms = -1;
    CHECK(hipEventElapsedTime(&ms, start, stop));
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += host[i] != 2.0f * i + constants[i & 3];
    printf("wrong %d last %.2f timed %d\n", wrong, host[n - 1], ms >= 0);

    int *ints, values[n], zero = 0, result = 0;
    for (int i = 0; i < n; i++) values[i] = i * i - 7;
    CHECK(hipMalloc((void **)&ints, sizeof(values)));
    CHECK(hipMemcpy(ints, values, sizeof(values), hipMemcpyHostToDevice));
    CHECK(hipMemcpyToSymbol(&total, &zero, sizeof(zero), 0, hipMemcpyHostToDevice));
    sum<<<(n + 127) / 128, 128, 128 * sizeof(int)>>>(ints, n);
    CHECK(hipDeviceSynchronize());
    CHECK(hipMemcpyFromSymbol(&result, &total, sizeof(result), 0, hipMemcpyDeviceToHost));
    printf("sum %d\n", result);

    // Refused before it runs.
    fill<int><<<1, 2048>>>(ints, 1, n);
    printf("%s\n", hipGetErrorName(hipGetLastError()));

    CHECK(hipFree(x));
    CHECK(hipFree(y));
    CHECK(hipFree(ints));
    CHECK(hipEventDestroy(start));
    CHECK(hipEventDestroy(stop));
    CHECK(hipStreamDestroy(stream));
    return 0;
}
"#;

#[test]
fn a_program_computes_on_both_architectures() {
    let program = program(PROGRAM);
    // 0^2 + ... + 1000^2 - 7 * 1001.
    let sum: i64 = (0..=1000).map(|i: i64| i * i - 7).sum();
    for arch in gpus(&["gfx1100", "gfx942", "gfx1100,gfx942"]) {
        let output = run(&program, &arch);
        let devices = arch.split(',').count();
        assert_eq!(
            text(&output.stdout),
            format!(
                "devices {devices}\nwrong 0 last 2000.25 timed 1\nsum {sum}\nhipErrorInvalidConfiguration\n"
            ),
            "{arch}: {}",
            text(&output.stderr)
        );
        assert!(output.status.success());
        if amds_library().is_some() {
            continue;
        }
        // `<<<...>>>` drops the status of the launch that was refused.
        let refused = text(&output.stderr);
        assert_eq!(refused.lines().count(), 1, "{arch}: {refused}");
        for part in [
            "launch refused: hipErrorInvalidConfiguration: kernel _Z4fillIiEvPT_S0_i",
            "block [2048, 1, 1] has 2048 work-items",
        ] {
            assert!(refused.contains(part), "{part:?} is not in {refused:?}");
        }
    }
}

/// Text of kernels and of the program comes in the order in which it was printed.
const PRINTS: &str = r#"
#include "hip_min.h"
extern "C" __device__ int printf(const char *, ...);
__global__ void say(int number) {
    if (threadIdx_x == 3) printf("kernel %d, item %u\n", number, threadIdx_x);
}
int main() {
    for (int number = 0; number < 3; number++) {
        printf("before %d\n", number);
        say<<<1, 64>>>(number);
    }
    printf("after\n");
    return hipDeviceSynchronize();
}
"#;

/// AMD's HIP prints what kernels say when it comes to it: there each text is compared in its own order.
#[test]
fn kernels_print_in_order() {
    let arch = &gpus(&["gfx1100"])[0];
    let wave = match arch.starts_with("gfx9") {
        true => "oclc_wavefrontsize64_on",
        false => "oclc_wavefrontsize64_off",
    };
    let library = device_library(arch);
    let ocml = library.iter().find(|arg| arg.ends_with("ocml.bc")).unwrap();
    let folder = ocml.strip_suffix("ocml.bc").unwrap();
    for kind in ["hostcall", "buffered"] {
        // The library must not be linked to the host's code, too: the device's is compiled first.
        let mut device = Compile::bundle(&[arch]);
        device.args.push(format!("-mprintf-kind={kind}"));
        for name in ["ockl", "opencl", wave] {
            let path = format!("{folder}{name}.bc");
            let linked = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", &path];
            device.args.extend(linked.map(String::from));
        }
        let bundle = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        compile_to(PRINTS, &device, &bundle);
        let mut host = linked(&[arch]);
        let path = bundle.display().to_string();
        let embedded = [
            "--cuda-host-only",
            "-Xclang",
            "-fcuda-include-gpubinary",
            "-Xclang",
            &path,
        ];
        host.args.extend(embedded.map(String::from));
        let program = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        compile_to(PRINTS, &host, &program);
        let output = run(&program, arch);
        let want: String = (0..3)
            .map(|number| format!("before {number}\nkernel {number}, item 3\n"))
            .collect();
        let (mut got, mut want) = (text(&output.stdout), want + "after\n");
        if amds_library().is_some() {
            for all in [&mut got, &mut want] {
                let (kernels, host): (Vec<&str>, Vec<&str>) =
                    all.lines().partition(|line| line.starts_with("kernel"));
                *all = [kernels, host].concat().join("\n");
            }
        }
        assert_eq!(got, want, "{kind}: {output:?}");
        assert!(output.status.success(), "{kind}");
    }
}

/// The version of each function in the library, as `ld.so` looks for it.
#[test]
fn functions_have_the_versions_of_amds_library() {
    use object::read::elf::{ElfFile64, FileHeader, Sym};
    let bytes = std::fs::read(library()).unwrap();
    let file = ElfFile64::<object::LittleEndian>::parse(&*bytes).unwrap();
    let sections = file
        .elf_header()
        .sections(object::LittleEndian, &*bytes)
        .unwrap();
    let little = object::LittleEndian;
    let versions = sections
        .versions(little, &*bytes)
        .unwrap()
        .expect("versions");
    let symbols = sections
        .symbols(little, &*bytes, object::elf::SHT_DYNSYM)
        .unwrap();
    let mut found = std::collections::HashMap::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.is_undefined(little) {
            continue;
        }
        let name = std::str::from_utf8(symbol.name(little, symbols.strings()).unwrap()).unwrap();
        let version = versions.version_index(little, index);
        let version = versions
            .version(version)
            .unwrap()
            .map(|version| version.name());
        found.insert(name, version.map(|name| std::str::from_utf8(name).unwrap()));
    }
    for name in rocm_emulator::hip::abi::names() {
        let version = found
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not exported"));
        assert!(version.is_some(), "{name} has no version");
    }
    for (name, version) in [
        ("hipMalloc", "hip_4.2"),
        ("hipGraphAddMemsetNode", "hip_4.3"),
        ("hipGraphClone", "hip_4.5"),
        ("hipGetDevicePropertiesR0600", "hip_6.0"),
        ("hipGetProcAddress", "hip_6.1"),
        ("rocmEmuGetLastFault", "rocm_emulator"),
    ] {
        assert_eq!(found[name], Some(version), "{name}");
    }
}

/// Two streams that wait for each other, and memory of the host's that kernels reach.
const STREAMS: &str = r#"
#include "hip_min.h"
#define CHECK(call)                                                                                   \
    do {                                                                                              \
        hipError_t status = (call);                                                                   \
        if (status != hipSuccess) { printf("%s: %s\n", #call, hipGetErrorName(status)); return 1; }   \
    } while (0)
__global__ void twice(int *to, const int *from, int n) {
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i < n) to[i] = 2 * from[i];
}
__global__ void add(int *to, const int *from, int n) {
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i < n) __hip_atomic_fetch_add(&to[i & 7], from[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
int main() {
    const int n = 777, rounds = 20;
    int *host, *device, *sums;
    CHECK(hipHostMalloc((void **)&host, n * sizeof(int), 0));
    CHECK(hipHostMalloc((void **)&sums, 8 * sizeof(int), 0));
    CHECK(hipMalloc((void **)&device, n * sizeof(int)));
    hipStream_t first, second;
    hipEvent_t made, used;
    CHECK(hipStreamCreate(&first));
    CHECK(hipStreamCreate(&second));
    CHECK(hipEventCreate(&made));
    CHECK(hipEventCreate(&used));
    for (int i = 0; i < n; i++) host[i] = i - 100;
    for (int i = 0; i < 8; i++) sums[i] = 0;
    for (int round = 0; round < rounds; round++) {
        if (round) CHECK(hipStreamWaitEvent(first, used, 0));
        twice<<<13, 64, 0, first>>>(device, host, n);
        CHECK(hipEventRecord(made, first));
        CHECK(hipStreamWaitEvent(second, made, 0));
        add<<<4, 256, 0, second>>>(sums, device, n);
        CHECK(hipMemcpyAsync(host, device, n * sizeof(int), hipMemcpyDeviceToHost, second));
        if (round % 5 == 4) {
            CHECK(hipStreamSynchronize(second));
            for (int i = 0; i < n; i++) host[i] = i - 100;
        }
        CHECK(hipEventRecord(used, second));
    }
    CHECK(hipDeviceSynchronize());
    for (int i = 0; i < 8; i++) printf("%d ", sums[i]);
    printf("\n");
    CHECK(hipHostFree(host));
    CHECK(hipHostFree(sums));
    CHECK(hipFree(device));
    return 0;
}
"#;

#[test]
fn streams_wait_and_kernels_reach_the_hosts_memory() {
    let program = program(STREAMS);
    // Four times 2 + 4 + 8 + 16 + 32 of each number.
    let sum = |part: i64| -> i64 {
        (0..777)
            .filter(|i| i & 7 == part)
            .map(|i| i - 100)
            .sum::<i64>()
            * 4
            * 62
    };
    let want: String = (0..8).map(|part| format!("{} ", sum(part))).collect();
    for arch in gpus(&["gfx1100", "gfx942"]) {
        let output = run(&program, &arch);
        assert_eq!(
            text(&output.stdout),
            want.clone() + "\n",
            "{arch}: {output:?}"
        );
        assert!(output.status.success());
    }
}

/// A kernel that does what it must not, by the program's argument.
const FAULTS: &str = r#"
#include "hip_min.h"
extern "C" int atoi(const char *);
__global__ void fault(int *memory, int kind) {
    extern __shared__ int lds[];
    if (kind == 0) memory[(1l << 40) + threadIdx_x] = 1;
    if (kind == 1) memory[threadIdx_x] = memory[(1l << 40) + threadIdx_x];
    if (kind == 2) __builtin_trap();
    if (kind == 3) lds[(1 << 16) + threadIdx_x] = 1;
}
int main(int, char **arguments) {
    int *memory;
    printf("result: %s\n", hipGetErrorName(hipMalloc((void **)&memory, 4096)));
    fault<<<2, 64, 256>>>(memory, 9);
    printf("result: %s\n", hipGetErrorName(hipDeviceSynchronize()));
    fault<<<2, 64, 256>>>(memory, atoi(arguments[1]));
    printf("result: %s\n", hipGetErrorName(hipDeviceSynchronize()));
    // Nothing runs after it.
    int host = 0;
    printf("result: %d\n", hipMemcpy(&host, memory, sizeof(host), hipMemcpyDeviceToHost) != hipSuccess);
    return 0;
}
"#;

#[test]
fn a_faulty_kernel_is_an_error_and_a_line() {
    let program = program(FAULTS);
    let faults = [
        ("0", "hipErrorIllegalAddress", "out-of-bounds store"),
        ("1", "hipErrorIllegalAddress", "out-of-bounds load"),
        ("2", "hipErrorLaunchFailure", "trap"),
        ("3", "hipErrorIllegalAddress", "LDS store"),
    ];
    for arch in gpus(&["gfx1100", "gfx942"]) {
        for (kind, error, line) in faults {
            let output = run_with(&program, &arch, &[kind]);
            // AMD's HIP writes about the packet between them.
            let stdout = text(&output.stdout);
            let results = stdout
                .lines()
                .filter_map(|line| line.split_once("result: "));
            let results: Vec<&str> = results.map(|(_, result)| result).collect();
            assert_eq!(
                results,
                ["hipSuccess", "hipSuccess", error, "1"],
                "{arch}: {output:?}"
            );
            let line_of = text(&output.stderr);
            assert!(
                line_of.contains(line) && line_of.contains("fault"),
                "{arch}: {line_of}"
            );
        }
    }
}

const BROKEN: &str = r#"
#include "hip_min.h"
__global__ void shift(int *to, const int *from, int n) {
    int i = blockIdx_x * blockDim_x + threadIdx_x;
    if (i <= n) to[i] = from[i < n ? i : 0];
}
int main() {
    const int n = 200;
    int *a, *b, host = 0;
    hipMalloc((void **)&a, n * sizeof(int));
    hipMalloc((void **)&b, n * sizeof(int));
    shift<<<4, 64>>>(b, a, n - 1);
    printf("%s\n", hipGetErrorName(hipGetLastError()));
    shift<<<4, 64>>>(b, a, n);
    printf("%s\n", hipGetErrorName(hipGetLastError()));
    printf("%s\n", hipGetErrorName(hipMemcpy(&host, b, sizeof(int), hipMemcpyDeviceToHost)));
    printf("%s\n", hipGetErrorName(hipDeviceSynchronize()));
    printf("%s\n", rocmEmuGetLastFault());
    printf("%s\n", hipGetErrorName(hipDeviceReset()));
    hipMalloc((void **)&a, n * sizeof(int));
    hipMalloc((void **)&b, n * sizeof(int));
    shift<<<4, 64>>>(b, a, n - 1);
    printf("%s\n", hipGetErrorName(hipDeviceSynchronize()));
    return 0;
}
"#;

#[test]
fn one_element_out_of_bounds_is_caught() {
    let program = program(BROKEN);
    for arch in ["gfx1100", "gfx942"] {
        let output = run(&program, arch);
        let stdout = text(&output.stdout);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(
            (&lines[..4], &lines[5..]),
            (
                &[
                    "hipSuccess",
                    "hipErrorIllegalAddress",
                    "hipErrorIllegalAddress",
                    "hipErrorIllegalAddress"
                ][..],
                &["hipSuccess", "hipSuccess"][..]
            ),
            "{arch}: {stdout}{}",
            text(&output.stderr)
        );
        let fault = lines[4];
        // Item 200 is lane 8 of the fourth workgroup's first wavefront, on both architectures.
        for part in [
            "shift",
            "out-of-bounds store of 4 bytes",
            "workgroup (3, 0, 0), wave 0, lane 8",
            "800 bytes",
        ] {
            assert!(fault.contains(part), "{part:?} is not in {fault:?}");
        }
        assert!(text(&output.stderr).contains(fault));
        assert_eq!(text(&output.stderr).lines().count(), 1);
    }
}

#[test]
fn a_missing_architecture_is_named() {
    let program = program(BROKEN);
    let output = run(&program, "gfx1201");
    assert!(
        text(&output.stdout).contains("hipErrorNoBinaryForGpu"),
        "{output:?}"
    );
    let output = run(&program, "gfx9999");
    assert!(text(&output.stderr).contains("gfx9999"), "{output:?}");
}
