// cub's DeviceRadixSort, for host code. Four bits of the keys at a time, the lowest first: each block counts the digits
// of its part, what stands before each digit of each part is found, and the keys go there in their order. Keys that are
// equal keep their order.
#pragma once
#include "cub/device.cuh"

namespace cub {
// Two arrays, of which one has the values.
template <class T> struct DoubleBuffer {
    T *d_buffers[2] = {nullptr, nullptr};
    int selector = 0;
    DoubleBuffer() {}
    DoubleBuffer(T *current, T *alternate) : d_buffers{current, alternate} {}
    T *Current() { return d_buffers[selector]; }
    T *Alternate() { return d_buffers[selector ^ 1]; }
};

namespace details {
constexpr int DIGIT_BITS = 4, DIGITS = 1 << DIGIT_BITS;
struct NoValue {};
template <int BYTES> struct Word;
template <> struct Word<1> {
    typedef uint8_t type;
};
template <> struct Word<2> {
    typedef uint16_t type;
};
template <> struct Word<4> {
    typedef uint32_t type;
};
template <> struct Word<8> {
    typedef uint64_t type;
};
// A key as a number without sign that is ordered as the keys are. What is no integer has a sign and a magnitude.
template <class K> __device__ __forceinline__ typename Word<sizeof(K)>::type code(K key, bool descending) {
    typedef typename Word<sizeof(K)>::type W;
    const W sign = (W)((W)1 << (sizeof(W) * 8 - 1));
    W bits = candle_rocm::bits<W>(key);
    if constexpr (__is_integral(K)) {
        if (K(-1) < K(0)) bits = (W)(bits ^ sign);
    } else {
        bits = (W)((bits & sign) != 0 ? ~bits : bits | sign);
    }
    return descending ? (W)~bits : bits;
}
template <class K> __device__ __forceinline__ unsigned int digit(K key, int shift, unsigned int mask, bool descending) {
    return (unsigned int)(code(key, descending) >> shift) & mask;
}

// How many keys of each part have each digit: digit by digit, part by part.
template <class K>
__global__ void __launch_bounds__(THREADS) count_digits(const K *keys, uint32_t *counts, size_t count, size_t each,
                                                        int shift, unsigned int mask, bool descending) {
    __shared__ uint32_t found[DIGITS];
    if (threadIdx.x < DIGITS) found[threadIdx.x] = 0;
    __syncthreads();
    size_t end = end_of_part(count, each);
    for (size_t at = blockIdx.x * each + threadIdx.x; at < end; at += THREADS) {
        atomicAdd(&found[digit(keys[at], shift, mask, descending)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = found[threadIdx.x];
}
template <class K, class V>
__global__ void __launch_bounds__(THREADS)
    place(const K *keys, K *to, const V *values, V *values_to, const uint32_t *places, size_t count, size_t each,
          int shift, unsigned int mask, bool descending) {
    // Four counters of 16 bits in a word: a tile has fewer keys than they count.
    typedef BlockScan<unsigned long long, THREADS> Scan;
    constexpr int WORDS = DIGITS / 4;
    __shared__ typename Scan::TempStorage storage[WORDS];
    __shared__ uint32_t next[DIGITS];
    if (threadIdx.x < DIGITS) next[threadIdx.x] = places[threadIdx.x * gridDim.x + blockIdx.x];
    size_t end = end_of_part(count, each);
    for (size_t begin = blockIdx.x * each; begin < end; begin += THREADS) {
        size_t at = begin + threadIdx.x;
        bool there = at < end;
        K key = there ? keys[at] : K();
        unsigned int mine = digit(key, shift, mask, descending);
        unsigned long long ranks[WORDS], all[WORDS];
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            unsigned long long one = there && (int)(mine / 4) == w ? 1ull << 16 * (mine % 4) : 0;
            Scan(storage[w]).ExclusiveSum(one, ranks[w], all[w]);
        }
        if (there) {
            unsigned long long word = 0;
#pragma unroll
            for (int w = 0; w < WORDS; w++) word = (int)(mine / 4) == w ? ranks[w] : word;
            uint32_t to_place = next[mine] + (uint32_t)(word >> 16 * (mine % 4) & 0xffff);
            to[to_place] = key;
            if constexpr (!candle_rocm::same<V, NoValue>::value) values_to[to_place] = values[at];
        }
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WORDS; w++) {
            if ((int)threadIdx.x / 4 == w) next[threadIdx.x] += (uint32_t)(all[w] >> 16 * (threadIdx.x % 4) & 0xffff);
        }
        __syncthreads();
    }
}

inline size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }
// Counts of digits, and what a scan of them needs.
inline size_t digits_bytes(const Parts &parts) {
    size_t counts = (size_t)DIGITS * parts.blocks;
    return aligned(counts * sizeof(uint32_t)) + aligned(scan_bytes<uint32_t>(Parts(counts)));
}
inline int passes(int begin_bit, int end_bit) { return (end_bit - begin_bit + DIGIT_BITS - 1) / DIGIT_BITS; }

// One pass: by the bits from `shift` on.
template <class K, class V>
void sort_digit(void *workspace, const K *keys, K *to, const V *values, V *values_to, const Parts &parts, int shift,
                int end_bit, bool descending, cudaStream_t stream) {
    int bits = end_bit - shift < DIGIT_BITS ? end_bit - shift : DIGIT_BITS;
    unsigned int mask = (1u << bits) - 1;
    size_t all = (size_t)DIGITS * parts.blocks, bytes = scan_bytes<uint32_t>(Parts(all));
    uint32_t *counts = (uint32_t *)workspace;
    void *rest = (char *)workspace + aligned(all * sizeof(uint32_t));
    count_digits<<<parts.blocks, THREADS, 0, stream>>>(keys, counts, parts.count, parts.each, shift, mask, descending);
    scan_all<false>(rest, bytes, (const uint32_t *)counts, counts, all, cub::Sum(), 0u, true, stream);
    place<<<parts.blocks, THREADS, 0, stream>>>(keys, to, values, values_to, (const uint32_t *)counts, parts.count,
                                                parts.each, shift, mask, descending);
}

template <class K, class V>
cudaError_t sort(void *workspace, size_t &bytes, const K *keys, K *keys_out, const V *values, V *values_out,
                 size_t count, int begin_bit, int end_bit, bool descending, cudaStream_t stream) {
    constexpr bool PAIRS = !candle_rocm::same<V, NoValue>::value;
    Parts parts(count);
    size_t of_values = PAIRS ? aligned(count * sizeof(V)) : 0, of_digits = digits_bytes(parts);
    cudaError_t answer;
    if (asks_for_size(workspace, bytes, of_digits + aligned(count * sizeof(K)) + of_values, answer)) return answer;
    if (count == 0) return cudaSuccess;
    // Places are counted in 32 bits.
    if (count > 0xffffffffu || begin_bit < 0 || end_bit > (int)sizeof(K) * 8) return cudaErrorInvalidValue;
    K *keys_aside = (K *)((char *)workspace + of_digits);
    V *values_aside = (V *)((char *)keys_aside + aligned(count * sizeof(K)));
    int left = passes(begin_bit, end_bit);
    if (left <= 0) {
        cudaError_t error = cudaMemcpyAsync(keys_out, keys, count * sizeof(K), cudaMemcpyDeviceToDevice, stream);
        if (PAIRS && error == cudaSuccess) {
            error = cudaMemcpyAsync(values_out, values, count * sizeof(V), cudaMemcpyDeviceToDevice, stream);
        }
        return error;
    }
    for (int shift = begin_bit; left > 0; shift += DIGIT_BITS, left--) {
        // The last pass writes the results.
        bool aside = left % 2 == 0;
        K *to = aside ? keys_aside : keys_out;
        V *values_to = aside ? values_aside : values_out;
        sort_digit(workspace, keys, to, values, values_to, parts, shift, end_bit, descending, stream);
        keys = to;
        values = values_to;
    }
    return cudaPeekAtLastError();
}
template <class K, class V>
cudaError_t sort_buffers(void *workspace, size_t &bytes, DoubleBuffer<K> &keys, DoubleBuffer<V> &values, size_t count,
                         int begin_bit, int end_bit, bool descending, cudaStream_t stream) {
    Parts parts(count);
    cudaError_t answer;
    if (asks_for_size(workspace, bytes, digits_bytes(parts), answer)) return answer;
    if (count == 0) return cudaSuccess;
    if (count > 0xffffffffu || begin_bit < 0 || end_bit > (int)sizeof(K) * 8) return cudaErrorInvalidValue;
    for (int shift = begin_bit; shift < end_bit; shift += DIGIT_BITS) {
        sort_digit(workspace, (const K *)keys.Current(), keys.Alternate(), (const V *)values.Current(),
                   values.Alternate(), parts, shift, end_bit, descending, stream);
        keys.selector ^= 1;
        values.selector ^= 1;
    }
    return cudaPeekAtLastError();
}
} // namespace details

struct DeviceRadixSort {
    template <class K>
    static cudaError_t SortKeys(void *workspace, size_t &bytes, const K *in, K *out, size_t count, int begin_bit = 0,
                                int end_bit = sizeof(K) * 8, cudaStream_t stream = 0) {
        details::NoValue *none = nullptr;
        return details::sort(workspace, bytes, in, out, none, none, count, begin_bit, end_bit, false, stream);
    }
    template <class K>
    static cudaError_t SortKeysDescending(void *workspace, size_t &bytes, const K *in, K *out, size_t count,
                                          int begin_bit = 0, int end_bit = sizeof(K) * 8, cudaStream_t stream = 0) {
        details::NoValue *none = nullptr;
        return details::sort(workspace, bytes, in, out, none, none, count, begin_bit, end_bit, true, stream);
    }
    template <class K, class V>
    static cudaError_t SortPairs(void *workspace, size_t &bytes, const K *in, K *out, const V *values, V *values_out,
                                 size_t count, int begin_bit = 0, int end_bit = sizeof(K) * 8,
                                 cudaStream_t stream = 0) {
        return details::sort(workspace, bytes, in, out, values, values_out, count, begin_bit, end_bit, false, stream);
    }
    template <class K, class V>
    static cudaError_t SortPairsDescending(void *workspace, size_t &bytes, const K *in, K *out, const V *values,
                                           V *values_out, size_t count, int begin_bit = 0, int end_bit = sizeof(K) * 8,
                                           cudaStream_t stream = 0) {
        return details::sort(workspace, bytes, in, out, values, values_out, count, begin_bit, end_bit, true, stream);
    }
    template <class K>
    static cudaError_t SortKeys(void *workspace, size_t &bytes, DoubleBuffer<K> &keys, size_t count, int begin_bit = 0,
                                int end_bit = sizeof(K) * 8, cudaStream_t stream = 0) {
        DoubleBuffer<details::NoValue> none;
        return details::sort_buffers(workspace, bytes, keys, none, count, begin_bit, end_bit, false, stream);
    }
    template <class K, class V>
    static cudaError_t SortPairs(void *workspace, size_t &bytes, DoubleBuffer<K> &keys, DoubleBuffer<V> &values,
                                 size_t count, int begin_bit = 0, int end_bit = sizeof(K) * 8,
                                 cudaStream_t stream = 0) {
        return details::sort_buffers(workspace, bytes, keys, values, count, begin_bit, end_bit, false, stream);
    }
    template <class K, class V>
    static cudaError_t SortPairsDescending(void *workspace, size_t &bytes, DoubleBuffer<K> &keys,
                                           DoubleBuffer<V> &values, size_t count, int begin_bit = 0,
                                           int end_bit = sizeof(K) * 8, cudaStream_t stream = 0) {
        return details::sort_buffers(workspace, bytes, keys, values, count, begin_bit, end_bit, true, stream);
    }
};
} // namespace cub
