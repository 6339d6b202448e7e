//! What the checks know of the instructions of a code object, found out once for all launches.

use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;

use super::facts::Facts;
use super::hazards::Roles;
use super::policy::Policy;
use super::races::RaceFacts;
use crate::codeobject::LoadedKernel;
use crate::exec::program;

/// What is known of an instruction.
pub(super) struct Instruction {
    pub facts: Arc<Facts>,
    pub roles: Roles,
    pub races: RaceFacts,
    pub policy: Policy,
}

/// Code objects that are remembered, the last used last.
static REMEMBERED: LazyLock<Mutex<Vec<Arc<Code>>>> = LazyLock::new(Mutex::default);
/// How many. One more costs 16 bytes for each dword of its code.
const MOST: usize = 32;

/// The executable segment of a code object.
pub(super) struct Code {
    code_object: u64,
    start: u64,
    /// By dword.
    instructions: Box<[OnceLock<Arc<Instruction>>]>,
}

impl Code {
    /// That of a kernel.
    pub fn of(kernel: &LoadedKernel) -> Arc<Code> {
        let mut remembered = REMEMBERED.lock();
        let is_this = |code: &Arc<Code>| {
            code.code_object == kernel.code_object && code.start == kernel.code.start
        };
        let code = match remembered.iter().position(is_this) {
            Some(at) => remembered.remove(at),
            None => {
                let dwords = (kernel.code.end - kernel.code.start).div_ceil(4);
                Arc::new(Code {
                    code_object: kernel.code_object,
                    start: kernel.code.start,
                    instructions: (0..dwords).map(|_| OnceLock::new()).collect(),
                })
            }
        };
        if remembered.len() == MOST {
            remembered.remove(0);
        }
        remembered.push(Arc::clone(&code));
        code
    }

    /// What is known of the instruction at an address; none where the words are no instruction, which is a fault of its own.
    pub fn at(&self, kernel: &LoadedKernel, pc: u64) -> Option<&Arc<Instruction>> {
        let offset = pc.checked_sub(self.start)?;
        let place = self.instructions.get(usize::try_from(offset / 4).ok()?)?;
        if let Some(known) = place.get() {
            return Some(known);
        }
        let target = kernel.kernel.target;
        let inst = program::placed_at(kernel, pc)?;
        let facts = Facts::of(target, &inst);
        Some(place.get_or_init(|| {
            Arc::new(Instruction {
                roles: Roles::of(target, &facts),
                races: RaceFacts::of(target, &inst, &facts),
                policy: Policy::of(target, &inst),
                facts: Arc::new(facts),
            })
        }))
    }
}
