// Convolutions without a product: for groups of few channels, and for tensors beyond what a product's 32 bits reach.
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/operands.cuh"
#include "portable/streams.cuh"

// The sum of a row and a column.
template <class T>
__device__ __forceinline__ compute_t<T> direct_sum(const ConvolutionProblem &p, const Phase &phase, const Place &row,
                                                   uint32_t column) {
    Coordinates first = row_coordinates(p, phase, row);
    const T *of_row = (const T *)p.image + phase.image + row.outer * p.image_row + image_offset(p, first);
    const T *of_column = (const T *)p.matrix + phase.matrix + (int64_t)column * p.matrix_column;
    compute_t<T> sum = 0;
    Place k = {0, 0, 0, 0};
    for (k.z = 0; k.z < phase.z.taps.value; k.z++)
        for (k.y = 0; k.y < phase.y.taps.value; k.y++)
            for (k.x = 0; k.x < phase.x.taps.value; k.x++) {
                Coordinates at = k_coordinates(p, k);
                if (!is_inside(p, first, at)) continue;
                const T *x = of_row + image_offset(p, at), *w = of_column + matrix_offset(p, k);
                for (uint32_t outer = 0; outer < p.k_outers.value; outer++)
                    sum = math::fma(upcast(x[outer * p.image_k]), upcast(w[outer * p.matrix_k]), sum);
            }
    return sum;
}

// An element of the result a work-item. Lanes are neighbours of rows, or of columns and groups. Grid: x any number of
// workgroups, z phases.
template <class T> __device__ __forceinline__ void convolution_direct(const ConvolutionProblem &p) {
    uint32_t groups = p.groups.value, first = blockIdx.z * groups;
    uint32_t rows = Phase(p, first).rows;
    uint64_t channels = (uint64_t)p.columns * groups, total = rows * channels;
    bool fits_32 = total >> 32 == 0, by_columns = p.store % 2 == 1;
    for (uint64_t i = global_thread(); i < total; i += global_threads()) {
        uint64_t inner = by_columns ? channels : rows;
        uint64_t line = divide(i, inner, fits_32), along = i - line * inner;
        uint32_t number = (uint32_t)(by_columns ? line : along);
        uint64_t channel = by_columns ? along : line;
        uint32_t group = (uint32_t)divide(channel, p.columns, channels >> 32 == 0),
                 column = (uint32_t)(channel - (uint64_t)group * p.columns);
        Phase phase(p, first + group);
        Place row = phase.row(p, number);
        int64_t at = result_offset(p, row) + (int64_t)column * p.result_column;
        ConvolutionEpilogue<T>(p, phase).store(at, column, direct_sum<T>(p, phase, row, column));
    }
}

