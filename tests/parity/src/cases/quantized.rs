//! Quantised weights: products, conversions to floats, rows, mixtures of experts.

use candle_core::quantized::{GgmlDType, QMatMul};
use candle_core::{DType, Device, Module as _, Result, Tensor};
use candle_nn::moe;

use super::{input, name, List};
use crate::case::Input;
use crate::numbers::{Numbers, Random};
use crate::weights::{quantized, weights, FORMATS};

/// The formats that experts may have.
const OF_EXPERTS: [GgmlDType; 6] = [
    GgmlDType::Q8_0,
    GgmlDType::Q2K,
    GgmlDType::Q3K,
    GgmlDType::Q4K,
    GgmlDType::Q5K,
    GgmlDType::Q6K,
];

/// Normal numbers, nearly: sums of 12 uniform ones, which are the same everywhere as logarithms need not be.
fn normal(seed: u64, count: usize) -> Numbers {
    let mut random = Random::new(seed);
    let one = |_| (0..12).map(|_| random.signed()).sum::<f64>() / 2.0;
    Numbers::Floats((0..count).map(one).collect())
}

/// The bytes of quantised weights.
fn bytes(format: GgmlDType, seed: u64, dims: &[usize]) -> Result<Input> {
    let floats = normal(seed, dims.iter().product()).tensor(DType::F32, dims)?;
    quantized(&floats, format)
}

/// What the weights stand for, in f64.
fn exact(bytes: &Tensor, format: GgmlDType, dims: &[usize]) -> Result<Tensor> {
    let floats = weights(bytes, format, dims)?.dequantize(&Device::Cpu)?;
    floats.to_dtype(DType::F64)
}

pub(super) fn add(list: &mut List) -> Result<()> {
    for format in FORMATS {
        products(list, format)?;
        products_with_floats(list, format)?;
        conversions(list, format)?;
    }
    conversions(list, GgmlDType::Q8K)?;
    for format in [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16] {
        rows_by_id(list, format)?;
    }
    for format in OF_EXPERTS {
        experts(list, format)?;
    }
    plain_experts(list)
}

fn products(list: &mut List, format: GgmlDType) -> Result<()> {
    for (rows, columns) in [(19, 256), (66, 512)] {
        let dims = [rows, columns];
        let weight_bytes = bytes(format, 101, &dims)?;
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for vectors in [1, 2, 3, 4, 5, 6, 7, 8, 9, 33, 129] {
                // The larger matrix by some of the numbers of vectors only; 129 of f32 alone, as they are long.
                let chosen = match vectors {
                    129 => rows > 19 && dtype == DType::F32,
                    1 | 4 | 33 => true,
                    _ => rows == 19,
                };
                if !chosen {
                    continue;
                }
                let x = input(&normal(102, vectors * columns), dtype, &[vectors, columns])?;
                let what = format!("{format:?} {rows} x {columns} by {vectors} {}", name(dtype));
                let case = list.add(
                    "qmatmul",
                    what,
                    vec![weight_bytes.clone(), x.clone()],
                    move |x| QMatMul::from_qtensor(weights(&x[0], format, &dims)?)?.forward(&x[1]),
                );
                case.truth_by(move |x| x[1].matmul(&exact(&x[0], format, &dims)?.t()?));
            }
        }
    }
    let x = input(&normal(103, 3 * 256), DType::F32, &[3, 256])?;
    let inputs = vec![bytes(format, 101, &[19, 256])?, x];
    let case = list.add("qmatmul_via_f16", format!("{format:?}"), inputs, move |x| {
        QMatMul::from_qtensor(weights(&x[0], format, &[19, 256])?)?.forward_via_f16(&x[1])
    });
    case.truth_by(move |x| x[1].matmul(&exact(&x[0], format, &[19, 256])?.t()?));
    Ok(())
}

