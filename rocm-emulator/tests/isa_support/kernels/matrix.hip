// Matrix and dot-product instructions, where the target has them.
#define KERNEL extern "C" __attribute__((global)) void
typedef _Float16 half_t;
typedef float v4f __attribute__((ext_vector_type(4)));
typedef float v16f __attribute__((ext_vector_type(16)));
typedef float v32f __attribute__((ext_vector_type(32)));
typedef float v8f __attribute__((ext_vector_type(8)));
typedef double v4d __attribute__((ext_vector_type(4)));
typedef half_t v2h __attribute__((ext_vector_type(2)));
typedef half_t v4h __attribute__((ext_vector_type(4)));
typedef half_t v8h __attribute__((ext_vector_type(8)));
typedef half_t v16h __attribute__((ext_vector_type(16)));
typedef short v2s __attribute__((ext_vector_type(2)));
typedef short v4s __attribute__((ext_vector_type(4)));
typedef short v8s __attribute__((ext_vector_type(8)));
typedef short v16s __attribute__((ext_vector_type(16)));
typedef int v2i __attribute__((ext_vector_type(2)));
typedef int v4i __attribute__((ext_vector_type(4)));
typedef int v8i __attribute__((ext_vector_type(8)));
typedef int v16i __attribute__((ext_vector_type(16)));

KERNEL dots(int *i, unsigned *u, float *f, v2h *h) {
    int x = __builtin_amdgcn_workitem_id_x();
#if defined(__GFX11__) || defined(__GFX12__)
    i[x] = __builtin_amdgcn_sudot4(true, i[x + 1], true, i[x + 2], i[x + 3], false);
    i[x + 4] = __builtin_amdgcn_sudot4(true, i[x + 1], false, i[x + 2], i[x + 3], true);
#else
    i[x] = __builtin_amdgcn_sdot4(i[x + 1], i[x + 2], i[x + 3], false);
#endif
    u[x] = __builtin_amdgcn_udot4(u[x + 1], u[x + 2], u[x + 3], true);
    f[x] = __builtin_amdgcn_fdot2(h[x], h[x + 1], f[x + 1], false);
}

