// Floating-point and integer arithmetic of every width, and ocml's functions.
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device))
typedef _Float16 half_t;
typedef half_t half2 __attribute__((ext_vector_type(2)));
typedef short short2_t __attribute__((ext_vector_type(2)));
typedef float float2_t __attribute__((ext_vector_type(2)));

extern "C" {
#define OCML(name)                        \
    DEVICE float __ocml_##name##_f32(float); \
    DEVICE double __ocml_##name##_f64(double); \
    DEVICE half_t __ocml_##name##_f16(half_t);
#define EACH(X) X(exp) X(log) X(log2) X(exp2) X(sin) X(cos) X(tan) X(tanh) X(erf) X(sqrt) X(rsqrt) X(floor) X(ceil) X(trunc) X(rint)
EACH(OCML)
DEVICE float __ocml_pow_f32(float, float);
DEVICE double __ocml_pow_f64(double, double);
DEVICE float __ocml_fmod_f32(float, float);
DEVICE double __ocml_fmod_f64(double, double);
DEVICE float __ocml_tgamma_f32(float);
DEVICE float __ocml_ldexp_f32(float, int);
DEVICE double __ocml_ldexp_f64(double, int);
}

#define UNARY(name)                                                                   \
    KERNEL name##_kernel(float *f, double *d, half_t *h) {                            \
        int i = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workgroup_id_x() * 256; \
        f[i] = __ocml_##name##_f32(f[i]);                                             \
        d[i] = __ocml_##name##_f64(d[i]);                                             \
        h[i] = __ocml_##name##_f16(h[i]);                                             \
    }
EACH(UNARY)

KERNEL binary(float *f, double *d, const half_t *h, half_t *g, int n) {
    int i = __builtin_amdgcn_workitem_id_x();
    if (i >= n) return;
    f[i] = __ocml_pow_f32(f[i], f[i + 1]) / __ocml_fmod_f32(f[i + 2], f[i + 3]) + __ocml_tgamma_f32(f[i + 4]);
    d[i] = __ocml_pow_f64(d[i], d[i + 1]) / __ocml_fmod_f64(d[i + 2], d[i + 3]);
    f[i + 5] = __ocml_ldexp_f32(f[i + 6], n);
    d[i + 5] = __ocml_ldexp_f64(d[i + 6], n);
    g[i] = h[i] * h[i + 1] + h[i + 2] / h[i + 3] - __builtin_elementwise_max(h[i + 4], h[i + 5]);
    g[i + 1] = __builtin_elementwise_abs(h[i]) < h[i + 7] ? (half_t)f[i] : (half_t)i;
    f[i + 9] = __builtin_elementwise_max(__builtin_elementwise_min(f[i], 1.0f), -f[i + 1]) * 0.15915494f + 3.25f;
    f[i + 10] = f[i] > f[i + 1] && f[i + 2] != f[i + 3] ? -f[i] : __builtin_elementwise_abs(f[i + 1]);
}

KERNEL packed(half2 *h, short2_t *s, float2_t *f, float *out, unsigned *u) {
    int i = __builtin_amdgcn_workitem_id_x();
    h[i] = h[i + 1] * h[i + 2] + h[i + 3] - half2{(half_t)1.0f, (half_t)2.0f} * h[i + 4].yx;
    h[i + 5] = __builtin_elementwise_max(h[i + 6], -h[i + 7]);
    s[i] = s[i + 1] * s[i + 2] + (s[i + 3] << s[i + 4]) - __builtin_elementwise_min(s[i + 5], s[i + 6]);
    s[i + 7] = s[i + 8] >> (short)3;
    f[i] = f[i + 1] * f[i + 2] + f[i + 3];
    f[i + 4] = f[i + 5] + f[i + 6].yx;
    out[i] = (float)h[i].x * (float)h[i].y + out[i + 1];
    out[i + 2] = __builtin_fmaf((float)h[i].x, (float)h[i + 1].y, out[i + 3]);
    h[i + 8].x = (half_t)((float)h[i + 9].x * (float)h[i + 9].y + (float)h[i + 10].x);
    u[i] = (unsigned short)u[i + 1] * (unsigned char)u[i + 2] + (signed char)(u[i + 3] >> 8);
    u[i + 5] = ((u[i + 6] & 0xff00) >> 8) + ((u[i + 7] >> 16) & 0xff) + (u[i + 8] << 24);
}

