// Queries, keys and values on their way from global memory to the matrix units.
//
// Keys and queries are copied to LDS as they lie, a head's elements in chunks of 16 bytes; values are transposed on
// the way, so that a chunk has eight keys of one element.
#pragma once
#include "attention/problem.cuh"
#include "attention/atom.cuh"
#include "matmul/main_loop/tile.cuh"

namespace attention {

// The sequence that a workgroup works on, and the heads.
struct Sequence {
    uint32_t batch, head, key_head;
    uint32_t queries, keys;
    uint32_t first_query, first_key; // of its rows, among the tensor's

    __device__ __forceinline__ explicit Sequence(const AttentionProblem &p) {
        batch = blockIdx.z;
        // Workgroups that follow one another have different key heads: those of a key head go to one XCD.
        key_head = blockIdx.x % p.key_heads;
        head = key_head * p.group + blockIdx.x / p.key_heads;
        queries = p.queries, keys = p.keys, first_query = 0, first_key = 0;
        if (p.starts_q) {
            first_query = uniform(p.starts_q[batch]);
            queries = uniform(p.starts_q[batch + 1]) - first_query;
        }
        if (p.starts_k) {
            first_key = uniform(p.starts_k[batch]);
            keys = uniform(p.starts_k[batch + 1]) - first_key;
        }
    }

