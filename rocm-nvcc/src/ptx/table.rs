//! What is known of PTX: types, special registers, instructions that are one function, instructions that do nothing here.

/// What a register holds for an instruction, in C++ (`candle_rocm/ptx.h`).
pub const TYPES: &[(&str, &str)] = &[
    ("b8", "uint8_t"),
    ("u8", "uint8_t"),
    ("s8", "int8_t"),
    ("b16", "uint16_t"),
    ("u16", "uint16_t"),
    ("s16", "int16_t"),
    ("b32", "uint32_t"),
    ("u32", "uint32_t"),
    ("s32", "int32_t"),
    ("b64", "uint64_t"),
    ("u64", "uint64_t"),
    ("s64", "int64_t"),
    ("f16", "f16"),
    ("f16x2", "f16x2"),
    ("bf16", "bf16"),
    ("bf16x2", "bf16x2"),
    ("f32", "float"),
    ("f64", "double"),
    ("pred", "bool"),
];

/// The registers that declarations and constraints make: PTX's type or constraint, and C++.
pub const REGISTERS: &[(&str, &str)] = &[
    ("h", "uint16_t"),
    ("r", "uint32_t"),
    ("l", "uint64_t"),
    ("f", "float"),
    ("d", "double"),
    ("n", "int64_t"),
    ("pred", "bool"),
    ("b8", "uint8_t"),
    ("u8", "uint8_t"),
    ("s8", "uint8_t"),
    ("b16", "uint16_t"),
    ("u16", "uint16_t"),
    ("s16", "uint16_t"),
    ("f16", "uint16_t"),
    ("bf16", "uint16_t"),
    ("b32", "uint32_t"),
    ("u32", "uint32_t"),
    ("s32", "uint32_t"),
    ("f16x2", "uint32_t"),
    ("bf16x2", "uint32_t"),
    ("f32", "float"),
    ("b64", "uint64_t"),
    ("u64", "uint64_t"),
    ("s64", "uint64_t"),
    ("f64", "double"),
];

/// Special registers as C++ expressions of 32 bits, or of 64 where the name ends so.
pub const SPECIAL: &[(&str, &str)] = &[
    ("laneid", "candle_rocm::lane()"),
    ("lanemask_eq", "(1u << candle_rocm::lane())"),
    ("lanemask_lt", "((1u << candle_rocm::lane()) - 1u)"),
    ("lanemask_le", "((2u << candle_rocm::lane()) - 1u)"),
    ("lanemask_gt", "(~((2u << candle_rocm::lane()) - 1u))"),
    ("lanemask_ge", "(~((1u << candle_rocm::lane()) - 1u))"),
    (
        "warpid",
        "(((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / 32u)",
    ),
    ("tid.x", "threadIdx.x"),
    ("tid.y", "threadIdx.y"),
    ("tid.z", "threadIdx.z"),
    ("ntid.x", "blockDim.x"),
    ("ntid.y", "blockDim.y"),
    ("ntid.z", "blockDim.z"),
    ("ctaid.x", "blockIdx.x"),
    ("ctaid.y", "blockIdx.y"),
    ("ctaid.z", "blockIdx.z"),
    ("nctaid.x", "gridDim.x"),
    ("nctaid.y", "gridDim.y"),
    ("nctaid.z", "gridDim.z"),
    ("clock", "((uint32_t)__builtin_readcyclecounter())"),
    ("clock64", "((uint64_t)__builtin_readcyclecounter())"),
];

/// An instruction that is a function of its operands.
pub struct Row {
    /// The opcode's first part.
    pub name: &'static str,
    /// Modifiers that it must have, in any order.
    pub modifiers: &'static [&'static str],
    /// Modifiers that change nothing here: results are rounded to nearest, and as precise as any.
    pub ignored: &'static [&'static str],
    /// The function in `candle_rocm::ptx`.
    pub function: &'static str,
    /// Whether it is a template on the instruction's type.
    pub typed: bool,
    /// The result's type and the operands': `T` is the instruction's own, `D` the one of twice its width.
    pub types: &'static [&'static str],
}

