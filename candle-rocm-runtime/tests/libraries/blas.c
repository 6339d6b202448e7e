/* Stands in for a vendor's library of matrix products, as far as the runtime calls one: cuBLAS's functions, or with
   -DROCBLAS rocBLAS's. It multiplies f32 and f64 on the CPU, which on the emulated GPU can read device memory, and
   refuses every other type. Compiled with cc by tests/gemm_library.rs.

   STAND_IN_FAILS names the function that fails. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What was called, for the test to read. */
struct {
    int created, destroyed, streams_set, workspaces_set, products, last_compute;
} stand_in_calls;

struct handle {
    void *stream, *workspace;
};

static int fails(const char *name) {
    const char *wanted = getenv("STAND_IN_FAILS");
    return wanted && strcmp(wanted, name) == 0;
}

#ifdef ROCBLAS
enum { NO_TRANSPOSE = 111, TRANSPOSE = 112, F32 = 151, F64 = 152, UNSUPPORTED = 2, FAILED = 6 };
#else
enum { NO_TRANSPOSE = 0, TRANSPOSE = 1, F32 = 0, F64 = 1, UNSUPPORTED = 15, FAILED = 13 };
#endif

static double load(const void *matrix, int type, int64_t i) {
    return type == F32 ? ((const float *)matrix)[i] : ((const double *)matrix)[i];
}

static int multiply(int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a, int lda,
                    int64_t stride_a, const void *b, int ldb, int64_t stride_b, const void *beta, void *c, int ldc,
                    int64_t stride_c, int batch, int type, int compute) {
    stand_in_calls.products++;
    stand_in_calls.last_compute = compute;
    if (fails("gemm")) return FAILED;
    if (type != F32 && type != F64) return UNSUPPORTED;
    for (int z = 0; z < batch; z++)
        for (int column = 0; column < n; column++)
            for (int row = 0; row < m; row++) {
                double sum = 0;
                for (int l = 0; l < k; l++) {
                    int64_t at_a = z * stride_a + (op_a == NO_TRANSPOSE ? row + (int64_t)l * lda : l + (int64_t)row * lda);
                    int64_t at_b = z * stride_b + (op_b == NO_TRANSPOSE ? l + (int64_t)column * ldb : column + (int64_t)l * ldb);
                    sum += load(a, type, at_a) * load(b, type, at_b);
                }
                int64_t at = z * stride_c + row + (int64_t)column * ldc;
                double factor = load(beta, type, 0);
                sum = load(alpha, type, 0) * sum + (factor == 0 ? 0 : factor * load(c, type, at));
                if (type == F32)
                    ((float *)c)[at] = (float)sum;
                else
                    ((double *)c)[at] = sum;
            }
    return 0;
}

static int create(struct handle **handle) {
    if (fails("create")) return 1;
    stand_in_calls.created++;
    *handle = calloc(1, sizeof **handle);
    return 0;
}

static int destroy(struct handle *handle) {
    stand_in_calls.destroyed++;
    free(handle);
    return 0;
}

static int set_stream(struct handle *handle, void *stream) {
    if (fails("set_stream")) return 1;
    stand_in_calls.streams_set++;
    handle->stream = stream;
    return 0;
}

#ifdef ROCBLAS
int rocblas_create_handle(struct handle **handle) { return create(handle); }
int rocblas_destroy_handle(struct handle *handle) { return destroy(handle); }
int rocblas_set_stream(struct handle *handle, void *stream) { return set_stream(handle, stream); }
int rocblas_get_version_string(char *text, size_t room) {
    snprintf(text, room, "4.2.0.stand-in");
    return 0;
}
int rocblas_gemm_strided_batched_ex(struct handle *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                                    const void *a, int a_type, int lda, int64_t stride_a, const void *b, int b_type,
                                    int ldb, int64_t stride_b, const void *beta, const void *c, int c_type, int ldc,
                                    int64_t stride_c, void *d, int d_type, int ldd, int64_t stride_d, int batch,
                                    int compute, int algorithm, int32_t solution, uint32_t flags) {
    if (c != d || c_type != d_type || ldc != ldd || stride_c != stride_d || algorithm || solution || flags) abort();
    if (a_type != b_type || a_type != c_type || !handle) abort();
    return multiply(op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, d, ldd, stride_d, batch,
                    a_type, compute);
}
#else
int cublasCreate_v2(struct handle **handle) { return create(handle); }
int cublasDestroy_v2(struct handle *handle) { return destroy(handle); }
int cublasSetStream_v2(struct handle *handle, void *stream) {
    handle->workspace = 0;
    return set_stream(handle, stream);
}
int cublasSetWorkspace_v2(struct handle *handle, void *workspace, size_t bytes) {
    if (!workspace || bytes < 1 << 20) abort();
    stand_in_calls.workspaces_set++;
    handle->workspace = workspace;
    return 0;
}
int cublasGetVersion_v2(struct handle *handle, int *version) {
    *version = 130102;
    return 0;
}
int cublasGemmStridedBatchedEx(struct handle *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                               const void *a, int a_type, int lda, long long stride_a, const void *b, int b_type,
                               int ldb, long long stride_b, const void *beta, void *c, int c_type, int ldc,
                               long long stride_c, int batch, int compute, int algorithm) {
    if (a_type != b_type || a_type != c_type || !handle->workspace || algorithm != 99) abort();
    return multiply(op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch,
                    a_type, compute);
}
#endif
