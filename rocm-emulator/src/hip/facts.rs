//! What the emulated products report about themselves, beside what `rocm-gpus` knows of them.

use crate::isa::Target;

/// Largest grid: work-items along a dimension are a 32-bit number.
pub const MAX_GRID: [i32; 3] = [i32::MAX, 65535, 65535];

/// The product's name.
pub fn product_name(target: Target) -> String {
    format!("{} (emulated)", target.facts().product.name)
}

/// `major` and `minor` as HIP gives them.
pub fn version(target: Target) -> (i32, i32) {
    let (major, minor, _) = target.version();
    (major as i32, minor as i32)
}

/// PCI bus of a GPU, by its place among the machine's.
pub fn pci_bus(card: usize) -> i32 {
    card as i32 + 3
}

/// LDS bytes that one workgroup can have.
pub fn lds_per_block(target: Target) -> u32 {
    target.unit().lds_bytes_of_workgroup
}
