// The shape of a tile that goes through registers and two stages of LDS.
#pragma once
#include "matmul/split_k/workspace.cuh"
#include "matmul/stages/stage.cuh"

// A tile of M x N of C, by WAVES_M x WAVES_N wavefronts. STAGES_OF_K_BLOCK stages of STAGE_BYTES of k are a K-block;
// two stages are in LDS.
template <int M_, int N_, int WAVES_M_, int WAVES_N_, int STAGE_BYTES_, int STAGES_OF_K_BLOCK_,
          SplitK REDUCTION_ = SplitK::SeparateKernel>
struct MatmulShape {
    static constexpr int M = M_, N = N_, WAVES_M = WAVES_M_, WAVES_N = WAVES_N_;
    static constexpr int STAGE_BYTES = STAGE_BYTES_, STAGES_OF_K_BLOCK = STAGES_OF_K_BLOCK_, VECTORS = STAGE_BYTES / 16;
    static constexpr int WAVE = WAVEFRONT, THREADS = WAVES_M * WAVES_N * WAVE, LAUNCH_LDS = 0;
    static constexpr SplitK REDUCTION = REDUCTION_;
    static constexpr bool WHOLE_CACHE_LINES = false;
    template <class T, int ROWS> using Stage = ::Stage<T, ROWS, VECTORS>;
};
