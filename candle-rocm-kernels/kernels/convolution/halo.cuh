// Convolutions of 3 x 3 taps, and their gradients of the data, with stride 1 along x and as many places of the result
// along x as of the image, which lie together there. A K-block is all taps of 16 channels: a workgroup reads each pixel
// once, or once for each line of taps, and its channels are put together on the way to LDS, so that what a lane
// multiplies at any tap is one read of 16 bytes, at a distance that is the same for all lanes.
//
//   load      the next K-block, image and matrix -> registers
//   multiply  this K-block: for each tap, LDS -> registers -> sums
//   stage     the next K-block, registers -> LDS, when all have multiplied
//
// LDS, of the image: lines of WIDTH pixels and so many zeros behind them as taps reach; between planes lines of zeros,
// likewise. Where a tile's lines with their neighbours do not fit, what each of the three lines of taps meets, apart.
// Of the matrix: a stage for each tap.
#pragma once
#include "convolution/tile.cuh"

// How weights lie in memory: all taps of a channel together, as Candle has them, or channels, as transposed ones have.
enum class Weights { TAPS_TOGETHER, CHANNELS_TOGETHER };

static constexpr int HALO_TAPS = 3, HALO_CHUNKS = 2, HALO_CHANNELS = 8;

// Where pixels lie in LDS, in pixels: rows are places of results, taps add the same to all.
struct HaloPlaces {
    uint32_t width, height; // with zeros, of the lines and planes that places are counted in
    uint32_t of_line;       // between lines of taps
    int32_t first;          // of what is in LDS
    uint32_t count;         // of a part, of which there is one, or one for each line of taps
    uint32_t before;        // from there to the tile's first row at tap 0
    bool is_whole;

    static __device__ __forceinline__ uint32_t reach(const ConvolutionAxis &axis, int32_t first) {
        int32_t last = first + (HALO_TAPS - 1) * axis.k_step;
        uint32_t a = (uint32_t)(first < 0 ? -first : first), b = (uint32_t)(last < 0 ? -last : last);
        return a < b ? b : a;
    }
    __device__ __forceinline__ uint32_t of_row(const ConvolutionProblem &p, const Place &row) const {
        return ((row.outer * p.z.rows.value + row.z) * height + row.y) * width + row.x;
    }
    // `most` pixels fit. Lines begin at whole units of so many.
    __device__ __forceinline__ HaloPlaces(const ConvolutionProblem &p, const Phase &phase, uint32_t first_row,
                                          uint32_t rows, uint32_t most, uint32_t unit) {
        uint32_t of_x = ceil_div(reach(p.x, phase.x.first), unit) * unit, of_y = reach(p.y, phase.y.first);
        Place begin = phase.row(p, first_row), end = phase.row(p, min_of(first_row + rows, phase.rows) - 1);
        width = p.x.rows.value + of_x;
        height = p.y.rows.value + of_y;
        uint32_t lead = of_y * width + of_x, from = of_row(p, begin) / 2 * 2;
        count = (of_row(p, end) - from + 2 + 2 * lead) / 2 * 2;
        is_whole = p.y.row_step == 1 && p.y.size == (int32_t)p.y.rows.value && count <= most;
        int32_t to_line;
        if (is_whole) {
            of_line = (uint32_t)p.y.k_step * width;
            to_line = phase.y.first * (int32_t)width;
        } else {
            height = p.y.rows.value, lead = of_x, from = of_row(p, begin) / 2 * 2;
            count = (of_row(p, end) - from + 2 + 2 * lead) / 2 * 2;
            of_line = count, to_line = 0;
        }
        first = (int32_t)(from - lead);
        before = lead + (uint32_t)(phase.x.first + to_line) - from;
    }
};

