// Convolutions of one channel a group whose channels are neighbours in memory (NHWC).
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/operands.cuh"

// K x K taps, places STRIDE apart: a work-item makes 16 bytes of channels of PLACES neighbours along x, and reads each
// vector of the image that these share once. Taps that go backwards, as those of gradients do, are turned round.
// Lanes are neighbours along channels; the workgroup's taps lie in LDS.
template <class T, int K, int STRIDE> struct DepthwiseLast {
    using Sum = compute_t<T>;
    using Vector = vec<T, VEC16<T>>;
    // What lies in LDS.
    using Raw = WordVector<4>::type;
    using Bits = typename bits_of<sizeof(T)>::type;
    static constexpr int V = VEC16<T>, PLACES = 4, THREADS = 256, LENGTH = (PLACES - 1) * STRIDE + K;
    // Vectors of channels of a workgroup at most.
    static constexpr uint32_t MOST = 32;

    Sum sums[PLACES][V];

    // Adds a line of the image, from this offset on; `first` is its place along x.
    __device__ __forceinline__ void add_line(const ConvolutionProblem &p, const GatheredMemory &memory, uint32_t at,
                                             int32_t first, const Vector (&taps)[K]) {
        Vector line[LENGTH];
#pragma unroll
        for (int i = 0; i < LENGTH; i++) {
            int32_t x = first + i;
            uint32_t offset = (at + (uint32_t)x * (uint32_t)p.x.image) * (uint32_t)sizeof(T);
            bool is_there = (uint32_t)x < (uint32_t)p.x.size;
            line[i] = bit_cast<Vector>(memory.read_128(is_there ? offset : GatheredMemory::NOWHERE));
        }
#pragma unroll
        for (int i = 0; i < LENGTH; i++)
#pragma unroll
            for (int place = 0; place < PLACES; place++) {
                int tap = i - place * STRIDE;
                if (tap < 0 || tap >= K) continue;
#pragma unroll
                for (int v = 0; v < V; v++)
                    sums[place][v] = math::fma(upcast(line[i][v]), upcast(taps[tap][v]), sums[place][v]);
            }
    }

    static __device__ __forceinline__ void stage_taps(const ConvolutionProblem &p, LDS_MEMORY Raw *lds,
                                                      uint32_t first_channel, uint32_t vectors, bool backwards) {
        auto *to = (LDS_MEMORY Bits *)lds;
        uint32_t channels = vectors * V;
        // Some loads on their way at once.
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < K * K * channels; i += THREADS) {
            uint32_t channel = i / (K * K), tap = i - channel * (K * K);
            int64_t at =
                (int64_t)(first_channel + channel) * p.matrix_group + tap / K * p.y.matrix + tap % K * p.x.matrix;
            uint32_t place = backwards ? K * K - 1 - tap : tap;
            bool is_there = first_channel + channel < p.groups.value;
            to[place * channels + channel] = is_there ? ((const Bits *)p.matrix)[at] : (Bits)0;
        }
    }

    // Grid: workgroups for all vectors of channels, a whole number of times.
    __device__ __forceinline__ void run(const ConvolutionProblem &p) {
        __shared__ Raw lds_taps[K * K * MOST];
        __shared__ Sum lds_sums[THREADS * (V + 1)];
        auto *taps_at = (LDS_MEMORY Raw *)lds_taps;
        auto *own = (LDS_MEMORY Sum *)lds_sums + threadIdx.x * (V + 1);
        uint32_t vectors = p.groups.value / V, of_workgroup = min_of(power_of_two_from(vectors), MOST);
        uint32_t parts = ceil_div(vectors, of_workgroup), block = blockIdx.x / parts, part = blockIdx.x - block * parts;
        uint32_t log2 = log2_of(of_workgroup), seat = threadIdx.x & (of_workgroup - 1);
        bool backwards = p.x.k_step < 0;
        stage_taps(p, taps_at, part * of_workgroup * V, of_workgroup, backwards);
        lds_barrier();
        uint32_t vector = part * of_workgroup + seat, together = THREADS >> log2;
        if (vector >= vectors) return;
        uint32_t of_x = ceil_div(p.x.rows.value, (uint32_t)PLACES), total = p.row_outers.value * p.y.rows.value * of_x;
        uint32_t step = gridDim.x / parts * together;
        Phase phase(p, vector * V);
        GatheredMemory memory((const T *)p.image);
        ConvolutionEpilogue<T> epilogue(p, phase);
        int32_t before = backwards ? K - 1 : 0;
#pragma unroll 1
        for (uint32_t number = block * together + (threadIdx.x >> log2); number < total; number += step) {
            uint32_t line = number / of_x, first_x = (number - line * of_x) * PLACES;
            auto [batch, y] = divided(line, p.y.rows);
            uint32_t image = (uint32_t)(phase.image + batch * p.image_row);
            int32_t in_x = (int32_t)first_x * STRIDE + phase.x.first - before;
#pragma unroll
            for (auto &of_place : sums)
#pragma unroll
                for (Sum &sum : of_place) sum = 0;
#pragma unroll 1
            for (int tap = 0; tap < K; tap++) {
                int32_t in_y = (int32_t)y * STRIDE + phase.y.first - before + tap;
                if ((uint32_t)in_y >= (uint32_t)p.y.size) continue;
                Vector taps[K];
#pragma unroll
                for (int i = 0; i < K; i++) taps[i] = bit_cast<Vector>(taps_at[(tap * K + i) * of_workgroup + seat]);
                add_line(p, memory, image + (uint32_t)in_y * (uint32_t)p.y.image, in_x, taps);
            }
            int64_t at = batch * p.result_row + y * p.y.result + first_x * p.x.result;
            uint32_t places = min_of(p.x.rows.value - first_x, (uint32_t)PLACES);
#pragma unroll 1
            for (uint32_t place = 0; place < places; place++, at += p.x.result) {
#pragma unroll
                for (int i = 0; i < PLACES; i++)
                    if ((uint32_t)i == place)
#pragma unroll
                        for (int v = 0; v < V; v++) own[v] = sums[i][v];
                epilogue.template store_all<true>(at, 0, own);
            }
        }
    }
};