#if defined(__gfx90a__) || defined(__gfx942__)
KERNEL mfma(v32f *c32, v16f *c16, v4f *c4, v4d *d4, v4h *h, v4s *s, float *f, double *d) {
    c32[0] = __builtin_amdgcn_mfma_f32_32x32x1f32(f[0], f[1], c32[1], 0, 0, 0);
    c16[0] = __builtin_amdgcn_mfma_f32_32x32x8f16(h[0], h[1], c16[1], 0, 0, 0);
    c4[0] = __builtin_amdgcn_mfma_f32_16x16x16f16(h[2], h[3], c4[1], 1, 2, 3);
    c4[2] = __builtin_amdgcn_mfma_f32_4x4x4f16(h[2], h[3], c4[3], 0, 0, 0);
    c4[4] = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(s[0], s[1], c4[5], 0, 0, 0);
    c16[2] = __builtin_amdgcn_mfma_f32_32x32x2f32(f[2], f[3], c16[3], 0, 0, 0);
    c4[6] = __builtin_amdgcn_mfma_f32_16x16x4f32(f[4], f[5], c4[7], 0, 0, 0);
    d4[0] = __builtin_amdgcn_mfma_f64_16x16x4f64(d[0], d[1], d4[1], 0, 0, 0);
    d[2] = __builtin_amdgcn_mfma_f64_4x4x4f64(d[3], d[4], d[5], 0, 0, 0);
}
#endif
#if defined(__gfx908__)
KERNEL mfma(v16f *c16, v4f *c4, v4h *h, v2s *s, float *f) {
    c16[0] = __builtin_amdgcn_mfma_f32_32x32x8f16(h[0], h[1], c16[1], 0, 0, 0);
    c16[2] = __builtin_amdgcn_mfma_f32_32x32x4bf16(s[0], s[1], c16[3], 0, 0, 0);
    c4[0] = __builtin_amdgcn_mfma_f32_16x16x8bf16(s[2], s[3], c4[1], 1, 2, 3);
    c4[2] = __builtin_amdgcn_mfma_f32_16x16x4f32(f[0], f[1], c4[3], 0, 0, 0);
}
#endif
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
// More accumulators than fit the vector registers that a wave of this size may have.
KERNEL __attribute__((amdgpu_flat_work_group_size(1024, 1024))) pressure(v32f *c, float *f) {
    v32f a = c[0], b = c[1], e = c[2];
    for (int k = 0; k < 100; k++) {
        a = __builtin_amdgcn_mfma_f32_32x32x1f32(f[k], f[k + 1], a, 0, 0, 0);
        b = __builtin_amdgcn_mfma_f32_32x32x1f32(f[k], f[k + 2], b, 0, 0, 0);
        e = __builtin_amdgcn_mfma_f32_32x32x1f32(f[k], f[k + 3], e, 0, 0, 0);
    }
    c[0] = a, c[1] = b, c[2] = e;
}
#endif
#if defined(__gfx90a__) || defined(__gfx942__)
KERNEL atomics(double *d, float *f, v2h *h) {
    __builtin_amdgcn_global_atomic_fadd_f64((__attribute__((address_space(1))) double *)d, 1.0);
    __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)f, 1.0f);
    __builtin_amdgcn_global_atomic_fadd_v2f16((__attribute__((address_space(1))) v2h *)h, h[1]);
}
#endif
#if defined(__gfx942__)
KERNEL mfma3(v4f *c4, v16f *c16, v4i *i4, v16i *i16, long *l, v2i *v2, v4i *v4, v4h *h4, v8h *h8, int *idx, float *f) {
    i4[0] = __builtin_amdgcn_mfma_i32_16x16x32_i8(l[0], l[1], i4[1], 0, 0, 0);
    i16[0] = __builtin_amdgcn_mfma_i32_32x32x16_i8(l[0], l[1], i16[1], 0, 0, 0);
    c4[0] = __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(l[2], l[3], c4[1], 0, 0, 0);
    c16[0] = __builtin_amdgcn_mfma_f32_32x32x16_bf8_fp8(l[2], l[3], c16[1], 0, 0, 0);
    c4[2] = __builtin_amdgcn_smfmac_f32_16x16x32_f16(h4[0], h8[0], c4[3], idx[0], 0, 0);
    i4[2] = __builtin_amdgcn_smfmac_i32_16x16x64_i8(v2[0], v4[0], i4[3], idx[1], 1, 2);
    idx[2] = __builtin_amdgcn_cvt_pk_fp8_f32(f[0], f[1], idx[3], true);
    f[2] = __builtin_amdgcn_cvt_f32_bf8(idx[4], 2);
    idx[5] = __builtin_amdgcn_cvt_sr_fp8_f32(f[3], idx[6], idx[7], 3);
}
#endif
#if defined(__gfx1100__)
KERNEL wmma(v8f *c, v16h *h, v16s *s, v8i *i, v4i *a, v2i *b, v16h *ch, v16s *cs) {
    c[0] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(h[0], h[1], c[1]);
    c[2] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(s[0], s[1], c[3]);
    ch[0] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(h[2], h[3], ch[1], true);
    cs[0] = __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(s[2], s[3], cs[1], false);
    i[0] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a[0], false, a[1], i[1], true);
    i[2] = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, b[0], true, b[1], i[3], false);
}
#endif
#if defined(__gfx1201__)
KERNEL wmma(v8f *c, v8h *h, v8s *s, v8i *i, v2i *a, v2i *b) {
    c[0] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(h[0], h[1], c[1]);
    c[2] = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(s[0], s[1], c[3]);
    h[2] = __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(h[2], h[3], h[4]);
    i[0] = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a[0], false, a[1], i[1], true);
    c[4] = __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(a[2], a[3], c[5]);
}
#endif
