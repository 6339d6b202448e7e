// Convolutions of one channel a group whose lines follow one another in memory, and their gradients of the data.
#pragma once
#include "convolution/epilogue.cuh"
#include "convolution/line_window.cuh"
#include "portable/streams.cuh"

// What both have: sums of lines of the result, and the taps.
template <class T, int K> struct DepthwiseTaps {
    using Sum = compute_t<T>;
    Sum weights[K][K];

    static __device__ __forceinline__ Sum element(const GatheredMemory &memory, uint32_t offset) {
        if constexpr (sizeof(T) == 2) return upcast(bit_cast<T>((uint16_t)memory.read_16(offset)));
        else return bit_cast<T>(memory.read_32(offset));
    }
    // Those from `first` on, so far apart along both axes; or from the last one on, `backwards`.
    __device__ __forceinline__ void read(const ConvolutionProblem &p, uint32_t first, uint32_t of_y, uint32_t of_x,
                                         bool backwards) {
        GatheredMemory memory((const T *)p.matrix);
#pragma unroll
        for (int y = 0; y < K; y++)
#pragma unroll
            for (int x = 0; x < K; x++) {
                uint32_t at = first + (backwards ? K - 1 - y : y) * of_y + (backwards ? K - 1 - x : x) * of_x;
                weights[y][x] = element(memory, at * (uint32_t)sizeof(T));
            }
    }
};

// K x K taps, places STRIDE apart: a work-item makes ROWS lines of 16 bytes of neighbours of the result, and reads each
// line of the image that they share once. Taps that go backwards, as those of gradients do, are turned round.
template <class T, int K, int STRIDE> struct Depthwise {
    using Sum = compute_t<T>;
    using Window = LineWindow<T, K, STRIDE>;
    static constexpr int V = VEC16<T>, ROWS = 4, THREADS = 256, LINES = (ROWS - 1) * STRIDE + K;
    // Sums in LDS, an odd number for each work-item.
    static constexpr int PITCH = V + 1;

    DepthwiseTaps<T, K> taps;
    Sum sums[ROWS][V] = {};
    typename Window::Read by;

    // Adds a line of the image, `Y` lines behind the first.
    template <int Y> __device__ __forceinline__ void add(const Window &window) {
        Sum line[Window::LENGTH];
#pragma unroll
        for (int i = 0; i < Window::LENGTH; i++) line[i] = window[i];
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int tap = Y - row * STRIDE;
            if (tap < 0 || tap >= K) continue;
#pragma unroll
            for (int x = 0; x < K; x++)
#pragma unroll
                for (int i = 0; i < V; i++)
                    sums[row][i] = math::fma(line[i * STRIDE + x], taps.weights[tap][x], sums[row][i]);
        }
    }

    struct Lines {
        uint32_t image;
        int32_t y, x; // of the first element that is needed, in the image
    };
    // Each line is on its way while the one before it is added.
    template <int Y = 0> __device__ __forceinline__ void add_lines(const Window &window, const ConvolutionProblem &p,
                                                                   const GatheredMemory &memory, const Lines &first) {
        Window next;
        if constexpr (Y + 1 < LINES) next.read(by, p, memory, first.image, first.y + Y + 1, first.x);
        opt_barrier_schedule();
        add<Y>(window);
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
        taps.read(p, (uint32_t)phase.matrix, (uint32_t)p.y.matrix, (uint32_t)p.x.matrix, backwards);
        int32_t before = backwards ? K - 1 : 0;
        by = Window::read_of(p, phase.x.first - before);
        GatheredMemory memory((const T *)p.image);
        uint32_t image = (uint32_t)(phase.image + batch * p.image_row);
        Lines lines_of_image = {image, (int32_t)first_y * STRIDE + phase.y.first - before,
                                (int32_t)first_x * STRIDE + phase.x.first - before};
        Window window;
        window.read(by, p, memory, image, lines_of_image.y, lines_of_image.x);
        add_lines(window, p, memory, lines_of_image);
        ConvolutionEpilogue<T> epilogue(p, phase);
        int64_t at = batch * p.result_row + first_y * p.y.result + first_x * p.x.result;
        bool vectors = p.store == STORE_VECTORS_OF_ROWS && p.x.rows.value % V == 0;
        uint32_t count = min_of(p.x.rows.value - first_x, (uint32_t)V);
#pragma unroll 1
        for (uint32_t row = 0; row < ROWS && first_y + row < p.y.rows.value; row++, at += p.y.result) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if ((uint32_t)r == row)
#pragma unroll
                    for (int i = 0; i < V; i++) lds[i] = sums[r][i];
            if (vectors) {
                epilogue.template store_all<false>(at, 0, lds);
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < count; i++) epilogue.store(at + i * p.x.result, 0, lds[i]);
            }
        }
    }
};

