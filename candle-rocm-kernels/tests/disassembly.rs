//! The emulator decodes every word of every embedded code object as LLVM does, for one GPU of each instruction set.

#[path = "../../rocm-emulator/tests/semantics_support/mnemonics.rs"]
mod mnemonics;

use std::collections::BTreeSet;

use candle_rocm_kernels as kernels;
use candle_rocm_testing::listing::Comparison;
use candle_rocm_testing::llvm::Tools;
use candle_rocm_testing::needs;
use object::{Object as _, ObjectSection as _, SectionKind};
use rocm_emulator::isa::Target;

fn check(target: Target) {
    let name = target.name();
    if !needs::serves(name, kernels::serves) {
        return;
    }
    let tools = Tools::find();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut comparison = Comparison::default();
    let mut bytes_of_code = 0;
    for module in kernels::MODULES {
        let code = module.code_object(name).expect("an embedded architecture");
        let elf = object::File::parse(&*code).expect("an ELF file");
        bytes_of_code += elf
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .map(|section| section.size())
            .sum::<u64>();
        let path = folder.path().join(format!("{}.hsaco", module.name()));
        std::fs::write(&path, &code).expect("the folder can be written");
        comparison.add(tools, target, &path);
    }
    comparison.check(target);
    check_list(target, &comparison);
    assert_eq!(
        comparison.words as u64 * 4,
        bytes_of_code,
        "{name}: bytes of code that were not compared"
    );
}

/// The list by which the emulator's tests know what must have a case is complete.
fn check_list(target: Target, comparison: &Comparison) {
    let listed: BTreeSet<&str> = mnemonics::of_kernels(target.name()).collect();
    let found = comparison.mnemonics.iter();
    let found: BTreeSet<&str> = found.map(|name| mnemonics::base(name)).collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(
        missing.is_empty(),
        "{target}: add to rocm-emulator/tests/semantics/instructions.txt: {missing:?}"
    );
}

candle_rocm_testing::each_target! {
    check: gfx906 Gfx906, gfx908 Gfx908, gfx90a Gfx90a, gfx942 Gfx942, gfx1030 Gfx1030, gfx1100 Gfx1100, gfx1201 Gfx1201
}
