// What compilers make of ordinary kernels: each is computed again in Rust by exec_programs.rs.
#include "hip_min.h"
#define KERNEL extern "C" __global__ void
#define X __builtin_amdgcn_workitem_id_x()
#define Y __builtin_amdgcn_workitem_id_y()
#define Z __builtin_amdgcn_workitem_id_z()
#define GX __builtin_amdgcn_workgroup_id_x()
#define GY __builtin_amdgcn_workgroup_id_y()
#define GZ __builtin_amdgcn_workgroup_id_z()
#define WX __builtin_amdgcn_workgroup_size_x()
#define WY __builtin_amdgcn_workgroup_size_y()
#define WZ __builtin_amdgcn_workgroup_size_z()

static __device__ __attribute__((always_inline)) void sync() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

KERNEL add(const float *a, const float *b, float *out, unsigned n) {
    unsigned i = GX * WX + X;
    if (i < n) out[i] = a[i] + b[i];
}

// Arguments of every width, and geometry from the hidden ones.
KERNEL arguments(unsigned char a, short b, int c, double d, unsigned char e, unsigned long f, double *out) {
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
    out[4] = e;
    out[5] = f;
    out[6] = WX;
    out[7] = WY;
    out[8] = WZ;
    out[9] = __builtin_amdgcn_grid_size_x();
    out[10] = __builtin_amdgcn_grid_size_y();
    out[11] = __builtin_amdgcn_grid_size_z();
}

// A tree over LDS: 256 items a workgroup.
KERNEL reduce(const int *in, int *out, unsigned n) {
    __shared__ int part[256];
    unsigned i = GX * 256 + X;
    part[X] = i < n ? in[i] : 0;
    sync();
    for (unsigned step = 128; step; step /= 2) {
        if (X < step) part[X] += part[X + step];
        sync();
    }
    if (X == 0) out[GX] = part[0];
}

// The workgroup's items, last first, through dynamic LDS.
extern __shared__ int dynamic[];
KERNEL reverse(int *data) {
    unsigned i = GX * WX + X;
    dynamic[X] = data[i];
    sync();
    data[i] = dynamic[WX - 1 - X];
}

KERNEL grid3(unsigned *out) {
    unsigned x = GX * WX + X, y = GY * WY + Y, z = GZ * WZ + Z;
    unsigned width = __builtin_amdgcn_grid_size_x(), height = __builtin_amdgcn_grid_size_y();
    out[(z * height + y) * width + x] = x | y << 8 | z << 16 | GX << 24;
}

// Loops of different lengths in neighbouring lanes, with a way out and a switch.
KERNEL diverge(unsigned *out, unsigned limit) {
    unsigned start = GX * WX + X + 1, x = start, steps = 0, odd = 0;
    while (x != 1) {
        if (x & 1) {
            x = 3 * x + 1;
            if (++odd > limit) break;
        } else {
            x /= 2;
        }
        steps++;
    }
    switch (start % 5) {
    case 0: steps += 1000; break;
    case 1: steps ^= 0x5555; [[fallthrough]];
    case 2: steps *= 3; break;
    case 3:
        for (unsigned i = 0; i < start % 7; i++) steps += i * start;
        break;
    default: steps = ~steps;
    }
    out[start - 1] = steps;
}

KERNEL transpose(const float *in, float *out, unsigned rows, unsigned columns) {
    __shared__ float tile[32][33];
    unsigned column = GX * 32 + X, row = GY * 32 + Y;
    for (unsigned i = 0; i < 32; i += 8)
        if (column < columns && row + i < rows) tile[Y + i][X] = in[(row + i) * columns + column];
    sync();
    column = GY * 32 + X;
    row = GX * 32 + Y;
    for (unsigned i = 0; i < 32; i += 8)
        if (column < rows && row + i < columns) out[(row + i) * rows + column] = tile[X][Y + i];
}

// An array that cannot stay in registers, and one of bytes.
KERNEL sort_locally(const int *in, int *out, unsigned char *bytes) {
    unsigned i = GX * WX + X;
    int x[24];
    unsigned char seen[32];
    for (int j = 0; j < 24; j++) x[j] = in[i * 24 + j];
    for (int j = 0; j < 32; j++) seen[j] = 0;
    for (int j = 1; j < 24; j++) {
        int value = x[j], k = j;
        for (; k > 0 && x[k - 1] > value; k--) x[k] = x[k - 1];
        x[k] = value;
    }
    for (int j = 0; j < 24; j++) {
        out[i * 24 + j] = x[j];
        seen[x[j] & 31]++;
    }
    for (int j = 0; j < 32; j++) bytes[i * 32 + j] = seen[j];
}

