//! Mixtures of experts through candle-nn, and the alignment of slots to blocks through its C function, on the
//! emulated GPU against f64 and a model in Rust.

use candle_core::backend::BackendDevice as _;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::moe::{moe_gemm, moe_gemm_gguf};
use std::borrow::Cow;

mod common;

fn device() -> Device {
    common::device().expect("a GPU")
}

/// Numbers between -1 and 1 without a short period.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|i| ((i + seed) as f64 * 0.754877666).fract() as f32 * 2.0 - 1.0)
        .collect()
}

/// Tokens sent to experts.
struct Routing {
    topk: usize,
    /// Slot (row of the output) and expert, sorted by expert.
    sorted: Vec<(u32, u32)>,
}

impl Routing {
    /// Every third expert gets nothing.
    fn new(tokens: usize, topk: usize, experts: usize) -> Routing {
        let busy: Vec<u32> = (0..experts as u32).filter(|e| e % 3 != 1).collect();
        let mut sorted: Vec<(u32, u32)> = (0..tokens * topk)
            .map(|slot| (slot as u32, busy[(slot * slot + slot / 5) % busy.len()]))
            .collect();
        sorted.sort_by_key(|&(_, expert)| expert);
        Routing { topk, sorted }
    }

    fn tensors(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let (slots, experts): (Vec<u32>, Vec<u32>) = self.sorted.iter().copied().unzip();
        let len = slots.len();
        Ok((
            Tensor::from_vec(slots, len, device)?,
            Tensor::from_vec(experts, len, device)?,
        ))
    }
}

/// The result and the sum of its terms' sizes.
type Expected = Vec<(f64, f64)>;

fn expected(
    routing: &Routing,
    input: &[f64],
    weights: &[f64],
    topk_weights: Option<&[f32]>,
    n: usize,
    k: usize,
) -> Expected {
    let mut output = vec![(0.0, 0.0); routing.sorted.len() * n];
    for &(slot, expert) in &routing.sorted {
        let slot = slot as usize;
        let row = topk_weights.map_or(slot / routing.topk, |_| slot);
        let factor = topk_weights.map_or(1.0, |weights| f64::from(weights[slot]));
        for column in 0..n {
            let matrix = &weights[(expert as usize * n + column) * k..][..k];
            let terms = input[row * k..][..k]
                .iter()
                .zip(matrix)
                .map(|(x, w)| x * w * factor);
            output[slot * n + column] = terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            });
        }
    }
    output
}

/// `relative` is of the result, `of_terms` of the sum of the terms' sizes.
fn compare(
    what: &str,
    found: &Tensor,
    expected: &Expected,
    relative: f64,
    of_terms: f64,
) -> Result<()> {
    let found: Vec<f64> = found
        .to_device(&Device::Cpu)?
        .to_dtype(DType::F64)?
        .flatten_all()?
        .to_vec1()?;
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, (sum, size))) in found.iter().zip(expected).enumerate() {
        let bound = sum.abs() * relative + size * of_terms;
        assert!(
            (found - sum).abs() <= bound,
            "{what}: element {i} is {found}, not {sum} +- {bound}"
        );
    }
    Ok(())
}

