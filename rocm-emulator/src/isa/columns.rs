//! What the code asks of an operation, so that no mnemonic is compared: columns of `tables/operations.txt`.

use std::sync::LazyLock;

use super::matrix::MatrixColumn;

/// Words of the table with the values that they stand for.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($word:literal $(#[$doc:meta])* $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            const WORDS: &[(&str, $name)] = &[$(($word, $name::$value)),*];

            fn named(word: &str) -> Option<$name> {
                Self::WORDS.iter().find(|row| row.0 == word).map(|row| row.1)
            }
        }
    };
}

words! {
    /// What an operation is, where it is matched by itself: one of these.
    Role {
        "other" Other,
        "branch" Branch,
        "branch_scc0" BranchScc0,
        "branch_scc1" BranchScc1,
        "branch_vccz" BranchVccz,
        "branch_vccnz" BranchVccnz,
        "branch_execz" BranchExecz,
        "branch_execnz" BranchExecnz,
        "branch_never" BranchNever,
        "end" End,
        "barrier" Barrier,
        "barrier_signal" BarrierSignal,
        "barrier_signal_isfirst" BarrierSignalIsFirst,
        "barrier_wait" BarrierWait,
        "sleep" Sleep,
        "trap" Trap,
        "get_pc" GetPc,
        "set_pc" SetPc,
        "swap_pc" SwapPc,
        "call" Call,
        "get_register" GetRegister,
        "set_register" SetRegister,
        "round_mode" RoundMode,
        "denorm_mode" DenormMode,
        "message_returning" MessageReturning,
        "nop" Nop,
        "priority" Priority,
        "wait" Wait,
        "wait_store" WaitStore,
        "wait_load" WaitLoad,
        "wait_lds" WaitLds,
        "wait_scalar" WaitScalar,
        "wait_load_lds" WaitLoadLds,
        "wait_store_lds" WaitStoreLds,
        "wait_idle" WaitIdle,
        "wait_dependency" WaitDependency,
        "empty_by_scope" EmptyByScope,
        "empty_first" EmptyFirst,
        "empty_array" EmptyArray,
        "empty_scalar" EmptyScalar,
        "write_back" WriteBack,
        "load" Load,
        "store" Store,
        "load_transposed" LoadTransposed,
        "load_block" LoadBlock,
        "store_block" StoreBlock,
        "load_typed" LoadTyped,
        "store_typed" StoreTyped,
        "load_two" LoadTwo,
        "store_two" StoreTwo,
        "exchange_two" ExchangeTwo,
        "from_second" FromSecond,
        "update" Update,
        "append" Append,
        "consume" Consume,
        "permute_pull" PermutePull,
        "permute_pull_inactive" PermutePullInactive,
        "permute_push" PermutePush,
        "swizzle" Swizzle,
        "grid_barrier_init" GridBarrierInit,
        "grid_barrier" GridBarrier,
        "time" Time,
        "nothing" Nothing,
        "sliding_differences" SlidingDifferences,
        "read_first_lane" ReadFirstLane,
        "read_lane" ReadLane,
        "write_lane" WriteLane,
        "swap" Swap,
        "swap_halves" SwapHalves,
        "permute_row" PermuteRow,
        "permute_other_row" PermuteOtherRow,
        "permute_row_variable" PermuteRowVariable,
        "permute_other_row_variable" PermuteOtherRowVariable,
        "swap_lanes_64" SwapLanes64,
        "swap_rows_16" SwapRows16,
        "swap_rows_32" SwapRows32,
        "move_relative_destination" MoveRelativeDestination,
        "move_relative_source" MoveRelativeSource,
        "move_relative" MoveRelative,
        "move_relative_2" MoveRelative2,
        "swap_relative" SwapRelative,
        "byte_of_source" ByteOfSource,
        "word_of_source" WordOfSource,
        "byte_of_result" ByteOfResult,
    }
}