    // The first of the rows of a tensor that is packed or not.
    template <class T> __device__ __forceinline__ const T *rows(const AttentionTensor &of, bool packed, uint32_t head,
                                                                uint32_t first) const {
        return (const T *)of.at + (packed ? (uint64_t)first * of.row : batch * of.batch) + (uint64_t)head * of.head;
    }
};

// Rows of keys or values, wherever they lie.
template <class T> struct Rows {
    // `lines` follow one another: all keys, or none, where they are in pages.
    const AttentionProblem &p;
    const T *base;
    uint32_t batch, row, keys, lines;

    __device__ __forceinline__ Rows(const AttentionProblem &p, const Sequence &s, const AttentionTensor &of)
        : p(p), batch(s.batch), row(of.row), keys(s.keys), lines(p.pages ? 0 : s.keys) {
        base = p.pages ? (const T *)of.at + (uint64_t)s.key_head * of.head
                       : s.rows<T>(of, p.starts_k, s.key_head, s.first_key);
    }
    // Those of KEYS keys from `first` on, read by a tile: as lines that follow one another, where they are and all are
    // there, and else one by one. Rows past the last repeat it, and do not count. Pages lie `page` elements
    // apart.
    template <int KEYS, class Tile, class Page>
    __device__ __forceinline__ void load(Tile &tile, uint32_t first, Page page) const {
        if (first + KEYS <= lines) {
            tile.load_lines(base + (uint64_t)first * row, row);
        } else if (lines) {
            tile.load([&](uint32_t i) INLINED { return base + (uint64_t)min_of(first + i, keys - 1) * row; });
        } else {
            auto &again = cold_path(p);
            auto pages = (const GLOBAL_MEMORY uint32_t *)again.pages + (uint64_t)batch * again.pages_batch;
            uint32_t page_rows = again.page_rows;
            uint64_t pitch = page(again);
            tile.load([&](uint32_t i) INLINED {
                uint32_t key = min_of(first + i, keys - 1), number = key / page_rows;
                return base + pages[number] * pitch + (uint64_t)(key - number * page_rows) * row;
            });
        }
    }
};

// Where a tile's chunks lie that are copied as they are: readers have rows that follow one another, writers the chunks
// of a row, or, where those are but four, of two.
template <int ROWS, int CHUNKS> struct CopiedLayout {
    static constexpr int CHUNK = 16, SHIFT = CHUNKS >= 8 ? 16 : 128 / CHUNKS, CHUNK_PITCH = ROWS * 16 + SHIFT,
                         BYTES = CHUNKS * CHUNK_PITCH;
    static __host__ __device__ __forceinline__ constexpr uint32_t position(uint32_t row) { return row; }
    static __device__ __forceinline__ uint32_t lds_offset(uint32_t row, uint32_t chunk) {
        return chunk * CHUNK_PITCH + row * CHUNK;
    }
};

// ROWS rows of CHUNKS chunks that THREADS threads copy. What lies beyond a head's elements is 0 in LDS; the row's first
// chunk is read for it.
template <class T, int ROWS, int CHUNKS, int THREADS> struct CopiedTile {
    using Layout = CopiedLayout<ROWS, CHUNKS>;
    static constexpr int TOTAL = ROWS * CHUNKS, VECTORS = ceil_div(TOTAL, THREADS), STEP = THREADS / CHUNKS;
    static_assert(THREADS % CHUNKS == 0, "a thread's vectors have one chunk");
    static constexpr bool DIRECT = false;
    typedef WordVector<4>::type Vector;
    uint32_t chunk = threadIdx.x % CHUNKS, row = threadIdx.x / CHUNKS, dim, from;
    Vector held[VECTORS];

    __device__ __forceinline__ explicit CopiedTile(uint32_t dim) : dim(dim), from(chunk * 8 < dim ? chunk * 16 : 0) {}
    __device__ __forceinline__ bool mine(int i) const {
        return TOTAL % THREADS == 0 || threadIdx.x + i * THREADS < TOTAL;
    }
    // Where it will lie, which is said again when it is staged.
    __device__ __forceinline__ void into(LdsBytes) {}
    // `at` gives the address of a row.
    template <class At> __device__ __forceinline__ void load(At at) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            // Lest all addresses be in registers at once.
            if (i % 4 == 0) opt_barrier_schedule();
            if (mine(i)) held[i] = load_vector<Vector>(at(row + i * STEP), from);
        }
    }
    // Rows lie `pitch` elements apart.
    __device__ __forceinline__ void load_lines(const T *lines, uint32_t pitch) {
        uint32_t offset = row * pitch * 2 + from;
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
            if (mine(i)) held[i] = load_vector<Vector>(lines + (uint64_t)(i * STEP) * pitch, offset);
    }
    // Of these, row `last` stands for those after it.
    __device__ __forceinline__ void load_lines_until(const T *lines, uint32_t pitch, uint32_t last) {
#pragma unroll
        for (int i = 0; i < VECTORS; i++) {
            uint32_t offset = min_of(row + i * STEP, last) * (pitch * 2);
            // A sum of 64 bits would take more registers.
            opt_barrier_value(offset);
            offset += from;
            if (mine(i)) held[i] = load_vector<Vector>(lines, offset);
        }
    }
    __device__ __forceinline__ void stage(LdsBytes to) {
        if (dim < CHUNKS * 8) {
#pragma unroll
            for (Vector &vector : held) {
                vector = chunk * 8 < dim ? vector : Vector(0u);
                // Lest all heads go through this.
                opt_barrier_ordered(vector);
            }
        }
#pragma unroll
        for (int i = 0; i < VECTORS; i++)
            if (mine(i)) lds_store(to + Layout::lds_offset(row, chunk) + i * STEP * 16, held[i]);
    }
    // Straight on to LDS, a few vectors at a time.
    template <class At> __device__ __forceinline__ void copy(At at, LdsBytes to) const {
#pragma unroll 4
        for (int i = 0; i < VECTORS; i++)
            if (mine(i)) {
                Vector vector = load_vector<Vector>(at(row + i * STEP), from);
                lds_store(to + Layout::lds_offset(row, chunk) + i * STEP * 16, chunk * 8 < dim ? vector : Vector(0u));
            }
    }
};