KERNEL doubles(const double *a, const double *b, double *out, unsigned n) {
    unsigned i = GX * WX + X;
    if (i >= n) return;
    out[i] = a[i] / b[i];
    out[n + i] = __builtin_fma(a[i], b[i], a[i] - b[i]);
    out[2 * n + i] = __builtin_sqrt(a[i] * a[i]);
    out[3 * n + i] = __builtin_floor(a[i]) + __builtin_fmax(a[i], b[i]);
    out[4 * n + i] = (double)(long)a[i] + (double)(float)b[i] + (double)(unsigned)(int)a[i];
}

KERNEL floats(const float *a, const float *b, float *out, unsigned n) {
    unsigned i = GX * WX + X;
    if (i >= n) return;
    out[i] = a[i] / b[i];
    out[n + i] = __builtin_sqrtf(a[i] * a[i]);
    out[2 * n + i] = (float)(long)(a[i] * 1e12f);
    out[3 * n + i] = (float)(_Float16)a[i] * (float)(_Float16)b[i];
}

KERNEL integers(const unsigned long *a, const unsigned long *b, unsigned long *out, unsigned n) {
    unsigned i = GX * WX + X;
    if (i >= n) return;
    unsigned long x = a[i], y = b[i];
    out[i] = x / y;
    out[n + i] = x % y;
    out[2 * n + i] = (unsigned long)((long)x / (long)y);
    out[3 * n + i] = (unsigned long)((unsigned __int128)x * y >> 64);
    out[4 * n + i] = (unsigned)x / ((unsigned)y | 1) + (unsigned long)((int)x % ((int)y | 1));
    out[5 * n + i] = x << (y & 63) ^ (unsigned long)((long)x >> (y & 63));
    out[6 * n + i] = __builtin_popcountl(x) + 100 * (x ? __builtin_clzl(x) : 64) + 10000 * (x ? __builtin_ctzl(x) : 64);
    out[7 * n + i] = __builtin_bitreverse64(x) ^ __builtin_bswap64(y);
}

// The same work done once for a whole wavefront: scalar instructions.
KERNEL uniform(const unsigned long *a, const unsigned long *b, unsigned long *out, unsigned n) {
    if (X) return;
    unsigned long x = a[GX], y = b[GX];
    unsigned *small = (unsigned *)&x;
    out[GX] = x * y + (x >> (y & 63)) - (unsigned long)((long)y >> (x & 31));
    out[n + GX] = __builtin_popcountl(x) + 100 * (x ? __builtin_clzl(x) : 64) + 10000 * (x ? __builtin_ctzl(x) : 64);
    out[2 * n + GX] = (x & ~y) ^ (x | ~y) ^ __builtin_bitreverse64(x);
    out[3 * n + GX] = (unsigned long)(unsigned)((int)x < (int)y ? (int)x : (int)y) << 32 | ((unsigned)x > (unsigned)y ? (unsigned)x : (unsigned)y);
    out[4 * n + GX] = (unsigned long)((int)(short)x * (long)(signed char)y) + ((x >> 5) & 0x3ff);
    out[5 * n + GX] = (unsigned long)__builtin_abs((int)(x >> 1) | 1) + (x < y) + 2 * ((long)x < (long)y) + 4 * (x == y);
}

