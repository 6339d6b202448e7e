//! The hazards that hardware leaves to the program: results that need wait states, `v_nop`s or `s_waitcnt_depctr`
//! before they may be used.
//!
//! A wait state is an instruction issued; `s_nop n` is n + 1 of them. The rules are those of AMD's manuals ("Manually
//! inserted wait states" of CDNA2 and CDNA3; RDNA3 and RDNA4, "WMMA") and of LLVM's GCNHazardRecognizer, whose functions
//! the rows name. Two are left out, as LLVM 19 does not know or only assumes them: the masks of wave64 on RDNA3
//! (`fixVALUMaskWriteHazard`, `fixVALUPartialForwardingHazard`) and scalar registers that VALU instructions of GFX12
//! have read (`fixVALUReadSGPRHazard`). `s_delay_alu` is a hint, which nothing depends on.

use std::collections::VecDeque;
use std::sync::Arc;

use super::facts::{Facts, LaneAccess, Unit};
use super::matrix::{Matrix, Pipeline};
use super::registers::{Span, EXEC, M0, VCC};
use crate::isa::{is_gfx90a, is_gfx940, Architecture, Family, Target, Traits};

/// What must lie between an instruction and one that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// So many wait states.
    States(u32),
    /// More VALU instructions than this, or more transcendental ones than that, or any that waits for VALU results.
    Vectors { all: u32, transcendental: u32 },
}

/// A rule.
struct Rule {
    /// What is not ready, as findings say it.
    what: &'static str,
    on: fn(Target) -> bool,
    /// Whether an instruction can be the first, and the second, of the two that the rule is about.
    first: fn(&Facts) -> bool,
    second: fn(&Facts) -> bool,
    /// What must lie between two such instructions, if the rule is about these.
    between: fn(&Facts, &Facts, Target) -> Option<Need>,
    source: &'static str,
}

/// The rules, by number, of which an instruction can be the first and the second one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Roles {
    first: u32,
    second: u32,
}

impl Roles {
    /// Those of an instruction on a GPU.
    pub fn of(target: Target, facts: &Facts) -> Roles {
        let mut roles = Roles::default();
        // Scalar instructions wait by themselves, but for those that set and get the hardware's registers.
        let waits =
            facts.unit == Unit::Scalar && facts.set_mode.is_none() && facts.get_mode.is_none();
        for (number, rule) in RULES.iter().enumerate() {
            if !(rule.on)(target) {
                continue;
            }
            roles.first |= u32::from((rule.first)(facts)) << number;
            roles.second |= u32::from(!waits && (rule.second)(facts)) << number;
        }
        roles
    }
}

// Their numbers are bits.
const _: () = assert!(RULES.len() <= 32);

/// Most wait states that a rule asks for, and most that one asks for that is not about matrix instructions.
const FARTHEST: u64 = 19;
const FARTHEST_PLAIN: u64 = 5;

fn is_cdna(target: Target) -> bool {
    target.family() == Family::Cdna
}

fn is_rdna3(target: Target) -> bool {
    target.architecture() == Architecture::Rdna3
}

fn has_wmma(target: Target) -> bool {
    matches!(target.family(), Family::Rdna3 | Family::Rdna4)
}

fn any(spans: &[Span], mut test: impl FnMut(Span) -> bool) -> bool {
    spans.iter().any(|span| test(*span))
}

/// Whether a VALU instruction (`first`) writes a scalar register other than EXEC that the second reads, but for one.
fn passes_scalar(first: &Facts, second: &Facts, but: Option<Span>) -> bool {
    let written = |read: Span| any(&first.writes, |it| !it.is_vector() && it.overlaps(read));
    let reads = |it: Span| it.first < EXEC && Some(it) != but && written(it);
    is_vector(first) && any(&second.reads, reads)
}

fn passes_vector(first: &Facts, second: &Facts) -> bool {
    let written = |read: Span| any(&first.writes, |it| it.is_vector() && it.overlaps(read));
    any(&second.reads, written)
}

