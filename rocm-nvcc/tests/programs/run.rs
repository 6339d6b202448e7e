//! Compiles a group of programs for an emulated GPU, and runs them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use candle_rocm_testing::gpu::Gpu;
use rocm_emulator::exec::Options as Execution;
use rocm_emulator::isa::Target;
use rocm_nvcc::{Compiler, Options, Source};

use crate::table::{reference, Group};

static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
});

/// Compiles the group for this GPU and runs it.
pub fn check(target: Target, group: &Group) {
    let file = group.name;
    let compiler = Compiler::new(&SCRATCH, target.name()).expect("a compiler");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let source = Source::File(folder.join(format!("{file}.cu")));
    let compiled = compiler
        .compile(&source, &Options::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(compiled.warnings, "", "{file} for {target}");
    let code = zstd::decode_all(compiled.objects[0].frame.as_slice()).expect("a frame");
    let gpu = Gpu::empty(target, 1 << 24);
    let loaded = gpu.program(file, || code);
    let (_, failures) = reference::check(group.programs, target.name(), |ran| {
        let addresses = [
            gpu.upload(ran.input),
            gpu.upload(&ran.output),
            gpu.upload(&ran.memory),
        ];
        let [_, output, memory] = addresses;
        let (grid, block) = (ran.launch.grid, ran.launch.block);
        gpu.launch_of(
            &loaded,
            ran.name,
            ([grid, 1, 1], [block, 1, 1]),
            1024,
            &addresses.map(|address| address.to_le_bytes().to_vec()),
            &Execution::default(),
        )
        .unwrap_or_else(|fault| panic!("{} on {target}: {fault}", ran.name));
        ran.output = gpu.download(output, ran.output.len());
        ran.memory = gpu.download(memory, ran.memory.len());
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
