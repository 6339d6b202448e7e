// Rows and elements of k of a convolution: what their numbers mean, and where they lie in image, matrix and result.
#pragma once
#include "convolution/problem.cuh"
#include "matmul/main_loop/wave_tile.cuh"

// An axis of this workgroup's phase.
struct PhaseAxis {
    Divisor rows, taps;
    int32_t first;
    uint32_t tap, place; // the first ones

    __device__ __forceinline__ PhaseAxis(const ConvolutionAxis &axis, uint32_t phase) {
        auto [late, first_tap] = divided(phase, axis.tap_phases);
        auto [turns, first_place] = divided(first_tap * axis.dilation + late + axis.shift, axis.phases);
        bool has_taps = late == 0 && first_tap < axis.taps_rest, has_rows = first_place < axis.rows_rest;
        rows = has_rows ? axis.rows : axis.rows_less;
        taps = has_taps ? axis.taps : axis.taps_less;
        if (late != 0) taps.value = 0;
        first = axis.first - (int32_t)turns;
        tap = first_tap, place = first_place;
    }
};

// An outer number and a place.
struct Place {
    uint32_t outer, z, y, x;
};

// This workgroup's group and phase: the operands and results from its first on.
struct Phase {
    PhaseAxis z, y, x;
    uint32_t rows, depth, taps;
    int64_t image, matrix, result; // in elements
    uint32_t group;

    __device__ __forceinline__ Phase(const ConvolutionProblem &p, uint32_t number)
        : Phase(p, divided(number, p.groups)) {}

    // What a row's or an element of k's number means.
    __device__ __forceinline__ Place row(const ConvolutionProblem &p, uint32_t number) const {
        return place(number, p.rows_by_outer, p.row_outers, z.rows, y.rows, x.rows);
    }
    __device__ __forceinline__ Place k(const ConvolutionProblem &p, uint32_t number) const {
        return place(number, p.k_by_outer, p.k_outers, z.taps, y.taps, x.taps);
    }

private:
    __device__ __forceinline__ Phase(const ConvolutionProblem &p, Divided of)
        : Phase(p, divided(of.quotient, p.x.phases), of.rest) {}
    __device__ __forceinline__ Phase(const ConvolutionProblem &p, Divided of, uint32_t group)
        : Phase(p, divided(of.quotient, p.y.phases), of.rest, group) {}
    __device__ __forceinline__ Phase(const ConvolutionProblem &p, Divided of, uint32_t of_x, uint32_t group)
        : z(p.z, of.quotient), y(p.y, of.rest), x(p.x, of_x), group(group) {
        rows = p.row_outers.value * z.rows.value * y.rows.value * x.rows.value;
        taps = z.taps.value * y.taps.value * x.taps.value;
        depth = p.k_outers.value * taps;
        image = group * p.image_group;
        matrix = group * p.matrix_group + z.tap * p.z.tap + y.tap * p.y.tap + x.tap * p.x.tap;
        result = group * p.result_group + z.place * p.z.place + y.place * p.y.place + x.place * p.x.place;
    }

    static __device__ __forceinline__ Place place(uint32_t number, bool by_outer, const Divisor &outers,
                                                  const Divisor &of_z, const Divisor &of_y, const Divisor &of_x) {
        Place place;
        if (by_outer) {
            auto [rest, outer] = divided(number, outers);
            place.outer = outer, number = rest;
        }
        auto [lines, x] = divided(number, of_x);
        auto [planes, y] = divided(lines, of_y);
        if (by_outer) place.z = planes;
        else {
            auto [outer, z] = divided(planes, of_z);
            place.outer = outer, place.z = z;
        }
        place.y = y, place.x = x;
        return place;
    }
};

// Where k is counted in whole chunks of so many places of outputs, of which a line's last one has less: p.x.taps and
// p.depth count these.
static constexpr uint32_t LINE_CHUNK = 8;

struct ChunkOfK {
    uint32_t outer;
    uint32_t z, y, x;
    uint32_t count; // of places that are there

    __device__ __forceinline__ ChunkOfK(const ConvolutionProblem &p, const Phase &phase, uint32_t number,
                                        uint32_t end) {
        auto [line, chunk] = divided(number, p.x.taps);
        auto [plane, of_y] = divided(line, p.y.taps);
        auto [image, of_z] = divided(plane, p.z.taps);
        outer = image, z = of_z, y = of_y, x = chunk * LINE_CHUNK;
        count = number < end ? min_of(LINE_CHUNK, phase.x.taps.value - x) : 0;
    }
};

// Where a row's places begin, and what an element of k adds to that.
struct Coordinates {
    int32_t z, y, x;
};
// So far outside that sums of two are outside, too.
static constexpr int32_t OUTSIDE = 1 << 30;

__device__ __forceinline__ Coordinates row_coordinates(const ConvolutionProblem &p, const Phase &phase,
                                                       const Place &at) {
    return {(int32_t)at.z * p.z.row_step + phase.z.first, (int32_t)at.y * p.y.row_step + phase.y.first,
            (int32_t)at.x * p.x.row_step + phase.x.first};
}
__device__ __forceinline__ Coordinates k_coordinates(const ConvolutionProblem &p, const Place &at) {
    return {(int32_t)at.z * p.z.k_step, (int32_t)at.y * p.y.k_step, (int32_t)at.x * p.x.k_step};
}
// In elements; of an element that is outside, anything. 32 bits are enough, modulo 2^32, where tensors have no more.
template <class Int = int64_t>
__device__ __forceinline__ Int image_offset(const ConvolutionProblem &p, const Coordinates &at) {
    return (Int)at.z * (Int)p.z.image + (Int)at.y * (Int)p.y.image + (Int)at.x * (Int)p.x.image;
}
template <class Int = int64_t>
__device__ __forceinline__ Int matrix_offset(const ConvolutionProblem &p, const Place &k) {
    return (Int)k.outer * (Int)p.matrix_k + (Int)k.z * (Int)p.z.matrix + (Int)k.y * (Int)p.y.matrix +
           (Int)k.x * (Int)p.x.matrix;
}
template <class Int = int64_t>
__device__ __forceinline__ Int result_offset(const ConvolutionProblem &p, const Place &row) {
    return (Int)row.outer * (Int)p.result_row + (Int)row.z * (Int)p.z.result + (Int)row.y * (Int)p.y.result +
           (Int)row.x * (Int)p.x.result;
}
// Bits, and no branch.
__device__ __forceinline__ bool is_inside_at_once(const ConvolutionProblem &p, const Coordinates &row,
                                                  const Coordinates &k) {
    bool z = (uint32_t)row.z + (uint32_t)k.z < (uint32_t)p.z.size,
         y = (uint32_t)row.y + (uint32_t)k.y < (uint32_t)p.y.size,
         x = (uint32_t)row.x + (uint32_t)k.x < (uint32_t)p.x.size;
    return z & y & x;
}
__device__ __forceinline__ bool is_inside(const ConvolutionProblem &p, const Coordinates &row, const Coordinates &k) {
    return (uint32_t)(row.z + k.z) < (uint32_t)p.z.size && (uint32_t)(row.y + k.y) < (uint32_t)p.y.size &&
           (uint32_t)(row.x + k.x) < (uint32_t)p.x.size;
}