fn writes(facts: &Facts, register: Span) -> bool {
    is_vector(facts) && any(&facts.writes, |it| it.overlaps(register))
}

fn is_vector(facts: &Facts) -> bool {
    facts.unit == Unit::Vector
}

fn writes_vector(facts: &Facts) -> bool {
    any(&facts.writes, Span::is_vector)
}

/// A VALU instruction that writes EXEC.
fn writes_exec(facts: &Facts) -> bool {
    writes(facts, EXEC_PAIR)
}

fn is_matrix(facts: &Facts) -> bool {
    facts.matrix.is_some()
}

fn is_no_matrix(facts: &Facts) -> bool {
    facts.matrix.is_none()
}

fn is_plain_vector(facts: &Facts) -> bool {
    is_vector(facts) && is_no_matrix(facts)
}

fn when(condition: bool, states: u32) -> Option<Need> {
    condition.then_some(Need::States(states))
}

const EXEC_PAIR: Span = Span::new(EXEC, 2);
const VCC_PAIR: Span = Span::new(VCC, 2);

const RULES: &[Rule] = &[
    Rule {
        what: "a scalar register that a VALU instruction wrote, read by a memory instruction",
        on: is_cdna,
        first: is_vector,
        second: |it| it.unit == Unit::Memory,
        between: |first, second, _| when(passes_scalar(first, second, None), 5),
        source: "checkVMEMHazards",
    },
    Rule {
        what: "a VCC that a VALU instruction wrote, read by v_div_fmas",
        on: is_cdna,
        first: |it| writes(it, VCC_PAIR),
        second: |it| it.op.columns.has(Traits::READS_VCC),
        between: |_, _, _| when(true, 4),
        source: "checkDivFMasHazards",
    },
    Rule {
        what: "a lane's number that a VALU instruction wrote",
        on: is_cdna,
        first: is_vector,
        second: |it| it.lane_number.is_some(),
        between: |first, second, _| {
            let written = |number: Span| writes(first, number);
            when(second.lane_number.is_some_and(written), 4)
        },
        source: "checkRWLaneHazards",
    },
    Rule {
        what: "a vector register just written, read by DPP",
        on: is_cdna,
        first: writes_vector,
        second: |it| it.dpp,
        between: |first, second, _| when(passes_vector(first, second), 2),
        source: "checkDPPHazards",
    },
    Rule {
        what: "an EXEC that a VALU instruction wrote, before DPP",
        on: is_cdna,
        first: writes_exec,
        second: |it| it.dpp,
        between: |_, _, _| when(true, 5),
        source: "checkDPPHazards",
    },
    Rule {
        what: "a transcendental result, read by another VALU instruction",
        on: is_gfx940,
        first: |it| it.transcendental,
        second: |it| is_vector(it) && !it.transcendental,
        between: |first, second, _| when(passes_vector(first, second), 1),
        source: "checkVALUHazards, TransDef",
    },
    Rule {
        what: "a register of which a VALU instruction wrote a part",
        on: is_gfx940,
        first: |it| it.part,
        second: is_vector,
        between: |first, second, _| when(passes_vector(first, second), 1),
        source: "checkVALUHazards, Shift16Def",
    },
    Rule {
        what: "a scalar register that a VALU instruction wrote, read by another",
        on: is_gfx940,
        first: is_vector,
        second: is_vector,
        // LLVM waits before masks, too. AMD's own assembly does not: ROCr's copies carry so, rocBLAS' tails choose so.
        between: |first, second, _| when(passes_scalar(first, second, second.mask), 2),
        source: "checkVALUHazards, VALUWriteSGPRVALURead",
    },
    Rule {
        what: "an EXEC that a VALU instruction wrote, before one that reaches single lanes",
        on: is_gfx940,
        first: writes_exec,
        second: |it| it.lane.is_some(),
        between: |_, _, _| when(true, 4),
        source: "checkVALUHazards, VALUWriteEXECRWLane",
    },
    Rule {
        what: "a vector register just written, read by v_readlane",
        on: is_gfx940,
        first: is_vector,
        second: |it| matches!(it.lane, Some(LaneAccess::Read | LaneAccess::ReadFirst)),
        between: |first, second, _| when(passes_vector(first, second), 1),
        source: "checkVALUHazards, VALUWriteVGPRReadlaneRead",
    },
    Rule {
        what: "the data of a store of more than eight bytes, overwritten",
        on: is_cdna,
        first: |it| it.wide_store.is_some(),
        second: is_vector,
        between: |first, second, target| {
            let over = |data: Span| writes(second, data);
            let states = if is_gfx940(target) { 2 } else { 1 };
            when(first.wide_store.is_some_and(over), states)
        },
        source: "createsVALUHazard",
    },
    Rule {
        what: "an M0 just written, read by an instruction that addresses the LDS with it",
        on: is_cdna,
        first: |it| {
            it.unit == Unit::Scalar && any(&it.writes, |span| span.overlaps(Span::new(M0, 1)))
        },
        second: |it| it.reads_m0,
        between: |_, _, _| when(true, 1),
        source: "checkReadM0Hazards",
    },
    Rule {
        what: "a hardware register just set, read",
        on: is_cdna,
        first: |it| it.set_mode.is_some(),
        second: |it| it.get_mode.is_some(),
        between: |first, second, _| when(first.set_mode == second.get_mode, 2),
        source: "checkGetRegHazards",
    },
    Rule {
        what: "a hardware register just set, set again",
        on: is_cdna,
        first: |it| it.set_mode.is_some(),
        second: |it| it.set_mode.is_some(),
        between: |first, second, _| when(first.set_mode == second.set_mode, 2),
        source: "checkSetRegHazards",
    },
    Rule {
        what: "an EXEC that a VALU instruction wrote, before a matrix instruction",
        on: is_gfx90a,
        first: |it| writes_exec(it) && is_no_matrix(it),
        second: is_matrix,
        between: |_, _, _| when(true, 4),
        source: "checkMAIHazards90A, VALUWritesExec",
    },
    Rule {
        what: "a vector register just written, read by a matrix instruction",
        on: is_gfx90a,
        first: |it| is_plain_vector(it) && !it.dot,
        second: is_matrix,
        between: |first, second, _| when(passes_vector(first, second), 2),
        source: "checkMAIHazards90A, LegacyVALUNotDotWritesVGPR",
    },
    Rule {
        what: "a matrix instruction's result, used by another one",
        on: is_gfx90a,
        first: is_matrix,
        second: is_matrix,
        between: |first, second, target| {
            when(
                true,
                matrix_after_matrix(first.matrix?, second.matrix?, target),
            )
        },
        source: "checkMAIHazards90A",
    },
    Rule {
        what: "a matrix instruction's result, read",
        on: is_gfx90a,
        first: is_matrix,
        second: is_no_matrix,
        between: |first, second, target| {
            let matrix = first.matrix?;
            let read = any(&second.reads, |it| it.overlaps(matrix.result));
            when(read, until_read(matrix, second.unit, target))
        },
        source: "checkMAIVALUHazards",
    },
    Rule {
        what: "a matrix instruction's result, overwritten",
        on: is_gfx90a,
        first: is_matrix,
        second: is_no_matrix,
        between: |first, second, target| {
            let matrix = first.matrix?;
            let over = any(&second.writes, |it| it.overlaps(matrix.result));
            when(over, until_read(matrix, Unit::Vector, target))
        },
        source: "checkMAIVALUHazards, Waw",
    },
    Rule {
        what: "a matrix instruction's addend, overwritten while it is read",
        on: is_gfx90a,
        first: |it| {
            let slow = |matrix: Matrix| matrix.pipeline == Pipeline::Narrow;
            it.matrix.is_some_and(slow)
        },
        second: is_no_matrix,
        between: |first, second, target| {
            let matrix = first.matrix?;
            let over = any(&second.writes, |it| {
                matrix.addend.is_some_and(|c| c.overlaps(it))
            });
            let states = match (matrix.passes, is_gfx940(target)) {
                (2, _) => 1,
                (4, true) => 3,
                (8, _) => 7,
                _ => 15,
            };
            when(over, states)
        },
        source: "checkMAIVALUHazards, War",
    },
    Rule {
        what: "a dot product's result",
        on: is_gfx90a,
        first: |it| it.dot,
        second: |it| is_no_matrix(it) && it.unit != Unit::Scalar,
        between: |first, second, _| {
            let used = passes_vector(first, second)
                || any(&second.writes, |it| {
                    any(&first.writes, |other| other.overlaps(it))
                });
            when(used && second.op.index != first.op.index, 3)
        },
        source: "checkMAIVALUHazards, DotWriteDifferentVALU",
    },
    Rule {
        what: "v_fma_f64 after an f64 matrix instruction",
        on: is_gfx90a,
        first: |it| {
            let double = |matrix: Matrix| matrix.pipeline == Pipeline::Double;
            it.matrix.is_some_and(double)
        },
        second: |it| it.op.columns.has(Traits::DOUBLE_FMA),
        between: |_, _, _| when(true, 2),
        source: "checkMAIVALUHazards, DMFMAToFMA64",
    },
    Rule {
        what: "a matrix instruction's result, multiplied by the next one",
        on: has_wmma,
        first: is_matrix,
        second: is_matrix,
        between: |first, second, _| {
            let (first, second) = (first.matrix?, second.matrix?);
            let read = |factor: Option<Span>| factor.is_some_and(|it| it.overlaps(first.result));
            let needed = second.factors.into_iter().any(read);
            needed.then_some(Need::Vectors {
                all: 0,
                transcendental: u32::MAX,
            })
        },
        source: "fixWMMAHazards",
    },
    Rule {
        what: "a transcendental result, before s_waitcnt_depctr va_vdst(0)",
        on: is_rdna3,
        first: |it| it.transcendental,
        second: is_vector,
        between: |first, second, _| {
            passes_vector(first, second).then_some(Need::Vectors {
                all: 5,
                transcendental: 1,
            })
        },
        source: "fixVALUTransUseHazard",
    },
];

