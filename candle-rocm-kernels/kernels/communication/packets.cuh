// Small all-reduces: packets of 32 bits of data and the number of the piece, which are written as a whole. Who sees the
// number has the data: there is no flag and no fence, and the time is that of one way.
//
// Two pieces of a workgroup have places of their own. A piece is sent after one of each rank's that came after all of
// that rank's workgroup had read the last piece of this place.
#pragma once
#include "communication/exchange.cuh"

// Where the packets of a unit are, in two halves: those of the work-items of a wavefront lie side by side.
__device__ __forceinline__ system_memory::Packets *packets_at(const AllReduceProblem &p, char *area, uint32_t number,
                                                              uint32_t unit, uint32_t half) {
    uint32_t row = unit / ALL_REDUCE_THREADS * 2 + half;
    return (system_memory::Packets *)(area + number % RING_PACKETS * (p.area / RING_PACKETS)) +
           row * ALL_REDUCE_THREADS + threadIdx.x;
}

template <class T> __device__ __forceinline__ void send_packets(const AllReduceProblem &p, const Piece &piece) {
    uint64_t number = (uint64_t)piece.number << 32;
    send_units<T, 1>(p, piece, [&](uint32_t unit, const Unit<T> &values) INLINED {
        auto words = bit_cast<vec<uint32_t, 4>>(values);
        for (uint32_t copy = 1; copy <= p.copies; copy++) {
            char *area = area_to(p, peer_after(p, copy));
#pragma unroll
            for (uint32_t half = 0; half < 2; half++)
                system_memory::write(packets_at(p, area, piece.number, unit, half),
                                     {{number | words[2 * half], number | words[2 * half + 1]}});
        }
    });
}

// Reads a unit; false if packets of an older piece are among its.
template <class T>
__device__ __forceinline__ bool read_packets(const AllReduceProblem &p, char *area, uint32_t number, uint32_t unit,
                                             Unit<T> &values) {
    system_memory::Packets found[2];
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
        found[half] = system_memory::read(packets_at(p, area, number, unit, half));
    bool are_there = true;
    vec<uint32_t, 4> words;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t packet = found[i / 2].words[i % 2];
        words[i] = (uint32_t)packet;
        are_there &= (uint32_t)(packet >> 32) == number;
    }
    values = bit_cast<Unit<T>>(words);
    return are_there;
}

template <class T>
__device__ __forceinline__ void reduce_packets(const AllReduceProblem &p, const Piece &piece, Waiting &waiting) {
    reduce_each<T, 1, false>(
        p, piece,
        [&](uint32_t rank, uint32_t unit, Unit<T> &values) INLINED {
            char *area = area_from(p, rank);
            return wait_until(p, rank, piece.number, waiting,
                              [&]() INLINED { return read_packets<T>(p, area, piece.number, unit, values); });
        },
        [](uint32_t, const Unit<T> &) INLINED {});
}

template <class T> __device__ __forceinline__ void all_reduce_packets(const AllReduceProblem &p) {
    __shared__ Waiting waiting;
    if (threadIdx.x == 0) waiting = {};
    uint32_t exchanged = (uint32_t)device_atomic::read(p.exchanged + blockIdx.x), pieces = pieces_of(p);
    __syncthreads();
    for (uint32_t turn = 0; turn < pieces; turn++) {
        Piece piece = piece_of(p, exchanged + turn + 1, turn);
        if (p.does & EXCHANGE_SENDS) send_packets<T>(p, piece);
        if (p.does & EXCHANGE_REDUCES) reduce_packets<T>(p, piece, waiting);
        __syncthreads();
        if (!waited_well(p, waiting)) return;
        // Before the next wait says how it ends.
        if (turn + 1 < pieces) __syncthreads();
    }
    if ((p.does & EXCHANGE_REDUCES) && threadIdx.x == 0)
        device_atomic::write(p.exchanged + blockIdx.x, (int32_t)(exchanged + pieces));
}