// Atomics that a kernel of many workgroups can end in one way only.
KERNEL atomics(unsigned *words, unsigned long *wide, float *sum, double *sum64, unsigned items) {
    unsigned i = GX * WX + X;
    if (i >= items) return;
#define ORDER __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT
    __hip_atomic_fetch_add(words + 0, i, ORDER);
    __hip_atomic_fetch_sub(words + 1, i, ORDER);
    __hip_atomic_fetch_or(words + 2, 1u << (i & 31), ORDER);
    __hip_atomic_fetch_and(words + 3, ~(1u << (i & 15)), ORDER);
    __hip_atomic_fetch_xor(words + 4, i * 2654435761u, ORDER);
    __hip_atomic_fetch_max(words + 5, i * 7919 % 10007, ORDER);
    __hip_atomic_fetch_min(words + 6, i * 7919 % 10007 + 5, ORDER);
    __hip_atomic_fetch_max((int *)words + 7, (int)(i * 7919 % 10007) - 20000, ORDER);
    __hip_atomic_fetch_min((int *)words + 8, (int)(i * 7919 % 10007) - 5000, ORDER);
    __builtin_amdgcn_atomic_inc32(words + 9, 99, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec32(words + 10, 99, __ATOMIC_RELAXED, "agent");
    // A ticket each: all different.
    unsigned ticket = __hip_atomic_fetch_add(words + 11, 1, ORDER);
    words[16 + ticket] = 1;
    // Compare and swap in a loop.
    unsigned old = __hip_atomic_load(words + 12, ORDER);
    while (!__hip_atomic_compare_exchange_strong(words + 12, &old, old + 3, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {}
    __hip_atomic_fetch_add(wide + 0, (unsigned long)i << 20, ORDER);
    __hip_atomic_fetch_max(wide + 1, (unsigned long)i << 33 | i, ORDER);
    __hip_atomic_fetch_min((long *)wide + 2, -(long)i, ORDER);
    __hip_atomic_fetch_xor(wide + 3, (unsigned long)i * 0x9e3779b97f4a7c15ul, ORDER);
    // Small integers: every order of additions gives the same sum.
    __hip_atomic_fetch_add(sum, (float)(i & 7), ORDER);
    __hip_atomic_fetch_add(sum64, (double)i, ORDER);
}

KERNEL lds_atomics(unsigned *out, unsigned *tickets) {
    __shared__ unsigned words[16];
    __shared__ unsigned long wide[4];
    __shared__ float sum;
    if (X < 16) words[X] = X == 3 || X == 6 || X == 8 ? ~0u >> 1 : 0;
    if (X < 4) wide[X] = 0;
    if (X == 0) sum = 0;
    sync();
#define LOCAL __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP
    unsigned i = X;
    __hip_atomic_fetch_add(words + 0, i, LOCAL);
    __hip_atomic_fetch_sub(words + 1, i, LOCAL);
    __hip_atomic_fetch_or(words + 2, 1u << (i & 31), LOCAL);
    __hip_atomic_fetch_and(words + 3, ~(1u << (i & 15)), LOCAL);
    __hip_atomic_fetch_xor(words + 4, i * 2654435761u, LOCAL);
    __hip_atomic_fetch_max(words + 5, i * 7919 % 10007, LOCAL);
    __hip_atomic_fetch_min(words + 6, i * 7919 % 10007 + 5, LOCAL);
    __hip_atomic_fetch_max((int *)words + 7, (int)i - 20, LOCAL);
    __hip_atomic_fetch_min((int *)words + 8, (int)i - 20, LOCAL);
    __builtin_amdgcn_atomic_inc32(words + 9, 99, __ATOMIC_RELAXED, "workgroup");
    __builtin_amdgcn_atomic_dec32(words + 10, 99, __ATOMIC_RELAXED, "workgroup");
    tickets[GX * WX + X] = __hip_atomic_fetch_add(words + 11, 1, LOCAL);
    unsigned old = __hip_atomic_load(words + 12, LOCAL);
    while (!__hip_atomic_compare_exchange_strong(words + 12, &old, old + 3, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP)) {}
    words[13] = __hip_atomic_exchange(words + 14, 5, LOCAL) | 5;
    __hip_atomic_fetch_add(wide + 0, (unsigned long)i << 33, LOCAL);
    __hip_atomic_fetch_max(wide + 1, (unsigned long)i << 33 | i, LOCAL);
    __hip_atomic_fetch_add(&sum, (float)(i & 7), LOCAL);
    sync();
    if (X < 16) out[GX * 24 + X] = words[X];
    if (X < 4) ((unsigned long *)(out + GX * 24 + 16))[X & 1] = wide[X & 1];
    if (X == 0) out[GX * 24 + 20] = (unsigned)sum;
}

KERNEL lanes(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = GX * WX + X, x = in[i];
    out[i] = __builtin_amdgcn_ds_bpermute((int)(x << 2), (int)i);
    out[n + i] = __builtin_amdgcn_ds_permute((int)((X ^ 3) << 2), (int)x);
    out[2 * n + i] = __builtin_amdgcn_ds_swizzle((int)x, 0x041f);
    out[3 * n + i] = __builtin_amdgcn_ds_swizzle((int)x, 0x801b);
    out[4 * n + i] = __builtin_amdgcn_readfirstlane((int)x);
    out[5 * n + i] = __builtin_amdgcn_readlane((int)x, 5);
    out[6 * n + i] = __builtin_amdgcn_update_dpp(77, (int)x, 0x111, 15, 15, false);
#if __AMDGCN_WAVEFRONT_SIZE__ == 64
    unsigned long votes = __builtin_amdgcn_uicmpl(x & 1, 1, 32);
#else
    unsigned votes = __builtin_amdgcn_ballot_w32(x & 1);
#endif
    out[7 * n + i] = __builtin_popcountl(votes);
    // Only some lanes take part.
    out[8 * n + i] = 0;
    if (X % 3 == 0) out[8 * n + i] = __builtin_amdgcn_ds_bpermute((int)((X + 1) << 2), 9) + 1;
}

// One pointer that is now global, now LDS, now private memory.
static __device__ __attribute__((noinline)) int through(volatile int *p, int value) {
    int old = *p;
    *p = old + value;
    return __hip_atomic_fetch_add((int *)p, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
KERNEL generic(int *global, int *out) {
    __shared__ int shared[256];
    int mine[4] = {1, 2, 3, 4};
    shared[X] = 10 * X;
    sync();
    volatile int *p = X % 3 == 0 ? global + X : X % 3 == 1 ? shared + X : mine + X % 4;
    out[X] = through(p, 5) * 1000 + *p;
}

// A call through a pointer, and recursion.
static __device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
static __device__ __attribute__((noinline)) int square(int x) { return x * x; }
static __device__ __attribute__((noinline)) int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
typedef int (*function)(int);
__device__ function functions[2] = {twice, square};
KERNEL calls(int *out) {
    unsigned i = GX * WX + X;
    out[i] = functions[i % 2](i) + fibonacci(i % 9);
}

// A wavefront that waits for another of its workgroup, and a workgroup that waits for the one before.
KERNEL wait_for_others(volatile unsigned *flags, unsigned *out) {
    __shared__ volatile unsigned ready;
    if (X == 0) ready = 0;
    sync();
    if (X < 64) {
        while (ready == 0) {}
    } else if (X == 64) {
        while (GX > 0 && flags[GX - 1] == 0) {}
        flags[GX] = 1;
        ready = 1;
    }
    out[GX * WX + X] = X < 64 ? ready : 1;
}

// Parts of dwords, wide and unaligned accesses, in global memory and LDS.
struct __attribute__((packed)) loose { unsigned char tag; int a; long b; short c; };
KERNEL widths(const unsigned char *in, unsigned char *out, loose *records) {
    __shared__ loose local[64];
    __shared__ unsigned char bytes[64 * 16];
    typedef int int3v __attribute__((ext_vector_type(3)));
    typedef int int4v __attribute__((ext_vector_type(4)));
    unsigned i = X;
    ((int4v *)bytes)[i] = ((const int4v *)in)[i];
    local[i] = records[i];
    sync();
    unsigned j = i ^ 1;
    loose other = local[j];
    other.a += 1;
    other.b -= 2;
    other.c = (short)-other.c;
    records[i] = other;
    const short *shorts = (const short *)bytes;
    const signed char *signs = (const signed char *)bytes;
    int sum = shorts[8 * j + 1] + signs[16 * j + 5] + bytes[16 * j + 6] + ((const unsigned short *)bytes)[8 * j + 5];
    ((int *)out)[4 * i] = sum;
    ((short *)out)[8 * i + 2] = (short)(sum >> 3);
    ((short *)out)[8 * i + 3] = shorts[8 * j + 7];
    out[16 * i + 8] = (unsigned char)sum;
    out[16 * i + 9] = bytes[16 * j + 9];
    out[16 * i + 10] = in[16 * i + 10] + in[16 * j + 11];
    out[16 * i + 11] = (unsigned char)(sum >> 16);
    ((int *)out)[4 * i + 3] = ((const int *)bytes)[4 * j + 3];
}

// Memory that each lane reaches on its own: every eighth lane, strided, and one place for all.
KERNEL scatter(const float *in, float *out, unsigned stride) {
    unsigned i = GX * WX + X;
    float x = in[i * stride % 1021] + in[5];
    if (i % 8 == 3) x += in[i];
    out[i ^ 21] = x;
}
