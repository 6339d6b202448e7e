// Layers of which the lanes of a result combine elements: reductions and softmax.
#pragma once
#include "dnn/results.cuh"

static constexpr uint32_t DNN_THREADS = 256;

// A work-item's place: which result of the workgroup's, and which lane of it.
struct DnnSeat {
    uint32_t lanes, results, lane, result, neighbour;

    __device__ __forceinline__ explicit DnnSeat(const DnnProblem &p) {
        lanes = 1u << p.log2_lanes, results = DNN_THREADS >> p.log2_lanes;
        uint32_t thread = threadIdx.x;
        lane = p.by_results ? thread / results : thread & (lanes - 1);
        result = p.by_results ? thread & (results - 1) : thread >> p.log2_lanes;
        // Between lanes of a result.
        neighbour = p.by_results ? results : 1;
    }
};

// What the lanes of each result combine to, in all of them. The order is fixed by their number.
template <class State, class Op>
__device__ __forceinline__ State dnn_combine(State state, const DnnSeat &seat, State (&lds)[DNN_THREADS], Op op) {
    lds[threadIdx.x] = state;
    __syncthreads();
    for (uint32_t half = seat.lanes / 2; half > 0; half /= 2) {
        if (seat.lane < half) lds[threadIdx.x] = op(lds[threadIdx.x], lds[threadIdx.x + half * seat.neighbour]);
        __syncthreads();
    }
    state = lds[threadIdx.x - seat.lane * seat.neighbour];
    __syncthreads();
    return state;
}

// cudnnReduceTensorOp_t.
enum DnnReduction {
    DNN_ADD,
    DNN_MUL,
    DNN_MIN,
    DNN_MAX,
    DNN_AMAX,
    DNN_AVG,
    DNN_NORM1,
    DNN_NORM2,
    DNN_MUL_NO_ZEROS,
};

// A value, and of extrema its place: NOWHERE before there is one.
template <class C> struct DnnState {
    static constexpr uint32_t NOWHERE = 0xffffffffu;
    C value;
    uint32_t index;
};

template <class C> struct DnnReducer {
    using State = DnnState<C>;
    uint32_t mode;
    bool propagates_nan;

    __device__ __forceinline__ bool is_extremum() const {
        return mode == DNN_MIN || mode == DNN_MAX || mode == DNN_AMAX;
    }
    __device__ __forceinline__ bool is_product() const { return mode == DNN_MUL || mode == DNN_MUL_NO_ZEROS; }

    __device__ __forceinline__ State start() const { return {is_product() ? (C)1 : (C)0, State::NOWHERE}; }

    // What an element counts as; NOWHERE if it does not count.
    __device__ __forceinline__ State of(C x, uint32_t index) const {
        if (mode == DNN_AMAX || mode == DNN_NORM1) x = math::abs(x);
        else if (mode == DNN_NORM2) x = x * x;
        else if (mode == DNN_MUL_NO_ZEROS && x == (C)0) x = (C)1;
        if (is_extremum() && !propagates_nan && x != x) index = State::NOWHERE;
        return {x, index};
    }

    // Whether b is the extremum of both: the one that comes first, of those that are equal.
    __device__ __forceinline__ bool is_better(State a, State b) const {
        bool a_nan = a.value != a.value, b_nan = b.value != b.value, is_earlier = b.index < a.index;
        bool is_beyond = mode == DNN_MIN ? b.value < a.value : a.value < b.value;
        bool decides =
            a_nan || b_nan ? b_nan && (!a_nan || is_earlier) : is_beyond || (a.value == b.value && is_earlier);
        return b.index != State::NOWHERE && (a.index == State::NOWHERE || decides);
    }

    __device__ __forceinline__ State operator()(State a, State b) const {
        bool takes_b = is_better(a, b);
        C sum = is_product() ? a.value * b.value : a.value + b.value, extremum = takes_b ? b.value : a.value;
        return {is_extremum() ? extremum : sum, takes_b ? b.index : a.index};
    }

    __device__ __forceinline__ C finish(State state, uint32_t count) const {
        if (is_extremum() && state.index == State::NOWHERE) return (C)NAN;
        if (mode == DNN_AVG) return state.value / (C)count;
        return mode == DNN_NORM2 ? math::sqrt(state.value) : state.value;
    }
};

// Grid: any number of workgroups.
template <class T> __device__ __forceinline__ void dnn_reduction(const DnnProblem &p) {
    using C = compute_t<T>;
    using State = DnnState<C>;
    __shared__ State lds[DNN_THREADS];
    DnnSeat seat(p);
    DnnReducer<C> reducer = {p.mode, p.propagates_nan != 0};
    for (size_t first = (size_t)blockIdx.x * seat.results; first < p.results;
         first += (size_t)gridDim.x * seat.results) {
        size_t number = first + seat.result;
        bool is_there = number < p.results;
        DnnOffset at = kept_offset(p, is_there ? (uint32_t)number : 0);
        State state = reducer.start();
        for (uint32_t k = seat.lane; is_there && k < p.reduced; k += seat.lanes) {
            C x = upcast(((const T *)p.x)[at.x + reduced_offset(p, k).x]);
            state = reducer(state, reducer.of(x, k));
        }
        state = dnn_combine(state, seat, lds, reducer);
        if (seat.lane != 0 || !is_there) continue;
        blend((T *)p.y + at.y, reducer.finish(state, p.reduced), p.alpha, p.beta);
        bool has_place = reducer.is_extremum() && state.index != State::NOWHERE;
        if (p.indices) p.indices[number] = has_place ? state.index : 0;
    }
}

// cudnnSoftmaxAlgorithm_t: with the largest subtracted, the first two are one.
static constexpr uint32_t DNN_SOFTMAX_LOG = 2;

struct DnnLargest {
    template <class C> __device__ __forceinline__ C operator()(C a, C b) const { return math::fmax(a, b); }
};

// Grid: any number of workgroups.
template <class T> __device__ __forceinline__ void dnn_softmax(const DnnProblem &p) {
    using C = compute_t<T>;
    __shared__ C lds[DNN_THREADS];
    DnnSeat seat(p);
    for (size_t first = (size_t)blockIdx.x * seat.results; first < p.results;
         first += (size_t)gridDim.x * seat.results) {
        size_t number = first + seat.result;
        bool is_there = number < p.results;
        DnnOffset at = kept_offset(p, is_there ? (uint32_t)number : 0);
        const T *x = (const T *)p.x + at.x;
        uint32_t count = is_there ? p.reduced : 0;
        C largest = -(C)INFINITY, sum = 0;
        for (uint32_t k = seat.lane; k < count; k += seat.lanes)
            largest = math::fmax(largest, upcast(x[reduced_offset(p, k).x]));
        largest = dnn_combine(largest, seat, lds, DnnLargest());
        // Of nothing but -infinity there is no largest to subtract.
        if (largest == -(C)INFINITY) largest = 0;
        for (uint32_t k = seat.lane; k < count; k += seat.lanes)
            sum += math::exp(upcast(x[reduced_offset(p, k).x]) - largest);
        sum = dnn_combine(sum, seat, lds, Sum());
        C scale = p.mode == DNN_SOFTMAX_LOG ? math::log(sum) : (C)1 / sum;
        for (uint32_t k = seat.lane; k < count; k += seat.lanes) {
            DnnOffset of = reduced_offset(p, k);
            C shifted = upcast(x[of.x]) - largest;
            C value = p.mode == DNN_SOFTMAX_LOG ? shifted - scale : math::exp(shifted) * scale;
            blend((T *)p.y + at.y + of.y, value, p.alpha, p.beta);
        }
    }
}
