//! The emulator knows every instruction that the compiler put into the embedded kernels, on every architecture:
//! what tests do not run would run too.

use std::sync::Arc;

use candle_rocm_kernels as kernels;
use rocm_emulator::codeobject::CodeObject;
use rocm_emulator::exec::{unload, unsupported};
use rocm_emulator::memory::Memory;

#[test]
fn every_reachable_instruction_has_semantics() {
    assert!(
        !kernels::architectures().is_empty(),
        "built with CANDLE_ROCM_SKIP_KERNELS: nothing to test"
    );
    let mut missing = Vec::new();
    let mut seen = 0;
    for module in kernels::MODULES {
        for arch in kernels::architectures() {
            let code = module.code_object(arch).expect("an embedded architecture");
            let object = CodeObject::parse(&code).expect("a code object");
            let memory = Memory::new(1 << 28);
            let loaded = Arc::new(object).load(&memory).expect("room for it");
            for kernel in loaded.kernels() {
                seen += 1;
                for (offset, why) in unsupported(kernel) {
                    missing.push(format!("{arch} {} +{offset:#x}: {why}", kernel.kernel.name));
                }
            }
            unload(loaded.id);
        }
    }
    assert!(seen > 0);
    assert!(
        missing.is_empty(),
        "{} instructions, such as\n{}",
        missing.len(),
        missing[..missing.len().min(20)].join("\n")
    );
}
