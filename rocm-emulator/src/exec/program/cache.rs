//! Programs by kernel: each is translated once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;

use super::step::Op;
use super::translate::{translate, Program};
use crate::codeobject::LoadedKernel;
use crate::fault::FaultKind;

type Cache = RwLock<HashMap<(u64, u64), Arc<Program>>>;
static CACHE: LazyLock<Cache> = LazyLock::new(Cache::default);

/// Forget the programs of a code object that is unloaded.
pub fn unload(code_object: u64) {
    CACHE.write().retain(|key, _| key.0 != code_object);
}

/// Reachable instructions of a kernel that the emulator cannot run: byte offset from the entry, and why. Empty for
/// a kernel that runs in full.
pub fn unsupported(kernel: &LoadedKernel) -> Vec<(u64, FaultKind)> {
    let program = of(kernel);
    let broken = program.steps.iter().filter_map(|step| match &step.op {
        Op::Broken(kind) => Some((step.pc - kernel.entry, kind.clone())),
        _ => None,
    });
    broken.collect()
}

/// The kernel's program.
pub(crate) fn of(kernel: &LoadedKernel) -> Arc<Program> {
    let key = (kernel.code_object, kernel.entry);
    if let Some(program) = CACHE.read().get(&key) {
        return program.clone();
    }
    let program = Arc::new(translate(kernel, vec![kernel.entry]));
    CACHE.write().entry(key).or_insert(program).clone()
}

/// The kernel's program with the code at `pc` in it, or `None` where there is no code.
pub(crate) fn extended(kernel: &LoadedKernel, pc: u64) -> Option<Arc<Program>> {
    if !kernel.code.contains(&pc) || pc % 4 != 0 {
        return None;
    }
    let mut cache = CACHE.write();
    let key = (kernel.code_object, kernel.entry);
    let mut roots = match cache.get(&key) {
        Some(program) if program.at(pc).is_some() => return Some(program.clone()),
        Some(program) => program.roots.clone(),
        None => vec![kernel.entry],
    };
    roots.push(pc);
    let program = Arc::new(translate(kernel, roots));
    cache.insert(key, program.clone());
    Some(program)
}
