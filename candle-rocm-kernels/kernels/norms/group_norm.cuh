// Normalisation of groups of channels: a group's parts are held in registers, and its moments are combined in order.
#pragma once
#include "rows/rows.cuh"

namespace norms {

// Groups of `length` elements in one piece, a channel's `spatial` after another's. The host (candle_rocm_backend::ops)
// knows the same fields.
struct GroupNormProblem {
    const void *x, *gradient, *weight, *bias;
    // y, or the gradient of x.
    void *result;
    // Of each group (mean, 1 / deviation); of each part (mean, sum of squared distances from it); of each channel of
    // each sample the sum of gradient times normed x, and after all these that of the gradient.
    float *stats, *moments, *sums;
    uint64_t rows;
    // Elements of a group, of a channel and of a part, and parts of a group.
    uint32_t length, spatial, part, parts;
    // Groups of a sample, channels of a group, and threads of a channel where those are summed.
    uint32_t groups, channels, threads;
    // Whether rows are read by vectors of 16 bytes.
    uint32_t wide;
    float epsilon;
    uint32_t unused;
};

constexpr uint32_t GROUP_NORM_MOST_THREADS = 1024;
// Vectors of a thread, which the host counts on.
template <int WIDTH> constexpr int GROUP_NORM_VECTORS = WIDTH == 1 ? 16 : 8;

// The elements of this workgroup's part of its group.
struct GroupCoordinates {
    uint32_t group, part, first, count;

    __device__ __forceinline__ explicit GroupCoordinates(const GroupNormProblem &problem)
        : group(blockIdx.x / problem.parts), part(blockIdx.x - group * problem.parts), first(part * problem.part),
          count(min_of(problem.part, problem.length - first)) {}
    __device__ __forceinline__ size_t begin(const GroupNormProblem &problem) const {
        return (size_t)group * problem.length + first;
    }
    // The channel, of a sample, of an element of the part.
    __device__ __forceinline__ uint32_t channel(const GroupNormProblem &problem, uint32_t i) const {
        return (group % problem.groups) * problem.channels + (first + i) / problem.spatial;
    }
};

struct GroupMoments {
    float mean, squares;
};

// A thread's elements of a part.
template <class T, int WIDTH> struct GroupSplit {
    static constexpr int N = GROUP_NORM_VECTORS<WIDTH>;
    using V = vec<T, WIDTH>;
    V x[N];
    uint32_t count;

    __device__ __forceinline__ GroupSplit(const T *from, uint32_t elements) : count(elements) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            x[n] = Plain<T>::template all<WIDTH>(round_to<T>(0.0f));
            if (first(n) < count) x[n] = read_global<V>(from + first(n));
        }
    }
    static __device__ __forceinline__ uint32_t first(int n) { return (threadIdx.x + n * blockDim.x) * WIDTH; }

    __device__ __forceinline__ GroupMoments moments() const {
        __shared__ WaveValues<float> lds;
        float sum = 0, squares = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) sum += (float)upcast(x[n][k]);
        float mean = block_all_reduce(sum, threadIdx.x, blockDim.x, Sum(), lds) / (float)count;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                float centred = first(n) < count ? (float)upcast(x[n][k]) - mean : 0.0f;
                squares = math::fma(centred, centred, squares);
            }
        return {mean, block_all_reduce(squares, threadIdx.x, blockDim.x, Sum(), lds)};
    }
};

// The moments of a whole group, of those of its parts.
__device__ __forceinline__ GroupMoments combined_moments(const GroupNormProblem &problem, uint32_t group) {
    __shared__ WaveValues<float> lds;
    const GroupMoments *parts = (const GroupMoments *)problem.moments + (size_t)group * problem.parts;
    auto elements = [&](uint32_t p) INLINED {
        return (float)min_of(problem.part, problem.length - p * problem.part);
    };
    float sum = 0, squares = 0;
    for (uint32_t p = threadIdx.x; p < problem.parts; p += blockDim.x) sum = math::fma(parts[p].mean, elements(p), sum);
    float mean = block_all_reduce(sum, threadIdx.x, blockDim.x, Sum(), lds) / (float)problem.length;
    for (uint32_t p = threadIdx.x; p < problem.parts; p += blockDim.x) {
        float distance = parts[p].mean - mean;
        squares += math::fma(distance * distance, elements(p), parts[p].squares);
    }
    return {mean, block_all_reduce(squares, threadIdx.x, blockDim.x, Sum(), lds)};
}

template <class T, int WIDTH> __device__ __forceinline__ void split_moments(const GroupNormProblem &problem) {
    GroupCoordinates place(problem);
    GroupSplit<T, WIDTH> held((const T *)problem.x + place.begin(problem), place.count);
    GroupMoments own = held.moments();
    if (threadIdx.x == 0) ((GroupMoments *)problem.moments)[blockIdx.x] = own;
}