template <typename T> DEVICE void integers(T *v, int n) {
    int i = __builtin_amdgcn_workitem_id_x();
    v[i] = v[i] * v[i + 1] + v[i + 2];
    v[i + 1] = v[i + 3] / v[i + 4] + v[i + 5] % v[i + 6];
    v[i + 2] = (v[i + 7] << (n & 31)) | (v[i + 8] >> (n & 15)) ^ ~v[i + 9];
    v[i + 3] = v[i] < v[i + 1] ? v[i + 2] : v[i + 3];
    v[i + 4] = __builtin_elementwise_max(v[i], v[i + 1]) - __builtin_elementwise_min(v[i + 2], (T)17);
    v[i + 5] = (v[i + 6] & v[i + 7]) + (v[i + 8] ^ v[i + 9]) + (T)0x12345678;
}
KERNEL i8(signed char *v, int n) { integers(v, n); }
KERNEL u8(unsigned char *v, int n) { integers(v, n); }
KERNEL i16(short *v, int n) { integers(v, n); }
KERNEL u16(unsigned short *v, int n) { integers(v, n); }
KERNEL i32(int *v, int n) { integers(v, n); }
KERNEL u32(unsigned *v, int n) { integers(v, n); }
KERNEL i64(long *v, int n) { integers(v, n); }
KERNEL u64(unsigned long *v, int n) { integers(v, n); }

KERNEL uniform(unsigned long *v, unsigned long a, unsigned long b, unsigned n, int m) {
    v[0] = a * b + (a << n) - (b >> n);
    v[1] = (long)a >> n;
    v[2] = __builtin_popcountll(a) + __builtin_clzll(b | 1) + __builtin_ctz(n | 1) + __builtin_bitreverse32(n);
    v[3] = a / b + n % (unsigned)m + (a < b ? n : m);
    v[4] = (a & ~b) | (b ^ 0x123456789abcdefull);
    v[5] = ((unsigned long)n * m) >> 32;
    v[6] = __builtin_elementwise_abs(m) + __builtin_elementwise_max(m, (int)n) + (short)m + (signed char)n;
    for (int i = 0; i < m; i++) v[i + 8] = a += b ^ i;
    switch (m) {
    case 1: v[7] = 3; break;
    case 5: v[7] = a; break;
    case 9: v[8] = b; break;
    default: v[9] = n;
    }
}

KERNEL bits(unsigned *u, unsigned long *l, float *f, double *d) {
    int i = __builtin_amdgcn_workitem_id_x();
    u[i] = __builtin_popcount(u[i + 1]) + __builtin_clz(u[i + 2] | 1) + __builtin_ctz(u[i + 3] | 1);
    u[i + 4] = __builtin_bitreverse32(u[i + 5]) + __builtin_bswap32(u[i + 6]);
    u[i + 7] = __builtin_amdgcn_ubfe(u[i + 8], 3, 7) + __builtin_amdgcn_sbfe(u[i + 9], 5, 9);
    u[i + 8] = __builtin_amdgcn_alignbit(u[i], u[i + 1], 7) + __builtin_amdgcn_perm(u[i + 2], u[i + 3], 0x03020107);
    u[i + 9] = __builtin_amdgcn_mbcnt_lo(~0u, 0) + __builtin_amdgcn_sad_u8(u[i], u[i + 1], u[i + 2]);
    l[i] = __builtin_popcountll(l[i + 1]) + __builtin_clzll(l[i + 2] | 1);
    l[i + 3] = (unsigned long)u[i] * u[i + 1] + l[i + 4];
    l[i + 5] = (long)(int)u[i + 2] * (int)u[i + 3];
    l[i + 6] = (unsigned long)d[i] + (unsigned long)f[i];
    d[i] = (double)l[i + 7] + (double)(long)l[i + 8] + (double)u[i] + (double)(int)u[i + 1];
    f[i] = (float)l[i + 9] + (float)u[i + 1] + (float)(int)u[i + 2] + (float)(unsigned char)u[i + 3];
    u[i + 10] = (int)f[i + 1] + (unsigned)f[i + 2] + (int)d[i + 1] + (unsigned)d[i + 2];
    f[i + 3] = __builtin_amdgcn_rcpf(f[i + 4]) + __builtin_amdgcn_rsqf(f[i + 5]) + __builtin_amdgcn_fractf(f[i + 6]);
    f[i + 4] = __builtin_amdgcn_fmed3f(f[i], f[i + 1], f[i + 2]) + __builtin_amdgcn_frexp_mantf(f[i + 3]);
    u[i + 11] = __builtin_amdgcn_class(f[i], 0x1f8) + __builtin_amdgcn_frexp_exp(d[i]);
}
