// Large all-reduces: pieces with flags. Each rank reduces its share of every piece, and hands the results to the
// others.
//
// A workgroup sends a piece, reduces its share of the one before, and gathers the shares of the one before that: what
// it waits for was sent a while ago. Results come to the place of the ring from which the share was read: it is free. A
// ring has four places. A piece is sent when the last but one has been received of every rank, which sent that after it
// was through with the third last, and so with all before.
#pragma once
#include "communication/exchange.cuh"

// Units that a work-item copies, or reduces, at once: bytes are combined in four times their registers.
constexpr uint32_t COPIED_UNITS = 4;
template <class T> constexpr uint32_t SUMMED_UNITS = sizeof(T) == 1 ? 1 : 2;

// What a rank reduces of a piece.
__device__ __forceinline__ Range share_of(const AllReduceProblem &p, const Piece &piece, uint32_t rank) {
    uint32_t share = ceil_div(ceil_div(piece.bytes, p.world), UNIT_BYTES) * UNIT_BYTES;
    uint32_t begin = min_of(rank * share, piece.bytes);
    return {piece.begin + begin, piece.place + begin, min_of(share, piece.bytes - begin)};
}

// A rank's results from its area.
template <class T>
__device__ __forceinline__ void copy_from(const AllReduceProblem &p, const char *area, const Range &range) {
    uint64_t count = p.bytes / sizeof(T);
    move_range<T, COPIED_UNITS>(
        p, p.to, range,
        [&](uint32_t unit, uint64_t, bool)
            INLINED { return load_vec<Unit<T>>((const Unit<T> *)(area + range.place) + unit); },
        [&](uint32_t, uint64_t first, bool is_whole, const Unit<T> &values)
            INLINED { store_unit<T>(p.to, first, count, is_whole, values); });
}

// Of an area's flags the first counts pieces that were sent, the second those whose share was reduced.
constexpr uint32_t SENT = 0, REDUCED = 32;

// What all have written is there for who sees the flag.
__device__ __forceinline__ void signal(const AllReduceProblem &p, uint32_t flag, uint32_t number) {
    device_atomic::publish();
    __syncthreads();
    if (threadIdx.x != 0) return;
    system_memory::publish();
    for (uint32_t copy = 1; copy <= p.copies; copy++)
        system_memory::write((uint32_t *)area_to(p, peer_after(p, copy)) + flag, number);
}

// Waits until all ranks have signalled a piece; false if one never will.
__device__ __forceinline__ bool wait_for_all(const AllReduceProblem &p, uint32_t flag, uint32_t number,
                                             Waiting &waiting) {
    uint32_t rank = threadIdx.x;
    if (rank < p.world && rank != p.rank) {
        const uint32_t *at = (const uint32_t *)area_from(p, rank) + flag;
        if (wait_until(p, rank, number, waiting,
                       [&]() INLINED { return (int32_t)(system_memory::read(at) - number) >= 0; }))
            system_memory::observe(at);
    }
    __syncthreads();
    return waited_well(p, waiting);
}

template <class T> __device__ __forceinline__ void send_piece(const AllReduceProblem &p, const Piece &piece) {
    for (uint32_t distance = 1; distance < p.world; distance++) {
        uint32_t rank = peer_after(p, distance);
        Range range = share_of(p, piece, rank);
        char *area = area_to(p, rank) + range.place;
        send_units<T, COPIED_UNITS>(
            p, range, [&](uint32_t unit, const Unit<T> &values) INLINED { store_vec((Unit<T> *)area + unit, values); });
    }
    signal(p, SENT, piece.number);
}

// Reduces this rank's share to memory, and to all ranks' areas.
template <class T> __device__ __forceinline__ void reduce_share(const AllReduceProblem &p, const Piece &piece) {
    Range range = share_of(p, piece, p.rank);
    auto receive = [&](uint32_t rank, uint32_t unit, Unit<T> &values) INLINED {
        values = load_vec<Unit<T>>((const Unit<T> *)(area_from(p, rank) + range.place) + unit);
        return true;
    };
    auto share = [&](uint32_t unit, const Unit<T> &results) INLINED {
        for (uint32_t copy = 1; copy <= p.copies; copy++)
            store_vec((Unit<T> *)(area_to(p, peer_after(p, copy)) + range.place) + unit, results);
    };
    // One of the two may lie better than the other.
    const void *worse = is_aligned(p.from, UNIT_BYTES) ? p.to : p.from;
    by_units<SUMMED_UNITS<T>>(p, worse, range, [&](auto at_once, auto is_whole) INLINED {
        reduce_each<T, at_once.value, is_whole.value>(p, range, receive, share);
    });
    signal(p, REDUCED, piece.number);
}

template <class T> __device__ __forceinline__ void gather_shares(const AllReduceProblem &p, const Piece &piece) {
    for (uint32_t distance = 1; distance < p.world; distance++) {
        uint32_t rank = peer_after(p, distance);
        copy_from<T>(p, area_from(p, rank), share_of(p, piece, rank));
    }
}

template <class T> __device__ __forceinline__ void all_reduce_pieces(const AllReduceProblem &p) {
    __shared__ Waiting waiting;
    if (threadIdx.x == 0) waiting = {};
    uint32_t exchanged = (uint32_t)device_atomic::read(p.exchanged + blockIdx.x);
    uint32_t pieces = pieces_of(p);
    __syncthreads();
    for (uint32_t turn = 0; turn < pieces + 2; turn++) {
        if ((p.does & EXCHANGE_SENDS) && turn < pieces) send_piece<T>(p, piece_of(p, exchanged + turn + 1, turn));
        // As there: all have read how the last wait ended.
        else __syncthreads();
        if ((p.does & EXCHANGE_REDUCES) && turn >= 1 && turn <= pieces) {
            Piece piece = piece_of(p, exchanged + turn, turn - 1);
            if (!wait_for_all(p, SENT, piece.number, waiting)) return;
            reduce_share<T>(p, piece);
        }
        if ((p.does & EXCHANGE_GATHERS) && turn >= 2) {
            Piece piece = piece_of(p, exchanged + turn - 1, turn - 2);
            if (!wait_for_all(p, REDUCED, piece.number, waiting)) return;
            gather_shares<T>(p, piece);
        }
    }
    if ((p.does & EXCHANGE_GATHERS) && threadIdx.x == 0)
        device_atomic::write(p.exchanged + blockIdx.x, (int32_t)(exchanged + pieces));
}
