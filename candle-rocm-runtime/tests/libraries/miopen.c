/* Stands in for AMD's MIOpen, as far as the runtime calls it. It convolves f32 on the CPU, which on the emulated GPU
   can read device memory, and has no algorithm for any other type. What the real one may not be asked, it ends the
   process for. Compiled with cc by tests/convolution_library.rs.

   STAND_IN_FAILS names the function that fails, STAND_IN_SLEEPS the microseconds that a convolution takes longer. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What was called, for the test to read. */
struct {
    int handles, streams_set, descriptions, searches, convolutions;
} stand_in_calls;

enum { FAILED = 7, BAD = 3, NOT_IMPLEMENTED = 6, HALF = 0, FLOAT = 1, ALGORITHM = 77, WORKSPACE = 4096 };
enum { FORWARD, DATA, WEIGHTS };

struct tensor {
    int type, rank, size[5], stride[5];
};

struct convolution {
    int axes, padding[3], stride[3], dilation[3], groups;
};

struct found {
    int algorithm;
    float milliseconds;
    size_t workspace;
};

/* What was searched for: the real one convolves nothing else. */
enum { MOST = 64 };
static uint64_t searched[MOST];

static int fails(const char *name) {
    const char *wanted = getenv("STAND_IN_FAILS");
    return wanted && strcmp(wanted, name) == 0;
}

static int make(void **description, size_t bytes) {
    stand_in_calls.descriptions++;
    *description = calloc(1, bytes);
    return 0;
}

static int end(void *description) {
    stand_in_calls.descriptions--;
    free(description);
    return 0;
}

int miopenCreate(void **handle) {
    if (fails("create")) return FAILED;
    stand_in_calls.handles++;
    *handle = &stand_in_calls;
    return 0;
}

int miopenSetStream(void *handle, void *stream) {
    if (handle != &stand_in_calls) abort();
    if (fails("set_stream")) return FAILED;
    stand_in_calls.streams_set++;
    return 0;
}

int miopenGetVersion(size_t *major, size_t *minor, size_t *patch) {
    *major = 3, *minor = 4, *patch = 0;
    return 0;
}

const char *miopenGetErrorString(int status) {
    return status == FAILED ? "miopenStatusUnknownError" : "another status";
}

int miopenCreateTensorDescriptor(void **tensor) { return make(tensor, sizeof(struct tensor)); }
int miopenDestroyTensorDescriptor(void *tensor) { return end(tensor); }
int miopenSetTensorDescriptor(struct tensor *tensor, int type, int rank, const int *size, const int *stride) {
    if (rank != 4 && rank != 5) return BAD;
    tensor->type = type, tensor->rank = rank;
    for (int i = 0; i < rank; i++) {
        if (size[i] < 1 || stride[i] < 1) return BAD;
        tensor->size[i] = size[i], tensor->stride[i] = stride[i];
    }
    return 0;
}

int miopenCreateConvolutionDescriptor(void **convolution) { return make(convolution, sizeof(struct convolution)); }
int miopenDestroyConvolutionDescriptor(void *convolution) { return end(convolution); }
int miopenInitConvolutionNdDescriptor(struct convolution *convolution, int axes, const int *padding, const int *stride,
                                      const int *dilation, int mode) {
    if ((axes != 2 && axes != 3) || mode != 0) return BAD;
    *convolution = (struct convolution){.axes = axes, .groups = 1};
    for (int i = 0; i < axes; i++) {
        convolution->padding[i] = padding[i];
        convolution->stride[i] = stride[i];
        convolution->dilation[i] = dilation[i];
    }
    return 0;
}
int miopenSetConvolutionGroupCount(struct convolution *convolution, int groups) {
    convolution->groups = groups;
    return groups < 1 ? BAD : 0;
}

/* What an algorithm was found for, as a number: it convolves nothing else. Ends the process where sizes do not fit. */
static uint64_t kind(int operation, const struct tensor *x, const struct tensor *w, const struct tensor *y,
                     const struct convolution *of) {
    const struct tensor *all[] = {x, w, y};
    uint64_t kind = 17 + operation;
    for (int i = 0; i < 3; i++) {
        if (all[i]->rank != of->axes + 2 || all[i]->type != x->type) abort();
        const int *numbers = (const int *)all[i];
        for (size_t j = 0; j < sizeof(struct tensor) / sizeof(int); j++) kind = (kind ^ numbers[j]) * 0x100000001b3;
    }
    const int *numbers = (const int *)of;
    for (size_t j = 0; j < sizeof *of / sizeof(int); j++) kind = (kind ^ numbers[j]) * 0x100000001b3;
    if (x->size[0] != y->size[0] || w->size[0] != y->size[1] || x->size[1] != w->size[1] * of->groups) abort();
    for (int i = 0; i < of->axes; i++) {
        int reach = (w->size[i + 2] - 1) * of->dilation[i] + 1;
        if ((x->size[i + 2] + 2 * of->padding[i] - reach) / of->stride[i] + 1 != y->size[i + 2]) abort();
    }
    return kind;
}

