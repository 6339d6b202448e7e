// The operands of a convolution on their way to LDS: K-blocks of rows that a workgroup gathers from the image, and of
// columns of the matrix. A thread holds chunks of 16 bytes of k, which it gathers element by element or reads at once.
//
// What elements of k add to a row's or a column's place stands in LDS (KTable), computed once for each workgroup while
// the K-block before is multiplied: the loads need no division. A row that is outside of the image at a tap has a bit
// set for it (masked), or its coordinates are compared; elements outside read as 0 without a branch.
//
// Lanes have consecutive rows, whose elements lie together in memory where rows are places along x; or consecutive
// elements of k, where these are places (along_k.cuh). Where both operands' channels are neighbours, chunks are read at
// once, without a table (channels.cuh).
#pragma once
#include "convolution/places.cuh"
#include "matmul/loads/k_block.cuh"
#include "matmul/main_loop/shape.cuh"

// Memory of at most 2^32 - 2^8 bytes from an address on that is the same in all lanes.
class GatheredMemory {
#if defined(__HIP__) && __has_builtin(__builtin_amdgcn_raw_buffer_load_b16)
    // Raw buffers' format and bounds: beyond these, where NOWHERE is, zeros are read.
#if defined(__GFX9__)
    static constexpr int FORMAT = 0x00020000;
#elif defined(__GFX10__)
    static constexpr int FORMAT = 0x31014000;
#else
    static constexpr int FORMAT = 0x31004000;
#endif
    static constexpr uint32_t BYTES = 0xffffff00;
    __amdgpu_buffer_rsrc_t memory;

public:
    // The offset of what reads as 0. Of a vector the compiler may read its last bytes alone, behind it, where 2^32 must
    // not be reached.
    static constexpr uint32_t NOWHERE = BYTES;
    __device__ __forceinline__ explicit GatheredMemory(const void *at)
        : memory(__builtin_amdgcn_make_buffer_rsrc((void *)at, 0, (int)BYTES, FORMAT)) {}
    __device__ __forceinline__ uint16_t read_16(uint32_t offset) const {
        return __builtin_amdgcn_raw_buffer_load_b16(memory, offset, 0, 0);
    }
    __device__ __forceinline__ uint32_t read_32(uint32_t offset) const {
        return __builtin_amdgcn_raw_buffer_load_b32(memory, offset, 0, 0);
    }
    __device__ __forceinline__ WordVector<2>::type read_64(uint32_t offset) const {
        return bit_cast<WordVector<2>::type>(__builtin_amdgcn_raw_buffer_load_b64(memory, offset, 0, 0));
    }
    __device__ __forceinline__ WordVector<4>::type read_128(uint32_t offset) const {
        return bit_cast<WordVector<4>::type>(__builtin_amdgcn_raw_buffer_load_b128(memory, offset, 0, 0));
    }
    __device__ __forceinline__ uint16_t read_16_from(uint32_t first, uint32_t offset) const {
        return __builtin_amdgcn_raw_buffer_load_b16(memory, offset, first, 0);
    }
    __device__ __forceinline__ uint32_t read_32_from(uint32_t first, uint32_t offset) const {
        return __builtin_amdgcn_raw_buffer_load_b32(memory, offset, first, 0);
    }
    __device__ __forceinline__ WordVector<4>::type read_128_from(uint32_t first, uint32_t offset) const {
        return bit_cast<WordVector<4>::type>(__builtin_amdgcn_raw_buffer_load_b128(memory, offset, first, 0));
    }
#elif defined(__HIP__)
    const char *memory;