words! {
    /// What memory instructions move for each lane, and how a register holds it.
    Element {
        "b32" B32,
        "b64" B64,
        "b96" B96,
        "b128" B128,
        "b256" B256,
        "b512" B512,
        "u8" U8,
        "i8" I8,
        "u16" U16,
        "i16" I16,
        "b8" /** The low byte, of a store. */ B8,
        "b16" /** The low half, of a store. */ B16,
        "low_u8" LowU8,
        "low_i8" LowI8,
        "low_16" Low16,
        "high_u8" HighU8,
        "high_i8" HighI8,
        "high_16" High16,
    }
}

words! {
    /// How an operation that rounds computes.
    Rounded {
        "add" Add,
        "sub" Sub,
        "subrev" Subrev,
        "mul" Mul,
        "fma" /** Three sources, or two and the destination. */ Fma,
        "mad" /** With the product rounded by itself. */ Mad,
        "from_f32" FromF32,
        "from_f64" FromF64,
        "from_i16" FromI16,
        "from_i32" FromI32,
        "from_u16" FromU16,
        "from_u32" FromU32,
    }
}

words! {
    /// A float's format.
    FloatFormat {
        "f16" F16,
        "f32" F32,
        "f64" F64,
    }
}

/// Words that an operation has or has not.
macro_rules! traits {
    ($($word:literal $name:ident,)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Bit { $($name,)* }

        bitflags::bitflags! {
            /// What holds of an operation; any number of these.
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub(crate) struct Traits: u64 {
                $(const $name = 1 << Bit::$name as u64;)*
            }
        }

        impl Traits {
            const WORDS: &[(&str, Traits)] = &[$(($word, Traits::$name)),*];
        }
    };
}

traits! {
    "branches" BRANCHES,
    "no_effect" NO_EFFECT,
    "internal" INTERNAL,
    "unsigned" UNSIGNED,
    "compares_destination" COMPARES_DESTINATION,
    "writes_exec" WRITES_EXEC,
    "no_policy" NO_POLICY,
    "levels" LEVELS,
    "data_is_number" DATA_IS_NUMBER,
    "prefetches" PREFETCHES,
    "from_pc" FROM_PC,
    "returns" RETURNS,
    "atomic" ATOMIC,
    "new_value_first" NEW_VALUE_FIRST,
    "replaces" REPLACES,
    "loads" LOADS,
    "stores" STORES,
    "block" BLOCK,
    "stride64" STRIDE64,
    "by_lane" BY_LANE,
    "to_lds" TO_LDS,
    "barriers_of_grid" BARRIERS_OF_GRID,
    "descriptor" DESCRIPTOR,
    "halves" HALVES,
    "high_half" HIGH_HALF,
    "swaps" SWAPS,
    "permutes" PERMUTES,
    "plain_destination" PLAIN_DESTINATION,
    "accumulation" ACCUMULATION,
    "compares_exec" COMPARES_EXEC,
    "implied_vcc" IMPLIED_VCC,
    "reads_vcc" READS_VCC,
    "masked" MASKED,
    "unlisted_halves" UNLISTED_HALVES,
    "unlisted_abs" UNLISTED_ABS,
    "no_signs" NO_SIGNS,
    "integer_exponent" INTEGER_EXPONENT,
    "chooses_result_only" CHOOSES_RESULT_ONLY,
    "truth_table" TRUTH_TABLE,
    "signs_in_blgp" SIGNS_IN_BLGP,
    "constant_second" CONSTANT_SECOND,
    "scalar_result" SCALAR_RESULT,
    "first_step" FIRST_STEP,
    "half_precision" HALF_PRECISION,
    "toward_zero" TOWARD_ZERO,
    "keeps_half" KEEPS_HALF,
    "high_result" HIGH_RESULT,
    "signed_by_neg" SIGNED_BY_NEG,
    "eight_bit_floats" EIGHT_BIT_FLOATS,
    "from_byte" FROM_BYTE,
    "mfma" MFMA,
    "sparse" SPARSE,
    "transcendental" TRANSCENDENTAL,
    "dot" DOT,
    "double_fma" DOUBLE_FMA,
    "slow_conversion" SLOW_CONVERSION,
    "quarter_multiply" QUARTER_MULTIPLY,
    "whole_wave64" WHOLE_WAVE64,
}

