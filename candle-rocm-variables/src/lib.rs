#![doc = include_str!("../README.md")]

/// The part of the project that reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Build scripts, and what compiles kernels at run time.
    Build,
    /// The choice of the runtime and of AMD's libraries.
    Runtime,
    /// Memory and captured steps.
    Memory,
    /// Tables and traces of what ran.
    Profile,
    /// Matrix products and convolutions.
    Products,
    /// Collectives over several GPUs.
    Communication,
    /// CUDA sources of a user's own.
    OwnCuda,
    /// The emulated GPU.
    Emulator,
    /// The project's own tests and commands.
    Tests,
    /// The project's benchmarks.
    Benchmarks,
    /// Variables of ROCm and of others that count here, too.
    Others,
}

impl Part {
    /// Every part, in the order of the page.
    pub const ALL: [Part; 11] = [
        Part::Build,
        Part::Runtime,
        Part::Memory,
        Part::Profile,
        Part::Products,
        Part::Communication,
        Part::OwnCuda,
        Part::Emulator,
        Part::Others,
        Part::Tests,
        Part::Benchmarks,
    ];

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Part::Build => "Building, and the cache of compiled kernels",
            Part::Runtime => "The runtime and AMD's libraries",
            Part::Memory => "Memory and captured steps",
            Part::Profile => "What ran, and for how long",
            Part::Products => "Matrix products and convolutions",
            Part::Communication => "Several GPUs",
            Part::OwnCuda => "CUDA sources of your own",
            Part::Emulator => "The emulated GPU",
            Part::Tests => "Tests and commands of the project",
            Part::Benchmarks => "Benchmarks of the project",
            Part::Others => "Variables of ROCm and others that count here",
        }
    }
}

/// One variable of the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Who reads it.
    pub part: Part,
    /// The values that it takes, in Markdown.
    pub values: &'static str,
    /// What holds where it is unset or empty, in Markdown.
    pub default: &'static str,
    /// What it does, in a sentence.
    pub sentence: &'static str,
}

/// Declares each variable as a constant, and [`ALL`].
macro_rules! variables {
    ($($constant:ident $name:literal $part:ident: $values:literal, $default:literal; $sentence:literal;)*) => {
        $(
            #[doc = $sentence]
            pub const $constant: Variable = Variable {
                name: $name,
                part: Part::$part,
                values: $values,
                default: $default,
                sentence: $sentence,
            };
        )*

        /// Every variable, in the order of the page.
        pub const ALL: &[Variable] = &[$($constant),*];
    };
}