/* A tensor's axis; there is one of each that is not there. */
static int size(const struct tensor *t, int axes, int axis) { return axis < 3 - axes ? 1 : t->size[axis - 1 + axes]; }
static int64_t at(const struct tensor *t, int axes, int outer, int inner, const int *place) {
    int64_t at = (int64_t)outer * t->stride[0] + (int64_t)inner * t->stride[1];
    for (int axis = 3 - axes; axis < 3; axis++) at += (int64_t)place[axis] * t->stride[axis - 1 + axes];
    return at;
}

static void clear(float *values, const struct tensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= t->size[i];
    memset(values, 0, count * sizeof(float));
}

/* The channels of a group that one place of the outputs meets by one tap. */
static void meet(int operation, int channels, float *x, int x_step, float *w, int w_step, float *y) {
    float sum = 0, of_y = *y;
    for (int c = 0; c < channels; c++, x += x_step, w += w_step) {
        if (operation == FORWARD) sum += *x * *w;
        if (operation == DATA) *x += of_y * *w;
        if (operation == WEIGHTS) *w += of_y * *x;
    }
    *y += sum;
}

static void convolve(int operation, const struct tensor *tx, float *x, const struct tensor *tw, float *w,
                     const struct tensor *ty, float *y, const struct convolution *of) {
    int axes = of->axes, skip = 3 - axes, inner = tw->size[1], outer = ty->size[1] / of->groups;
    if (operation == FORWARD) clear(y, ty);
    if (operation == DATA) clear(x, tx);
    if (operation == WEIGHTS) clear(w, tw);
    int places[3], taps[3], p[3], t[3], input[3] = {0};
    for (int i = 0; i < 3; i++) places[i] = size(ty, axes, i), taps[i] = size(tw, axes, i);
    for (p[0] = 0; p[0] < places[0]; p[0]++)
        for (p[1] = 0; p[1] < places[1]; p[1]++)
            for (p[2] = 0; p[2] < places[2]; p[2]++)
                for (t[0] = 0; t[0] < taps[0]; t[0]++)
                    for (t[1] = 0; t[1] < taps[1]; t[1]++)
                        for (t[2] = 0; t[2] < taps[2]; t[2]++) {
                            int inside = 1;
                            for (int i = 0; i < axes; i++) {
                                int at = p[skip + i] * of->stride[i] + t[skip + i] * of->dilation[i] - of->padding[i];
                                inside &= at >= 0 && at < tx->size[2 + i];
                                input[skip + i] = at;
                            }
                            if (!inside) continue;
                            for (int n = 0; n < ty->size[0]; n++)
                                for (int o = 0; o < ty->size[1]; o++)
                                    meet(operation, inner, x + at(tx, axes, n, o / outer * inner, input),
                                         tx->stride[1], w + at(tw, axes, o, 0, t), tw->stride[1],
                                         y + at(ty, axes, n, o, p));
                        }
}

static int workspace_of(void *handle, int operation, const struct tensor *x, const struct tensor *w,
                        const struct tensor *y, const struct convolution *of, size_t *bytes) {
    if (handle != &stand_in_calls) abort();
    kind(operation, x, w, y, of);
    if (fails("workspace")) return FAILED;
    if (x->type == HALF) return NOT_IMPLEMENTED;
    *bytes = WORKSPACE;
    return 0;
}

static int find(void *handle, int operation, const struct tensor *tx, const struct tensor *tw, const struct tensor *ty,
                const struct convolution *of, void *result, int asked, int *count, struct found *found, void *workspace,
                size_t bytes) {
    if (handle != &stand_in_calls || asked < 1 || bytes < WORKSPACE) abort();
    stand_in_calls.searches++;
    if (fails("find")) return FAILED;
    *count = 0;
    if (tx->type != FLOAT) return 0;
    memset(workspace, 0xff, WORKSPACE);
    memset(result, 0xff, sizeof(float));
    if (stand_in_calls.searches <= MOST) searched[stand_in_calls.searches - 1] = kind(operation, tx, tw, ty, of);
    *found = (struct found){.algorithm = ALGORITHM + operation, .workspace = WORKSPACE};
    *count = 1;
    return 0;
}

