// Products of matrices: PTX's mma, ldmatrix and movmatrix, and nvcuda::wmma. A warp's numbers come from its threads'
// words. Only whole warps do so.
#include "program.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

template <class A, class B> constexpr bool SAME = false;
template <class A> constexpr bool SAME<A, A> = true;

#define WHOLE_WARP \
    if (LANES < 32) return

PROGRAM(mma_f16) {
    WHOLE_WARP;
    // Halves of 8 values each: 1 to 1.875, by bits.
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = 0x3c003c00u | (in[i] & 0x03800380u);
    for (int i = 0; i < 2; i++) b[i] = 0x3c003c00u | (in[i] >> 3 & 0x03800380u);
    float d[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; i++) out[i] = __float_as_uint(d[i]);
}
PROGRAM(mma_bf16) {
    WHOLE_WARP;
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = 0x3f803f80u | (in[i] & 0x00700070u);
    for (int i = 0; i < 2; i++) b[i] = 0x3f803f80u | (in[i] >> 3 & 0x00700070u);
    float d[4];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%10,%11,%12,%13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(1.f), "f"(2.f), "f"(3.f),
                   "f"(4.f));
    for (int i = 0; i < 4; i++) out[i] = __float_as_uint(d[i]);
}
PROGRAM(mma_s8) {
    WHOLE_WARP;
    int d[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3]), "r"(in[1] ^ in[2]), "r"(in[0] ^ in[3]));
    for (int i = 0; i < 4; i++) out[i] = (uint32_t)d[i];
}
PROGRAM(mma_f16_sums) {
    WHOLE_WARP;
    uint32_t a[4], b[2], d[2] = {0x3c003c00u, 0x40003c00u};
    for (int i = 0; i < 4; i++) a[i] = 0x3c003c00u | (in[i] & 0x03000300u);
    for (int i = 0; i < 2; i++) b[i] = 0x3c003c00u | (in[i] >> 3 & 0x03000300u);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    out[0] = d[0], out[1] = d[1];
}
PROGRAM(load_matrices) {
    __shared__ uint4 rows[96];
    rows[threadIdx.x] = make_uint4(in[0], in[1], in[2], in[3]);
    __syncthreads();
    WHOLE_WARP;
    uint32_t address = (uint32_t)__cvta_generic_to_shared(&rows[threadIdx.x]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address));
}
PROGRAM(load_turned) {
    __shared__ uint4 rows[96];
    rows[threadIdx.x] = make_uint4(in[0], in[1], in[2], in[3]);
    __syncthreads();
    WHOLE_WARP;
    uint32_t address = (uint32_t)__cvta_generic_to_shared(&rows[threadIdx.x]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(out[0]), "=r"(out[1])
                 : "r"(address));
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out[2]) : "r"(out[0]));
}
// A 16 x 16 product whose matrices are made from rows and columns: a[r][k] = r + 2 k, b[k][c] = k - c.
template <int M, int N, class T, class LayoutB> __device__ void product(float *sums) {
    using namespace nvcuda::wmma;
    __shared__ T a[M * 16], b[16 * N];
    // Those threads that are left, all of whole warps.
    int threads = (int)blockDim.x / 32 * 32;
    for (int i = (int)threadIdx.x; i < M * 16; i += threads) a[i] = T((float)(i / 16 + 2 * (i % 16)));
    constexpr bool BY_ROWS = SAME<LayoutB, row_major>;
    for (int i = (int)threadIdx.x; i < 16 * N; i += threads)
        b[i] = BY_ROWS ? T((float)(i / N - i % N)) : T((float)(i % 16 - i / 16));
    __syncthreads();
    fragment<matrix_a, M, N, 16, T, row_major> left;
    fragment<matrix_b, M, N, 16, T, LayoutB> right;
    fragment<accumulator, M, N, 16, float> sum;
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, b, BY_ROWS ? N : 16);
    fill_fragment(sum, 0.5f);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(sums, sum, N, mem_row_major);
}
PROGRAM(wmma_half) {
    __shared__ float sums[256];
    WHOLE_WARP;
    product<16, 16, __half, nvcuda::wmma::row_major>(sums);
    for (int i = 0; i < 4; i++) out[i] = __float_as_uint(sums[4 * (threadIdx.x % 32) + i]);
}
PROGRAM(wmma_bfloat_columns) {
    __shared__ float sums[256];
    WHOLE_WARP;
    product<8, 32, __nv_bfloat16, nvcuda::wmma::col_major>(sums);
    for (int i = 0; i < 4; i++) out[i] = __float_as_uint(sums[4 * (threadIdx.x % 32) + i]);
}
PROGRAM(wmma_tall) {
    __shared__ float sums[256];
    WHOLE_WARP;
    product<32, 8, __half, nvcuda::wmma::col_major>(sums);
    for (int i = 0; i < 4; i++) out[i] = __float_as_uint(sums[4 * (threadIdx.x % 32) + i]);
}