/// An operation's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub role: Role,
    pub traits: Traits,
    /// The name of the row that says what it computes, in the tables of semantics.
    pub row: String,
    /// What a memory instruction moves.
    pub moves: Option<Element>,
    /// Components of a typed buffer's element that it moves.
    pub components: u8,
    pub rounds: Option<(Rounded, FloatFormat)>,
    /// `None` for what is no matrix instruction.
    pub matrix: Option<MatrixColumn>,
}

impl Columns {
    pub fn has(&self, traits: Traits) -> bool {
        self.traits.contains(traits)
    }

    /// The columns of a mnemonic without suffix.
    pub fn of(mnemonic: &str) -> Columns {
        static ROWS: LazyLock<Vec<Row>> = LazyLock::new(read);
        let mut columns = Columns {
            role: Role::Other,
            traits: Traits::empty(),
            row: mnemonic.into(),
            moves: None,
            components: 0,
            rounds: None,
            matrix: None,
        };
        for row in ROWS.iter() {
            if let Some(captured) = row.pattern.captured(mnemonic) {
                row.words
                    .iter()
                    .for_each(|word| columns.set(word, &captured));
            }
        }
        columns
    }

    fn set(&mut self, word: &Word, captured: &[&str]) {
        match *word {
            Word::Role(role) => self.role = role,
            Word::Traits(traits) => self.traits |= traits,
            Word::Row(text) => self.row = filled(text, captured),
            Word::Moves(element) => self.moves = Some(element),
            Word::Components(count) => self.components = count,
            Word::Rounds(how, format) => {
                let format = filled(format, captured);
                let format = FloatFormat::named(&format).unwrap_or_else(|| malformed(&format));
                self.rounds = Some((how, format));
            }
            Word::Matrix(text) => self.matrix = Some(MatrixColumn::of(&filled(text, captured))),
        }
    }
}

/// The table ships with the crate, so a word that does not parse is a defect of the crate, and every test finds it.
fn malformed(text: &str) -> ! {
    panic!("{text:?} in src/isa/tables/operations.txt does not parse")
}

/// What a word of a line says. Texts may have `$1` in them.
#[derive(Clone, Copy)]
enum Word {
    Role(Role),
    Traits(Traits),
    Row(&'static str),
    Moves(Element),
    Components(u8),
    Rounds(Rounded, &'static str),
    Matrix(&'static str),
}

impl Word {
    fn parse(word: &'static str) -> Option<Word> {
        Some(match word.split_once('=') {
            Some(("row", row)) => Word::Row(row),
            Some(("moves", element)) => Word::Moves(Element::named(element)?),
            Some(("components", count)) => Word::Components(count.parse().ok()?),
            Some(("rounds", how)) => {
                let (how, format) = how.split_once(':')?;
                Word::Rounds(Rounded::named(how)?, format)
            }
            Some(("matrix", text)) => Word::Matrix(text),
            Some(_) => return None,
            None => match Role::named(word) {
                Some(role) => Word::Role(role),
                None => {
                    let row = Traits::WORDS.iter().find(|row| row.0 == word)?;
                    Word::Traits(row.1)
                }
            },
        })
    }
}

/// A mnemonic in which each `*` stands for any letters.
struct Pattern {
    /// Before the first star.
    first: &'static str,
    /// Between stars.
    middle: Vec<&'static str>,
    /// Behind the last star; `None` without one.
    last: Option<&'static str>,
}

impl Pattern {
    fn of(text: &'static str) -> Pattern {
        let mut parts = text.split('*');
        let first = parts.next().unwrap_or_default();
        let mut middle: Vec<&str> = parts.collect();
        let last = middle.pop();
        Pattern {
            first,
            middle,
            last,
        }
    }

    /// What the stars stand for, the first as short as it can be, if the pattern is the whole of a text.
    fn captured<'a>(&self, text: &'a str) -> Option<Vec<&'a str>> {
        let mut text = text.strip_prefix(self.first)?;
        let Some(last) = self.last else {
            return text.is_empty().then(Vec::new);
        };
        text = text.strip_suffix(last)?;
        let mut captured = Vec::new();
        for part in &self.middle {
            let (before, after) = text.split_once(part)?;
            captured.push(before);
            text = after;
        }
        captured.push(text);
        Some(captured)
    }
}

/// A line of the table.
struct Row {
    pattern: Pattern,
    words: Vec<Word>,
}

fn read() -> Vec<Row> {
    include_str!("tables/operations.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let text = words.next()?;
            let words = words.map(|word| Word::parse(word).unwrap_or_else(|| malformed(word)));
            Some(Row {
                pattern: Pattern::of(text),
                words: words.collect(),
            })
        })
        .collect()
}

