// Cross-entropy of rows of logits, and its gradient.
#pragma once
#include "losses/problem.cuh"
#include "norms/softmax.cuh"
#include "portable/cold_path.cuh"
#include "portable/report.cuh"
#include "portable/streams.cuh"

constexpr uint32_t CROSS_ENTROPY_THREADS = 256;

// What a split of a row leaves.
template <class C> struct LogitSums {
    C largest, sum, of_logits;
};

// A row's target, as an integer of any size.
struct RowTarget {
    int64_t value = 0;
    bool there, ignored = false;

    template <class Problem>
    __device__ __forceinline__ RowTarget(const Problem &problem, size_t row) : there(problem.target_bytes != 0) {
        size_t at = problem.first_row + row;
        if (problem.target_bytes == 1) value = ((const uint8_t *)problem.targets)[at];
        else if (problem.target_bytes == 4) value = ((const uint32_t *)problem.targets)[at];
        else if (there) value = ((const int64_t *)problem.targets)[at];
        ignored = there && problem.has_ignored && value == problem.ignored;
    }
};

// Ends the launch if the target of row `refused` is no column: after all rows, as a trap among them would cost each
// registers.
constexpr size_t NO_ROW = ~(size_t)0;
__device__ __forceinline__ void refuse_target(const CrossEntropyProblem &kernels_argument, size_t refused) {
    if (refused == NO_ROW) return;
    constexpr Operation OPERATION("cross_entropy");
    auto &problem = cold_path(kernels_argument);
    size_t at = problem.first_row + refused;
    int64_t target = RowTarget(problem, refused).value;
    if (problem.target_bytes == 1) refuse<uint8_t>(OPERATION, place_outside, target, problem.columns, at);
    else if (problem.target_bytes == 4) refuse<uint32_t>(OPERATION, place_outside, target, problem.columns, at);
    else refuse<int64_t>(OPERATION, place_outside, target, problem.columns, at);
}

// A logit x, or cap * tanh(x / cap) and its derivative.
template <class T, bool CAPPED> struct Logit {
    using C = compute_t<T>;
    C cap = 0, of_cap = 0;

    __device__ __forceinline__ explicit Logit(double softcap) {
        if constexpr (CAPPED) {
            cap = (C)softcap;
            of_cap = (C)1 / cap;
        }
    }
    __device__ __forceinline__ C hyperbolic(C x) const {
        // The error is one of 1, not of the result, which 16 bits cannot tell.
        if constexpr (sizeof(T) == 2)
            return 1 - 2 * math::fast_recip(1 + math::fast_exp2(x * of_cap * (2 * 1.44269504088896340736f)));
        // ocml's tanh of f32 would be a call, and f64's has more constants than there are scalar registers.
        else return 1 - 2 / (1 + math::exp(2 * x * of_cap));
    }
    __device__ __forceinline__ C of(C x) const {
        if constexpr (CAPPED) return cap * hyperbolic(x);
        else return x;
    }
    __device__ __forceinline__ C of(C x, C &slope) const {
        slope = 1;
        if constexpr (!CAPPED) return x;
        C h = hyperbolic(x);
        slope = 1 - h * h;
        return cap * h;
    }
};

// The elements of a split of a row: whole vectors, and for the first split what lies before the first and
// after the last of the row's.
template <class T> struct SplitOfRow {
    // Exponentials of f64 need the registers, one at a time.
    static constexpr int WIDTH = sizeof(T) == 8 ? 1 : VEC16<T>;
    using Vector = vec<T, WIDTH>;
    uint32_t head, vectors, first, end, edges;

    __device__ __forceinline__ SplitOfRow(const T *row, uint32_t columns, uint32_t splits, uint32_t split) {
        uint32_t before = (uint32_t)(-(uintptr_t)row & 15) / (uint32_t)sizeof(T);
        head = min_of(before, columns);
        vectors = (columns - head) / WIDTH;
        uint32_t each = ceil_div(vectors, splits);
        first = min_of(split * each, vectors);
        end = min_of(first + each, vectors);
        edges = split == 0 ? columns - vectors * WIDTH : 0;
    }

    // f(place of the first, vector) of those of one of `threads` threads: vectors, and vectors of one element.
    template <class F>
    __device__ __forceinline__ void each(const T *row, uint32_t thread, uint32_t threads, F f) const {
        constexpr int AT_ONCE = 4;
        for (uint32_t e = thread; e < edges; e += threads) {
            uint32_t i = e < head ? e : e + vectors * WIDTH;
            f(i, load_vec<vec<T, 1>>(row + i));
        }
        uint32_t v = first + thread;
        auto place = [&](uint32_t v) INLINED {
            return head + v * WIDTH;
        };
        for (; v + (AT_ONCE - 1) * threads < end; v += AT_ONCE * threads) {
            Vector x[AT_ONCE];
#pragma unroll
            for (int s = 0; s < AT_ONCE; s++) x[s] = read_global<Vector>(row + place(v + s * threads));
#pragma unroll
            for (int s = 0; s < AT_ONCE; s++) {
                // Functions of several vectors at once would have more masks than there are scalar registers.
                opt_barrier_schedule();
                f(place(v + s * threads), x[s]);
            }
        }
        for (; v < end; v += threads) f(place(v), read_global<Vector>(row + place(v)));
    }
};

