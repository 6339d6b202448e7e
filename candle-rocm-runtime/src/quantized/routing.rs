//! Slots sorted by expert, padded to blocks: module `moe`.

use candle_rocm_kernels::MOE;

use super::arguments::{address, count};
use super::experts::MOST_WORKGROUPS;
use super::launches::{launch, Name};
use crate::base::error::{Error, Result};
use crate::stream::queue::Stream;

const THREADS: u32 = 256;

/// What `candle_launch_moe_align` is given.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Alignment {
    /// Address of each slot's expert; one that does not exist leaves the slot out.
    pub topk_ids: u64,
    /// Address of the slots, `max_num_tokens_padded` of them, in no particular order within an expert, and `numel` elsewhere.
    pub sorted_token_ids: u64,
    /// Address of each block's expert, -1 past the last.
    pub expert_ids: u64,
    /// Address of the padded number.
    pub num_tokens_post_pad: u64,
    /// Address of `num_experts` + 1 numbers: where each expert's slots end without the padding, and the padded number.
    pub cumsum: u64,
    pub num_experts: i32,
    pub block_size: i32,
    pub numel: i32,
    pub max_num_tokens_padded: i32,
}

/// Sorts `numel` slots by expert into blocks of `block_size`, each of one expert. What does not fit in
/// `max_num_tokens_padded` is left out.
///
/// # Safety
/// The addresses are those of device memory as described, which nothing else uses until the stream has come so far.
///
/// # Errors
/// An argument makes no sense, which is named; a kernel cannot be launched.
pub unsafe fn align(stream: &Stream, alignment: &Alignment) -> Result<()> {
    let num_experts = count("num_experts", alignment.num_experts)?;
    let block_size = count("block_size", alignment.block_size)?;
    let slots = count("numel", alignment.numel)?;
    let sorted_len = count("max_num_tokens_padded", alignment.max_num_tokens_padded)?;
    if block_size == 0 {
        return Err(Error::invalid("block_size is 0, and must be positive"));
    }
    let total = address("num_tokens_post_pad", alignment.num_tokens_post_pad)?;
    let cumsum = address("cumsum", alignment.cumsum)?;
    let (mut source, mut sorted, mut blocks) = (0, 0, 0);
    if slots > 0 {
        source = address("topk_ids", alignment.topk_ids)?;
    }
    if sorted_len > 0 {
        sorted = address("sorted_token_ids", alignment.sorted_token_ids)?;
        blocks = address("expert_ids", alignment.expert_ids)?;
    }
    let fill = sorted_len.div_ceil(THREADS).min(MOST_WORKGROUPS);
    // SAFETY: the kernel's arguments, as the contract test has them, for memory that the caller promises.
    unsafe {
        launch!(
            stream,
            &MOE,
            Name::whole("moe_align"),
            (1 + fill, 1, 1),
            THREADS,
            [
                source,
                sorted,
                blocks,
                total,
                cumsum,
                num_experts,
                block_size,
                slots,
                sorted_len
            ]
        )
    }?;
    if slots == 0 {
        return Ok(());
    }
    let grid = (slots.div_ceil(THREADS).min(MOST_WORKGROUPS), 1, 1);
    // SAFETY: likewise, of what the launch before leaves.
    unsafe {
        launch!(
            stream,
            &MOE,
            Name::whole("moe_align_sort"),
            grid,
            THREADS,
            [source, sorted, cumsum, num_experts, slots, sorted_len]
        )
    }
}