    // clang 18 and older.
    template <class V> __device__ __forceinline__ V read(uint32_t offset) const {
        typedef typename Words<sizeof(V)>::type Raw;
        if (offset == ~0u) return V{};
        return bit_cast<V>(*(const GLOBAL_MEMORY Raw *)(memory + offset));
    }

public:
    static constexpr uint32_t NOWHERE = ~0u;
    __device__ __forceinline__ explicit GatheredMemory(const void *at) : memory((const char *)at) {}
    __device__ __forceinline__ uint16_t read_16(uint32_t offset) const { return read<uint16_t>(offset); }
    __device__ __forceinline__ uint32_t read_32(uint32_t offset) const { return read<uint32_t>(offset); }
    __device__ __forceinline__ WordVector<2>::type read_64(uint32_t offset) const {
        return read<WordVector<2>::type>(offset);
    }
    __device__ __forceinline__ WordVector<4>::type read_128(uint32_t offset) const {
        return read<WordVector<4>::type>(offset);
    }
    __device__ __forceinline__ uint16_t read_16_from(uint32_t first, uint32_t offset) const {
        return read<uint16_t>(first + offset);
    }
    __device__ __forceinline__ uint32_t read_32_from(uint32_t first, uint32_t offset) const {
        return read<uint32_t>(first + offset);
    }
    __device__ __forceinline__ WordVector<4>::type read_128_from(uint32_t first, uint32_t offset) const {
        return read<WordVector<4>::type>(first + offset);
    }
#else
    const __attribute__((address_space(1))) char *memory;

public:
    static constexpr uint32_t NOWHERE = ~0u;
    __device__ __forceinline__ explicit GatheredMemory(const void *at)
        : memory((const __attribute__((address_space(1))) char *)at) {}
    // Predicated, so that no branch stands between loads.
    __device__ __forceinline__ uint16_t read_16(uint32_t offset) const {
        uint16_t half;
        asm volatile("{\n\t.reg .pred there;\n\tmov.u16 %0, 0;\n\tsetp.ne.u32 there, %2, 0xffffffff;\n\t"
                     "@there ld.global.nc.u16 %0, [%1];\n\t}"
                     : "=&h"(half)
                     : "l"(memory + offset), "r"(offset));
        return half;
    }
    __device__ __forceinline__ uint32_t read_32(uint32_t offset) const {
        uint32_t word;
        asm volatile("{\n\t.reg .pred there;\n\tmov.u32 %0, 0;\n\tsetp.ne.u32 there, %2, 0xffffffff;\n\t"
                     "@there ld.global.nc.u32 %0, [%1];\n\t}"
                     : "=&r"(word)
                     : "l"(memory + offset), "r"(offset));
        return word;
    }
    __device__ __forceinline__ WordVector<2>::type read_64(uint32_t offset) const {
        uint32_t x, y;
        asm volatile("{\n\t.reg .pred there;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\t"
                     "setp.ne.u32 there, %3, 0xffffffff;\n\t@there ld.global.nc.v2.u32 {%0, %1}, [%2];\n\t}"
                     : "=&r"(x), "=&r"(y)
                     : "l"(memory + offset), "r"(offset));
        return {x, y};
    }
    __device__ __forceinline__ WordVector<4>::type read_128(uint32_t offset) const {
        uint32_t x, y, z, w;
        asm volatile(
            "{\n\t.reg .pred there;\n\tmov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
            "setp.ne.u32 there, %5, 0xffffffff;\n\t@there ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
            : "=&r"(x), "=&r"(y), "=&r"(z), "=&r"(w)
            : "l"(memory + offset), "r"(offset));
        return {x, y, z, w};
    }
    __device__ __forceinline__ uint16_t read_16_from(uint32_t first, uint32_t offset) const {
        return *(const __attribute__((address_space(1))) uint16_t *)(memory + first + offset);
    }
    __device__ __forceinline__ uint32_t read_32_from(uint32_t first, uint32_t offset) const {
        return *(const __attribute__((address_space(1))) uint32_t *)(memory + first + offset);
    }
    __device__ __forceinline__ WordVector<4>::type read_128_from(uint32_t first, uint32_t offset) const {
        return *(const __attribute__((address_space(1))) WordVector<4>::type *)(memory + first + offset);
    }
#endif
    // read_*_from reads what is there for certain: `first`, which is the same in all lanes, and an offset.
};