fn f64s(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// Tokens, experts of a token, experts, size_n, size_k.
const SHAPES: [[usize; 5]; 5] = [
    [1, 1, 4, 5, 32],
    [3, 4, 5, 67, 64],
    [9, 2, 7, 64, 96],
    [33, 3, 8, 33, 40],
    // Neither rows of a whole vector nor of a whole tile.
    [5, 2, 3, 130, 71],
];

// f32 sums of up to 256 terms: each adds 2^-24 of what it adds to.
const SUMS: f64 = 256.0 / 16777216.0;

#[test]
fn plain_experts() -> Result<()> {
    let device = device();
    for [tokens, topk, experts, n, k] in SHAPES {
        let routing = Routing::new(tokens, topk, experts);
        let slots = tokens * topk;
        let (sorted, ids) = routing.tensors(&device)?;
        // Results are rounded to the type: half a step is 2^-11 and 2^-8 of them, and below f16's normal numbers 3e-8.
        for (dtype, rounding) in [(DType::F16, 2f64.powi(-11)), (DType::BF16, 2f64.powi(-8))] {
            let weights =
                Tensor::from_vec(numbers(experts * n * k, 1), (experts, n, k), &Device::Cpu)?
                    .to_dtype(dtype)?;
            for weighted in [false, true] {
                let rows = if weighted { slots } else { tokens };
                let input = Tensor::from_vec(numbers(rows * k, 77), (rows, k), &Device::Cpu)?
                    .to_dtype(dtype)?;
                let factors = weighted.then(|| numbers(slots, 5));
                let expected = expected(
                    &routing,
                    &f64s(&input)?,
                    &f64s(&weights)?,
                    factors.as_deref(),
                    n,
                    k,
                );
                let factors = factors
                    .map(|factors| Tensor::from_vec(factors, slots, &device))
                    .transpose()?;
                for prefill in [false, true] {
                    let found = moe_gemm(
                        &input.to_device(&device)?,
                        &weights.to_device(&device)?,
                        &factors,
                        &sorted,
                        &ids,
                        topk,
                        prefill,
                    )?;
                    assert_eq!(found.dims(), [slots, n]);
                    let what = format!("{tokens} tokens, {topk} of {experts}, {n} x {k} {dtype:?}, weighted {weighted}");
                    compare(&what, &found, &expected, rounding, SUMS)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn quantised_experts() -> Result<()> {
    let device = device();
    for dtype in [
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ] {
        for [tokens, topk, experts, n, blocks] in
            [[1, 2, 4, 5, 1], [7, 4, 5, 66, 1], [19, 2, 3, 9, 3]]
        {
            let k = blocks * dtype.block_size();
            let routing = Routing::new(tokens, topk, experts);
            let slots = tokens * topk;
            let (sorted, ids) = routing.tensors(&device)?;
            let weights =
                Tensor::from_vec(numbers(experts * n * k, 3), (experts, n, k), &Device::Cpu)?;
            let weights = QTensor::quantize(&weights, dtype)?;
            let values = f64s(&weights.dequantize(&Device::Cpu)?)?;
            let on_gpu = QStorage::from_data(Cow::Owned(weights.data()?.to_vec()), &device, dtype)?;
            let weights = QTensor::new(on_gpu, (experts, n, k))?;
            for weighted in [false, true] {
                let rows = if weighted { slots } else { tokens };
                let input = Tensor::from_vec(numbers(rows * k, 9), (rows, k), &Device::Cpu)?;
                let factors = weighted.then(|| numbers(slots, 5));
                // The last is for decoding, whose input stays f32.
                for (prefill, rounded) in
                    [(true, DType::F16), (true, DType::BF16), (false, DType::F32)]
                {
                    let expected = expected(
                        &routing,
                        &f64s(&input.to_dtype(rounded)?)?,
                        &values,
                        factors.as_deref(),
                        n,
                        k,
                    );
                    let factors = factors
                        .clone()
                        .map(|factors| Tensor::from_vec(factors, slots, &device))
                        .transpose()?;
                    let input = input.to_device(&device)?;
                    let found = moe_gemm_gguf(
                        &input, &weights, &factors, &sorted, &ids, topk, prefill, rounded,
                    )?;
                    assert_eq!(found.dims(), [slots, n]);
                    let what = format!("{dtype:?}, {tokens} tokens, {topk} of {experts}, {n} x {k}, {rounded:?}, weighted {weighted}");
                    // k up to 768; and three times: sums of a scaled integer and a minimum larger than both.
                    compare(&what, &found, &expected, 2f64.powi(-23), 9.0 * SUMS)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn ids_out_of_range_touch_nothing() -> Result<()> {
    let device = device();
    let (n, k, slots) = (40, 32, 6u32);
    let input = Tensor::ones((slots as usize, k), DType::F16, &device)?;
    let weights = Tensor::ones((3, n, k), DType::F16, &device)?;
    // Slot 1 has no expert, slot 2's expert is negative, and one row is asked for that the output has not.
    let sorted = Tensor::new(&[0u32, 1, 2, 3, slots, u32::MAX], &device)?;
    let experts = Tensor::new(&[0u32, 3, u32::MAX, 2, 1, 1], &device)?;
    let factors = Some(Tensor::ones(slots as usize, DType::F32, &device)?);
    let quantised = QTensor::quantize(
        &weights.to_device(&Device::Cpu)?.to_dtype(DType::F32)?,
        GgmlDType::Q8_0,
    )?;
    let on_gpu = QStorage::from_data(
        Cow::Owned(quantised.data()?.to_vec()),
        &device,
        GgmlDType::Q8_0,
    )?;
    let quantised = QTensor::new(on_gpu, (3, n, k))?;
    let plain = moe_gemm(&input, &weights, &factors, &sorted, &experts, 1, true)?;
    let input = input.to_dtype(DType::F32)?;
    let gguf = |prefill| {
        moe_gemm_gguf(
            &input,
            &quantised,
            &factors,
            &sorted,
            &experts,
            1,
            prefill,
            DType::F16,
        )
    };
    for found in [plain, gguf(true)?, gguf(false)?] {
        let rows: Vec<Vec<f32>> = found.to_dtype(DType::F32)?.narrow(0, 0, 4)?.to_vec2()?;
        // 1 is 127 * (1 / 127), whose scale f16 rounds.
        for (row, expected) in rows.iter().zip([k as f32, 0.0, 0.0, k as f32]) {
            assert!(
                row.iter()
                    .all(|found| (found - expected).abs() <= expected / 1000.0),
                "{row:?}, not {expected}"
            );
        }
    }
    Ok(())
}

/// `topk_ids` through `candle_launch_moe_align`, against the definition.
fn align(
    device: &Device,
    topk_ids: &[u32],
    experts: usize,
    block: usize,
    len: usize,
) -> Result<()> {
    use candle_core::cuda_backend::cudarc::driver::DevicePtr as _;
    use candle_core::cuda_backend::kernels::ffi;
    let cuda = device.as_cuda_device()?;
    let stream = cuda.cuda_stream();
    let blocks = len.div_ceil(block);
    // Nonsense before the call.
    let source = cuda.clone_htod(topk_ids)?;
    let sorted = cuda.clone_htod(&vec![0xa5a5_a5a5u32; len])?;
    let owners = cuda.clone_htod(&vec![0xa5a5_a5a5u32; blocks])?;
    let total = cuda.clone_htod(&[0xa5a5_a5a5u32])?;
    let ends = cuda.clone_htod(&vec![0xa5a5_a5a5u32; experts + 1])?;
    // SAFETY: the buffers have the lengths that the function's documentation asks for.
    let status = unsafe {
        ffi::candle_launch_moe_align(
            source.device_ptr(&stream).0 as *const i32,
            sorted.device_ptr(&stream).0 as *mut i32,
            owners.device_ptr(&stream).0 as *mut i32,
            total.device_ptr(&stream).0 as *mut i32,
            ends.device_ptr(&stream).0 as *mut i32,
            experts as i32,
            block as i32,
            topk_ids.len() as i32,
            len as i32,
            stream.cu_stream(),
        )
    };
    assert_eq!(status, 0);
    let (sorted, owners) = (cuda.clone_dtoh(&sorted)?, cuda.clone_dtoh(&owners)?);
    let (total, ends) = (cuda.clone_dtoh(&total)?, cuda.clone_dtoh(&ends)?);
    cuda.synchronize()?;

    let mut start = 0;
    for (expert, &end) in ends[..experts].iter().enumerate() {
        let slots: Vec<u32> = (0..topk_ids.len() as u32)
            .filter(|&slot| topk_ids[slot as usize] == expert as u32)
            .collect();
        let padded = slots.len().next_multiple_of(block);
        let mut found = sorted[start..start + slots.len()].to_vec();
        found.sort();
        assert_eq!(found, slots, "expert {expert}");
        let padding = &sorted[start + slots.len()..start + padded];
        assert!(
            padding.iter().all(|&slot| slot as usize == topk_ids.len()),
            "padding of {expert}"
        );
        assert!(owners[start / block..(start + padded) / block]
            .iter()
            .all(|&owner| owner == expert as u32));
        assert_eq!(end as usize, start + slots.len(), "end of {expert}");
        start += padded;
    }
    assert_eq!(ends[experts] as usize, start);
    assert_eq!(total[0] as usize, start);
    assert!(sorted[start..]
        .iter()
        .all(|&slot| slot as usize == topk_ids.len()));
    assert!(owners[start / block..]
        .iter()
        .all(|&owner| owner == u32::MAX));
    Ok(())
}

#[test]
fn slots_are_aligned_to_blocks() -> Result<()> {
    let device = device();
    for (slots, experts, block) in [
        (0, 3, 16),
        (1, 1, 1),
        (37, 5, 4),
        (1000, 300, 16),
        (513, 2, 64),
    ] {
        // Ids up to two past the last expert, and a negative one, count nowhere.
        let mut ids: Vec<u32> = (0..slots)
            .map(|i| (i * i + i / 7) % (experts as u32 + 2))
            .collect();
        if let Some(last) = ids.last_mut() {
            *last = u32::MAX;
        }
        // What vLLM allots: every expert may be padded.
        align(
            &device,
            &ids,
            experts,
            block,
            slots as usize + experts * (block - 1) + 5,
        )?;
    }
    Ok(())
}
