// What the all-reduces in one launch share: units of elements, boxes, and waiting for another rank.
#pragma once
#include "communication/reduction.cuh"

// Elements that are moved at once.
template <class T> using Unit = vec<T, VEC16<T>>;
constexpr uint32_t UNIT_BYTES = 16;

// The elements of memory from `first` on, of which the first `count` are there. It may lie anywhere, unless the unit is
// known to be whole.
template <class T>
__device__ __forceinline__ Unit<T> load_unit(const void *memory, uint64_t first, uint64_t count, bool is_whole) {
    const T *from = (const T *)memory + first;
    if (is_whole || (is_aligned(memory, UNIT_BYTES) && first + VEC16<T> <= count)) return load_vec<Unit<T>>(from);
    Unit<T> unit = {};
#pragma unroll
    for (int i = 0; i < VEC16<T>; i++)
        if (first + i < count) unit[i] = from[i];
    return unit;
}
template <class T>
__device__ __forceinline__ void store_unit(void *memory, uint64_t first, uint64_t count, bool is_whole,
                                           const Unit<T> &unit) {
    T *to = (T *)memory + first;
    if (is_whole || (is_aligned(memory, UNIT_BYTES) && first + VEC16<T> <= count)) {
        store_vec(to, unit);
        return;
    }
#pragma unroll
    for (int i = 0; i < VEC16<T>; i++)
        if (first + i < count) to[i] = unit[i];
}

// Bytes of a workgroup's piece, or of a share of it: those of memory from `begin` on are at `place` of an area.
struct Range {
    uint64_t begin;
    uint32_t place, bytes;
};

// A workgroup's piece of this launch, the number of which counts all that it has exchanged.
struct Piece : Range {
    uint32_t number;
};
__device__ __forceinline__ Piece piece_of(const AllReduceProblem &p, uint32_t number, uint32_t turn) {
    Piece piece;
    piece.begin = ((uint64_t)turn * gridDim.x + blockIdx.x) * p.piece;
    piece.number = number;
    piece.place = AREA_FLAGS + number % RING_PIECES * ((p.area - AREA_FLAGS) / RING_PIECES);
    piece.bytes = (uint32_t)min_of((uint64_t)p.piece, p.bytes - piece.begin);
    return piece;
}

// How many pieces of this launch are the workgroup's.
__device__ __forceinline__ uint32_t pieces_of(const AllReduceProblem &p) {
    uint64_t begin = (uint64_t)blockIdx.x * p.piece, stride = (uint64_t)gridDim.x * p.piece;
    return p.bytes > begin ? (uint32_t)ceil_div(p.bytes - begin, stride) : 0;
}

// Calls move(units at once, is_whole): AT_ONCE where all of a range's units in memory are whole and lie well, else one.
template <uint32_t AT_ONCE, class M>
__device__ __forceinline__ void by_units(const AllReduceProblem &p, const void *memory, const Range &range, M move) {
    bool is_whole =
        is_aligned(memory, UNIT_BYTES) && range.begin + ceil_div(range.bytes, UNIT_BYTES) * UNIT_BYTES <= p.bytes;
    if (AT_ONCE > 1 && is_whole) move(Constant<AT_ONCE>(), Constant<true>());
    else move(Constant<1u>(), Constant<false>());
}

// Calls load(u, unit) and then store(u, unit) for the units of a range that are this work-item's, AT_ONCE of them.
template <uint32_t AT_ONCE, class L, class S>
__device__ __forceinline__ void each_unit(const Range &range, L load, S store) {
    uint32_t units = ceil_div(range.bytes, UNIT_BYTES);
    for (uint32_t first = threadIdx.x; first < units; first += AT_ONCE * ALL_REDUCE_THREADS) {
#pragma unroll
        for (uint32_t u = 0; u < AT_ONCE; u++)
            if (first + u * ALL_REDUCE_THREADS < units) load(u, first + u * ALL_REDUCE_THREADS);
#pragma unroll
        for (uint32_t u = 0; u < AT_ONCE; u++)
            if (first + u * ALL_REDUCE_THREADS < units) store(u, first + u * ALL_REDUCE_THREADS);
    }
}

// This workgroup's area of the box by which a rank is written to, or of that which it is read from.
__device__ __forceinline__ char *area_to(const AllReduceProblem &p, uint32_t rank) {
    return system_memory::at<char>(p.boxes[rank] + p.areas + (uint64_t)blockIdx.x * p.area);
}
__device__ __forceinline__ char *area_from(const AllReduceProblem &p, uint32_t rank) {
    return area_to(p, p.world + rank);
}

// The ranks after this one, and then those before it: each is written to first by another.
__device__ __forceinline__ uint32_t peer_after(const AllReduceProblem &p, uint32_t distance) {
    uint32_t rank = p.rank + distance;
    return rank < p.world ? rank : rank - p.world;
}

// What work-items say of their waiting to their workgroup, in LDS.
struct Waiting {
    uint32_t was_long;
    uint32_t in_vain;
};

// Several wavefronts may say the same.
__device__ __forceinline__ void say(uint32_t &word) { __atomic_store_n(&word, 1u, __ATOMIC_RELAXED); }