#if defined(LDS_COPIES)
// BLOCKS blocks of a tile's elements, transposed as they are read: chunks have eight rows of one element.
template <class T, class Layout, int BLOCKS> struct TransposedOperand {
    using Atom = MmaAtom<T>;
    using Fragment = typename Atom::Fragment;

    uint32_t at;
    Fragment fragment[BLOCKS];

    __device__ __forceinline__ TransposedOperand(uint32_t element, uint32_t chunk)
        : at(Layout::lds_offset(chunk * 8 + element % 8, element / 8)) {}
    __device__ __forceinline__ void load(LdsBytes tile, int step, int) {
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) {
            LdsBytes block = tile + i * (Atom::COLUMNS / 8) * Layout::CHUNK_PITCH;
            LdsBytes from = block + at + step * Atom::STEP_CHUNKS * 8 * Layout::CHUNK;
            fragment[i].chunk[0] = Atom::template load_transposed<typename Fragment::Words>(from);
        }
    }
};

// A tile of rows that are copied straight to LDS: they are on their way there from when they are asked for.
template <class T, int ROWS, int CHUNKS, int THREADS> struct DirectTile : CopiedTile<T, ROWS, CHUNKS, THREADS> {
    using Base = CopiedTile<T, ROWS, CHUNKS, THREADS>;
    using typename Base::Layout;
    static constexpr bool DIRECT = true;
    static constexpr int BYTES = Layout::BYTES, STAGE_CHUNKS = ROWS / 8;
    template <int BLOCKS> using Read = TransposedOperand<T, Layout, BLOCKS>;
    LdsBytes to;

    __device__ __forceinline__ explicit DirectTile(uint32_t dim) : Base(dim) {}

    // Where it will lie. What is beyond a head's elements is made 0 there.
    __device__ __forceinline__ void into(LdsBytes tile) {
        to = tile + Layout::lds_offset(this->row, this->chunk);
        if (is_there()) return;
#pragma unroll
        for (int i = 0; i < Base::VECTORS; i++)
            if (this->mine(i)) lds_store(lds_offset(i), typename Base::Vector(0u));
    }
    template <class At> __device__ __forceinline__ void load(At at) {
#pragma unroll
        for (int i = 0; i < Base::VECTORS; i++) copy((const char *)at(this->row + i * Base::STEP), i);
    }
    __device__ __forceinline__ void load_lines(const T *lines, uint32_t pitch) {
        auto from = (const char *)(lines + (uint64_t)this->row * pitch);
#pragma unroll
        for (int i = 0; i < Base::VECTORS; i++) copy(from + (uint64_t)(i * Base::STEP * 2) * pitch, i);
    }
    __device__ __forceinline__ void stage(LdsBytes) {}
    // Where those read from element `element` on who transpose it.
    static __device__ __forceinline__ LdsBytes operand_at(LdsBytes tile, int, int element) {
        return tile + element / 8 * Layout::CHUNK_PITCH;
    }

private:
    __device__ __forceinline__ bool is_there() const { return this->chunk * 8 < this->dim; }
    __device__ __forceinline__ LdsBytes lds_offset(int i) const { return to + i * Base::STEP * 16; }
    __device__ __forceinline__ void copy(const char *row, int i) const {
        if (this->mine(i)) copy_to_lds(lds_offset(i), row + this->from, is_there());
    }
};
#endif