/// With activations as they are, not rounded to 8 bits: an option of Candle's CUDA backend.
fn products_with_floats(list: &mut List, format: GgmlDType) -> Result<()> {
    let dims = [19, 512];
    for vectors in [1, 3] {
        let x = input(&normal(112, vectors * 512), DType::F32, &[vectors, 512])?;
        let inputs = vec![bytes(format, 113, &dims)?, x];
        let what = format!("{format:?} by {vectors}");
        let case = list.add("qmatmul_by_floats", what, inputs, move |x| {
            let matrix = QMatMul::from_qtensor(weights(&x[0], format, &dims)?)?;
            candle_core::quantized::cuda::set_force_dmmv(true);
            let product = matrix.forward(&x[1]);
            candle_core::quantized::cuda::set_force_dmmv(false);
            product
        });
        case.truth_by(move |x| x[1].matmul(&exact(&x[0], format, &dims)?.t()?));
    }
    Ok(())
}

fn conversions(list: &mut List, format: GgmlDType) -> Result<()> {
    let dims = [6, 256];
    let inputs = vec![bytes(format, 104, &dims)?];
    list.add(
        "dequantize",
        format!("{format:?}"),
        inputs.clone(),
        move |x| weights(&x[0], format, &dims)?.dequantize(x[0].device()),
    )
    .truth_by(move |x| exact(&x[0], format, &dims));
    list.add("dequantize_f16", format!("{format:?}"), inputs, move |x| {
        weights(&x[0], format, &dims)?.dequantize_f16(x[0].device())
    })
    .truth_by(move |x| exact(&x[0], format, &dims));
    if format != GgmlDType::Q8K {
        rows_by_id(list, format)?;
    }
    Ok(())
}

fn rows_by_id(list: &mut List, format: GgmlDType) -> Result<()> {
    let dims = [6, 256];
    let ids = Numbers::Integers(vec![5, 0, 3, 3, 1]).tensor(DType::U32, &[5])?;
    let inputs = vec![bytes(format, 104, &dims)?, Input::Fixed(ids)];
    list.add("qembedding", format!("{format:?}"), inputs, move |x| {
        weights(&x[0], format, &dims)?.embedding(&x[1])
    })
    .truth_by(move |x| exact(&x[0], format, &dims)?.embedding(&x[1]));
    Ok(())
}

/// Tokens, experts for each, experts, and the sizes of their matrices.
const TOKENS: usize = 5;
const TOPK: usize = 2;
const EXPERTS: usize = 4;

/// The slots (token x expert) in the order of their experts, and these experts. The second expert gets nothing.
fn routing() -> Result<[Input; 2]> {
    let busy = [0, 2, 3];
    let mut sorted: Vec<(i64, i64)> = (0..(TOKENS * TOPK) as i64)
        .map(|slot| (busy[((slot * slot + slot / 2) % 3) as usize], slot))
        .collect();
    sorted.sort();
    let (experts, slots) = sorted.into_iter().unzip();
    let tensor = |numbers| -> Result<Input> {
        let numbers = Numbers::Integers(numbers);
        Ok(Input::Fixed(numbers.tensor(DType::U32, &[TOKENS * TOPK])?))
    };
    Ok([tensor(slots)?, tensor(experts)?])
}

/// Each slot's row times its expert's matrix: (slots, n) of rows (tokens or slots, k) and matrices (experts, n, k).
fn routed(rows: &Tensor, matrices: &Tensor, slots: &Tensor, experts: &Tensor) -> Result<Tensor> {
    routed_from(rows, matrices, slots, experts, TOPK)
}

/// The same, with rows that are each for `shared` slots.
fn routed_from(
    rows: &Tensor,
    matrices: &Tensor,
    slots: &Tensor,
    experts: &Tensor,
    shared: usize,
) -> Result<Tensor> {
    let slots: Vec<u32> = slots.to_vec1()?;
    let experts: Vec<u32> = experts.to_vec1()?;
    let mut products = vec![None; slots.len()];
    for (&slot, &expert) in slots.iter().zip(&experts) {
        let row = rows.narrow(0, slot as usize / shared, 1)?;
        let product = row.matmul(&matrices.get(expert as usize)?.t()?)?;
        products[slot as usize] = Some(product);
    }
    let products: Vec<Tensor> = products.into_iter().flatten().collect();
    Tensor::cat(&products, 0)
}

