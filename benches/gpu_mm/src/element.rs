//! Numbers of every element type, as bytes and as f64.

use candle_rocm_runtime::gemm::GemmDtype;
use candle_rocm_testing::random::Random;
use half::{bf16, f16};

/// So many elements, between -1 and 1, or all values of a byte.
pub fn random(dtype: GemmDtype, seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random::from_state(seed);
    let numbers = (0..count).map(|_| random.signed());
    match dtype {
        GemmDtype::F16 | GemmDtype::F16ToF32 => numbers
            .flat_map(|x| f16::from_f64(x).to_le_bytes())
            .collect(),
        GemmDtype::BF16 | GemmDtype::BF16ToF32 => numbers
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
        GemmDtype::F16ToF32 => result(GemmDtype::F16, bytes, at),
        GemmDtype::BF16ToF32 => result(GemmDtype::BF16, bytes, at),
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
        GemmDtype::F32 | GemmDtype::F16ToF32 | GemmDtype::BF16ToF32 => {
            f32::from_le_bytes(of(bytes, at)).into()
        }
        GemmDtype::F64 => f64::from_le_bytes(of(bytes, at)),
        GemmDtype::I8 => i32::from_le_bytes(of(bytes, at)).into(),
    }
}
