// What `attend_*` of module `decode` are told.
#pragma once
#include "portable/portable.cuh"

namespace attention {

// T is the type of what comes in and goes out, C the cache's.
struct AttendProblem {
    const void *heads; // T: of queries; or, where `cos` is there, packed ones of queries, keys and values
    void *cache;       // C
    const uint32_t *position;
    void *result;  // T; or null, where `vector` is there
    float *splits; // where the grid has several splits of the keys
    // Zeros, one for each group of each step, where the workgroup that ends last merges parts; or null.
    int32_t *counters;
    // T: angles, whose table has so many positions; or null.
    const void *cos;
    const void *sin;
    uint32_t table;
    uint32_t interleaved;
    // T: the norms' weights; or null.
    const void *query_norm;
    const void *key_norm;
    float epsilon;
    uint32_t batch;
    uint32_t steps;
    // Query heads that share a key head, and key heads.
    uint32_t group;
    uint32_t kv_heads;
    uint32_t dim;
    uint32_t capacity;
    uint32_t window; // 0 for none
    // Of the scores, in units of log2(e).
    float scale;
    float softcap;       // 0 for none
    const float *slopes; // ALiBi's; or null
    uint8_t *vector;     // the result, quantised as a product with it takes it; or null
};

} // namespace attention