/// Wait states until the result of one matrix instruction can be another's operand.
fn matrix_after_matrix(first: Matrix, second: Matrix, target: Target) -> u32 {
    let newer = is_gfx940(target);
    let touches = |span: Option<Span>| span.is_some_and(|it| it.overlaps(first.result));
    let double = first.pipeline == Pipeline::Double;
    let mut needed = 0;
    if second.factors.into_iter().any(touches) {
        needed = match (first.pipeline, first.smallest_double) {
            (Pipeline::Double, true) => 6,
            (Pipeline::Double, false) => 11,
            (Pipeline::Single, _) => first.passes + 2,
            _ => first.passes + 3,
        };
    }
    if !touches(second.addend) {
        return needed;
    }
    let same = second.addend == Some(first.result);
    let addend = match (double, second.pipeline == Pipeline::Double) {
        _ if same && first.smallest_double && second.smallest_double => 4,
        _ if same && newer && first.passes == 2 => 2,
        _ if same => 0,
        (true, false) => 0,
        (true, true) if first.smallest_double => 4,
        (true, true) => 9,
        (false, _) if newer && first.pipeline == Pipeline::Single => {
            if second.pipeline == Pipeline::Narrow {
                0
            } else {
                first.passes
            }
        }
        (false, _) if newer => first.passes + 1,
        (false, true) => first.passes + 1,
        (false, false) => first.passes,
    };
    needed.max(addend)
}

