// One column by FP8 weights on NVIDIA's GPUs, as a token of one sequence is decoded. The weights are a stream through
// LDS: workgroups that stay, two for each multiprocessor, go from tile to tile, and copies of the next K-blocks, of the
// next tile too, are on their way while one is multiplied. What a lane copies it reads itself, so that no barrier is in
// the loop. (skinny/product.cuh has as many registers for its next vectors as it can, and waits for each round of
// them.)
//
//   for each of the workgroup's tiles of ROWS rows:
//     for each round of k, STEP elements for each of its warps:
//       copy       the round STAGES - 1 ahead, memory -> LDS
//       multiply   two rows of 64 bytes in a lane, by half-precision instructions
//       promote    each 128 of k by the weights' factor
//     the warps' sums meet in LDS, are added in their order, and stored
//
// The column is in LDS as f16, which the weights are widened to by one instruction for two. What is bf16 is multiplied
// by a power of two that makes its largest element 2^14 to 2^15, and the sums by its inverse: an element keeps all of
// its bits where it is no less than 2^-31 of the largest, and 2^-39 of that is what a lesser one loses at most.
#pragma once
#include "matmul/skinny/weights.cuh"
#include "portable/lds.cuh"

#if defined(LDS_COPIES)

template <class T, bool NORMS, bool GATED> struct StreamedColumn {
    using Atom = MmaSyncAtom<half_t, 8>;
    // Sums of a lane's two rows. The column is the first eight rows of the instruction's one operand and the last
    // eight, with other elements of k, so that a vector is that operand as it is loaded: of one instruction `even` has
    // the first rows' sums, of the next one `odd` the last ones', and the other halves are nothing.
    struct Sums {
        typename Atom::Sums even, odd;
        __device__ __forceinline__ float of(int row) const { return even.v[row] + odd.v[2 + row]; }
    };
    // A row's 16 weights by as many elements of the column.
    static __device__ __forceinline__ void multiply_vector(Sums &sums, const Words4 &weights,
                                                           const Words4 (&column)[2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const Words4 &y = column[half];
            Words2 low = widened_four<half_t>(weights[2 * half]), high = widened_four<half_t>(weights[2 * half + 1]);
            Atom::multiply_once(sums.even.v, y[0], y[2], y[1], y[3], low[0], high[0]);
            Atom::multiply_once(sums.odd.v, y[0], y[2], y[1], y[3], low[1], high[1]);
        }
    }
    // Chosen on an H200, of 1 to 4 tiles of rows, 2 to 8 vectors, 2 to 6 stages, and 256 or 512 threads.
    static constexpr int RESIDENT = 2;
    static constexpr int THREADS = 256, WARPS = THREADS / 32, TILES = 2, UNROLL = 4, STAGES = 2;
    static constexpr uint32_t V = VEC16<f8e4m3_t>, K_VECTOR = Atom::K_LANES * V, STEP = K_VECTOR * UNROLL, BLOCK = 128;
    static constexpr uint32_t ROWS = Atom::ROW_LANES * TILES, STORED = GATED ? ROWS / 2 : ROWS, ROUND = STEP * WARPS;
    static constexpr int OF_BLOCK = BLOCK / K_VECTOR, BLOCKS = UNROLL / OF_BLOCK;
    static constexpr uint32_t COPY_BYTES = THREADS * 16, STAGE_BYTES = TILES * UNROLL * COPY_BYTES;
    // Vectors of the column in a thread, while it is prepared.
    static constexpr uint32_t V_COLUMN = VEC16<T>, HELD = NORMS ? 4 : 8, MOST = HELD * THREADS * V_COLUMN;
    using Elements = vec<T, V_COLUMN>;

    // Whether the list of kernels has these measures.
    static constexpr bool is_listed_as(uint32_t rows, uint32_t round, int lds_kib, int resident, uint32_t most) {
        return rows == STORED && round == ROUND && resident == RESIDENT &&
               (uint32_t)lds_kib << 10 == STAGES * STAGE_BYTES && most == MOST;
    }

    const f8e4m3_t *weight;
    WeightFactors factors;
    uint32_t rows, length;
    uint32_t lane, own_k, rounds, tiles;

    // A round of a tile, and the lane's first element of k there.
    struct Cursor {
        uint32_t tile, round, k;
    };
    __device__ __forceinline__ Cursor first() const { return {blockIdx.x, 0, own_k}; }
    // On to the next, which may be another tile's.
    __device__ __forceinline__ bool advance(Cursor &at) const {
        at.k += ROUND;
        if (++at.round < rounds) return false;
        at = {at.tile + gridDim.x, 0, own_k};
        return true;
    }

    __device__ __forceinline__ StreamedColumn(const f8e4m3_t *weight, const WeightFactors &factors, uint32_t rows,
                                              uint32_t length)
        : weight(weight), factors(factors), rows(rows), length(length), lane(threadIdx.x % 32),
          own_k(threadIdx.x / 32 * STEP + Atom::k_index(lane) * V), rounds((length + ROUND - 1) / ROUND),
          tiles((rows + STORED - 1) / STORED) {}

    // Copy: the rounds of all tiles, one after another, memory -> a lane's places in LDS.
    struct Copies {
        const StreamedColumn &of;
        LdsBytes lane_lds;
        Cursor at;
        uint32_t slot;
        const f8e4m3_t *line[TILES];

        __device__ __forceinline__ Copies(const StreamedColumn &of)
            : of(of), lane_lds((LdsBytes)dynamic_lds + threadIdx.x * 16), at(of.first()), slot(0) {
            find_lines();
        }
        // Rows past the last repeat it, and are not stored.
        __device__ __forceinline__ void find_lines() {
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                uint32_t place = i * Atom::ROW_LANES + Atom::row_index(of.lane);
                uint32_t row = min_of(at.tile * STORED + place % STORED, of.rows - 1) + place / STORED * of.rows;
                line[i] = of.weight + (int64_t)row * of.length;
            }
        }
        __device__ __forceinline__ void next() {
            if (at.tile < of.tiles) {
                LdsBytes to = lane_lds + slot;
#pragma unroll
                for (int u = 0; u < UNROLL; u++)
#pragma unroll
                    for (int i = 0; i < TILES; i++) {
                        // An address of the row's in any case.
                        uint32_t k = at.k + u * K_VECTOR, there = min_of(k, of.length - V);
                        copy_or_clear(to + (u * TILES + i) * COPY_BYTES, line[i] + there, k == there);
                    }
                slot = next_slot(slot);
                if (of.advance(at)) find_lines();
            }
            end_copies();
        }
    };
    static __device__ __forceinline__ uint32_t next_slot(uint32_t slot) {
        return slot == (STAGES - 1) * STAGE_BYTES ? 0 : slot + STAGE_BYTES;
    }

    // Factors of a round, of the lane's rows in each tile; those of the next one are asked for before it begins.
    struct Factors {
        float of[BLOCKS][TILES];
    };
    __device__ __forceinline__ Factors load_factors(Cursor &at) const {
        Factors found;
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            uint32_t is_other = i * Atom::ROW_LANES + 2 * (lane % 4) >= STORED;
            uint32_t row = min_of(at.tile * STORED, rows - 1) + is_other * rows;
            const GLOBAL_MEMORY float *of_row =
                (const GLOBAL_MEMORY float *)factors.values + (row >> factors.row_shift) * factors.row_step;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                found.of[b][i] = of_row[min_of(at.k + b * BLOCK, length - 1) / BLOCK * factors.k_step];
        }
        advance(at);
        return found;
    }

    // The column, as it is multiplied: normed, and then f16 in LDS, times a power of two. Returns its inverse.
    struct Column {
        Words4 held[HELD], norm[NORMS ? HELD : 1];

        static __device__ __forceinline__ uint32_t k_of(uint32_t h) { return (h * THREADS + threadIdx.x) * V_COLUMN; }
        template <class F> __device__ __forceinline__ void each(F f) {
#pragma unroll
            for (uint32_t h = 0; h < HELD; h++) {
                Elements x = bit_cast<Elements>(held[h]);
                f(h, x);
                held[h] = bit_cast<Words4>(x);
            }
        }
        // Asked for before the copies, behind which it would wait for memory.
        __device__ __forceinline__ void load(const T *x, const T *of_norm, uint32_t length) {
#pragma unroll
            for (uint32_t h = 0; h < HELD; h++) {
                uint32_t k = k_of(h);
                held[h] = {};
                if (k < length) held[h] = read_now<Words4>(x + k);
                if constexpr (NORMS) {
                    norm[h] = {};
                    if (k < length) norm[h] = read_now<Words4>(of_norm + k);
                }
            }
        }
        __device__ __forceinline__ void norm_all(uint32_t length, float epsilon, WaveValues<float> &lds) {
            float sum = 0;
            each([&](uint32_t, Elements &x) INLINED {
#pragma unroll
                for (uint32_t e = 0; e < V_COLUMN; e++) sum = math::fma(upcast(x[e]), upcast(x[e]), sum);
            });
            sum = block_all_reduce(sum, threadIdx.x, THREADS, Sum{}, lds);
            float scale = norms::norm_scale(sum, length, epsilon);
            each([&](uint32_t h, Elements &x) INLINED {
                Elements w = bit_cast<Elements>(norm[h]);
#pragma unroll
                for (uint32_t e = 0; e < V_COLUMN; e++) x[e] = round_to<T>(upcast(x[e]) * scale * upcast(w[e]));
            });
        }
        // The power of two by which the largest element is 2^14 and more, but not 2^15; of f16 itself 1.
        __device__ __forceinline__ uint32_t exponent(WaveValues<float> &lds) {
            constexpr uint32_t BIAS = 127, OF_LARGEST = 14;
            if constexpr (is_same<T, half_t>::value) return BIAS + OF_LARGEST;
            float largest = 0;
            each([&](uint32_t, Elements &x) INLINED {
#pragma unroll
                for (uint32_t e = 0; e < V_COLUMN; e++)
                    largest = __builtin_fmaxf(largest, __builtin_fabsf(upcast(x[e])));
            });
            auto larger = [](float x, float y) INLINED {
                return __builtin_fmaxf(x, y);
            };
            largest = block_all_reduce(largest, threadIdx.x, THREADS, larger, lds);
            uint32_t exponent = bit_cast<uint32_t>(largest) >> 23;
            return exponent > OF_LARGEST ? exponent : OF_LARGEST + 1;
        }
        // Of all rounds: what is past the end of k is 0.
        __device__ __forceinline__ void store(LdsBytes to, float factor, uint32_t end) {
            each([&](uint32_t h, Elements &x) INLINED {
                vec<half_t, V_COLUMN> y;
#pragma unroll
                for (uint32_t e = 0; e < V_COLUMN; e++) y[e] = round_to<half_t>(upcast(x[e]) * factor);
                if (k_of(h) < end) lds_store(to + k_of(h) * (uint32_t)sizeof(half_t), bit_cast<Words4>(y));
            });
        }
    };
    static __device__ __forceinline__ float power_of_two(uint32_t biased) { return bit_cast<float>(biased << 23); }
    __device__ __forceinline__ float prepare(Column &column, LdsBytes to, float epsilon) const {
        __shared__ WaveValues<float> lds;
        if constexpr (NORMS) column.norm_all(length, epsilon, lds);
        uint32_t exponent = column.exponent(lds);
        column.store(to, power_of_two(127 + 127 + 14 - exponent), rounds * ROUND);
        __syncthreads();
        return power_of_two(exponent - 14);
    }

    // Multiply and promote: a round that is in LDS.
    static __device__ __forceinline__ void multiply(float (&sums)[TILES][2], LdsBytes weights, LdsBytes column,
                                                    const Factors &found) {
        auto vector = [](LdsBytes at) INLINED {
            return *(LDS_MEMORY Words4 *)at;
        };
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            Sums of_block[TILES] = {};
#pragma unroll
            for (int u = b * OF_BLOCK; u < (b + 1) * OF_BLOCK; u++) {
                LdsBytes of_column = column + u * K_VECTOR * (uint32_t)sizeof(half_t);
                Words4 y[2] = {vector(of_column), vector(of_column + 16)};
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    multiply_vector(of_block[i], vector(weights + (u * TILES + i) * COPY_BYTES), y);
            }
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int s = 0; s < 2; s++) sums[i][s] = math::fma(of_block[i].of(s), found.of[b][i], sums[i][s]);
        }
    }

    // Sums of a tile's rows, of each warp. There are two, so that one barrier a tile is enough.
    using Shared = float[WARPS][ROWS];

    // Reduce: the warps' sums of a row, in their order.
    static __device__ __forceinline__ float sum_of(const Shared &shared, uint32_t row) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += shared[w][row];
        return sum;
    }
    static __device__ __forceinline__ void leave(Shared &shared, const float (&sums)[TILES][2], uint32_t lane) {
        if (lane >= 4) return;
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int s = 0; s < 2; s++) shared[threadIdx.x / 32][i * Atom::ROW_LANES + 2 * lane + s] = sums[i][s];
    }

    // The product of `problem`, whose column is x or rms_norm(x) * norm. A grid of any number of workgroups.
    __device__ __forceinline__ void run(const MatmulProblem &problem, const T *x, const T *norm, float epsilon) {
        __shared__ Shared meeting[2];
        LdsBytes column_lds = (LdsBytes)dynamic_lds + STAGES * STAGE_BYTES;
        Copies copies(*this);
        Cursor scaled = first();
        Factors following = load_factors(scaled);
        Column column;
        column.load(x, norm, length);
        // Or the assembler puts it off.
        wave_fence();
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) copies.next();
        float inverse = prepare(column, column_lds, epsilon);
        T *result = (T *)problem.gemm.c;
        ScaledEpilogue<T> epilogue(problem, result, false, 0);
        uint32_t slot = 0, parity = 0;
#pragma unroll 1
        for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, parity ^= 1) {
            uint32_t row = tile * STORED + threadIdx.x;
            bool stores = threadIdx.x < STORED && row < rows;
            T early = stores ? epilogue.epilogue.residual_of(row, 0) : T();
            float sums[TILES][2] = {};
            uint32_t k = own_k;
#pragma unroll 1
            for (uint32_t round = 0; round < rounds; round++, k += ROUND) {
                Factors found = following;
                following = load_factors(scaled);
                copies.next();
                wait_for_copies<STAGES - 1>();
                multiply(sums, copies.lane_lds + slot, column_lds + k * (uint32_t)sizeof(half_t), found);
                slot = next_slot(slot);
            }
            leave(meeting[parity], sums, lane);
            __syncthreads();
            if (stores) {
                float sum = sum_of(meeting[parity], threadIdx.x) * inverse;
                if constexpr (GATED) {
                    float up = sum_of(meeting[parity], threadIdx.x + STORED) * inverse;
                    result[row] = round_to<T>(activated<T>(sum, problem.activation) * up);
                } else {
                    epilogue.store(row, 0, sum, early);
                }
            }
        }
    }
};
#endif
