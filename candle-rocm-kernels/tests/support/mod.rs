//! Reads what a code object says about its kernels: the metadata note and the kernel descriptors.
//!
//! Formats: LLVM's "User Guide for AMDGPU Backend", sections "Code Object V5 Metadata" and "Kernel
//! Descriptor".

use object::{Object, ObjectSection, ObjectSymbol};
use rmpv::Value;
use std::collections::BTreeMap;

/// Beginnings of the names of kernels whose scalar registers spill, and why that is right. They spill into lanes of
/// a vector register, not to memory.
#[allow(dead_code)] // each test file uses its own part
pub const SCALAR_SPILLS: &[(&str, &str)] = &[
    ("ia_", "masks of the lanes whose indices are queued"),
    ("s_", "masks of the lanes whose indices are queued"),
    ("sa_", "masks of the lanes whose indices are queued"),
    (
        "fast_sum_f8e4m3",
        "masks of lanes of the vectors that are left",
    ),
    (
        "cumsum_",
        "masks of lanes of a tile's or a strip's elements",
    ),
    (
        "communication_packets_",
        "masks of the lanes whose packets have not come",
    ),
    (
        "communication_add_norm_",
        "masks of the lanes whose packets have not come",
    ),
    (
        "communication_pieces_",
        "masks of the lanes that a range has elements for",
    ),
    ("radix_", "masks of the lanes that have the same digit"),
    (
        "uerf_f64",
        "ocml's f64 erf keeps its polynomials' coefficients in scalar registers",
    ),
    ("ugelu_erf_f64", "calls erf"),
    ("usin_f64", "ocml's f64 sine likewise"),
    ("ucos_f64", "ocml's f64 cosine likewise"),
    ("upowf_f64", "ocml's f64 pow likewise"),
    ("softmax_f64", "ocml's f64 exp likewise"),
    ("log_softmax_f64", "calls exp"),
    ("scaled_softmax_f64", "calls exp"),
    ("cross_entropy_rows_f64", "calls exp and tanh"),
    (
        "fft_step_f64",
        "series of sine and cosine keep their coefficients in scalar registers",
    ),
    (
        "cross_entropy_rows_f32",
        "masks of lanes of the vectors that are left",
    ),
    (
        "im2col",
        "sizes and strides of both tensors, beside masks of lanes of a tile",
    ),
    ("masked_softmax_f64", "calls exp"),
    ("flagged_softmax_f64", "calls exp"),
    ("backward_log_softmax_f64", "calls exp"),
    ("activate_gelu_erf_f64", "calls erf"),
    ("backward_gelu_erf_f64", "calls erf"),
    (
        "masked_softmax_",
        "where the mask is, beside masks of lanes",
    ),
    (
        "flagged_softmax_",
        "where the mask is, beside masks of lanes",
    ),
    (
        "backward_log_softmax_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "add_rmsnorm_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "fp8_swiglu_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "add_layernorm_",
        "more masks of lanes than scalar registers",
    ),
    (
        "backward_softmax_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "layernorm_f64",
        "masks of lanes of rows that are read by elements",
    ),
    (
        "softmax_f32",
        "masks of lanes of rows that are read by elements",
    ),
    (
        "backward_rmsnorm_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "backward_layernorm_",
        "masks of lanes beside the pointers to two rows",
    ),
    ("matmul_f64", "ocml's f64 erf and exp likewise"),
    (
        "convolution_",
        "sizes and distances along three axes, which each K-block needs",
    ),
    ("dnn_", "counts and distances along eight directions"),
    (
        "layernorm_bf16",
        "more masks of lanes than scalar registers",
    ),
    (
        "compare_",
        "the masks of sixteen comparisons, more than scalar registers",
    ),
];

/// Kernels that spill to scratch memory, and why.
#[allow(dead_code)] // each test file uses its own part
pub const VECTOR_SPILLS: &[(&str, &str)] = &[
    ("convolution_bf16_128x128_vectors", SCALAR_FRAME),
    ("convolution_f16_128x128_vectors", SCALAR_FRAME),
    ("convolution_grouped_", SCALAR_FRAME),
];

/// Scratch that no instruction reads or writes.
const SCALAR_FRAME: &str = "a frame of scalar registers, which lie in lanes of vector registers";