fn experts(list: &mut List, format: GgmlDType) -> Result<()> {
    let (n, k) = (24, 256);
    let dims = [EXPERTS, n, k];
    let weight_bytes = bytes(format, 105, &dims)?;
    // Each token's rows for its experts, or one for all.
    for per_token in [1, TOPK] {
        let sizes = [TOKENS, per_token, k];
        let x = input(&normal(106, TOKENS * per_token * k), DType::F32, &sizes)?;
        let ids = (0..TOKENS * TOPK).map(|slot| (slot * slot + slot / 2) as i64 % 4);
        let ids = Numbers::Integers(ids.collect()).tensor(DType::U32, &[TOKENS, TOPK])?;
        let inputs = vec![weight_bytes.clone(), x, Input::Fixed(ids)];
        let what = format!("{format:?}, {per_token} rows a token");
        let case = list.add("indexed_moe", what, inputs, move |x| {
            weights(&x[0], format, &dims)?.indexed_moe_forward(&x[1], &x[2])
        });
        case.truth_by(move |x| {
            let matrices = exact(&x[0], format, &dims)?;
            let ids: Vec<Vec<u32>> = x[2].to_vec2()?;
            let mut products = Vec::new();
            for (token, ids) in ids.iter().enumerate() {
                for (i, &id) in ids.iter().enumerate() {
                    let row = x[1].get(token)?.narrow(0, i % per_token, 1)?;
                    products.push(row.matmul(&matrices.get(id as usize)?.t()?)?);
                }
            }
            Tensor::cat(&products, 0)?.reshape((TOKENS, TOPK, n))
        });
    }
    for (is_prefill, dtype) in [(false, DType::F16), (true, DType::F16), (true, DType::BF16)] {
        let [slots, experts] = routing()?;
        let x = input(&normal(107, TOKENS * k), DType::F32, &[TOKENS, k])?;
        let inputs = vec![weight_bytes.clone(), x, slots, experts];
        let what = format!("{format:?}, prefill {is_prefill}, {}", name(dtype));
        let case = list.add("moe_gemm_gguf", what, inputs, move |x| {
            let weights = weights(&x[0], format, &dims)?;
            moe::moe_gemm_gguf(
                &x[1], &weights, &None, &x[2], &x[3], TOPK, is_prefill, dtype,
            )
        });
        case.truth_by(move |x| routed(&x[1], &exact(&x[0], format, &dims)?, &x[2], &x[3]));
    }
    Ok(())
}

/// Experts of f16 and bf16.
fn plain_experts(list: &mut List) -> Result<()> {
    let (n, k) = (32, 64);
    for dtype in [DType::F16, DType::BF16] {
        for is_prefill in [false, true] {
            let [slots, experts] = routing()?;
            let inputs = vec![
                input(&normal(108, TOKENS * k), dtype, &[TOKENS, k])?,
                input(&normal(109, EXPERTS * n * k), dtype, &[EXPERTS, n, k])?,
                slots,
                experts,
            ];
            let what = format!("{}, prefill {is_prefill}", name(dtype));
            list.add("moe_gemm", what, inputs, move |x| {
                moe::moe_gemm(&x[0], &x[1], &None, &x[2], &x[3], TOPK, is_prefill)
            })
            .truth_by(|x| routed(&x[0], &x[1], &x[2], &x[3]));
            // A row and a factor for each slot.
            let [slots, experts] = routing()?;
            let count = TOKENS * TOPK;
            let inputs = vec![
                input(&normal(110, count * k), dtype, &[count, k])?,
                input(&normal(109, EXPERTS * n * k), dtype, &[EXPERTS, n, k])?,
                slots,
                experts,
                input(
                    &Numbers::between(0.1, 1.0, 111, count),
                    DType::F32,
                    &[count],
                )?,
            ];
            let what = format!("{}, prefill {is_prefill}, weighted", name(dtype));
            list.add("moe_gemm", what, inputs, move |x| {
                let factors = Some(x[4].clone());
                moe::moe_gemm(&x[0], &x[1], &factors, &x[2], &x[3], TOPK, is_prefill)
            })
            .truth_by(|x| {
                let products = routed_from(&x[0], &x[1], &x[2], &x[3], 1)?;
                products.broadcast_mul(&x[4].unsqueeze(1)?)
            });
        }
    }
    Ok(())
}