/// Wait states until a matrix instruction's result can be read by what is none, or overwritten.
fn until_read(matrix: Matrix, by: Unit, target: Target) -> u32 {
    let memory = matches!(by, Unit::Memory | Unit::Lds);
    match (matrix.pipeline, matrix.smallest_double) {
        (Pipeline::Double, true) => {
            if memory {
                9
            } else {
                6
            }
        }
        (Pipeline::Double, false) => {
            if memory {
                18
            } else {
                11
            }
        }
        (Pipeline::Single, _) if is_gfx940(target) => matrix.passes + 2,
        _ => matrix.passes + 3,
    }
}

/// An instruction that was issued, and that some rule is about.
struct Issued {
    facts: Arc<Facts>,
    rules: u32,
    pc: u64,
    /// Wait states, VALU and transcendental instructions issued before it, and those that wait for VALU results.
    states: u64,
    vectors: u32,
    transcendental: u32,
    flushes: u32,
}

/// What a wavefront has issued last.
#[derive(Default)]
pub(super) struct Hazards {
    recent: VecDeque<Issued>,
    states: u64,
    vectors: u32,
    transcendental: u32,
    flushes: u32,
    /// The wait state of the last matrix instruction.
    matrix: Option<u64>,
}

/// A rule that was broken.
pub(super) struct Broken {
    pub text: String,
    /// The instruction whose result was not ready.
    pub pc: u64,
}