// (x - mean) / sqrt(variance + epsilon) * weight + bias. The only part of a group finds the moments itself.
template <class T, int WIDTH> __device__ __forceinline__ void group_norm(const GroupNormProblem &problem) {
    GroupCoordinates place(problem);
    GroupSplit<T, WIDTH> held((const T *)problem.x + place.begin(problem), place.count);
    GroupMoments all = problem.parts == 1 ? held.moments() : combined_moments(problem, place.group);
    float scale = math::rsqrt(all.squares / (float)problem.length + problem.epsilon);
    if (threadIdx.x == 0 && place.part == 0)
        ((vec<float, 2> *)problem.stats)[place.group] = vec<float, 2>{all.mean, scale};
    T *to = (T *)problem.result + place.begin(problem);
#pragma unroll
    for (int n = 0; n < held.N; n++) {
        uint32_t i = held.first(n);
        if (i >= held.count) continue;
        uint32_t channel = place.channel(problem, i);
        float weight = upcast(((const T *)problem.weight)[channel]) * scale;
        float bias = problem.bias == nullptr ? 0.0f : (float)upcast(((const T *)problem.bias)[channel]);
        float y[WIDTH];
#pragma unroll
        for (int k = 0; k < WIDTH; k++) y[k] = math::fma((float)upcast(held.x[n][k]) - all.mean, weight, bias);
        store_vec(to + i, round_all_to<T, WIDTH>(y));
    }
}

// Of each channel of each sample: the sum of gradient * normed x, and that of the gradient.
template <class T, int WIDTH> __device__ __forceinline__ void channel_sums(const GroupNormProblem &problem) {
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<float> lds, lds_plain;
    RowGroup row_group(problem.threads, threadIdx.x);
    size_t row = (size_t)blockIdx.x * (blockDim.x / problem.threads) + row_group.number;
    bool is_row = row < problem.rows;
    float by_x = 0, plain = 0;
    if (is_row) {
        vec<float, 2> stats = ((const vec<float, 2> *)problem.stats)[row / problem.channels];
        const T *x = (const T *)problem.x + row * problem.spatial;
        const T *gradient = (const T *)problem.gradient + row * problem.spatial;
        for (uint32_t i = row_group.thread * WIDTH; i < problem.spatial; i += row_group.size * WIDTH) {
            V a = read_global<V>(x + i), b = read_global<V>(gradient + i);
#pragma unroll
            for (int k = 0; k < WIDTH; k++) {
                float dy = upcast(b[k]);
                by_x = math::fma(dy, ((float)upcast(a[k]) - stats[0]) * stats[1], by_x);
                plain += dy;
            }
        }
    }
    by_x = row_group.all_reduce(by_x, Sum(), lds);
    plain = row_group.all_reduce(plain, Sum(), lds_plain);
    if (is_row && row_group.thread == 0) {
        problem.sums[row] = by_x;
        problem.sums[problem.rows + row] = plain;
    }
}

// (weight * gradient - mean of that - normed x * mean of (that * normed x)) / deviation
template <class T, int WIDTH> __device__ __forceinline__ void group_norm_gradient(const GroupNormProblem &problem) {
    using V = vec<T, WIDTH>;
    __shared__ WaveValues<float> lds;
    GroupCoordinates place(problem);
    const T *weights = (const T *)problem.weight;
    float by_x = 0, plain = 0;
    for (uint32_t c = threadIdx.x; c < problem.channels; c += blockDim.x) {
        float weight = upcast(weights[(place.group % problem.groups) * problem.channels + c]);
        const float *sums = problem.sums + (size_t)place.group * problem.channels + c;
        by_x = math::fma(weight, sums[0], by_x);
        plain = math::fma(weight, sums[problem.rows], plain);
    }
    float length = (float)problem.length;
    by_x = block_all_reduce(by_x, threadIdx.x, blockDim.x, Sum(), lds) / length;
    plain = block_all_reduce(plain, threadIdx.x, blockDim.x, Sum(), lds) / length;
    vec<float, 2> stats = ((const vec<float, 2> *)problem.stats)[place.group];
    size_t begin = place.begin(problem);
    for (uint32_t i = threadIdx.x * WIDTH; i < place.count; i += blockDim.x * WIDTH) {
        V a = read_global<V>((const T *)problem.x + begin + i),
          b = read_global<V>((const T *)problem.gradient + begin + i);
        float weight = upcast(weights[place.channel(problem, i)]), dx[WIDTH];
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            float normed = ((float)upcast(a[k]) - stats[0]) * stats[1];
            dx[k] = stats[1] * (math::fma(weight, (float)upcast(b[k]), -plain) - normed * by_x);
        }
        store_vec((T *)problem.result + begin + i, round_all_to<T, WIDTH>(dx));
    }
}

} // namespace norms