// Values of KEYS keys and ELEMENTS elements, transposed by the products' own K-blocks, of one or more stages of 32
// keys. Of TENSORS tensors those of one follow the others'.
template <class T, int KEYS, int ELEMENTS, int THREADS_, int TENSORS = 1> struct ValueTile {
    struct Shape {
        static constexpr int STAGE_BYTES = min_of(KEYS, 32) * 2, STAGES_OF_K_BLOCK = ceil_div(KEYS, 32),
                             VECTORS = STAGE_BYTES / 16;
        static constexpr int WAVE = WAVEFRONT, THREADS = THREADS_;
        template <class Element, int ROWS> using Stage = ::Stage<Element, ROWS, VECTORS>;
    };
    using Transposed = KBlock<T, TENSORS * ELEMENTS, Shape, false>;
    using Stage = typename Transposed::Stage;
    static constexpr int BYTES = Shape::STAGES_OF_K_BLOCK * Stage::BYTES, STAGE_CHUNKS = Shape::VECTORS;
    using Atom = AttentionAtom<T>;
    template <int BLOCKS> using Read = Operand<T, Stage, BLOCKS, Atom::OTHERS>;
    Transposed k_block{(const T *)nullptr, 1, 0, TENSORS *ELEMENTS, 0, KEYS};
    uint32_t dim;

    // `dim` counts the elements from the tile's first on.
    __device__ __forceinline__ explicit ValueTile(uint32_t dim) : dim(dim) {}
    __device__ __forceinline__ void into(LdsBytes) {}
    // Where those read who want a stage from element `element` on.
    static __device__ __forceinline__ LdsBytes operand_at(LdsBytes tile, int lds_stage, int element) {
        return tile + lds_stage * Stage::BYTES + Stage::position(element) * 16;
    }

    // Reads vectors, `vector` each, of a block's line. In place of elements beyond the head's its first are read: what
    // comes of them is not stored.
    template <class F> __device__ __forceinline__ void load_each(F vector) {
#pragma unroll
        for (int i = 0; i < Transposed::BLOCKS; i++) {
            auto block = Transposed::block(i);
            // Whole wavefronts have blocks of one, if these are enough: the bit of a block's number that says which
            // comes after those of its row and part.
            uint32_t tensor = TENSORS == 1 ? 0 : block.row / ELEMENTS;
            if (ELEMENTS >= 128 && ELEMENTS / Transposed::V * Transposed::SEGMENTS >= WAVEFRONT)
                tensor = uniform(tensor);
            block.row %= ELEMENTS;
            if (block.row >= dim) block.row = 0;
#pragma unroll
            for (int l = 0; l < Transposed::LINES; l++)
                if (Transposed::mine(i)) k_block.held[i][l] = vector(block, l, tensor);
        }
    }
    // `at` gives the address of a key's row.
    template <class At> __device__ __forceinline__ void load(At at) {
        load_each([&](auto block, int l, uint32_t) INLINED {
            uint32_t key = Atom::key_at(block.chunk, block.segment * Transposed::LINES + l);
            return load_vector<typename Transposed::Vector>(at(key), block.row * 2);
        });
    }
    // Rows lie `pitch` elements apart. How far a block's lines are from each other does not depend on the block.
    __device__ __forceinline__ void load_lines(const T *lines, uint32_t pitch) {
        load_each([&](auto block, int l, uint32_t) INLINED {
            uint32_t offset = (Atom::key_at(block.chunk, block.segment * Transposed::LINES) * pitch + block.row) * 2;
            return load_vector<typename Transposed::Vector>(lines + (uint64_t)Atom::key_at(0, l) * pitch, offset);
        });
    }
    // Of these, row `last` stands for those after it. `lines` gives a tensor's.
    template <class Lines> __device__ __forceinline__ void load_lines_until(Lines lines, uint32_t last) {
        load_each([&](auto block, int l, uint32_t tensor) INLINED {
            auto of_tensor = lines(tensor);
            uint32_t key = Atom::key_at(block.chunk, block.segment * Transposed::LINES);
            // Lest each line's be in a register all the time.
            opt_barrier_ordered(key);
            uint32_t offset = min_of(key + Atom::key_at(0, l), last) * (of_tensor.row * 2);
            opt_barrier_value(offset);
            offset += block.row * 2;
            return load_vector<typename Transposed::Vector>(of_tensor.base, offset);
        });
    }
    __device__ __forceinline__ void stage(LdsBytes to) {
#pragma unroll
        for (uint32_t &selector : k_block.selectors) opt_barrier_ordered_uniform(selector);
#pragma unroll
        for (int i = 0; i < Transposed::BLOCKS; i++)
            if (Transposed::mine(i))
                k_block.store(to + (Shape::STAGES_OF_K_BLOCK == 1 ? 0 : k_block.lds_stage[i] * Stage::BYTES), i);
    }
};

} // namespace attention