/// A text with what the stars stand for in the places of `$1` and so on.
fn filled(text: &str, captured: &[&str]) -> String {
    let mut filled = text.to_string();
    for (index, part) in captured.iter().enumerate() {
        filled = filled.replace(&format!("${}", index + 1), part);
    }
    filled
}

/// Lines that no mnemonic of these matches.
#[cfg(test)]
pub(super) fn idle<'a>(mnemonics: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let is_idle = |row: &Row| {
        let mut names = mnemonics.clone();
        names.all(|name| row.pattern.captured(name).is_none())
    };
    let rows = read().into_iter().filter(is_idle);
    let parts = rows.map(|Row { pattern, .. }| {
        let ends = pattern.middle.into_iter().chain(pattern.last);
        [pattern.first].into_iter().chain(ends).collect::<Vec<_>>()
    });
    parts.map(|parts| parts.join("*")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_as_short_as_they_can_be() {
        let captured = |pattern, text| Pattern::of(pattern).captured(text);
        assert_eq!(
            captured("*_atomic_*", "s_buffer_atomic_add_x2"),
            Some(vec!["s_buffer", "add_x2"])
        );
        assert_eq!(captured("v_exp_f*", "v_ldexp_f32"), None);
        assert_eq!(captured("s_nop", "s_nop"), Some(vec![]));
        assert_eq!(captured("*_load_b32", "global_load_b32_x"), None);
        assert_eq!(
            captured("ds_*_b32", "ds_b32"),
            None,
            "the letters are not counted twice"
        );
        assert_eq!(
            captured("*_i32_i*", "v_dot4_i32_i8"),
            Some(vec!["v_dot4", "8"])
        );
    }

    #[test]
    fn columns_of_some() {
        let add = Columns::of("ds_add_rtn_u32");
        assert_eq!((add.role, add.row.as_str()), (Role::Update, "add_u32"));
        assert!(add.has(Traits::RETURNS));
        let read = Columns::of("ds_read2st64_b64");
        assert_eq!((read.role, read.moves), (Role::LoadTwo, Some(Element::B64)));
        assert!(read.has(Traits::STRIDE64));
        assert_eq!(Columns::of("v_dual_fmac_f32").row, "v_fmac_f32");
        assert_eq!(Columns::of("v_cmpx_eq_f64").row, "v_cmp_eq_f64");
        let lds = Columns::of("buffer_load_lds_u8");
        assert_eq!((lds.role, lds.moves), (Role::Load, Some(Element::U8)));
        let transcendental = |name| Columns::of(name).has(Traits::TRANSCENDENTAL);
        assert!(transcendental("v_exp_f32") && transcendental("v_rcp_iflag_f32"));
        assert!(!transcendental("v_ldexp_f32") && !transcendental("v_frexp_exp_i32_f32"));
        assert!(!transcendental("v_s_exp_f32") && !transcendental("v_add_f32"));
    }
}