// The image's pixels that a tile of ROWS rows meets. A thread reads units: so many neighbours of 8 channels.
template <int ROWS, int THREADS, int UNIT> struct HaloImage {
    static constexpr int MOST = HALO_TAPS * (ROWS + 16), CHUNK_PITCH = MOST * 16, BYTES = HALO_CHUNKS * CHUNK_PITCH;
    static constexpr int COUNT = ceil_div(HALO_CHUNKS * MOST / UNIT, THREADS);
    static_assert(UNIT == 1 || UNIT == 2, "what a register holds of a channel");

    GatheredMemory memory;
    uint32_t offset[COUNT], to[COUNT], step; // in memory and in LDS
    bool is_there[COUNT];
    typename conditional<UNIT == 2, uint32_t, uint16_t>::type held[COUNT][HALO_CHANNELS];

    // `lds` gets zeros for what is outside, once for all K-blocks.
    __device__ __forceinline__ HaloImage(const ConvolutionProblem &p, const Phase &phase, const HaloPlaces &places,
                                         LdsBytes lds)
        : memory((const uint16_t *)p.image + phase.image), step((uint32_t)p.image_k * 2) {
        uint32_t of_chunk = places.count / UNIT * (places.is_whole ? 1 : HALO_TAPS), units = of_chunk * HALO_CHUNKS;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            uint32_t number = threadIdx.x + i * THREADS;
            uint32_t chunk = number >= of_chunk, pixel = UNIT * (number - chunk * of_chunk);
            Coordinates at;
            uint32_t outer = 0;
            is_there[i] = number < units && find(p, phase, places, pixel, at, outer);
            uint32_t in_image = outer * (uint32_t)p.image_row + image_offset<uint32_t>(p, at);
            offset[i] = is_there[i] ? in_image * 2 + chunk * HALO_CHANNELS * step : 0;
            to[i] = chunk * CHUNK_PITCH + pixel * 16;
            if (number < units && !is_there[i])
#pragma unroll
                for (int j = 0; j < UNIT; j++) lds_store(lds + to[i] + j * 16, WordVector<4>::type{});
        }
    }
    // What the pixel is of the image, if it is there.
    static __device__ __forceinline__ bool find(const ConvolutionProblem &p, const Phase &phase,
                                                const HaloPlaces &places, uint32_t pixel, Coordinates &at,
                                                uint32_t &outer) {
        uint32_t part = places.is_whole ? 0 : (pixel >= places.count) + (pixel >= 2 * places.count);
        uint32_t place = (uint32_t)places.first + pixel - part * places.count;
        uint32_t line = place / places.width, plane = line / places.height;
        auto [image, z] = divided(plane, p.z.rows);
        outer = image;
        at.z = (int32_t)z * p.z.row_step + phase.z.first;
        at.y = (int32_t)(line - plane * places.height);
        if (!places.is_whole) at.y = at.y * p.y.row_step + phase.y.first + (int32_t)part * p.y.k_step;
        at.x = (int32_t)(place - line * places.width);
        return (int32_t)place >= 0 && outer < p.row_outers.value && is_inside(p, at, {0, 0, 0});
    }

    // From this channel on. What is not there reads something that is not used.
    __device__ __forceinline__ void load(uint32_t channel) {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
            for (int c = 0; c < HALO_CHANNELS; c++) {
                if constexpr (UNIT == 2) held[i][c] = memory.read_32_from((channel + c) * step, offset[i]);
                else held[i][c] = memory.read_16_from((channel + c) * step, offset[i]);
            }
    }
    __device__ __forceinline__ void stage(LdsBytes lds) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (!is_there[i]) continue;
            if constexpr (UNIT == 2) store_two(lds + to[i], held[i]);
            else {
                WordVector<4>::type words;
#pragma unroll
                for (int c = 0; c < HALO_CHANNELS; c += 2) words[c / 2] = held[i][c] | (uint32_t)held[i][c + 1] << 16;
                lds_store(lds + to[i], words);
            }
        }
    }
    // Eight lanes take turns at LDS: four of them write their first pixel before their second, four after it.
    static __device__ __forceinline__ void store_two(LdsBytes to, const uint32_t (&channels)[HALO_CHANNELS]) {
        bool is_late = threadIdx.x % 8 >= 4;
        uint32_t early = is_late ? byte_selector(2, 3, 6, 7) : byte_selector(0, 1, 4, 5);
        uint32_t late = is_late ? byte_selector(0, 1, 4, 5) : byte_selector(2, 3, 6, 7);
        WordVector<4>::type first, second;
#pragma unroll
        for (int c = 0; c < HALO_CHANNELS; c += 2) {
            first[c / 2] = permute_bytes(channels[c], channels[c + 1], early);
            second[c / 2] = permute_bytes(channels[c], channels[c + 1], late);
        }
        lds_store(to + (is_late ? 16 : 0), first);
        lds_store(to + (is_late ? 0 : 16), second);
    }
};