impl Hazards {
    /// Look at an instruction that is about to be issued.
    pub fn issue(
        &mut self,
        target: Target,
        facts: &Arc<Facts>,
        roles: Roles,
        pc: u64,
    ) -> Option<Broken> {
        let broken = match roles.second {
            0 => None,
            rules => self.broken(target, facts, rules),
        };
        // Those that wait for the results of VALU instructions.
        let flushes = facts.waits_for_vector || matches!(facts.unit, Unit::Memory | Unit::Lds);
        if roles.first != 0 {
            self.recent.push_back(Issued {
                facts: Arc::clone(facts),
                rules: roles.first,
                pc,
                states: self.states,
                vectors: self.vectors,
                transcendental: self.transcendental,
                flushes: self.flushes,
            });
        }
        self.states += facts.states;
        self.vectors += u32::from(facts.unit == Unit::Vector);
        self.transcendental += u32::from(facts.transcendental);
        self.flushes += u32::from(flushes);
        if facts.matrix.is_some() {
            self.matrix = Some(self.states);
        }
        while self
            .recent
            .front()
            .is_some_and(|it| self.states - it.states > FARTHEST + 1)
        {
            self.recent.pop_front();
        }
        broken
    }

    fn broken(&self, target: Target, facts: &Facts, rules: u32) -> Option<Broken> {
        let recent_matrix = self.matrix.is_some_and(|at| self.states - at <= FARTHEST);
        let reach = if recent_matrix {
            FARTHEST
        } else {
            FARTHEST_PLAIN
        };
        // Counted in VALU instructions on RDNA, of which scalar ones may lie in between.
        let reach = if is_cdna(target) { reach } else { FARTHEST };
        for issued in self.recent.iter().rev() {
            // Wait states in between: those that were issued, less its own.
            let between = self.states - issued.states - 1;
            if between > reach {
                break;
            }
            let both = rules & issued.rules;
            let both = (0..RULES.len()).filter(|number| both >> number & 1 != 0);
            for rule in both.map(|number| &RULES[number]) {
                let Some(need) = (rule.between)(&issued.facts, facts, target) else {
                    continue;
                };
                if self.meets(need, issued, between) {
                    continue;
                }
                let needed = match need {
                    Need::States(states) => {
                        format!("{states} wait states are needed and {between} between")
                    }
                    Need::Vectors { all, .. } => format!(
                        "{} VALU instructions are needed and {} between",
                        all + 1,
                        self.vectors - issued.vectors - 1
                    ),
                };
                return Some(Broken {
                    text: format!("{}: {needed} ({})", rule.what, rule.source),
                    pc: issued.pc,
                });
            }
        }
        None
    }

    fn meets(&self, need: Need, issued: &Issued, between: u64) -> bool {
        // Those issued since, less the first instruction itself where it is one.
        let since = |now: u32, then: u32| (now - then).saturating_sub(1);
        match need {
            Need::States(states) => between >= states.into(),
            Need::Vectors {
                all,
                transcendental,
            } => {
                since(self.vectors, issued.vectors) > all
                    || since(self.transcendental, issued.transcendental) > transcendental
                    || self.flushes > issued.flushes && transcendental != u32::MAX
            }
        }
    }
}
