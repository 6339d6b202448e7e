//! What is refused, with what was found and what would do.

use std::sync::LazyLock;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_flash_attn::{
    flash_attn, flash_attn_alibi, flash_attn_varlen, flash_attn_varlen_paged_windowed, FlashAttn,
};

#[path = "../../../candle-rocm-backend/tests/common/mod.rs"]
mod common;

/// One for all tests: of two that stand for one GPU, Candle's operators take operands of one alone.
fn device() -> Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| common::device().expect("a GPU"));
    DEVICE.clone()
}

fn of(shape: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::zeros(shape, dtype, &device())
}

fn half(shape: &[usize]) -> Result<Tensor> {
    of(shape, DType::F16)
}

fn refused(result: Result<Tensor>, words: &[&str]) {
    let error = result.expect_err("it is refused").to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[test]
fn operands_of_batches() -> Result<()> {
    let call = |q: &Tensor, k: &Tensor, v: &Tensor| flash_attn(q, k, v, 0.5, false);
    let q = half(&[2, 4, 4, 64])?;
    let on_cpu = q.to_device(&Device::Cpu)?;
    refused(
        call(&on_cpu, &on_cpu, &on_cpu),
        &["flash-attn", "Cpu", "GPU"],
    );
    refused(call(&q, &on_cpu, &q), &["k is on Cpu"]);
    let op = FlashAttn {
        softmax_scale: 0.5,
        alibi_slopes: None,
        window_size_left: None,
        window_size_right: None,
        softcap: None,
    };
    refused(
        on_cpu.apply_op3(&on_cpu, &on_cpu, op),
        &["flash-attn", "GPU"],
    );
    let wide = of(&[2, 4, 4, 64], DType::F32)?;
    refused(call(&wide, &wide, &wide), &["F32", "f16 and bf16"]);
    refused(
        call(&q, &of(&[2, 4, 4, 64], DType::BF16)?, &q),
        &["k is BF16", "F16"],
    );
    refused(
        call(&half(&[4, 4, 64])?, &q, &q),
        &["q of shape [4, 4, 64]", "rank 4"],
    );
    let turned = half(&[2, 4, 64, 4])?.transpose(2, 3)?;
    refused(call(&turned, &q, &q), &["q has strides", "contiguous"]);
    refused(call(&q, &q, &turned), &["v has strides", "contiguous"]);
    refused(
        call(&q, &half(&[2, 5, 4, 64])?, &q),
        &["[2, 5, 4, 64]", "[2, 4, 4, 64]"],
    );
    let narrow = half(&[2, 4, 4, 32])?;
    refused(call(&q, &narrow, &narrow), &["one size"]);
    let other = half(&[3, 4, 4, 64])?;
    refused(call(&q, &other, &other), &["2 sequences", "of 3"]);
    let three = half(&[2, 4, 3, 64])?;
    refused(call(&q, &three, &three), &["4 heads", "multiple of the 3"]);
    for elements in [60, 520] {
        let odd = half(&[1, 4, 4, elements])?;
        let elements = elements.to_string();
        refused(
            call(&odd, &odd, &odd),
            &[&elements, "multiples of 8 up to 512"],
        );
    }
    let with = |slopes: Tensor| flash_attn_alibi(&q, &q, &q, &slopes, 0.5, false);
    refused(with(of(&[4], DType::F16)?), &["alibi_slopes", "f32 of [4]"]);
    refused(with(of(&[3], DType::F32)?), &["alibi_slopes", "[3]"]);
    let slopes = Tensor::zeros(4, DType::F32, &Device::Cpu)?;
    refused(with(slopes), &["alibi_slopes is on Cpu"]);
    Ok(())
}

#[test]
fn operands_of_packed_sequences() -> Result<()> {
    let q = half(&[4, 4, 64])?;
    let starts = Tensor::new(&[0u32, 4], &device())?;
    let call = |sq: &Tensor, sk: &Tensor| flash_attn_varlen(&q, &q, &q, sq, sk, 4, 4, 0.5, false);
    let name = "flash-attn-varlen";
    refused(
        call(&starts.to_dtype(DType::I64)?, &starts),
        &[name, "seqlens_q is I64", "u32"],
    );
    refused(
        call(&starts, &starts.to_device(&Device::Cpu)?),
        &[name, "seqlens_k is on Cpu"],
    );
    let one = starts.narrow(0, 0, 1)?;
    refused(call(&one, &one), &["seqlens_q has 1", "at least 2"]);
    refused(call(&starts, &one), &["seqlens_q has 2", "seqlens_k 1"]);
    let apart = Tensor::new(&[[0u32, 9], [4, 9]], &device())?
        .narrow(1, 0, 1)?
        .squeeze(1)?;
    refused(call(&apart, &starts), &["seqlens_q", "contiguous"]);
    let batch = half(&[1, 4, 4, 64])?;
    let result = flash_attn_varlen(&batch, &q, &q, &starts, &starts, 4, 4, 0.5, false);
    refused(result, &[name, "rank 3"]);
    Ok(())
}

#[test]
fn pages() -> Result<()> {
    let (q, pages) = (half(&[4, 4, 64])?, half(&[3, 32, 4, 64])?);
    let starts = Tensor::new(&[0u32, 4], &device())?;
    let call = |k: &Tensor, table: &Tensor, ranges: Option<&Tensor>, rows: usize| {
        let (none, starts) = (None, &starts);
        flash_attn_varlen_paged_windowed(
            &q, k, k, starts, starts, table, ranges, 4, 4, 0.5, none, none, rows, None,
        )
    };
    let table = Tensor::new(&[[0u32, 1]], &device())?;
    refused(
        call(&q, &table, None, 32),
        &["k of shape [4, 4, 64]", "rank 4"],
    );
    refused(
        call(&pages, &table, None, 64),
        &["page_block_size is 64", "pages of 32"],
    );
    let small = half(&[3, 16, 4, 64])?;
    refused(
        call(&small, &table, None, 16),
        &["page_block_size is 16", "multiple of 32"],
    );
    refused(
        call(&pages, &table.to_dtype(DType::I64)?, None, 32),
        &["block_table is I64", "u32 or i32"],
    );
    refused(
        call(&pages, &table.squeeze(0)?, None, 32),
        &["block_table has shape [2]"],
    );
    refused(
        call(&pages, &table.to_device(&Device::Cpu)?, None, 32),
        &["block_table is on Cpu"],
    );
    let ranges = of(&[1, 1, 2], DType::I32)?;
    let with = |ranges: &Tensor| call(&pages, &table, Some(ranges), 32);
    refused(
        with(&of(&[1, 1, 2], DType::U32)?),
        &["mm_prefix_ranges is U32", "i32"],
    );
    refused(
        with(&ranges.squeeze(0)?),
        &["mm_prefix_ranges", "(1, most ranges, 2)"],
    );
    refused(
        with(&ranges.to_device(&Device::Cpu)?),
        &["mm_prefix_ranges is on Cpu"],
    );
    with(&ranges).map(|_| ())
}

#[test]
fn gradients_of_pages() -> Result<()> {
    let q = Var::from_tensor(&half(&[4, 4, 64])?)?;
    let (q, pages) = (q.as_tensor(), half(&[3, 32, 4, 64])?);
    let starts = Tensor::new(&[0u32, 4], &device())?;
    let table = Tensor::new(&[[0u32]], &device())?;
    let y = flash_attn_varlen_paged_windowed(
        q, &pages, &pages, &starts, &starts, &table, None, 4, 4, 0.5, None, None, 32, None,
    )?;
    let error = y
        .sum_all()?
        .backward()
        .expect_err("there are none")
        .to_string();
    assert!(error.contains("pages have no gradient"), "{error}");
    Ok(())
}
