//! The emulator decodes every instruction of every embedded code object as LLVM does, for one GPU of each instruction set.

#[path = "../../rocm-emulator/tests/semantics_support/mnemonics.rs"]
mod mnemonics;

use std::collections::BTreeSet;

use candle_rocm_kernels as kernels;
use candle_rocm_testing::listing::{Compared, Comparison};
use candle_rocm_testing::llvm::Tools;
use candle_rocm_testing::needs;
use rocm_emulator::isa::Target;

fn check(target: Target) {
    let name = target.name();
    if !needs::serves(name, kernels::serves) {
        return;
    }
    let mut comparison = Comparison::of(target);
    for module in kernels::MODULES {
        let code = module.code_object(name).expect("an embedded architecture");
        comparison.add(&code);
    }
    check_list(target, &comparison.check(Tools::find()));
}

/// The list by which the emulator's tests know what must have a case is complete.
fn check_list(target: Target, compared: &Compared) {
    let listed: BTreeSet<&str> = mnemonics::of_kernels(target.name()).collect();
    let found = compared.mnemonics.iter();
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