// The matrix, from which a thread stages units: all taps of 8 channels of a column.
template <class T, class S, Weights WEIGHTS> struct HaloMatrix {
    using Stage = ::Stage<T, S::N, HALO_CHUNKS>;
    static constexpr int TAPS = HALO_TAPS * HALO_TAPS, BYTES = TAPS * Stage::BYTES;
    // Taps together: a wavefront reads its columns' vectors one after another, and exchanges them in LDS.
    static constexpr bool EXCHANGED = WEIGHTS == Weights::TAPS_TOGETHER;
    static constexpr int WAVES = S::THREADS / S::WAVE, OF_WAVE = S::N / WAVES, VECTORS = TAPS * HALO_CHUNKS;
    static constexpr int COLUMN_PITCH = (VECTORS + 1) * 16, WAVE_PITCH = OF_WAVE * COLUMN_PITCH;
    static_assert(WAVES * WAVE_PITCH <= BYTES && OF_WAVE * HALO_CHUNKS <= S::WAVE, "the exchange fits");
    static constexpr int LOADS = EXCHANGED ? ceil_div(OF_WAVE * VECTORS, S::WAVE) : TAPS;
    using Words = WordVector<4>::type;

    GatheredMemory memory;
    static constexpr int OFFSETS = EXCHANGED ? LOADS : 1;
    uint32_t offset[OFFSETS], step, tap_y, tap_x;
    Words held[LOADS > TAPS ? LOADS : TAPS];

    static __device__ __forceinline__ uint32_t wave() { return threadIdx.x / S::WAVE; }
    // Of a unit.
    static __device__ __forceinline__ bool mine() {
        return EXCHANGED ? OF_WAVE * HALO_CHUNKS == S::WAVE || lane_id() < OF_WAVE * HALO_CHUNKS
                         : S::THREADS == S::N * HALO_CHUNKS || threadIdx.x < S::N * HALO_CHUNKS;
    }
    static __device__ __forceinline__ uint32_t column() {
        return EXCHANGED ? wave() * OF_WAVE + lane_id() % OF_WAVE : threadIdx.x / HALO_CHUNKS;
    }
    static __device__ __forceinline__ uint32_t chunk() {
        return EXCHANGED ? lane_id() / OF_WAVE : threadIdx.x % HALO_CHUNKS;
    }
    // Of a vector that is exchanged.
    static __device__ __forceinline__ uint32_t column_of(int i) { return (lane_id() + i * S::WAVE) / VECTORS; }
    static __device__ __forceinline__ uint32_t vector_of(int i) { return (lane_id() + i * S::WAVE) % VECTORS; }

    __device__ __forceinline__ HaloMatrix(const ConvolutionProblem &p, const Phase &phase, uint32_t first_column)
        : memory((const T *)p.matrix + phase.matrix), step((uint32_t)p.matrix_k * 2), tap_y((uint32_t)p.y.matrix * 2),
          tap_x((uint32_t)p.x.matrix * 2) {
        // Columns behind the last are read as the last, and not stored.
#pragma unroll
        for (int i = 0; i < OFFSETS; i++) {
            uint32_t mine = EXCHANGED ? wave() * OF_WAVE + column_of(i) : column();
            offset[i] = min_of(first_column + mine, p.columns - 1) * (uint32_t)p.matrix_column * 2 +
                        (EXCHANGED ? vector_of(i) * 16 : chunk() * HALO_CHANNELS * step);
        }
    }
    __device__ __forceinline__ void load(uint32_t channel) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            uint32_t tap = EXCHANGED ? 0 : i / HALO_TAPS * tap_y + i % HALO_TAPS * tap_x;
            held[i] = memory.read_128_from(channel * step + tap, offset[EXCHANGED ? i : 0]);
        }
    }
    // Lanes get their units, through a part of LDS of each wavefront.
    __device__ __forceinline__ void exchange(LdsBytes lds) {
        LdsBytes own = lds + wave() * WAVE_PITCH;
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            if (column_of(i) < OF_WAVE) lds_store(own + column_of(i) * COLUMN_PITCH + vector_of(i) * 16, held[i]);
        wave_fence();
        if (!mine()) return;
#pragma unroll
        for (int i = 0; i < TAPS; i++)
            held[i] = lds_load<Words>(own + lane_id() % OF_WAVE * COLUMN_PITCH + (chunk() * TAPS + i) * 16);
    }
    // Two channels of a tap: elements TAPS apart.
    __device__ __forceinline__ uint32_t two(int tap, int channel) const {
        int first = channel * TAPS + tap, second = first + TAPS;
        int low = first % 2 * 2, high = 4 + second % 2 * 2;
        return permute_bytes(held[first / 8][first % 8 / 2], held[second / 8][second % 8 / 2],
                             byte_selector(low, low + 1, high, high + 1));
    }
    __device__ __forceinline__ void stage(LdsBytes lds) const {
        if (!mine()) return;
        LdsBytes to = lds + Stage::lds_offset(column(), chunk());
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++) {
            Words words = held[tap];
            if constexpr (EXCHANGED)
#pragma unroll
                for (int w = 0; w < 4; w++) words[w] = two(tap, 2 * w);
            lds_store(to + tap * Stage::BYTES, words);
        }
    }
};