static int run(void *handle, int operation, const float *alpha, const float *beta, const struct tensor *tx, void *x,
               const struct tensor *tw, void *w, const struct tensor *ty, void *y, const struct convolution *of,
               int algorithm, void *workspace, size_t bytes) {
    if (handle != &stand_in_calls || *alpha != 1 || *beta != 0 || bytes < WORKSPACE) abort();
    if (algorithm != ALGORITHM + operation) abort();
    uint64_t is = kind(operation, tx, tw, ty, of);
    int known = 0;
    for (int i = 0; i < MOST; i++) known |= searched[i] == is;
    if (!known) abort();
    if (fails("convolve")) return FAILED;
    stand_in_calls.convolutions++;
    memset(workspace, 0xff, WORKSPACE);
    const char *sleeps = getenv("STAND_IN_SLEEPS");
    if (sleeps) usleep(atoi(sleeps));
    convolve(operation, tx, x, tw, w, ty, y, of);
    return 0;
}

#define TENSOR struct tensor *
#define OF struct convolution *of
#define SEARCH int asked, int *count, struct found *found, void *workspace, size_t bytes, bool all

int miopenConvolutionForwardGetWorkSpaceSize(void *handle, TENSOR tw, TENSOR tx, OF, TENSOR ty, size_t *bytes) {
    return workspace_of(handle, FORWARD, tx, tw, ty, of, bytes);
}
int miopenConvolutionBackwardDataGetWorkSpaceSize(void *handle, TENSOR ty, TENSOR tw, OF, TENSOR tx, size_t *bytes) {
    return workspace_of(handle, DATA, tx, tw, ty, of, bytes);
}
int miopenConvolutionBackwardWeightsGetWorkSpaceSize(void *handle, TENSOR ty, TENSOR tx, OF, TENSOR tw,
                                                     size_t *bytes) {
    return workspace_of(handle, WEIGHTS, tx, tw, ty, of, bytes);
}

int miopenFindConvolutionForwardAlgorithm(void *handle, TENSOR tx, void *x, TENSOR tw, void *w, OF, TENSOR ty, void *y,
                                          SEARCH) {
    return find(handle, FORWARD, tx, tw, ty, of, y, asked, count, found, workspace, bytes);
}
int miopenFindConvolutionBackwardDataAlgorithm(void *handle, TENSOR ty, void *y, TENSOR tw, void *w, OF, TENSOR tx,
                                               void *x, SEARCH) {
    return find(handle, DATA, tx, tw, ty, of, x, asked, count, found, workspace, bytes);
}
int miopenFindConvolutionBackwardWeightsAlgorithm(void *handle, TENSOR ty, void *y, TENSOR tx, void *x, OF, TENSOR tw,
                                                  void *w, SEARCH) {
    return find(handle, WEIGHTS, tx, tw, ty, of, w, asked, count, found, workspace, bytes);
}

int miopenConvolutionForward(void *handle, const float *alpha, TENSOR tx, void *x, TENSOR tw, void *w, OF,
                             int algorithm, const float *beta, TENSOR ty, void *y, void *workspace, size_t bytes) {
    return run(handle, FORWARD, alpha, beta, tx, x, tw, w, ty, y, of, algorithm, workspace, bytes);
}
int miopenConvolutionBackwardData(void *handle, const float *alpha, TENSOR ty, void *y, TENSOR tw, void *w, OF,
                                  int algorithm, const float *beta, TENSOR tx, void *x, void *workspace, size_t bytes) {
    return run(handle, DATA, alpha, beta, tx, x, tw, w, ty, y, of, algorithm, workspace, bytes);
}
int miopenConvolutionBackwardWeights(void *handle, const float *alpha, TENSOR ty, void *y, TENSOR tx, void *x, OF,
                                     int algorithm, const float *beta, TENSOR tw, void *w, void *workspace,
                                     size_t bytes) {
    return run(handle, WEIGHTS, alpha, beta, tx, x, tw, w, ty, y, of, algorithm, workspace, bytes);
}