// body(row, split, thread of its group, number of the group, whether it is there) for each split of each row. All
// threads of the workgroup call it as often.
template <class F> __device__ __forceinline__ void for_splits(const CrossEntropyProblem &problem, F body) {
    uint32_t groups = CROSS_ENTROPY_THREADS / problem.threads;
    size_t count = problem.rows * problem.splits;
    bool fits_32 = count <= 0xffffffffu;
    RowGroup group(problem.threads, threadIdx.x);
    for (size_t first = (size_t)blockIdx.x * groups; first < count; first += (size_t)gridDim.x * groups) {
        size_t at = min_of(first + group.number, count - 1);
        size_t row = problem.splits == 1 ? at : divide(at, problem.splits, fits_32);
        body(row, (uint32_t)(at - row * problem.splits), group, first + group.number < count);
    }
}

// Calls f with whether logits are capped, as a constant.
template <class F> __device__ __forceinline__ void by_softcap(const CrossEntropyProblem &problem, F f) {
    if (problem.softcap != 0) f(Constant<true>());
    else f(Constant<false>());
}

// Writes a row's log-sum-exp and loss; `refused` becomes a row whose target is no column. Weights of 0 may be of
// infinite terms.
template <bool CAPPED, class T>
__device__ __forceinline__ void cross_entropy_of_row(const CrossEntropyProblem &kernels_argument, size_t row,
                                                     const LogitSums<compute_t<T>> &sums, size_t &refused) {
    using C = compute_t<T>;
    auto &problem = cold_path(kernels_argument);
    RowTarget target(problem, row);
    C lse = norms::finite(sums.largest) + math::log(sums.sum), loss = 0;
    size_t at = problem.first_row + row;
    ((C *)problem.lse)[at] = lse;
    bool outside = target.value < 0 || target.value >= (int64_t)problem.columns;
    if (target.there && !target.ignored) {
        if (outside) refused = row;
        C of_target = (C)problem.target_weight, of_each = (C)problem.each_weight, of_square = (C)problem.z_loss;
        T x = outside ? (T)(C)0 : ((const T *)problem.logits)[row * problem.stride + (size_t)target.value];
        if (of_target != 0) loss = of_target * (lse - Logit<T, CAPPED>(problem.softcap).of(upcast(x)));
        if (of_each != 0) loss += of_each * ((C)problem.columns * lse - sums.of_logits);
        if (of_square != 0) loss += of_square * lse * lse;
    }
    if (problem.losses != nullptr) ((C *)problem.losses)[at] = loss;
}

template <bool CAPPED, class T> __device__ __forceinline__ void cross_entropy_rows(const CrossEntropyProblem &problem) {
    using C = compute_t<T>;
    __shared__ WaveValues<C> lds;
    Logit<T, CAPPED> logit(problem.softcap);
    size_t refused = NO_ROW;
    for_splits(problem, [&](size_t row, uint32_t split, const RowGroup &group, bool there) INLINED {
        const T *logits = (const T *)problem.logits + row * problem.stride;
        norms::Online<T> online;
        C of_logits = 0;
        auto &cold = cold_path(problem);
        if (there && (cold.every_lse || !RowTarget(cold, row).ignored)) {
            SplitOfRow<T> of_split(logits, problem.columns, problem.splits, split);
            of_split.each(logits, group.thread, group.size, [&](uint32_t, auto x) INLINED {
                constexpr int COUNT = sizeof(x) / sizeof(T);
                vec<C, COUNT> z;
#pragma unroll
                for (int k = 0; k < COUNT; k++) z[k] = logit.of(upcast(x[k]));
                online.add(z);
#pragma unroll
                for (int k = 0; k < COUNT; k++) of_logits += z[k];
            });
        }
        C largest = group.all_reduce(online.largest, norms::Maximum(), lds);
        C sum = online.sum * norms::rescale<T>(online.largest, norms::finite(largest));
        sum = group.all_reduce(sum, Sum(), lds);
        if (cold.each_weight != 0) of_logits = group.all_reduce(of_logits, Sum(), lds);
        LogitSums<C> sums{largest, sum, of_logits};
        if (!there || group.thread != 0) return;
        if (problem.splits == 1) cross_entropy_of_row<CAPPED, T>(problem, row, sums, refused);
        else ((LogitSums<C> *)problem.partial)[row * problem.splits + split] = sums;
    });
    refuse_target(problem, refused);
}

// Rows of which each split has left its sums, a thread each.
template <bool CAPPED, class T>
__device__ __forceinline__ void cross_entropy_finish(const CrossEntropyProblem &problem) {
    using C = compute_t<T>;
    size_t refused = NO_ROW;
    for (size_t row = global_thread(); row < problem.rows; row += global_threads()) {
        const LogitSums<C> *of_row = (const LogitSums<C> *)problem.partial + row * problem.splits;
        LogitSums<C> all{-(C)INFINITY, 0, 0};
        for (uint32_t s = 0; s < problem.splits; s++) all.largest = math::fmax(all.largest, of_row[s].largest);
        for (uint32_t s = 0; s < problem.splits; s++) {
            all.sum += of_row[s].sum * norms::rescale<T>(of_row[s].largest, norms::finite(all.largest));
            all.of_logits += of_row[s].of_logits;
        }
        cross_entropy_of_row<CAPPED, T>(problem, row, all, refused);
    }
    refuse_target(problem, refused);
}

