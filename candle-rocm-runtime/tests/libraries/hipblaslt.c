/* Stands in for AMD's hipBLASLt, as far as the runtime calls it. It multiplies f32 and bf16 on the CPU, which on the
   emulated GPU can read device memory, and has no kernel for any other type. What the real one may not be asked, it ends
   the process for. Compiled with cc by tests/blas_lt.rs.

   STAND_IN_FAILS names the function that fails. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What was called, for the test to read. */
struct {
    int handles, descriptions, products, last_batch, choices;
} stand_in_calls;

enum { FAILED = 6, INVALID = 3, F32 = 0, BF16 = 14, PLAIN = 111, TURNED = 112, KERNEL = 77, WORKSPACE = 4096 };
enum { RELU = 2, WITH_BIAS = 4, GELU = 32 };

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int batch;
};

struct product {
    int turned[2], bias_type;
    uint32_t epilogue;
    const void *bias;
};

struct kernel {
    uint8_t data[16];
    size_t most_workspace;
};

struct choice {
    struct kernel kernel;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

static int fails(const char *name) {
    const char *wanted = getenv("STAND_IN_FAILS");
    return wanted && strcmp(wanted, name) == 0;
}

static void *make(size_t bytes) {
    stand_in_calls.descriptions++;
    return calloc(1, bytes);
}

static int end(void *description) {
    stand_in_calls.descriptions--;
    free(description);
    return 0;
}

/* A value of the size that the attribute has. */
static int take(void *place, size_t bytes, const void *value, size_t given) {
    if (bytes != given) return INVALID;
    memcpy(place, value, bytes);
    return 0;
}

static double load(const void *matrix, int type, int64_t at) {
    if (type == F32) return ((const float *)matrix)[at];
    union {
        uint32_t bits;
        float number;
    } wide = {.bits = (uint32_t)((const uint16_t *)matrix)[at] << 16};
    return wide.number;
}

static void store(void *matrix, int type, int64_t at, double x) {
    union {
        float number;
        uint32_t bits;
    } wide = {.number = (float)x};
    if (type == F32)
        ((float *)matrix)[at] = wide.number;
    else
        ((uint16_t *)matrix)[at] = (uint16_t)((wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16);
}

int hipblasLtCreate(void **handle) {
    if (fails("create")) return FAILED;
    stand_in_calls.handles++;
    *handle = &stand_in_calls;
    return 0;
}

int hipblasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
    *layout = make(sizeof **layout);
    **layout = (struct layout){.type = type, .rows = rows, .columns = columns, .ld = ld, .batch = 1};
    return 0;
}
int hipblasLtMatrixLayoutDestroy(struct layout *layout) { return end(layout); }
int hipblasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
    case 0: return take(&layout->batch, 4, value, bytes);
    case 1: return take(&layout->stride, 8, value, bytes);
    default: return INVALID;
    }
}

int hipblasLtMatmulDescCreate(struct product **product, int compute, int scale) {
    if (compute != 2 || scale != F32) abort();
    *product = make(sizeof **product);
    **product = (struct product){.turned = {PLAIN, PLAIN}, .bias_type = -1, .epilogue = 1};
    return 0;
}
int hipblasLtMatmulDescDestroy(struct product *product) { return end(product); }
int hipblasLtMatmulDescSetAttribute(struct product *product, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
    case 0: return take(&product->turned[0], 4, value, bytes);
    case 1: return take(&product->turned[1], 4, value, bytes);
    case 2: return take(&product->epilogue, 4, value, bytes);
    case 3: return take(&product->bias, 8, value, bytes);
    case 4: return take(&product->bias_type, 4, value, bytes);
    default: return INVALID;
    }
}

int hipblasLtMatmulPreferenceCreate(size_t **most_workspace) {
    *most_workspace = make(sizeof **most_workspace);
    return 0;
}
int hipblasLtMatmulPreferenceDestroy(size_t *most_workspace) { return end(most_workspace); }
int hipblasLtMatmulPreferenceSetAttribute(size_t *most_workspace, int attribute, const void *value, size_t bytes) {
    return attribute == 1 ? take(most_workspace, 8, value, bytes) : INVALID;
}