const fn row(
    name: &'static str,
    modifiers: &'static [&'static str],
    ignored: &'static [&'static str],
    function: &'static str,
    types: &'static [&'static str],
) -> Row {
    Row {
        name,
        modifiers,
        ignored,
        function,
        typed: true,
        types,
    }
}

const fn untyped(
    name: &'static str,
    modifiers: &'static [&'static str],
    function: &'static str,
    types: &'static [&'static str],
) -> Row {
    Row {
        name,
        modifiers,
        ignored: &[],
        function,
        typed: false,
        types,
    }
}

const NEAR: &[&str] = &["rn", "ftz"];
const APPROXIMATE: &[&str] = &["approx", "full", "rn", "ftz"];
const ONE: &[&str] = &["T", "T"];
const TWO: &[&str] = &["T", "T", "T"];
const THREE: &[&str] = &["T", "T", "T", "T"];

/// Those instructions.
pub const ROWS: &[Row] = &[
    row("add", &[], NEAR, "add", TWO),
    row("add", &["sat"], NEAR, "add_sat", TWO),
    row("sub", &[], NEAR, "sub", TWO),
    row("sub", &["sat"], NEAR, "sub_sat", TWO),
    row("mul", &[], NEAR, "mul", TWO),
    row("mul", &["sat"], NEAR, "mul_sat", TWO),
    row("mul", &["lo"], &[], "mul_lo", TWO),
    row("mul", &["hi"], &[], "mul_hi", TWO),
    row("mul", &["wide"], &[], "mul_wide", &["D", "T", "T"]),
    row("mul24", &["lo"], &[], "mul24_lo", TWO),
    row("mad", &[], NEAR, "fma", THREE),
    row("mad", &["lo"], &[], "mad_lo", THREE),
    row("mad", &["hi"], &[], "mad_hi", THREE),
    row("mad", &["wide"], &[], "mad_wide", &["D", "T", "T", "D"]),
    row("fma", &[], NEAR, "fma", THREE),
    row("fma", &["sat"], NEAR, "fma_sat", THREE),
    row("fma", &["relu"], NEAR, "fma_relu", THREE),
    row("div", &[], APPROXIMATE, "div", TWO),
    row("rem", &[], &[], "rem", TWO),
    row("neg", &[], &["ftz"], "neg", ONE),
    row("abs", &[], &["ftz"], "abs", ONE),
    row("min", &[], &["ftz"], "min", TWO),
    row("max", &[], &["ftz"], "max", TWO),
    row("min", &["NaN"], &["ftz"], "min_NaN", TWO),
    row("max", &["NaN"], &["ftz"], "max_NaN", TWO),
    row("copysign", &[], &[], "copysign", TWO),
    row("ex2", &[], APPROXIMATE, "ex2", ONE),
    row("tanh", &[], APPROXIMATE, "tanh", ONE),
    row("rcp", &[], APPROXIMATE, "rcp", ONE),
    untyped_approximate("lg2", "lg2"),
    untyped_approximate("sin", "sin"),
    untyped_approximate("cos", "cos"),
    untyped_approximate("sqrt", "sqrt"),
    untyped_approximate("rsqrt", "rsqrt"),
    row("and", &[], &[], "and_", TWO),
    row("or", &[], &[], "or_", TWO),
    row("xor", &[], &[], "xor_", TWO),
    row("not", &[], &[], "not_", ONE),
    row("cnot", &[], &[], "cnot", ONE),
    row("shl", &[], &[], "shl", &["T", "T", "u32"]),
    row("shr", &[], &[], "shr", &["T", "T", "u32"]),
    row("popc", &[], &[], "popc", &["u32", "T"]),
    row("clz", &[], &[], "clz", &["u32", "T"]),
    row("brev", &[], &[], "brev", ONE),
    row("bfe", &[], &[], "bfe", &["T", "T", "u32", "u32"]),
    row("bfi", &[], &[], "bfi", &["T", "T", "T", "u32", "u32"]),
    row("bfind", &[], &[], "bfind", &["u32", "T"]),
    row("sad", &[], &[], "sad", THREE),
    row("selp", &[], &[], "selp", &["T", "T", "T", "pred"]),
    untyped("lop3", &[], "lop3", &["u32", "u32", "u32", "u32", "u32"]),
    untyped("prmt", &[], "prmt", &["u32", "u32", "u32", "u32"]),
    untyped(
        "shf",
        &["l", "wrap"],
        "shf_l_wrap",
        &["u32", "u32", "u32", "u32"],
    ),
    untyped(
        "shf",
        &["r", "wrap"],
        "shf_r_wrap",
        &["u32", "u32", "u32", "u32"],
    ),
    untyped(
        "shf",
        &["l", "clamp"],
        "shf_l_clamp",
        &["u32", "u32", "u32", "u32"],
    ),
    untyped(
        "shf",
        &["r", "clamp"],
        "shf_r_clamp",
        &["u32", "u32", "u32", "u32"],
    ),
];

