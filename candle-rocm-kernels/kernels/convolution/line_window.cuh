// A line of the image as what makes 16 bytes of neighbours of the result meets it.
#pragma once
#include "convolution/operands.cuh"

// Whether 16 bytes begin at all of these addresses and distances, in elements of T.
template <class T, class... Distances>
__device__ __forceinline__ bool are_whole(uint64_t addresses, Distances... distances) {
    return addresses % 16 == 0 && (... | (uint64_t)distances) % VEC16<T> == 0;
}

// The vectors under the neighbours, one before and one behind these, of K taps and places STRIDE apart. Where the taps
// are around each place (K / 2 before it) and lines are whole vectors, it is read by these; or by words, if lines are
// whole words; else by elements, for which nothing is read that is not needed.
template <class T, int K, int STRIDE> struct LineWindow {
    using Sum = compute_t<T>;
    static constexpr int V = VEC16<T>, BEFORE = K / 2, LENGTH = (V - 1) * STRIDE + K;
    // Words of a window, elements of a word, and the elements and words of a window that are needed.
    static constexpr int WORDS = (STRIDE + 2) * 4, OF_WORD = 4 / (int)sizeof(T);
    static constexpr int FIRST = V - BEFORE, FIRST_WORD = FIRST / OF_WORD,
                         END_WORD = (FIRST + LENGTH + OF_WORD - 1) / OF_WORD;
    static_assert(BEFORE <= V && END_WORD <= WORDS, "a window has what the taps meet");

    enum class Read { VECTORS, WORDS, ELEMENTS };
    // Where a window's first element is so far from the first neighbour.
    static __device__ __forceinline__ Read read_of(const ConvolutionProblem &p, int32_t first) {
        if (first == -BEFORE) {
            if (are_whole<T>((uint64_t)p.image, p.x.size, p.y.image, p.image_row, p.image_k, p.image_group))
                return Read::VECTORS;
            uint64_t all = (uint64_t)p.x.size | (uint64_t)p.y.image | (uint64_t)p.image_row | (uint64_t)p.image_k |
                           (uint64_t)p.image_group;
            if ((uint64_t)p.image % 4 == 0 && all % OF_WORD == 0) return Read::WORDS;
        }
        return sizeof(T) == 4 ? Read::WORDS : Read::ELEMENTS;
    }

    uint32_t words[WORDS];

    // An element of those that are needed.
    __device__ __forceinline__ Sum operator[](int i) const {
        uint32_t word = words[(FIRST + i) / OF_WORD];
        if constexpr (sizeof(T) == 2) return upcast(bit_cast<T>((uint16_t)(word >> (FIRST + i) % 2 * 16)));
        else return bit_cast<T>(word);
    }
    // Line y of the plane at `image`, in elements, from x on.
    __device__ __forceinline__ void read(Read by, const ConvolutionProblem &p, const GatheredMemory &memory,
                                         uint32_t image, int32_t y, int32_t x) {
        bool is_line = (uint32_t)y < (uint32_t)p.y.size;
        uint32_t line = image + (uint32_t)y * (uint32_t)p.y.image;
        auto offset_of = [&](int32_t at) INLINED {
            bool is_there = is_line && (uint32_t)at < (uint32_t)p.x.size;
            return is_there ? (line + (uint32_t)at) * (uint32_t)sizeof(T) : GatheredMemory::NOWHERE;
        };
        int32_t begin = x - FIRST;
        if (by == Read::VECTORS) {
#pragma unroll
            for (int v = 0; v < STRIDE + 2; v++) {
                auto vector = memory.read_128(offset_of(begin + v * V));
#pragma unroll
                for (int w = 0; w < 4; w++) words[v * 4 + w] = vector[w];
            }
        } else if (sizeof(T) == 4 || by == Read::WORDS) {
#pragma unroll
            for (int w = FIRST_WORD; w < END_WORD; w++) words[w] = memory.read_32(offset_of(begin + w * OF_WORD));
        } else if constexpr (sizeof(T) == 2) {
            uint16_t halves[LENGTH];
#pragma unroll
            for (int i = 0; i < LENGTH; i++) halves[i] = memory.read_16(offset_of(x + i));
#pragma unroll
            for (int w = FIRST_WORD; w < END_WORD; w++) {
                int low = w * 2 - FIRST, high = low + 1;
                words[w] = (low >= 0 ? halves[max_of(low, 0)] : 0) |
                           (high < LENGTH ? (uint32_t)halves[min_of(high, LENGTH - 1)] << 16 : 0);
            }
        }
    }
};