// A rank is waited for so many times before the host is told, and then what the host says is read at every so manieth
// look. All workgroups' words and fences over the host's bus take some 100 us: ranks that wait for less must not send
// any, or they stay so far apart. (Two H200: 256 looks take 100 us.)
constexpr uint32_t BRIEF_TURNS = 4096;
constexpr uint32_t LOOKS_PER_QUESTION = 64;

// Waits until something of a rank's is there. False if the host doubts that it will come, and it has not.
template <class F>
__device__ __forceinline__ bool wait_until(const AllReduceProblem &p, uint32_t rank, uint32_t number, Waiting &waiting,
                                           F is_there) {
    for (uint32_t turn = 1;; turn++) {
        if (is_there()) return true;
        if (turn < BRIEF_TURNS) {
            system_memory::rest_briefly();
            continue;
        }
        system_memory::rest();
        if (turn % LOOKS_PER_QUESTION != 0) continue;
        if (turn == BRIEF_TURNS) {
            system_memory::write(p.awaits + blockIdx.x, number << 8 | (rank + 1));
            say(waiting.was_long);
        }
        uint32_t doubted = system_memory::read(p.doubt);
        if (doubted != rank + 1 && doubted != DOUBT_ALL) continue;
        // What came before the host said so counts.
        system_memory::observe();
        if (is_there()) return true;
        system_memory::write(p.gave_up, rank + 1);
        say(waiting.in_vain);
        return false;
    }
}

// After a barrier: whether nobody waited in vain. A long wait that is well over is the host's no more.
__device__ __forceinline__ bool waited_well(const AllReduceProblem &p, const Waiting &waiting) {
    if (waiting.in_vain) return false;
    if (waiting.was_long && threadIdx.x == 0) system_memory::write(p.awaits + blockIdx.x, 0);
    return true;
}

// Moves the units of a range that are this work-item's, AT_ONCE of them: load(unit, its first element, is_whole) gives
// what store(unit, its first element, is_whole, elements) gets. `memory` is the side that may lie anywhere.
template <class T, uint32_t AT_ONCE, class L, class S>
__device__ __forceinline__ void move_range(const AllReduceProblem &p, const void *memory, const Range &range, L load,
                                           S store) {
    uint64_t start = range.begin / sizeof(T);
    auto first = [=](uint32_t unit) INLINED {
        return start + (uint64_t)unit * VEC16<T>;
    };
    by_units<AT_ONCE>(p, memory, range, [&](auto at_once, auto is_whole) INLINED {
        Unit<T> values[at_once.value];
        each_unit<at_once.value>(
            range, [&](uint32_t u, uint32_t unit) INLINED { values[u] = load(unit, first(unit), is_whole.value); },
            [&](uint32_t u, uint32_t unit) INLINED { store(unit, first(unit), is_whole.value, values[u]); });
    });
}

// Calls send(unit, elements of this rank) for each unit of a range that is this work-item's, AT_ONCE of them.
template <class T, uint32_t AT_ONCE, class S>
__device__ __forceinline__ void send_units(const AllReduceProblem &p, const Range &range, S send) {
    uint64_t count = p.bytes / sizeof(T);
    move_range<T, AT_ONCE>(
        p, p.from, range,
        [&](uint32_t, uint64_t first, bool is_whole) INLINED { return load_unit<T>(p.from, first, count, is_whole); },
        [&](uint32_t unit, uint64_t, bool, const Unit<T> &values) INLINED { send(unit, values); });
}

// Reduces a range of all ranks, in their order, to memory, AT_ONCE units. receive(rank, unit, unit's elements) says
// false if they will not come, and share(unit, results) has the results of each.
template <class T, uint32_t AT_ONCE, bool IS_WHOLE, class R, class S>
__device__ __forceinline__ void reduce_each(const AllReduceProblem &p, const Range &range, R receive, S share) {
    constexpr int N = VEC16<T>;
    uint64_t start = range.begin / sizeof(T), count = p.bytes / sizeof(T);
    uint32_t units = ceil_div(range.bytes, UNIT_BYTES);
    for (uint32_t first = threadIdx.x; first < units; first += AT_ONCE * ALL_REDUCE_THREADS) {
        combined_t<T> all[AT_ONCE][N];
        uint32_t op = p.op;
        for (uint32_t rank = 0; rank < p.world; rank++) {
            // Else there is a loop for each reduction.
            opt_barrier_uniform(op);
            Unit<T> values[AT_ONCE];
#pragma unroll
            for (uint32_t u = 0; u < AT_ONCE; u++) {
                // Of units that are not there the first is read again.
                uint32_t unit = first + u * ALL_REDUCE_THREADS;
                if (unit >= units) unit = first;
                if (rank == p.rank) values[u] = load_unit<T>(p.from, start + (uint64_t)unit * N, count, IS_WHOLE);
                else if (!receive(rank, unit, values[u])) return;
            }
#pragma unroll
            for (uint32_t u = 0; u < AT_ONCE; u++) take<T, N>(op, rank == 0, all[u], values[u]);
        }
#pragma unroll
        for (uint32_t u = 0; u < AT_ONCE; u++) {
            uint32_t unit = first + u * ALL_REDUCE_THREADS;
            if (unit >= units) break;
            Unit<T> results = reduced<T, N>(p.op, p.world, all[u]);
            store_unit<T>(p.to, start + (uint64_t)unit * N, count, IS_WHOLE, results);
            share(unit, results);
        }
    }
}
