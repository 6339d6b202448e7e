// Sorts rows that fit a workgroup: a wavefront's rows, or a workgroup's, by each digit of their keys.
//
// Keys stay where they are in LDS; what is moved is their columns, in 16 bits.
#pragma once
#include "sort/digits.cuh"
#include "sort/keys.cuh"

// What a row has in LDS (radix_sort.rs counts its bytes).
template <class U> struct RowLds {
    LDS_MEMORY U *keys;
    LDS_MEMORY SortCounter *columns;
    SortGroup group;

    __device__ __forceinline__ RowLds(uint32_t count, uint32_t threads) {
        uint32_t of_keys = (count * (uint32_t)sizeof(U) + 7) / 8 * 8, of_columns = (count * 2 + 7) / 8 * 8;
        uint32_t of_counters = threads / WAVEFRONT * COUNTER_BYTES, number = uniform(threadIdx.x / threads);
        LDS_MEMORY char *at = (LDS_MEMORY char *)sort_lds;
        at += number * (of_keys + of_columns + of_counters + SUM_BYTES);
        keys = (LDS_MEMORY U *)at;
        columns = (LDS_MEMORY SortCounter *)(at + of_keys);
        group = {threads, threadIdx.x - number * threads, at + of_keys + of_columns,
                 (LDS_MEMORY uint32_t *)(at + of_keys + of_columns + of_counters)};
    }
};

// Sorts a row's columns by the digit of number `digit`. Elements behind the row are its largest and last.
template <class U> __device__ __forceinline__ void sort_row_by(const RowLds<U> &lds, uint32_t count, uint32_t digit) {
    typedef uint8_t __attribute__((may_alias)) Digit;
    const SortGroup &group = lds.group;
    const LDS_MEMORY Digit *digits = (const LDS_MEMORY Digit *)lds.keys + digit;
    uint32_t of_lane = ceil_div(count, group.threads), first = group.wave() * of_lane * WAVEFRONT;
    auto is_there = [&](int i) INLINED {
        return i < (int)of_lane && first + i * WAVEFRONT < count;
    };
    uint32_t items[SORT_ITEMS], ranks[SORT_ITEMS];
    group.clear();
    // Reads of LDS wait for none but those that they depend on.
    auto place_of = [&](int i) INLINED {
        return first + i * WAVEFRONT + group.lane();
    };
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) ranks[i] = min_of(place_of(i), count - 1);
    if (digit != 0)
#pragma unroll
        for (int i = 0; i < SORT_ITEMS; i++)
            if (is_there(i)) ranks[i] = lds.columns[ranks[i]];
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++) {
        items[i] = DIGITS - 1;
        if (is_there(i)) items[i] = digits[ranks[i] * sizeof(U)] | ranks[i] << 8;
    }
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++)
        if (place_of(i) >= count) items[i] = DIGITS - 1;
    rank_items(group, items, ranks, is_there);
    group.scan();
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++)
        if (is_there(i)) ranks[i] += group.counter(group.wave(), items[i] & (DIGITS - 1));
#pragma unroll
    for (int i = 0; i < SORT_ITEMS; i++)
        if (is_there(i) && ranks[i] < count) lds.columns[ranks[i]] = (SortCounter)(items[i] >> 8);
    group.sync();
}

// `threads` of a workgroup sort a row: a wavefront's, or all. Of each row the first `kept` columns are written to
// `index`, and the elements there to `values`, unless null. `names`, unless null, has the numbers that columns go by.
template <class U>
__device__ __forceinline__ void sort_rows(const U *__restrict__ source, const uint32_t *__restrict__ names,
                                          uint32_t *__restrict__ index, U *__restrict__ values, uint32_t rows,
                                          uint32_t count, uint32_t kept, uint32_t threads, SortKeys<U> keys) {
    RowLds<U> lds(count, threads);
    const SortGroup &group = lds.group;
    uint32_t groups = blockDim.x / threads;
    size_t step = (size_t)gridDim.x * groups;
    for (size_t row = (size_t)blockIdx.x * groups + threadIdx.x / threads; row < rows; row += step) {
        const U *from = source + row * count;
#pragma unroll 4
        for (uint32_t c = group.thread; c < count; c += threads) lds.keys[c] = keys.of(from[c]);
        group.sync();
#pragma unroll 1
        for (uint32_t digit = 0; digit < sizeof(U); digit++) sort_row_by(lds, count, digit);
        for (uint32_t c = group.thread; c < kept; c += threads) {
            uint32_t column = lds.columns[c];
            if (index != nullptr) index[row * kept + c] = names != nullptr ? names[row * count + column] : column;
            if (values != nullptr) {
                U key = lds.keys[column];
                values[row * kept + c] = keys.is_exact(key) ? keys.element(key) : from[column];
            }
        }
        group.sync();
    }
}