// The gradient of the data where places are STRIDE apart: place x of the image meets the gradient of outputs at
// (x + padding - tap) / STRIDE, for every STRIDE-th tap. A work-item makes ROWS lines of 16 bytes of neighbours.
//
// Lines are counted with their padding, from a multiple of STRIDE on, so that what meets what is known when this is
// compiled; along x sums begin at such a multiple, and the first ones may be none of the work-item's.
template <class T, int K, int STRIDE> struct DepthwiseData {
    using Sum = compute_t<T>;
    static constexpr int V = VEC16<T>, ROWS = 2 * STRIDE, THREADS = 256;
    // Sums along x, and elements of the gradient of outputs that they meet, of which the first are before their own.
    static constexpr int SUMS = V + STRIDE - 1, BEFORE = (K - 1) / STRIDE, LENGTH = (SUMS - 1) / STRIDE + 1 + BEFORE;
    static constexpr int LINES = ROWS / STRIDE + BEFORE, PITCH = SUMS % 2 == 0 ? SUMS + 1 : SUMS;

    DepthwiseTaps<T, K> taps;
    Sum sums[ROWS][SUMS] = {};

    // Places of the image along an axis, and zeros before them.
    static __device__ __forceinline__ uint32_t places(const ConvolutionAxis &axis) {
        return axis.rows_less.value * STRIDE + axis.rows_rest;
    }
    static __device__ __forceinline__ uint32_t padding(const ConvolutionAxis &axis) {
        return (uint32_t)axis.first * STRIDE - axis.shift;
    }
    // Adds the lines of the gradient of outputs from the one of this number on, each from x on; the first is line
    // `first_y`. clang keeps sums in scratch whose indices only an unrolled loop over lines makes known.
    template <int NUMBER = 0>
    __device__ __forceinline__ void add_lines(const ConvolutionProblem &p, const GatheredMemory &memory, uint32_t image,
                                              int32_t first_y, int32_t x) {
        int32_t y = first_y + NUMBER;
        bool is_line = (uint32_t)y < (uint32_t)p.y.size;
        uint32_t from = image + (uint32_t)y * (uint32_t)p.y.image;
        Sum line[LENGTH];
#pragma unroll
        for (int i = 0; i < LENGTH; i++) {
            bool is_there = is_line && (uint32_t)(x + i) < (uint32_t)p.x.size;
            uint32_t at = from + (uint32_t)(x + i) * (uint32_t)p.x.image;
            line[i] = taps.element(memory, is_there ? at * (uint32_t)sizeof(T) : GatheredMemory::NOWHERE);
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            int tap_y = row - (NUMBER - BEFORE) * STRIDE;
            if (tap_y < 0 || tap_y >= K) continue;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
#pragma unroll
                for (int tap_x = 0; tap_x < K; tap_x++) {
                    // Of the place that the tap meets, in parts of the stride.
                    int at = i - tap_x + BEFORE * STRIDE;
                    if (at % STRIDE == 0 && at >= 0)
                        sums[row][i] = math::fma(line[at / STRIDE], taps.weights[tap_y][tap_x], sums[row][i]);
                }
        }
        if constexpr (NUMBER + 1 < LINES) add_lines<NUMBER + 1>(p, memory, image, first_y, x);
    }

    // Work-items count lines of V places, ROWS lines with the padding before the first, groups and images.
    __device__ __forceinline__ void run(const ConvolutionProblem &p) {
        __shared__ Sum lds_sums[THREADS * PITCH];
        auto *lds = (LDS_MEMORY Sum *)lds_sums + threadIdx.x * PITCH;
        uint32_t width = places(p.x), height = places(p.y), before_x = padding(p.x), before_y = padding(p.y);
        uint32_t of_x = ceil_div(width, (uint32_t)V), of_y = ceil_div(height + before_y, (uint32_t)ROWS);
        uint32_t number = blockIdx.x * THREADS + threadIdx.x;
        uint32_t lines = number / of_x, planes = lines / of_y;
        auto [batch, group] = divided(planes, p.groups);
        if (batch >= p.row_outers.value) return;
        uint32_t first_x = (number - lines * of_x) * V, first_y = (lines - planes * of_y) * ROWS;
        Phase phase(p, group);
        // All phases' places are from the group's first on.
        phase.result = group * p.result_group;
        taps.read(p, (uint32_t)(group * p.matrix_group), (uint32_t)p.y.tap, (uint32_t)p.x.tap, false);
        GatheredMemory memory((const T *)p.image);
        uint32_t image = (uint32_t)(phase.image + batch * p.image_row);
        uint32_t skipped = (first_x + before_x) % STRIDE;
        int32_t y = (int32_t)(first_y / STRIDE) - BEFORE, x = (int32_t)((first_x + before_x) / STRIDE) - BEFORE;
        add_lines(p, memory, image, y, x);
        ConvolutionEpilogue<T> epilogue(p, phase);
        uint64_t addresses = (uint64_t)p.result | (uint64_t)p.addend | (uint64_t)p.residual;
        bool vectors = are_whole<T>(addresses, width, p.y.place, p.result_row, p.result_group);
        uint32_t count = min_of(width - first_x, (uint32_t)V);
#pragma unroll 1
        for (uint32_t row = 0; row < ROWS; row++) {
            uint32_t to_y = first_y + row - before_y;
            if (to_y >= height) continue;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if ((uint32_t)r == row)
#pragma unroll
                    for (int i = 0; i < SUMS; i++) lds[i] = sums[r][i];
            int64_t at = batch * p.result_row + to_y * p.y.place + first_x * p.x.place;
            if (vectors) {
                epilogue.template store_all<false>(at, 0, lds + skipped);
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < count; i++) epilogue.store(at + i * p.x.place, 0, lds[skipped + i]);
            }
        }
    }
};
