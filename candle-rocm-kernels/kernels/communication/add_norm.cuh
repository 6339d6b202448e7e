// All-reduces of few rows with what follows: the residual is added, and the RMS norm of the sum taken, unless the next
// product takes it. A workgroup makes a row. Its packets are an all-reduce's, and counted with those.
#pragma once
#include "communication/packets.cuh"
#include "portable/block_reduce.cuh"

// What an all-reduce is followed by. `normed` is null where there is no norm.
template <class T> struct AddNorm {
    const T *residual;
    T *normed;
    const T *weight;
    // Elements of a row, whole units.
    uint32_t columns;
    float epsilon;
};

// The ranks' sum of this work-item's unit of a piece, in their order, and the residual, rounded once. False if a rank's
// part will not come.
template <class T>
__device__ __forceinline__ bool sum_packets(const AllReduceProblem &p, const AddNorm<T> &n, const Piece &piece,
                                            Waiting &waiting, Unit<T> &sum) {
    constexpr int N = VEC16<T>;
    uint64_t first = piece.begin / sizeof(T) + threadIdx.x * N, count = p.bytes / sizeof(T);
    // On its way while ranks are waited for.
    Unit<T> residual = load_unit<T>(n.residual, first, count, false);
    combined_t<T> all[N];
    for (uint32_t rank = 0; rank < p.world; rank++) {
        Unit<T> values;
        if (rank == p.rank) {
            values = load_unit<T>(p.from, first, count, false);
        } else {
            char *area = area_from(p, rank);
            if (!wait_until(p, rank, piece.number, waiting,
                            [&]() INLINED { return read_packets<T>(p, area, piece.number, threadIdx.x, values); }))
                return false;
        }
        take<T, N>(SUM, rank == 0, all, values);
    }
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = (T)(all[i] + (combined_t<T>)residual[i]);
    store_unit<T>(p.to, first, count, false, sum);
    return true;
}

// Makes a row's sums, which `held` keeps, and gives the sum of their squares at this work-item. False if a rank's part
// will not come.
template <class T>
__device__ __forceinline__ bool sum_row(const AllReduceProblem &p, const AddNorm<T> &n, uint64_t begin,
                                        uint32_t &exchanged, Waiting &waiting, Unit<T> *held, float &squares) {
    uint32_t bytes = n.columns * (uint32_t)sizeof(T);
    squares = 0;
    for (uint32_t place = 0; place < bytes; place += p.piece) {
        Piece piece;
        piece.begin = begin + place;
        piece.bytes = min_of(p.piece, bytes - place);
        piece.number = ++exchanged;
        send_packets<T>(p, piece);
        Unit<T> sum = {};
        if (threadIdx.x * UNIT_BYTES < piece.bytes) sum_packets<T>(p, n, piece, waiting, sum);
        __syncthreads();
        if (!waited_well(p, waiting)) return false;
        // Before the next wait says how it ends.
        __syncthreads();
        held[place / UNIT_BYTES + threadIdx.x] = sum;
#pragma unroll
        for (int i = 0; i < VEC16<T>; i++) squares = math::fma((float)sum[i], (float)sum[i], squares);
    }
    return true;
}

template <class T>
__device__ __forceinline__ void norm_row(const AllReduceProblem &p, const AddNorm<T> &n, uint64_t begin,
                                         const Unit<T> *held, float squares) {
    constexpr int N = VEC16<T>;
    __shared__ WaveValues<float> lds;
    squares = block_all_reduce(squares, threadIdx.x, ALL_REDUCE_THREADS, Sum(), lds);
    float scale = math::fast_rsqrt(squares * math::fast_recip((float)n.columns) + n.epsilon);
    for (uint32_t unit = threadIdx.x; unit * N < n.columns; unit += ALL_REDUCE_THREADS) {
        Unit<T> sum = held[unit], weight = load_unit<T>(n.weight, unit * N, n.columns, false), normed;
#pragma unroll
        for (int i = 0; i < N; i++) normed[i] = (T)((float)sum[i] * scale * (float)weight[i]);
        store_unit<T>(n.normed, begin / sizeof(T) + unit * N, p.bytes / sizeof(T), false, normed);
    }
}

template <class T> __device__ __forceinline__ void all_reduce_add_norm(const AllReduceProblem &p, const AddNorm<T> &n) {
    __shared__ Waiting waiting;
    // A work-item's own units: nobody else reads them.
    __shared__ Unit<T> held[NORMED_PIECES * ALL_REDUCE_THREADS];
    if (threadIdx.x == 0) waiting = {};
    uint32_t exchanged = (uint32_t)device_atomic::read(p.exchanged + blockIdx.x);
    uint64_t row_bytes = (uint64_t)n.columns * sizeof(T);
    __syncthreads();
    for (uint64_t begin = blockIdx.x * row_bytes; begin < p.bytes; begin += gridDim.x * row_bytes) {
        float squares;
        if (!sum_row<T>(p, n, begin, exchanged, waiting, held, squares)) return;
        if (n.normed != nullptr) norm_row<T>(p, n, begin, held, squares);
    }
    if (threadIdx.x == 0) device_atomic::write(p.exchanged + blockIdx.x, (int32_t)exchanged);
}
