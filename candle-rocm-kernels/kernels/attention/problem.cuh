// What the `attention_forward` module's kernels are told: attention of packed or padded sequences, and what hides keys
// from queries.
#pragma once
#include "portable/cold_path.cuh"

namespace attention {

// A tensor of (batch, row, head, element): distances in elements between its first three, the last is 1.
struct AttentionTensor {
    const void *at;
    uint64_t batch;
    uint32_t row;
    uint32_t head;
};

// Of query i and key j of a sequence, whose places are i + keys - queries and j:
//
//   score = scale * dot(q[i], k[j]), or softcap * tanh of it / softcap
//   score = score - slope * |place of i - j| + mask[i, j]
//
// where j is at most `left` before the place of i and at most `right` after it; below 0 means any distance.
//
//   out[i] = sum of e^score v[j] / sum of e^score        (0 where no j is left)
//   lse[i] = log of that sum                             (-infinity there)
struct AttentionProblem {
    AttentionTensor q, k, v, out;
    // (batch, head, row) in f32, the rows one after another; or null.
    float *lse;
    uint64_t lse_batch;
    uint64_t lse_head;
    // Of the queries' type, or null. Distances of 0 repeat it.
    const void *mask;
    uint64_t mask_batch;
    uint64_t mask_head;
    uint64_t mask_row;
    uint64_t mask_key;
    // ALiBi's, a head's after another's, or null.
    const float *slopes;
    uint64_t slopes_batch;
    // Where sequences are packed: the first row of each, and the end of the last. Or null.
    const uint32_t *starts_q;
    const uint32_t *starts_k;
    // The pages of each sequence's keys, or null. A page is a batch of k and v, of page_rows rows; of the keys' starts
    // the differences alone are read.
    const uint32_t *pages;
    uint32_t pages_batch;
    uint32_t page_rows;
    // Rows of the longest sequence; where they are not packed, of each.
    uint32_t queries;
    uint32_t keys;
    // Query heads that share a key head, and key heads.
    uint32_t group;
    uint32_t key_heads;
    // A head's elements, a multiple of 8.
    uint32_t dim;
    int32_t left;
    int32_t right;
    float scale;
    // 0 for none.
    float softcap;
    uint32_t reserved;
};

} // namespace attention