variables! {
    ARCHS "CANDLE_ROCM_ARCHS" Build:
        "GPUs and generic targets, such as `gfx942,gfx11-generic`; `native`; `default`",
        "targets of `default` that serve this machine's GPUs, or all of `default` where it has none";
        "What kernels are compiled for: named targets, the GPUs of this machine (`native`), or gfx90a, gfx942, \
         gfx10-3-generic, gfx11-generic, gfx12-generic and, where the compiler knows it, gfx950 (`default`).";
    SKIP_KERNELS "CANDLE_ROCM_SKIP_KERNELS" Build:
        "`1`", "kernels are compiled";
        "Builds without kernels and without their compiler, for `cargo check`, lints and documentation; the \
         program cannot run on a GPU.";
    KERNEL_CACHE "CANDLE_ROCM_KERNEL_CACHE" Build:
        "a folder", "`candle-rocm/kernels` in `$XDG_CACHE_HOME` or `~/.cache`";
        "The folder in which compiled kernels are kept for all projects and profiles.";
    KERNEL_CACHE_SIZE "CANDLE_ROCM_KERNEL_CACHE_SIZE" Build:
        "a size, such as `500MiB`", "2 GiB";
        "How large that folder may grow; what was unused for longest goes first.";
    CLANG "CANDLE_ROCM_CLANG" Build:
        "a clang++", "the search in ROCm's folders and the `PATH`";
        "The compiler for kernels, in builds and at run time.";
    DEVICE_LIBS "CANDLE_ROCM_DEVICE_LIBS" Build:
        "a folder with `ocml.bc`", "the search beside the compiler and in the system's folders";
        "ROCm's device libraries, which kernels are linked with.";
    LIBDEVICE "CANDLE_ROCM_LIBDEVICE" Build:
        "a file", "that of `CUDA_HOME` or of the usual folders";
        "NVIDIA's libdevice, for builds that time the kernels on an NVIDIA GPU.";
    SPECIALISE "CANDLE_ROCM_SPECIALISE" Build:
        "`0`, `1`", "only shapes that `fp8::prewarm` asks for";
        "Whether kernels of FP8 and grouped products are compiled at run time for the shapes of a program: none \
         (`0`), or each new shape (`1`).";

    RUNTIME "CANDLE_ROCM_RUNTIME" Runtime:
        "`amd`, `emulator`, `nvidia`", "`amd`";
        "The runtime of the process: AMD's HIP, the emulated GPU, or, in programs built with the feature \
         `nvidia`, the CUDA driver.";
    HIP_LIBRARY "CANDLE_ROCM_HIP_LIBRARY" Runtime:
        "a file", "the search in [ROCm's folders](install.md#rocm-by-release) and the system's";
        "The `libamdhip64.so` to load, and the only one that is then tried.";
    BLAS_LIBRARY "CANDLE_ROCM_BLAS_LIBRARY" Runtime:
        "a file", "the search in the vendor's folders";
        "The vendor's library of matrix products to load, rocBLAS or cuBLAS.";
    BLASLT_LIBRARY "CANDLE_ROCM_BLASLT_LIBRARY" Runtime:
        "a file", "the search in the vendor's folders";
        "The hipBLASLt to load, which `CANDLE_ROCM_GEMM=library` asks first for the products of `cudarc::cublaslt`.";
    MIOPEN_LIBRARY "CANDLE_ROCM_MIOPEN_LIBRARY" Runtime:
        "a file", "the search in `ROCM_PATH`, `/opt/rocm` and the system's folders";
        "The MIOpen to load, where `CANDLE_ROCM_CONV` has it asked for convolutions.";

    POOL "CANDLE_ROCM_POOL" Memory:
        "`0`, `1`", "a pool on GPUs, none on the emulator";
        "Whether device memory comes from a pool; without one each allocation is the driver's.";
    POOL_THRESHOLD "CANDLE_ROCM_POOL_THRESHOLD" Memory:
        "a size, such as `512MiB`, or `max`", "0, as CUDA's";
        "How much the pool may hold after a synchronisation, beside what lives and what a loop's steps use again.";
    GRAPHS "CANDLE_ROCM_GRAPHS" Memory:
        "`0`, `1`, `auto`", "`auto`";
        "Whether sessions of candle-rocm-transformers capture the step that decodes a token and launch it as one \
         graph: where the first graph on a card computes what its kernels compute one by one (`auto`), always (`1`), or \
         never, so that each kernel is launched by itself (`0`).";

    PROFILE "CANDLE_ROCM_PROFILE" Profile:
        "`1`, or a file", "no table";
        "Has any program print to standard error, or write to the file, at its end, how often each kernel ran and for how \
         long.";
    TRACE "CANDLE_ROCM_TRACE" Profile:
        "a file, such as `trace.json`", "no trace";
        "Has any program write what threads gave to GPUs and when GPUs ran it, for <https://ui.perfetto.dev>.";
    RANGES "CANDLE_ROCM_RANGES" Profile:
        "`0`, `1`, `auto`", "`auto`";
        "Whether ranges and marks (`profile::range`, layers of models, `cudarc::nvtx`) are told to another profiler, AMD's by \
         roctx or NVIDIA's by nvToolsExt: always (`1`), never (`0`), or where `rocprofv3 --marker-trace` or Nsight \
         Systems started the program (`auto`).";
    RANGES_LIBRARY "CANDLE_ROCM_RANGES_LIBRARY" Profile:
        "a file", "the search in the vendor's folders";
        "The library of the profiler that is told of ranges: roctx or nvToolsExt.";

    GEMM "CANDLE_ROCM_GEMM" Products:
        "`own`, `library`, `auto`", "`auto`";
        "Who multiplies matrices: our kernels; the vendor's library, which must then be there; or the faster one \
         where products were timed, else cuBLAS in the `nvidia` runtime and our kernels on AMD GPUs.";
    CONV "CANDLE_ROCM_CONV" Products:
        "`own`, `library`, `auto`", "`auto`";
        "Who makes convolutions: our kernels; MIOpen, which must then be there; or our kernels but where timings \
         (`CANDLE_ROCM_GEMM_TUNE`) found MIOpen faster.";
    GEMM_TUNE "CANDLE_ROCM_GEMM_TUNE" Products:
        "`1`, `use`", "no timings";
        "Times the first product of each shape with several kernels and the vendor's library, and the first \
         convolution by both, and keeps the fastest (`1`), or takes what was kept and times nothing (`use`).";
    GEMM_TUNE_FILE "CANDLE_ROCM_GEMM_TUNE_FILE" Products:
        "a file", "`candle-rocm/gemm.tsv` in `$XDG_CACHE_HOME` or `~/.cache`";
        "The file in which timings are kept.";

    COMM "CANDLE_ROCM_COMM" Communication:
        "`own`, `staged`, `library`, `auto`", "`auto`";
        "Whose collectives run: ours; ours through the host's memory even where GPUs reach each other's; RCCL (NCCL in the \
         `nvidia` runtime), which must then be there; or the library where it loads and ours elsewhere.";
    COMM_LIBRARY "CANDLE_ROCM_COMM_LIBRARY" Communication:
        "a file", "the search in the vendor's folders";
        "The library of collectives to load, RCCL or NCCL.";
    COMM_TIMEOUT "CANDLE_ROCM_COMM_TIMEOUT" Communication:
        "a number of seconds", "600";
        "How long a rank of our collectives waits for another that lives, before an error names it.";

    CUDA_COMPILER "CANDLE_ROCM_CUDA_COMPILER" OwnCuda:
        "`hiprtc`, `clang`", "hiprtc where it loads, else clang";
        "What compiles CUDA source when a program runs.";
    HIPRTC_LIBRARY "CANDLE_ROCM_HIPRTC_LIBRARY" OwnCuda:
        "a file", "the search in [ROCm's folders](install.md#rocm-by-release) and the system's";
        "The `libhiprtc.so` to load.";
    NVRTC_LIBRARY "CANDLE_ROCM_NVRTC_LIBRARY" OwnCuda:
        "a file", "the search in the CUDA toolkit's folders";
        "The NVRTC to load, in the `nvidia` runtime.";
    CUDA_ARCH "CANDLE_ROCM_CUDA_ARCH" OwnCuda:
        "a number, such as `900`", "800";
        "`__CUDA_ARCH__` of compiled CUDA sources, and so the compute capability that they see.";

    EMU_ARCH "ROCM_EMU_ARCH" Emulator:
        "GPUs of [the table](gpus.md), separated by commas", "`gfx1100`";
        "The GPU to emulate; several are several devices.";
    EMU_MEMORY "ROCM_EMU_MEMORY" Emulator:
        "a size for each device, or one for all", "16 GiB";
        "Each emulated device's memory, taken from the host as it is touched.";
    EMU_PEERS "ROCM_EMU_PEERS" Emulator:
        "`0`, `1`", "`0`";
        "Whether emulated devices reach each other's memory, as data-centre GPUs do and most others do not.";
    EMU_THREADS "ROCM_EMU_THREADS" Emulator:
        "a number", "all cores";
        "Threads of the CPU that execute workgroups.";
    EMU_MAX_INSTRUCTIONS "ROCM_EMU_MAX_INSTRUCTIONS" Emulator:
        "a number", "2^34";
        "Instructions of one wavefront after which a launch counts as hung.";
    EMU_WORKGROUPS "ROCM_EMU_WORKGROUPS" Emulator:
        "a number", "all";
        "Executes so many workgroups of a larger grid, spread evenly: what the others would have written is not \
         written.";
    EMU_READ_PAST_END "ROCM_EMU_READ_PAST_END" Emulator:
        "bytes, at most 4096", "0";
        "How far past an allocation's end kernels may read, as a GPU would rarely notice; what is read there is \
         undefined.";
    EMU_CHECK "ROCM_EMU_CHECK" Emulator:
        "`races`, `uninitialised`, `waits`, `order`, `caches`, separated by commas", "none";
        "[Checks](../emulator/checks.md) of what no hardware reports.";
    EMU_SEED "ROCM_EMU_SEED" Emulator:
        "a number", "0";
        "What the checks `order` and `caches` draw from.";
    EMU_GRAPH_FAULT "ROCM_EMU_GRAPH_FAULT" Emulator:
        "`stale-copies`, `stale`, `garbage`, each with `:` and a number or without", "none";
        "Replays graphs of eight kernels and more as some releases of AMD's HIP do: blind to what copies, or copies and \
         kernels, wrote since the graph was made, or with garbage; the number is that of the first graph of the \
         process that is wrong, from 0.";
    EMU_HIP_VERSION "ROCM_EMU_HIP_VERSION" Emulator:
        "a release, such as `7.2.4`", "the one whose interface it has";
        "The release that the emulator's HIP says it is.";
    EMU_FINDINGS "ROCM_EMU_FINDINGS" Emulator:
        "a file", "none";
        "The file to which each process appends a line, architecture and text, for each finding of a check.";
    EMU_COVERAGE "ROCM_EMU_COVERAGE" Emulator:
        "a file", "none";
        "The file to which each process appends a line, architecture and kernel, for each kernel that it ran to \
         its end.";
    EMU_COUNTS "ROCM_EMU_COUNTS" Emulator:
        "a file", "none";
        "The file to which kfd-emulator appends what each launch executes, as JSON.";
    EMU_COUNTS_WORKGROUPS "ROCM_EMU_COUNTS_WORKGROUPS" Emulator:
        "a number, `timed`", "all";
        "How many workgroups of a launch kfd-emulator executes, or those that the model of time looks at \
         (`timed`); results are then missing.";

    ROCM_PATH "ROCM_PATH" Others:
        "a folder", "the search in `/opt/rocm` and beside it";
        "Where ROCm is: its compiler, device libraries and HIP are looked for there first.";
    VIRTUAL_ENV "VIRTUAL_ENV" Others:
        "a folder", "none";
        "A Python environment: where ROCm's wheels are installed in it, HIP and the compiler are looked for there.";
    HIP_PATH "HIP_PATH" Others:
        "a folder", "none";
        "A second such folder.";
    CUDA_HOME "CUDA_HOME" Others:
        "a folder", "none";
        "Where the CUDA toolkit is, for `cargo xtask nvidia`.";
    HIP_VISIBLE_DEVICES "HIP_VISIBLE_DEVICES" Others:
        "numbers, separated by commas", "all";
        "The GPUs that HIP lists, and their order; `CUDA_VISIBLE_DEVICES` counts where it is unset.";
    CUDA_VISIBLE_DEVICES "CUDA_VISIBLE_DEVICES" Others:
        "numbers, separated by commas", "all";
        "The same where `HIP_VISIBLE_DEVICES` is unset, and for NVIDIA GPUs.";
    ROCR_VISIBLE_DEVICES "ROCR_VISIBLE_DEVICES" Others:
        "numbers, separated by commas", "all";
        "The GPUs that ROCr shows to HIP.";
    HSA_OVERRIDE_GFX_VERSION "HSA_OVERRIDE_GFX_VERSION" Others:
        "a version, such as `10.3.0`", "none";
        "Makes GPUs pass for another processor; with `_` and a node's number behind the name, that GPU alone.";
    XDG_CACHE_HOME "XDG_CACHE_HOME" Others:
        "a folder", "`~/.cache`";
        "Where the caches of this table lie.";

    TESTS_WITHOUT "CANDLE_ROCM_TESTS_WITHOUT" Tests:
        "names of GPUs, `architectures`, `resource-tables`, `machine-without-rocm`", "none";
        "What tests may lack; a test that lacks anything else fails.";
    TESTS_ON "CANDLE_ROCM_TESTS_ON" Tests:
        "a GPU", "all five";
        "Runs the kernels' own tests on this emulated GPU alone.";
    TESTS_HIP_LIBRARY "CANDLE_ROCM_TESTS_HIP_LIBRARY" Tests:
        "a path", "built by the test that asks for it";
        "The emulator as a `libamdhip64.so`, which `cargo xtask test` builds once for all tests.";
    STRESS "CANDLE_ROCM_STRESS" Tests:
        "a number", "1";
        "Multiplies what the stress tests do.";
    ATTENTION_CASES "CANDLE_ROCM_ATTENTION_CASES" Tests:
        "a number", "a few";
        "How many cases the tests of attention draw.";
    ATTENTION_SEED "CANDLE_ROCM_ATTENTION_SEED" Tests:
        "a number", "a fixed one";
        "What those cases are drawn from.";
    FP8_CASES "CANDLE_ROCM_FP8_CASES" Tests:
        "a number", "12";
        "How many cases the tests of FP8 draw.";
    WRITE_RESOURCES "CANDLE_ROCM_WRITE_RESOURCES" Tests:
        "`1`", "the tables are compared";
        "Writes the tables of registers, LDS and occupancy anew.";
    WRITE_PAGES "CANDLE_ROCM_WRITE_PAGES" Tests:
        "`1`", "the pages are compared";
        "Writes the generated pages of the book anew: this one, the supported GPUs and the figures of the ladders.";
    AMD_PACKAGES "CANDLE_ROCM_AMD_PACKAGES" Tests:
        "a folder", "this machine's mirror of Debian";
        "Where `cargo xtask rocm` finds AMD's packages.";
    TEST_RUNNER "CANDLE_ROCM_TEST_RUNNER" Tests:
        "a program", "none";
        "The program under which `cargo xtask conformance` runs Candle's tests.";

    BENCH_MODELS "CANDLE_ROCM_BENCH_MODELS" Benchmarks:
        "`candle`", "candle-rocm-transformers' models";
        "Times candle-transformers' models in our worker.";
    BENCH_CACHE "CANDLE_ROCM_BENCH_CACHE" Benchmarks:
        "`f32`, `bf16`, `f16`", "`f16` for quantised models";
        "The type in which timed models keep keys and values.";
    BENCH_CONTEXT "CANDLE_ROCM_BENCH_CONTEXT" Benchmarks:
        "a number of tokens", "4,096";
        "The longest sequence of timed models.";
    BENCH_MEMORY "CANDLE_ROCM_BENCH_MEMORY" Benchmarks:
        "a number of tokens", "none";
        "Writes what the memory pool holds whenever so many more tokens are decoded.";
}

/// Names by which a test talks to processes of its own; nobody sets them.
pub const BETWEEN_PROCESSES: &str = "CANDLE_ROCM_TEST_";

/// Macros that CUDA sources are compiled with, whose names look like a variable's.
pub const MACROS: [&str; 2] = ["CANDLE_ROCM_CUDA", "CANDLE_ROCM_FREESTANDING"];

/// The variable of this name.
pub fn find(name: &str) -> Option<&'static Variable> {
    ALL.iter().find(|variable| variable.name == name)
}
