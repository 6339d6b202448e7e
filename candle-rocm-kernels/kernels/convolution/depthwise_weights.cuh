// Gradients of the weights of groups of one channel, K x K taps and places STRIDE apart, of lines that follow one
// another in memory. A work-item has one line of taps, whose K sums it makes of 8 places of outputs at once: each pixel
// that these share is read once. The workgroup adds them up in order.
//
// k is counted in whole chunks of 8 places of each line (ChunkOfK).
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/operands.cuh"

template <class T, int K, int STRIDE> struct DepthwiseWeights {
    using Sum = compute_t<T>;
    static constexpr int THREADS = 256, OF_LINE = THREADS / K, PLACES = (int)LINE_CHUNK;
    static constexpr int PIXELS = (PLACES - 1) * STRIDE + K;
    static_assert(is_same<Sum, float>::value, "f64 has none");

    Sum sums[K] = {};

    static __device__ __forceinline__ Sum read(const GatheredMemory &memory, uint32_t offset) {
        if constexpr (sizeof(T) == 2) return upcast(bit_cast<T>(memory.read_16(offset)));
        else return bit_cast<T>(memory.read_32(offset));
    }
    // Adds what a chunk's places meet in line `tap` of the taps.
    __device__ __forceinline__ void add(const ConvolutionProblem &p, const Phase &phase, const ChunkOfK &k,
                                        uint32_t tap) {
        const GatheredMemory image((const T *)p.image + phase.image), matrix((const T *)p.matrix + phase.matrix);
        Coordinates at = {0, (int32_t)tap * p.y.row_step + phase.y.first + (int32_t)k.y * p.y.k_step,
                          phase.x.first + (int32_t)k.x * STRIDE};
        if ((uint32_t)at.y >= (uint32_t)p.y.size) return;
        uint32_t from = (k.outer * (uint32_t)p.image_k + image_offset<uint32_t>(p, at)) * (uint32_t)sizeof(T);
        uint32_t of_matrix = matrix_offset<uint32_t>(p, Place{k.outer, 0, k.y, k.x}) * (uint32_t)sizeof(T);
        Sum pixels[PIXELS], places[PLACES];
#pragma unroll
        for (int i = 0; i < PIXELS; i++) {
            bool is_inside = (uint32_t)(at.x + i) < (uint32_t)p.x.size;
            pixels[i] = read(image, is_inside ? from + i * (uint32_t)sizeof(T) : GatheredMemory::NOWHERE);
        }
#pragma unroll
        for (int i = 0; i < PLACES; i++)
            places[i] = read(matrix, i < (int)k.count ? of_matrix + i * (uint32_t)sizeof(T) : GatheredMemory::NOWHERE);
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            // Places that are not there meet nothing, whatever pixels are.
            if (i >= (int)k.count) break;
#pragma unroll
            for (int tap_x = 0; tap_x < K; tap_x++)
                sums[tap_x] = math::fma(places[i], pixels[i * STRIDE + tap_x], sums[tap_x]);
        }
    }
    // Grid: y splits of k, z groups. Workgroup: THREADS.
    __device__ __forceinline__ void run(const ConvolutionProblem &p) {
        __shared__ Sum all[K][THREADS];
        uint32_t split = p.splits > 1 ? blockIdx.y : 0, group = blockIdx.z;
        Phase phase(p, group);
        uint32_t begin = min_of(split * p.k_per_split, p.depth);
        uint32_t end = (p.splits > 1 ? min_of(begin + p.k_per_split, p.depth) : p.depth) / LINE_CHUNK;
        uint32_t tap = threadIdx.x / OF_LINE, first = threadIdx.x % OF_LINE;
        if (tap < K)
#pragma unroll 1
            for (uint32_t chunk = begin / LINE_CHUNK + first; chunk < end; chunk += OF_LINE)
                add(p, phase, ChunkOfK(p, phase, chunk, end), tap);
#pragma unroll
        for (int tap_x = 0; tap_x < K; tap_x++) all[tap_x][threadIdx.x] = sums[tap_x];
        lds_barrier();
        uint32_t row = threadIdx.x;
        if (row >= K * K) return;
        Sum sum = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < OF_LINE; i++) sum += all[row % K][row / K * OF_LINE + i];
        if (p.splits > 1) {
            ((Sum *)p.partial)[((uint64_t)split * p.groups.value + group) * (K * K) + row] = sum;
            return;
        }
        int64_t at = result_offset(p, phase.row(p, row));
        ConvolutionEpilogue<T, false>(p, phase).store(at, 0, sum);
    }
};