template <class T, class S, int UNIT, Weights WEIGHTS> struct HaloLoop {
    static_assert(sizeof(T) == 2, "channels are put together by halves of words");
    using Atom = MmaAtom<T>;
    using Image = HaloImage<S::M, S::THREADS, UNIT>;
    using Matrix = HaloMatrix<T, S, WEIGHTS>;
    using Fragment = typename Atom::Fragment;
    using Words = typename Fragment::Words;
    static constexpr bool IS_GRADIENT = false;
    static constexpr int OPERANDS = Image::BYTES + Matrix::BYTES, ROWS_AT = OPERANDS, LDS_BYTES = ROWS_AT + S::M * 4;
    static constexpr int STEPS = HALO_CHUNKS / Atom::STEP_CHUNKS, CHANNELS = HALO_CHUNKS * HALO_CHANNELS;
    using Tile = WaveTile<T, S, OPERANDS>;
    static constexpr int BLOCKS = Tile::BLOCKS_M;
    static_assert(Tile::LDS_BYTES == OPERANDS && LDS_BYTES <= LDS_MOST, "results fit where operands were");

    const ConvolutionProblem &p;
    const Phase &phase;
    LdsBytes lds;
    Image &image;
    Matrix &matrix;
    Tile &tile;
    // Between lines of taps and between taps of a line, and where a lane's row of each block is at the first.
    uint32_t of_line, of_tap, place[BLOCKS];

    __device__ __forceinline__ void find_places(const HaloPlaces &places, uint32_t first_row) {
        of_line = places.of_line * 16, of_tap = (uint32_t)p.x.k_step * 16;
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            uint32_t row = first_row + tile.row + i * Atom::ROWS + Atom::a_row(lane_id());
            uint32_t at = places.of_row(p, phase.row(p, min_of(row, phase.rows - 1))) + places.before;
            place[i] = at * 16 + Atom::a_chunk(lane_id()) * Image::CHUNK_PITCH;
        }
    }
    __device__ __forceinline__ void load(uint32_t k_block) {
        matrix.load(k_block * CHANNELS);
        image.load(k_block * CHANNELS);
    }
    __device__ __forceinline__ void stage() {
        LdsBytes of_matrix = lds + Image::BYTES;
        if constexpr (Matrix::EXCHANGED) matrix.exchange(of_matrix);
        image.stage(lds);
        if constexpr (Matrix::EXCHANGED) lds_barrier();
        matrix.stage(of_matrix);
        lds_barrier();
    }
    __device__ __forceinline__ void multiply() {
        uint32_t lane = lane_id();
        Operand<T, typename Matrix::Stage, Tile::BLOCKS_N, Atom::COLUMNS> of_b(tile.column + Atom::b_column(lane),
                                                                               Atom::b_chunk(lane));
        Fragment of_a[BLOCKS];
#pragma unroll
        for (int line = 0; line < HALO_TAPS; line++)
#pragma unroll
            for (int tap = 0; tap < HALO_TAPS; tap++)
#pragma unroll
                for (int step = 0; step < STEPS; step++)
#pragma unroll
                    for (int load = 0; load < Atom::LOADS; load++) {
                        LdsBytes from = lds + line * of_line + tap * of_tap;
#pragma unroll
                        for (int i = 0; i < BLOCKS; i++)
#pragma unroll
                            for (int c = 0; c < Atom::CHUNKS; c++)
                                of_a[i].chunk[c] = Atom::template load<Words>(
                                    from + place[i] + (step * Atom::STEP_CHUNKS + c) * Image::CHUNK_PITCH +
                                    load * (int)sizeof(Words));
                        of_b.load(lds + Image::BYTES + (line * HALO_TAPS + tap) * Matrix::Stage::BYTES, step, load);
                        tile.multiply(of_a, of_b.fragment);
                        // Reading ahead, the compiler would run out of registers.
                        if (S::WAVE == 32) tile.opt_barrier_ordered();
                    }
    }
    __device__ __forceinline__ void multiply_all() {
        uint32_t k_blocks = p.k_outers.value / CHANNELS;
        load(0);
        stage();
#pragma unroll 1
        for (uint32_t k_block = 0; k_block < k_blocks; k_block++) {
            bool more = k_block + 1 < k_blocks;
            // Again the last, behind it: without a branch the compiler spreads the loads.
            load(more ? k_block + 1 : k_block);
            opt_barrier_schedule();
            multiply();
            opt_barrier_schedule();
            lds_barrier();
            if (more) stage();
        }
    }
};

// Grid: x tiles, z groups. Workgroup: S::THREADS.
template <class T, class S, int UNIT, Weights WEIGHTS> __device__ __forceinline__ void convolution_halo(
    const ConvolutionProblem &p) {
    using Loop = HaloLoop<T, S, UNIT, WEIGHTS>;
    __shared__ char lds_array[Loop::LDS_BYTES] __attribute__((aligned(128)));
    TileIndex index = tile_index(p.order, blockIdx.x);
    uint32_t first_row = index.m * S::M, first_column = index.n * S::N;
    Phase phase(p, blockIdx.z);
    HaloPlaces places(p, phase, first_row, S::M, Loop::Image::MOST, UNIT);
    typename Loop::Image image(p, phase, places, (LdsBytes)lds_array);
    typename Loop::Matrix matrix(p, phase, first_column);
    typename Loop::Tile tile;
    Loop loop = {p, phase, (LdsBytes)lds_array, image, matrix, tile, 0, 0, {}};
    loop.find_places(places, first_row);
    loop.multiply_all();
    store_convolution<T, S>(loop, first_row, first_column, blockIdx.z, 0);
}