// What a row's gradient is made of: of_lse * softmax - of_each, and less of_target at the target.
template <class T> struct RowSlopes {
    using C = compute_t<T>;
    C lse, of_lse = 0, of_each = 0, of_target = 0;
    uint32_t target = ~0u;
    bool none = false;

    __device__ __forceinline__ RowSlopes(const CrossEntropyProblem &kernels_argument, size_t row) {
        auto &problem = cold_path(kernels_argument);
        size_t at = problem.first_row + row;
        RowTarget of_row(problem, row);
        lse = ((const C *)problem.lse)[at];
        none = of_row.ignored;
        C slope = 1;
        if (problem.slope != nullptr) slope = ((const C *)problem.slope)[problem.slope_of_row ? at : 0];
        if (problem.scale != nullptr) slope *= *(const C *)problem.scale;
        of_lse = slope;
        if (!of_row.there) return;
        target = (uint32_t)of_row.value;
        of_target = slope * (C)problem.target_weight;
        of_each = slope * (C)problem.each_weight;
        of_lse = of_target + of_each * (C)problem.columns;
        if (problem.z_loss != 0) of_lse = math::fma(2 * (C)problem.z_loss * slope, lse, of_lse);
    }
};

template <bool CAPPED, class T>
__device__ __forceinline__ void cross_entropy_backward(const CrossEntropyProblem &problem) {
    using C = compute_t<T>;
    Logit<T, CAPPED> logit(problem.softcap);
    for_splits(problem, [&](size_t row, uint32_t split, const RowGroup &group, bool there) INLINED {
        if (!there) return;
        const T *logits = (const T *)problem.logits + row * problem.stride;
        T *gradient = (T *)problem.gradient + row * problem.columns;
        RowSlopes<T> slopes(problem, row);
        // The host sees to it that the gradient's rows begin within 16 bytes as the logits' do.
        SplitOfRow<T> of_split(logits, problem.columns, problem.splits, split);
        of_split.each(logits, group.thread, group.size, [&](uint32_t i, auto x) INLINED {
            constexpr int COUNT = sizeof(x) / sizeof(T);
            C d[COUNT];
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                C of_cap, z = logit.of(upcast(x[k]), of_cap);
                C of_target = i + k == slopes.target ? slopes.of_target : (C)0;
                d[k] = slopes.of_lse * norms::row_exp<T>(z - slopes.lse) - slopes.of_each - of_target;
                if constexpr (CAPPED) d[k] *= of_cap;
                if (slopes.none) d[k] = 0;
            }
            store_vec(gradient + i, round_all_to<T>(d));
        });
    });
}

// The sum of all rows' losses, or their mean over those whose targets are not ignored, and what a loss's gradient is
// multiplied by for each row's.
template <class C> __device__ __forceinline__ void cross_entropy_sum(const CrossEntropyProblem &problem) {
    constexpr uint32_t THREADS = 1024;
    __shared__ WaveValues<double> lds;
    double all = 0, count = 0;
    for (size_t row = threadIdx.x; row < problem.rows; row += THREADS) {
        all += (double)((const C *)problem.losses)[row];
        count += RowTarget(problem, row).ignored ? 0 : 1;
    }
    all = block_all_reduce(all, threadIdx.x, THREADS, Sum(), lds);
    count = block_all_reduce(count, threadIdx.x, THREADS, Sum(), lds);
    if (threadIdx.x != 0) return;
    *(C *)problem.total = (C)(problem.mean ? all / count : all);
    *(C *)problem.total_scale = (C)(!problem.mean ? 1 : count > 0 ? 1 / count : 0);
}

// What was made for a slope of 1, times that slope. Grid: any in x.
template <class T> __device__ __forceinline__ void cross_entropy_scale(const T *__restrict__ from, T *__restrict__ to,
                                                                       const compute_t<T> *slope,
                                                                       const compute_t<T> *scale, size_t count) {
    using C = compute_t<T>;
    constexpr size_t WIDTH = VEC16<T>;
    C by = *slope * *scale;
    bool aligned = is_aligned(from, 16) && is_aligned(to, 16);
    auto scale_some = [&](size_t i, auto width) INLINED {
        auto x = load_vec<vec<T, width.value>>(from + i);
#pragma unroll
        for (int k = 0; k < width.value; k++) x[k] = round_to<T>(upcast(x[k]) * by);
        store_vec(to + i, x);
    };
    for (size_t i = global_thread() * WIDTH; i < count; i += global_threads() * WIDTH) {
        if (aligned && count - i >= WIDTH) scale_some(i, Constant<(int)WIDTH>());
        else
            for (size_t e = i; e < min_of(i + WIDTH, count); e++) scale_some(e, Constant<1>());
    }
}