/// The reason of the kernel's row in one of these tables.
#[allow(dead_code)] // each test file uses its own part
pub fn reason(table: &[(&str, &'static str)], kernel: &str) -> Option<&'static str> {
    let row = table.iter().find(|(name, _)| kernel.starts_with(name));
    row.map(|(_, why)| *why)
}

/// What the tests ask about a kernel.
#[derive(Debug)]
#[allow(dead_code)] // each test file uses its own part
pub struct Kernel {
    pub name: String,
    /// (kind, bytes) of each explicit argument, in order.
    pub arguments: Vec<(String, u64)>,
    pub scratch_bytes: u64,
    pub vgpr_spills: u64,
    pub sgpr_spills: u64,
    pub lds_bytes: u64,
    /// Vector registers of a lane; on CDNA those for accumulation included.
    pub vgprs: u64,
    /// Of them, registers for accumulation; none but on CDNA.
    pub agprs: u64,
    pub sgprs: u64,
    pub wavefront_size: u64,
    pub max_workgroup: u64,
    /// `compute_pgm_rsrc1` of the descriptor.
    pub rsrc1: u32,
}

/// The kernels of a code object by name.
pub fn kernels(code: &[u8]) -> BTreeMap<String, Kernel> {
    let file = object::File::parse(code).expect("an ELF file");
    let note = file
        .section_by_name(".note")
        .expect("a note section")
        .data()
        .expect("its bytes");
    let metadata = metadata(note);
    field(&metadata, "amdhsa.kernels")
        .as_array()
        .expect("a list of kernels")
        .iter()
        .map(|entry| {
            let kernel = kernel(entry, &file);
            (kernel.name.clone(), kernel)
        })
        .collect()
}

/// The compiler that made a code object, as it names itself.
#[allow(dead_code)] // each test file uses its own part
pub fn compiler(code: &[u8]) -> String {
    let file = object::File::parse(code).expect("an ELF file");
    let section = file.section_by_name(".comment").expect("a comment section");
    let text = String::from_utf8_lossy(section.data().expect("its bytes")).into_owned();
    let mut names = text.split('\0').filter(|name| name.contains("clang"));
    names.next().expect("the compiler's name").to_string()
}

/// The msgpack document in the one note: sizes, type, the padded name "AMDGPU", the document.
fn metadata(note: &[u8]) -> Value {
    let word =
        |at: usize| u32::from_le_bytes(note[at..at + 4].try_into().expect("four bytes")) as usize;
    let (name_bytes, document_bytes) = (word(0), word(4));
    let start = 12 + name_bytes.next_multiple_of(4);
    assert_eq!(&note[12..18], b"AMDGPU");
    rmpv::decode::read_value(&mut &note[start..start + document_bytes]).expect("msgpack")
}

fn field<'a>(map: &'a Value, name: &str) -> &'a Value {
    let entries = map.as_map().expect("a map");
    let found = entries.iter().find(|(key, _)| key.as_str() == Some(name));
    &found.unwrap_or_else(|| panic!("no {name} in {map}")).1
}

fn number(map: &Value, name: &str) -> u64 {
    field(map, name)
        .as_u64()
        .unwrap_or_else(|| panic!("{name} is no number"))
}

fn optional_number(map: &Value, name: &str) -> u64 {
    let entries = map.as_map().expect("a map");
    let found = entries.iter().find(|(key, _)| key.as_str() == Some(name));
    found.and_then(|(_, value)| value.as_u64()).unwrap_or(0)
}

fn text(map: &Value, name: &str) -> String {
    field(map, name)
        .as_str()
        .unwrap_or_else(|| panic!("{name} is no text"))
        .to_string()
}

fn kernel(entry: &Value, file: &object::File) -> Kernel {
    let arguments = field(entry, ".args")
        .as_array()
        .expect("a list of arguments")
        .iter();
    Kernel {
        name: text(entry, ".name"),
        arguments: arguments
            .map(|argument| (text(argument, ".value_kind"), number(argument, ".size")))
            .filter(|(kind, _)| !kind.starts_with("hidden_"))
            .collect(),
        scratch_bytes: number(entry, ".private_segment_fixed_size"),
        vgpr_spills: number(entry, ".vgpr_spill_count"),
        sgpr_spills: number(entry, ".sgpr_spill_count"),
        lds_bytes: number(entry, ".group_segment_fixed_size"),
        vgprs: number(entry, ".vgpr_count"),
        agprs: optional_number(entry, ".agpr_count"),
        sgprs: number(entry, ".sgpr_count"),
        wavefront_size: number(entry, ".wavefront_size"),
        max_workgroup: number(entry, ".max_flat_workgroup_size"),
        rsrc1: rsrc1(file, &text(entry, ".symbol")),
    }
}

fn rsrc1(file: &object::File, descriptor: &str) -> u32 {
    let symbol = file
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(descriptor))
        .expect("its descriptor");
    let section = file.sections().find(|section| {
        (section.address()..section.address() + section.size()).contains(&symbol.address())
    });
    let bytes = section
        .expect("its section")
        .data_range(symbol.address(), 64);
    let bytes = bytes.expect("readable").expect("64 bytes");
    u32::from_le_bytes(bytes[48..52].try_into().expect("four bytes"))
}