// 16 bytes on their way: four words, or eight elements of 16 bits that were read by themselves. Nothing is done to them
// before they are staged, so that nobody waits for them earlier.
template <bool HALVES> struct SixteenBytes {
    typename conditional<HALVES, uint16_t, uint32_t>::type part[HALVES ? 8 : 4];

    __device__ __forceinline__ void read(const GatheredMemory &memory, uint32_t offset) {
        auto words = memory.read_128(offset);
#pragma unroll
        for (int i = 0; i < 4; i++) part[i] = words[i];
    }
    __device__ __forceinline__ WordVector<4>::type words() const {
        WordVector<4>::type words;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (HALVES) words[i] = part[2 * i] | (uint32_t)part[2 * i + 1] << 16;
            else words[i] = part[i];
        }
        return words;
    }
};

// A chunk of an operand, which is read whole or gathered.
template <class T, bool GATHERED> struct Chunk : SixteenBytes<GATHERED && sizeof(T) == 2> {
    static constexpr int V = VEC16<T>;
    using SixteenBytes<GATHERED && sizeof(T) == 2>::part;

    // Element i.
    __device__ __forceinline__ void gather(int i, const GatheredMemory &memory, uint32_t offset) {
        if constexpr (sizeof(T) == 2) part[i] = memory.read_16(offset);
        else if constexpr (sizeof(T) == 4) part[i] = memory.read_32(offset);
        else {
            auto two = memory.read_64(offset);
            part[2 * i] = two[0], part[2 * i + 1] = two[1];
        }
    }
};

// How operands are read: the image element by element, with a bit for each tap (MASKED) or by comparing coordinates
// (COMPARED); the matrix a chunk at once but for ELEMENTS, whose image is compared, and ALONG_K, whose lanes have
// consecutive elements of k of both.
enum class Gather { MASKED, COMPARED, ELEMENTS, ALONG_K };

// What ENTRIES elements of k, of several K-blocks, add to places, in LDS.
template <class T> struct KTable {
    static constexpr int ENTRIES = 64;
    // A tap that rows have no bit for but the one that is set: k ends before it.
    static constexpr uint32_t BEYOND = 31;
    struct Image {
        uint32_t offset; // in bytes
        uint32_t tap;
    };
    struct Matrix {
        uint32_t offset;  // in bytes
        uint32_t outside; // no bits, or all
    };
    struct Compared {
        int32_t z, y, x, reserved;
    };
    static constexpr int IMAGE = 0, MATRIX = ENTRIES * (int)sizeof(Image),
                         COMPARED = MATRIX + ENTRIES * (int)sizeof(Matrix),
                         BYTES = COMPARED + ENTRIES * (int)sizeof(Compared);

    // Those of a k that is even, and of the next.
    template <class V> struct Two {
        V v[2];
    };
    static __device__ __forceinline__ Two<Image> images(LdsBytes table, uint32_t k) {
        return bit_cast<Two<Image>>(lds_load<WordVector<4>::type>(table + IMAGE + k * sizeof(Image)));
    }
    static __device__ __forceinline__ Two<Matrix> matrices(LdsBytes table, uint32_t k) {
        return bit_cast<Two<Matrix>>(lds_load<WordVector<4>::type>(table + MATRIX + k * sizeof(Matrix)));
    }
    static __device__ __forceinline__ Image image(LdsBytes table, uint32_t k) {
        return bit_cast<Image>(lds_load<WordVector<2>::type>(table + IMAGE + k * sizeof(Image)));
    }
    static __device__ __forceinline__ Matrix matrix(LdsBytes table, uint32_t k) {
        return bit_cast<Matrix>(lds_load<WordVector<2>::type>(table + MATRIX + k * sizeof(Matrix)));
    }
    static __device__ __forceinline__ Coordinates compared(LdsBytes table, uint32_t k) {
        auto words = lds_load<WordVector<4>::type>(table + COMPARED + k * sizeof(Compared));
        return {(int32_t)words[0], (int32_t)words[1], (int32_t)words[2]};
    }

    // Writes the elements from `begin` on, of which those from `end` on are outside. The first threads do.
    static __device__ __forceinline__ void write(LdsBytes table, const ConvolutionProblem &p, const Phase &phase,
                                                 uint32_t begin, uint32_t end) {
        uint32_t i = threadIdx.x, number = begin + i;
        if (i >= ENTRIES) return;
        bool is_there = number < end;
        Place k = phase.k(p, is_there ? number : 0);
        Coordinates at = k_coordinates(p, k);
        uint32_t tap = (k.z * phase.y.taps.value + k.y) * phase.x.taps.value + k.x;
        uint32_t in_image = k.outer * (uint32_t)p.image_k + image_offset<uint32_t>(p, at);
        lds_store(table + IMAGE + i * sizeof(Image),
                  WordVector<2>::type{in_image * (uint32_t)sizeof(T), is_there ? tap : BEYOND});
        lds_store(table + MATRIX + i * sizeof(Matrix),
                  WordVector<2>::type{matrix_offset<uint32_t>(p, k) * (uint32_t)sizeof(T), is_there ? 0 : ~0u});
        lds_store(table + COMPARED + i * sizeof(Compared),
                  WordVector<4>::type{(uint32_t)at.z, (uint32_t)at.y, (uint32_t)(is_there ? at.x : OUTSIDE), 0});
    }
};

