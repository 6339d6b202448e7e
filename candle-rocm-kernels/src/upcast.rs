//! When products of quantised matrices go by bf16: modules `upcast` and `matmul` instead of `mmq`.

use rocm_gpus::{Architecture, MatrixUnit};

use crate::Processor;

/// Threads of a workgroup of the kernels of [`UPCAST`](crate::UPCAST).
pub const THREADS: u32 = 256;
/// Elements of a matrix that a thread makes at a time.
pub const PIECE: u32 = 32;
/// Elements of a vector that a thread makes at a time.
pub const SIXTEEN: u32 = 16;

/// How many vectors a matrix is multiplied with, at least, if it is worth writing it as bf16 first. None where bytes always multiply faster.
///
/// Bytes have a scale for each 16 or 32 of k, which costs more than the products: of the matrix units' cycles they fill 17 to 45
/// % where bf16 fills 80 (docs/evidence/kernel-report.md). An element costs four bytes of memory traffic, two each way. So, in
/// cycles of a compute unit with `b` multiply-adds of bytes and `h` of bf16, and `m` bytes of memory, it pays from
/// `4 / m / (1 / b - 1 / h)` vectors on: about 210 (CDNA 2), 310 (CDNA 3), 380 (RDNA 4) and, where dot products of bytes
/// fill 60 % and matrix instructions are no faster, 620 (RDNA 3). Nobody has timed an AMD GPU. On an H200 14,336 x 4,096 in q4_K with 64 vectors
/// takes 72 us by bytes, with 512 388; by bf16 50 for the matrix, 12 for the vectors, and the product.
pub fn least_vectors(processor: Processor) -> Option<u32> {
    if processor.multiprocessor().is_some() {
        return Some(128);
    }
    let architecture = processor.architecture()?;
    match (architecture.unit().matrix_unit, architecture) {
        // Its bf16 has half the rate.
        (MatrixUnit::Mfma, Architecture::Cdna1) => None,
        (MatrixUnit::Mfma, Architecture::Cdna2) => Some(224),
        (MatrixUnit::Mfma, _) => Some(320),
        (MatrixUnit::Wmma, Architecture::Rdna4) => Some(384),
        (MatrixUnit::Wmma, _) => Some(640),
        _ => None,
    }
}
