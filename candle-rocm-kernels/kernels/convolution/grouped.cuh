// Convolutions of groups of few channels whose lines follow one another in memory: a product's tile would be filled by
// little. A work-item makes 16 bytes of neighbours of COLUMNS channels of a group, and reads each line of the image
// once for all of these and for all taps of it; the taps of some channels of k lie in LDS, where all lanes read the
// same.
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/line_window.cuh"
#include "portable/streams.cuh"

// K x K taps, places STRIDE apart. Taps that go backwards, as those of gradients do, are turned round.
template <class T, int K, int STRIDE> struct GroupedLines {
    using Sum = compute_t<T>;
    using Window = LineWindow<T, K, STRIDE>;
    static constexpr int V = VEC16<T>, COLUMNS = 8, CHANNELS = 8, THREADS = 256, PITCH = V + 1;
    static_assert(is_same<Sum, float>::value, "f64 has none");
    using Four = WordVector<4>::type;
    static constexpr int OF_TAP = COLUMNS * (int)sizeof(Sum), OF_CHANNEL = K * K * OF_TAP;

    Sum sums[COLUMNS][V] = {};

    // Writes the taps of CHANNELS channels of k to LDS, of which some may not be there.
    static __device__ __forceinline__ void stage_taps(LdsBytes to, const ConvolutionProblem &p, const Phase &phase,
                                                      uint32_t first_column, uint32_t first_channel, bool backwards) {
        for (uint32_t i = threadIdx.x; i < CHANNELS * K * K * COLUMNS; i += THREADS) {
            uint32_t column = i % COLUMNS, place = i / COLUMNS % (K * K), channel = i / (COLUMNS * K * K);
            uint32_t tap = backwards ? K * K - 1 - place : place;
            bool is_there = first_column + column < p.columns && first_channel + channel < p.k_outers.value;
            int64_t at = phase.matrix + (first_column + column) * p.matrix_column +
                         (first_channel + channel) * p.matrix_k + tap / K * p.y.matrix + tap % K * p.x.matrix;
            lds_store(to + i * sizeof(Sum), is_there ? upcast(((const T *)p.matrix)[at]) : (Sum)0);
        }
    }
    // Adds a line of the image, by a line of taps.
    __device__ __forceinline__ void add(const Window &window, LdsBytes taps) {
        Sum line[Window::LENGTH];
#pragma unroll
        for (int i = 0; i < Window::LENGTH; i++) line[i] = window[i];
#pragma unroll
        for (int x = 0; x < K; x++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c += 4) {
                auto four = bit_cast<vec<float, 4>>(lds_load<Four>(taps + x * OF_TAP + c * (int)sizeof(Sum)));
#pragma unroll
                for (int j = 0; j < 4; j++)
#pragma unroll
                    for (int i = 0; i < V; i++)
                        sums[c + j][i] = math::fma(line[i * STRIDE + x], four[j], sums[c + j][i]);
            }
    }

    // Work-items count lines of V places, lines and images. Grid: x for all of these, y for COLUMNS columns, z groups.
    __device__ __forceinline__ void run(const ConvolutionProblem &p) {
        __shared__ Four lds_taps[CHANNELS * OF_CHANNEL / 16];
        __shared__ Sum lds_sums[THREADS * PITCH];
        LdsBytes taps = (LdsBytes)lds_taps;
        auto *own = (LDS_MEMORY Sum *)lds_sums + threadIdx.x * PITCH;
        uint32_t first_column = blockIdx.y * COLUMNS, of_x = ceil_div(p.x.rows.value, (uint32_t)V);
        uint32_t number = blockIdx.x * THREADS + threadIdx.x, line = number / of_x;
        uint32_t first_x = (number - line * of_x) * V;
        auto [batch, y] = divided(line, p.y.rows);
        bool is_there = batch < p.row_outers.value, backwards = p.x.k_step < 0;
        Phase phase(p, blockIdx.z);
        int32_t before = backwards ? K - 1 : 0;
        auto by = Window::read_of(p, phase.x.first - before);
        GatheredMemory memory((const T *)p.image);
        uint32_t image = (uint32_t)(phase.image + batch * p.image_row);
        int32_t in_y = (int32_t)y * STRIDE + phase.y.first - before,
                in_x = (int32_t)first_x * STRIDE + phase.x.first - before;
#pragma unroll 1
        for (uint32_t first = 0; first < p.k_outers.value; first += CHANNELS) {
            if (first > 0) lds_barrier();
            stage_taps(taps, p, phase, first_column, first, backwards);
            lds_barrier();
            uint32_t count = is_there ? min_of(p.k_outers.value - first, (uint32_t)CHANNELS) : 0;
#pragma unroll 1
            for (uint32_t channel = 0; channel < count; channel++) {
                uint32_t plane = image + (first + channel) * (uint32_t)p.image_k;
                Window windows[K];
#pragma unroll
                for (int tap = 0; tap < K; tap++) windows[tap].read(by, p, memory, plane, in_y + tap, in_x);
                opt_barrier_schedule();
#pragma unroll
                for (int tap = 0; tap < K; tap++) add(windows[tap], taps + channel * OF_CHANNEL + tap * K * OF_TAP);
            }
        }
        if (!is_there) return;
        ConvolutionEpilogue<T> epilogue(p, phase);
        bool vectors = p.store == STORE_VECTORS_OF_ROWS && p.x.rows.value % V == 0;
        uint32_t places = min_of(p.x.rows.value - first_x, (uint32_t)V);
        uint32_t columns = min_of(p.columns - first_column, (uint32_t)COLUMNS);
        int64_t at = batch * p.result_row + y * p.y.result + first_x * p.x.result + first_column * p.result_column;
#pragma unroll 1
        for (uint32_t column = 0; column < columns; column++, at += p.result_column) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                if ((uint32_t)c == column)
#pragma unroll
                    for (int i = 0; i < V; i++) own[i] = sums[c][i];
            if (vectors) {
                epilogue.template store_all<false>(at, first_column + column, own);
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < places; i++)
                    epilogue.store(at + i * p.x.result, first_column + column, own[i]);
            }
        }
    }
};