// The shape of a tile that K_GROUPS groups of its wavefronts make, each of every K_GROUPS-th K-block of k.
template <class TILE, int K_GROUPS_ = 1> struct InKGroups : TILE {
    static constexpr int K_GROUPS = K_GROUPS_, OF_K_GROUP = TILE::THREADS;
    // This thread's number in its K group.
    static __device__ __forceinline__ uint32_t thread() {
        return K_GROUPS == 1 ? threadIdx.x : threadIdx.x % OF_K_GROUP;
    }
    static __device__ __forceinline__ uint32_t k_group() {
        return K_GROUPS == 1 ? 0 : uniform(threadIdx.x / OF_K_GROUP);
    }
};
template <int M, int N, int WAVES_M, int WAVES_N, int STAGE_BYTES, int K_GROUPS = 1>
using ConvolutionShape = InKGroups<MatmulShape<M, N, WAVES_M, WAVES_N, STAGE_BYTES, 1>, K_GROUPS>;

// A thread's chunks of an operand of ROWS rows: whose row and chunk they are.
template <class T, int ROWS, class S, bool BY_ROWS> struct Chunks {
    static constexpr int TOTAL = ROWS * S::VECTORS, COUNT = TOTAL / S::THREADS;
    static constexpr int OF_PASS = S::THREADS / ROWS, ROW_STEP = S::THREADS / S::VECTORS;
    // By rows: a thread has one row; else one chunk of COUNT rows.
    static constexpr int OWN_ROWS = BY_ROWS ? 1 : COUNT;
    static_assert(TOTAL % S::THREADS == 0 && S::THREADS % ROWS == 0, "all threads have as many");
    static __device__ __forceinline__ uint32_t row(int i) {
        return BY_ROWS ? S::thread() % ROWS : S::thread() / S::VECTORS + i * ROW_STEP;
    }
    static __device__ __forceinline__ uint32_t chunk(int i) {
        return BY_ROWS ? S::thread() / ROWS + i * OF_PASS : S::thread() % S::VECTORS;
    }
};

