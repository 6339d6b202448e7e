// Global, flat, scratch and LDS accesses, atomics, barriers, cross-lane operations.
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
typedef _Float16 half_t;
typedef float float4_t __attribute__((ext_vector_type(4)));
typedef float float3_t __attribute__((ext_vector_type(3)));
typedef int int2_t __attribute__((ext_vector_type(2)));

#define LANE ((int)__builtin_amdgcn_workitem_id_x())

KERNEL widths(char *c, short *s, int *i, long *l, float4_t *v, int2_t *w, float3_t *t, unsigned n) {
    int x = LANE;
    c[x] = c[x + n] + ((signed char *)c)[x + 1];
    ((unsigned char *)c)[x - 9] = c[-x];
    s[x] = s[x + 1000] + ((unsigned short *)s)[x - 1000];
    i[x] = i[x + 5] + i[n];
    l[x] = l[x + 7];
    v[x] = v[x + 1] + v[n];
    w[x] = w[x + 3];
    t[x] = t[x + 2];
}

KERNEL d16(half_t *h, unsigned short *u, unsigned char *b, signed char *sb) {
    int x = LANE;
    h[2 * x] = h[4 * x] + h[4 * x + 1];
    u[x] = (unsigned short)(b[x] | (b[x + 1] << 8)) + (unsigned short)sb[x];
}

KERNEL scratch(int *out, const int *in, int n) {
    int local[64];
    for (int k = 0; k < 64; k++) local[k] = in[k + LANE];
    for (int k = 0; k < n; k++) local[(local[k & 63] + k) & 63] += k;
    for (int k = 0; k < 64; k++) out[k * 64 + LANE] = local[(k * n) & 63];
}

DEVICE __attribute__((noinline)) int callee(int *p, double x, short s) { return p[(int)x] * s + *p; }
KERNEL calls(int *out, double *d, short *s) {
    int tmp[4] = {LANE, 1, 2, 3};
    out[LANE] = callee(LANE & 1 ? tmp : out, d[LANE], s[LANE]);
}

KERNEL lds(float *f, double *d, float4_t *v, unsigned char *b, short *s) {
    SHARED float sf[1024];
    SHARED double sd[512];
    SHARED float4_t sv[256];
    SHARED unsigned char sb[512];
    SHARED short ss[512];
    int x = LANE;
    sf[x] = f[x];
    sf[x + 64] = f[x + 64];
    sd[x] = d[x];
    sv[x] = v[x];
    sb[x] = b[x];
    ss[x] = s[x];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    f[x] = sf[x ^ 1] + sf[(x ^ 1) + 200];
    d[x] = sd[x ^ 3] + sd[(x ^ 3) + 128];
    v[x] = sv[255 - x];
    b[x] = sb[x ^ 7];
    s[x] = ss[x ^ 9] + (signed char)sb[x];
}

template <typename T, typename P> DEVICE void atomics(P p, T *out) {
    T v = (T)LANE;
    out[0] += __scoped_atomic_fetch_add(p, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    out[1] += __scoped_atomic_fetch_and(p + 1, v, __ATOMIC_ACQ_REL, __MEMORY_SCOPE_DEVICE);
    out[2] += __scoped_atomic_fetch_or(p + 2, v, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
    out[3] += __scoped_atomic_fetch_xor(p + 3, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    out[4] += __scoped_atomic_fetch_min(p + 4, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    out[5] += __scoped_atomic_fetch_max(p + 5, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    out[6] += __scoped_atomic_exchange_n(p + 6, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    T expected = v + 1;
    out[7] += __scoped_atomic_compare_exchange_n(p + 7, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    out[8] += expected;
    __scoped_atomic_fetch_add(p + 8, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    __scoped_atomic_fetch_sub(p + 9, v, __ATOMIC_RELEASE, __MEMORY_SCOPE_SYSTEM);
    __scoped_atomic_fetch_max(p + 10, v, __ATOMIC_RELAXED, __MEMORY_SCOPE_SYSTEM);
    __scoped_atomic_store_n(p + 11, v, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
    out[9] += __scoped_atomic_load_n(p + 12, __ATOMIC_SEQ_CST, __MEMORY_SCOPE_SYSTEM);
}
KERNEL atomic_i32(int *p, int *out) { atomics<int>(p + LANE, out); }
KERNEL atomic_u32(unsigned *p, unsigned *out) { atomics<unsigned>(p, out); }
KERNEL atomic_u64(unsigned long *p, unsigned long *out) { atomics<unsigned long>(p + LANE, out); }
KERNEL atomic_i64_lds(long *out) {
    SHARED long s[64];
    atomics<long>(&s[0], out);
}
KERNEL atomic_i32_lds(int *out) {
    SHARED int s[64];
    atomics<int>(&s[LANE], out);
}
KERNEL atomic_float(float *f, double *d, float *out) {
    SHARED float s[64];
    SHARED double sd[64];
    out[0] = __scoped_atomic_fetch_add(f, (float)LANE, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    out[1] = __scoped_atomic_fetch_add(&s[LANE], out[2], __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    __scoped_atomic_fetch_add(d, (double)LANE, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max(f + 1, (float)LANE, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __scoped_atomic_fetch_max(&sd[LANE], (double)LANE, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
    out[3] = s[1] + sd[2];
}

KERNEL lanes(int *i, float *f, unsigned long *l) {
    int x = LANE;
    int v = i[x];
    v += __builtin_amdgcn_update_dpp(v, v, 0xb1, 0xf, 0xf, false);
    v += __builtin_amdgcn_update_dpp(0, v, 0x114, 0xf, 0xe, false);
    v += __builtin_amdgcn_update_dpp(0, v, 0x118, 0xf, 0xc, true);
    v += __builtin_amdgcn_mov_dpp(v, 0x140, 0xf, 0xf, true);
    v += __builtin_amdgcn_mov_dpp(v, 0x141, 0xf, 0xf, true);
    v += __builtin_amdgcn_ds_swizzle(v, 0x401f) + __builtin_amdgcn_ds_swizzle(v, 0x8055) + __builtin_amdgcn_ds_swizzle(v, 0x0818);
    v += __builtin_amdgcn_ds_bpermute(x * 4, v) + __builtin_amdgcn_ds_permute(x * 8, v);
    v += __builtin_amdgcn_readfirstlane(v) + __builtin_amdgcn_readlane(v, 5);
    f[x] += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, f[x]), 0x112, 0xf, 0xf, false));
    l[0] = __builtin_amdgcn_ballot_w64(v > 3);
    i[x] = v + __builtin_amdgcn_s_getreg(0x1801);
    __builtin_amdgcn_s_sleep(2);
    __builtin_amdgcn_s_setprio(1);
    l[1] = __builtin_readcyclecounter();
    if (v == 99) __builtin_trap();
}

KERNEL loops(float *a, const float *b, int n) {
    float acc = 0;
    for (int k = LANE; k < n; k += 64) {
        if (b[k] > 0) acc += b[k] * a[k];
        else if (b[k] < -1) continue;
        else acc -= a[k + 1];
    }
    a[LANE] = acc;
}
