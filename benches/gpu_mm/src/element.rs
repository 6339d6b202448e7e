//! Numbers of every element type, as bytes and as f64.

use candle_rocm_runtime::gemm::GemmDtype;
use half::{bf16, f16};

/// A reproducible number between -1 and 1 for a place in a tensor (splitmix64).
fn noise(seed: u64, at: usize) -> f64 {
    let x = seed.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ x >> 31) as i64 as f64 / -(i64::MIN as f64)
}

/// So many elements, between -1 and 1, or all values of a byte.
pub fn random(dtype: GemmDtype, seed: u64, count: usize) -> Vec<u8> {
    let numbers = (0..count).map(|at| noise(seed, at));
    match dtype {
        GemmDtype::F16 => numbers
            .flat_map(|x| f16::from_f64(x).to_le_bytes())
            .collect(),
        GemmDtype::BF16 => numbers
            .flat_map(|x| bf16::from_f64(x).to_le_bytes())
            .collect(),
        GemmDtype::F32 => numbers.flat_map(|x| (x as f32).to_le_bytes()).collect(),
        GemmDtype::F64 => numbers.flat_map(f64::to_le_bytes).collect(),
        GemmDtype::I8 => numbers.map(|x| (x * 127.0).round() as i8 as u8).collect(),
    }
}

/// Element `at` of A or B.
pub fn operand(dtype: GemmDtype, bytes: &[u8], at: usize) -> f64 {
    match dtype {
        GemmDtype::I8 => f64::from(bytes[at] as i8),
        _ => result(dtype, bytes, at),
    }
}

/// Element `at` of C.
pub fn result(dtype: GemmDtype, bytes: &[u8], at: usize) -> f64 {
    fn of<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        let mut element = [0; N];
        element.copy_from_slice(&bytes[N * at..N * (at + 1)]);
        element
    }
    match dtype {
        GemmDtype::F16 => f16::from_le_bytes(of(bytes, at)).to_f64(),
        GemmDtype::BF16 => bf16::from_le_bytes(of(bytes, at)).to_f64(),
        GemmDtype::F32 => f32::from_le_bytes(of(bytes, at)).into(),
        GemmDtype::F64 => f64::from_le_bytes(of(bytes, at)),
        GemmDtype::I8 => i32::from_le_bytes(of(bytes, at)).into(),
    }
}