// Where rows of the image begin: an offset in bytes and coordinates of each, in LDS.
template <class T, int ROWS> struct RowTable {
    using Row = WordVector<4>::type;
    static constexpr int BYTES = ROWS * (int)sizeof(Row);

    static __device__ __forceinline__ void write(LdsBytes table, const ConvolutionProblem &p, const Phase &phase,
                                                 uint32_t first_row, uint32_t threads) {
        for (uint32_t i = threadIdx.x; i < ROWS; i += threads) {
            uint32_t number = first_row + i;
            bool is_there = number < phase.rows;
            Place row = phase.row(p, is_there ? number : 0);
            Coordinates at = row_coordinates(p, phase, row);
            uint32_t in_image = row.outer * (uint32_t)p.image_row + image_offset<uint32_t>(p, at);
            lds_store(table + i * sizeof(Row), Row{in_image * (uint32_t)sizeof(T), (uint32_t)at.z, (uint32_t)at.y,
                                                   (uint32_t)(is_there ? at.x : OUTSIDE)});
        }
    }
    // The offset of a row, and whether it is inside at what an element of k adds.
    struct Found {
        uint32_t offset;
        bool is_inside;
    };
    static __device__ __forceinline__ Found find(LdsBytes table, const ConvolutionProblem &p, uint32_t row,
                                                 const Coordinates &by) {
        Row of = lds_load<Row>(table + row * sizeof(Row));
        return {of[0], is_inside_at_once(p, {(int32_t)of[1], (int32_t)of[2], (int32_t)of[3]}, by)};
    }
};

// Rows that are gathered from the image.
template <class T, int ROWS, class S, Gather GATHER> struct ImageBlock {
    static constexpr bool MASKED = GATHER == Gather::MASKED;
    using Stage = typename S::template Stage<T, ROWS>;
    using Mine = Chunks<T, ROWS, S, true>;
    static constexpr int V = VEC16<T>, DEPTH = S::STAGE_BYTES / (int)sizeof(T);
    using Table = KTable<T>;

    GatheredMemory memory;
    uint32_t offset, outside;
    Coordinates at;
    Chunk<T, true> held[Mine::COUNT];

    // What a block has in LDS beside what it stages.
    static constexpr int ROWS_BYTES = 0;

    __device__ __forceinline__ ImageBlock(const ConvolutionProblem &p, const Phase &phase, uint32_t first_row, LdsBytes)
        : memory((const T *)p.image + phase.image) {
        uint32_t number = first_row + Mine::row(0);
        bool is_there = number < phase.rows;
        Place row = phase.row(p, is_there ? number : 0);
        at = row_coordinates(p, phase, row);
        offset = (row.outer * (uint32_t)p.image_row + image_offset<uint32_t>(p, at)) * (uint32_t)sizeof(T);
        if (!is_there) at.x = OUTSIDE;
        if constexpr (MASKED) outside = mask(p, phase, at);
    }

    // The taps at which a row is outside.
    static __device__ __forceinline__ uint32_t mask(const ConvolutionProblem &p, const Phase &phase,
                                                    const Coordinates &row) {
        uint32_t along_x = 0, inside = 0, bit = 0;
        for (uint32_t x = 0; x < phase.x.taps.value; x++)
            along_x |= (uint32_t)((uint32_t)(row.x + (int32_t)x * p.x.k_step) < (uint32_t)p.x.size) << x;
        for (uint32_t z = 0; z < phase.z.taps.value; z++)
            for (uint32_t y = 0; y < phase.y.taps.value; y++, bit += phase.x.taps.value) {
                bool is_line = (uint32_t)(row.z + (int32_t)z * p.z.k_step) < (uint32_t)p.z.size &&
                               (uint32_t)(row.y + (int32_t)y * p.y.k_step) < (uint32_t)p.y.size;
                if (is_line) inside |= along_x << bit;
            }
        return ~inside;
    }

    // All bits if a row is outside at a tap.
    static __device__ __forceinline__ uint32_t bit_of(uint32_t mask, uint32_t tap) {
#if defined(__HIP__)
        return (uint32_t)__builtin_amdgcn_sbfe((int)mask, tap, 1);
#else
        return mask >> tap & 1 ? ~0u : 0;
#endif
    }
    // The offset of the row's element k, which `entry` of the table says.
    __device__ __forceinline__ uint32_t place(const ConvolutionProblem &p, LdsBytes table, uint32_t k,
                                              const typename Table::Image &entry) const {
        uint32_t from = offset + entry.offset;
        if constexpr (MASKED) return from | bit_of(outside, entry.tap);
        return is_inside_at_once(p, at, Table::compared(table, k)) ? from : GatheredMemory::NOWHERE;
    }

    // Reads the K-block whose elements of k are in the table from `k_block` on.
    __device__ __forceinline__ void load(const ConvolutionProblem &p, LdsBytes table, uint32_t k_block) {
#pragma unroll
        for (int i = 0; i < Mine::COUNT; i++) {
            uint32_t first = k_block + Mine::chunk(i) * V;
#pragma unroll
            for (int j = 0; j < V; j += 2) {
                auto k = Table::images(table, first + j);
#pragma unroll
                for (int e = 0; e < 2; e++) held[i].gather(j + e, memory, place(p, table, first + j + e, k.v[e]));
            }
        }
    }
    // Writes what was read to LDS.
    __device__ __forceinline__ void stage(LdsBytes to) const {
#pragma unroll
        for (int i = 0; i < Mine::COUNT; i++)
            Stage::store(to + Stage::lds_offset(Mine::row(i), Mine::chunk(i) * Stage::OF_VECTOR), held[i].words());
    }
};