// One channel a group, K x K taps that follow one another, places STRIDE apart: a work-item makes ROWS lines of 16
// bytes of neighbours of the result, and reads each line of the image that they share once. Taps that go backwards, as
// those of gradients do, are turned round.
template <class T, int K, int STRIDE> struct Depthwise {
    using Sum = compute_t<T>;
    static constexpr int V = VEC16<T>, ROWS = 4, THREADS = 256;
    static constexpr int LINES = (ROWS - 1) * STRIDE + K, LENGTH = (V - 1) * STRIDE + K;
    // Sums in LDS, an odd number for each work-item.
    static constexpr int PITCH = ROWS * V + 1;

    Sum weights[K][K], sums[ROWS][V] = {};

    static __device__ __forceinline__ Sum element(const GatheredMemory &memory, uint32_t offset) {
        if constexpr (sizeof(T) == 2) return upcast(bit_cast<T>((uint16_t)memory.read_16(offset)));
        else return bit_cast<T>(memory.read_32(offset));
    }

    __device__ __forceinline__ void read_weights(const ConvolutionProblem &p, const Phase &phase, bool backwards) {
        GatheredMemory memory((const T *)p.matrix);
        uint32_t first = (uint32_t)phase.matrix;
#pragma unroll
        for (int y = 0; y < K; y++)
#pragma unroll
            for (int x = 0; x < K; x++) {
                uint32_t at = first + (backwards ? K - 1 - y : y) * (uint32_t)p.y.matrix +
                              (backwards ? K - 1 - x : x) * (uint32_t)p.x.matrix;
                weights[y][x] = element(memory, at * (uint32_t)sizeof(T));
            }
    }

    // Adds a line of the image, `y` lines behind the first.
    template <int Y> __device__ __forceinline__ void add(const Sum (&line)[LENGTH]) {
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int tap = Y - row * STRIDE;
            if (tap < 0 || tap >= K) continue;
#pragma unroll
            for (int x = 0; x < K; x++)
#pragma unroll
                for (int i = 0; i < V; i++)
                    sums[row][i] = math::fma(line[i * STRIDE + x], weights[tap][x], sums[row][i]);
        }
    }

    struct Lines {
        uint32_t image;
        int32_t y, x; // of the first element, in the image
    };
    static __device__ __forceinline__ void read(Sum (&line)[LENGTH], const ConvolutionProblem &p,
                                                const GatheredMemory &memory, const Lines &first, int number) {
        int32_t y = first.y + number;
        bool is_line = (uint32_t)y < (uint32_t)p.y.size;
#pragma unroll
        for (int i = 0; i < LENGTH; i++) {
            int32_t x = first.x + i;
            bool is_there = is_line && (uint32_t)x < (uint32_t)p.x.size;
            uint32_t at = first.image + (uint32_t)y * (uint32_t)p.y.image + (uint32_t)x * (uint32_t)p.x.image;
            line[i] = element(memory, is_there ? at * (uint32_t)sizeof(T) : GatheredMemory::NOWHERE);
        }
    }
    // Each line is on its way while the one before it is added.
    template <int Y = 0> __device__ __forceinline__ void add_lines(const Sum (&line)[LENGTH],
                                                                   const ConvolutionProblem &p,
                                                                   const GatheredMemory &memory, const Lines &first) {
        Sum next[LENGTH];
        if constexpr (Y + 1 < LINES) read(next, p, memory, first, Y + 1);
        opt_barrier_schedule();
        add<Y>(line);
        opt_barrier_schedule();
        if constexpr (Y + 1 < LINES) add_lines<Y + 1>(next, p, memory, first);
    }

    // Work-items count lines of V places, ROWS lines, groups and images.
    __device__ __forceinline__ void run(const ConvolutionProblem &p) {
        __shared__ Sum lds_sums[THREADS * PITCH];
        auto *lds = (LDS_MEMORY Sum *)lds_sums + threadIdx.x * PITCH;
        uint32_t of_x = ceil_div(p.x.rows.value, (uint32_t)V), of_y = ceil_div(p.y.rows.value, (uint32_t)ROWS);
        uint32_t number = blockIdx.x * THREADS + threadIdx.x;
        uint32_t lines = number / of_x, planes = lines / of_y;
        auto [batch, group] = divided(planes, p.groups);
        if (batch >= p.row_outers.value) return;
        Phase phase(p, group);
        uint32_t first_x = (number - lines * of_x) * V, first_y = (lines - planes * of_y) * ROWS;
        bool backwards = p.x.k_step < 0;
        read_weights(p, phase, backwards);
        int32_t before = backwards ? K - 1 : 0;
        GatheredMemory memory((const T *)p.image);
        uint32_t image = (uint32_t)(phase.image + batch * p.image_row);
        Lines lines_of_image = {image, (int32_t)first_y * STRIDE + phase.y.first - before,
                                (int32_t)first_x * STRIDE + phase.x.first - before};
        Sum line[LENGTH];
        read(line, p, memory, lines_of_image, 0);
        add_lines(line, p, memory, lines_of_image);
#pragma unroll
        for (int row = 0; row < ROWS; row++)
#pragma unroll
            for (int i = 0; i < V; i++) lds[row * V + i] = sums[row][i];
        ConvolutionEpilogue<T> epilogue(p, phase);
        int64_t at = batch * p.result_row + first_y * p.y.result + first_x * p.x.result;
        bool vectors = p.store == STORE_VECTORS_OF_ROWS && p.x.rows.value % V == 0;
        uint32_t count = min_of(p.x.rows.value - first_x, (uint32_t)V);
#pragma unroll 1
        for (uint32_t row = 0; row < ROWS && first_y + row < p.y.rows.value; row++, at += p.y.result) {
            if (vectors) {
                epilogue.template store_all<false>(at, 0, lds + row * V);
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < count; i++) epilogue.store(at + i * p.x.result, 0, lds[row * V + i]);
            }
        }
    }
};