const fn untyped_approximate(name: &'static str, function: &'static str) -> Row {
    Row {
        name,
        modifiers: &[],
        ignored: APPROXIMATE,
        function,
        typed: false,
        types: ONE,
    }
}

/// Opcodes that begin so do nothing here: hints for caches, and waits for what was done at once.
pub const NOTHING: &[&str] = &[
    "prefetch",
    "prefetchu",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.wait_all",
    "griddepcontrol",
    "fence.proxy",
    "discard",
    "applypriority",
];

/// Instructions without operands, or none that matter, as C++: an opcode's begin, and a statement.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("membar.cta", "__threadfence_block();"),
    ("membar.gl", "__threadfence();"),
    ("membar.sys", "__threadfence_system();"),
    ("trap", "__trap();"),
    ("brkpt", "__brkpt();"),
    ("bar.warp.sync", "__syncwarp();"),
];

/// The functions of `atom` and `red`: operation, function, how many operands follow the address.
pub const ATOMICS: &[(&str, &str, usize)] = &[
    ("add", "atomicAdd", 1),
    ("exch", "atomicExch", 1),
    ("min", "atomicMin", 1),
    ("max", "atomicMax", 1),
    ("and", "atomicAnd", 1),
    ("or", "atomicOr", 1),
    ("xor", "atomicXor", 1),
    ("inc", "atomicInc", 1),
    ("dec", "atomicDec", 1),
    ("cas", "atomicCAS", 2),
];

/// Types that CUDA's atomic functions take.
pub const ATOMIC_TYPES: &[(&str, &str)] = &[
    ("b32", "unsigned int"),
    ("u32", "unsigned int"),
    ("s32", "int"),
    ("b64", "unsigned long long"),
    ("u64", "unsigned long long"),
    ("s64", "long long"),
    ("f32", "float"),
    ("f64", "double"),
];

/// Kinds of elements of matrices (`candle_rocm/matrix.h`): PTX's types of both factors, C++, elements in a register.
pub const MATRIX_KINDS: &[((&str, &str), &str, usize)] = &[
    (("f16", "f16"), "F16", 2),
    (("bf16", "bf16"), "Bf16", 2),
    (("tf32", "tf32"), "Tf32", 1),
    (("s8", "s8"), "Bytes<int8_t, int8_t>", 4),
    (("u8", "u8"), "Bytes<uint8_t, uint8_t>", 4),
    (("s8", "u8"), "Bytes<int8_t, uint8_t>", 4),
    (("u8", "s8"), "Bytes<uint8_t, int8_t>", 4),
];

/// What stands beside `name` in a table of pairs.
pub fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| *value)
}