// Columns of the matrix.
template <class T, int COLUMNS, class S, Gather GATHER> struct MatrixBlock {
    static constexpr bool VECTORS = GATHER != Gather::ELEMENTS;
    using Stage = typename S::template Stage<T, COLUMNS>;
    using Mine = Chunks<T, COLUMNS, S, !VECTORS>;
    static constexpr int V = VEC16<T>, DEPTH = S::STAGE_BYTES / (int)sizeof(T);
    using Table = KTable<T>;

    GatheredMemory memory;
    uint32_t offset[Mine::OWN_ROWS], outside[Mine::OWN_ROWS];
    Chunk<T, !VECTORS> held[Mine::COUNT];

    __device__ __forceinline__ MatrixBlock(const ConvolutionProblem &p, const Phase &phase, uint32_t first_column)
        : memory((const T *)p.matrix + phase.matrix) {
#pragma unroll
        for (int i = 0; i < Mine::OWN_ROWS; i++) {
            uint32_t column = first_column + Mine::row(i);
            offset[i] = column * (uint32_t)p.matrix_column * (uint32_t)sizeof(T);
            outside[i] = column < p.columns ? 0 : ~0u;
        }
    }

    __device__ __forceinline__ void load(LdsBytes table, uint32_t k_block) {
#pragma unroll
        for (int i = 0; i < Mine::COUNT; i++) {
            uint32_t first = k_block + Mine::chunk(i) * V;
            if constexpr (VECTORS) {
                auto k = Table::matrices(table, first).v[0];
                held[i].read(memory, (offset[i] + k.offset) | k.outside | outside[i]);
            } else {
#pragma unroll
                for (int j = 0; j < V; j += 2) {
                    auto k = Table::matrices(table, first + j);
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        held[i].gather(j + e, memory, (offset[0] + k.v[e].offset) | k.v[e].outside | outside[0]);
                }
            }
        }
    }
    __device__ __forceinline__ void stage(LdsBytes to) const {
#pragma unroll
        for (int i = 0; i < Mine::COUNT; i++)
            Stage::store(to + Stage::lds_offset(Mine::row(i), Mine::chunk(i) * Stage::OF_VECTOR), held[i].words());
    }
};