/* What a kernel was chosen for, as a number: it multiplies nothing else. */
static uint64_t kind(const struct product *product, const struct layout *a, const struct layout *b,
                     const struct layout *c, const struct layout *d) {
    const struct layout *all[] = {a, b, c, d};
    uint64_t kind = 17;
    for (int i = 0; i < 4; i++) {
        uint64_t of[] = {all[i]->type, all[i]->rows, all[i]->columns, all[i]->ld, all[i]->stride, all[i]->batch};
        for (int j = 0; j < 6; j++) kind = (kind ^ of[j]) * 0x100000001b3;
    }
    uint64_t of[] = {product->turned[0], product->turned[1], product->bias_type, product->epilogue};
    for (int j = 0; j < 4; j++) kind = (kind ^ of[j]) * 0x100000001b3;
    return kind;
}

int hipblasLtMatmulAlgoGetHeuristic(void *handle, struct product *product, struct layout *a, struct layout *b,
                                    struct layout *c, struct layout *d, size_t *most_workspace, int asked,
                                    struct choice *choice, int *count) {
    *count = 0;
    stand_in_calls.choices++;
    if (handle != &stand_in_calls || asked < 1) abort();
    if (fails("choose")) return FAILED;
    if ((a->type != F32 && a->type != BF16) || *most_workspace < WORKSPACE) return 0;
    *choice = (struct choice){.kernel = {.data = {KERNEL}}, .workspace = WORKSPACE};
    uint64_t for_this = kind(product, a, b, c, d);
    memcpy(&choice->kernel.data[8], &for_this, 8);
    *count = 1;
    return 0;
}

int hipblasLtMatmul(void *handle, struct product *product, const float *alpha, const void *a, struct layout *of_a,
                    const void *b, struct layout *of_b, const float *beta, const void *c, struct layout *of_c, void *d,
                    struct layout *of_d, const struct kernel *kernel, void *workspace, size_t bytes, void *stream) {
    int type = of_a->type, turned_a = product->turned[0] == TURNED, turned_b = product->turned[1] == TURNED;
    uint64_t m = of_d->rows, n = of_d->columns, k = turned_a ? of_a->rows : of_a->columns;
    if (handle != &stand_in_calls || kernel->data[0] != KERNEL || bytes < WORKSPACE) abort();
    uint64_t chosen_for, is = kind(product, of_a, of_b, of_c, of_d);
    memcpy(&chosen_for, &kernel->data[8], 8);
    if (chosen_for != is) abort();
    if (type != of_b->type || type != of_c->type || type != of_d->type) abort();
    if (of_a->batch != of_d->batch || of_b->batch != of_d->batch || of_c->batch != of_d->batch) abort();
    if ((turned_a ? of_a->columns : of_a->rows) != m || (turned_b ? of_b->columns : of_b->rows) != k) abort();
    if ((turned_b ? of_b->rows : of_b->columns) != n || of_c->rows != m || of_c->columns != n) abort();
    if (product->epilogue & WITH_BIAS && (!product->bias || product->bias_type != type)) abort();
    if (fails("multiply")) return FAILED;
    stand_in_calls.products++;
    stand_in_calls.last_batch = of_d->batch;
    memset(workspace, 0xff, WORKSPACE);
    for (int z = 0; z < of_d->batch; z++)
        for (uint64_t column = 0; column < n; column++)
            for (uint64_t row = 0; row < m; row++) {
                double sum = 0;
                for (uint64_t l = 0; l < k; l++) {
                    int64_t at_a = z * of_a->stride + (turned_a ? l + row * of_a->ld : row + l * of_a->ld);
                    int64_t at_b = z * of_b->stride + (turned_b ? column + l * of_b->ld : l + column * of_b->ld);
                    sum += load(a, type, at_a) * load(b, type, at_b);
                }
                double x = *alpha * sum;
                if (*beta != 0) x += *beta * load(c, type, z * of_c->stride + row + column * of_c->ld);
                if (product->epilogue & WITH_BIAS) x += load(product->bias, type, row);
                if (product->epilogue & RELU) x = x > 0 ? x : 0;
                if (product->epilogue & GELU) x *= 0.5 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
                store(d, type, z * of_d->stride + row + column * of_d->ld, x);
            }
    return 0;
}
